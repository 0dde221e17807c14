"""Rhythms put together wave by wave: bigeminy, tall T waves, pauses with P waves, blocks, pacing, fast fibrillation."""

from dataclasses import replace

import numpy as np
from physiology import NORMAL, WIDE, Assembly, Rng, Signal, Strip, bump, cut, heights, levelled, look_alikes, usable


def clear_normal(strip: Strip) -> np.ndarray:
    """Return the normal beats that can be cut."""
    return usable(strip, strip.of(NORMAL))


def normal_pool(strip: Strip, rng: Rng) -> np.ndarray:
    """Return normal beats of one form that stand apart from their neighbours."""
    beats = clear_normal(strip)
    gap = np.diff(strip.beats, prepend=-(10**6), append=10**9)
    clear = dict(zip(strip.beats.tolist(), np.minimum(gap[:-1], gap[1:]).tolist(), strict=True))
    apart = np.array([b for b in beats.tolist() if clear[b] > 0.55 * strip.fs_hz], np.int64)
    beats = apart if len(apart) >= 10 else beats
    return look_alikes(strip, beats, rng)


def wide_pool(strip: Strip, rng: Rng) -> np.ndarray:
    """Return ventricular beats of one form whose T wave ends before the next beat; none where there are no five."""
    beats = usable(strip, strip.of(WIDE))
    before, after = np.diff(strip.beats, prepend=-(10**6)), np.diff(strip.beats, append=10**9)
    clear = strip.beats[(before > 0.3 * strip.fs_hz) & (after > 0.6 * strip.fs_hz)]
    beats = np.intersect1d(beats, clear)
    return look_alikes(strip, beats, rng) if len(beats) > 4 else np.empty(0, np.int64)


def _low_passed(wave: Signal, samples: int) -> Signal:
    kernel = np.hanning(samples + 2)[1:-1]
    return np.stack([np.convolve(lead, kernel / kernel.sum(), "same") for lead in wave])


def t_form(strip: Strip, rng: Rng, *, own: bool) -> Signal:
    """Return a T wave (leads, 0.4 s) of height 1: the median one of the record, or a made one where it has none.

    It is smoothed over 120 ms: what is quicker in that window belongs to the QRS complex or is noise.
    """
    fs = strip.fs_hz
    pool = normal_pool(strip, rng)
    first, count = round(0.1 * fs), round(0.4 * fs)
    windows = np.stack([levelled(strip.signals_mv[:, b + first : b + first + count]) for b in pool[:100].tolist()])
    form = _low_passed(np.median(windows, axis=0), round(0.12 * fs)) * bump(count, round(0.08 * fs))
    top = np.abs(form).max(axis=1, keepdims=True)
    rise, fall, peak = rng.uniform(0.055, 0.085), rng.uniform(0.035, 0.06), rng.uniform(0.17, 0.22)
    time = np.arange(count) / fs - peak
    made = np.exp(-0.5 * (time / np.where(time < 0, rise, fall)) ** 2) * bump(count, round(0.04 * fs))
    small = top < 0.1 * np.median(heights(strip, pool), axis=1)[:, None]
    return np.where(small | (not own), made * np.where(form.sum(axis=1, keepdims=True) < 0, -1, 1), form / (top + 1e-9))


def tall_t(strip: Strip, ratio: float, rng: Rng, *, late_s: float = 0.0, own: bool = True) -> Strip:
    """Make the T wave of the normal beats ``ratio`` times as high as the R peak, and later if asked."""
    fs, form = strip.fs_hz, t_form(strip, rng, own=own)
    if rng.random() < 0.25:
        form = -form
    signals = strip.signals_mv.copy()
    normal = np.isin(strip.symbols, NORMAL)
    reach = round(0.06 * fs)
    at = np.clip(strip.beats[:, None] + np.arange(-reach, reach + 1), 0, strip.samples - 1)
    shown = strip.signals_mv[:, at]
    tall = np.median(np.abs(shown - np.median(shown, axis=2, keepdims=True)).max(axis=2), axis=1)
    for i in np.flatnonzero(normal).tolist():
        here = int(strip.beats[i])
        rr_s = (strip.beats[i + 1] - here) / fs if i + 1 < len(strip.beats) else 0.8
        stretch = min(1.0, max(0.45, (rr_s - 0.22 - late_s) / 0.4)) if rr_s < 0.7 + late_s else 1.0
        count = round(form.shape[1] * stretch)
        place = np.linspace(0, form.shape[1] - 1, count)
        wave = np.stack([np.interp(place, np.arange(form.shape[1]), lead) for lead in form])
        first = here + round((0.09 + late_s * stretch) * fs)
        stop = min(first + count, strip.samples)
        if first < stop:
            size = ratio * tall[:, None] * (1 + 0.05 * rng.normal())
            signals[:, first:stop] += size * wave[:, : stop - first]
    return replace(strip, signals_mv=signals)


