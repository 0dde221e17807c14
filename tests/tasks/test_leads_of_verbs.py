"""Every verb means the same lead by the same words: of a file, of a recording in hand, and where none is asked for."""

from pathlib import Path

import edfio
import numpy as np
import pytest
from conftest import synthetic_signal
from record_files import write_leads
from support import Command, assert_refused

import ecgfed
from ecgfed.base.errors import OptionError, RecordError

BUNDLE = Path(__file__).parents[1] / "data" / "version-0.1" / "bundle"
FS = 360
SIGNAL, R = synthetic_signal("N" * 40, seed=3)
BREATH = np.sin(2 * np.pi * 0.25 * np.arange(len(SIGNAL)) / FS)


def with_a_first_channel_of_another_clock(folder: Path) -> Path:
    count = len(SIGNAL) // FS * FS
    slow, fast = SIGNAL[: count : FS // 120], SIGNAL[:count]
    signals = [
        edfio.EdfSignal(slow, 120, label="Pacer", physical_dimension="mV"),
        edfio.EdfSignal(fast, FS, label="ECG II", physical_dimension="mV"),
        edfio.EdfSignal(-0.6 * fast, FS, label="ECG V1", physical_dimension="mV"),
    ]
    edfio.Edf(signals).write(folder / "m.edf")
    return folder / "m.edf"


def test_the_preferred_lead_is_taken_past_a_first_one_of_another_clock(tmp_path: Path) -> None:
    file = with_a_first_channel_of_another_clock(tmp_path)
    found = ecgfed.detect(file).records[0]
    assert (found.lead, found.fs_hz) == ("II", FS)
    looked = ecgfed.inspect_recording(file)
    assert (looked.recording.lead, list(looked.quality)) == ("II", ["II", "V1"])
    assert "missing-lead" not in {one.kind for one in looked.findings}
    assert ecgfed.predict(BUNDLE, file, leads=("MLII", "II"), force=True).recording.lead == "II"


def test_what_is_wrong_with_the_preferred_lead_is_said_by_every_verb(tmp_path: Path) -> None:
    """Another lead in its place would be one that nobody asked for."""
    file = write_leads(tmp_path, "r", {"II": SIGNAL, "V1": -0.6 * SIGNAL})
    text = file.with_suffix(".hea").read_text().splitlines()
    text[1] = text[1].replace("/mV", "/mv")
    file.with_suffix(".hea").write_text("\n".join(text) + "\n")
    for verb in (ecgfed.detect, ecgfed.inspect_recording):
        with pytest.raises(RecordError, match="lead II is in 'mv'"):
            verb(file)
        assert_one_lead(verb(file, leads="V1"), "V1")


def assert_one_lead(found: ecgfed.Detections | ecgfed.Inspection, lead: str) -> None:
    assert (found.records[0].lead if isinstance(found, ecgfed.Detections) else found.recording.lead) == lead


def test_two_leads_of_the_preferred_name_are_refused_by_every_verb(tmp_path: Path) -> None:
    file = write_leads(tmp_path, "r", {"II": SIGNAL, "V1": -0.6 * SIGNAL})
    header = file.with_suffix(".hea")
    header.write_text(header.read_text().replace(" V1", " II"))
    for verb in (ecgfed.detect, ecgfed.inspect_recording):
        with pytest.raises(RecordError, match="has 2 leads II"):
            verb(file)
        assert_one_lead(verb(file, leads="#2"), "II (2)")


def test_a_place_is_the_files_or_it_is_refused(tmp_path: Path) -> None:
    """A recording in hand may lack channels that its file has, so its second lead is not the file's second channel."""
    file = write_leads(tmp_path, "r", {"RESP": BREATH, "x1": SIGNAL, "x2": -0.6 * SIGNAL})
    assert ecgfed.detect(file, leads="#2").records[0].lead == "x1"
    every, alone = (ecgfed.read_recording(file, "#2", every_lead=every) for every in (True, False))
    for verb in (ecgfed.detect, ecgfed.inspect_recording):
        for held in (every, alone):
            with pytest.raises(OptionError, match="leads: #2 of a recording of which not every channel was"):
                verb(held, leads="#2")
        assert_one_lead(verb(every, leads="x2"), "x2")
    whole = ecgfed.read_recording(file, "#2", every_lead=True, include_non_ecg=True)
    assert ecgfed.detect(whole, leads="#2").records[0].lead == "x1"
    made = ecgfed.Recording("m", Path("m"), "x1", ("x1", "x2"), 360.0, np.stack([SIGNAL, -SIGNAL]), ())
    assert ecgfed.detect(made, leads="#2").records[0].lead == "x2"


def test_a_place_that_is_no_ecg_is_said_to_be_none(ecgfed: Command, tmp_path: Path) -> None:
    """Who counts the leads that inspect lists may ask for a respiration, and hears so."""
    beating = write_leads(tmp_path, "r", {"RESP": SIGNAL, "ECG1": SIGNAL, "ECG2": -0.6 * SIGNAL})
    listed = ecgfed("inspect", beating)
    assert "leads ECG1, ECG2" in listed.out + listed.err
    assert "Left out: RESP: no ECG." in listed.out + listed.err
    for verb in (("predict", BUNDLE, "--force"), ("detect",)):
        out = ("--out", tmp_path / verb[0])
        said = ecgfed(*verb, beating, "--lead", "#1", *out)
        assert said.code == 0
        assert "lead RESP is no ECG by its name" in said.err
        said = ecgfed(*verb, beating, "--lead", "#2", *out, "--overwrite")
        assert "no ECG" not in said.err
    assert "- Lead RESP is no ECG by its name." in (said := ecgfed("inspect", beating, "--lead", "#1")).out + said.err
    assert_refused(ecgfed("detect", beating, "--lead", "#7", "--out", tmp_path / "no"), "#7")
