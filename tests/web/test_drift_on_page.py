"""The live page says that a patient's beats have changed, and that an electrode is off, when it is so."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_driver import HERE, driven
from conftest import synthetic_signal
from node_runtime import node_path
from numpy.typing import NDArray

from ecgfed.device import Drift, StreamClassifier, open_bundle
from ecgfed.domain.record.reader import read_recording
from ecgfed.exports.device.drift import REASONS
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.web.live import main

pytestmark = pytest.mark.browser
FS_HZ = 360.0


def lines_of(signals_mv: NDArray[np.float64]) -> str:
    """Return two leads as a device would send them on a serial line, in microvolt, nothing where there is no sample."""
    rows = (("" if one != one else f"{one:.0f}" for one in row) for row in (1000 * signals_mv).T.tolist())
    return "\n".join(["# ecgfed fs=360 leads=MLII,V1 units=uV", *(",".join(row) for row in rows)]) + "\n"


def on_page(recordings: list[NDArray[np.float64]], folder: Path) -> dict[str, Any]:
    """Send recordings to the page; return what it said."""
    node_path("onnxruntime-web")
    ort = HERE / "node_modules" / "onnxruntime-web"
    assert main([str(folder / "live.html"), "--ort", str(ort)]) == 0
    files = [folder / f"lines-{number}.txt" for number in range(len(recordings))]
    for file, signals in zip(files, recordings, strict=True):
        file.write_text(lines_of(signals))
    given = {"page": str(folder / "live.html"), "lines": list(map(str, files))}
    answer = driven("drift.mjs", given, folder, timeout_s=900)
    assert answer["errors"] == []
    return answer


def pythons(signals_mv: NDArray[np.float64]) -> tuple[Drift, int]:
    """Return what Python's stream says of what the line carries, and how many beats it found."""
    stream = StreamClassifier(open_bundle(shipped_model()).classifier(), FS_HZ, leads=2)
    beats = len(stream.push(np.rint(1000 * signals_mv) * 1e-3)) + len(stream.finish())
    return stream.drift, beats


def check(played: dict[str, Any], signals_mv: NDArray[np.float64], half_s: float) -> list[str]:
    """The page named all that Python's stream noticed and nothing else, and said since when; return its texts."""
    drift, beats = pythons(signals_mv)
    assert played["ended"] == f"Ended: {beats:,} beats."
    warnings = [one for one in played["said"] if one["text"]]
    named = {reason for one in warnings for reason, words in REASONS.items() if words[1:] in one["text"]}
    assert named == {one.reason for one in drift.events if one.began}
    assert all(one["shown"] and one["role"] == "alert" for one in warnings)
    since = [re.search(r" Since (\d+):(\d\d)\.$", one["text"]) for one in warnings]
    assert all(one and 60 * int(one[1]) + int(one[2]) >= half_s - 1 for one in since)
    last = played["said"][-1]["text"]
    assert last.startswith(drift.text) if drift.text else last == ""
    assert played["axe"] == []
    return [one["text"] for one in warnings]


def test_another_heart_and_an_electrode_that_is_off_are_said_when_they_come(tmp_path: Path) -> None:
    """One heart, then another one's, then no electrode for 80 s, then beats again."""
    one, _ = synthetic_signal("NNNVN" * 66, fs_hz=FS_HZ, seed=1)
    other, _ = synthetic_signal("LLLVL" * 50, fs_hz=FS_HZ, seed=2)
    lead = np.concatenate([one, other, np.full(round(80 * FS_HZ), np.nan), other[: round(20 * FS_HZ)]])
    signals = np.stack([lead, -0.5 * lead])
    texts = check(on_page([signals], tmp_path)["played"][0], signals, len(one) / FS_HZ)
    assert any(text.startswith("This patient's beats have changed: label some again (") for text in texts)
    assert any("no beat has come for a minute" in text.lower() for text in texts)


@pytest.mark.mitdb
@pytest.mark.slow
def test_a_record_whose_second_half_is_another_patients_is_said_to_have_changed(mitdb: Path, tmp_path: Path) -> None:
    rows = [np.asarray(read_recording(mitdb / name, ("MLII",), every_lead=True).signals_mv) for name in ("116", "208")]
    half = round(902.8 * FS_HZ)
    signals = np.concatenate([rows[0][:, :half], rows[1][:, half:]], axis=1)
    texts = check(on_page([signals], tmp_path)["played"][0], signals, half / FS_HZ)
    assert any("label some again" in text for text in texts)
