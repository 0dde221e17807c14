"""``ecgfed detect`` and ``ecgfed ec57``: from a recording to its scores, and what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import write_record
from support import Command, assert_refused, snapshot

from ecgfed import score_ec57

LONG = "NNNNV" * 100  # 6 minutes 40 s


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    write_record(folder, "r1", LONG, seed=1)
    write_record(folder, "r2", "NNANN" * 100, seed=2)
    return folder


def annotate(folder: Path, name: str, samples: np.ndarray, symbols: list[str], suffix: str = "test") -> None:
    wfdb.wrann(name, suffix, samples, symbols, write_dir=str(folder))


def test_detect_then_score(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "peaks"
    said = ecgfed("detect", recorded, "--out", out, "--json")
    assert said.code == 0
    about = json.loads(said.out)
    assert [one["record"] for one in about["records"]] == ["r1", "r2"]
    assert {one["lead"] for one in about["records"]} == {"MLII"}
    marks = wfdb.rdann(str(out / "r1"), "qrs")
    assert set(marks.symbol) == {"N"}
    assert marks.fs == 360
    assert len(marks.sample) == about["records"][0]["beats"]

    said = ecgfed("ec57", recorded, "--test", "qrs", "--test-folder", out, "--json")
    assert said.code == 0
    scores = json.loads(said.out)
    assert scores["match_s"] == 0.15
    assert [one["record"] for one in scores["records"]] == ["r1", "r2"]
    assert scores["gross"]["scores"]["qrs_se"]["percent"] > 99
    assert scores["gross"]["scores"]["qrs_ppv"]["percent"] > 99
    assert scores["gross"]["scores"]["veb_se"]["percent"] == 0  # a detector says N to all


def test_detect_counts_one_record_as_one(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    said = ecgfed("detect", recorded / "r1", "--out", tmp_path / "peaks")
    assert "\n1 record in " in said.out + said.err
    assert "\n2 records in " in (said := ecgfed("detect", recorded, "--out", tmp_path / "two")).out + said.err


def test_detect_reads_every_format(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    signals = wfdb.rdrecord(str(recorded / "r1")).p_signal
    np.savetxt(tmp_path / "r1.csv", signals, fmt="%.3f", delimiter=",", header="MLII (mV),V1 (mV)", comments="")
    np.save(tmp_path / "r1b.npy", signals)
    assert_refused(ecgfed("detect", tmp_path / "r1.csv", "--out", tmp_path / "no"), "r1.csv", "--fs")
    assert not (tmp_path / "no").exists()
    assert ecgfed("detect", tmp_path / "r1.csv", "--fs", 360, "--out", tmp_path / "peaks").code == 0
    array = (tmp_path / "r1b.npy", "--fs", 360, "--units", "mV", "--columns", "MLII,V1")
    said = ecgfed("detect", *array, "--out", tmp_path / "peaks", "--json")
    assert [one["record"] for one in json.loads(said.out)["records"]] == ["r1b"]
    assert ecgfed("detect", recorded / "r1", "--out", tmp_path / "wfdb").code == 0
    found = [(tmp_path / name).read_bytes() for name in ("wfdb/r1.qrs", "peaks/r1.qrs", "peaks/r1b.qrs")]
    assert found[0] == found[1] == found[2]


def test_segments_of_a_folder_are_no_records(ecgfed: Command, tmp_path: Path) -> None:
    write_record(tmp_path, "s1", "N" * 30, seed=3, annotate=False)
    samples = wfdb.rdheader(str(tmp_path / "s1")).sig_len
    (tmp_path / "whole.hea").write_text(f"whole/1 2 360 {samples}\ns1 {samples}\n")
    said = ecgfed("detect", tmp_path, "--out", tmp_path / "peaks", "--json")
    assert [one["record"] for one in json.loads(said.out)["records"]] == ["whole"]


def test_the_table_by_hand(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    """One N missed and one V called N after 5:00, the rest right."""
    truth = wfdb.rdann(str(recorded / "r1"), "atr")
    late = np.flatnonzero(truth.sample >= 300 * 360)
    symbols = np.array(truth.symbol)
    keep = np.ones(len(symbols), bool)
    keep[late[symbols[late] == "N"][3]] = False
    symbols[late[symbols[late] == "V"][0]] = "N"
    annotate(tmp_path, "r1", truth.sample[keep], symbols[keep].tolist())
    said = ecgfed("ec57", recorded / "r1", "--test", "test", "--test-folder", tmp_path, "--json")
    gross = json.loads(said.out)["gross"]
    veb = int((np.array(truth.symbol)[late] == "V").sum())
    assert gross["counts"][0] == [len(late) - veb - 1, 0, 0, 0, 0, 1, 0]
    assert gross["counts"][2] == [1, 0, veb - 1, 0, 0, 0, 0]
    assert gross["scores"]["veb_se"] == {"percent": round(100 * (veb - 1) / veb, 4), "part": veb - 1, "whole": veb}

    said = ecgfed("ec57", recorded / "r1", "--test", "test", "--test-folder", tmp_path)
    assert said.code == 0
    for words in ("Q Se", "S +P", "average", "gross", "r1", f"{len(late):,}", "missed or extra"):
        assert words in said.out
    assert ecgfed("ec57", recorded / "r1", "--test", "test", "--test-folder", tmp_path, "--quiet").out == ""


def test_start_counts_from_there(ecgfed: Command, recorded: Path) -> None:
    def beats(*more: object) -> int:
        said = ecgfed("ec57", recorded / "r1", "--test", "atr", "--json", *more)
        return int(json.loads(said.out)["gross"]["scores"]["qrs_se"]["whole"])

    truth = wfdb.rdann(str(recorded / "r1"), "atr").sample / 360
    assert beats() == (truth >= 300).sum()
    assert beats("--start", "0") == len(truth)
    assert beats("--start", "1:30") == beats("--start", "90") == (truth >= 90).sum()


def test_mapping_moves_the_escape_beats(ecgfed: Command, tmp_path: Path) -> None:
    path = write_record(tmp_path, "j1", "N" * 450, annotate=False)
    annotate(tmp_path, "j1", np.arange(450) * 280 + 300, ["N", "j", "e"] * 150, "atr")
    for mapping, sveb in (("aami5", 0), ("aami5-bxb", 2 / 3)):
        said = ecgfed("ec57", path, "--test", "atr", "--mapping", mapping, "--json")
        scores = json.loads(said.out)["gross"]["scores"]
        assert scores["sveb_se"]["whole"] == pytest.approx(sveb * scores["qrs_se"]["whole"], abs=1)


def test_every_table_names_its_mapping_and_what_is_not_scored(ecgfed: Command, recorded: Path) -> None:
    for mapping, words in (("aami5", "e, j, n are N"), ("aami5-bxb", "e, j, n are S")):
        command = ("ec57", recorded / "r1", "--test", "atr", "--mapping", mapping)
        said = ecgfed(*command).out
        assert f"Mapping {mapping} (" in said
        assert words in said
        assert "Not scored: ST" in said
        assert "neither file marks flutter" in said
        assert "neither file marks atrial fibrillation" in said
        told = json.loads(ecgfed(*command, "--json").out)
        assert told["mapping"] == told["gross"]["mapping"] == told["records"][0]["mapping"] == mapping
        assert told["not_measured"] == ["ST"]
    scores = score_ec57(recorded / "r1", "atr")
    assert "mapping aami5" in repr(scores)
    assert "mapping aami5 (de Chazal" in scores._repr_html_()


def test_flutter_and_shutdown_have_their_lines(ecgfed: Command, tmp_path: Path) -> None:
    """One episode of 10 s, 5 s of it found, one called in vain; a beat missed while the test was shut down."""
    path = write_record(tmp_path, "f1", "N" * 500, annotate=False)
    at = 300 * 360
    theirs = [(at + 360, "N", 0), (at + 720, "["), (at + 4320, "]"), (at + 5000, "N")]
    ours = [(at + 360, "N"), (at + 2520, "["), (at + 4320, "]"), (at + 4500, "~", 0x30), (at + 5500, "~", 0)]
    ours += [(at + 6000, "["), (at + 6360, "]")]
    for suffix, file in (("atr", theirs), ("test", ours)):
        sample, symbol = np.array([mark[0] for mark in file]), [mark[1] for mark in file]
        subtype = np.array([mark[2] if len(mark) > 2 else 0 for mark in file])
        wfdb.wrann("f1", suffix, sample, symbol, subtype=subtype, write_dir=str(tmp_path))
    said = ecgfed("ec57", path, "--test", "test").out
    assert "VF episodes" in said
    assert "Shut down for 2.8 s: missed in it 1 of 2 beats (50.00%)." in said
    told = json.loads(ecgfed("ec57", path, "--test", "test", "--json").out)
    vf = told["gross"]["vf"]
    assert vf["vf_episode_se"] == {"percent": 100.0, "part": 1, "whole": 1}
    assert vf["vf_episode_ppv"] == {"percent": 50.0, "part": 1, "whole": 2}
    assert vf["vf_duration_se"] == {"percent": 50.0, "part": 5.0, "whole": 10.0}
    assert vf["vf_duration_ppv"] == {"percent": 83.3333, "part": 5.0, "whole": 6.0}
    assert told["average"]["vf_episode_se"] == 100.0


def test_a_flutter_that_excludes_nothing_is_told(ecgfed: Command, tmp_path: Path) -> None:
    path = write_record(tmp_path, "f2", "N" * 500, annotate=False)
    at = 300 * 360 + np.array([100, 1000, 2000, 3000])
    annotate(tmp_path, "f2", at, ["N", "[", "]", "["], "atr")
    annotate(tmp_path, "f2", at[[0, 0, 0, 3]] + [0, 1200, 1300, 500], ["N"] * 4, "test")
    said = ecgfed("ec57", path, "--test", "test", "--json")
    assert "f2.atr: the last [ has no ]" in said.err
    assert json.loads(said.out)["gross"]["counts"][5][0] == 1  # the beats in the first are left out, that one is extra


def test_records_without_test_annotations_are_named(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    truth = wfdb.rdann(str(recorded / "r1"), "atr")
    annotate(tmp_path, "r1", truth.sample, truth.symbol)
    said = ecgfed("ec57", recorded, "--test", "test", "--test-folder", tmp_path, "--json")
    assert json.loads(said.out)["not_scored"] == ["r2"]
    assert "not scored, without .test: r2" in said.err


def test_ec57_refuses(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    assert_refused(ecgfed("ec57", recorded / "r1", "--test", "nope"), "r1.nope", "does not exist")
    assert_refused(ecgfed("ec57", recorded, "--test", "nope"), "no record has annotations .nope")
    assert_refused(ecgfed("ec57", recorded / "none", "--test", "atr"), "none.hea", "does not exist")
    assert_refused(ecgfed("ec57", recorded / "r1", "--test", "atr", "--mapping", "x"), "--mapping", "aami5-bxb")
    assert_refused(ecgfed("ec57", recorded / "r1", "--test", "atr", "--start", "soon"), "--start", "'soon'")
    assert_refused(ecgfed("ec57", recorded / "r1", "--test", "atr", "--start", "9:00"), "--start", "540 s")
    assert_refused(ecgfed("ec57", tmp_path, "--test", "atr"), "holds no record")
    assert_refused(
        ecgfed("ec57", tmp_path / "r1.edf", "--test", "qrs"), "r1.edf", "is not a WFDB record", "ecgfed convert"
    )


def test_detect_refuses_and_leaves_what_was_there(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "peaks"
    assert ecgfed("detect", recorded / "r1", "--out", out, "--quiet").out == ""
    before = snapshot(out)
    assert_refused(ecgfed("detect", recorded / "r1", "--out", out), "r1.qrs", "--overwrite")
    assert_refused(ecgfed("detect", recorded / "r1", "--out", out, "--overwrite", "--lead", "V9"), "V9", "MLII, V1")
    assert_refused(ecgfed("detect", recorded / "r1", "--out", out, "--detector", "magic"), "--detector", "xqrs")
    assert_refused(ecgfed("detect", recorded / "r1", "--out", out, "--overwrite", "--lead", ","), "--lead", "is empty")
    assert_refused(ecgfed("detect", recorded / "r1", "--out", out, "--suffix", "atr"), "--suffix")
    assert_refused(ecgfed("detect", recorded / "r1", "--out", out, "--suffix", "q1"), "--suffix")
    assert snapshot(out) == before
    assert ecgfed("detect", recorded / "r1", "--out", out, "--overwrite", "--detector", "xqrs").code == 0
    assert snapshot(out) != before


#: A detector that knows nothing and tells what it was told: a peak at ten times the mains' frequency, and one a second.
TELLING = """
import numpy as np
from ecgfed.domain.signal.detectors import Detector
def find(signals_mv, fs_hz, lead, mains_hz):
    return np.union1d([int(10 * mains_hz)], np.arange(1000, signals_mv.shape[1], int(fs_hz)))