def bigeminy(strip: Strip, ratio: float, seconds: float, rng: Rng) -> Strip:
    """Normal and ventricular beats in turn, the ventricular ``ratio`` times as high."""
    made = Assembly(strip, seconds, rng)
    normal, wide = normal_pool(strip, rng), wide_pool(strip, rng)
    high = np.median(heights(strip, normal), axis=1).max(), np.median(heights(strip, wide, 0.12), axis=1).max()
    gain = ratio * high[0] / high[1]
    base, coupling, pause = 1 / np.sqrt(ratio), rng.uniform(0.42, 0.56), rng.uniform(0.75, 1.2)
    at = 0.5
    while at < seconds:
        spread = 1 + 0.03 * rng.normal()
        made.beat(int(rng.choice(normal)), at, "N", before_s=0.26, after_s=0.3, gain=base)
        made.beat(int(rng.choice(wide)), at + coupling * spread, "V", before_s=0.12, after_s=0.45, gain=base * gain)
        at += coupling * spread + pause * (1 + 0.04 * rng.normal())
    return made.made()


def pauses(strip: Strip, seconds: float, rng: Rng, *, every_s: float = 20.0, gain: float = 1.0) -> Strip:
    """Take QRS complexes and T waves out for some seconds, again and again; the P waves go on."""
    fs, signals = strip.fs_hz, strip.signals_mv.copy()
    noise = background_like(strip, rng)
    keep = np.ones(len(strip.beats), np.bool_)
    start = 8.0 * fs
    while start + (seconds + 2) * fs < strip.samples:
        inside = np.flatnonzero((strip.beats > start) & (strip.beats < start + seconds * fs - 0.4 * fs))
        for i in inside.tolist():
            if i + 1 < len(strip.beats):
                _flatten(signals, noise, strip, i, gain)
                keep[i] = False
        start += (seconds + every_s * rng.uniform(0.7, 1.3)) * fs
    return replace(strip, signals_mv=signals, beats=strip.beats[keep], symbols=strip.symbols[keep])


def background_like(strip: Strip, rng: Rng) -> Signal:
    from physiology import background

    return background(strip, strip.samples, rng)


def _flatten(signals: Signal, noise: Signal, strip: Strip, i: int, gain: float) -> None:
    """Draw a line from the end of a beat's P wave to the beginning of the next one."""
    fs = strip.fs_hz
    here, following = int(strip.beats[i]), int(strip.beats[i + 1])
    wide = strip.symbols[i] in WIDE
    low = max(here - round((0.2 if wide else 0.06) * fs), 0)
    high = max(following - round((0.14 if strip.symbols[i + 1] in WIDE else 0.28) * fs), low + round(0.1 * fs))
    high = min(high, strip.samples - 1)
    ends = signals[:, max(low - 3, 0) : low + 1].mean(axis=1), signals[:, high - 1 : high + 3].mean(axis=1)
    share = np.linspace(0, 1, high - low)
    signals[:, low:high] = ends[0][:, None] * (1 - share) + ends[1][:, None] * share + noise[:, low:high]
    first = low - round(0.2 * fs)
    if gain != 1 and not wide and first > 0:
        part = signals[:, first:low]
        signals[:, first:low] = part + (gain - 1) * levelled(part) * bump(low - first, round(0.02 * fs))


def p_form(strip: Strip, beats: np.ndarray) -> Signal:
    """Return the median wave before some beats (leads, 0.2 s): a single one may have the end of a beat in it."""
    before, after = round(0.26 * strip.fs_hz), -round(0.06 * strip.fs_hz)
    return np.asarray(np.median([cut(strip, beat, before, after) for beat in beats[:60].tolist()], axis=0))


def av_block(strip: Strip, seconds: float, rng: Rng) -> Strip:
    """P waves at their own rate, beats at another: 28 to 42 a minute, narrow or wide."""
    made, normal = Assembly(strip, seconds, rng), normal_pool(strip, rng)
    wide = wide_pool(strip, rng)
    use_wide = len(wide) > 4 and rng.random() < 0.6
    escape = wide if use_wide else normal
    gain, every, at = rng.uniform(1.0, 2.2), 60 / rng.uniform(62, 110), rng.uniform(0, 0.5)
    usual = p_form(strip, normal)
    while at < seconds:
        single = cut(strip, int(rng.choice(normal)), round(0.26 * strip.fs_hz), -round(0.06 * strip.fs_hz))
        made.put(0.85 * usual + 0.15 * single, round(0.26 * strip.fs_hz), at, gain)
        at += every * (1 + 0.02 * rng.normal())
    at, every = rng.uniform(0.3, 1.5), 60 / rng.uniform(28, 42)
    wider = 1.0 if use_wide or rng.random() < 0.5 else rng.uniform(1.2, 1.7)
    before = 0.13 if use_wide else 0.06
    while at < seconds:
        symbol = "E" if use_wide else "N"
        made.beat(int(rng.choice(escape)), at, symbol, before_s=before, after_s=0.5, wider=wider)
        at += every * (1 + 0.02 * rng.normal())
    return made.made()


