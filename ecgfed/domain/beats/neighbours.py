"""RR features, version 3: the beat among its neighbours, the rhythm around it, and the patient's own beat.

Beside the 16 features of version 2 (``context``) a net gets what decides the cases that these leave open: how much the
intervals around the beat agree (in atrial fibrillation no two do, between premature beats those of the sinus rhythm
do), how much the P regions of the patient's beats have in common, the features of the beats before and after, a
sequence of intervals, and the shape of the patient's own beat, to hold the window against. All of it is a function of
windows and intervals alone, so it streams and exports as version 2 does. docs/decisions/0078 has the measurements.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ecgfed.domain.beats import context
from ecgfed.domain.beats.context import LIMIT
from ecgfed.domain.beats.patient_beat import (
    BLOCK,
    LEAST_MV,
    LOG_UNIT,
    Beats,
    Floats,
    TypicalBeat,
    common_share,
    correlation,
    in_blocks,
    log_ratio,
    quantile,
    running_mean,
)

#: Beats on either side whose features come with a beat's own, and whose intervals do.
NEIGHBOURS, INTERVALS = 3, 8
#: Blocks before and after a beat's own in which intervals are compared.
RHYTHM_BACK, RHYTHM_AHEAD = 4, 3
#: Intervals agree that differ by so much at most, as logarithms; changes are divided by it too.
ALIKE = 0.05
#: No change counts as less; so many intervals make a rhythm.
LEAST_CHANGE, FEWEST_INTERVALS = 0.004, 5
#: Samples of the window that one number of the patient's own beat is the mean of, 11 ms; half as many numbers a second
#: as of a signal of 40 Hz would lose some of it.
STEP = 4
#: Beats before and after a beat that decide its features.
HISTORY, LOOK_AHEAD = context.HISTORY + BLOCK, context.LOOK_AHEAD + BLOCK

RHYTHM = (
    "previous_over_mode",  # interval before the beat over the most frequent one around it, a logarithm over LOG_UNIT
    "next_over_mode",
    "sinus_over_mode",
    "agreeing",  # share of the intervals between beats of the own shape that agree with the most frequent
    "agreeing_all",  # ... of all intervals
    "agreeing_with_own",  # ... that agree with the interval before the beat
    "change_20",  # quantiles of the changes of the interval, logarithms over ALIKE: of all,
    "change_35",
    "change_50",
    "own_change_20",  # between beats of the own shape,
    "own_change_35",
    "nearest_change",  # and medians of the least change against the last four intervals, and the last but one to four
    "nearest_change_late",
    "p_common",  # share of the P region common to the beats after a sinus interval
    "p_common_all",  # ... to all beats of the own shape
    "p_unlike",  # 1 - correlation with the mean P region of these
    "p_size",  # root mean square of the P region over that of the QRS, a logarithm
    "rate",  # 60 / sinus interval in s, less 75, over 30
)
_OFFSETS = [by for by in range(-NEIGHBOURS, NEIGHBOURS + 1) if by]
_SEQUENCE = range(-INTERVALS, INTERVALS + 1)
#: Numbers of the patient's own beat.
REFERENCE_SAMPLES = 256 // STEP
#: Names in order: those of version 2, ``RHYTHM``, those of version 2 of the neighbours, the intervals over the sinus
#: interval and which of them are void, the size of the patient's own QRS in mV and his own beat in units of it.
FEATURES = (
    *context.FEATURES,
    *RHYTHM,
    *(f"{name}_{by:+d}" for by in _OFFSETS for name in context.FEATURES),
    *(f"interval_{by:+d}" for by in _SEQUENCE),
    *(f"void_interval_{by:+d}" for by in _SEQUENCE),
    "reference_mv",
    *(f"reference_{number}" for number in range(REFERENCE_SAMPLES)),
)


def values(beats: Beats) -> NDArray[np.float32]:
    """Features of beats in a row, (beats, features); those near a cut are not to be used (``HISTORY``)."""
    patient_beat = TypicalBeat(beats)
    own = context.values(beats, patient_beat)
    sequence = np.clip(np.nan_to_num(log_ratio(beats.before_s, patient_beat.sinus)), -LIMIT, LIMIT)
    void = np.isnan(beats.before_s).astype(np.float64)
    size_mv = np.exp(running_mean(np.log(patient_beat.size)[:, None], patient_beat.after_sinus))
    reference = running_mean(patient_beat.window, patient_beat.after_sinus)
    pooled = np.nan_to_num(reference.reshape(len(own), REFERENCE_SAMPLES, STEP).mean(axis=2))
    rhythm = _rhythm(beats.before_s, patient_beat)
    columns = [
        own,
        np.clip(np.nan_to_num(rhythm), -LIMIT, LIMIT),
        _around(own.astype(np.float64), _OFFSETS),
        _around(sequence[:, None], _SEQUENCE),
        _around(void[:, None], _SEQUENCE),
        np.where(np.isfinite(size_mv), size_mv, patient_beat.size[:, None]),
        np.clip(pooled, -2 * LIMIT, 2 * LIMIT),
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)


def _around(rows: Floats, offsets: "range | list[int]") -> Floats:
    """The rows (beats, columns) at some offsets from each beat side by side, zero beyond the ends."""
    reach = max(map(abs, offsets))
    padded = np.pad(rows, ((reach, reach), (0, 0)))
    return np.concatenate([padded[reach + by : reach + by + len(rows)] for by in offsets], axis=1)


def _rhythm(before: Floats, patient_beat: TypicalBeat) -> Floats:
    """The features ``RHYTHM``, (beats, 18), NaN where void."""
    logs = np.log(before)
    own = np.where(patient_beat.between, logs, np.nan)
    change = np.abs(np.diff(logs, prepend=np.nan))
    own_change = np.where(np.append(False, patient_beat.between[:-1]), np.abs(np.diff(own, prepend=np.nan)), np.nan)
    lagged = [np.abs(logs - np.concatenate([np.full(by, np.nan), logs])[: len(logs)]) for by in range(1, 5)]
    nearest_late = np.fmin.reduce(lagged[1:])
    own_mode, agreeing = _mode(own)
    mode, agreeing_all = _mode(logs)
    mode = np.where(np.isfinite(own_mode), own_mode, mode)
    p_region, between = patient_beat.p_region, patient_beat.between
    p_mean = running_mean(p_region, between)
    p_sinus = running_mean(p_region, patient_beat.after_sinus)
    p_size = np.maximum(np.sqrt((p_region**2).mean(axis=1)), LEAST_MV)
    columns = [
        (logs - mode) / LOG_UNIT,
        (np.append(logs[1:], np.nan) - mode) / LOG_UNIT,
        (np.log(patient_beat.sinus) - mode) / LOG_UNIT,
        4 * agreeing - 2,
        4 * agreeing_all - 2,
        4 * _agreeing_with_own(logs) - 1.2,
        *(_change(change, share) for share in (0.20, 0.35, 0.50)),
        *(_change(own_change, share) for share in (0.20, 0.35)),
        _change(np.fmin(lagged[0], nearest_late), 0.50),
        _change(nearest_late, 0.50),
        4 * common_share(p_sinus, p_region, patient_beat.after_sinus) - 2,
        4 * common_share(p_mean, p_region, between) - 2,
        1 - correlation(p_region, p_mean),
        np.log(p_size / 0.1),
        (60 / patient_beat.sinus - 75) / 30,
    ]
    return np.stack(columns, axis=1)


def _windows(values: Floats) -> Floats:
    """Values in the blocks around each block, (blocks, values)."""
    blocks = in_blocks(values, np.nan)
    around = np.pad(blocks, ((RHYTHM_BACK, RHYTHM_AHEAD), (0, 0)), constant_values=np.nan)
    width = RHYTHM_BACK + 1 + RHYTHM_AHEAD
    return sliding_window_view(around, width, axis=0).reshape(len(blocks), width * BLOCK)


def _mode(logs: Floats) -> tuple[Floats, Floats]:
    """The most frequent interval around each beat, as a logarithm, and which share of the intervals agrees with it."""
    windows = _windows(logs)
    with np.errstate(invalid="ignore"):
        agree = (np.abs(windows[:, :, None] - windows[:, None, :]) <= ALIKE).sum(axis=2)
    most = agree.max(axis=1, keepdims=True)
    ordered = np.sort(np.where((agree == most) & (most > 0), windows, np.nan), axis=1)
    count = np.isfinite(windows).sum(axis=1)
    enough = count >= FEWEST_INTERVALS
    last = np.maximum(np.isfinite(ordered).sum(axis=1) - 1, 0)
    rows = np.arange(len(ordered))
    mode = np.where(enough, (ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2, np.nan)
    share = np.where(enough, most[:, 0] / np.maximum(count, 1), 0.0)
    return np.repeat(mode, BLOCK)[: len(logs)], np.repeat(share, BLOCK)[: len(logs)]


def _agreeing_with_own(logs: Floats) -> Floats:
    """Which share of the intervals around a beat agrees with the one before it, (beats,); 0 where that is void."""
    windows = _windows(logs)
    own = in_blocks(logs, np.nan)
    with np.errstate(invalid="ignore"):
        agree = (np.abs(own[:, :, None] - windows[:, None, :]) <= ALIKE).sum(axis=2)
    share = agree / np.maximum(np.isfinite(windows).sum(axis=1), 1)[:, None]
    return np.asarray(share.ravel()[: len(logs)])


def _change(change: Floats, share: float) -> Floats:
    """A quantile of the changes around each beat, (beats,), as a logarithm over ``ALIKE``."""
    ordered = np.sort(_windows(change), axis=1)
    value = np.repeat(quantile(ordered, share), BLOCK)[: len(change)]
    return np.log(np.maximum(np.nan_to_num(value), LEAST_CHANGE) / ALIKE)
