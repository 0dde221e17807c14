"""Where a lead cannot be used, and why: gaps, flat line, rail, spikes, noise, a baseline that jumps.

Every criterion looks at seconds, not at the record, so that a stream comes to the same verdict; the rail alone is the
lead's own extreme. Quality is found beside the path to a window and never changes a window's samples.

Noise is measured where windows keep it (15 to 40 Hz) between the beats, against the height of the beats. On MIT-BIH's
own marks of noise (``~``, lead MLII, pieces of 2 s) this separates with AUC 0.92; published indices on the same pieces
with 0.48 (pSQI, share of 5-15 Hz in 5-40 Hz), 0.79 (kSQI, kurtosis: both Li, Mark and Clifford, Physiol Meas 29:15-32,
2008) and 0.74 (basSQI, share of power below 1 Hz: Clifford, Behar, Li and Rezek, Physiol Meas 33:1419-1433, 2012).
See docs/quality.md and benchmarks/quality.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import tr_later
from ecgfed.domain.signal import fir
from ecgfed.domain.signal.filters import convolved, fill_gaps
from ecgfed.domain.signal.medians import median_above, running_median
from ecgfed.domain.signal.spans import Spans


class Reason(StrEnum):
    """Why a stretch of a lead cannot be used."""

    GAP = tr_later("gap")  # no sample was recorded
    FLAT = tr_later("flat")  # nothing connected: less change than an amplifier's own noise
    RAIL = tr_later("rail")  # the recorder's limit was reached
    SPIKE = tr_later("spike")  # one excursion far outside the beats around it
    NOISE = tr_later("noise")  # muscle or other noise, high against the beats
    BASELINE = tr_later("baseline")  # the baseline jumps by more than a beat's height


#: What leaves nothing to detect a beat in; noise and a moving baseline are left to the detector.
NO_SIGNAL = frozenset({Reason.GAP, Reason.FLAT, Reason.RAIL, Reason.SPIKE})

#: Least duration of a flat line: longer than the still part of any beat, shorter than two beats at 100/min.
FLAT_S = 1.0
#: Most change (peak to peak) in a flat line: two steps of MIT-BIH's recorder, a third of the 30 microvolt that
#: ANSI/AAMI EC13 allows an ECG monitor's own noise, so a connected amplifier shows more.
FLAT_MV = 0.010
#: A rail: the lead's own highest or lowest value, unchanged for so long. The tops of R waves hold MIT-BIH's extremes
#: for 3 samples at most where no rail is; all runs of 4 and more stand at the converter's 0 or 2047.
RAIL_S, RAIL_SAMPLES = 0.02, 4
#: ... and so far from the rest of the lead, so that a quiet baseline is no rail.
RAIL_FROM_REST_MV = 1.0
#: A spike: so high above the baseline, and so many times the height of the beats around. Ventricular beats reach 5.7
#: times in V1, 3.4 in MLII, but then below 2 mV.
SPIKE_MV, SPIKE_TIMES = 2.5, 5.0
#: A spike's flanks lie below the threshold: so much is marked on both sides.
SPIKE_MARGIN_S = 0.05
#: A spike's ringing belongs to it.
SPIKE_RINGS_S = 0.2
#: Noise: root mean square in 15 to 40 Hz between beats, in mV (twenty microvolt disturb no wave, and let a heart's
#: pause be a pause), and as a share of the height of the beats (above it, 0.4% of MLII's unmarked time, 25% of marked).
NOISE_BAND_HZ, NOISE_FILTER_S = (15.0, 40.0), 0.25
NOISE_MV, NOISE_SHARE = 0.020, 0.04
#: Noise does not rest: so many blocks in a row fall below this share of what is noise between the QRS complexes of a
#: clean rhythm of up to 250/min, in 2% of MIT-BIH's noise.
NOISE_REST_BLOCKS, NOISE_REST_SHARE = 3, 0.45
#: Hum: nothing but waves above so many hertz, whose root mean square is this share of the highest deviation (of a sine
#: 0.71). Beside beats it is none of a window's, which end at 40 Hz.
HUM_HZ, HUM_SHARE = 42.0, 0.5
#: A running median over so long sees what is between the beats.
NOISE_WINDOW_S = 2.0
#: A jump: the baseline (median over a second) moves within half a second by so much, and by a beat's height, more than
#: in the half seconds before and after. Slow wander moves evenly, and the windows' filter takes it out.
BASELINE_WINDOW_S, JUMP_S, JUMP_MV = 1.0, 0.5, 1.0
#: The height of the beats: median of the highest deviations from the baseline of five stretches of 2 s.
HEIGHT_S, HEIGHT_STRETCHES = 2.0, 5
#: Noise, or a baseline on the move, that pauses for less than this goes on: a beat would not fit in.
MERGE_S = 1.0
#: Noise and baseline are judged in blocks.
BLOCK_S = 0.05
#: How far away what ``first_look``, ``spikes``, and ``noise_and_jumps`` find can depend on.
FIRST_REACH_S, SPIKE_REACH_S, NOISE_REACH_S = 4.0, 10.0, 10.0
#: No surface ECG comes near: what a broken file holds beyond is taken as this.
LIMIT_MV = 1e4


@dataclass(frozen=True)
class Stretch:
    """A bad stretch of one lead: samples ``start`` to ``stop`` (not included) and why."""

    start: int
    stop: int
    reason: Reason


@dataclass(frozen=True)
class LeadQuality:
    """What was found on one lead.

    Attributes:
        samples: length of the lead.
        fs_hz: sampling frequency in Hz.
        stretches: bad stretches in order of their start; different reasons may overlap.
    """

    samples: int
    fs_hz: float
    stretches: tuple[Stretch, ...]

    def bad(self, reasons: Iterable[Reason] = tuple(Reason)) -> NDArray[np.bool_]:
        """Return (samples,) bool, true where the lead is bad for one of ``reasons``."""
        mask, selected = np.zeros(self.samples, dtype=bool), set(reasons)
        for stretch in self.stretches:
            if stretch.reason in selected:
                mask[stretch.start : stretch.stop] = True
        return mask

    def spans(self, reasons: Iterable[Reason] = tuple(Reason)) -> Spans:
        """Return where the lead is bad for one of ``reasons``, as ``bad`` does, without a value for each sample."""
        selected = set(reasons)
        return Spans.merged((part.start, part.stop) for part in self.stretches if part.reason in selected)

    @property
    def usable_s(self) -> float:
        """Seconds without any fault."""
        return (self.samples - self.spans().total) / self.fs_hz

    def seconds(self) -> dict[str, float]:
        """Return seconds for each reason found; reasons overlap, so they may add up to more than is bad."""
        known = {stretch.reason for stretch in self.stretches}
        present = [reason for reason in Reason if reason in known]
        return {str(reason): round(self.spans([reason]).total / self.fs_hz, 3) for reason in present}

    def reasons_in(self, start: int, stop: int) -> tuple[Reason, ...]:
        """Return the reasons of the stretches that overlap samples ``start`` to ``stop``."""
        present = {part.reason for part in self.stretches if part.start < stop and part.stop > start}
        return tuple(reason for reason in Reason if reason in present)


def runs(mask: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield start and stop (not included) of each run of true values in a mask (samples,), in order."""
    if not mask.any():
        return
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


