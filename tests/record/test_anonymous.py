"""What leaves with names: planted in every field of a header, and looked for in every byte that is written."""

import csv
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hospital_files
import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from record_files import edf_annotation, edf_bytes, write_signals
from refusals import refuses
from support import Command, assert_refused, snapshot

from ecgfed.base.errors import OptionError
from ecgfed.base.extras import is_installed
from ecgfed.domain.record.anonymous import HOSPITAL, anonymised, anonymous_annotation
from ecgfed.domain.record.key_table import new_id
from ecgfed.domain.record.reader import read_annotation, read_recording
from ecgfed.domain.record.recording import Annotation
from ecgfed.tasks.convert import convert

SYMBOLS = "NNNNV" * 6
#: Stands in every free field below, in letters that no other text holds.
NAME = "Quixquax"


def planted_edf(folder: Path, **how: str) -> Path:
    """EDF+ with a name in every field that takes one: patient, recording, sensor, filter, label, annotation, file."""
    rows = [[[0, 1] * 100] * 6, [[0, 2] * 100] * 6]
    marks = [edf_annotation(at) + edf_annotation(at, NAME if at % 2 else "N") for at in range(6)]
    patient = f"{NAME}-77 F 02-MAY-1951 {NAME}_Anna {NAME}-ward"
    labels = ["ECG MLII", f"{NAME[:12]}"]
    raw = bytearray(edf_bytes(rows, labels=labels, reserved="EDF+C", annotations=marks, **{"patient": patient, **how}))
    raw[88:168] = f"Startdate 02-MAR-2002 {NAME}-1 {NAME}-tech {NAME}-dev".encode().ljust(80)
    channels = 3
    for start, width in ((16, 80), (136, 80)):
        for i in range(channels):
            at = 256 + start * channels + width * i
            raw[at : at + width] = NAME.encode().ljust(width)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{NAME}.edf"
    file.write_bytes(raw)
    return file


def planted_wfdb(folder: Path) -> Path:
    """A WFDB record with a name in its comments, a lead, the annotation's texts and its own name, and a start."""
    signal, at = synthetic_signal(SYMBOLS)
    comments = ["age: 93 sex: F", f"patient: {NAME}", f"medication by {NAME}"]
    leads = ("MLII", f"{NAME} lead")
    write_signals(folder, NAME, np.stack([signal, -signal]), fs_hz=360, leads=leads, comments=comments)
    header = folder / f"{NAME}.hea"
    first, rest = header.read_text().split("\n", 1)
    header.write_text(f"{first} 12:34:56 01/02/1999\n{rest}")
    notes = ["(AFIB", NAME, "TS"]
    wfdb.wrann(
        NAME,
        "atr",
        sample=np.array([1, 2, 3, *at]),
        symbol=["+", '"', '"', *SYMBOLS],
        aux_note=[*notes, NAME, *[""] * (len(SYMBOLS) - 1)],
        write_dir=str(folder),
    )
    return folder / NAME


def planted_csv(folder: Path) -> Path:
    """A table with a name in its comments, its file's name and a note of its annotation."""
    signal, at = synthetic_signal(SYMBOLS)
    folder.mkdir(parents=True, exist_ok=True)
    rows = "\n".join(f"{i / 360:.6f},{v:.3f}" for i, v in enumerate(signal))
    (folder / f"{NAME}.csv").write_text(f"# Patient {NAME}, born 1951-05-02\ntime,MLII (mV)\n{rows}\n")
    marks = "\n".join(f"{s},{y},{NAME if i == 3 else ''}" for i, (s, y) in enumerate(zip(at, SYMBOLS, strict=True)))
    (folder / f"{NAME}.atr.csv").write_text(f"# {NAME}\nsample,symbol,note\n{marks}\n")
    return folder / f"{NAME}.csv"


def planted_beats(folder: Path) -> list[int]:
    """Beats in steps of 2.5 microvolt, their annotation written beside where the recording will lie, with a name."""
    signal, at = synthetic_signal(SYMBOLS)
    folder.mkdir(parents=True, exist_ok=True)
    marks = "\n".join(f"{s},{y},{NAME if i == 3 else ''}" for i, (s, y) in enumerate(zip(at, SYMBOLS, strict=True)))
    (folder / f"{NAME}.atr.csv").write_text(f"sample,symbol,note\n{marks}\n")
    return [int(step) for step in np.rint(signal * 400)]


