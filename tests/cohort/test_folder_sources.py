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


def fails(kind: type[EcgfedError], folder: Path, **how: object) -> tuple[str, str | None]:
    with pytest.raises(kind) as caught:
        folder_sources(folder, **how)  # type: ignore[arg-type]
    return caught.value.code, caught.value.parameter


def test_no_folder_and_no_record(tmp_path: Path) -> None:
    assert fails(OptionError, tmp_path / "none")[0] == "invalid-value"
    assert fails(CohortError, tmp_path)[0] == "invalid-cohort"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("record,name\nr1,Ann\n", OptionError),
        ("", OptionError),
        ("record,patient\nr1,Ann\nr2,Ben\n", None),
        ("record,patient\nr1,Ann\n", CohortError),
        ("record,patient\nr1,Ann\nr2\n", CohortError),
        ("record,patient\nr1,Ann\nr2,\n", CohortError),
        ("record,patient\nr1,Ann\nr2,../x\n", CohortError),
        ("record,patient\nr1,Ann\nr2,a b\n", CohortError),
        ("record,patient\nr1,Ann\nr2," + "x" * 65 + "\n", CohortError),
    ],
)
def test_a_csv_that_will_not_do(folder: Path, tmp_path: Path, text: str, kind: type[EcgfedError] | None) -> None:
    csv = tmp_path / "p.csv"
    csv.write_text(text)
    if kind is None:
        assert patients(folder, patients=csv) == {"Ann": ["day2/r1", "r1"], "Ben": ["r2"]}
    else:
        code, parameter = fails(kind, folder, patients=csv)
        assert (code, parameter) == (kind.default_code, "patients")


def test_a_csv_that_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    csv = tmp_path / "p.csv"
    assert fails(OptionError, folder, patients=csv) == ("invalid-value", "patients")
    csv.write_bytes(b"record,patient\nr1,\xff\xfe\n")
    assert fails(OptionError, folder, patients=csv) == ("invalid-value", "patients")
    csv.unlink()
    csv.mkdir()
    assert fails(OptionError, folder, patients=csv) == ("invalid-value", "patients")


@pytest.mark.parametrize(
    ("comment", "kind"),
    [
        ("patient: (", OptionError),
        ("patient: .*", OptionError),
        ("(patient): (.*)", OptionError),
        ("name: (.*)", CohortError),
        ("patient(x)?", CohortError),
        ("(patient: .*)", CohortError),
    ],
)
def test_an_expression_that_will_not_do(folder: Path, comment: str, kind: type[EcgfedError]) -> None:
    assert fails(kind, folder, comment=comment)[0] == kind.default_code


def test_a_broken_header_is_named_when_its_comments_are_wanted(folder: Path) -> None:
    (folder / "r2.hea").write_text("broken")
    with pytest.raises(EcgfedError, match=r"r2\.hea: line 1: number of signals ''; expected a whole number"):
        folder_sources(folder, comment="patient: (.*)")