@dataclass(frozen=True)
class FirstLook:
    """What is lost of a lead, whatever its beats.

    Attributes:
        signal: (samples,) millivolt, gaps bridged, what no surface ECG reaches cut off.
        lost: (samples,) bool, no sample, at the rail or flat.
        masks: gap, rail and flat stretches.
    """

    signal: NDArray[np.float64]
    lost: NDArray[np.bool_]
    masks: dict[Reason, NDArray[np.bool_]]


def first_look(recorded: NDArray[np.float64], fs_hz: float, at_rail: tuple[float, ...]) -> FirstLook:
    """Find gaps, rails and flat lines; nothing of it depends on what is more than ``FIRST_REACH_S`` away."""
    missing = ~np.isfinite(recorded)
    signal, _ = fill_gaps(recorded)
    np.clip(signal, -LIMIT_MV, LIMIT_MV, out=signal)
    rail = np.zeros(len(signal), dtype=bool)
    for extreme in at_rail:
        rail |= stays_at(np.where(missing, np.nan, signal), extreme, fs_hz)
    flat = _flat(signal, missing, fs_hz) & ~rail
    masks = {Reason.GAP: missing, Reason.RAIL: rail, Reason.FLAT: _long_enough(flat, FLAT_S * fs_hz)}
    return FirstLook(signal, missing | rail | flat, masks)


def stays_at(signal: NDArray[np.float64], extreme: float, fs_hz: float) -> NDArray[np.bool_]:
    """Mark where a signal (samples,) holds a value for as long as a rail does."""
    return _long_enough(signal == extreme, max(RAIL_SAMPLES, RAIL_S * fs_hz))


def _long_enough(mask: NDArray[np.bool_], samples: float) -> NDArray[np.bool_]:
    long_runs = np.zeros_like(mask)
    for start, stop in runs(mask):
        long_runs[start:stop] = stop - start >= samples
    return long_runs


