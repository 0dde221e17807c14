"""``ecgfed personalize``: a held-out patient's own model, its scores found again from what ``predict`` writes."""

import csv
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import train_run, write_record
from sklearn.metrics import f1_score
from support import Command, assert_refused

SYMBOLS = "NNVN" * 60


@pytest.fixture(scope="module")
def new_patient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of nobody in the cohort, a little over three minutes."""
    return write_record(tmp_path_factory.mktemp("new"), "newcomer", SYMBOLS, seed=99)


@pytest.fixture(scope="module")
def hyper_run(cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(cohort_path, tmp_path_factory.mktemp("run") / "hyper", method="fed-rod-hyper")


def _mix(folder: Path, text: str) -> Path:
    path = folder / "mix"
    path.write_text(text)
    return path


@pytest.mark.parametrize("method", ["grp-fed", "ditto", "per-fedavg", "pfedme", "fed-rod-hyper", "fedavg"])
def test_scores_are_found_again_from_the_bundles_predictions(
    ecgfed: Command, cohort_path: Path, new_patient: Path, tmp_path: Path, method: str
) -> None:
    run = train_run(cohort_path, tmp_path / "run", method=method)
    said = ecgfed(
        "personalize", run, "--record", new_patient, "--minutes", 1, "--epochs", 2, "--out", tmp_path / "b", "--json"
    )
    assert (said.code, said.err) == (0, "")
    told = json.loads(said.out)
    marks = wfdb.rdann(str(new_patient), "atr")
    early = marks.sample < 60 * 360
    counts = dict(zip(*np.unique(np.array(marks.symbol)[early], return_counts=True), strict=True))
    assert told["learned_from"] == {"minutes": 1.0, "epochs": 2, "beats": int(early.sum()), "classes": counts}
    for answer, whose in (("personal", ("--patient", "newcomer")), ("global", ())):
        out = tmp_path / answer
        assert ecgfed("predict", tmp_path / "b", new_patient, "--peaks", "annotated", *whose, "--out", out).code == 0
        with (out / "newcomer.csv").open(newline="") as stream:
            predicted = np.array([row["class"] for row in csv.DictReader(stream)])
        truth = np.array(marks.symbol)
        scores = told["scores"][answer]
        assert scores["accuracy"] == pytest.approx((truth == predicted)[~early].mean())
        assert scores["macro_f1"] == pytest.approx(f1_score(truth[~early], predicted[~early], average="macro"))
    assert told["scores"]["beats"] == (~early).sum()


def test_a_class_mix_alone_makes_a_model(ecgfed: Command, hyper_run: Path, new_patient: Path, tmp_path: Path) -> None:
    given = ("personalize", hyper_run, "--class-mix")
    by_name = _mix(tmp_path, json.dumps({"N": 3, "V": 1}))
    assert ecgfed(*given, by_name, "--patient", "eve", "--out", tmp_path / "a").code == 0
    table = tmp_path / "mix.csv"
    table.write_text("class,share\nN,0.75\nV,0.25\n")
    told = json.loads(ecgfed(*given, table, "--record", new_patient, "--out", tmp_path / "b", "--json").out)
    assert told["learned_from"] == {"beats": 0, "class_mix": {"N": 0.75, "V": 0.25}}
    assert told["scores"]["beats"] == len(SYMBOLS)
    graphs = [(tmp_path / a / "patients" / b).read_bytes() for a, b in (("a", "eve.onnx"), ("b", "newcomer.onnx"))]
    assert len(graphs[0]) > 0
    for name, patient in (("a", "eve"), ("b", "newcomer")):
        said = ecgfed("predict", tmp_path / name, new_patient, "--patient", patient, "--out", tmp_path / f"{name}p")
        assert said.code == 0
    texts = [(tmp_path / f"{name}p" / "newcomer.csv").read_text() for name in "ab"]
    assert texts[0] == texts[1]  # the same mix, the same model
    other = _mix(tmp_path, json.dumps({"L": 1}))
    ecgfed(*given, other, "--patient", "eve", "--out", tmp_path / "c")
    ecgfed("predict", tmp_path / "c", new_patient, "--patient", "eve", "--out", tmp_path / "cp")
    assert (tmp_path / "cp" / "newcomer.csv").read_text() != texts[0]


def test_a_participant_is_named_as_such(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    said = ecgfed("personalize", fedavg_run, "--record", records / "p1", "--minutes", 0.5, "--out", tmp_path / "b")
    assert said.code == 0
    assert "p1 took part in training" in said.err
    assert "beats of the first 0.5 minutes" in said.out


def test_the_next_command_it_names_can_be_run(
    ecgfed: Command, fedavg_run: Path, new_patient: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "eve.npy", wfdb.rdrecord(str(new_patient)).p_signal * 200)
    shutil.copyfile(new_patient.with_suffix(".atr"), tmp_path / "eve.atr")
    given = ("--fs", 360, "--units", "200/mV", "--columns", "aVF,V1", "--lead", "aVF", "--minutes", 1, "--epochs", 1)
    said = ecgfed("personalize", fedavg_run, "--record", tmp_path / "eve.npy", *given, "--out", tmp_path / "b")
    assert said.code == 0
    words = shlex.split(said.out.split("Next: ecgfed ")[1])
    assert words[-2:] == ["--out", "predictions"]
    assert ecgfed(*words[:-1], tmp_path / "predictions").code == 0


def test_beats_are_cut_as_the_cohorts_were(ecgfed: Command, records: Path, new_patient: Path, tmp_path: Path) -> None:
    """A mark where no peak is: annotated peaks take it for a beat, detected ones leave it out."""
    marks = wfdb.rdann(str(new_patient), "atr")
    false = (marks.sample[-3] + marks.sample[-2]) // 2
    order = np.argsort(np.append(marks.sample, false))
    for suffix in (".hea", ".dat"):
        shutil.copyfile(new_patient.with_suffix(suffix), tmp_path / f"newcomer{suffix}")
    wfdb.wrann(
        "newcomer",
        "atr",
        np.append(marks.sample, false)[order],
        list(np.array([*marks.symbol, "N"])[order]),
        write_dir=str(tmp_path),
    )
    for peaks, extra in (("annotated", 1), ("detected", 0)):
        cohort, run = tmp_path / f"{peaks}-cohort", tmp_path / f"{peaks}-run"
        assert ecgfed("prepare", "folder", records, "--peaks", peaks, "--workers", 1, "--out", cohort).code == 0
        train_run(cohort, run)
        given = ("--record", tmp_path / "newcomer", "--minutes", 1, "--epochs", 1, "--out", tmp_path / peaks)
        told = json.loads(ecgfed("personalize", run, *given, "--json").out)
        assert told["learned_from"]["beats"] + told["scores"]["beats"] == len(marks.sample) + extra


def test_a_recording_that_is_used_up_is_said(
    ecgfed: Command, fedavg_run: Path, new_patient: Path, tmp_path: Path
) -> None:
    given = ("--record", new_patient, "--minutes", 99, "--epochs", 1, "--out", tmp_path / "b")
    said = ecgfed("personalize", fedavg_run, *given)
    assert said.code == 0
    assert "No beat of the recording is left to score it on." in said.out


def test_a_participant_under_another_name_is_known_by_its_files(
    ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path
) -> None:
    given = ("--record", records / "p1", "--patient", "somebody", "--minutes", 0.5)
    assert "p1 took part in training" in ecgfed("personalize", fedavg_run, *given, "--out", tmp_path / "b").err


def test_what_cannot_be_done_is_said_and_writes_nothing(
    ecgfed: Command, fedavg_run: Path, hyper_run: Path, new_patient: Path, tmp_path: Path
) -> None:
    out = tmp_path / "b"
    record, mix = ("--record", new_patient), _mix(tmp_path, '{"N": 1}')
    for run, arguments, words in (
        (fedavg_run, (*record, "--minutes", 1, "--class-mix", mix), ("--minutes and --class-mix",)),
        (fedavg_run, (), ("--record", "is missing")),
        (fedavg_run, (*record, "--minutes", 0), ("--minutes", "above 0")),
        (fedavg_run, (*record, "--minutes", 0.001), ("newcomer", "--minutes")),
        (fedavg_run, (*record, "--class-mix", mix), ("--class-mix", "fedavg", "fed-rod-hyper")),
        (hyper_run, ("--class-mix", mix), ("--patient",)),
        (hyper_run, ("--class-mix", mix, "--patient", "../x"), ("--patient", "file's")),
        (hyper_run, ("--class-mix", tmp_path / "none", "--patient", "x"), ("--class-mix", "does not exist")),
        (fedavg_run, ("--record", tmp_path / "nobody"), ("nobody.hea", "does not exist")),
    ):
        assert_refused(ecgfed("personalize", run, *arguments, "--out", out), *words)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes").write_text("mine")
    assert_refused(ecgfed("personalize", fedavg_run, *record, "--out", tmp_path / "taken"), "--out", "not empty")
    for text, words in (
        ('{"Z": 1}', "class 'Z'"),
        ('{"N": -1}', "-1 for class N"),
        ('{"N": 0}', "no class occurs"),
        ('{"N": "many"}', "cannot be read"),
        ("N;3", "cannot be read (a line is 'N;3')"),
        ("", "no class occurs"),
    ):
        said = ecgfed("personalize", hyper_run, "--class-mix", _mix(tmp_path, text), "--patient", "x", "--out", out)
        assert_refused(said, "--class-mix", words)
    assert not out.exists()
