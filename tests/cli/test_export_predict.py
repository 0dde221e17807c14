"""``ecgfed export`` and ``ecgfed predict``: from a run to a bundle to an annotation that wfdb reads back."""

import csv
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import wfdb
from conftest import write_record
from support import (
    Command,
    assert_full_disk,
    assert_refused,
    change_json,
    copied,
    exported,
    run_limited,
    snapshot,
    softmax,
    traced_once,  # noqa: F401
)

from ecgfed.device import open_bundle
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.tasks.predict import ENDINGS

#: Class names that are no WFDB symbols: spaces, another script, and longer than an annotation's note can be.
LONG = "左脚ブロックの心拍、" * 25
OWN_CLASSES = {"normal sinus beat": ["N", "R"], "心室性期前収縮": ["V", "E"], LONG: ["L"]}


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _predicted(folder: Path, name: str = "p1") -> tuple[Any, list[dict[str, str]], dict[str, Any]]:
    """The files of beats: the annotation as wfdb reads it, without changes of rhythm, the table, the JSON."""
    assert {path.name for path in folder.iterdir()} == {f"{name}.{ending}" for ending in ENDINGS}
    told: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    marks = wfdb.rdann(str(folder / name), "ecgfed")
    beats = [number for number, symbol in enumerate(marks.symbol) if symbol != "+"]
    marks.sample, marks.subtype = marks.sample[beats], marks.subtype[beats]
    marks.symbol, marks.aux_note = ([of[number] for number in beats] for of in (marks.symbol, marks.aux_note))
    return marks, _csv(folder / f"{name}.csv"), told


