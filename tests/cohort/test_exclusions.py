"""Nothing leaves a cohort silently: what was read is what is used and what is excluded, counted against the files."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import Said, synthetic_signal, write_record
from record_files import write_signals

import ecgfed as front
from ecgfed.base.errors import CohortError
from ecgfed.domain.beats.exclusions import WARN_SHARE, Exclusions
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.split import TRAIN

FS = 360.0


def adds_up(counted: dict[str, dict[str, object]]) -> None:
    for kind, one in counted.items():
        assert one["read"] == one["used"] + sum(one["excluded"].values()), kind  # type: ignore[attr-defined]


def write(folder: Path, name: str, signal: np.ndarray, r: np.ndarray, symbols: str) -> None:
    write_signals(folder, name, signal, fs_hz=FS)
    wfdb.wrann(name, "atr", r, list(symbols), write_dir=str(folder))


@pytest.fixture
def lead_off(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Two records, in one of which the lead is written as 0.0 mV for 30 s; returns its R peaks too."""
    symbols = "NNNVNN" * 20
    for name, seed in (("a", 1), ("b", 2)):
        signal, r = synthetic_signal(symbols, seed=seed)
        if name == "b":
            signal[20 * 360 : 50 * 360] = 0.0
        write(tmp_path / "in", name, signal, r, symbols)
    return tmp_path / "in", r


@pytest.mark.parametrize("peaks", ["annotated", "detected"])
def test_windows_of_a_lead_that_is_off_are_excluded_and_counted(
    lead_off: tuple[Path, np.ndarray], tmp_path: Path, peaks: str
) -> None:
    folder, r = lead_off
    cohort = front.prepare_folder(folder, tmp_path / "c", leads=("MLII",), peaks=peaks, workers=1)
    about = {one["name"]: one for one in cohort.meta["records"]}
    for one in about.values():
        adds_up(one["excluded"])
    assert sum(one["excluded"]["beats"]["used"] for one in about.values()) == len(cohort.label)
    if peaks == "annotated":  # a window begins 100 samples before the R peak and ends 156 after it
        inside = (r - 100 >= 20 * 360) & (r + 156 <= 50 * 360)
        assert about["b"]["excluded"]["beats"]["excluded"]["no_signal"] >= inside.sum() > 30
        assert about["a"]["excluded"]["beats"]["excluded"] == {}
    assert np.ptp(cohort.beats, axis=(1, 2)).min() > 0.010


@pytest.mark.parametrize("method", ["fedavg", "grp-fed", "ditto", "local", "fed-gate"])
@pytest.mark.parametrize("peaks", ["annotated", "detected"])
def test_a_cohort_with_a_lead_that_was_off_trains(
    lead_off: tuple[Path, np.ndarray], tmp_path: Path, method: str, peaks: str
) -> None:
    cohort = front.prepare_folder(lead_off[0], tmp_path / "c", leads=("MLII",), peaks=peaks, workers=1)
    run = front.train(cohort, tmp_path / "r", method=method, rounds=2)
    assert np.isfinite(run.last_record()["loss_mean"])


