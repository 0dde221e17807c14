"""The live page never shows beats of one patient, model, lead or recording beside another's, in headless Chromium."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from browser_driver import HERE, driven
from conftest import write_record
from node_runtime import node_path, serial_lines
from support import exported

import ecgfed
from ecgfed.web.live import main

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"


@pytest.fixture(scope="module")
def personal(fedavg_run: Path) -> Path:
    """A bundle with a model for each of the four synthetic patients."""
    return exported(fedavg_run)


@pytest.fixture(scope="module")
def told(personal: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    node_path("onnxruntime-web")
    folder = tmp_path_factory.mktemp("changes")
    ort = HERE / "node_modules" / "onnxruntime-web"
    assert main([str(folder / "live.html"), "--ort", str(ort), "--bundle", str(personal)]) == 0
    first = write_record(folder, "first", "NNNNNVNNNN" * 9, seed=3, annotate=False)
    second = write_record(folder, "second", "NNVNN" * 12, seed=4, annotate=False)
    (folder / "odd.bin").write_bytes(b"\x00\x01")
    shutil.make_archive(str(folder / "another"), "zip", MODEL)
    (folder / "cut.zip").write_bytes((folder / "another.zip").read_bytes()[:-30])
    given = {
        "page": str(folder / "live.html"),
        "first": [f"{first}.hea", f"{first}.dat"],
        "second": [f"{second}.hea", f"{second}.dat"],
        "bad": [str(folder / "odd.bin")],
        "bundle": [str(folder / "another.zip")],
        "badBundle": [str(folder / "cut.zip")],
        "patient": ecgfed.open_bundle(personal).patients[0],
        "lines": serial_lines(second, "uV"),
    }
    answer = driven("changes.mjs", given, folder, timeout_s=500)
    assert answer["errors"] == []
    return {**answer, "paths": {"first": first, "second": second}, "patient": given["patient"]}


def nothing_is_said(state: dict[str, Any]) -> None:
    """No beat is counted, drawn or can be saved."""
    assert state["counts"] == []
    assert state["hidden"] or state["beats"] == 0
    assert {"save", "next", "stop"} <= set(state["off"])


def test_the_beats_of_one_recording_never_stand_on_anothers_strip(told: dict[str, Any]) -> None:
    """A file that is chosen while another one plays ends the stream."""
    state = told["playing_file"]
    nothing_is_said(state)
    assert state["said"].startswith("second: ")
    assert not state["hidden"]
    assert not any(said.startswith("Ended") for said in state["history"])
    state = told["playing_lead"]
    nothing_is_said(state)
    assert not {"classify", "play"} & set(state["off"])


def test_a_classification_that_was_overtaken_writes_nothing(told: dict[str, Any]) -> None:
    nothing_is_said(told["overtaken"])
    assert told["overtaken"]["said"].startswith("second: ")


def test_of_two_buttons_in_one_tick_one_works(told: dict[str, Any]) -> None:
    one, other = told["classify_first"], told["play_first"]
    assert not any(said.startswith("Listening") for said in one["history"])
    assert one["said"].endswith(" beats.")
    assert "stop" in one["off"]
    assert other["said"].startswith("Listening")
    assert not any(said.startswith("Finding") for said in other["history"])
    assert "stop" not in other["off"]


@pytest.mark.parametrize("what", ["patient", "lead", "recording", "bundle", "refusedBundle"])
def test_what_is_chosen_anew_clears_what_was_said(told: dict[str, Any], what: str) -> None:
    assert told["classified"]["counts"]
    assert told["classified"]["beats"]
    nothing_is_said(told["changed"][what])
    assert not told["changed"][what]["hidden"]


def test_of_a_refused_recording_and_the_one_before_nothing_stays(told: dict[str, Any]) -> None:
    state = told["refused"]
    nothing_is_said(state)
    assert state["problem"].startswith("odd.bin: is of no format")
    assert state["hidden"]
    assert {"classify", "play"} <= set(state["off"])


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_saved_table_names_model_patient_and_lead(told: dict[str, Any], personal: Path) -> None:
    path, bundle = told["paths"]["first"], ecgfed.open_bundle(personal)
    for saved, patient in (("saved", None), ("patientSaved", told["patient"])):
        assert told[saved]["name"] == "first-beats.csv"
        rows = rows_of(told[saved]["text"])
        python = ecgfed.predict(personal, path, patient=patient, force=True)
        assert [row["class"] for row in rows] == list(python.names)
        assert {row["model"] for row in rows} == {bundle.manifest["digest"]}
        assert {row["patient"] for row in rows} == {patient or "global model"}
        assert {row["lead"] for row in rows} == {python.metadata["lead"]}


def test_what_a_device_sends_is_drawn_on_its_own_strip(told: dict[str, Any]) -> None:
    """The recording that was open is closed: its strip would bear the device's beats."""
    state = told["device"]
    assert told["deviceSaved"]["name"] == "stream-beats.csv"
    rows = rows_of(told["deviceSaved"]["text"])
    assert state["said"] == f"Ended: {len(rows):,} beats."
    assert len(rows) > 40
    assert state["beats"] > 5
    assert {"classify", "play", "back", "forward"} <= set(state["off"])
    shipped = json.loads((MODEL / "manifest.json").read_text())["digest"]
    assert {(row["model"], row["patient"]) for row in rows} == {(shipped, "global model")}
