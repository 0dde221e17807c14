"""What the detector is trained on: each record as it is, and some fifty copies of its physiology and its recorder."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import recorders
import rhythms
from physiology import NO_P, NORMAL, WIDE, Rng, Strip, excerpt, played, rescaled, v_run, with_runs
from stress.rows import Rows, ventricular

FS_HZ = 360.0


@dataclass(frozen=True)
class Copy:
    """One strip to learn from.

    Attributes:
        kind: what was done, for the tables.
        strip: the strip.
        placed: whether its first lead is the one on which the annotators put the R peaks.
        flutter: (start, stop) of stretches that teach nothing.
    """

    kind: str
    strip: Strip
    placed: bool = True
    flutter: tuple[tuple[int, int], ...] = ()


def disturbed(strip: Strip, rng: Rng) -> Strip:
    """Add muscle noise, hum, wander, pops and dead stretches, on each lead on its own."""
    out = strip.signals_mv.copy()
    count = out.shape[1]
    pieces = count // 3600 + 1  # of 10 s
    for lead in out:
        size = 4 * np.std(np.diff(lead[::4])) + 0.01
        if rng.random() < 0.6:
            amount = np.repeat(rng.random(pieces) ** 3 * size * rng.choice([0.3, 0.7, 1.2]), 3600)[:count]
            lead += amount * np.convolve(rng.normal(size=count), np.full(4, 0.5), "same")
        if rng.random() < 0.5:
            lead += size * 2 * rng.random() * np.sin(2 * np.pi * rng.choice([50, 60]) * np.arange(count) / FS_HZ)
        if rng.random() < 0.5:
            slow = rng.normal(size=count // 36 + 2).cumsum()
            walk = np.interp(np.arange(count) / 36, np.arange(len(slow)), slow)
            walk -= np.convolve(walk, np.full(360, 1 / 360), "same")
            lead += walk / walk.std() * size * 1.5 * np.repeat(rng.random(pieces) ** 2, 3600)[:count]
        if rng.random() < 0.4:
            for start in rng.integers(0, count, max(1, count // 16000)):
                lead[start:] += rng.normal() * 0.8
        if rng.random() < 0.4:
            for start in rng.integers(0, count, max(1, count // 108000)):
                lead[start : start + rng.integers(360, 7200)] = lead[start]
    return replace(strip, signals_mv=out)


class Copies:
    """Makes the copies of some records.

    Args:
        rows: the records and their noise.
        seed: of everything drawn.
    """

    def __init__(self, rows: Rows, seed: int = 0) -> None:
        self.rows, self.seed = rows, seed

    def of(self, index: int) -> Iterator[Copy]:
        """Make every copy of one record."""
        strip, flutter = self.rows.loaded[index]
        rng = np.random.default_rng([self.seed, int(strip.name)])
        yield Copy("as it is", strip, flutter=tuple(flutter))
        yield from self._recorded(strip, flutter, rng)
        for kind, made in self._made(strip, flutter, rng):
            yield self._through_a_recorder(kind, made, rng)

    def _recorded(self, strip: Strip, flutter: list[tuple[int, int]], rng: Rng) -> Iterator[Copy]:
        """The record's leads alone, disturbed, at other speeds; short strips of it."""
        last = len(strip.signals_mv) - 1
        minutes = round(60 * FS_HZ)
        for kind, lead, length, rough in (
            ("one lead", 0, 12, False),
            ("the other lead", last, 8, False),
            ("disturbed", None, 12, True),
            ("disturbed", None, 8, True),
            ("one lead, disturbed", 0, 10, True),
        ):
            start = int(rng.integers(0, strip.samples - length * minutes))
            part = excerpt(strip, start, start + length * minutes)
            part = part if lead is None else recorders.one_lead(part, lead)
            if rough:
                part = played(disturbed(part, rng), float(np.exp(rng.uniform(-0.25, 0.25))))
            there = tuple((max(a - start, 0), b - start) for a, b in flutter if b > start)
            yield Copy(kind, part, lead != last, there)
        for _ in range(10):
            part = self.rows.piece(strip, flutter, rng.uniform(5, 25), rng)
            part = recorders.one_lead(part, 0) if rng.random() < 0.7 else part
            yield Copy("short", part)

    def _made(self, strip: Strip, flutter: list[tuple[int, int]], rng: Rng) -> Iterator[tuple[str, Strip]]:
        """Every rhythm this record has the beats for."""

        def piece(seconds: float) -> Strip:
            return self.rows.piece(strip, flutter, seconds, rng)

        normal, wide = len(strip.of(NORMAL)) >= 60, ventricular(strip)
        for speed in (*np.exp(rng.uniform(np.log(1.3), np.log(3.2), 5)), 2.0, 2.5, 3.0):
            yield "fast", played(piece(60 * speed), float(speed))
        for speed in (*rng.uniform(0.38, 0.8, 3), 0.4):
            yield "slow", played(piece(60), float(speed))
        for hz in np.exp(rng.uniform(np.log(5), np.log(40), 3)):
            yield "low-pass", recorders.low_passed(piece(60), float(hz))
        for _ in range(2):
            yield "clipped", recorders.clipped(piece(60), rng.uniform(0.2, 0.6))
        for kind in ("real", "real", "real", "motion", "motion", "motion", "both"):
            yield f"noise, {kind}", self.rows.noised(piece(60), rng.uniform(-6, 24), kind, rng)
        for _ in range(10):
            yield "wearable", self.rows.wearable(piece(rng.uniform(8, 30)), rng)
        if wide:
            yield from self._ventricular(strip, piece, rng)
        if normal:
            yield from self._normal(strip, piece, rng)

    def _ventricular(self, strip: Strip, piece, rng: Rng) -> Iterator[tuple[str, Strip]]:
        for rate in (*rng.uniform(150, 310, 3), 250, 280):
            yield "V run", v_run(strip, float(rate), 40, rng, one_form=rng.random() < 0.7)
            yield "V runs", with_runs(strip, float(rate), 60, rng)
        for ratio in (*np.exp(rng.uniform(np.log(0.5), np.log(9), 4)), 6.0, 8.0, 9.0):
            yield "bigeminy", rhythms.bigeminy(strip, float(ratio), 50, rng)
        for _ in range(3):
            yield "fusion", rhythms.fusion(strip, 30, rng)
        for ratio in np.exp(rng.uniform(0, np.log(9), 3)):
            part, base = piece(90), 1 / np.sqrt(ratio)
            if len(part.of(NORMAL)) > 10:
                usual = np.median(recorders.heights(part, part.of(NORMAL)), axis=1)
                high = np.maximum(recorders.heights(part, part.beats, 0.12), 0.1)
                scale = _scaler(usual, high, float(ratio), float(base))
                yield "V larger", rescaled(part, scale)

    def _normal(self, strip: Strip, piece, rng: Rng) -> Iterator[tuple[str, Strip]]:
        for i in range(7):
            late, ratio = (0.0, rng.uniform(0.6, 4.0)) if i > 1 else (rng.uniform(0.04, 0.12), rng.uniform(0.6, 2.0))
            yield "tall T", rhythms.tall_t(piece(60), ratio, rng, late_s=late, own=rng.random() < 0.6)
        for _ in range(2):
            draws = np.exp(rng.uniform(-1, 1, 400))
            yield "mixed sizes", rescaled(piece(60), lambda i, s, draws=draws: float(draws[i % 400]))
        for _ in range(3):
            yield "spikes", rhythms.spiked(piece(45), rng)
        for lost in (False, False, True, True):
            yield "paced", rhythms.paced(strip, 50, rng, lost=lost)
        for _ in range(3):
            yield "fibrillation", rhythms.fast_fibrillation(strip, 40, rng)
        if strip.name not in NO_P:
            for _ in range(5):
                part = piece(75)
                yield "pauses", rhythms.pauses(part, rng.uniform(3, 8), rng, gain=float(rng.choice([1, 1, 1.5, 2.5])))
                for _ in range(2):
                    yield "AV block", rhythms.av_block(strip, 50, rng)

    def _through_a_recorder(self, kind: str, strip: Strip, rng: Rng) -> Copy:
        """One lead half of the time, and sometimes noise, bandwidth, sampling, steps and amplitude."""
        placed = True
        if rng.random() < 0.5 and len(strip.signals_mv) > 1:
            lead = int(rng.random() < 0.2)
            strip, placed = recorders.one_lead(strip, lead), lead == 0
        if len(strip.beats) < 6:
            return Copy(kind, strip, placed)
        if rng.random() < 0.35 and "noise" not in kind and kind != "wearable":
            strip = self.rows.noised(strip, rng.uniform(6, 30), str(rng.choice(["real", "motion", "both"])), rng)
        if rng.random() < 0.15 and len(strip.signals_mv) > 1:
            bad, kind_of_it = int(rng.integers(2)), str(rng.choice(["real", "motion", "white"]))
            worse = self.rows.noised(strip, rng.uniform(-12, 3), kind_of_it, rng)
            signals = strip.signals_mv.copy()
            signals[bad] = worse.signals_mv[bad]
            strip = replace(strip, signals_mv=signals)
        if rng.random() < 0.15 and strip.fs_hz > 120:
            strip = recorders.low_passed(strip, rng.uniform(15, 50))
        if rng.random() < 0.3:
            fs = int(rng.choice([100, 125, 128, 180, 200, 250, 257, 300, 500, 1000]))
            strip = recorders.sampled(replace(strip, fs_hz=float(round(strip.fs_hz))), fs)
        if rng.random() < 0.25:
            strip = recorders.scaled(strip, float(np.exp(rng.uniform(np.log(0.04), np.log(5)))))
        if rng.random() < 0.25:
            strip = recorders.stepped(strip, float(rng.choice([2.5, 5, 10, 20])))
        return Copy(kind, strip, placed)


def _scaler(usual: np.ndarray, high: np.ndarray, ratio: float, base: float):
    return lambda i, s: base * (ratio * usual / high[:, i] if s in WIDE else 1 + 0 * usual)
