"""A user's own records: who is the patient, from a CSV, a comment in the header, or the record's name."""

from pathlib import Path

import pytest
from record_files import write_212

from ecgfed.base.errors import CohortError, EcgfedError, OptionError
from ecgfed.domain.cohort.folder import folder_sources

RAMP = [list(range(0, 40, 10)), list(range(40, 0, -10))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three records, one of them in a sub-folder, each with the patient in its comments."""
    root = tmp_path / "in"
    write_212(root, "r1", RAMP, comments=["age: 60", "patient: Ann-1"])
    write_212(root, "r2", RAMP, comments=["patient: Bob.2"])
    write_212(root / "day2", "r1", RAMP, comments=["patient: Ann-1", "patient: Zoe"])
    return root


def patients(folder: Path, **how: object) -> dict[str, list[str]]:
    sources = folder_sources(folder, **how)  # type: ignore[arg-type]
    assert all(source.id == source.patient for source in sources)
    return {source.id: [path.relative_to(folder).as_posix() for path in source.records] for source in sources}


def test_without_more_each_record_is_a_patient(folder: Path) -> None:
    assert patients(folder) == {"day2_r1": ["day2/r1"], "r1": ["r1"], "r2": ["r2"]}


def test_a_comment_names_the_patient(folder: Path) -> None:
    """The first comment that matches decides."""
    assert patients(folder, comment=r"patient: (\S+)") == {"Ann-1": ["day2/r1", "r1"], "Bob.2": ["r2"]}


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_a_csv_names_the_patient_by_path_or_by_name(folder: Path, tmp_path: Path, start: str) -> None:
    csv = tmp_path / "p.csv"
    csv.write_text(start + "patient,note,record\nBen , x, r2\nAnn,,r1\nCem,,day2/r1\n", encoding="utf-8")
    assert patients(folder, patients=csv) == {"Cem": ["day2/r1"], "Ann": ["r1"], "Ben": ["r2"]}
    csv.write_text("record,patient\nr1,Ann\nr2,Ann\n")
    assert patients(folder, patients=csv) == {"Ann": ["day2/r1", "r1", "r2"]}


def fails(kind: type[EcgfedError], folder: Path, **how: object) -> str:
    with pytest.raises(kind) as caught:
        folder_sources(folder, **how)  # type: ignore[arg-type]
    assert "\n" not in caught.value.line
    return caught.value.line


def test_no_folder_and_no_record(tmp_path: Path) -> None:
    assert "is not a folder; expected a folder of WFDB records" in fails(OptionError, tmp_path / "none")
    assert f"{tmp_path}: holds no WFDB record (*.hea)" in fails(CohortError, tmp_path)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("record,name\nr1,Ann\n", OptionError, "columns record, name; expected record and patient"),
        ("", OptionError, "columns none; expected record and patient"),
        ("record,patient\nr1,Ann\nr2,Ben\n", None, ""),
        ("record,patient\nr1,Ann\n", CohortError, "has no patient for record r2"),
        ("record,patient\nr1,Ann\nr2\n", CohortError, "has no patient for record r2"),
        ("record,patient\nr1,Ann\nr2,\n", CohortError, "has no patient for record r2"),
        ("record,patient\nr1,Ann\nr2,../x\n", CohortError, "patient '../x'; expected letters, digits"),
        ("record,patient\nr1,Ann\nr2,a b\n", CohortError, "patient 'a b'; expected letters, digits"),
        ("record,patient\nr1,Ann\nr2," + "x" * 65 + "\n", CohortError, "up to 64"),
    ],
)
def test_a_csv_that_will_not_do(
    folder: Path, tmp_path: Path, text: str, kind: type[EcgfedError] | None, words: str
) -> None:
    csv = tmp_path / "p.csv"
    csv.write_text(text)
    if kind is None:
        assert patients(folder, patients=csv) == {"Ann": ["day2/r1", "r1"], "Ben": ["r2"]}
    else:
        line = fails(kind, folder, patients=csv)
        assert words in line
        assert "--patients" in line


def test_a_csv_that_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    csv = tmp_path / "p.csv"
    assert "does not exist" in fails(OptionError, folder, patients=csv)
    csv.write_bytes(b"record,patient\nr1,\xff\xfe\n")
    assert f"--patients {csv}: cannot be read" in fails(OptionError, folder, patients=csv)
    csv.unlink()
    csv.mkdir()
    assert f"--patients {csv}: cannot be read" in fails(OptionError, folder, patients=csv)


@pytest.mark.parametrize(
    ("comment", "kind", "words"),
    [
        ("patient: (", OptionError, "--patient-comment: 'patient: (' ("),
        ("patient: .*", OptionError, "has 0 groups; expected one"),
        ("(patient): (.*)", OptionError, "has 2 groups; expected one"),
        ("name: (.*)", CohortError, "no comment matches 'name: (.*)'"),
        ("patient(x)?", CohortError, "patient ''; expected letters"),
        ("(patient: .*)", CohortError, "patient 'patient: Ann-1'; expected letters"),
    ],
)
def test_an_expression_that_will_not_do(folder: Path, comment: str, kind: type[EcgfedError], words: str) -> None:
    assert words in fails(kind, folder, comment=comment)


def test_a_broken_header_is_named_when_its_comments_are_wanted(folder: Path) -> None:
    (folder / "r2.hea").write_text("broken")
    with pytest.raises(EcgfedError, match=r"r2\.hea: line 1: number of signals ''; expected a whole number"):
        folder_sources(folder, comment="patient: (.*)")
