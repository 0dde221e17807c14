"""A folder of recordings to ``predict``: each as by itself, failures listed, the rest done, one summary."""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Said, write_record
from support import assert_refused, exported, snapshot

import ecgfed as front
from ecgfed.base.errors import BundleError
from ecgfed.tasks.predict import ENDINGS


@pytest.fixture
def folder(records: Path, tmp_path: Path) -> Path:
    """Two good records, one of them in a sub-folder, a broken file, and a name that is there twice."""
    root = tmp_path / "in"
    for name, to in (("p1", root), ("p2", root / "day")):
        to.mkdir(parents=True, exist_ok=True)
        for end in ("hea", "dat", "atr"):
            (to / f"{name}.{end}").write_bytes((records / f"{name}.{end}").read_bytes())
    (root / "broken.edf").write_bytes(b"0       ")
    (root / "p1.npy").write_bytes(b"")
    return root


def test_a_folder_is_read_record_by_record(
    ecgfed: Callable[..., Said], fedavg_run: Path, folder: Path, records: Path, tmp_path: Path
) -> None:
    bundle, out = exported(fedavg_run), tmp_path / "out"
    said = ecgfed("predict", bundle, folder, "--out", out, "--json")
    assert said.code == 1, "some failed"
    told = json.loads(said.out)
    assert [line.split("failed: ")[1].split(":")[0] for line in said.error_lines] == [
        str(folder / "broken.edf"),
        str(folder / "p1.npy"),
    ]
    alone = [ecgfed("predict", bundle, records / name, "--out", tmp_path / "alone", "--json") for name in ("p1", "p2")]
    assert [one.code for one in alone] == [0, 0]
    expected = snapshot(tmp_path / "alone")
    written = snapshot(out)
    summary = json.loads(written.pop("predictions.summary.json"))
    assert written == {
        f"{where}{name}": data for name, data in expected.items() for where in ("day/" * ("p2" in name),)
    }
    assert {name: told[name] for name in summary} == summary
    assert [one["file"] for one in summary["done"]] == ["day/p2", "p1"]
    assert [(one["file"], "is also there as p1;" in one["problem"]) for one in summary["failed"]] == [
        ("broken.edf", False),
        ("p1.npy", True),
    ]
    by_itself = json.loads(alone[0].out)
    same = [name for name in by_itself if name not in ("files", "seconds")]
    assert {name: summary["done"][1][name] for name in same} == {name: by_itself[name] for name in same}
    assert summary["beats"] == sum(one["beats"] for one in summary["done"]) == sum(summary["counts"].values())
    assert summary["recordings"] == 4


