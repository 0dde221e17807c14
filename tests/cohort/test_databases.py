"""Databases of PhysioNet as federations: synthetic records under their names, and the real ones where they are."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import wfdb
from conftest import Said, write_record
from refusals import refuses

import ecgfed
from ecgfed.base.errors import CohortError, OptionError
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.cohort.databases import DATABASES, SUMS

AAMI5 = BUILT_IN["aami5"]


def test_svdb_takes_its_records_alone_and_says_what_differs(tmp_path: Path) -> None:
    write_record(tmp_path / "svdb", "801", "NNNV" * 8, fs_hz=128, leads=("ECG1", "ECG2"))
    write_record(tmp_path / "svdb", "802", "NNA" * 8, fs_hz=128, leads=("ECG1", "ECG2"))
    write_record(tmp_path / "svdb", "100", "N" * 20, fs_hz=128)
    with pytest.warns(match="6 files differ from the published database"):
        cohort = ecgfed.prepare_database("svdb", tmp_path / "svdb", tmp_path / "c", workers=1)
    assert [client.id for client in cohort.clients] == ["801", "802"]
    assert (cohort.classes, cohort.leads) == (AAMI5.classes, ("ECG1", "ECG2"))
    counts = [
        dict(zip(cohort.classes, sum(cohort.class_counts(c, i) for i in range(3)), strict=True)) for c in cohort.clients
    ]
    assert counts == [{"N": 24, "S": 0, "V": 8, "F": 0, "Q": 0}, {"N": 16, "S": 8, "V": 0, "F": 0, "Q": 0}]
    assert cohort.meta["database"]["licence"] == "ODC-By 1.0"
    assert "Greenwald" in cohort.meta["database"]["citation"]


def test_qtdb_takes_the_first_lead_whatever_its_name_and_no_excerpt_of_mitbih(
    ecgfed: Callable[..., Said], tmp_path: Path
) -> None:
    for name, leads in {"sel30": ("D3", "V3"), "sele0999": ("V4", "D3"), "sel31": ("D3",), "sel100": ("MLII",)}.items():
        write_record(tmp_path / "in", name, "NNNV" * 8, fs_hz=250, leads=leads)
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "in").glob("sel30.*")}
    (tmp_path / "in" / SUMS).write_text("".join(f"{digest} {name}\n" for name, digest in files.items()))
    said = ecgfed("prepare", "qtdb", "--source", tmp_path / "in", "--out", tmp_path / "c", "--workers", 1)
    assert said.code == 0, said.err
    assert "Left out, since they are excerpts of another database: sel100." in said.out
    assert "doi 10.13026/C24K53" in said.out
    assert "6 files not compared" in said.out  # those that the folder's list does not name
    meta = json.loads((tmp_path / "c" / "cohort.json").read_text())
    assert [record["lead"] for record in meta["records"]] == ["D3", "D3", "V4"]
    assert (meta["leads"], meta["copies"]) == (["D3", "V4"], ["sel100"])
    other = ("--lead", "V3", "--out", tmp_path / "v3")
    said = ecgfed("prepare", "qtdb", "--source", tmp_path / "in", *other, "--workers", 1)
    assert "Left out, since they have no lead V3: sel31, sele0999." in said.out


def test_what_is_no_database_or_holds_none_is_refused(tmp_path: Path) -> None:
    with refuses(OptionError, "unknown-choice", "database"):
        ecgfed.prepare_database("ltdb", tmp_path, tmp_path / "c")
    with pytest.raises(CohortError, match=r"holds no record of the QT Database; expected sele0106\.hea"):
        ecgfed.prepare_database("qtdb", tmp_path, tmp_path / "c")
    write_record(tmp_path, "sel100", "NN")
    with pytest.raises(CohortError, match="all of its records are excerpts of the MIT-BIH"):
        ecgfed.prepare_database("qtdb", tmp_path, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_of_a_published_list_the_records_alone_are_taken() -> None:
    names = {
        "mitbih": ("100.atr", "201.dat"),
        "qtdb": ("sel30.hea", "sele0106.atr"),
        "cinc2017": ("training/A00/A00001.mat", "training/A00001.hea", "A00001.mat", "REFERENCE-v3.csv"),
    }
    others = {
        "mitbih": ("100.xws", "x_mitdb/x_108.hea", "mitdbdir/100.hea"),
        "qtdb": ("sel30.q1c", "../sel30.hea", "sel30/../sel31.hea"),
        "cinc2017": ("validation/A00001.mat", "training/../A00001.mat", "training/RECORDS", "REFERENCE-v0.csv"),
    }
    for kind, database in DATABASES.items():
        assert all(database.holds(name) for name in names.get(kind, ()))
        assert not any(database.holds(name) for name in others.get(kind, ()))


def annotated(source: Path, *, before_end: bool) -> Counter[str]:
    """Beats of each AAMI class as wfdb reads them from the annotation files."""
    counts: Counter[str] = Counter()
    for header in source.glob("*.hea"):
        marks, length = (
            wfdb.rdann(str(header.with_suffix("")), "atr"),
            wfdb.rdheader(str(header.with_suffix(""))).sig_len,
        )
        kept = [s for s, at in zip(marks.symbol, marks.sample, strict=True) if at < length or not before_end]
        counts.update(AAMI5.symbols[symbol] for symbol in kept if symbol in AAMI5.symbols)
    return counts


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("svdb", "qtdb")])
def test_the_real_databases_have_the_beats_of_their_annotations(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source: Path = request.getfixturevalue(kind)
    cohort = ecgfed.prepare_database(kind, source, tmp_path / "c", workers=2)
    expected = annotated(source, before_end=True)
    assert {name: n for name, n in cohort.meta["class_counts"].items() if n} == dict(expected)
    beyond = sum(annotated(source, before_end=False).values()) - sum(expected.values())
    notes = {entry["name"]: entry.get("notes", []) for entry in cohort.meta["records"]}
    assert beyond == (1 if kind == "svdb" else 0)
    assert any("end" in note for note in notes.get("860", [])) == (kind == "svdb")
    assert len(cohort.clients) == len(list(source.glob("*.hea")))
    assert all(DATABASES[kind].holds(f"{client.id}.hea") for client in cohort.clients)
