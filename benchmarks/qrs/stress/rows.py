"""The rows of the stress table: strips made from real records, one list a row; the same seed, the same strips."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import recorders
import rhythms
from physiology import NO_P, NORMAL, WIDE, Rng, Strip, excerpt, load, played, rescaled, v_run, with_runs

SECONDS = 60.0
Make = Callable[[Strip, Rng], Strip]


def ventricular(strip: Strip) -> bool:
    """Whether a record has the normal and the ventricular beats to be put together."""
    enough = len(strip.of(WIDE)) >= 6 and len(strip.of(NORMAL)) >= 30
    return enough and len(rhythms.wide_pool(strip, np.random.default_rng(0))) > 4


def _with_p(strip: Strip) -> bool:
    return strip.name not in NO_P and len(strip.of(NORMAL)) >= 30


def _normal(strip: Strip) -> bool:
    return len(strip.of(NORMAL)) >= 60


def _any(strip: Strip) -> bool:
    return True


class Rows:
    """Makes the rows from some records.

    Args:
        source: folder of the MIT-BIH records.
        records: those the strips are made from.
        seed: of everything drawn.
    """

    def __init__(self, source: Path, records: Sequence[str], seed: int = 0) -> None:
        self.seed = seed
        self.loaded = [load(source, record) for record in records]
        self.noise = recorders.Noise(source, records)

    def piece(self, strip: Strip, flutter: list[tuple[int, int]], seconds: float, rng: Rng) -> Strip:
        """Return a stretch with beats, normal ones among them, outside flutter."""
        count = round(seconds * strip.fs_hz)
        for _ in range(1000):
            start = int(rng.integers(0, strip.samples - count))
            part = excerpt(strip, start, start + count)
            enough = len(part.beats) >= seconds / 3 and len(rhythms.clear_normal(part)) >= min(8, seconds / 6)
            if enough and not any(a < start + count and start < b for a, b in flutter):
                return part
        raise ValueError(f"{strip.name} has no {seconds:g} s with beats")

    def row(self, name: str) -> list[Strip]:
        """Make one row."""
        which, whole, seconds, make = ROWS[name]
        strips = []
        for strip, flutter in self.loaded:
            if which(strip):
                rng = np.random.default_rng([self.seed, zlib.crc32(name.encode()), int(strip.name)])
                given = strip if whole else self.piece(strip, flutter, seconds, rng)
                strips.append(make(self, given, rng))
        return strips

    def all(self) -> Iterator[tuple[str, list[Strip]]]:
        for name in ROWS:
            yield name, self.row(name)

    def noised(self, strip: Strip, snr_db: float, kind: str, rng: Rng) -> Strip:
        """Add the database's noise, made motion, both, or white noise, each lead its own."""
        noises = []
        for _ in strip.signals_mv:
            if kind == "white":
                noises.append(rng.normal(size=strip.samples))
                continue
            real = self.noise.draw(strip.samples, strip.fs_hz, rng)
            made = recorders.motion(strip.samples, strip.fs_hz, rng)
            noises.append({"real": real, "motion": made, "both": (real + made) / np.sqrt(2)}[kind])
        return recorders.noisy(strip, noises, snr_db)

    def wearable(self, strip: Strip, rng: Rng) -> Strip:
        """One lead, 128 to 512 Hz, band up to 25 to 40 Hz, motion and noise from 15 to 0 dB."""
        strip = recorders.one_lead(strip, 0)
        strip = self.noised(strip, rng.uniform(0, 15), "both", rng)
        strip = recorders.low_passed(strip, rng.uniform(25, 40))
        return recorders.sampled(strip, int(rng.choice([128, 250, 300, 512])))


Row = tuple[Callable[[Strip], bool], bool, float, Callable[[Rows, Strip, Rng], Strip]]


def _mixed(strip: Strip, ratio: float, rng: Rng) -> Strip:
    """Scale the ventricular beats of the record to ``ratio`` times the normal ones."""
    normal = np.median(recorders.heights(strip, strip.of(NORMAL)), axis=1)
    high = np.maximum(recorders.heights(strip, strip.beats, 0.12), 0.1)
    base = 1 / np.sqrt(ratio)
    return rescaled(strip, lambda i, s: base * (ratio * normal / high[:, i] if s in WIDE else 1 + 0 * normal))


