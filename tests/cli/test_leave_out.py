"""Bad stretches on the way through: flags and seconds in a cohort, --leave-out, the marks of predict."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal
from record_files import write_signals
from support import FEDAVG, Command, SavedRun, assert_refused, exported, traced_once  # noqa: F401

from ecgfed.core.federation.data import training_data
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.cohort import Cohort, open_cohort

FS = 360
#: Seconds of q1's MLII at the recorder's limit.
RAIL = (20, 30)


@pytest.fixture(scope="module")
def poor_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three patients of 100 beats; q1 is at the rail from 20 to 30 s, q3 throughout its second half noisy."""
    from ecgfed.domain.cohort.build import build_cohort
    from ecgfed.domain.cohort.folder import folder_sources
    from ecgfed.domain.cohort.sources import PrepareOptions

    folder = tmp_path_factory.mktemp("poor")
    (folder / "records").mkdir()
    for seed, name in enumerate(("q1", "q2", "q3")):
        signal, r = synthetic_signal("NNNNV" * 20, seed=seed)
        if name == "q1":
            signal[RAIL[0] * FS : RAIL[1] * FS] = 5.115
        if name == "q3":
            signal[len(signal) // 2 :] += 0.2 * np.random.default_rng(0).normal(size=len(signal) - len(signal) // 2)
        write_signals(folder / "records", name, signal, fs_hz=FS, adc_gain=200.0)
        wfdb.wrann(name, "atr", r, list("NNNNV" * 20), write_dir=str(folder / "records"))
    build_cohort(folder_sources(folder / "records"), folder / "cohort", PrepareOptions(), kind="folder", workers=1)
    return folder / "cohort"


@pytest.fixture(scope="module")
def cohort(poor_path: Path) -> Cohort:
    return open_cohort(poor_path)


def test_flags_are_the_beats_whose_windows_touch_a_bad_stretch(cohort: Cohort) -> None:
    mine = cohort.client == 0
    sample = cohort.sample[mine]
    touches = (sample + 156 > RAIL[0] * FS) & (sample - 100 < RAIL[1] * FS)
    at = wfdb.rdann(str(cohort.path.parent / "records" / "q1"), "atr").sample
    within = (at + 156 <= RAIL[1] * FS) & (at - 100 >= RAIL[0] * FS)  # holds nothing, and is in no cohort
    assert within.sum() >= 10
    assert cohort.meta["records"][0]["excluded"]["beats"]["excluded"] == {"no_signal": within.sum()}
    assert 1 <= touches.sum() <= 2
    assert ((cohort.flags[mine] & 2 > 0) >= touches).all()
    far = (sample + 156 + FS < RAIL[0] * FS) | (sample - 100 - FS > RAIL[1] * FS)
    assert not (cohort.flags[mine] & 2)[far].any()
    assert not (cohort.flags[cohort.client == 1] & 2).any()
    assert 0.4 < (cohort.flags[cohort.client == 2] & 2 > 0).mean() < 0.6


def test_cohort_json_says_seconds_per_reason(cohort: Cohort) -> None:
    told = {record["name"]: record["poor_quality"] for record in cohort.meta["records"]}
    assert told["q1"]["seconds"]["rail"] == 10.0
    assert told["q2"] == {"usable_s": cohort.meta["records"][1]["duration_s"], "seconds": {}, "beats": 0}
    assert set(told["q3"]["seconds"]) == {"noise"}
    for i, record in enumerate(cohort.meta["records"]):
        assert record["poor_quality"]["beats"] == int((cohort.flags[cohort.record == i] & 2 > 0).sum())


def test_quality_changes_no_window(cohort: Cohort, poor_path: Path) -> None:
    """The windows are the filtered signal, flagged or not."""
    from ecgfed.domain.record.wfdb_files import read_recording
    from ecgfed.domain.signal.filters import band_pass

    recording = read_recording(poor_path.parent / "records" / "q1", ("MLII",))
    filtered = band_pass(recording.signal_mv, 360.0)
    mine = np.flatnonzero((cohort.client == 0) & (cohort.flags & 1 == 0))
    expected = filtered[cohort.sample[mine][:, None] + np.arange(-100, 156)]
    np.testing.assert_allclose(cohort.beats[mine, 0], expected, atol=1e-6)


def test_training_data_without_poor_beats(cohort: Cohort) -> None:
    everything, good = training_data(cohort, rr=False), training_data(cohort, rr=False, leave_out="poor-quality")
    for client in (0, 1, 2):
        rows = everything.rows[client]
        assert good.rows[client].tolist() == [row for row in rows if not cohort.flags[row] & 2]
        np.testing.assert_array_equal(good.valid_rows[client], everything.valid_rows[client])
    assert len(good.rows[1]) == len(everything.rows[1])


def test_train_leaves_them_out_and_says_so(ecgfed: Command, poor_path: Path, tmp_path: Path) -> None:
    options = (*FEDAVG, "--rounds", 1, "--no-rr", "--quiet", "--device", "cpu")
    for name, extra in (("all", ()), ("good", ("--leave-out", "poor-quality"))):
        said = ecgfed("train", poor_path, "--out", tmp_path / name, *options, *extra)
        assert said.code == 0, said.err
    meta = {name: json.loads((tmp_path / name / "run.json").read_text()) for name in ("all", "good")}
    assert meta["all"]["plan"]["leave_out"] == "nothing"
    assert meta["good"]["plan"]["leave_out"] == "poor-quality"
    one, other = (SavedRun(tmp_path / name, poor_path).params("server") for name in ("all", "good"))
    assert any(not np.array_equal(one[key], other[key]) for key in one)
    assert open_run(tmp_path / "good").identity != open_run(tmp_path / "all").identity
    again = ("train", poor_path, "--out", tmp_path / "good", "--resume", "--rounds", 2, "--quiet")
    assert_refused(ecgfed(*again, "--leave-out", "nothing"), "leave_out poor-quality, not nothing")
    assert ecgfed(*again).code == 0
    refused = ecgfed("train", poor_path, "--out", tmp_path / "bad", "--leave-out", "noise")
    assert_refused(refused, "--leave-out", "'noise'", "nothing, poor-quality")


def test_evaluate_scores_without_them(ecgfed: Command, cohort: Cohort, poor_path: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert ecgfed("train", poor_path, "--out", run, *FEDAVG, "--rounds", 1, "--quiet").code == 0
    pool = cohort.pool(2)
    poor = int((cohort.flags[pool] & 2 > 0).sum())
    assert poor > 0
    everything = json.loads(ecgfed("evaluate", run, "--json").out)
    assert (everything["beats"], everything["left_out"], everything["leave_out"]) == (len(pool), 0, "nothing")
    good = json.loads(ecgfed("evaluate", run, "--leave-out", "poor-quality", "--json").out)
    assert (good["beats"], good["left_out"]) == (len(pool) - poor, poor)
    assert sum(map(sum, good["confusion"])) == len(pool) - poor
    assert json.loads((run / "evaluation-test" / "scores.json").read_text())["left_out"] == 0
    assert (run / "evaluation-test-without-poor-quality" / "scores.json").is_file()
    assert_refused(ecgfed("evaluate", run, "--leave-out", "all"), "--leave-out", "'all'")


@pytest.mark.usefixtures("traced_once")
@pytest.mark.parametrize("peaks", ["detected", "annotated"])
def test_predict_marks_beats_in_bad_stretches(
    ecgfed: Command, fedavg_run: Path, poor_path: Path, tmp_path: Path, peaks: str
) -> None:
    record = poor_path.parent / "records" / "q1"
    said = ecgfed("predict", exported(fedavg_run), record, "--peaks", peaks, "--out", tmp_path, "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    with (tmp_path / "q1.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        assert (int(row["flags"]) & 2 > 0) == bool(row["poor_quality"])
        assert set(row["poor_quality"].split("+")) <= {"", "rail", "baseline", "noise", "spike"}
    at_the_rail = [row for row in rows if RAIL[0] * FS <= int(row["sample"]) < RAIL[1] * FS]
    if peaks == "detected":
        assert not at_the_rail
        assert len(rows) >= 84  # of 88 outside: the step into the rail and out of it hides the nearest
    else:
        assert len(at_the_rail) == 12
        assert all("rail" in row["poor_quality"] for row in at_the_rail)
    assert told["poor_quality_beats"] == sum(bool(row["poor_quality"]) for row in rows)
    assert told["poor_quality_s"]["rail"] == 10.0
    beats = json.loads((tmp_path / "q1.json").read_text())["beats"]
    assert [beat["poor_quality"] for beat in beats] == [row["poor_quality"] for row in rows]
    spoken = ecgfed("predict", exported(fedavg_run), record, "--out", tmp_path, "--overwrite").out
    assert "stretches of poor quality (rail 10.0 s" in spoken


@pytest.mark.mitdb
def test_a_hundredth_of_mit_bihs_beats_are_flagged(mitdb: Path) -> None:
    """Of four records, from clean to noisy: 100 none, 105 0.4%, 203 4%, 108 13%."""
    from ecgfed.domain.beats.blocks import windows_around
    from ecgfed.domain.record.wfdb_files import read_annotation, read_recording

    shares = {}
    for name in ("100", "105", "203", "108"):
        recording = read_recording(mitdb / name, ("MLII",))
        beats = read_annotation(mitdb / name).beats().sample
        shares[name] = float((windows_around(recording.signal_mv, 360.0, beats).flags & 2 > 0).mean())
    assert shares["100"] < 0.001
    assert shares["105"] < 0.01 < shares["203"] < 0.06 < shares["108"] < 0.15
