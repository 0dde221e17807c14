"""Recordings that cannot be used: all of them are said before the work begins, or they are left out."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Said, write_record
from record_files import edf_bytes
from support import assert_refused

import ecgfed as front
from ecgfed.base.errors import CohortError, RecordError
from ecgfed.domain.cohort.problems import UnusableError
from ecgfed.tasks.progress import EcgfedWarning


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two records to use in two formats, and four that are wrong, each in its own way."""
    root = tmp_path / "in"
    write_record(root, "good", "NNNV" * 8)
    write_record(root / "day", "marks", "N" * 20, annotate=False)
    write_record(root, "lead", "N" * 20, leads=("V5", "V6"))
    (root / "broken.edf").write_bytes(edf_bytes([[[0] * 200]])[:100])
    other = write_record(tmp_path / "elsewhere", "table", "NNVN" * 8, seed=1)
    signal, at = front.read_recording(other), front.read_annotation(other)
    np.savetxt(root / "table.csv", signal.signal_mv, fmt="%.4f", header="MLII", comments="")
    marks = "".join(f"{s},{y}\n" for s, y in zip(at.sample, at.symbol, strict=True))
    (root / "table.atr.csv").write_text("sample,symbol\n" + marks)
    (root / "good.edf").write_bytes(b"")
    return root


HOW = ("--fs", 360, "--units", "mV", "--workers", 1)
WRONG = ("broken.edf", "day/marks", "good.edf", "lead")


def test_every_problem_is_in_one_table_and_nothing_is_written(
    ecgfed: Callable[..., Said], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *HOW)
    assert (said.code, said.out) == (2, "")
    *table, line = said.error_lines
    assert line.startswith(f"ecgfed: {folder}: 4 of 6 recordings cannot be used, the first is broken.edf: ")
    assert line.endswith("--skip-unusable")
    text = " ".join(" ".join(table).split())
    assert [text.index(name) for name in WRONG] == sorted(text.index(name) for name in WRONG)
    for words in ("marks.atr", "is also there as good;", "V5, V6"):
        assert words in text
    assert not (tmp_path / "c").exists()


def test_in_python_the_problems_are_the_errors(folder: Path, tmp_path: Path) -> None:
    how = front.ReadOptions(fs_hz=360, units="mV")
    with pytest.raises(UnusableError) as caught:
        front.prepare_folder(folder, tmp_path / "c", how=how, workers=1)
    assert [name for name, _ in caught.value.problems] == list(WRONG)
    assert (caught.value.total, "skip_unusable" in str(caught.value)) == (6, True)
    copy = caught.value.__reduce__()
    assert copy[0](*copy[1]).line == caught.value.line
    for name in ("broken.edf", "good.edf", "day/marks.hea"):
        (folder / name).unlink()
    with pytest.raises(RecordError, match="V5, V6") as alone:  # a single one is its own line, as of a single recording
        front.prepare_folder(folder, tmp_path / "c", how=how, workers=1)
    assert alone.value.where == str(folder / "lead")


def test_broken_links_are_named(ecgfed: Callable[..., Said], folder: Path, tmp_path: Path) -> None:
    """As ``predict`` and ``report`` of a folder do; a link to a recording that is there is one."""
    for name in ("broken.edf", "good.edf", "lead.hea", "day/marks.hea"):
        (folder / name).unlink()
    (folder / "gone.edf").symlink_to(tmp_path / "nowhere.edf")
    (folder / "notes.txt").symlink_to(tmp_path / "nowhere.txt")
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *HOW)
    assert (said.code, len(said.error_lines)) == (2, 1)
    assert "gone.edf" in said.error_lines[0]
    assert "broken link" in said.error_lines[0]
    assert ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *HOW, "--format", "wfdb").code == 0
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "d", *HOW, "--skip-unusable")
    assert said.code == 0
    assert any("gone.edf" in line for line in said.error_lines)


def test_skip_unusable_goes_on_without_them(ecgfed: Callable[..., Said], folder: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "c")
    said = ecgfed("prepare", "folder", folder, *out, *HOW, "--skip-unusable", "--json")
    assert said.code == 0, said.err
    left = [line for line in said.error_lines if "left out: " in line]
    assert [line.split("left out: ")[1].split(":")[0].split(".hea")[0].split(".atr")[0] for line in left] == list(WRONG)
    meta = json.loads((tmp_path / "c" / "cohort.json").read_text())
    assert [client["id"] for client in meta["clients"]] == ["good", "table"]
    assert meta["unusable"] == {"count": 4, "recordings": list(WRONG)}
    beats, client = np.load(tmp_path / "c" / "beats.npy"), np.load(tmp_path / "c" / "client.npy")
    alone = front.prepare_folder(tmp_path / "elsewhere", tmp_path / "alone", workers=1)
    np.testing.assert_allclose(beats[client == 1], np.load(alone.path / "beats.npy"), atol=2e-4)  # of another format
    assert (client == 0).sum() == 32
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "n", *HOW, "--skip-unusable", "--anonymize", "-q")
    assert said.code == 0
    meta = json.loads((tmp_path / "n" / "cohort.json").read_text())
    assert meta["unusable"] == {"count": 4, "recordings": []}