def planted_ishne(folder: Path) -> Path:
    """ISHNE with a name in each field that takes one, and in the text before the samples."""
    (folder / f"{NAME}.ecg").write_bytes(
        hospital_files.ishne_bytes(
            [planted_beats(folder)], name=(NAME, f"{NAME}-Anna"), patient=f"{NAME}-77", text=NAME.encode(), fs=360
        )
    )
    return folder / f"{NAME}.ecg"


def planted_scp(folder: Path) -> Path:
    """SCP-ECG with a name in section 1."""
    patient = hospital_files.scp_patient(last=NAME, first=NAME, patient=f"{NAME}-77", institution=f"{NAME} ward")
    raw = hospital_files.scp_bytes([planted_beats(folder)], order=2, coded=True, step_us=2778, patient=patient)
    (folder / f"{NAME}.scp").write_bytes(raw)
    return folder / f"{NAME}.scp"


def planted_aecg(folder: Path) -> Path:
    """HL7 aECG with a name wherever Quix stands."""
    text = hospital_files.aecg_text([planted_beats(folder)]).replace("Quix", NAME).replace('"0.002"', '"0.00277778"')
    (folder / f"{NAME}.xml").write_text(text.replace('<code code="93000"/>', f"<text>{NAME}</text>"))
    return folder / f"{NAME}.xml"


def planted_dicom(folder: Path) -> Path:
    """DICOM with a name in patient, physician, institution, and in an attribute that nobody thought of."""
    group = hospital_files.dicom_group([planted_beats(folder)], [hospital_files.dicom_channel()], fs="360")
    more = hospital_files.element(0x11, 0x1010, "LO", NAME)
    raw = hospital_files.dicom_bytes(group, name=f"{NAME}^Anna", more=more).replace(b"Quixward", NAME.encode())
    (folder / f"{NAME}.dcm").write_bytes(raw)
    return folder / f"{NAME}.dcm"


PLANTED = {
    "edf": planted_edf,
    "wfdb": planted_wfdb,
    "csv": planted_csv,
    "ishne": planted_ishne,
    "scp": planted_scp,
    "aecg": planted_aecg,
    **({"dicom": planted_dicom} if is_installed("pydicom") else {}),
}


def holds(folder: Path, *words: str) -> list[str]:
    """Files below a folder whose name or bytes hold one of some words, whatever the case, in UTF-8 or UTF-16."""
    found = []
    for name, data in snapshot(folder).items():
        for word in words:
            spelled = [word.lower().encode(), word.lower().encode("utf-16-le")]
            if word.lower() in name.lower() or any(one in data.lower() for one in spelled):
                found.append(f"{name}: {word}")
    return found