def paced(strip: Strip, seconds: float, rng: Rng, *, lost: bool = False) -> Strip:
    """Wide beats behind pacing spikes; with ``lost`` every fourth spike has no beat."""
    made, normal = Assembly(strip, seconds, rng), normal_pool(strip, rng)
    wide = wide_pool(strip, rng)
    use_wide = len(wide) > 4 and rng.random() < 0.75
    pool = wide if use_wide else normal
    wider = rng.uniform(1.0, 1.3) if use_wide else rng.uniform(1.4, 2.0)
    before = 0.11 if use_wide else 0.06
    lead_in = before * wider * rng.uniform(0.8, 1.2)
    high = np.median(heights(strip, pool, 0.1), axis=1)
    spike = high * rng.choice([-1, 1], len(high)) * np.exp(rng.uniform(-2, 1.2))
    decay, every, at, number = rng.uniform(0.005, 0.03), 60 / rng.uniform(55, 100), 0.6, 0
    atrial = not lost and rng.random() < 0.25
    while at < seconds:
        number += 1
        made.spike(at - lead_in, spike, decay)
        if atrial:
            made.spike(at - lead_in - 0.16, spike * 0.7, decay)
        if not (lost and number % 4 == 0):
            made.beat(int(rng.choice(pool)), at, "/", before_s=before, after_s=0.45, wider=wider)
        at += every * (1 + 0.002 * rng.normal())
    return made.made()


def spiked(strip: Strip, rng: Rng) -> Strip:
    """Add a pacing spike before each normal beat of the record, as far as it was in this one."""
    signals, fs = strip.signals_mv.copy(), strip.fs_hz
    high = np.median(heights(strip, strip.beats), axis=1)
    height = high * rng.choice([-1, 1], len(high)) * np.exp(rng.uniform(-1.5, 1.0))
    before, tail = rng.uniform(0.05, 0.22), np.exp(-np.arange(30) / rng.uniform(2, 10))
    for at in (strip.of(NORMAL) - round(before * fs)).tolist():
        if 0 < at < strip.samples - 40:
            signals[:, at : at + 2] += height[:, None]
            signals[:, at + 2 : at + 32] -= 0.08 * height[:, None] * tail
    return replace(strip, signals_mv=signals)


def fusion(strip: Strip, seconds: float, rng: Rng) -> Strip:
    """A normal rhythm in which each third beat is half normal, half ventricular."""
    made = Assembly(strip, seconds, rng)
    normal, wide = normal_pool(strip, rng), wide_pool(strip, rng)
    at, number, every = 0.6, 0, 60 / rng.uniform(60, 100)
    while at < seconds:
        number += 1
        share = rng.uniform(0.3, 0.7) if number % 3 == 0 else 1.0
        symbol = "N" if share == 1 else "F"
        made.beat(int(rng.choice(normal)), at, symbol, before_s=0.26, after_s=0.36, gain=share)
        if share < 1:
            made.wave(int(rng.choice(wide)), 0.12, 0.4, at, gain=1 - share)
        at += every * (1 + 0.03 * rng.normal())
    return made.made()


def fast_fibrillation(strip: Strip, seconds: float, rng: Rng) -> Strip:
    """No P waves, a wavy baseline, and beats 0.28 to 0.6 s apart in no order."""
    made, normal = Assembly(strip, seconds, rng), normal_pool(strip, rng)
    high = np.median(heights(strip, normal), axis=1)[:, None]
    time = np.arange(made.samples) / strip.fs_hz
    phase = 2 * np.pi * np.cumsum(rng.uniform(5, 8) + 1.5 * np.sin(2 * np.pi * 0.3 * time)) / strip.fs_hz
    made.signals += high * rng.uniform(0.03, 0.12) * (np.sin(phase) + 0.4 * np.sin(2 * phase + 1))
    at, mean = 0.4, rng.uniform(0.34, 0.45)
    while at < seconds:
        every = float(np.clip(mean * (1 + 0.22 * rng.normal()), 0.27, 0.7))
        made.beat(int(rng.choice(normal)), at, "N", before_s=0.06, after_s=min(0.42, every * 0.85))
        at += every
    return made.made()


__all__ = ["av_block", "bigeminy", "cut", "fast_fibrillation", "fusion", "paced", "pauses", "spiked", "tall_t"]
