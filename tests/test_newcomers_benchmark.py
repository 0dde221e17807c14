"""What ``benchmarks/newcomers`` deals, asks, scores and keeps: by hand, and on a synthetic patient."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks" / "newcomers"
BESIDE = ("patients", "answers", "summary", "person")


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"newcomers_{file.stem}", file)
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


def test_folds_keep_a_person_and_part_a_rare_class(newcomers: SimpleNamespace) -> None:
    """Two people have the third class: one in each fold. b and c are one person, and stay together."""
    counts = {"a": [9, 0, 4], "b": [9, 3, 0], "c": [9, 1, 0], "d": [9, 2, 7], "e": [9, 0, 0], "f": [9, 1, 0]}
    dealt = newcomers.patients.folds_of({name: np.array(row) for name, row in counts.items()}, {"c": "b"}, 2)
    # third class: d, then a; second (b with c, d, f): b where nobody has it beside a, f where there are fewer people
    assert dealt == [["d", "e", "f"], ["a", "b", "c"]]


def test_as_many_steps_are_taken_whatever_is_learned_from(newcomers: SimpleNamespace) -> None:
    def passes(learned: int, five_minutes: int, epochs: int) -> int:
        first = SimpleNamespace(data=SimpleNamespace(rows={0: np.arange(learned)}))
        lesson = newcomers.patients.Lesson(first, np.zeros(1, np.int64), five_minutes)
        return int(lesson.passes(epochs, 64))

    assert passes(375, 375, 10) == 10  # 6 steps each
    assert passes(20, 375, 10) == 60  # one step each
    assert passes(2200, 375, 10) == 2  # 35 steps each
    assert passes(2200, 100, 1) == 1  # never none


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
