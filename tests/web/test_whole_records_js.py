"""Whole MIT-BIH records in the JavaScript runtime: Python's peaks, features, probabilities and labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_runtime import in_node, own
from support import exported

import ecgfed
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.signal.filters import band_pass

pytestmark = [pytest.mark.browser, pytest.mark.mitdb]
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
#: Records without MLII are read on V5, as the model's card says.
LEADS = ("MLII", "V5")
SOME = ("114", "208")
#: Python sees pacing in the signal and gives such beats a class of their own, JavaScript does not.
PACED = ("102", "104", "107", "217")


def agreement(record: Path, bundle: Path = MODEL) -> dict[str, Any]:
    """Return how one record agrees, stage by stage, read by JavaScript's own reader."""
    opened = ecgfed.open_bundle(bundle)
    recording = open_recording(record, LEADS, every_lead=True)  # every lead has a say
    python = ecgfed.predict(bundle, recording, force=True)
    recording, lead = python.recording, python.recording.lead
    at, version = {"bundle": str(bundle)}, opened.rr_version
    (read,) = in_node(own("readAt", str(record), {}))
    rows = dict(zip(read["leads"], read["signalsMv"], strict=True))
    signals = dict(zip(recording.leads, np.asarray(recording.signals_mv), strict=True))
    told = {name: read[name] for name in ("name", "fsHz", "leads", "signalsMv")}
    row = read["leads"].index(lead)
    jobs = [
        {"module": "filters.js", "call": "bandPass", "args": [rows[lead], read["fsHz"]]},
        own("cut", read["signalsMv"], read["fsHz"], row, version),
        own("classified", at, told, {"lead": lead}),
    ]
    filtered, cut, beats = in_node(*jobs, packages=("onnxruntime-node",))
    windows = python.cut.windows
    logits, _ = in_node(
        own("logits", at, list(windows.window_mv[:, 0]), list(windows.rr_s)), own("exported", "index.js")
    )
    expected = opened.classifier().logits(windows.window_mv, windows.rr_s)
    # the model alone: JavaScript does not judge the rhythm, nor has Python's class of beats without signal
    model = opened.classifier().classify_blocks([windows], grouped=version == 3)
    by_model = list(zip(beats, model.classified.tolist(), strict=True))
    return {
        "samples": all(np.array_equal(rows[name], signal, equal_nan=True) for name, signal in signals.items()),
        "filter_mv": float(np.abs(filtered - band_pass(recording.signal_mv, recording.fs_hz)).max()),
        "peaks": cut["peaks"] == python.sample.tolist(),
        "window_mv": float(np.abs(np.stack(cut["windowMv"]) - windows.window_mv[:, 0]).max()),
        "rr": float(np.abs(np.stack(cut["rr"]) - windows.rr_s).max()),
        "flags": cut["flags"] == windows.flags.tolist(),
        "logits": float(np.abs(np.stack(logits) - expected).max()),
        "probability": float(np.abs(np.stack([one["probabilities"] for one in beats]) - model.probability).max()),
        "labels": [one["class"] for one in beats] == [model.classes[number] for number in model.label],
        "doubts": [(one["uncertain"] or not own, one["far"], one["poorQuality"]) for one, own in by_model]
        == list(zip(model.low_confidence.tolist(), model.out_of_distribution.tolist(), python.poor, strict=True)),
        "beats": len(python),
    }


def check(found: dict[str, Any]) -> None:
    assert all(found[name] for name in ("samples", "peaks", "flags", "labels", "doubts")), found
    assert found["filter_mv"] < 1e-12
    assert found["window_mv"] < 1e-6
    assert found["rr"] < 2e-5
    assert found["logits"] < 1e-4
    assert found["probability"] < 1e-4


@pytest.mark.parametrize("name", SOME)
def test_a_whole_record_has_pythons_labels(mitdb: Path, name: str) -> None:
    check(agreement(mitdb / name))


@pytest.mark.parametrize("name", SOME)
def test_a_whole_record_has_pythons_labels_with_features_of_version_2(mitdb: Path, fedavg_run: Path, name: str) -> None:
    check(agreement(mitdb / name, exported(fedavg_run)))


@pytest.mark.slow
def test_all_records_have_pythons_labels(mitdb: Path) -> None:
    names = sorted(path.stem for path in mitdb.glob("*.hea") if path.stem not in (*SOME, *PACED))
    assert len(names) == 41
    for name in names:
        check(agreement(mitdb / name))


@pytest.mark.slow
def test_a_whole_record_as_a_stream_has_the_labels_of_the_whole(mitdb: Path) -> None:
    python = ecgfed.predict(mitdb / "208")
    signals = np.asarray(python.recording.signals_mv)
    told = {"fsHz": python.recording.fs_hz, "leads": list(python.recording.leads), "signalsMv": signals}
    job = own("streamed", {"bundle": str(MODEL)}, told, {"lead": 0}, [360])
    (found,) = in_node(job, packages=("onnxruntime-node",))
    assert [one["class"] for one in found["beats"]] == [one["class"] for one in found["whole"]]
    assert [one["sample"] for one in found["beats"]] == python.sample.tolist()
