"""Filters with a finite impulse response: their taps, convolution and resampling, in numpy alone.

What scipy.signal makes of the same, to the last bit on a machine where both round alike (tests/signal/test_fir.py);
importing that package takes longer than reading and classifying half an hour.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Kaiser's parameter and half the length, in samples of the slower signal, of the filter that signals are resampled by.
KAISER_BETA, REACH = 5.0, 10
_I0 = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
    -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13, 2.95505266312964e-12,
    -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07, 1.1173875391201037e-06,
    -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05, 0.00018850288509584165,
    -0.0005763755745385824, 0.0016394756169413357, -0.004324309995050576, 0.010546460394594998,
    -0.02373741480589947, 0.04930528423967071, -0.09490109704804764, 0.17162090152220877, -0.3046826723431984,
    0.6767952744094761,
)  # fmt: skip
#: More phases than this, of sampling frequencies that have little in common, are left to scipy.
_MOST_PHASES = 512


def band_pass(taps: int, low_hz: float, high_hz: float, fs_hz: float) -> Floats:
    """Return the taps (taps,) of a linear-phase band-pass: a windowed sinc (Hamming), 1 in the middle of the band."""
    low, high = low_hz / (0.5 * fs_hz), high_hz / (0.5 * fs_hz)
    at = np.arange(0, taps, dtype=np.float64) - 0.5 * (taps - 1)
    out = high * np.sinc(high * at)
    out -= low * np.sinc(low * at)
    around = np.linspace(-np.pi, np.pi, taps)
    window = np.zeros(taps)
    for number, share in enumerate((0.54, 1 - 0.54)):
        window += share * np.cos(number * around)
    out *= window
    out /= np.sum(out * np.cos(np.pi * at * (0.5 * (low + high))))
    return np.asarray(out)


def low_pass(taps: int, cutoff: float) -> Floats:
    """Return the taps (taps,) of a linear-phase low-pass (Kaiser); ``cutoff`` is a share of half the sampling rate."""
    alpha = 0.5 * (taps - 1)
    at = np.arange(0, taps, dtype=np.float64) - alpha
    out = cutoff * np.sinc(cutoff * at)
    out *= _bessel_i0(KAISER_BETA * np.sqrt(1 - (at / alpha) ** 2.0)) / _bessel_i0(np.array([KAISER_BETA]))
    return np.asarray(out / np.sum(out))


def _bessel_i0(values: Floats) -> Floats:
    """Modified Bessel function of order 0 from 0 to 8, by Cephes' Chebyshev series (S. Moshier), as scipy.special's."""
    before, current, last = np.zeros(len(values)), np.full(len(values), _I0[0]), np.zeros(len(values))
    at = values / 2.0 - 2.0
    for coefficient in _I0[1:]:
        before, last = last, current
        current = at * last - before + coefficient
    exp = np.array([math.exp(value) for value in values.tolist()])  # numpy's own rounds otherwise now and then
    return np.asarray(exp * (0.5 * (current - before)))


@lru_cache(maxsize=16)
def block_step(taps: int) -> int:
    """Return how many samples further each block of an overlap-add convolution begins, for a long signal.

    A block of N samples serves N - K of them, K being ``taps`` - 1, at a cost of N log2(2N): least where N is
    K ln(2 e N). Blocks whose length has small factors alone are transformed fastest.
    """
    overlap = taps - 1
    best = float(overlap)
    for _ in range(100):  # a contraction: its slope is K / N, less than one
        best = overlap * math.log(2 * math.e * best)
    return fast_length(math.ceil(best)) - taps + 1


def fast_length(length: int, factors: tuple[int, ...] = (2, 3, 5, 7, 11)) -> int:
    """Return the least length from ``length`` on that has no other prime factors."""
    while True:
        rest = length
        for factor in factors:
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return length
        length += 1


def convolved(signal: Floats, taps: Floats) -> Floats:
    """Return the full convolution (samples + taps - 1,), by overlap-add; in one block where the signal is short."""
    full = len(signal) + len(taps) - 1
    step = block_step(len(taps)) if len(taps) > 1 else 0
    size = step + len(taps) - 1
    if len(taps) >= len(signal) / 2 or size >= len(signal):
        size = fast_length(full, (2, 3, 5))
        spectrum = np.fft.rfft(signal, size) * np.fft.rfft(taps, size)
        return np.asarray(np.fft.irfft(spectrum, size)[:full])
    count = math.ceil((len(signal) + 1) / step)
    if step * count < full:
        count += 1
    blocks = np.zeros((count, step))
    blocks.reshape(-1)[: len(signal)] = signal
    spectrum = np.fft.rfft(blocks, size)
    spectrum *= np.fft.rfft(taps[None], size)
    blocks_out = np.fft.irfft(spectrum, size)
    out = blocks_out[:, :step].copy()
    overlap = size - step
    out[1:, :overlap] += blocks_out[:-1, step:]
    return out.reshape(-1)[:full]


def resampled(signal: Floats, up: int, down: int) -> Floats:
    """Resample a signal (samples,) by ``up / down``, in lowest terms, with a linear-phase polyphase filter.

    Nothing is taken to lie before its start and after its end.
    """
    if up > _MOST_PHASES:
        from scipy.signal import resample_poly

        return np.asarray(resample_poly(signal, up, down))
    if up == down == 1:
        return signal.copy()
    phases, skipped = _phases(up, down)
    count = -(-len(signal) * up // down)
    return _by_phase(signal, phases, skipped, count, up, down)


@lru_cache(maxsize=16)
def _phases(up: int, down: int) -> tuple[Floats, int]:
    """Return the taps by phase (up, taps), the latest sample's last, and how many outputs come before time 0."""
    half = REACH * max(up, down)
    taps = low_pass(2 * half + 1, 1.0 / max(up, down)) * up
    before = down - half % down
    taps = np.concatenate([np.zeros(before), taps])
    each = -(-len(taps) // up)
    laid = np.zeros(each * up)
    laid[: len(taps)] = taps
    phases = np.ascontiguousarray(laid.reshape(each, up).T[:, ::-1])
    phases.setflags(write=False)
    return phases, (half + before) // down


def _by_phase(signal: Floats, phases: Floats, skipped: int, count: int, up: int, down: int) -> Floats:
    """Return ``count`` outputs from number ``skipped`` on, those of one phase together.

    Output n adds up taps times the samples up to number n * down // up, the oldest first. Of one phase the samples are
    ``down`` apart: laid out by their remainder, they lie side by side.
    """
    each = phases.shape[1]
    rows = -(-(skipped + count) // up)  # outputs of a phase, those before time 0 too
    long = each - 1 + rows * down + down + each
    laid = np.zeros(-(-long // down) * down)
    valid = min(len(signal), len(laid) - (each - 1))
    laid[each - 1 : each - 1 + valid] = signal[:valid]
    columns = np.ascontiguousarray(laid.reshape(-1, down).T)  # (down, ...): sample q * down + c is [c, q]
    out, product = np.zeros((up, rows)), np.empty(rows)
    for number in range(up):
        at, phase = divmod(number * down, up)
        total = out[number]
        for offset, tap in enumerate(phases[phase].tolist()):
            row, column = divmod(at + offset, down)
            np.multiply(columns[column, row : row + rows], tap, out=product)
            total += product
    return np.ascontiguousarray(out.T).reshape(-1)[skipped : skipped + count]


def running_extremes(signal: Floats, width: int) -> tuple[Floats, Floats]:
    """Return the least and the largest of every ``width`` samples in a row, (samples - width + 1,) each."""
    low = high = signal
    reach = 1
    while 2 * reach <= width:
        low, high = np.minimum(low[:-reach], low[reach:]), np.maximum(high[:-reach], high[reach:])
        reach *= 2
    if rest := width - reach:
        low, high = np.minimum(low[:-rest], low[rest:]), np.maximum(high[:-rest], high[rest:])
    return low, high
