"""What ``benchmarks/newcomers`` deals, asks, scores and keeps: by hand, and on a synthetic patient."""

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

import ecgfed
from ecgfed.base.errors import RunError
from ecgfed.domain.beats.path import BeatOptions, read_beats

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks" / "newcomers"
BESIDE = ("patients", "answers", "summary", "person")
#: One synthetic patient who took no part, and the run on the others.
NEW = "demo04"


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"newcomers_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def newcomers() -> Iterator[SimpleNamespace]:
    """The script and the modules beside it; other benchmarks have modules of these names."""
    before = list(sys.path)
    sys.path[:0] = [str(FOLDER), str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "clinical")]
    for name in BESIDE:
        sys.modules.pop(name, None)
    run = loaded(FOLDER / "run.py")
    run.METHODS = {name: (settings, 1) for name, (settings, _) in run.METHODS.items()}  # one pass, to be fast
    sys.modules["answers"].SCRATCH_EPOCHS = 2  # type: ignore[attr-defined]
    yield SimpleNamespace(run=run, page=loaded(FOLDER / "page.py"), **{name: sys.modules[name] for name in BESIDE})
    sys.path[:] = before
    for name in BESIDE:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def fold(newcomers: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A fold of one patient, its cohort and runs those of synthetic patients."""
    work = tmp_path_factory.mktemp("newcomers")
    cohort = ecgfed.prepare_demo(work / "demo", patients=4, holdout=(NEW,), workers=1)
    given = argparse.Namespace(source=work / "demo-records", work=work, passes=0.5, workers=1, runs=work / "runs.json")
    made = newcomers.run.Fold(given, 0, 0, [NEW])
    made.cohort = cohort
    return made


def test_folds_keep_a_person_and_part_a_rare_class(newcomers: SimpleNamespace) -> None:
    """Two people have the third class: one in each fold. b and c are one person, and stay together."""
    counts = {"a": [9, 0, 4], "b": [9, 3, 0], "c": [9, 1, 0], "d": [9, 2, 7], "e": [9, 0, 0], "f": [9, 1, 0]}
    dealt = newcomers.patients.folds_of({name: np.array(row) for name, row in counts.items()}, {"c": "b"}, 2)
    # third class: d, then a; second (b with c, d, f): b where nobody has it beside a, f where there are fewer people
    assert dealt == [["d", "e", "f"], ["a", "b", "c"]]


def test_lessons_of_a_synthetic_patient(newcomers: SimpleNamespace, fold: Any) -> None:
    """Nothing is scored that was learned as a true label; what was asked for is known truly."""
    known, parts = fold.lessons[NEW], newcomers.patients
    asked, cohort = fold.asked[NEW], fold.cohort
    marks = ecgfed.read_annotation(fold.given.source / NEW).beats()
    truth = cohort.labels.encode(marks.symbol)  # all symbols of the synthetic patients have a class
    assert len(asked.asked) == parts.LABELS == 20
    first, spread, alone = (known[name] for name in (parts.FIRST, parts.SPREAD, parts.ALONE))
    for lesson in known.values():
        assert (lesson.truth == truth).all()
    assert (marks.sample[first.learn] < 5 * 60 * 360).all()
    assert set(first.learn) | set(first.first.rest) == set(range(len(truth)))
    assert set(alone.learn) == set(asked.asked.tolist())
    assert set(alone.first.rest) == set(spread.first.rest) == set(range(len(truth))) - set(asked.asked.tolist())
    assert len(spread.learn) == len(truth)
    assert (spread.first.data.label[asked.asked] == truth[asked.asked]).all()
    assert (alone.first.data.label[alone.learn] == truth[alone.learn]).all()


def test_as_many_steps_are_taken_whatever_is_learned_from(newcomers: SimpleNamespace) -> None:
    def passes(learned: int, five_minutes: int, epochs: int) -> int:
        first = SimpleNamespace(data=SimpleNamespace(rows={0: np.arange(learned)}))
        lesson = newcomers.patients.Lesson(first, np.zeros(1, np.int64), five_minutes)
        return int(lesson.passes(epochs, 64))

    assert passes(375, 375, 10) == 10  # 6 steps each
    assert passes(20, 375, 10) == 60  # one step each
    assert passes(2200, 375, 10) == 2  # 35 steps each
    assert passes(2200, 100, 1) == 1  # never none


def test_what_a_fold_keeps_of_a_synthetic_patient(newcomers: SimpleNamespace, fold: Any) -> None:
    answers, parts = newcomers.answers, newcomers.patients
    nobody = fold.nobody()["patients"]
    assert nobody["records"] == [NEW]
    told, known = fold.lessons[NEW][parts.SPREAD].first.data.label, fold.lessons[NEW][parts.SPREAD]
    rest = known.first.rest
    expected = f1_score(known.truth[rest], told[rest], average="macro")  # scikit-learn: in truth or prediction
    assert nobody[parts.SPREAD][answers.GROUPS]["macro_f1"] == [pytest.approx(expected, abs=5e-5)]
    assert answers.GROUPS not in nobody[parts.FIRST]
    plain = fold.method("fedavg", nobody["asked"])["patients"]
    assert set(plain[parts.FIRST]) == {answers.GLOBAL, answers.OWN, answers.PARTWAY}
    assert nobody["scored"][parts.SPREAD] == nobody["scored"][parts.ALONE] == [len(rest)]
    with pytest.raises(RunError, match="was made with other labels"):
        fold.method("fedavg", [[0, 1, 2]])


def test_paired_differences_by_hand(newcomers: SimpleNamespace) -> None:
    paired = newcomers.summary.paired
    theirs = np.array([[0.1, 0.5, 0.3], [0.2, 0.4, 0.6]])
    people = [np.array([0, 1]), np.array([2])]
    always = paired(theirs + 0.1, theirs, people)
    assert always == pytest.approx({"mean": 0.1, "low": 0.1, "high": 0.1})
    # the second person alone is 0.3 better: of two drawn people none, one (0.3 of three records) or both
    one = paired(theirs + np.array([0, 0, 0.3]), theirs, people)
    assert one == pytest.approx({"mean": 0.1, "low": 0.0, "high": 0.3})
    worst = paired(theirs + np.array([0, 0, 0.3]), theirs, [np.array([at]) for at in range(3)], lambda one: one.min(1))
    assert worst["mean"] == 0.0


@pytest.mark.mitdb
def test_the_46_records_in_four_folds(newcomers: SimpleNamespace, mitdb: Path) -> None:
    """201 and 202 together; a class of several people is never held out as a whole."""
    dealt = newcomers.run.folds(mitdb)
    assert sorted(map(len, dealt)) == [11, 11, 12, 12]
    assert any({"201", "202"} <= set(one) for one in dealt)
    labels = newcomers.run.BUILT_IN["mitbih12"]
    counts = newcomers.patients.class_counts(mitdb, [name for one in dealt for name in one], labels)
    having = [np.sum([counts[name] > 0 for name in one], axis=0) for one in dealt]
    for number, name in enumerate(labels.classes):
        people = [int(one[number]) for one in having]
        assert sum(count > 0 for count in people) >= min(2, sum(people)), name


@pytest.mark.mitdb
def test_beats_asked_for_are_numbered_among_all(newcomers: SimpleNamespace, mitdb: Path) -> None:
    """Beats 360 and 899 of record 101 are Q, which no class has: they shift the rows of all after them."""
    labels, parts = newcomers.run.BUILT_IN["mitbih12"], newcomers.patients
    beats = read_beats(mitdb / "101", BeatOptions(("MLII",), "annotated"))
    marks = ecgfed.read_annotation(mitdb / "101").beats()
    assert np.flatnonzero(marks.symbol == "Q").tolist() == [360, 899]
    told = np.maximum(labels.encode(marks.symbol).astype(np.int64), 0)
    known = parts.lessons(beats, labels, parts.Questions(np.arange(350, 370), told), rr=True)
    lesson = known[parts.ALONE]
    assert len(lesson.learn) == 19
    asked = [number for number in range(350, 370) if number != 360]
    window = beats.windows.window_mv[asked]
    assert (np.asarray(lesson.first.data.examples)[lesson.learn] == window).all()
    assert len(lesson.first.rest) == len(marks.symbol) - 2 - 19