def test_what_a_batch_prints(ecgfed: Callable[..., Said], fedavg_run: Path, folder: Path, tmp_path: Path) -> None:
    bundle = exported(fedavg_run)
    for name in ("broken.edf", "p1.npy"):
        (folder / name).unlink()
    said = ecgfed("predict", bundle, folder, "--out", tmp_path / "a")
    assert (said.code, said.err) == (0, "")
    assert [line.split()[0] for line in said.out.splitlines() if line.startswith(("p1", "day/p2"))] == ["day/p2", "p1"]
    assert "2 recordings done, 0 failed" in said.out
    assert "not for diagnosis" in said.out
    quiet = ecgfed("predict", bundle, folder / "p1", folder / "day" / "p2", "--out", tmp_path / "b", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert {path.name for path in (tmp_path / "b").iterdir()} == {
        "predictions.summary.json",
        *(f"{name}.{end}" for name in ("p1", "p2") for end in ENDINGS),
    }
    other = ecgfed("predict", bundle, folder, "--out", tmp_path / "c", "--lead", "V1")
    assert other.code == 0
    assert [line for line in other.error_lines if "p1: lead V1 is not MLII" in line]


def test_a_batch_of_which_nothing_can_be_read_writes_nothing(
    ecgfed: Callable[..., Said], fedavg_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.edf", "b.npy"):
        (tmp_path / "in" / name).write_bytes(b"nothing")
    said = ecgfed("predict", exported(fedavg_run), tmp_path / "in", "--out", tmp_path / "out", "--json")
    assert said.code == 1
    assert json.loads(said.out)["summary"] is None
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_what_no_recording_can_be_read_with_is_an_error_before_any(
    ecgfed: Callable[..., Said], fedavg_run: Path, folder: Path, tmp_path: Path
) -> None:
    bundle, out = exported(fedavg_run), ("--out", tmp_path / "out")
    assert_refused(ecgfed("predict", bundle, folder, *out, "--patient", "nobody"), "has no patient 'nobody'")
    assert_refused(ecgfed("predict", bundle, folder, *out, "--peaks", "guessed"), "--peaks: 'guessed'")
    assert_refused(ecgfed("predict", bundle, folder, "--out", folder), "--out", "is the folder of the recordings")
    (tmp_path / "none").mkdir()
    assert_refused(ecgfed("predict", bundle, tmp_path / "none", *out), f"{tmp_path / 'none'}: holds no WFDB record")
    assert not (tmp_path / "out").exists()
    with pytest.raises(BundleError, match="holds no manifest"):
        front.predict_batch(folder, tmp_path / "out", bundle=tmp_path / "none")


def test_what_is_there_is_not_written_over_and_never_read_as_a_recording(
    ecgfed: Callable[..., Said], fedavg_run: Path, folder: Path
) -> None:
    bundle, out = exported(fedavg_run), folder / "read"
    assert ecgfed("predict", bundle, folder, "--out", out, "--quiet").code == 1
    before = snapshot(out)
    assert_refused(ecgfed("predict", bundle, folder, "--out", out), "--out", "--overwrite")
    assert ecgfed("predict", bundle, folder, "--out", out, "--quiet", "--overwrite").code == 1
    assert snapshot(out) == before  # p1.csv in it would be a recording, and p1.json is none


@pytest.mark.parametrize("name", ["p1", "P1"])  # one file on Windows and macOS
def test_two_recordings_of_one_name(fedavg_run: Path, records: Path, tmp_path: Path, name: str) -> None:
    """Named one by one they would share their files: the second is not done, and the first is not lost."""
    other = write_record(tmp_path / "b", name, "NV" * 15, seed=5)
    batch = front.predict_batch([records / "p1", other], tmp_path / "out", bundle=exported(fedavg_run))
    assert [one["file"] for one in batch.completed] == [(records / "p1").as_posix()]
    assert "whose predictions it would replace" in batch.failed[0]["problem"]
    assert repr(batch) == f"Batch(1 recording: {batch.completed[0]['beats']:,} beats; 1 failed)"
    assert "p1" in batch._repr_html_()


def test_a_recording_with_the_name_of_anothers_rhythms(fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    (other := tmp_path / "p1.rhythms.npz").touch()
    batch = front.predict_batch([records / "p1", other], tmp_path / "out", bundle=exported(fedavg_run))
    assert [one["file"] for one in batch.completed] == [(records / "p1").as_posix()]
    assert "whose predictions it would replace" in batch.failed[0]["problem"]


def test_a_batch_in_python_of_one_patients_model(fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    opened = front.open_bundle(exported(fedavg_run))
    batch = front.predict_batch(records, tmp_path / "out", bundle=opened, patient="p1")
    assert len(batch.completed) == 4
    assert {one["patient"] for one in batch.completed} == {"p1"}


def of_noise(folder: Path, name: str, leads: list[str]) -> None:
    signal = 0.3 * np.random.default_rng(len(name)).standard_normal(360 * 40)
    np.savez(folder / f"{name}.npz", signal=signal, fs=360, units="mV", leads=leads)


def test_a_batch_says_what_is_in_doubt(ecgfed: Callable[..., Said], records: Path, tmp_path: Path) -> None:
    """Totals against the beats of the tables; of white noise and another lead it is said whose beats these are."""
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(records, folder)
    of_noise(folder, "hiss", ["MLII"])
    said = ecgfed("predict", folder, "--out", out, "--lead", "MLII")
    assert said.code == 0, said.err
    summary = json.loads((out / "predictions.summary.json").read_text())
    tables = [path for path in out.glob("*.csv") if not path.name.endswith(".rhythms.csv")]
    rows = {path.stem: list(csv.DictReader(path.open())) for path in tables}
    beats = [row for table in rows.values() for row in table]
    for name, doubt in (("counts", None), ("uncertain_counts", "uncertain"), ("far_counts", "far")):
        counted = Counter(row["class"] for row in beats if doubt is None or row[doubt] == "1")
        assert summary[name] == {one: counted[one] for one in summary["counts"]}
    assert sum(summary["far_counts"].values()) >= len(rows["hiss"]) > 0
    assert summary["mostly_far"] == summary["warned"]["far-beats"] == ["hiss.npz"]
    assert [one["grave_warnings"] for one in summary["done"]] == [
        ["intervals-not-confirmed", "far-beats"],
        [],
        [],
        [],
        [],
    ]
    assert all({one["code"] for one in done["warnings"]} >= set(done["grave_warnings"]) for done in summary["done"])
    lines = said.out.splitlines()
    heads = next(line for line in lines if line.startswith("recording")).split()
    assert heads[-4:] == ["poor", "uncertain", "far", "warnings"]
    hiss = next(line for line in lines if line.startswith("hiss.npz")).split()
    many = len(rows["hiss"])
    assert hiss[-4:-1] == [f"{many}"] * 3
    assert int(hiss[-1]) == len(summary["done"][0]["warnings"])
    assert sum(line.split()[0] == "class" for line in lines if line) == 1
    total = next(line for line in lines if line.split()[:1] == ["N"]).split()[1:]
    assert [int(number.replace(",", "")) for number in total] == [
        summary[name]["N"] for name in ("counts", "uncertain_counts", "far_counts")
    ]
    of_all = f"- {many} of these {len(beats)} beats are of recordings that are mostly far, "
    assert [line for line in lines if line.startswith(of_all) and line.endswith(": hiss.npz")]


def test_a_grave_warning_is_one_line_for_all_its_recordings(
    ecgfed: Callable[..., Said], records: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    for number in range(9):
        write_record(folder, f"r{number}", "NNNV" * 5, leads=("V3",), seed=number, annotate=False)
    shutil.copy(records / "p1.hea", folder)
    shutil.copy(records / "p1.dat", folder)
    said = ecgfed("predict", folder, "--out", tmp_path / "out", "--lead", "MLII,V3")
    assert said.code == 0, said.err
    lines = [line for line in said.out.splitlines() if line.startswith("- other-lead")]
    assert len(lines) == 1
    assert lines[0].endswith(": r0, r1, r2, r3, r4, r5 and 3 more")
    summary = json.loads((tmp_path / "out" / "predictions.summary.json").read_text())
    assert summary["warned"]["other-lead"] == [f"r{number}" for number in range(9)]