def test_a_cohort_of_an_older_version_trains_without_its_empty_windows(
    lead_off: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecgfed.domain.beats.path.empty_windows", lambda window_mv, *_: np.zeros(len(window_mv), bool))
    cohort = front.prepare_folder(lead_off[0], tmp_path / "c", leads=("MLII",), workers=1)
    monkeypatch.undo()
    still = np.ptp(cohort.beats, axis=(1, 2)) <= 0.010
    assert still.any()
    run = front.train(cohort, tmp_path / "r", method="fedavg", rounds=2)
    excluded = json.loads((run.path / "run.json").read_text())["excluded"]
    adds_up({"beats": excluded})
    rows = cohort.pool(TRAIN)
    assert excluded == {
        "read": len(rows),
        "used": int((~still[rows]).sum()),
        "excluded": {"no_signal": still[rows].sum()},
    }
    scores = front.evaluate(run, split="test")
    left_out = scores.results[0]["excluded"]["beats"]
    adds_up({"beats": left_out})
    assert left_out["read"] == (cohort.split == 2).sum()


def test_a_gap_of_a_single_lead_trains(tmp_path: Path) -> None:
    symbols = "NNNVNN" * 15
    signal, r = synthetic_signal(symbols, seed=3)
    signal[20 * 360 : int(36.7 * 360)] = np.nan
    write(tmp_path / "in", "gap", signal, r, symbols)
    cohort = front.prepare_folder(tmp_path / "in", tmp_path / "c", leads=("MLII",), workers=1)
    assert cohort.meta["records"][0]["excluded"]["beats"]["excluded"]["no_signal"] > 10
    assert np.isfinite(front.train(cohort, tmp_path / "r", method="fedavg", rounds=3).last_record()["loss_mean"])


def test_beats_of_no_class_are_a_warning_with_advice(ecgfed: Callable[..., Said], tmp_path: Path) -> None:
    symbols = "NNLLLLVNNL" * 4
    write_record(tmp_path / "in", "one", symbols)
    (tmp_path / "nv.json").write_text('{"classes": {"N": ["N"], "V": ["V"]}}')
    classes, out = tmp_path / "nv.json", tmp_path / "c"
    said = ecgfed("prepare", "folder", tmp_path / "in", "--lead", "MLII", "--classes", classes, "--out", out, "--json")
    told, count = json.loads(said.out), Counter(symbols)
    adds_up(told["excluded"])
    assert told["excluded"]["beats"] == {
        "read": len(symbols),
        "used": count["N"] + count["V"],
        "excluded": {"other_class": count["L"]},
    }
    assert "--classes" in told["warnings"][0]
    assert f"{count['L']} L" in said.err


def test_few_ectopic_beats_of_no_class_are_a_warning_too(ecgfed: Callable[..., Said], tmp_path: Path) -> None:
    """Below the share from which exclusions are a warning, and named with classes that keep them."""
    symbols = f"{'N' * 60}S{'N' * 40}V"
    signal, r = synthetic_signal(symbols.replace("S", "A"), seed=6)
    write(tmp_path / "in", "one", signal, r, symbols)
    words = ["prepare", "folder", tmp_path / "in", "--lead", "MLII", "--json"]
    assert 1 / len(symbols) < WARN_SHARE
    said = ecgfed(*words, "--out", tmp_path / "c").err
    assert "1 beat annotated S left out" in said
    assert "--classes aami5" in said
    assert "annotated" not in ecgfed(*words, "--classes", "aami5", "--out", tmp_path / "kept").err
    assert (open_cohort(tmp_path / "kept").label == open_cohort(tmp_path / "kept").classes.index("S")).sum() == 1


def test_annotations_at_the_end_are_counted(tmp_path: Path) -> None:
    symbols = "NNNVNN" * 5
    signal, r = synthetic_signal(symbols, seed=4)
    write(tmp_path / "in", "end", signal, np.append(r, len(signal)), f"{symbols}V")
    cohort = front.prepare_folder(tmp_path / "in", tmp_path / "c", leads=("MLII",), workers=1)
    beats = cohort.meta["records"][0]["excluded"]["beats"]
    assert beats == {"read": len(symbols) + 1, "used": len(symbols), "excluded": {"beyond_end": 1}}


def test_detected_peaks_and_annotations_both_add_up(tmp_path: Path) -> None:
    symbols = "NNNVNN" * 5
    signal, r = synthetic_signal(symbols, seed=5)
    marked = np.delete(r, [3, 9])  # two beats that nobody annotated
    write(tmp_path / "in", "some", signal, marked, "".join(np.delete(list(symbols), [3, 9])))
    cohort = front.prepare_folder(tmp_path / "in", tmp_path / "c", leads=("MLII",), peaks="detected", workers=1)
    counted = cohort.meta["records"][0]["excluded"]
    adds_up(counted)
    assert counted["annotations"]["read"] == len(marked)
    assert counted["beats"]["excluded"]["no_annotation"] == 2


def test_the_warning_begins_above_the_stated_share() -> None:
    assert not Exclusions("beat", 100, {"no_signal": round(100 * WARN_SHARE)}).warning
    assert "11%" in Exclusions("beat", 100, {"no_signal": 11}).warning
    assert not Exclusions("channel", 20, {"not_read": 19}).warning, "of channels nobody is warned"
    assert Exclusions("beat", 5).line == ""


def test_counts_of_a_cohort_that_do_not_add_up_are_refused(lead_off: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    front.prepare_folder(lead_off[0], tmp_path / "c", leads=("MLII",), workers=1)
    file = tmp_path / "c" / "cohort.json"
    meta = json.loads(file.read_text())
    meta["records"][0]["excluded"]["beats"]["used"] += 1
    file.write_text(json.dumps(meta))
    with pytest.raises(CohortError, match="add up"):
        open_cohort(tmp_path / "c")


@pytest.mark.mitdb
def test_records_107_and_207_by_two_classes(mitdb: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("107", "207"):
        for end in ("hea", "dat", "atr"):
            (tmp_path / "in" / f"{name}.{end}").symlink_to(mitdb / f"{name}.{end}")
    (tmp_path / "nv.json").write_text('{"classes": {"N": ["N"], "V": ["V"]}}')
    cohort = front.prepare_folder(
        tmp_path / "in", tmp_path / "c", leads=("MLII",), classes=str(tmp_path / "nv.json"), workers=1
    )
    records = cohort.meta["records"]
    # PhysioNet's own counts: 107 has 2078 / and 59 V, 207 1457 L, 107 A, 86 R, 105 V, 105 E
    assert sum(one["excluded"]["beats"]["read"] for one in records) == 3997
    assert sum(one["excluded"]["beats"]["used"] for one in records) == 164
    assert [sum(one["left_out"].values()) for one in records] == [2078, 1755]


@pytest.mark.skipif("ECGFED_SVDB" not in os.environ, reason="ECGFED_SVDB is not set: needs SVDB's record 860")
def test_record_860_with_a_mark_behind_its_end(tmp_path: Path) -> None:
    source = Path(os.environ["ECGFED_SVDB"])
    (tmp_path / "in").mkdir()
    for end in ("hea", "dat", "atr"):
        (tmp_path / "in" / f"860.{end}").symlink_to(source / f"860.{end}")
    marks = wfdb.rdann(str(source / "860"), "atr")
    assert marks.sample[-1] == wfdb.rdheader(str(source / "860")).sig_len
    cohort = front.prepare_folder(tmp_path / "in", tmp_path / "c", leads=("ECG1",), classes="aami5", workers=1)
    beats = cohort.meta["records"][0]["excluded"]["beats"]
    adds_up({"beats": beats})
    assert beats["excluded"]["beyond_end"] == 1
