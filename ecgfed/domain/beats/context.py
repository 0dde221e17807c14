"""RR features, version 2: what a beat is among the patient's own beats of the last minutes.

A premature atrial beat has the shape of the patient's other beats, and where most beats are premature even their usual
interval. So its interval is compared with the patient's sinus interval: the 90th percentile, over the last minutes, of
the intervals between two beats of the patient's own shape. Atrial beats do not move it until they are nine in ten, and
pauses after ventricular beats are no part of it. Its shape is compared with the mean of the beats that follow so long
an interval (a sinus reference for each patient, as Teijeiro et al. 2018 take one), QRS and P region apart. How alike
the reference's own P regions are says whether a P wave can be missed at all, and how much the rhythm changes from beat
to beat whether a beat can be premature: in atrial fibrillation neither can. Rules made of these come in as features of
their own beside what they are made of, since few patients have what would teach a net the rule.

What a net sees is centred, clipped and masked here and nowhere else. What is void is 0, and a mask of its own says
so. A beat's features depend on the ``HISTORY`` beats before it and the ``LOOK_AHEAD`` beats after it, no more, and are
the same bits however a recording is cut into pieces (``context_stream``).
"""

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.patient_beat import (
    AHEAD,
    BACK,
    BLOCK,
    LOG_UNIT,
    Beats,
    Floats,
    TypicalBeat,
    log_ratio,
    running_quantile,
)

#: Beats before and after a beat that decide its features: references stand on one another four times over (intervals,
#: draft of the shape, intervals between beats of that shape, shapes after long intervals).
HISTORY, LOOK_AHEAD = (4 * BACK + 1) * BLOCK, (4 * AHEAD + 1) * BLOCK
#: No value a net sees is beyond.
LIMIT = 5.0
#: An interval is premature from so much on, as a logarithm.
PREMATURE = 0.05
#: Irregularity: the median of the last 60 changes of the interval, against the one before or the one before that,
#: whichever is less (logarithms), so that a beat that comes early every second time leaves a rhythm regular. The rhythm
#: counts as regular below 0.05, in between by degrees.
CHANGES, CHANGE_SHARE, IRREGULAR, IRREGULAR_WIDTH = 60, 0.50, 0.050, 0.0125
#: No change of the interval counts as less, so that its logarithm ends.
LEAST_CHANGE = 0.005
#: A QRS is like the reference's from 0.88 (not at all) to 0.96 (fully).
LIKE_FROM, LIKE_WIDTH = 0.88, 0.08

#: Names of the features in order; those of ratios are logarithms over ``LOG_UNIT``.
FEATURES = (
    "previous_over_typical",  # interval before the beat over the median between beats of the patient's own shape
    "next_over_sinus",  # interval after it over the sinus interval
    "next_over_previous",
    "irregular",  # see CHANGES; a logarithm, 0 at IRREGULAR
    "qrs_unlike",  # 2 (1 - correlation) with the reference
    "qrs_apart",  # root mean square of the difference to it, over the QRS's own
    "size",  # root mean square of the QRS over the reference's, a logarithm over 0.4
    "width",  # duration of the QRS over the reference's, likewise
    "p_lost",  # share of the P region common to the reference's beats, times (1 - correlation with it)
    "premature",  # how much before the sinus interval, where the rhythm is regular and the QRS like the reference's
    "premature_without_p",  # ... times p_lost
    "premature_unlike",  # how much before the sinus interval, where the QRS is unlike the reference's
    "void_previous",  # masks: 1 where there is no such interval, no reference for intervals, none for shapes
    "void_next",
    "void_reference",
    "void_shape",
)


def values(beats: Beats, typical_beat: TypicalBeat | None = None) -> NDArray[np.float32]:
    """Features of beats in a row; those within ``HISTORY`` and ``LOOK_AHEAD`` of a cut are not to be used."""
    typical_beat = typical_beat or TypicalBeat(beats)
    return features(beats.before_s, typical_beat.typical, typical_beat.sinus, typical_beat.against_reference())


def features(before: Floats, typical: Floats, sinus: Floats, shapes: dict[str, Floats]) -> NDArray[np.float32]:
    """Features of beats in a row from what they are compared with, (beats, features) float32.

    Args:
        before: (beats,) seconds before each beat, NaN where the interval is void.
        typical: (beats,) seconds, the typical interval, NaN where there is none.
        sinus: (beats,) seconds, the sinus interval, likewise.
        shapes: comparison with the reference's shape (``Shapes.against``).
    """
    columns = {**_rhythm(before, typical, sinus), **shapes}
    regular = 1 / (1 + np.exp((columns.pop("change") - IRREGULAR) / IRREGULAR_WIDTH))
    like = _like(columns["qrs_unlike"])
    early = np.minimum(log_ratio(before, sinus) + PREMATURE / LOG_UNIT, 0)
    columns["premature"] = early * regular * like
    columns["premature_without_p"] = early * regular * like * columns["p_lost"]
    columns["premature_unlike"] = early * (1 - like)
    stacked = np.stack([columns[name] for name in FEATURES], axis=1)
    return np.clip(np.where(np.isfinite(stacked), stacked, 0.0), -LIMIT, LIMIT).astype(np.float32)


def _like(unlike: Floats) -> Floats:
    """Return how like the reference's a QRS is, from 0 to 1."""
    return np.clip((1 - unlike / 2 - LIKE_FROM) / LIKE_WIDTH, 0, 1)


def _rhythm(before: Floats, typical: Floats, sinus: Floats) -> dict[str, Floats]:
    """Intervals against the references, NaN where void; ``change`` is the irregularity itself."""
    after = np.append(before[1:], np.nan)
    logs = np.log(before)
    change_1, change_2 = (np.abs(logs - np.concatenate([np.full(by, np.nan), logs])[: len(logs)]) for by in (1, 2))
    change = running_quantile(np.fmin(change_1, change_2), CHANGES, CHANGE_SHARE)
    change = np.where(np.isfinite(change), change, 0.0)  # no rhythm yet is none to be irregular
    return {
        "previous_over_typical": log_ratio(before, typical),
        "next_over_sinus": log_ratio(after, sinus),
        "next_over_previous": log_ratio(after, before),
        "irregular": np.log(np.maximum(change, LEAST_CHANGE) / IRREGULAR),
        "change": change,
        "void_previous": np.isnan(before).astype(np.float64),
        "void_next": np.isnan(after).astype(np.float64),
        "void_reference": np.isnan(typical).astype(np.float64),
    }
