"""When a stream answers: ``python docs/images/stream/look.py`` writes ``numbers.json``.

A synthetic patient of the demo cohort, three minutes of two leads, a quarter of a second at a time through the model in
the package, and through a model of one round without RR features.
"""

import json
import tempfile
from pathlib import Path
from typing import TypedDict

import numpy as np

import ecgfed
from ecgfed.device import StreamClassifier, open_bundle
from ecgfed.exports.device.shipped import MODEL
from ecgfed.exports.device.stream import LATENCY

HERE = Path(__file__).parent
#: The beat that is shown: the first one of this class after so many seconds.
SYMBOL, AFTER_S = "V", 20.0
#: Seconds of signal that are drawn, from before the beat on.
BEFORE_S, DRAWN_S = 2.0, 18.0


class Answer(TypedDict):
    """What a stream said of the beat, and when: seconds after the R peak."""

    stage: str
    name: str
    probability: float
    uncertain: bool
    late_s: float


class Numbers(TypedDict):
    """What ``numbers.json`` holds."""

    fs_hz: float
    r_s: float
    beats_ahead: int
    ahead_s: float
    shipped: list[Answer]
    without_rr: list[Answer]
    signal_mv: list[float]
    r_around_s: list[float]


def told(bundle: Path, recording: ecgfed.Recording) -> list[tuple[int, Answer]]:
    """Return what a stream says of every beat, early and final, with its R peak."""
    stream = StreamClassifier(open_bundle(bundle).classifier(), recording.fs_hz, leads=2, early="decided")
    signals = np.asarray(recording.signals_mv, dtype=np.float64)
    found = []
    for at in range(0, signals.shape[1], 90):
        for beat in stream.push(signals[:, at : at + 90]):
            answer: Answer = {
                "stage": beat.stage,
                "name": beat.name,
                "probability": round(beat.probability, 4),
                "uncertain": beat.low_confidence,
                "late_s": round(beat.late_s, 2),
            }
            found.append((beat.sample, answer))
    return found


def numbers(folder: Path) -> Numbers:
    """Make recording and model in an empty folder, and listen."""
    cohort = ecgfed.prepare_demo(folder / "cohort", records=folder / "records", patients=2, minutes=3)
    run = ecgfed.train(cohort, folder / "run", method="fedavg", rounds=1, rr=False, seed=0)
    ecgfed.export(run, folder / "bundle")
    recording = ecgfed.read_recording(folder / "records" / "demo01", ("MLII",), every_lead=True)
    of_all = {"shipped": told(MODEL, recording), "without_rr": told(folder / "bundle", recording)}
    finals = [(sample, one) for sample, one in of_all["shipped"] if one["stage"] == "final"]
    shown = next(s for s, one in finals if one["name"] == SYMBOL and s > AFTER_S * recording.fs_hz)
    peaks = sorted({sample for some in of_all.values() for sample, _ in some})
    said = {name: [one for sample, one in some if sample == shown] for name, some in of_all.items()}
    start = int(shown - BEFORE_S * recording.fs_hz)
    signal = recording.signal_mv[start : start + int(DRAWN_S * recording.fs_hz)]
    ahead = LATENCY["final_beats_ahead"][str(open_bundle(MODEL).rr_version)]
    r_s = shown / recording.fs_hz
    return {
        "fs_hz": recording.fs_hz,
        "r_s": round(r_s, 3),
        "beats_ahead": ahead,
        "ahead_s": round(peaks[peaks.index(shown) + ahead] / recording.fs_hz - r_s, 2),
        "shipped": said["shipped"],
        "without_rr": said["without_rr"],
        "signal_mv": [round(float(one), 2) for one in signal[::6]],
        "r_around_s": [round(peak / recording.fs_hz - r_s, 3) for peak in peaks if start <= peak < start + len(signal)],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = numbers(Path(temporary))
    (HERE / "numbers.json").write_text(json.dumps(found) + "\n", "utf-8")
