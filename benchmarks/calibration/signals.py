"""What is no beat of the trained lead: made-up signals, leads upside down, other leads; cut as a recording's beats."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.domain.beats.extract import Windows
from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.record.recording import Recording

Cut = Windows
FS_HZ = 360.0
#: Other records and seeds than those that the rule was chosen with.
SECONDS, SEED = 120, 2026
RECORDS = (
    "101",
    "103",
    "109",
    "112",
    "115",
    "117",
    "121",
    "123",
    "201",
    "207",
    "208",
    "210",
    "212",
    "213",
    "219",
    "222",
)


def _cut(signal_mv: NDArray[np.float64], rr_version: int) -> Windows | None:
    """Return the windows of the R peaks that our detector finds, or None where it finds none."""
    recording = Recording("made up", Path("made up"), "x", ("x",), FS_HZ, signal_mv[None], ())
    try:
        beats = cut_beats(recording, BeatOptions(("x",), "detected", rr_version=rr_version))
    except RecordError:
        return None
    return beats.windows if len(beats.r_samples) else None


def _together(parts: list[Windows | None]) -> Windows | None:
    some = [one for one in parts if one is not None]
    if not some:
        return None
    return Windows(*(np.concatenate([getattr(one, name) for one in some]) for name in ("window_mv", "rr_s", "flags")))


def made_up(rr_version: int) -> dict[str, Cut]:
    """Return what our detector takes for beats in noise, sines, triangles and spikes."""
    rng, count = np.random.default_rng(SEED), int(SECONDS * FS_HZ)
    time_s = np.arange(count) / FS_HZ
    signals: dict[str, list[NDArray[np.float64]]] = {
        "white noise": [height * rng.standard_normal(count) for height in (0.03, 0.2, 1.0)],
        "pink noise": [_pink(rng, count) for _ in range(3)],
        "sine": [np.sin(2 * np.pi * hz * time_s + 1) for hz in (0.9, 1.1, 1.35, 1.7, 2.2, 2.7, 3.5, 4.5, 6.0, 9.0)],
        "square wave": [0.5 * np.sign(np.sin(2 * np.pi * hz * time_s + 1)) for hz in (0.9, 1.2, 1.7)],
        "spikes on a flat line": [_spikes(rng, count, every, width) for every in (0.6, 0.9) for width in (2, 5)],
    }
    found = {name: _together([_cut(one, rr_version) for one in some]) for name, some in signals.items()}
    return {name: windows for name, windows in found.items() if windows is not None}


def _pink(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    spectrum = np.fft.rfft(rng.standard_normal(count))
    signal = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.fft.rfftfreq(count, 1 / FS_HZ), 0.3)), count)
    return np.asarray(0.3 * signal / signal.std())


def _spikes(rng: np.random.Generator, count: int, every_s: float, width: int) -> NDArray[np.float64]:
    signal = 0.003 * rng.standard_normal(count)
    for at in np.arange(1.0, count / FS_HZ - 1, every_s):
        first = round(at * FS_HZ)
        signal[first : first + width] += 1.0
    return signal


def other_leads(source: Path, leads: tuple[str, ...], rr_version: int) -> dict[str, Cut]:
    """Return the beats of two minutes of real records: the trained lead upside down, and the other lead."""
    parts: dict[str, list[Windows | None]] = {}
    for name in RECORDS:
        recording = open_recording(source / name, (), every_lead=True)
        for row, lead in enumerate(recording.leads):
            signal = recording.read(0, int(SECONDS * FS_HZ), [row])[0]
            trained = lead in leads
            what = f"{lead} upside down" if trained else f"lead {lead}"
            parts.setdefault(what, []).append(_cut(-signal if trained else signal, rr_version))
    found = {what: _together(some) for what, some in sorted(parts.items())}
    return {what: windows for what, windows in found.items() if windows is not None}
