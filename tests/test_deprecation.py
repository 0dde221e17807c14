"""What is to go is kept for two minor versions, says so, and goes."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import ecgfed
from ecgfed import deprecation
from ecgfed.deprecation import EcgfedDeprecation, deprecated, overdue

ROOT = Path(__file__).parent.parent


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(deprecation, "REGISTER", [])
    return iter(())


def test_nothing_is_overdue() -> None:
    """A deprecated thing that this version should not have any more has to be removed."""
    assert [str(one) for one in overdue(ecgfed.__version__)] == []


@pytest.mark.usefixtures("register")
def test_a_call_warns_where_it_is_made_and_works() -> None:
    @deprecated("0.2", "0.4", "the other")
    def old(number: int, *, plus: int = 0) -> int:
        """Add."""
        return number + plus

    with pytest.warns(
        EcgfedDeprecation, match="old is deprecated since ecgfed 0.2 and goes with 0.4: use the other"
    ) as said:
        assert old(2, plus=3) == 5
    assert said[0].filename == __file__
    assert old.__doc__ == "Add.\n\nDeprecated since 0.2: use the other instead. It goes with 0.4."
    assert (overdue("0.3.9"), len(overdue("0.4.0")), len(overdue("1.0.0"))) == ([], 1, 1)


@pytest.mark.usefixtures("register")
def test_it_is_shown_by_default() -> None:
    """Python hides DeprecationWarning of code that is not the main program; who calls us has to see ours."""

    @deprecated("0.2", "0.4", "the other")
    def old() -> None:
        pass

    with warnings.catch_warnings(record=True) as said:
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)
        old()
    assert len(said) == 1


@pytest.mark.parametrize(("since", "removed"), [("0.2", "0.3"), ("0.2", "0.2"), ("two", "0.4"), ("0.2", "4")])
def test_two_minor_versions_lie_between(since: str, removed: str) -> None:
    with pytest.raises(ValueError, match=r"two minor versions|is no version"):
        deprecated(since, removed, "the other")


def test_the_citation_has_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text("utf-8").splitlines()
    assert f"version: {ecgfed.__version__}" in lines
