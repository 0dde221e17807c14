"""The headline says which of its rates and intervals a second analysis did not confirm."""

from ecgfed.domain.events.rhythm import At, Pauses, Rates
from ecgfed.reports.headline import longest_text, rates_text


def rates(lowest: bool, highest: bool) -> Rates:
    return Rates(70.2, At(50.4, 1.0, 9.0, lowest), At(124.6, 20.0, 24.0, highest), None, None, 100)


def test_rates() -> None:
    assert rates_text(rates(True, True)) == "70/min (50 to 125)"
    assert rates_text(rates(False, True)) == "70/min (50 to 125; lowest not confirmed)"
    assert rates_text(rates(True, False)) == "70/min (50 to 125; highest not confirmed)"
    assert rates_text(rates(False, False)) == "70/min (50 to 125; lowest and highest not confirmed)"
    assert rates_text(Rates(70.2, None, None, None, None, 3)) == "70/min"
    assert rates_text(Rates(None, None, None, None, None, 0)) is None


def test_longest_interval() -> None:
    assert longest_text(Pauses((), At(1.5, 3.0, 4.5), 0)) == "longest interval 1.50 s"
    doubtful = Pauses((), At(1.5, 3.0, 4.5, confirmed=False), 0, (), (At(2.5, 9.0, 11.5, confirmed=False),))
    assert longest_text(doubtful) == "longest interval not confirmed: 1.50 s or more"