def _rows() -> dict[str, Row]:
    rows: dict[str, Row] = {"as recorded": (_any, False, SECONDS, lambda r, s, g: s)}
    for rate in (180, 200, 220, 250, 280, 300):
        rows[f"V run {rate}/min"] = (ventricular, True, 0, lambda r, s, g, rate=rate: v_run(s, rate, SECONDS, g))
    for rate in (200, 250, 280):
        make = lambda r, s, g, rate=rate: with_runs(s, rate, SECONDS, g)  # noqa: E731
        rows[f"V runs {rate}/min in the record"] = (ventricular, True, 0, make)
    for speed in (0.4, 1.5, 2.0, 2.5, 3.0):
        make = lambda r, s, g, speed=speed: played(s, speed)  # noqa: E731
        rows[f"played {speed:g} times as fast"] = (_any, False, max(60, 40 * speed), make)
    for ratio in (1.5, 2.5, 3.5):
        for own, word in ((True, ""), (False, ", made")):
            make = lambda r, s, g, ratio=ratio, own=own: rhythms.tall_t(s, ratio, g, own=own)  # noqa: E731
            rows[f"T {ratio:g} times R{word}"] = (_normal, False, SECONDS, make)
    rows["late T, 1.5 times R"] = (_normal, False, SECONDS, lambda r, s, g: rhythms.tall_t(s, 1.5, g, late_s=0.09))
    for ratio in (2, 4, 6, 8):
        make = lambda r, s, g, ratio=ratio: rhythms.bigeminy(s, ratio, SECONDS, g)  # noqa: E731
        rows[f"bigeminy, V {ratio} times N"] = (ventricular, True, 0, make)
    for ratio in (4, 8):
        make = lambda r, s, g, ratio=ratio: _mixed(s, ratio, g)  # noqa: E731
        rows[f"the record's V {ratio} times N"] = (ventricular, False, 120, make)
    for gain in (1.0, 2.0):
        make = lambda r, s, g, gain=gain: rhythms.pauses(s, 6, g, gain=gain)  # noqa: E731
        rows[f"P-only pauses of 6 s, P times {gain:g}"] = (_with_p, False, 90, make)
    rows["complete AV block"] = (_with_p, True, 0, lambda r, s, g: rhythms.av_block(s, SECONDS, g))
    rows["paced"] = (ventricular, True, 0, lambda r, s, g: rhythms.paced(s, SECONDS, g))
    rows["paced, every fourth lost"] = (ventricular, True, 0, lambda r, s, g: rhythms.paced(s, SECONDS, g, lost=True))
    rows["spikes before real beats"] = (_normal, False, SECONDS, lambda r, s, g: rhythms.spiked(s, g))
    rows["fusion"] = (ventricular, True, 0, lambda r, s, g: rhythms.fusion(s, SECONDS, g))
    rows["fast fibrillation"] = (_normal, True, 0, lambda r, s, g: rhythms.fast_fibrillation(s, SECONDS, g))
    return rows | _recorder_rows()


def _recorder_rows() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    simple: dict[str, Make] = {}
    for hz in (5, 8, 15, 25, 50):
        simple[f"low-pass {hz} Hz"] = lambda s, g, hz=hz: recorders.low_passed(s, hz)  # type: ignore[misc]
    for fs in (100, 128, 250, 500, 1000):
        simple[f"{fs} Hz"] = lambda s, g, fs=fs: recorders.sampled(s, fs)  # type: ignore[misc]
    for uv in (5, 10, 20):
        name = f"steps of {uv} microvolt, R 0.2 mV"
        simple[name] = lambda s, g, uv=uv: recorders.stepped(recorders.scaled(s, 0.2), uv)  # type: ignore[misc]
    for mv in (0.05, 0.1, 5.0):
        simple[f"R {mv:g} mV"] = lambda s, g, mv=mv: recorders.scaled(s, mv)  # type: ignore[misc]
    simple["clipped at half of R"] = lambda s, g: recorders.clipped(s, 0.3)
    simple["turned over"] = lambda s, g: recorders.turned(s)
    simple["the other lead"] = lambda s, g: recorders.one_lead(s, len(s.signals_mv) - 1)
    for name, make in simple.items():
        rows[name] = (_any, False, SECONDS, lambda r, s, g, make=make: make(s, g))
    for kind, word in (("real", "noise of the database"), ("motion", "made motion")):
        for snr in (24, 18, 12, 6, 0, -6):
            noised = lambda r, s, g, snr=snr, kind=kind: r.noised(s, snr, kind, g)  # noqa: E731
            rows[f"{word}, {snr} dB"] = (_any, False, SECONDS, noised)
    for seconds in (10.0, 30.0):
        rows[f"wearable strips of {seconds:g} s"] = (_any, False, seconds, lambda r, s, g: r.wearable(s, g))
    return rows


ROWS = _rows()