@pytest.mark.usefixtures("traced_once")
def test_export(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "bundle"
    said = ecgfed("export", fedavg_run, "--out", out, "--json")
    assert (said.code, said.err) == (0, "")
    told = json.loads(said.out)
    assert snapshot(out) == snapshot(exported(fedavg_run))
    sizes = [path.stat().st_size for path in out.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert (told["files"], told["bytes"], told["patients"]) == (6, sum(sizes), 4)
    assert told["parity"]["max_logit_difference"] <= 1e-4
    assert_refused(ecgfed("export", fedavg_run, "--out", out), "--out", "not empty", "--overwrite")
    silent = ecgfed("export", fedavg_run, "--out", out, "--overwrite", "--quiet")
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    spoken = ecgfed("export", fedavg_run, "--out", out, "--overwrite")
    assert "4 patients, 6 files" in spoken.out
    assert snapshot(out) == snapshot(exported(fedavg_run))


def test_export_asks_for_a_protocol_there_is(ecgfed: Command, local_run: Path, tmp_path: Path) -> None:
    said = ecgfed("export", local_run, "--out", tmp_path / "bundle", "--global", "vote")
    assert_refused(said, "--global", "'vote'", "ensemble, average")
    assert list(tmp_path.iterdir()) == []


def test_predict_writes_three_files_that_agree(
    ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path
) -> None:
    said = ecgfed("predict", exported(fedavg_run), records / "p1", "--out", tmp_path / "a" / "out", "--json")
    assert (said.code, said.err) == (0, "")
    summary = json.loads(said.out)
    annotation, table, told = _predicted(tmp_path / "a" / "out")
    assert summary["beats"] == len(table) == len(told["beats"]) == len(annotation.sample) > 40
    assert annotation.sample.tolist() == [int(row["sample"]) for row in table] == [b["sample"] for b in told["beats"]]
    assert annotation.symbol == [row["symbol"] for row in table] == [beat["symbol"] for beat in told["beats"]]
    assert annotation.fs == 360
    assert set(annotation.aux_note) == {""}
    for row, beat in zip(table, told["beats"], strict=True):
        assert row == {name: str(int(value) if isinstance(value, bool) else value) for name, value in beat.items()}
        assert beat["time_s"] == pytest.approx(beat["sample"] / 360.0, abs=1e-4)
        assert 1 / 12 <= beat["probability"] <= 1.0
    assert summary["counts"] == {name: annotation.symbol.count(name) for name in told["classes"]}
    about = {"record": "p1", "lead": "MLII", "fs_hz": 360.0, "patient": None, "peaks": "detected", "method": "fedavg"}
    assert {name: told[name] for name in about} == {name: summary[name] for name in about} == about
    assert "not for diagnosis" in told["intended_use"]
    files = {name: hashlib.sha256((records / name).read_bytes()).hexdigest() for name in ("p1.hea", "p1.dat")}
    assert told["sha256"] == summary["sha256"] == files
    manifest = json.loads((exported(fedavg_run) / "manifest.json").read_text())
    assert told["bundle_digest"] == manifest["digest"]


def test_predict_at_annotated_peaks_is_plain_onnxruntime(
    ecgfed: Command, local_run: Path, records: Path, tmp_path: Path
) -> None:
    bundle = exported(local_run)
    options = ("--peaks", "annotated", "--patient", "p1", "--out", tmp_path / "out", "--quiet")
    assert ecgfed("predict", bundle, records / "p1.hea", *options).code == 0
    truth = wfdb.rdann(str(records / "p1"), "atr")
    annotation, table, told = _predicted(tmp_path / "out")
    np.testing.assert_array_equal(annotation.sample, truth.sample)
    signal = wfdb.rdrecord(str(records / "p1"), channel_names=["MLII"]).p_signal[:, 0]
    session = onnxruntime.InferenceSession(str(bundle / "patients" / "p1.onnx"), providers=["CPUExecutionProvider"])
    window = windows_around(signal, 360.0, truth.sample).window_mv
    temperature = json.loads((bundle / "manifest.json").read_text())["patients"]["p1"]["certainty"]["temperature"]
    probability = softmax(session.run(None, {"window": window})[0] / temperature)
    assert annotation.symbol == [told["classes"][i] for i in probability.argmax(1)]
    told_probability = [float(row["probability"]) for row in table]
    np.testing.assert_allclose(told_probability, probability.max(1), rtol=0, atol=1e-4)
    right = np.mean([a == b for a, b in zip(annotation.symbol, truth.symbol, strict=True)])
    assert right > 0.9, "a personal model on the recording it was trained on"


def test_what_predict_prints(ecgfed: Command, local_run: Path, records: Path, tmp_path: Path) -> None:
    bundle = exported(local_run)
    said = ecgfed("predict", bundle, records / "p1", "--patient", "p1", "--out", tmp_path / "a", "--peaks", "annotated")
    assert (said.code, said.err) == (0, "")
    assert "not for diagnosis" in said.out
    assert "60 beats" in said.out
    quiet = ecgfed("predict", bundle, records / "p1", "--out", tmp_path / "b", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    other = ecgfed("predict", bundle, records / "p1", "--out", tmp_path / "c", "--lead", "V9, V1", "--json")
    assert json.loads(other.out)["lead"] == "V1"
    assert other.error_lines == ["ecgfed: note: lead V1 is not MLII, which the model was trained on"]


def test_predict_says_by_which_name_a_lead_is_there(ecgfed: Command, local_run: Path, tmp_path: Path) -> None:
    """The same name but for case is silent, another name of the lead is told, and neither is a warning."""
    bundle = exported(local_run)
    told = {}
    for name in ("ml-ii", "ML2", "ECG II"):
        record = write_record(tmp_path / name, "r", "N" * 20, leads=("V1", name))
        said = ecgfed("predict", bundle, record, "--out", tmp_path / f"out {name}")
        assert (said.code, said.err) == (0, "")
        assert f"lead {name}" in said.out
        told[name] = "which the model was trained on" in said.out
    assert told == {"ml-ii": False, "ML2": True, "ECG II": True}
    assert "Lead ECG II stands for MLII, which the model was trained on: its electrodes lie elsewhere." in said.out


def test_predict_at_250_hz(ecgfed: Command, local_run: Path, tmp_path: Path) -> None:
    """Samples and times are the recording's own, whatever the window's sampling frequency."""
    record = write_record(tmp_path / "records", "slow", "NNNNV" * 12, fs_hz=250.0, seed=6)
    options = ("--patient", "p1", "--peaks", "annotated", "--out", tmp_path / "out", "--quiet")
    assert ecgfed("predict", exported(local_run), record, *options).code == 0
    truth = wfdb.rdann(str(record), "atr")
    annotation, table, _ = _predicted(tmp_path / "out", "slow")
    np.testing.assert_array_equal(annotation.sample, truth.sample)
    assert annotation.fs == 250
    assert annotation.symbol == truth.symbol
    times = [float(row["time_s"]) for row in table]
    np.testing.assert_allclose(times, truth.sample / 250.0, rtol=0, atol=1e-4)


@pytest.mark.usefixtures("traced_once")
@pytest.mark.parametrize("kind", ["own", "aami5"])
def test_other_classes_become_valid_annotations(ecgfed: Command, records: Path, tmp_path: Path, kind: str) -> None:
    """From the records to an annotation with class names that are no symbols, on the command line alone."""
    (tmp_path / "own").write_text(json.dumps({"classes": OWN_CLASSES}))
    classes = tmp_path / "own" if kind == "own" else "aami5"
    cohort, run, bundle = tmp_path / "cohort", tmp_path / "run", tmp_path / "bundle"
    options = (
        *("--method", "local", "--local-epochs", 1, "--rounds", 12, "--batch-size", 16, "--set", "lr=0.05"),
        "--no-rr",
    )
    for command in (
        ("prepare", "folder", records, "--out", cohort, "--classes", classes, "--workers", 1),
        ("train", cohort, "--out", run, *options),
        ("export", run, "--out", bundle),
    ):
        assert ecgfed(*command, "--quiet").code == 0
    for patient in ("p1", "p3"):
        out = tmp_path / patient
        command = ("predict", bundle, records / patient, "--patient", patient, "--out", out, "--peaks", "annotated")
        assert ecgfed(*command, "--quiet").code == 0
        truth = wfdb.rdann(str(records / patient), "atr")
        annotation, table, told = _predicted(out, patient)
        np.testing.assert_array_equal(annotation.sample, truth.sample)
        assert [row["class"] for row in table] == [beat["class"] for beat in told["beats"]]
        name_of = {symbol: name for name, symbols in OWN_CLASSES.items() for symbol in symbols}
        if kind == "aami5":
            name_of = {"N": "N", "L": "N", "V": "V"}
        right = np.mean([row["class"] == name_of[s] for row, s in zip(table, truth.symbol, strict=True)])
        assert right > 0.9, "enough beats of each class to speak of"
        assert len({row["class"] for row in table}) == 2
        for symbol, note, row in zip(annotation.symbol, annotation.aux_note, table, strict=True):
            assert symbol == row["symbol"]
            if kind == "aami5":
                assert (symbol, note) == (row["class"], "")
            else:
                assert row["class"] == name_of[symbol]
                assert note.encode("latin-1") == row["class"].encode()[:255]


def test_beats_without_a_model_of_ones_own(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    said = ecgfed("predict", exported(fedavg_run), records / "p1", "--patient", "p9", "--out", tmp_path / "out")
    assert_refused(said, "no patient 'p9'", "p1, p2, p3, p4", "--patient")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--peaks", "guessed"), ("--peaks", "'guessed'", "annotated or detected")),
        (("--lead", "aVR"), ("p1", "no lead aVR", "MLII, V1", "--lead")),
        (("--lead", "I,III"), ("no lead I or III", "MLII, V1")),
        (("--lead", " , "), ("--lead", "is empty")),
        (("--peaks", "annotated", "--annotator", "qrs"), ("p1.qrs", "does not exist", "--annotator")),
    ],
)
def test_a_bad_option(
    ecgfed: Command,
    fedavg_run: Path,
    records: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    fragments: tuple[str, ...],
) -> None:
    said = ecgfed("predict", exported(fedavg_run), records / "p1", "--out", tmp_path / "out", *options)
    assert_refused(said, *fragments)
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_cannot_be_used(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    bundle = copied(exported(fedavg_run), tmp_path / "bundle")
    out = tmp_path / "out"

    def refused(*fragments: str) -> None:
        assert_refused(ecgfed("predict", bundle, records / "p1", "--out", out, "--json"), *fragments)
        assert not out.exists()

    change_json(bundle / "manifest.json", schema_version=3)
    refused("manifest.json", "schema version 3", "expected 1 or 2")
    change_json(bundle / "manifest.json", schema_version=2)
    data = bytearray((bundle / "global.onnx").read_bytes())
    data[5000] ^= 1
    (bundle / "global.onnx").write_bytes(data)
    refused("global.onnx", "was changed", "SHA-256")
    (bundle / "global.onnx").unlink()
    refused("global.onnx", "does not exist")
    shutil.rmtree(bundle)
    refused(str(bundle), "is neither", "a bundle made by 'ecgfed export'")


def test_a_record_that_cannot_be_used(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "records", tmp_path / "out"

    def refused(record: Path, *fragments: str, peaks: str = "detected") -> None:
        said = ecgfed("predict", exported(fedavg_run), record, "--out", out, "--peaks", peaks)
        assert_refused(said, *fragments)
        assert not out.exists()

    refused(folder / "none", "none.hea", "does not exist")
    refused(write_record(folder, "leads", "NNN", leads=("V1", "V2")), "no lead MLII", "V1, V2", "--lead")
    short = write_record(folder, "short", "NNNNN")
    short.with_suffix(".dat").write_bytes(short.with_suffix(".dat").read_bytes()[:-300])
    refused(short, "short.dat", "cut short")
    refused(write_record(folder, "brief", "N"), "brief", "lasts 2.", "at least 3 s")
    unmarked = write_record(folder, "unmarked", "NNNNN", annotate=False)
    refused(unmarked, "unmarked.atr", "does not exist", peaks="annotated")
    wfdb.wrann("unmarked", "atr", np.array([50, 99]), ["+", "~"], write_dir=str(folder))
    refused(unmarked, "unmarked.atr", "marks no beat", "--peaks detected", peaks="annotated")


def test_what_is_there_is_replaced_only_when_asked(
    ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path
) -> None:
    command = ("predict", exported(fedavg_run), records / "p1", "--out", tmp_path, "--quiet")
    (tmp_path / "p1.csv").write_text("mine")
    (tmp_path / "other.txt").write_text("mine")
    assert_refused(ecgfed(*command), "--out", "p1.csv", "--overwrite")
    assert snapshot(tmp_path) == {"p1.csv": b"mine", "other.txt": b"mine"}
    assert ecgfed(*command, "--overwrite").code == 0
    assert set(snapshot(tmp_path)) == {*(f"p1.{ending}" for ending in ENDINGS), "other.txt"}
    assert len(_csv(tmp_path / "p1.csv")) > 40
    assert_refused(ecgfed(*command[:3], "--out", tmp_path / "other.txt"), "other.txt", "cannot be made")


def test_a_bundle_needs_nothing_else(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    """Neither the run nor the cohort is looked for, and nothing is written into the bundle."""
    bundle = copied(exported(fedavg_run), tmp_path / "bundle")
    before = snapshot(bundle)
    assert ecgfed("predict", bundle, records / "p4", "--out", tmp_path / "out", "--quiet").code == 0
    assert snapshot(bundle) == before
    assert open_bundle(bundle).patients == ("p1", "p2", "p3", "p4")


def test_a_full_disk_while_exporting(fedavg_run: Path, tmp_path: Path) -> None:
    result = run_limited(100_000, "export", fedavg_run, "--out", tmp_path / "bundle", "--json")
    assert_full_disk(result, "global.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("room", "file"), [(64, "p1.ecgfed"), (1000, "p1.csv"), (4000, "p1.json")])
def test_a_full_disk_while_predicting(fedavg_run: Path, records: Path, tmp_path: Path, room: int, file: str) -> None:
    """Full at the first, the second, the third file: none of the three is there then, nor a folder for them."""
    bundle = exported(fedavg_run)
    result = run_limited(room, "predict", bundle, records / "p1", "--out", tmp_path / "a" / "out", "--json")
    assert_full_disk(result, file)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_the_prediction_before(
    ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path
) -> None:
    command = ("predict", exported(fedavg_run), records / "p1", "--out", tmp_path)
    assert ecgfed(*command, "--quiet").code == 0
    before = snapshot(tmp_path)
    assert_full_disk(run_limited(4000, *command, "--overwrite", "--patient", "p2"), "p1.json")
    assert snapshot(tmp_path) == before