@pytest.mark.parametrize("kind", PLANTED)
def test_no_name_is_in_any_byte_that_convert_writes(ecgfed: Command, tmp_path: Path, kind: str) -> None:
    record = PLANTED[kind](tmp_path / "in")
    plain = ecgfed("convert", record, "--out", tmp_path / "plain", "--quiet")
    assert plain.code == 0, plain.err
    assert holds(tmp_path / "plain", NAME)  # so the search finds what is there
    said = ecgfed("convert", record, "--out", tmp_path / "out", "--anonymize", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["p0001.atr", "p0001.dat", "p0001.hea"]
    dates = ("1951", "2002", "1999", "12:34", "02-MAY")
    assert holds(tmp_path / "out", NAME, *dates) == []
    assert told["record"] == "p0001"
    assert NAME.lower() not in said.out.lower()
    before, after = read_recording(record, (), every_lead=True), read_recording(tmp_path / "out" / "p0001", ())
    assert after.comments == ()
    np.testing.assert_allclose(after.signal_mv, before.signals_mv[0], atol=1e-4)


def test_the_list_names_fields_and_counts(ecgfed: Command, tmp_path: Path) -> None:
    removed = {}
    for kind, plant in PLANTED.items():
        said = ecgfed("convert", plant(tmp_path / kind), "--out", tmp_path / f"out-{kind}", "--anonymize", "--json")
        removed[kind] = json.loads(said.out)["removed"]
    first = ["record and file name"]
    assert removed["edf"] == [
        *(*first, "patient code", "sex", "birth date", "patient name", "more about the patient", "start date"),
        *("investigation code", "technician", "equipment", "start time", "texts of sensors (3)"),
        *("texts of filters (3)", "names of leads (1)", "texts of annotations (3)"),
    ]
    more = ["comments (3)", "start time", "start date", "names of leads (1)", "texts of annotations (2)"]
    assert removed["wfdb"] == first + more
    assert removed["ishne"] == [
        *(*first, "patient name", "patient id", "sex", "age", "birth date", "start date", "start time", "recorder"),
        *("text", "all else beside the signal", "texts of annotations (1)"),
    ]
    assert removed["csv"] == [*first, "comments (1)", "texts of annotations (1)"]
    said = ecgfed("convert", tmp_path / "csv" / f"{NAME}.csv", "--out", tmp_path / "out-csv", "--anonymize")
    assert "Left out: record and file name, comments (1), texts of annotations (1)." in said.out


@pytest.mark.parametrize("kind", [kind for kind in PLANTED if kind in HOSPITAL])
def test_age_and_sex_of_hospital_files_may_stay(tmp_path: Path, kind: str) -> None:
    record = PLANTED[kind](tmp_path / "in")
    made = convert(record, tmp_path / "out", anonymize=True, keep=("age", "sex"))
    assert read_recording(tmp_path / "out" / made.record).comments == ("age: 50", "sex: F")


def test_rhythms_and_every_beat_stay(tmp_path: Path) -> None:
    record = planted_wfdb(tmp_path / "in")
    made = convert(record, tmp_path / "out", anonymize=True)
    marks = wfdb.rdann(str(tmp_path / "out" / made.record), "atr")
    assert "".join(marks.symbol) == '+"' + SYMBOLS  # the text that was nothing but a name is gone with its mark
    assert [note.rstrip("\0") for note in marks.aux_note] == ["(AFIB", "TS", *[""] * len(SYMBOLS)]
    _, at = synthetic_signal(SYMBOLS)
    assert marks.sample.tolist() == [1, 3, *at.tolist()]


@pytest.mark.parametrize(
    ("note", "stays"),
    [
        ("(AFIB", True),
        ("(N", True),
        ("MISSB", True),
        ("(ST0+", True),
        ("AST1-250", True),
        ("S", True),
        ("(ANNA", False),
        ("(afib", False),
        ("T1950", False),
        ("AFIB seen by Dr Who", False),
        ("02.05.1951", False),
    ],
)
def test_which_notes_are_codes(note: str, stays: bool) -> None:
    given = Annotation(np.array([5]), np.array(["+"]), (note,), np.array([2]))
    kept, texts = anonymous_annotation(given)
    assert (kept.note == (note,), texts) == (stays, int(not stays))
    assert (kept.sample.tolist(), kept.symbol.tolist(), kept.subtypes.tolist()) == ([5], ["+"], [2])


def test_age_and_sex_stay_only_where_they_are_asked_for(tmp_path: Path) -> None:
    """93 is 90 or older: an age above 89 is close to a name. Born 2 May 1951, recorded 2 March 2002: 50."""
    record, edf = planted_wfdb(tmp_path / "w"), planted_edf(tmp_path / "e")
    for number, (source, keep, expected) in enumerate(
        [
            (record, (), ()),
            (record, ("sex",), ("sex: F",)),
            (record, ("sex", "age"), ("age: 90 or older", "sex: F")),
            (edf, ("age", "sex"), ("age: 50", "sex: F")),
        ],
        1,
    ):
        made = convert(source, tmp_path / "out", anonymize=True, keep=keep)
        assert made.record == f"p{number:04d}"
        assert tuple(wfdb.rdheader(str(tmp_path / "out" / made.record)).comments) == expected
    with refuses(OptionError, "unknown-choice", "keep"):
        convert(record, tmp_path / "out", anonymize=True, keep="name")
    with refuses(OptionError, "missing", "keep"):
        convert(record, tmp_path / "out", keep="age")


@pytest.mark.mitdb
def test_mit_bihs_first_comment_says_age_and_sex(mitdb: Path) -> None:
    """100: 69 M 1085 1629 x1; its medication is the second line."""
    recording = read_recording(mitdb / "100", ("MLII",), every_lead=True)
    clean = anonymised(recording, read_annotation(recording), "p0001", keep=("age", "sex"))
    assert clean.recording.comments == ("age: 69", "sex: M")
    assert clean.removed == ("record and file name", "comments (2)")
    assert clean.recording.leads == ("MLII", "V5")
    assert clean.annotation.note[0] == "(N"


def test_a_lead_that_was_typed_keeps_its_name(ecgfed: Command, tmp_path: Path) -> None:
    record = planted_wfdb(tmp_path / "in")
    said = ecgfed("convert", record, "--lead", f"{NAME} lead", "--out", tmp_path / "a", "--anonymize", "--quiet")
    assert said.code == 0, said.err
    assert wfdb.rdheader(str(tmp_path / "a" / "p0001")).sig_name == ["MLII", f"{NAME} lead"]
    assert ecgfed("convert", record, "--out", tmp_path / "b", "--anonymize", "--quiet").code == 0
    assert wfdb.rdheader(str(tmp_path / "b" / "p0001")).sig_name == ["MLII", "lead 2"]


def test_the_key_is_written_where_asked_for_the_owner_alone(ecgfed: Command, tmp_path: Path) -> None:
    one, two = planted_csv(tmp_path / "one"), planted_wfdb(tmp_path / "two")
    key, out = tmp_path / "key.csv", tmp_path / "out"
    old = os.umask(0)
    try:
        for record in (one, two):
            said = ecgfed("convert", record, "--out", out, "--anonymize", "--key", key, "--quiet")
            assert said.code == 0, said.err
    finally:
        os.umask(old)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with key.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows == [
        {"id": "p0001", "patient": "", "record": str(one)},
        {"id": "p0002", "patient": "", "record": str(two)},
    ]
    again = ecgfed("convert", one, "--out", out, "--anonymize", "--key", key)
    assert_refused(again, "already has p0001.hea", "--overwrite")
    assert ecgfed("convert", one, "--out", out, "--anonymize", "--key", key, "--overwrite", "--quiet").code == 0
    assert {path.stem for path in out.iterdir()} == {"p0001", "p0002"}
    assert holds(out, NAME) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--key", "out/key.csv", "--anonymize"), ("--key", "keep it apart")),
        (("--key", "key.csv"), ("--key", "without --anonymize")),
        (("--key", "none/key.csv", "--anonymize"), ("--key", "a folder that exists")),
        (("--key", "mine.txt", "--anonymize"), ("--key", "mine.txt exists and is no key table")),
        (("--keep", "sex"), ("--keep", "without --anonymize")),
        (("--keep", "born", "--anonymize"), ("--keep", "'born'", "age or sex")),
    ],
)
def test_an_option_that_will_not_do(
    ecgfed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    record = write_record(tmp_path / "in", "r", "NNNN")
    (tmp_path / "mine.txt").write_text("a letter")
    before = snapshot(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert_refused(ecgfed("convert", record, "--out", "out", *options), *words)
    assert snapshot(tmp_path) == before


def test_ids_that_are_taken_are_not_given_again(tmp_path: Path) -> None:
    record, out = write_record(tmp_path / "in", "r", "NNNN"), tmp_path / "out"
    out.mkdir()
    (out / "p0041.hea").write_text("another's")
    (out / f".{new_id(42)}.taken").write_text("")  # another process is writing it
    assert convert(record, out, anonymize=True).record == "p0043"
    assert (out / "p0041.hea").read_text() == "another's"
    assert not (out / ".p0043.taken").exists()


def test_converting_at_once_loses_no_row_of_the_key_and_gives_no_id_twice(tmp_path: Path) -> None:
    records = [write_record(tmp_path / "in", f"r{number}", "NNNN", seed=number) for number in range(6)]
    out, key = tmp_path / "out", tmp_path / "key.csv"
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda record: convert(record, out, anonymize=True, key=key).record, records))
    assert sorted(made) == [new_id(number) for number in range(1, 7)]
    rows = [line.split(",") for line in key.read_text().splitlines()[1:]]
    assert {(id_, record) for id_, _, record in rows} == {(id_, str(r)) for id_, r in zip(made, records, strict=True)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "key.csv", "out"]