def test_where_all_is_wrong_there_is_nothing_to_skip_to(
    ecgfed: Callable[..., Said], folder: Path, tmp_path: Path
) -> None:
    for name in ("good.hea", "table.csv"):
        (folder / name).unlink()
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", *HOW, "--skip-unusable")
    assert_refused(said, "none of its 4 recordings can be used, the first is broken.edf: ")
    with pytest.raises(CohortError, match="none of its 4 recordings"):
        front.prepare_folder(folder, tmp_path / "c", skip_unusable=True)
    assert not (tmp_path / "c").exists()


def test_peaks_that_cannot_be_detected_are_found_out_before_the_work_too(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_record(folder, "a", "N" * 20)
    write_record(folder, "b", "N")  # too short to find beats in
    write_record(folder, "c", "N", seed=1)
    with pytest.raises(UnusableError, match="2 of 3 recordings cannot be used") as caught:
        front.prepare_folder(folder, tmp_path / "c", peaks="detected", workers=1)
    assert all("to find beats in" in problem for _, problem in caught.value.problems)


def test_a_whole_folder_makes_the_cohort_it_made_before(records: Path, cohort_path: Path, tmp_path: Path) -> None:
    again = front.prepare_folder(records, tmp_path / "c", leads=("MLII",), workers=1)
    assert again.fingerprint == front.open_cohort(cohort_path).fingerprint
    assert "unusable" not in again.meta


def with_signal(record: Path, to: Path, signal_mv: np.ndarray) -> Path:
    """Write another signal with a record's annotation, as a NumPy file."""
    np.savez(to.with_suffix(".npz"), signal=signal_mv, fs=360, units="mV", leads=["MLII"])
    to.with_suffix(".atr").write_bytes(record.with_suffix(".atr").read_bytes())
    return to.with_suffix(".npz")


def test_a_lead_that_shows_nothing_is_a_problem(tmp_path: Path) -> None:
    """The same beats are marked on a flat line, on white noise, and where half of them cannot be seen, or a third."""
    folder = tmp_path / "in"
    good = write_record(folder, "good", "NNNV" * 16)
    signal = front.read_recording(good).signal_mv
    r_samples = front.read_annotation(good).beats().sample
    random = np.random.default_rng(0).standard_normal(len(signal))
    with_signal(good, folder / "flat", np.zeros(len(signal)))
    with_signal(good, folder / "gap", np.full(len(signal), np.nan))
    with_signal(good, folder / "noise", 0.3 * random)
    for name, lost in (("half", 33), ("third", 21)):
        with_signal(good, folder / name, np.where(np.arange(len(signal)) < r_samples[lost], 0.3 * random, signal))
    with pytest.raises(UnusableError, match="4 of 6 recordings") as caught:
        front.prepare_folder(folder, tmp_path / "c", workers=1)
    found = dict(caught.value.problems)
    assert set(found) == {"flat.npz", "gap.npz", "noise.npz", "half.npz"}
    assert "lead MLII has no usable signal (flat " in found["flat.npz"]
    assert "lead MLII has no usable signal (gap " in found["gap.npz"]
    assert "noise" in found["noise.npz"]
    for words in ("of 64 beats lie in stretches of poor quality of lead MLII (noise ", "less than 50% of the beats"):
        assert words in found["half.npz"]
    with pytest.warns(EcgfedWarning, match="left out: "):
        cohort = front.prepare_folder(folder, tmp_path / "c", workers=1, skip_unusable=True)
    assert [one.id for one in cohort.clients] == ["good", "third"]
    assert cohort.meta["unusable"]["recordings"] == sorted(found)


def test_nobody_is_in_a_cohort_under_two_names(ecgfed: Callable[..., Said], tmp_path: Path) -> None:
    folder = tmp_path / "in"
    first = write_record(folder, "first", "NNNV" * 8)
    write_record(folder, "other", "NNNV" * 8, seed=1)
    for end in ("hea", "dat", "atr"):
        data = first.with_name(f"first.{end}").read_bytes()
        first.with_name(f"second.{end}").write_bytes(data.replace(b"first", b"second") if end == "hea" else data)
    third = with_signal(first, folder / "third", front.read_recording(first).signal_mv)  # of another format
    said = ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", "--workers", 1)
    assert said.code == 2
    assert said.error_lines[-1].startswith(f"ecgfed: {folder}: 2 of 4 recordings cannot be used, the first is second: ")
    text = " ".join(said.err.split())
    assert (
        text.count("holds the same samples as first: one person twice would leak between patients") == 3
    )  # two of the table, one below
    third.unlink()
    assert_refused(
        ecgfed("prepare", "folder", folder, "--out", tmp_path / "c", "--workers", 1),
        f"{folder / 'second'}: holds the same samples as first",
        "--patients",
    )
    patients = tmp_path / "patients.csv"
    patients.write_text("record,patient\nfirst,a\nsecond,a\nother,b\n")
    cohort = front.prepare_folder(folder, tmp_path / "c", patients=patients, workers=1)
    assert [one.id for one in cohort.clients] == ["a", "b"]
    with pytest.warns(EcgfedWarning, match="left out: second: holds the same samples as first"):
        left = front.prepare_folder(folder, tmp_path / "d", skip_unusable=True, workers=1)
    assert [one.id for one in left.clients] == ["first", "other"]
