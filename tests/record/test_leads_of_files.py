"""Leads of recordings in every format, read whole and by blocks: which is chosen, called what, and what is left out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal
from record_files import edf_bytes, write_212
from refusals import refuses

import ecgfed
from ecgfed.base.errors import RecordError
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.reader import open_every_lead, open_recording, read_recording
from ecgfed.domain.record.recording import ReadOptions, Recording
from ecgfed.domain.signal.findings import missing_lead, record_findings

RAMP = [list(range(0, 2000, 2)), list(range(2000, 0, -2)), list(range(500, 1500))]


def written(
    folder: Path, kind: str, leads: tuple[str, str, str], units: tuple[str, str, str] = ("mV", "mV", "mV")
) -> tuple[Path, ReadOptions]:
    """One recording of three channels in a format, in millivolt where WFDB and EDF are not told other units."""
    signals = (np.array(RAMP) - 1024) / 200
    if kind == "wfdb":
        record = write_212(folder, "r", RAMP, leads=leads)
        lines = record.with_suffix(".hea").read_text().splitlines()
        lines[1:4] = [line.replace("/mV", f"/{unit}") for line, unit in zip(lines[1:4], units, strict=True)]
        record.with_suffix(".hea").write_text("\n".join(lines) + "\n")
        return record, ReadOptions()
    if kind == "segments":
        write_212(folder, "s1", RAMP, leads=leads)
        (folder / "r.hea").write_text("r/1 3 360 1000\ns1 1000\n")
        return folder / "r", ReadOptions()
    if kind == "edf":
        rows = [[(np.array(channel) - 1024)[200 * r : 200 * r + 200] for r in range(5)] for channel in RAMP]
        labels = [f"ECG {name}" if name in ("II", "V1") else name for name in leads]
        raw = edf_bytes(rows, duration="0.5", physical=("-5", "5"), labels=labels, units=units)
        (folder / "r.edf").write_bytes(raw)
        return folder / "r.edf", ReadOptions()
    if kind == "csv":
        np.savetxt(folder / "r.csv", signals.T, delimiter=",", header=",".join(leads), comments="")
        return folder / "r.csv", ReadOptions(fs_hz=360, units="mV")
    np.save(folder / "r.npy", signals)
    return folder / "r.npy", ReadOptions(fs_hz=360, units="mV", columns=leads)


FORMATS = ("wfdb", "segments", "edf", "csv", "npy")
#: Those of which a long recording stays on the disk.
BY_BLOCKS = ("wfdb", "edf", "npy")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_respiration_in_millivolt_is_read_only_by_name(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("RESP", "II", "V1"))
    read = read_recording(path, every_lead=True, how=how)
    assert (read.lead, read.leads, read.requested_as) == ("II", ("II", "V1"), "")
    assert read.skipped == ("RESP: no ECG",)
    assert read_recording(path, every_lead=True, include_non_ecg=True, how=how).leads == ("RESP", "II", "V1")
    asked = read_recording(path, ("resp",), every_lead=True, how=how)
    assert (asked.lead, asked.leads) == ("RESP", ("RESP", "II", "V1"))
    np.testing.assert_allclose(asked.signal_mv, (np.array(RAMP[0]) - 1024) / 200, atol=1e-9)


def held(recording: Recording) -> dict[str, object]:
    """What a recording says of itself."""
    names = ("name", "path", "lead", "leads", "fs_hz", "samples", "comments", "files", "skipped", "requested_as")
    return {name: getattr(recording, name) for name in names}


#: What is asked for, and what is then chosen, read with every lead, and said of it.
ASKED = [
    ((), "MLII", ("MLII", "V1"), ("RESP: no ECG",), ""),
    (("V1",), "V1", ("MLII", "V1"), ("RESP: no ECG",), ""),
    (("V9", "II"), "MLII", ("MLII", "V1"), ("RESP: no ECG",), "II"),
    (("mlii",), "MLII", ("MLII", "V1"), ("RESP: no ECG",), ""),
    (("resp",), "RESP", ("RESP", "MLII", "V1"), (), ""),
    (("#1",), "RESP", ("RESP", "MLII", "V1"), (), ""),
]


@pytest.mark.parametrize(("asked", "lead", "leads", "left_out", "stands_for"), ASKED)
@pytest.mark.parametrize("kind", BY_BLOCKS)
def test_by_blocks_the_same_leads_are_chosen_and_left_out(
    tmp_path: Path,
    kind: str,
    asked: tuple[str, ...],
    lead: str,
    leads: tuple[str, ...],
    left_out: tuple[str, ...],
    stands_for: str,
) -> None:
    path, how = written(tmp_path, kind, ("RESP", "MLII", "V1"))
    for every in (True, False):
        long = open_recording(path, asked, every_lead=every, how=how, min_samples=1000)
        assert long.is_lazy
        assert (long.lead, long.requested_as) == (lead, stands_for)
        assert (long.leads, long.skipped) == ((leads, left_out) if every else ((lead,), ()))
        row = ("RESP", "MLII", "V1").index(lead)
        np.testing.assert_allclose(long.signal_mv, (np.array(RAMP[row]) - 1024) / 200, atol=1e-9)


@pytest.mark.parametrize("kind", BY_BLOCKS)
def test_by_blocks_the_detector_is_given_the_same_leads(tmp_path: Path, kind: str) -> None:
    """A respiration is among them only where the peaks are to lie on it."""
    path, how = written(tmp_path, kind, ("RESP", "MLII", "V1"))
    for asked, leads in (((), ("MLII", "V1")), (("V1",), ("MLII", "V1")), (("resp",), ("RESP", "MLII", "V1"))):
        long = ecg_alone(open_recording(path, asked, every_lead=True, how=how, min_samples=1000))
        assert long.is_lazy
        assert long.leads == leads
    one = open_recording(path, ("resp",), every_lead=True, how=how, min_samples=1000)
    other = ecg_alone(replace(one, lead="MLII"))
    assert other.leads == ("MLII", "V1")
    np.testing.assert_allclose(other.signals_mv, (np.array(RAMP[1:]) - 1024) / 200, atol=1e-9)
    preferred = open_every_lead(path, ("II",), how=how, min_samples=1000)
    assert (preferred.lead, preferred.requested_as) == ("MLII", "II")


@pytest.mark.parametrize("kind", BY_BLOCKS)
def test_by_blocks_what_holds_no_ecg_is_refused(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("RESP", "ABP", "PLETH"))
    with pytest.raises(RecordError, match="has no channel that is an ECG; it has RESP, ABP, PLETH"):
        open_recording(path, every_lead=True, how=how, min_samples=1000)


@pytest.mark.parametrize("kind", ["wfdb", "edf"])
def test_by_blocks_a_pressure_is_left_out_for_its_unit(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("ART", "MLII", "x"), units=("mmHg", "mV", "mmHg"))
    long = open_recording(path, every_lead=True, how=how, min_samples=1000)
    assert long.is_lazy
    assert (long.leads, long.skipped) == (("MLII",), ("ART: no voltage", "x: no voltage"))
    with refuses(RecordError, "invalid-record"):
        open_recording(path, ("ART",), every_lead=True, how=how, min_samples=1000)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_respiration_is_converted_with_the_leads_and_stays_none(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("RESP", "MLII", "V1"))
    with pytest.warns(ecgfed.EcgfedWarning, match="no annotation") as said:
        made = ecgfed.convert(path, tmp_path / "out", how=how)
    assert len(said) == 1
    assert ([one.name for one in made.leads], made.skipped) == (["RESP", "MLII", "V1"], ())
    stored = wfdb.rdrecord(str(tmp_path / "out" / "r"))
    assert stored.sig_name == ["RESP", "MLII", "V1"]
    np.testing.assert_allclose(stored.p_signal.T, (np.array(RAMP) - 1024) / 200, atol=1e-6)
    for least in (1000, 10**6):
        back = open_recording(tmp_path / "out" / "r", every_lead=True, min_samples=least)
        assert (back.lead, back.leads, back.skipped) == ("MLII", ("MLII", "V1"), ("RESP: no ECG",))


@pytest.mark.parametrize("kind", FORMATS)
def test_two_leads_of_one_name_in_every_format(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("ECG", "ECG", "V1"))
    for place, row in (("#1", 0), ("#2", 1), ("ECG (2)", 1), ("#3", 2)):
        read = read_recording(path, (place,), how=how)
        np.testing.assert_allclose(read.signal_mv, (np.array(RAMP[row]) - 1024) / 200, atol=1e-9)
    every = read_recording(path, every_lead=True, how=how)
    assert (every.lead, every.leads) == ("ECG (1)", ("ECG (1)", "ECG (2)", "V1"))
    with refuses(RecordError, "unknown-lead", "leads"):
        read_recording(path, ("ECG",), how=how)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_lead_under_another_name_is_found_and_said(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("V1", "MLII", "aVF"))
    read = read_recording(path, ("II", "V9"), how=how)
    assert (read.lead, read.requested_as) == ("MLII", "II")
    assert read_recording(path, ("mlii",), how=how).requested_as == ""
    every = open_every_lead(path, ("II",), how=how)
    assert (every.lead, every.requested_as) == ("MLII", "II")
    assert missing_lead(every, ("II",)) == []
    assert missing_lead(every, ("V5",))[0].kind == "missing-lead"


def test_a_pressure_in_a_segment_is_passed_by(tmp_path: Path) -> None:
    """As MIMIC's records have them: the layout's ABP is in mmHg, and every lead is asked for."""
    write_212(tmp_path, "s1", RAMP, leads=("II", "ABP", "V"))
    header = (tmp_path / "s1.hea").read_text().splitlines()
    header[2] = header[2].replace("/mV", "/mmHg")
    (tmp_path / "s1.hea").write_text("\n".join(header) + "\n")
    (tmp_path / "r.hea").write_text("r/1 3 360 1000\ns1 1000\n")
    read = read_recording(tmp_path / "r", every_lead=True)
    assert (read.leads, read.skipped) == (("II", "V"), ("ABP: no ECG",))
    assert read_recording(tmp_path / "r", every_lead=True, include_non_ecg=True).leads == ("II", "V")
    with refuses(RecordError, "invalid-record"):
        read_recording(tmp_path / "r", ("ABP",))


def test_the_detector_never_sees_a_respiration() -> None:
    """The peaks of a recording with a breath beside its ECG are those of the ECG alone."""
    signal, _ = synthetic_signal("N" * 40)
    breath = 2 * np.sin(2 * np.pi * 0.25 * np.arange(len(signal)) / 360)
    alone = Recording("r", Path("r"), "MLII", ("MLII",), 360.0, signal[None], ())
    both = Recording("r", Path("r"), "MLII", ("RESP", "MLII"), 360.0, np.stack([breath, signal]), ())
    assert ecg_alone(alone) is alone
    assert ecg_alone(both).leads == ("MLII",)
    found = [ecgfed.detect(one).records[0].sample.tolist() for one in (alone, both)]
    assert found[0] == found[1]
    assert list(ecgfed.inspect_recording(both).quality) == ["MLII"]
    with pytest.warns(ecgfed.EcgfedWarning, match="lead RESP is no ECG by its name"):
        asked = ecgfed.detect(both, leads="RESP")
    assert asked.records[0].lead == "RESP"


def test_findings_know_leads_in_small_letters() -> None:
    """PTB writes i, ii, iii: an ECG upside down is found there too, and Einthoven's law is checked."""
    signal, at = synthetic_signal("N" * 20)
    leads = {"i": -signal, "ii": signal, "iii": signal}
    recording = Recording("r", Path("r"), "ii", tuple(leads), 360.0, np.stack(list(leads.values())), ())
    found = record_findings(recording, np.array(at), np.zeros(recording.signals_mv.shape, dtype=bool))
    assert {(one.kind, one.lead) for one in found} >= {("inverted", "i"), ("limb-leads", None)}


@pytest.mark.parametrize("kind", BY_BLOCKS)
def test_a_recording_that_was_opened_is_converted_as_its_file_is(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("V1", "MLII", "RESP"))
    opened = open_recording(path, ("resp",), every_lead=True, how=how, min_samples=1000)
    assert opened.is_lazy
    for source, folder in ((opened, "of-recording"), (path, "of-file")):
        with pytest.warns(ecgfed.EcgfedWarning, match="no annotation"):
            ecgfed.convert(source, tmp_path / folder, how=how)
    for name in ("r.hea", "r.dat"):
        assert (tmp_path / "of-recording" / name).read_bytes() == (tmp_path / "of-file" / name).read_bytes()