def _closed(mask: NDArray[np.bool_], gap: int) -> NDArray[np.bool_]:
    """Fill what lies between two true values that are less than ``gap`` samples apart."""
    at = np.flatnonzero(mask)
    closed = mask.copy()
    for i in np.flatnonzero((np.diff(at) > 1) & (np.diff(at) <= gap)):
        closed[at[i] : at[i + 1]] = True
    return closed


def _flat(signal: NDArray[np.float64], missing: NDArray[np.bool_], fs_hz: float) -> NDArray[np.bool_]:
    """Mark every sample of every second that changes by no more than ``FLAT_MV``."""
    width = int(np.ceil(FLAT_S * fs_hz))
    starts = len(signal) - width + 1
    part = (width + 1) // 2  # each second holds one of these parts whole: where none is still, no second is
    parts = signal[: len(signal) // part * part].reshape(-1, part)
    if starts < 1 or not (parts.max(axis=1) - parts.min(axis=1) <= FLAT_MV).any():
        return np.zeros(len(signal), dtype=bool)
    low, high = fir.running_extremes(signal, width)
    change = high - low
    gaps_before = np.concatenate([[0], np.cumsum(missing)])
    still = (change <= FLAT_MV) & (gaps_before[width:] == gaps_before[:-width])
    counted = np.zeros(len(signal) + 1, dtype=np.int64)
    counted[:starts] += still
    counted[width:] -= still
    return np.cumsum(counted)[:-1] > 0


def block_samples(fs_hz: float) -> int:
    """Return how many samples a block has."""
    return max(1, round(BLOCK_S * fs_hz))


def unit_samples(fs_hz: float) -> int:
    """Return the samples of one of the stretches in which the height of the beats is measured."""
    return block_samples(fs_hz) * round(HEIGHT_S / BLOCK_S)


def spikes(
    signal: NDArray[np.float64], lost: NDArray[np.bool_], fs_hz: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Measure the beats and find the spikes against them.

    Args:
        signal: (samples,) millivolt, bridged by straight lines where it is lost.
        lost: (samples,) bool.
        fs_hz: sampling frequency in Hz.

    Returns:
        Height of the beats around in each block, (samples,) bool, true in a spike, and the baseline in each block.
    """
    blocks = _Blocks(len(signal), block_samples(fs_hz))
    cut = blocks.cut(signal)
    baseline = _baseline(blocks, cut)
    deviation = cut - baseline[:, None]
    deviation = np.abs(deviation, out=deviation).ravel()[: len(signal)]
    height = _beat_height(blocks, deviation, lost)
    spike = (deviation > SPIKE_MV) & ~lost
    if spike.any():
        spike &= deviation > np.maximum(SPIKE_MV, SPIKE_TIMES * blocks.spread(height))
        spike = _widened(_closed(spike, round(SPIKE_RINGS_S * fs_hz)), round(SPIKE_MARGIN_S * fs_hz))
    return height, spike, baseline


def noise_and_jumps(
    signal: NDArray[np.float64],
    lost: NDArray[np.bool_],
    spike: NDArray[np.bool_],
    height: NDArray[np.float64],
    fs_hz: float,
    first: int,
    baseline: NDArray[np.float64] | None = None,
) -> dict[Reason, NDArray[np.bool_]]:
    """Find noise and jumps of the baseline.

    Args:
        signal: (samples,) millivolt, bridged by straight lines where it is lost and in spikes.
        lost: (samples,) bool.
        spike: (samples,) bool.
        height: of the beats, from ``spikes``.
        fs_hz: sampling frequency in Hz.
        first: the lead's sample at which ``signal`` begins.
        baseline: of ``signal``, where ``spikes`` has it: without a spike in it.
    """
    blocks = _Blocks(len(signal), block_samples(fs_hz))
    baseline = _baseline(blocks, blocks.cut(signal)) if baseline is None else baseline
    noise = blocks.spread(_noise(blocks, signal, fs_hz, height, first)) & ~lost & ~spike
    jumps = blocks.spread(_jumps(baseline, height)) & ~lost
    gap = round(MERGE_S * fs_hz)
    return {Reason.NOISE: _closed(noise, gap) & ~lost, Reason.BASELINE: _closed(jumps, gap) & ~lost}


@dataclass(frozen=True)
class _Blocks:
    """A signal cut into short blocks; the last one is filled up."""

    samples: int
    block: int

    def cut(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (blocks, block), not to be changed."""
        rest = -self.samples % self.block
        return (np.pad(values, (0, rest), mode="edge") if rest else values).reshape(-1, self.block)

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one value for each sample from one for each block."""
        return np.repeat(values, self.block)[: self.samples]

    def count_in(self, seconds: float) -> int:
        """Return how many blocks last so long."""
        return max(1, round(seconds / BLOCK_S))


def _baseline(blocks: _Blocks, cut: NDArray[np.float64]) -> NDArray[np.float64]:
    """Baseline in mV, (blocks,), of a signal in blocks: the median over a second, which no beat fills."""
    ordered, half = np.sort(cut, axis=1), blocks.block // 2  # of a few numbers faster than ``np.median``
    medians = ordered[:, half] if blocks.block % 2 else (ordered[:, half - 1] + ordered[:, half]) / 2
    return running_median(medians, blocks.count_in(BASELINE_WINDOW_S))


def _beat_height(blocks: _Blocks, deviation: NDArray[np.float64], lost: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Height of the beats in mV, (blocks,); NaN where the signal is lost for ten seconds."""
    width = blocks.count_in(HEIGHT_S)
    tallest = np.where(lost, -1.0, deviation) if lost.any() else deviation
    tallest = blocks.cut(tallest).T.copy().max(axis=0)  # a lost block is -1; along long rows it is faster
    count = len(tallest)
    tallest = np.pad(tallest, (0, -count % width), constant_values=-1.0).reshape(-1, width).max(axis=1)
    tallest[tallest < 0] = np.nan
    around = np.lib.stride_tricks.sliding_window_view(
        np.pad(tallest, HEIGHT_STRETCHES // 2, constant_values=np.nan), HEIGHT_STRETCHES
    )
    ordered = np.sort(around, axis=1)  # NaN last
    known = np.isfinite(ordered).sum(axis=1)
    row = np.arange(len(ordered))
    height: NDArray[np.float64] = (ordered[row, np.maximum(known - 1, 0) // 2] + ordered[row, known // 2]) / 2
    return np.repeat(height, width)[:count]


def _noise(
    blocks: _Blocks, signal: NDArray[np.float64], fs_hz: float, height: NDArray[np.float64], first: int
) -> NDArray[np.bool_]:
    band = convolved(signal, _noise_taps(fs_hz), first)
    power = np.sqrt((blocks.cut(band) ** 2).mean(axis=1))
    limit, window = np.maximum(NOISE_MV, NOISE_SHARE * height), blocks.count_in(NOISE_WINDOW_S)
    noisy = median_above(power, window, limit)  # between the beats
    if noisy.any():
        around = np.pad(power, NOISE_REST_BLOCKS // 2, mode="edge")
        lowest = np.lib.stride_tricks.sliding_window_view(around, NOISE_REST_BLOCKS).min(axis=1)
        noisy &= median_above(lowest, window, NOISE_REST_SHARE * limit)
    return noisy | _hum(blocks, signal, fs_hz, height)


def _hum(blocks: _Blocks, signal: NDArray[np.float64], fs_hz: float, height: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark where a lead shows nothing but waves of ``HUM_HZ`` and more, as of an electrode without contact."""
    if fs_hz <= 2 * HUM_HZ:
        return np.zeros(len(height), dtype=bool)
    cut, window = blocks.cut(signal), blocks.count_in(NOISE_WINDOW_S)
    deviation = cut.std(axis=1)
    high = median_above(deviation, window, np.maximum(NOISE_MV, HUM_SHARE * height))
    if not high.any():
        return high
    waves = running_median(deviation, window)
    steps = np.sqrt((np.diff(cut, axis=1) ** 2).mean(axis=1))  # of a sine: 2 sin(pi f / fs) times its own
    return high & median_above(steps, window, 2 * np.sin(np.pi * HUM_HZ / fs_hz) * waves)


@lru_cache(maxsize=16)
def _noise_taps(fs_hz: float) -> NDArray[np.float64]:
    taps = fir.band_pass(int(NOISE_FILTER_S * fs_hz) // 2 * 2 + 1, *NOISE_BAND_HZ, fs_hz)
    taps.setflags(write=False)
    return taps


def _jumps(baseline: NDArray[np.float64], height: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark half seconds in which the baseline moves by much more than in the half seconds before and after."""
    step = round(JUMP_S / BLOCK_S)
    moved = np.pad(baseline, step, mode="edge")
    moved = moved[step:] - moved[:-step]  # moved[i]: from block i - step to block i
    current, around = moved[step:-step], (moved[: -2 * step] + moved[2 * step :]) / 2
    jumped = np.zeros(len(baseline), dtype=bool)
    for at in np.flatnonzero(np.abs(current - around) > np.maximum(JUMP_MV, height[step:])):
        jumped[at : at + step + 1] = True
    return jumped


def _widened(mask: NDArray[np.bool_], samples: int) -> NDArray[np.bool_]:
    wide = mask.copy()
    for start, stop in runs(mask):
        wide[max(0, start - samples) : stop + samples] = True
    return wide
