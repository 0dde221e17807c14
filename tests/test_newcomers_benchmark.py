"""What ``benchmarks/newcomers`` deals, asks, scores and keeps: by hand, and on a synthetic patient."""

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.core.evaluation.new_client import adapt_model
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


def test_every_record_is_in_one_fold_with_its_person(newcomers: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    counts = {f"{number}": rng.integers(0, 4, 5) * rng.integers(0, 2, 5) for number in range(40)}
    person = {"7": "3", "21": "3", "30": "29"}
    dealt = newcomers.patients.folds_of(counts, person, 4)
    assert sorted(name for one in dealt for name in one) == sorted(counts)
    for together in (("3", "7", "21"), ("29", "30")):
        assert len({number for number, one in enumerate(dealt) for name in together if name in one}) == 1


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


def test_from_scratch_is_what_local_makes_of_a_newcomer(newcomers: SimpleNamespace, fold: Any) -> None:
    """Whatever run lends its net: the first model of a run of ``local`` itself, trained on the same beats."""
    answers, lesson = newcomers.answers, fold.lessons[NEW][newcomers.patients.ALONE]
    local = fold.run("local")
    passes = lesson.passes(answers.SCRATCH_EPOCHS, 64)
    chain = adapt_model(local, fold.cohort, local.state(), lesson.first, passes)
    expected = answers.scored(lesson, answers.labels_by(local.net, lesson, chain))
    found = answers.of_nobody(fold.run("fedavg"), fold.cohort, {"one": lesson})["one"][answers.SCRATCH]
    assert found == expected


def test_methods_with_other_answers(newcomers: SimpleNamespace, fold: Any) -> None:
    """A class mix where the method has one; of ``local`` its ensemble alone: its own way is from scratch."""
    answers, parts = newcomers.answers, newcomers.patients
    asked = [fold.asked[NEW].asked.tolist()]
    assert set(fold.method("local", asked)["patients"][parts.FIRST]) == {answers.GLOBAL}
    assert answers.MIX in fold.method("fed-rod-hyper", asked)["patients"][parts.SPREAD]


def test_a_method_of_more_gradients_reads_fewer_beats(
    newcomers: SimpleNamespace, fold: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(newcomers.run, "trained", lambda *_, **options: asked.update({options["method"]: options}))
    for name in newcomers.run.METHODS:
        fold.run(name)
    assert {name: one["passes"] for name, one in asked.items()} == {**dict.fromkeys(asked, 0.5), "pfedme": 0.1}
    same = {(one["seed"], one["rr"], one["window_share"], one["batch_size"]) for one in asked.values()}
    assert same == {(0, True, 0.1, 64)}


def test_windows_are_z_scored_beside_rr(newcomers: SimpleNamespace) -> None:
    window = np.array([[[1.0, 3.0]], [[5.0, 5.0]]], np.float32)
    rr = np.array([[0.5], [0.25]], np.float32)
    assert newcomers.answers.points(window, rr) == pytest.approx(np.array([[-1, 1, 0.5], [0, 0, 0.25]]), abs=1e-5)
    assert newcomers.answers.points(window, None).shape == (2, 2)


def test_a_machine_of_one_class_says_that_class(newcomers: SimpleNamespace, fold: Any) -> None:
    lesson = fold.lessons[NEW][newcomers.patients.ALONE]
    data = lesson.first.data
    of_one = newcomers.patients.replace(data, label=np.full(len(data.label), 3))
    same = newcomers.patients.replace(lesson, first=newcomers.patients.replace(lesson.first, data=of_one))
    assert (newcomers.answers.machine(same) == 3).all()


@pytest.fixture
def counted(newcomers: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made, in order; a method named ``pfedme`` fails."""
    made: list[str] = []

    def nobody(fold: Any) -> dict[str, Any]:
        made.append(fold.key("nobody"))
        return {"patients": {"records": fold.records, "asked": [[1]]}}

    def method(fold: Any, name: str, asked: list[list[int]]) -> dict[str, Any]:
        assert asked == [[1]]
        if name == "pfedme":
            raise KeyboardInterrupt
        made.append(fold.key(name))
        return {"rounds": 1, "patients": {"records": fold.records}}

    monkeypatch.setattr(newcomers.run.Fold, "nobody", nobody)
    monkeypatch.setattr(newcomers.run.Fold, "method", method)
    monkeypatch.setattr(newcomers.run.Fold, "cohort", SimpleNamespace(fingerprint="0" * 64))
    return made


def test_nothing_is_run_twice(newcomers: SimpleNamespace, counted: list[str], tmp_path: Path) -> None:
    given = argparse.Namespace(work=tmp_path, runs=tmp_path / "runs.json", passes=10.0, seeds=[0], folds=[0, 1])
    dealt = [["a"], ["b"]]
    given.only = ["fedavg", "pfedme"]
    with pytest.raises(KeyboardInterrupt):  # stopped within fold 0
        newcomers.run.parts(given, dealt)
    assert counted == ["nobody/fold 0/seed 0/10 passes", "fedavg/fold 0/seed 0/10 passes"]
    assert set(json.loads(given.runs.read_text())) == set(counted)
    given.only = ["fedavg", "ditto"]
    newcomers.run.parts(given, dealt)
    newcomers.run.parts(given, dealt)
    assert counted[2:] == [
        "ditto/fold 0/seed 0/10 passes",
        *(f"{name}/fold 1/seed 0/10 passes" for name in ("nobody", "fedavg", "ditto")),
    ]


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


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of toys have few values: they need no 2,000 draws."""
    monkeypatch.setattr(sys.modules["common"], "DRAWS", 200)


def score(*values: float) -> dict[str, list[float]]:
    return {"macro_f1": [value / 2 for value in values], "macro_f1_truth": list(values)}


def toy(newcomers: SimpleNamespace) -> dict[str, Any]:
    """Two folds of a record each, two seeds of the method in the first, one in the second."""
    parts, runs = newcomers.patients, {}
    for at, record, seed in ((0, "201", 0), (0, "201", 1), (1, "100", 0)):
        good = 0.6 + 0.1 * seed
        alone = {"from scratch": score(0.4), "support vector machine": score(0.5)}
        both = {parts.FIRST: alone, parts.ALONE: alone, parts.SPREAD: {**alone, "groups": score(0.9)}}
        runs[f"nobody/fold {at}/seed {seed}/10 passes"] = {"patients": {"records": [record], **both}}
        own = {"global": score(0.2), "partway": score(good), "own way": score(0.3)}
        runs[f"fedavg/fold {at}/seed {seed}/10 passes"] = {
            "patients": {"records": [record], **dict.fromkeys(both, own)}
        }
    runs["fedavg/fold 0/seed 0/1 passes"] = runs["fedavg/fold 0/seed 0/10 passes"]
    return runs


def test_means_and_pages_of_toy_runs(newcomers: SimpleNamespace, few_draws: None) -> None:
    """Of two seeds in one fold and two folds of one seed, two runs each, the seeds are counted: the whole of them."""
    found = newcomers.summary.summary(toy(newcomers), 10.0)
    assert found["done"]["fedavg"] == {"seeds": [0, 1], "folds": [0], "patients": 1}
    first = {(row["method"], row["answer"]): row for row in found["lessons"]["five minutes"]}
    assert first["fedavg", "partway"]["macro_f1_truth"] == pytest.approx({"mean": 0.65, "worst_tenth": 0.65})
    differences = {
        (row["method"], row["answer"], row["less"], row.get("of")): row
        for row in found["differences"]["twenty labels, spread"]
    }
    assert differences["fedavg", "partway", "from scratch", None]["macro_f1_truth"] == pytest.approx(
        {"mean": 0.25, "low": 0.2, "high": 0.3}  # 0.2 and 0.3 by seed
    )
    better = differences["fedavg", "partway", "the better of global and from scratch", None]
    assert better["macro_f1"]["mean"] == pytest.approx(0.125)
    assert ("nobody", "groups", "support vector machine", "twenty labels alone") in differences
    page = newcomers.page.page({"command": "python x", **found})
    assert "- `fedavg`: 1 records, fold 0, seeds 0, 1" in page
    assert "| `fedavg` | 0.100 (0.200); 0.100 | 0.150 (0.300); 0.150 |  | 0.325 (0.650); 0.325 |" in page
    assert (
        "| `fedavg` | partway | from scratch | +0.125 (+0.100 to +0.150) | +0.250 (+0.200 to +0.300) | "
        "+0.125 (+0.100 to +0.150) |"
    ) in page
    assert "| groups | 0.450 (0.900) | 0.450 |" in page


def test_runs_with_other_passes_do_not_count(newcomers: SimpleNamespace, few_draws: None) -> None:
    runs = toy(newcomers)
    assert newcomers.summary.summary(runs, 1.0)["done"] == {}  # nothing beside it that needs no method
    assert newcomers.summary.summary(runs, 3.0)["lessons"]["five minutes"] == []


def test_runs_of_another_benchmark_are_refused(newcomers: SimpleNamespace) -> None:
    with pytest.raises(OptionError, match="final/AFL"):
        newcomers.summary.summary({"final/AFL/0.01/0": {"patients": {}}}, 10.0)
    for other in ([1], {"nobody/fold 0/seed 0/10 passes": 1}, {"nobody/fold 0/seed 0/10 passes": {}}):
        with pytest.raises(OptionError, match="runs of this benchmark"):
            newcomers.summary.finished(other, 10.0)


def test_the_readme_is_what_the_results_give(newcomers: SimpleNamespace, few_draws: None) -> None:
    text, results = (FOLDER / "README.md").read_text(), FOLDER / "results.json"
    found = json.loads(results.read_text()) if results.is_file() else None
    assert newcomers.page.with_results(text, found) == text, "run python benchmarks/newcomers/page.py"
    assert ("Not run yet" in text) == (found is None)
    filled = newcomers.page.with_results(text, {"command": "c", **newcomers.summary.summary(toy(newcomers), 10.0)})
    assert "Not run yet" not in filled
    assert newcomers.page.with_results(filled, found) == text


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
