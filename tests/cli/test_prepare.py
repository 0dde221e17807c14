"""``ecgfed prepare``: what it says when it works, and one line with exit code 2 when it cannot."""

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENTS, Said, write_record
from record_files import END, copy_record, cut, edit, flip_byte, mark, write_signals

from ecgfed.domain.record.reader import FORMATS

Run = Callable[..., Said]
SERIAL = ("--workers", 1)


@pytest.fixture
def folder(records: Path, tmp_path: Path) -> Path:
    """A copy of the synthetic records, to be spoiled."""
    shutil.copytree(records, tmp_path / "in")
    return tmp_path / "in"


def refused(said: Said, tmp_path: Path, *words: str) -> str:
    """One line, exit code 2, and nothing in ``tmp_path`` but the input."""
    assert said.code == 2
    assert "Traceback" not in said.err
    assert len(said.error_lines) == 1, said.err
    (line,) = said.error_lines
    assert line.startswith("ecgfed: ")
    assert not line.startswith("ecgfed: note:")
    for word in words:
        assert word in line
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"in", "taken", "own.toml", "patients.csv"}, left
    return line


def notes(said: Said) -> list[str]:
    assert said.code == 0, said.err
    assert all(line.startswith("ecgfed: note: ") for line in said.error_lines), said.err
    return said.error_lines