TELLING = Detector("anything", find, "a test")
"""


@pytest.fixture
def telling(tmp_path: Path) -> str:
    file = tmp_path / "telling.py"
    file.write_text(TELLING)
    return f"{file}:TELLING"


def first_peak(folder: Path) -> int:
    return int(wfdb.rdann(str(folder / "r1"), "qrs").sample[0])


@pytest.mark.parametrize(("mains", "told"), [((), 600), (("--mains", "60"), 600), (("--mains", "50"), 500)])
def test_detect_runs_a_persons_own_detector_and_tells_it_the_mains(
    ecgfed: Command, recorded: Path, tmp_path: Path, telling: str, mains: tuple[str, ...], told: int
) -> None:
    said = ecgfed("detect", recorded / "r1", "--out", tmp_path / "peaks", "--detector", telling, *mains, "--json")
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    assert answer["detector"] == "telling.py:TELLING"
    assert answer["mains_hz"] == (int(mains[1]) if mains else None)
    assert first_peak(tmp_path / "peaks") == told


def test_detect_refuses_mains_and_detectors_that_are_none(
    ecgfed: Command, recorded: Path, tmp_path: Path, telling: str
) -> None:
    for options, words in (
        (("--mains", "55"), ("--mains: 55", "50 or 60")),
        (("--detector", telling.replace("TELLING", "TELL")), ("--detector", "has no 'TELL'")),
        (("--detector", f"{tmp_path / 'none.py'}:X"), ("no file",)),
        (("--detector", "json:loads"), ("function is no detector",)),
    ):
        assert_refused(ecgfed("detect", recorded / "r1", "--out", tmp_path / "peaks", *options), *words)
    (tmp_path / "bad.py").write_text(TELLING.replace("return ", "return 1.0 * "))
    said = ecgfed(
        "detect", recorded / "r1", "--out", tmp_path / "peaks", "--detector", f"{tmp_path / 'bad.py'}:TELLING"
    )
    assert_refused(said, "bad.py:TELLING returned float64 of shape", "increasing int64 sample numbers")
    assert not (tmp_path / "peaks").exists()


def test_detected_peaks_of_prepare_name_their_detector(ecgfed: Command, recorded: Path, tmp_path: Path) -> None:
    for detector in ("ecgfed", "pantompkins1985"):
        out = tmp_path / detector
        said = ecgfed("prepare", "folder", recorded, "--out", out, "--peaks", "detected", "--detector", detector)
        assert said.code == 0, said.err
        assert json.loads((out / "cohort.json").read_text())["detector"] == detector
    assert_refused(
        ecgfed("prepare", "folder", recorded, "--out", tmp_path / "x", "--detector", "magic"), "--detector", "'magic'"
    )
