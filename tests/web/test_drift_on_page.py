"""The live page says that a patient's beats have changed, and that an electrode is off, when it is so."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from browser_driver import HERE, chromium_path, driver_path
from conftest import synthetic_signal
from node_runtime import node_path
from numpy.typing import NDArray

from ecgfed.device import Drift, StreamClassifier, open_bundle
from ecgfed.device.drift import REASONS
from ecgfed.device.shipped import shipped_model
from ecgfed.record.reader import read_recording
from ecgfed.web.live import main

pytestmark = pytest.mark.browser
FS_HZ = 360.0


def write(folder: Path, name: str, signals_mv: NDArray[np.float64]) -> Path:
    """Write two leads as MIT-BIH has them."""
    folder.mkdir(parents=True, exist_ok=True)
    wfdb.wrsamp(
        name,
        fs=FS_HZ,
        units=["mV", "mV"],
        sig_name=["MLII", "V1"],
        p_signal=signals_mv.T,
        fmt=["212", "212"],
        adc_gain=[200.0, 200.0],
        baseline=[1024, 1024],
        write_dir=str(folder),
    )
    return folder / name


def on_page(records: list[Path], folder: Path) -> dict[str, Any]:
    """Play records on the page as streams; return what it said."""
    node_path("onnxruntime-web")
    ort = HERE / "node_modules" / "onnxruntime-web"
    assert main([str(folder / "live.html"), "--ort", str(ort)]) == 0
    recordings = [[f"{record}.hea", f"{record}.dat"] for record in records]
    given = {"page": str(folder / "live.html"), "recordings": recordings}
    (folder / "given.json").write_text(json.dumps(given))
    command = [driver_path(), str(HERE / "drift.mjs"), chromium_path(), str(folder / "given.json"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def pythons(record: Path) -> Drift:
    """Return what Python's stream says of a record."""
    recording = read_recording(record, ("MLII",), every_lead=True)
    signals = np.asarray(recording.signals_mv)
    classifier = open_bundle(shipped_model()).classifier()
    stream = StreamClassifier(classifier, recording.fs_hz, leads=len(signals), lead=recording.leads.index("MLII"))
    stream.push(signals)
    stream.finish()
    return stream.drift


def reasons_of(text: str) -> set[str]:
    """Return the reasons that a sentence names."""
    return {reason for reason, words in REASONS.items() if words[1:] in text}


def check(played: dict[str, Any], drift: Drift, half_s: float) -> None:
    """The page named all that Python's stream noticed, nothing else, and nothing before it came."""
    warnings = [one for one in played["said"] if one["text"]]
    began = {one.reason for one in drift.events if one.began}
    assert set().union(*(reasons_of(one["text"]) for one in warnings)) == began
    assert all(one["shown"] and one["role"] == "alert" for one in warnings)
    assert all(one.time_s > half_s for one in drift.events)
    assert played["said"][-1]["text"] == "" or played["said"][-1]["text"].startswith(drift.text)
    assert played["after"] == ""
    assert played["axe"] == []


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One heart, then another one's, then no electrode for 80 s, then beats again."""
    folder = tmp_path_factory.mktemp("drift")
    one, _ = synthetic_signal("NNNVN" * 66, fs_hz=FS_HZ, seed=1)
    other, _ = synthetic_signal("LLLVL" * 50, fs_hz=FS_HZ, seed=2)
    lead = np.concatenate([one, other, np.full(round(80 * FS_HZ), np.nan), other[: round(20 * FS_HZ)]])
    record = write(folder, "made", np.stack([lead, -0.5 * lead]))
    told = on_page([record], folder)
    return {**told, "record": record, "half_s": len(one) / FS_HZ}


def test_another_heart_and_an_electrode_that_is_off_are_said_when_they_come(played: dict[str, Any]) -> None:
    assert played["errors"] == []
    (found,) = played["played"]
    drift = pythons(played["record"])
    check(found, drift, played["half_s"])
    texts = [one["text"] for one in found["said"]]
    assert any(text.startswith("This patient's beats have changed: label some again (") for text in texts)
    assert any("no beat has come for a minute" in text.lower() for text in texts)
    since = [re.search(r" Since (\d+):(\d\d)\.$", text) for text in texts if text]
    assert all(one and 60 * int(one[1]) + int(one[2]) >= played["half_s"] - 1 for one in since)
    assert found["ended"].startswith("Ended: ")


@pytest.mark.mitdb
@pytest.mark.slow
def test_a_record_whose_second_half_is_another_patients_is_said_to_have_changed(mitdb: Path, tmp_path: Path) -> None:
    one, other = (read_recording(mitdb / name, ("MLII",), every_lead=True) for name in ("116", "208"))
    half = round(902.8 * FS_HZ)
    before, after = np.asarray(one.signals_mv)[:, :half], np.asarray(other.signals_mv)[:, half:]
    record = write(tmp_path / "records", "both", np.concatenate([before, after], axis=1))
    told = on_page([record], tmp_path)
    assert told["errors"] == []
    drift = pythons(record)
    assert drift.label_again
    check(told["played"][0], drift, half / FS_HZ)
