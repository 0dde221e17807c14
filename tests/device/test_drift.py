"""Drift says what has changed, by counts that are done here by hand; the figures of benchmarks/drift are its own."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.device import Drift
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY
from ecgfed.exports.device.drift import OF_THE_SIGNAL, REASONS, DriftBounds

FOLDER = Path(__file__).parents[2] / "benchmarks" / "drift"
#: A made-up beat, one millivolt high, and another of another shape.
BEAT = np.exp(-0.5 * ((np.arange(256) - 100) / 6.0) ** 2).astype(np.float32)
OTHER = (np.exp(-0.5 * ((np.arange(256) - 120) / 20.0) ** 2) - BEAT).astype(np.float32)
BOUNDS = DriftBounds(first=20, last=20)


def drift() -> Drift:
    return Drift(3, BOUNDS)


def tell(
    watched: Drift,
    beats: int,
    *,
    label: int = 0,
    uncertain: int = 0,
    far: int = 0,
    poor: int = 0,
    window_mv: NDArray[np.float32] = BEAT,
) -> None:
    """Tell some beats, a second each, of which the first so many are uncertain, far or of poor quality."""
    begin = round(watched.last_beat_s) + 1
    for number in range(beats):
        flags = FLAG_POOR_QUALITY * (number < poor)
        watched.add(float(begin + number), label, number < uncertain, number < far, flags, window_mv)


def test_what_stays_as_it_was_is_no_change() -> None:
    watched = drift()
    for _ in range(10):
        tell(watched, 20, uncertain=3, far=1)
    assert watched.reasons == ()
    assert not watched.label_again
    assert watched.text == ""
    assert not watched.events


@pytest.mark.parametrize(
    ("reason", "options", "value"),
    [
        ("far", {"far": 10}, 10 / 20 / BOUNDS.far),
        ("uncertain", {"uncertain": 20}, 1 / BOUNDS.uncertain),
        ("classes", {"label": 2}, 1 / BOUNDS.classes),
        ("poor", {"poor": 15}, 15 / 20 / BOUNDS.poor),
        ("size", {"window_mv": 2 * BEAT}, 1 / (BOUNDS.size - 1)),
        ("size", {"window_mv": BEAT / 2}, 1 / (BOUNDS.size - 1)),
        ("shape", {"window_mv": -BEAT}, 2 / BOUNDS.shape),
    ],
)
def test_each_change_by_hand(reason: str, options: dict[str, int | NDArray[np.float32]], value: float) -> None:
    """The last twenty beats are all of them changed, so the share of them is what was told."""
    watched = drift()
    tell(watched, 20)
    assert set(watched.values.values()) == {0.0}
    tell(watched, 20, **options)  # type: ignore[arg-type]
    assert watched.values[reason] == pytest.approx(value, rel=2e-3)
    assert watched.reasons == (reason,)
    assert watched.label_again == (reason not in OF_THE_SIGNAL)
    assert REASONS[reason][1:] in watched.text
    assert [(one.reason, one.began) for one in watched.events] == [(reason, True)]


def test_the_shape_is_one_less_the_correlation_of_mean_beats() -> None:
    watched = drift()
    tell(watched, 20)
    tell(watched, 10)
    tell(watched, 10, window_mv=OTHER)
    first, now = (one.reshape(64, 4).mean(axis=1) for one in (BEAT, (BEAT + OTHER) / 2))
    expected = 1 - np.corrcoef(first, now)[0, 1]
    assert watched.values["shape"] * BOUNDS.shape == pytest.approx(expected, abs=0.01)


def test_a_change_is_over_where_little_of_it_is_left_and_not_before() -> None:
    """It begins above a fifth of the beats, and is over below a tenth: in between it stays what it was."""
    watched = drift()
    tell(watched, 20)
    tell(watched, 5, far=5)
    assert watched.reasons == ("far",)  # 5 of 20 are more than a fifth
    tell(watched, 17)
    assert watched.values["far"] == pytest.approx(3 / 20 / BOUNDS.far)
    assert watched.reasons == ("far",)
    tell(watched, 2)
    assert watched.values["far"] == pytest.approx(1 / 20 / BOUNDS.far)
    assert watched.reasons == ()
    assert [one.began for one in watched.events] == [True, False]


def test_beats_of_poor_quality_say_nothing_of_the_patient() -> None:
    watched = drift()
    tell(watched, 20)
    tell(watched, 20, label=2, uncertain=20, far=20, poor=20)
    assert watched.reasons == ("poor",)
    assert not watched.label_again


def test_what_is_compared_with_are_good_beats() -> None:
    """Poor beats at the beginning are counted as such, and the first good ones are waited for."""
    watched = drift()
    tell(watched, 20, poor=20)
    tell(watched, 20, label=1)
    tell(watched, 20, label=1)
    assert watched.reasons == ()
    tell(watched, 20, label=0)
    assert "classes" in watched.reasons


def test_silence_begins_and_ends() -> None:
    watched = drift()
    watched.quiet(59.0, 59.0)
    assert watched.reasons == ()
    watched.quiet(61.0, 61.0)
    assert watched.reasons == ("silence",)
    assert not watched.label_again
    watched.quiet(62.0, 0.0)
    assert watched.reasons == ()


def test_a_new_beginning() -> None:
    watched = drift()
    tell(watched, 20)
    tell(watched, 20, label=2)
    assert watched.label_again
    watched.restart()
    tell(watched, 60, label=2)
    assert watched.reasons == ()