def test_a_folder_becomes_a_cohort_and_its_counts_are_told(ecgfed: Run, records: Path, tmp_path: Path) -> None:
    said = ecgfed("prepare", "folder", records, "--out", tmp_path / "c", *SERIAL)
    assert said.code == 0
    beats = sum(map(len, PATIENTS.values()))
    normal = sum(symbols.count("N") for symbols in PATIENTS.values())
    assert f"4 clients, 12 classes, {beats} beats" in said.out
    (row,) = [line for line in said.out.splitlines() if line.startswith("N ")]
    assert row.split()[1] == str(normal)
    assert f"Wrote {tmp_path / 'c'} in " in said.out
    assert (tmp_path / "c" / "cohort.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert len(notes(said)) == 1  # p4 has one class


def test_json_says_the_same_to_a_script(ecgfed: Run, records: Path, tmp_path: Path) -> None:
    said = ecgfed("prepare", "folder", records, "--out", tmp_path / "c", "--classes", "aami5", "--json", *SERIAL)
    assert said.code == 0
    assert said.err == ""
    value: dict[str, Any] = json.loads(said.out)
    text = "".join(PATIENTS.values())
    expected = {"N": text.count("N") + text.count("L"), "S": text.count("A"), "V": text.count("V"), "F": 0, "Q": 0}
    assert value["classes"] == expected
    assert (value["clients"], value["beats"], value["one_class"]) == (4, len(text), ["p4"])
    assert sum(value["splits"].values()) == len(text)
    assert value["left_out"] == {}
    assert value["without_beats"] == []
    assert value["cohort"] == str(tmp_path / "c")


def test_help_names_every_format(ecgfed: Run) -> None:
    said = " ".join(ecgfed("prepare", "folder", "--help").out.replace("│", " ").split())
    assert f"{', '.join(FORMATS)}: which recordings to take" in said


def test_quiet_says_nothing(ecgfed: Run, records: Path, tmp_path: Path) -> None:
    said = ecgfed("prepare", "folder", records, "--out", tmp_path / "c", "--quiet", *SERIAL)
    assert (said.code, said.out, said.err) == (0, "", "")


def test_options_reach_the_cohort(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[classes]\nnormal = ["N", "L"]\nectopic = ["V", "A"]\n')
    (tmp_path / "patients.csv").write_text("record,patient\np1,Ann\np2,Ann\np3,Ben\np4,Cem\n")
    said = ecgfed(
        "prepare",
        "folder",
        folder,
        "--out",
        tmp_path / "c",
        "--classes",
        tmp_path / "own.toml",
        "--seed",
        5,
        "--patients",
        tmp_path / "patients.csv",
        "--split",
        "chronological",
        "--holdout",
        "Ben, Cem",
        "--lead",
        "V9,V1",
        *SERIAL,
    )
    assert said.code == 0, said.err
    meta = json.loads((tmp_path / "c" / "cohort.json").read_text())
    assert [(client["id"], client["records"], client["holdout"]) for client in meta["clients"]] == [
        ("Ann", ["p1", "p2"], False),
        ("Ben", ["p3"], True),
        ("Cem", ["p4"], True),
    ]
    assert meta["classes"] == ["normal", "ectopic"]
    assert (meta["split"], meta["seed"], meta["holdout"]) == ("chronological", 5, ["Ben", "Cem"])
    assert [record["lead"] for record in meta["records"]] == ["V1"] * 4


def test_a_patient_with_one_class_and_one_with_one_beat_are_noted(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    """Two MIT-BIH patients have one class; neither is an error."""
    write_record(folder, "lone", "N", seed=9)
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL)
    lines = notes(said)
    assert "ecgfed: note: clients with one class only: lone, p4" in lines
    assert "ecgfed: note: clients without any test beat, not scored on their own: lone" in lines
    assert "ecgfed: note: 1 of 8 (client, class) pairs have no test beat: lone:N" in lines
    assert len(lines) == 3
    assert "5 clients" in said.out


def test_a_patient_without_any_beat_is_noted(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    write_record(folder, "none", "NN", seed=9)
    (folder / "none.atr").write_bytes(mark("~", 100) + END)
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL)
    assert "ecgfed: note: left out, no beat of any class: none" in notes(said)
    assert "4 clients" in said.out


def test_a_missing_folder(ecgfed: Run, tmp_path: Path) -> None:
    said = ecgfed("prepare", "folder", tmp_path / "none", "--out", tmp_path / "c")
    refused(said, tmp_path, str(tmp_path / "none"), "is not a folder")


def test_a_folder_without_records(ecgfed: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    refused(ecgfed("prepare", "folder", tmp_path / "in", "--out", tmp_path / "c"), tmp_path, "no WFDB record")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_missing_lead_lists_those_present(ecgfed: Run, folder: Path, tmp_path: Path, workers: int) -> None:
    write_record(folder, "p3", PATIENTS["p3"], leads=("V5", "aVF"))
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", "--workers", workers)
    refused(said, tmp_path, str(folder / "p3"), "no lead MLII or II", "it has V5, aVF", "--lead")


def test_a_truncated_signal(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    samples = int((folder / "p2.hea").read_text().split()[3])
    cut(folder / "p2.dat", 3 * 1000)
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL)
    refused(said, tmp_path, str(folder / "p2.dat"), f"1000 of {samples} samples")


def test_a_corrupt_signal(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    flip_byte(folder / "p4.dat", 3000)
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL)
    refused(said, tmp_path, str(folder / "p4.dat"), "checksum of lead MLII", "p4.hea")


def test_a_missing_annotation(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "p1.atr").unlink()
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL)
    refused(said, tmp_path, str(folder / "p1.atr"), "does not exist", "--annotator")


@pytest.mark.parametrize("size", [40, 41])
def test_a_truncated_annotation(ecgfed: Run, folder: Path, tmp_path: Path, size: int) -> None:
    cut(folder / "p1.atr", size)
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL)
    refused(said, tmp_path, str(folder / "p1.atr"), "cut short", "last whole mark is at sample")


def test_a_missing_signal_and_a_broken_header(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "p1.dat").unlink()
    out = ("--out", tmp_path / "c", *SERIAL)
    refused(ecgfed("prepare", "folder", folder, *out), tmp_path, str(folder / "p1.dat"), "does not exist")
    edit(folder / "p1.hea", "p1 2 360", "p1 two 360")
    refused(ecgfed("prepare", "folder", folder, *out), tmp_path, str(folder / "p1.hea"), "number of signals 'two'")


def test_an_annotation_of_a_longer_record(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    write_record(folder, "p1", "NNN", annotate=False)
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL)
    refused(said, tmp_path, str(folder / "p1.atr"), "belongs to this record")


def test_a_flat_lead_where_peaks_are_to_be_detected(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    write_signals(folder, "p1", np.zeros(50_000), fs_hz=360)
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", "--peaks", "detected", *SERIAL)
    refused(said, tmp_path, f"{folder / 'p1'} lead MLII", "flat")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--classes", "mitbih13"), ("--classes", "'mitbih13'", "mitbih12, aami5, aami5-bxb")),
        (("--holdout", "p2,p9"), ("--holdout", "no client p9", "p1, p2, p3, p4")),
        (("--holdout", "p1,p2,p3,p4"), ("--holdout", "every client")),
        (("--split", "half"), ("--split", "'half'", "random, chronological")),
        (("--peaks", "guessed"), ("--peaks", "'guessed'", "annotated or detected")),
        (("--lead", " , "), ("--lead", "is empty")),
        (("--patients", "none.csv"), ("--patients none.csv", "does not exist")),
        (("--patient-comment", "("), ("--patient-comment", "regular expression")),
        (("--patients", "a.csv", "--patient-comment", "(x)"), ("--patients and --patient-comment", "both given")),
    ],
)
def test_an_option_that_will_not_do(
    ecgfed: Run, folder: Path, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *SERIAL, *options)
    refused(said, tmp_path, *words)


