"""Rates that unconfirmed intervals would give, and intervals that a surely recognised run confirms; by hand."""

import numpy as np
import pytest

from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.find import find_events
from ecgfed.domain.events.kinds import kind_of
from ecgfed.domain.events.rhythm import heart_rates
from ecgfed.domain.events.rules import EventRules
from ecgfed.reports.headline import rates_text

FS, CLASSES = 100.0, ("N", "V")
RULES = EventRules(rate_intervals=4)


def with_run(probability: float, *, doubted: bool = False, missed: bool = False) -> Beats:
    """Ten beats at 60/min, eight ventricular ones at 200/min, ten at 60/min; no interval of the run is confirmed."""
    rr_s = [1.0] * 10 + [0.3] * 7 + [1.0] * 10
    if missed:
        rr_s[13] = 0.6
    sample = np.rint((1 + np.concatenate([[0.0], np.cumsum(rr_s)])) * FS).astype(np.int64)
    run = np.isin(np.arange(len(sample)), np.arange(10, 18))
    ventricular = np.where(run, probability, 0.0)
    return Beats(
        sample,
        run.astype(np.int64),
        CLASSES,
        tuple(kind_of(name) for name in CLASSES),
        FS,
        int(sample[-1]) + 100,
        merged(()),
        uncertain=run & (probability < 0.9),
        confirmed=~(run[:-1] | run[1:]),
        doubted=run & doubted,
        probability=np.stack([1 - ventricular, ventricular], axis=1),
    )


def test_a_possible_rate_is_reported() -> None:
    rates = heart_rates(with_run(0.6), RULES)
    assert (rates.highest.value, rates.highest.confirmed) == (pytest.approx(60.0), False)
    assert (rates.highest_possible.value, rates.highest_possible.confirmed) == (pytest.approx(200.0), False)
    assert rates.highest_possible.start_s == pytest.approx(11.0)
    assert rates.lowest_possible is None
    assert rates_text(rates) == "60/min (60 to 60; highest not confirmed; possibly up to 200/min)"


def test_without_a_confirmed_row_the_possible_rates_remain() -> None:
    beats = with_run(0.6)
    assert beats.confirmed is not None
    rates = heart_rates(Beats(**{**vars(beats), "confirmed": np.zeros_like(beats.confirmed)}), RULES)
    assert rates.highest is None
    assert rates.lowest is None
    assert rates.highest_possible.value == pytest.approx(200.0)
    assert rates.lowest_possible.value == pytest.approx(60.0)


@pytest.mark.parametrize("doubted", [False, True])
def test_a_run_of_sure_beats_confirms_its_intervals(doubted: bool) -> None:
    rates = find_events(with_run(0.99, doubted=doubted), RULES).rates
    assert (rates.highest.value, rates.highest.confirmed) == (pytest.approx(200.0), True)
    assert rates.highest_possible is None


def test_a_run_of_unsure_beats_does_not() -> None:
    rates = find_events(with_run(0.6), RULES).rates
    assert not rates.highest.confirmed
    assert rates.highest_possible.value == pytest.approx(200.0)


def test_an_interval_that_may_hide_a_beat_stays_unconfirmed() -> None:
    rates = find_events(with_run(0.99, missed=True), EventRules(rate_intervals=5)).rates
    assert not rates.highest.confirmed
    assert rates.highest_possible is not None  # five of 0.3 s with one of 0.6 s: 300 / 1.8
    assert rates.highest_possible.value == pytest.approx(300 / 1.8)
