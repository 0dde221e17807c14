"""Couplets beside a wave that may be an undetected beat; by hand."""

import dataclasses

import numpy as np
import pytest

from ecgfed.domain.events.beats import SOON_AFTER, SOON_BEFORE, Beats
from ecgfed.domain.events.ectopy import Ectopy, ectopy
from ecgfed.domain.events.kinds import Kind, kind_of
from ecgfed.domain.events.rules import EventRules

FS = 100.0
CLASSES = ("N", "V", "A")
BOTH = SOON_AFTER + SOON_BEFORE


def beats_of(labels: str, waves: dict[int, int], *, unusable: tuple[tuple[int, int], ...] = ()) -> Beats:
    """Beats half a second apart, with waves after some of them."""
    undetected = np.zeros(len(labels) - 1, np.uint8)
    for interval, where in waves.items():
        undetected[interval] = where
    label = np.array([CLASSES.index(one) for one in labels])
    return Beats(
        100 + 50 * np.arange(len(labels)),
        label,
        CLASSES,
        tuple(kind_of(name) for name in CLASSES),
        FS,
        1000,
        np.array(unusable, np.int64).reshape(-1, 2),
        np.zeros(len(labels), np.bool_),
        probability=np.eye(len(CLASSES))[label],
        provisional=True,
        undetected=undetected,
    )


def counted(beats: Beats, kind: Kind = Kind.VENTRICULAR) -> Ectopy:
    found = ectopy(beats, kind, EventRules())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("interval", "where", "per_min"), [(1, SOON_BEFORE, 120), (2, BOTH, 240), (3, SOON_AFTER, 120)]
)
def test_a_couplet_and_a_wave_of_its_rate_are_a_run_to_review(interval: int, where: int, per_min: float) -> None:
    found = counted(beats_of("NNVVNN", {interval: where}))
    (run,) = found.runs
    assert (run.beats, run.undetected, run.first, run.last) == (3, 1, 2, 3)
    assert (run.review, run.name, run.per_min) == (True, "VT", pytest.approx(per_min))
    assert found.couplets == ()
    assert found.total == 2


@pytest.mark.parametrize(
    ("labels", "waves"),
    [
        ("NNVVNN", {}),
        ("NNVVNN", {0: BOTH, 4: BOTH}),  # beside another beat
        ("NNVVNN", {1: SOON_AFTER, 3: SOON_BEFORE}),  # nearer to the normal beat
        ("NNVVNN", {2: SOON_AFTER}),  # late before the second beat
        ("NNVNVN", {2: BOTH}),  # no couplet
    ],
)
def test_other_waves_change_nothing(labels: str, waves: dict[int, int]) -> None:
    with_waves = beats_of(labels, waves)
    assert counted(with_waves) == counted(dataclasses.replace(with_waves, undetected=None))


def test_a_run_is_not_lengthened_and_a_wave_in_what_cannot_be_used_does_not_count() -> None:
    (run,) = counted(beats_of("NVVVN", {0: BOTH, 3: BOTH})).runs
    assert (run.beats, run.undetected, run.review) == (3, 0, False)
    assert counted(beats_of("NNVVNN", {1: BOTH}, unusable=((160, 190),))).runs == ()


def test_supraventricular_couplets_stay() -> None:
    found = counted(beats_of("NNAANN", {1: BOTH, 2: BOTH}), Kind.SUPRA)
    assert (len(found.couplets), found.runs) == (1, ())