def test_a_table_of_patients_of_any_size(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    """A sparse file claims 4 GB and has none: it is weighed before it is read."""
    table = tmp_path / "table.csv"
    with table.open("wb") as stream:
        stream.truncate(2**32)
    (tmp_path / "here").mkdir()
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "here" / "c", "--patients", table, *SERIAL)
    refused(said, tmp_path / "here", "table.csv", "4,294,967,296 bytes", "at most 16,777,216")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("record,patient,patient\nr,a,b\n", "2 columns 'patient'"),
        ("record,patient\nr,a\nq,c\nr,b\n", "record 'r' is of 'a' and of 'b'"),
    ],
)
def test_a_table_of_patients_names_one_for_a_record(
    ecgfed: Run, folder: Path, tmp_path: Path, text: str, found: str
) -> None:
    (tmp_path / "table.csv").write_text(text)
    (tmp_path / "here").mkdir()
    out = tmp_path / "here" / "c"
    said = ecgfed("prepare", "folder", folder, "--out", out, "--patients", tmp_path / "table.csv", *SERIAL)
    refused(said, tmp_path / "here", "table.csv", found)


def test_a_folder_whose_beats_match_no_class(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[classes]\nfusion = ["F"]\npaced = ["/"]\n')
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", "--classes", tmp_path / "own.toml", *SERIAL)
    refused(said, tmp_path, "hold no beat of any class", "F, /", "--classes")


def test_an_output_that_is_taken_stays_untouched(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "taken", *SERIAL)
    refused(said, tmp_path, "--out", "is not empty", "--overwrite")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine.txt"]
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "taken" / "mine.txt", *SERIAL)
    refused(said, tmp_path, "--out", "is a file")
    assert (tmp_path / "taken" / "mine.txt").read_text() == "mine"


def test_overwrite_replaces_at_the_very_end(ecgfed: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "old.npy").write_text("mine")
    (tmp_path / "taken" / "cohort.json").write_text("an older one's")
    arguments = ("prepare", "folder", folder, "--out", tmp_path / "taken", "--overwrite", *SERIAL)
    good = (folder / "p4.dat").read_bytes()
    flip_byte(folder / "p4.dat", 3000)
    refused(ecgfed(*arguments), tmp_path, "p4.dat")
    assert (tmp_path / "taken" / "old.npy").read_text() == "mine"
    (folder / "p4.dat").write_bytes(good)
    assert ecgfed(*arguments).code == 0
    assert not (tmp_path / "taken" / "old.npy").exists()
    assert (tmp_path / "taken" / "cohort.json").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "taken"}


