"""Where a lead shows waves like those of ventricular flutter or fibrillation, in which no beat can be told.

A window is like it when its signal, moved by half its mean period, nearly cancels itself (the leakage of the VF filter:
Kuo and Dillman, Computer Detection of Ventricular Fibrillation, Computers in Cardiology 1978:347-349), its mean
frequency is that of ventricular flutter or fibrillation, and it stands away from its baseline most of the time. QRS
complexes, however fast, rest in between and do not cancel. docs/decisions/0066 has the measurements. Movement of the
electrode in that rhythm, a tremor say, looks the same: what is reported is possible, and nothing is counted there.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import Message, messages, tr_later
from ecgfed.domain.events.beats import merged
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal import fir
from ecgfed.domain.signal.filters import bridge_samples, convolved, fill_gaps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: What such an episode is called.
FLUTTER = tr_later("possible ventricular flutter or fibrillation")
#: Windows of so many seconds begin every so many seconds, in the pass-band of so many hertz.
WINDOW_S, STEP_S, PASS_HZ = 4.0, 1.0, (1.0, 20.0)
#: Leakage below which a window is like flutter or fibrillation, and below which one beside it belongs to the episode:
#: of 157,135 windows of DS1, SVDB and QTDB outside flutter none is below the first, 1 in 1,000 below the second.
LEAKAGE, LEAKAGE_BESIDE = 0.45, 0.6
#: Mean frequency of the waves in Hz; share of the samples beyond a fifth of the highest; least height in mV.
WAVES_HZ, AWAY, AWAY_OF, HEIGHT_MV = (2.5, 9.0), 0.4, 0.2, 0.1
#: A window with a larger share of missing samples, and a recording below this sampling frequency, is not assessed.
MISSING, MIN_FS_HZ = 0.1, 50.0
#: Windows whose signal is read at once, and of those how many are measured at once; the length of the filter.
_AT_ONCE, _MEASURED_AT_ONCE, _FILTER_S = 600, 50, 1.5


def flutter_spans(recording: Recording) -> tuple[tuple[int, int], ...]:
    """Return (start, stop) in samples of what is like ventricular flutter or fibrillation in the lead in use.

    An episode is of windows with a leakage below ``LEAKAGE_BESIDE`` that follow one another, one of them below
    ``LEAKAGE``. The recording is read a few minutes at a time, the same way in memory and on the disk.
    """
    if recording.fs_hz < MIN_FS_HZ:
        return ()
    step, width = round(STEP_S * recording.fs_hz), round(WINDOW_S * recording.fs_hz)
    leakage = _leakages(recording, step, width)
    beside = np.concatenate([[False], leakage < LEAKAGE_BESIDE, [False]])
    edges = np.flatnonzero(np.diff(beside))
    episodes = [
        (
            (int(first) + bool(first)) * step,  # a window is like flutter when most of it is
            recording.samples if stop == len(leakage) else (int(stop) - 2) * step + width,
        )
        for first, stop in zip(edges[::2], edges[1::2], strict=True)
        if leakage[first:stop].min() < LEAKAGE
    ]
    return tuple((int(start), int(stop)) for start, stop in merged(episodes))


def flutter_text(spans: Sequence[tuple[int, int]], fs_hz: float) -> Message:
    """Return in a sentence, without a full stop, where there may be flutter or fibrillation."""
    seconds = sum(stop - start for start, stop in spans) / fs_hz
    return messages(
        "Possible ventricular flutter or fibrillation ({n} episode, {seconds:.0f} s in all, the first from second "
        "{first:.0f}): waves in which no beat can be made out, or movement in that rhythm",
        "Possible ventricular flutter or fibrillation ({n} episodes, {seconds:.0f} s in all, the first from second "
        "{first:.0f}): waves in which no beat can be made out, or movement in that rhythm",
        len(spans),
        seconds=seconds,
        first=spans[0][0] / fs_hz,
    )


def _leakages(recording: Recording, step: int, width: int) -> Floats:
    """Return the leakage of each window, (windows,); 1 where too much of it is missing."""
    fs_hz, row = recording.fs_hz, [recording.leads.index(recording.lead)]
    # a FIR filter of ours: importing scipy takes longer than half an hour of signal takes here
    taps = fir.band_pass(int(_FILTER_S * fs_hz) // 2 * 2 + 1, PASS_HZ[0], min(PASS_HZ[1], 0.45 * fs_hz), fs_hz)
    margin, count = len(taps), max(0, (recording.samples - width) // step + 1)
    leakage = np.ones(count)
    for number in range(0, count, _AT_ONCE):
        stop = min(number + _AT_ONCE, count)
        first = max(number * step - margin, 0)
        last = min((stop - 1) * step + width + margin, recording.samples)
        signal, missing = fill_gaps(recording.read(first, last, row)[0], bridge_samples(fs_hz))
        passed = convolved(signal, taps)
        starts = np.arange(number * step - first, stop * step - first, step)
        lost = np.concatenate([[0], np.cumsum(missing)])
        known = lost[starts + width] - lost[starts] <= MISSING * width
        possible = np.flatnonzero(known & _may_be_away(passed, starts, width))
        windows = np.lib.stride_tricks.sliding_window_view(passed, width)
        for some in np.array_split(possible, max(1, len(possible) // _MEASURED_AT_ONCE)):
            leakage[number + some] = _leakage(windows[starts[some]], fs_hz)
    return leakage


def _may_be_away(passed_mv: Floats, starts: Ints, width: int) -> Mask:
    """Return which windows may stand away from their baseline for the share ``AWAY``: a bound, for a tenth of the time.

    What is further from a window's mean m than a threshold is further from 0 than that threshold less |m|, and the
    highest distance from m is at least the highest from 0 less |m|.
    """
    step = int(starts[1] - starts[0]) if len(starts) > 1 else width
    parts = width // step  # steps in a window
    size = np.abs(passed_mv[starts[0] : starts[-1] + parts * step]).reshape(-1, step)
    highest = np.lib.stride_tricks.sliding_window_view(size.max(axis=1), parts).max(axis=1)
    sums = np.concatenate([[0.0], np.cumsum(passed_mv)])
    mean = np.abs(sums[starts + width] - sums[starts]) / width
    threshold = (1 - 1e-9) * (AWAY_OF * (highest - mean) - mean) - 1e-9  # sums are rounded
    away = np.full(len(starts), width - parts * step)
    for part in range(parts):
        away += np.count_nonzero(size[part : part + len(starts)] > threshold[:, None], axis=1)
    return np.asarray(away >= (AWAY - 1e-9) * width)


def _leakage(windows_mv: Floats, fs_hz: float) -> Floats:
    """Return the leakage of windows (windows, samples), 0 (a sine) to 1; 1 where the waves are not those of flutter."""
    wave = windows_mv - windows_mv.mean(axis=1, keepdims=True)
    away = np.abs(wave)
    with np.errstate(divide="ignore", invalid="ignore"):
        # of a sine; of other waves about the mean
        period = 2 * np.pi * away.sum(axis=1) / np.abs(np.diff(wave, axis=1)).sum(axis=1)
        waves_hz = fs_hz / period
    like_waves = (waves_hz >= WAVES_HZ[0]) & (waves_hz <= WAVES_HZ[1]) & (np.ptp(windows_mv, axis=1) >= HEIGHT_MV)
    like_waves &= (away > AWAY_OF * away.max(axis=1, keepdims=True)).mean(axis=1) >= AWAY
    leakage = np.ones(len(windows_mv))
    for number in np.flatnonzero(like_waves).tolist():
        half = max(1, round(float(period[number]) / 2))
        moved = np.abs(wave[number, half:] + wave[number, :-half]).sum()
        leakage[number] = moved / (away[number, half:] + away[number, :-half]).sum()
    return leakage
