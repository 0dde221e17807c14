"""A folder of recordings in other formats than WFDB: which are taken, whose they are, what the cohort says of them."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from record_files import edf_bytes, write_212

from ecgfed.base.errors import CohortError, EcgfedError
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.folder import folder_sources
from ecgfed.domain.cohort.sources import PrepareOptions
from ecgfed.domain.record.recording import ReadOptions

RAMP = [list(range(0, 40, 10)), list(range(40, 0, -10))]


def names(folder: Path, **how: object) -> dict[str, list[str]]:
    sources = folder_sources(folder, **how)  # type: ignore[arg-type]
    return {source.id: [path.relative_to(folder).as_posix() for path in source.records] for source in sources}


def fails(folder: Path, **how: object) -> tuple[str, str | None]:
    with pytest.raises(EcgfedError) as caught:
        folder_sources(folder, **how)  # type: ignore[arg-type]
    return caught.value.code, caught.value.parameter


def touch(folder: Path, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("b.edf", "a/x.EDF", "SHA256SUMS.txt"), {"a_x": ["a/x.EDF"], "b": ["b.edf"]}),
        (("b.csv", "c.tsv", "README.txt", "b.atr.csv", "b.atr"), {"b": ["b.csv"], "c": ["c.tsv"]}),
        (("b.csv", "said.csv", "said.ecgfed", "said.json"), {"b": ["b.csv"]}),
        (("b.npy", "c.npz", "b.atr"), {"b": ["b.npy"], "c": ["c.npz"]}),
    ],
)
def test_recordings_are_found_by_suffix_and_annotations_are_none(
    tmp_path: Path, files: tuple[str, ...], expected: dict[str, list[str]]
) -> None:
    assert names(touch(tmp_path, *files)) == expected


def test_annotations_inside_edf_are_no_files_beside_it(tmp_path: Path) -> None:
    """``--annotator edf`` means the marks in the recording itself, which stays a recording."""
    touch(tmp_path, "b.edf", "c.edf.csv")
    assert names(tmp_path, annotator="edf") == {"b": ["b.edf"]}


def test_segments_are_parts_of_the_record_that_names_them(tmp_path: Path) -> None:
    for name in ("s1", "s2", "alone"):
        write_212(tmp_path, name, RAMP)
    (tmp_path / "m.hea").write_text("m/3 2 360 12\ns1 4\n~ 4\ns2 4\n")
    assert names(tmp_path) == {"alone": ["alone"], "m": ["m"]}


def test_formats_may_be_mixed_or_chosen(tmp_path: Path) -> None:
    write_212(tmp_path, "a", RAMP)
    touch(tmp_path, "b.edf", "c.edf", "table.csv")
    assert names(tmp_path) == {"a": ["a"], "b": ["b.edf"], "c": ["c.edf"], "table": ["table.csv"]}
    assert names(tmp_path, formats=("wfdb",)) == {"a": ["a"]}
    assert names(tmp_path, formats=("edf", "wfdb")) == {"a": ["a"], "b": ["b.edf"], "c": ["c.edf"]}
    assert fails(tmp_path, formats=("mat",)) == ("unknown-choice", "formats")
    assert fails(tmp_path, formats=("numpy",))[0] == "invalid-cohort"


def test_one_recording_in_two_formats_is_no_two_recordings(tmp_path: Path) -> None:
    write_212(tmp_path, "100", RAMP)
    touch(tmp_path, "100.edf")
    for formats in ((), ("wfdb", "edf")):
        assert fails(tmp_path, formats=formats) == ("invalid-cohort", "formats")
    assert names(tmp_path, formats=("edf",)) == {"100": ["100.edf"]}
    (tmp_path / "100.hea").unlink()
    assert names(tmp_path) == {"100": ["100.edf"]}
    touch(tmp_path, "r.npy", "r.npz")
    assert fails(tmp_path, formats=("numpy",)) == ("invalid-cohort", "formats")


def test_patients_by_table_and_by_comment(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.edf").write_bytes(edf_bytes([[[0] * 200]], patient="Ann"))
    (folder / "b.edf").write_bytes(edf_bytes([[[0] * 200]], patient="Bob"))
    assert names(folder, comment="patient: (.*)") == {"Ann": ["a.edf"], "Bob": ["b.edf"]}
    table = folder / "patients.csv"
    table.write_text("record,patient\na.edf,X\nb,X\n")
    assert names(folder, patients=table) == {"X": ["a.edf", "b.edf"]}
    with pytest.raises(CohortError, match=r"a\.edf: no comment matches 'name: \(\.\*\)'"):
        folder_sources(folder, comment="name: (.*)", formats=("edf",))


def recordings(folder: Path) -> dict[str, tuple[tuple[str, ...], ReadOptions]]:
    """One annotated signal in three formats, with what each leaves open."""
    folder.mkdir()
    signal, at = synthetic_signal("NNVN" * 15, fs_hz=250)
    signal = np.round(signal, 3)
    marks = "sample,symbol\n" + "".join(f"{s},{y}\n" for s, y in zip(at, "NNVN" * 15, strict=True))
    steps = np.rint(signal * 1000).astype(int)
    whole = len(steps) // 250 * 250
    assert at[-1] < whole
    (folder / "edf").mkdir()
    rows = steps[:whole].reshape(-1, 250).tolist()
    (folder / "edf" / "r.edf").write_bytes(edf_bytes([rows], digital=("-5000", "5000")))
    (folder / "csv").mkdir()
    (folder / "csv" / "r.csv").write_text("MLII\n" + "\n".join(f"{v:.3f}" for v in signal[:whole]))
    (folder / "numpy").mkdir()
    np.save(folder / "numpy" / "r.npy", steps[:whole])
    for kind in ("edf", "csv", "numpy"):
        (folder / kind / "r.atr.csv").write_text(marks)
    return {
        "edf": (("r.edf", "r.atr.csv"), ReadOptions()),
        "csv": (("r.csv", "r.atr.csv"), ReadOptions(fs_hz=250, units="mV")),
        "numpy": (("r.npy", "r.atr.csv"), ReadOptions(fs_hz=250, units="uV", columns=("MLII",))),
    }


def test_every_format_makes_the_same_cohort_and_names_its_files(tmp_path: Path) -> None:
    beats = []
    for kind, (files, how) in recordings(tmp_path / "in").items():
        folder, out = tmp_path / "in" / kind, tmp_path / kind
        options = PrepareOptions(BeatOptions(("MLII",), "annotated", how=how))
        build_cohort(folder_sources(folder), out, options, kind="folder", workers=1)
        meta = json.loads((out / "cohort.json").read_text())
        (record,) = meta["records"]
        assert record["sha256"] == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}
        assert (record["name"], record["fs_hz"], record["beats"], record["lead"]) == ("r", 250.0, 60, "MLII")
        assert meta["reading"] == {"fs_hz": how.fs_hz, "units": how.units, "columns": list(how.columns)}
        assert meta["clients"][0]["records"] == ["r"]
        beats.append(np.load(out / "beats.npy"))
    np.testing.assert_allclose(beats[0], beats[1], atol=1e-6)
    np.testing.assert_array_equal(beats[1], beats[2])


def test_segments_are_hashed_too(tmp_path: Path) -> None:
    signal, at = synthetic_signal("N" * 20)
    steps = np.rint(signal * 200).astype(int) + 1024
    half = len(steps) // 4 * 2
    write_212(tmp_path / "in", "s1", [steps[:half].tolist()] * 2)
    write_212(tmp_path / "in", "s2", [steps[half : 2 * half].tolist()] * 2)
    (tmp_path / "in" / "m.hea").write_text(f"m/2 2 360 {2 * half}\ns1 {half}\ns2 {half}\n")
    marks = "".join(f"{s},N\n" for s in at if s < 2 * half)
    (tmp_path / "in" / "m.atr.csv").write_text("sample,symbol\n" + marks)
    build_cohort(folder_sources(tmp_path / "in"), tmp_path / "c", PrepareOptions(), kind="folder", workers=1)
    (record,) = json.loads((tmp_path / "c" / "cohort.json").read_text())["records"]
    assert set(record["sha256"]) == {"m.hea", "m.atr.csv", "s1.hea", "s1.dat", "s2.hea", "s2.dat"}
    assert record["beats"] == 20