@pytest.mark.parametrize("limit", [2_000, 50_000, 200_000], ids=["small arrays", "beats", "nearly enough"])
def test_a_full_disk(folder: Path, tmp_path: Path, limit: int) -> None:
    """The system's own limit on a file's size stands in for a full disk: writing fails in the middle."""
    command = Path(sys.executable).with_name("ecgfed")
    assert command.is_file(), "the command is installed beside this Python"
    done = subprocess.run(
        [command, "prepare", "folder", folder, "--out", tmp_path / "c", "--workers", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    said = Said(done.returncode, done.stdout, done.stderr)
    refused(said, tmp_path, str(tmp_path / "c"), "could not be written", "File too large", "nothing was changed")
    assert said.out == ""


def test_mitbih_without_a_source(ecgfed: Run, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "c")
    refused(ecgfed("prepare", "mitbih", *out), tmp_path, "--source", "is missing", "--download")
    refused(ecgfed("prepare", "mitbih", *out, "--source", tmp_path / "no"), tmp_path, "--source", "is not a folder")
    (tmp_path / "in").mkdir()
    refused(
        ecgfed("prepare", "mitbih", *out, "--source", tmp_path / "in"),
        tmp_path,
        "holds no record of the MIT-BIH Arrhythmia Database",
    )
    refused(ecgfed("prepare", "mitbih", *out, "--source", tmp_path / "in", "--by", "tape"), tmp_path, "--by: 'tape'")


def test_mitbih_from_a_server_that_is_not_there(ecgfed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    url = "http://127.0.0.1:9/mitdb"
    said = ecgfed("prepare", "mitbih", "--out", tmp_path / "c", "--source", tmp_path / "in", "--download", "--url", url)
    refused(said, tmp_path, f"{url}/100.atr", "cannot be fetched", "check the connection")


@pytest.mark.mitdb
def test_some_real_records(ecgfed: Run, mitdb: Path, tmp_path: Path) -> None:
    """Record 115 holds 1,953 N and no other beat; 102 has no MLII; 201 is one person with 202."""
    for name in ("102", "115", "201", "202"):
        copy_record(mitdb / name, tmp_path / "in")
    arguments = ("--source", tmp_path / "in", "--out", tmp_path / "c", *SERIAL)
    said = ecgfed("prepare", "mitbih", *arguments)
    assert "2 clients, 12 classes, 6,052 beats" in said.out  # 1,953 and 1,963 + 2,136
    assert "Left out, since they have no lead MLII: 102." in said.out
    assert "published database's" not in said.out
    assert "ecgfed: note: clients with one class only: 115" in notes(said)
    assert not any("not the published" in line for line in said.error_lines)
    assert json.loads((tmp_path / "c/cohort.json").read_text())["by"] == "patient"
    apart = ecgfed("prepare", "mitbih", *arguments, "--overwrite", "--by", "record")
    assert "3 clients, 12 classes, 6,052 beats" in apart.out
    held = ecgfed("prepare", "mitbih", *arguments, "--overwrite", "--holdout", "202")
    assert held.code == 2
    assert "--holdout: 202 is of the same person as 201" in held.err
    edit(tmp_path / "in" / "115.hea", "# ", "# x")
    said = ecgfed("prepare", "mitbih", *arguments, "--overwrite")
    assert any(": 1 file differs from the published database: " in line and "115.hea" in line for line in notes(said))


def test_problems_are_a_table_for_a_person_json_for_a_script_and_one_line_in_quiet(ecgfed: Run, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    for name in ("r1", "r2"):
        write_record(folder, name, "N" * 20)
        (folder / f"{name}.dat").write_bytes(b"short")
    command = ("prepare", "folder", folder, "--out", tmp_path / "out")
    person, script, quiet = ecgfed(*command), ecgfed(*command, "--json"), ecgfed(*command, "--json", "--quiet")
    assert person.code == script.code == quiet.code == 2
    assert "what is wrong" in person.err
    assert [one["recording"] for one in json.loads(script.out)["problems"]] == ["r1", "r2"]
    assert quiet.out == ""
    for said in (script, quiet):
        assert said.err.count("\n") == 1
        assert "2 of 2 recordings cannot be used" in said.err
