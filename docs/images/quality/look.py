"""A recording damaged on purpose, and what is found: ``python docs/images/quality/look.py`` writes ``numbers.json``.

A synthetic patient of the demo cohort, 36 s of lead MLII, with one fault of each kind put into it.
"""

import json
import tempfile
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

import ecgfed
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY, window_spans
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.peaks import detect_around_gaps

HERE = Path(__file__).parent
SECONDS = 36
#: What was done, from where to where in seconds.
DAMAGE = {
    "gap": (4.0, 6.0),
    "flat": (10.0, 12.0),
    "spike": (16.2, 16.23),
    "noise": (20.0, 23.0),
    "baseline": (27.0, 27.02),
    "rail": (32.4, 32.55),
}
#: Two samples of each so many are drawn: the lowest and the highest.
DRAWN_OF = 12


class Window(TypedDict):
    """One beat's window, in seconds."""

    r_s: float
    start_s: float
    stop_s: float
    flagged: bool
    reasons: list[str]


class Numbers(TypedDict):
    """What ``numbers.json`` holds."""

    fs_hz: float
    damage: dict[str, tuple[float, float]]
    found: list[tuple[str, float, float]]
    windows: list[Window]
    signal_uv: list[int | None]


def damaged(signal_mv: NDArray[np.float64], fs_hz: float) -> NDArray[np.float64]:
    """Return a lead (samples,) with a fault of each kind."""
    found = signal_mv[: int(SECONDS * fs_hz)].copy()
    at = {name: slice(*(round(one * fs_hz) for one in span)) for name, span in DAMAGE.items()}
    noise = np.random.default_rng(0).normal(0, 0.3, at["noise"].stop - at["noise"].start)
    found[at["noise"]] += noise
    found[at["baseline"].start :] += 1.6
    found[at["flat"]] = found[at["flat"].start]
    found[at["spike"]] += 20.0
    found[at["rail"]] = -5.12
    found[at["gap"]] = np.nan
    return found


def numbers(folder: Path) -> Numbers:
    """Make the recording in an empty folder, damage it, judge it, and cut its windows."""
    ecgfed.prepare_demo(folder / "cohort", records=folder / "records", patients=1, minutes=1)
    recording = ecgfed.read_recording(folder / "records" / "demo01", ("MLII",))
    fs_hz = recording.fs_hz
    signal = damaged(np.asarray(recording.signal_mv, dtype=np.float64), fs_hz)
    quality = lead_quality(signal, fs_hz)
    r_samples = detect_around_gaps(signal[None], fs_hz, quality)
    cut = windows_around(signal, fs_hz, r_samples, quality)
    windows: list[Window] = []
    for r, flags in zip(r_samples, cut.flags, strict=True):
        start, stop = (int(one[0]) for one in window_spans(fs_hz, np.array([r])))
        flagged = bool(flags & FLAG_POOR_QUALITY)
        reasons = [str(one) for one in quality.reasons_in(start, stop)]
        windows.append(
            {
                "r_s": round(int(r) / fs_hz, 3),
                "start_s": round(start / fs_hz, 3),
                "stop_s": round(stop / fs_hz, 3),
                "flagged": flagged,
                "reasons": reasons,
            }
        )
    drawn: list[int | None] = []
    for start in range(0, len(signal), DRAWN_OF):
        some = signal[start : start + DRAWN_OF]
        if np.isnan(some).any():
            drawn += [None, None]
            continue
        low, high = sorted((int(some.argmin()), int(some.argmax())))
        drawn += [round(1000 * float(some[low])), round(1000 * float(some[high]))]
    return {
        "fs_hz": fs_hz,
        "damage": DAMAGE,
        "found": [
            (str(one.reason), round(one.start / fs_hz, 3), round(one.stop / fs_hz, 3)) for one in quality.stretches
        ],
        "windows": windows,
        "signal_uv": drawn,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = numbers(Path(temporary))
    (HERE / "numbers.json").write_text(json.dumps(found) + "\n", "utf-8")
