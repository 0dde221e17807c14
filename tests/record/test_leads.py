"""Names of leads: what is the same, what stands for what, and what is never taken for an ECG."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from hypothesis import given
from hypothesis import strategies as st
from record_files import edf_bytes, write_212

import ecgfed
from ecgfed.errors import RecordError
from ecgfed.record.lead_names import is_another_signal, names_nobody
from ecgfed.record.leads import Alike, alike, are_ecg, choose_lead, distinct, find_lead, other_name, usual_name
from ecgfed.record.reader import ecg_alone, read_every_lead, read_recording
from ecgfed.record.recording import ReadOptions, Recording
from ecgfed.signal.findings import missing_lead, record_findings

RAMP = [list(range(0, 2000, 2)), list(range(2000, 0, -2)), list(range(500, 1500))]


@pytest.mark.parametrize(
    ("asked", "present", "how"),
    [
        ("II", "II", Alike.EXACT),
        ("II", "ii", Alike.NAME),
        ("MLII", "ml-ii", Alike.NAME),
        ("aVR", "AVR", Alike.NAME),
        ("aVR", "AVR,", Alike.NAME),  # as BIDMC's headers write it
        ("ECG", "ECG (2)", Alike.NAME),
        ("II", "\u2161", Alike.NAME),  # the Roman number that is one character
        ("II", "Lead II", Alike.LEAD),
        ("II", "ECG II", Alike.LEAD),
        ("II", "ECG Lead II", Alike.LEAD),
        ("II", "lead_ii", Alike.LEAD),
        ("II", "DII", Alike.LEAD),
        ("II", "D2", Alike.LEAD),
        ("III", "D3", Alike.LEAD),
        ("V1", "C1", Alike.LEAD),
        ("V1", "ECG V1", Alike.LEAD),
        ("vx", "X", Alike.LEAD),
        ("V", "ECG lead V", Alike.LEAD),  # MGH/MF
        ("MLII", "ML2", Alike.LEAD),
        ("MLII", "II", Alike.MODIFIED),
        ("II", "ECG MLII", Alike.MODIFIED),
        ("V1", "MCL1", Alike.MODIFIED),
        ("V1", "mod. V1", Alike.MODIFIED),
        ("V2", "mV2", Alike.MODIFIED),
        ("MCL1", "MV1", Alike.MODIFIED),
        # what must not be mixed up
        ("I", "ECG 1", Alike.OTHER),  # a channel's number
        ("I", "1", Alike.OTHER),
        ("I", "Channel I", Alike.OTHER),
        ("II", "III", Alike.OTHER),
        ("aVR", "-aVR", Alike.OTHER),
        ("MLII", "V5", Alike.OTHER),
        ("V1", "V", Alike.OTHER),
        ("V1", "MCL", Alike.OTHER),
        ("V5", "CM5", Alike.OTHER),
        ("V4", "V4R", Alike.OTHER),
        ("V4", "V4-V3", Alike.OTHER),
        ("V3", "V3-V3R", Alike.OTHER),
        ("ECG", "ECG1", Alike.OTHER),
        ("", "", Alike.EXACT),
        ("-", "_", Alike.OTHER),
    ],
)
def test_how_far_one_name_answers_for_another(asked: str, present: str, how: Alike) -> None:
    assert alike(asked, present) == alike(present, asked) == how


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_two_names_can_be_compared(one: str, other: str) -> None:
    assert alike(one, other) == alike(other, one)
    assert alike(one, one) == Alike.EXACT
    assert len(set(distinct((one, other, one)))) == 3
    are_ecg((one, other), (other, one))
    names_nobody(one)


@pytest.mark.parametrize(
    ("present", "leads", "at"),
    [
        (("ii", "II"), ("II",), 1),  # the very name first
        (("MLII", "Lead II", "ii"), ("II",), 2),
        (("MLII", "Lead II"), ("II",), 1),
        (("V1", "MLII"), ("II",), 1),
        (("MLII", "V1"), ("II", "V1"), 1),  # a name that is there before one that stands for another
        (("II", "V1"), ("MLII", "II"), 0),
        (("MCL1", "II"), ("V1",), 0),
        (("V5", "MLII"), ("#1",), 0),
        (("ECG (1)", "ECG (2)"), ("#2",), 1),
        (("ECG (1)", "ECG (2)"), ("ecg (2)",), None),  # two of the name, and case decides nothing
        (("ECG (1)", "ECG (2)"), ("ECG (2)",), 1),
    ],
)
def test_the_best_answer_is_chosen(present: tuple[str, ...], leads: tuple[str, ...], at: int | None) -> None:
    if at is None:
        with pytest.raises(RecordError, match="has 2 leads"):
            choose_lead(present, "r", leads)
    else:
        assert choose_lead(present, "r", leads) == at


def test_two_of_one_name_are_told_apart_by_their_place() -> None:
    assert distinct(("ECG", "ECG", "V1")) == ("ECG (1)", "ECG (2)", "V1")
    assert distinct(("ECG", "ECG (1)", "ECG")) == ("ECG (2)", "ECG (1)", "ECG (3)")
    with pytest.raises(RecordError, match=r"r: has 2 leads ECG: ECG \(1\), ECG \(2\); .*by its place: leads '#1'"):
        choose_lead(distinct(("ECG", "ECG")), "r", ("ECG",))
    with pytest.raises(RecordError, match="has no lead #3; it has"):
        choose_lead(("ECG (1)", "ECG (2)"), "r", ("#3",))
    assert find_lead(("a",), ("#0",)) is None


OTHERS = (
    "RESP", "Resp,", "resp (sum)", "Resp. Imp.", "Resp C", "THOR RES", "ABDO RES", "ABP", "ART", "BP", "NBP", "PAP",
    "CVP", "ICP", "Ao", "P1 ART", "PLETH", "pleth_2", "wrist_ppg", "SpO2", "SaO2", "OX stat", "CO2", "EtCO2", "Temp",
    "EEG", "EEG (C4-A1)", "EEG(sec)", "Fp1-F7", "C3-A2", "Cz", "O1", "EMG (chin)", "EOG(L)", "LOC", "ROC-LOC",
    "wrist_gyro_x", "wrist_low_noise_accelerometer_x", "marker", "Event", "Patient Event", "Status", "HR", "H.R.",
    "foot GSR", "SCG", "PCG", "noise1", "Snore", "POSITION", "NEW AIR", "Flow", "ECG status", "Trigger", "I-cal",
    "V1cal", "OFF",
)  # fmt: skip
ECGS = (
    "ECG", "ECG1", "ekg", "ECG1-ECG2", "chest_ecg", "AI4: ECG", "MLII", "ii", "AVR", "avr,", "-aVR", "V", "MCL", "V5",
    "CM5", "vx", "X", "A-S", "E-S", "A-I", "ML5", "mod.V1", "signal 1", "ch1", "Ch 0", "channel 3", "", "lead", "1",
    "D4", "V4-V3", "Ableitung II", "C3", "\u5fc3\u7535", "anything else",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_ecg_by_its_name(name: str) -> None:
    assert is_another_signal(name)
    assert are_ecg(("ECG", name)) == [True, False]


@pytest.mark.parametrize("name", ECGS)
def test_what_is_an_ecg_or_says_nothing(name: str) -> None:
    assert not is_another_signal(name)


def test_units_and_company_tell_too() -> None:
    units = ("mmHg", "%", "degC", "bpm", "mV", "uV", "\u00b5V", "", "g", "NU", "V")
    assert are_ecg(["ch"] * len(units), units) == [
        False,
        False,
        False,
        False,
        True,
        True,
        True,
        True,
        False,
        False,
        True,
    ]
    assert are_ecg(("C3", "V1")) == [True, True]  # IEC's third chest lead
    assert are_ecg(("C3", "Cz", "ECG")) == [False, False, True]  # over the brain
    assert choose_lead(("RESP", "x1", "II"), "r", (), ("mV", "mmHg", "mV")) == 2
    with pytest.raises(RecordError, match="r: has no channel that is an ECG; it has ABP, PLETH; name one with leads"):
        choose_lead(("ABP", "PLETH"), "r", ())


def test_usual_names() -> None:
    names = {"ii": "II", "DII": "II", "ml2": "MLII", "avr": "aVR", "ECG V1": "V1", "MCL1": "MCL1", "ECG": "ECG"}
    assert {name: usual_name(name) for name in names} == names
    assert other_name(("II",), "MLII") == other_name(("II",), "Lead II") == "II"
    assert other_name(("II",), "ii") == other_name(("V1",), "MLII") == other_name(("#1",), "MLII") == ""


def written(folder: Path, kind: str, leads: tuple[str, str, str]) -> tuple[Path, ReadOptions]:
    """One recording of three channels in millivolt, in a format."""
    signals = (np.array(RAMP) - 1024) / 200
    if kind == "wfdb":
        return write_212(folder, "r", RAMP, leads=leads), ReadOptions()
    if kind == "segments":
        write_212(folder, "s1", RAMP, leads=leads)
        (folder / "r.hea").write_text("r/1 3 360 1000\ns1 1000\n")
        return folder / "r", ReadOptions()
    if kind == "edf":
        rows = [[(np.array(channel) - 1024)[200 * r : 200 * r + 200] for r in range(5)] for channel in RAMP]
        labels = [f"ECG {name}" if name in ("II", "V1") else name for name in leads]
        raw = edf_bytes(rows, duration="0.5", physical=("-5", "5"), labels=labels, units=("mV",) * 3)
        (folder / "r.edf").write_bytes(raw)
        return folder / "r.edf", ReadOptions()
    if kind == "csv":
        np.savetxt(folder / "r.csv", signals.T, delimiter=",", header=",".join(leads), comments="")
        return folder / "r.csv", ReadOptions(fs_hz=360, units="mV")
    np.save(folder / "r.npy", signals)
    return folder / "r.npy", ReadOptions(fs_hz=360, units="mV", columns=leads)


FORMATS = ("wfdb", "segments", "edf", "csv", "npy")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_respiration_in_millivolt_is_read_only_by_name(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("RESP", "II", "V1"))
    read = read_recording(path, every_lead=True, how=how)
    assert (read.lead, read.leads, read.stands_for) == ("II", ("II", "V1"), "")
    assert read.left_out == ("RESP: no ECG",)
    assert read_recording(path, every_lead=True, others=True, how=how).leads == ("RESP", "II", "V1")
    asked = read_recording(path, ("resp",), every_lead=True, how=how)
    assert (asked.lead, asked.leads) == ("RESP", ("RESP", "II", "V1"))
    np.testing.assert_allclose(asked.signal_mv, (np.array(RAMP[0]) - 1024) / 200, atol=1e-9)


@pytest.mark.parametrize("kind", FORMATS)
def test_two_leads_of_one_name_in_every_format(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("ECG", "ECG", "V1"))
    for place, row in (("#1", 0), ("#2", 1), ("ECG (2)", 1), ("#3", 2)):
        read = read_recording(path, (place,), how=how)
        np.testing.assert_allclose(read.signal_mv, (np.array(RAMP[row]) - 1024) / 200, atol=1e-9)
    every = read_recording(path, every_lead=True, how=how)
    assert (every.lead, every.leads) == ("ECG (1)", ("ECG (1)", "ECG (2)", "V1"))
    with pytest.raises(RecordError, match="has 2 leads ECG"):
        read_recording(path, ("ECG",), how=how)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_lead_under_another_name_is_found_and_said(tmp_path: Path, kind: str) -> None:
    path, how = written(tmp_path, kind, ("V1", "MLII", "aVF"))
    read = read_recording(path, ("II", "V9"), how=how)
    assert (read.lead, read.stands_for) == ("MLII", "II")
    assert read_recording(path, ("mlii",), how=how).stands_for == ""
    every = read_every_lead(path, ("II",), how=how)
    assert (every.lead, every.stands_for) == ("MLII", "II")
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
    assert (read.leads, read.left_out) == (("II", "V"), ("ABP: no ECG",))
    assert read_recording(tmp_path / "r", every_lead=True, others=True).leads == ("II", "V")
    with pytest.raises(RecordError, match="lead ABP is in 'mmHg'"):
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
    asked = ecgfed.detect(both, leads="RESP")
    assert asked.records[0].lead == "RESP"


def test_findings_know_leads_in_small_letters() -> None:
    """PTB writes i, ii, iii: an ECG upside down is found there too, and Einthoven's law is checked."""
    signal, at = synthetic_signal("N" * 20)
    leads = {"i": -signal, "ii": signal, "iii": signal}
    recording = Recording("r", Path("r"), "ii", tuple(leads), 360.0, np.stack(list(leads.values())), ())
    found = record_findings(recording, np.array(at), np.zeros(recording.signals_mv.shape, dtype=bool))
    assert {(one.kind, one.lead) for one in found} >= {("inverted", "i"), ("limb-leads", None)}


def test_names_that_are_nobodys() -> None:
    for name in ("I", "aVR", "mod. V1", "MLII", "ECG", "ECG 2", "Ch 0", "signal 1", "RESP", "ABP", "SpO2", "ECG (1)"):
        assert names_nobody(name)
    for name in ("Mark", "Art", "Anna", "Smith II", "lead of Anna", "ECG Miller", "", "Temple"):
        assert not names_nobody(name)
