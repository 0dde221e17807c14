"""A ``ProgressReporter`` receives each verb's progress, notes and warnings; the default issues Python warnings."""

import inspect
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cifar_source import ROWS, write_binary
from conftest import write_record
from support import Recorder, exported, trace_once

import ecgfed
from ecgfed.domain.cohort import cifar_files
from ecgfed.tasks.keys import new_key
from ecgfed.tasks.reproduce import PAPERS


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    trace_once(monkeypatch)
    monkeypatch.setattr(cifar_files, "ROWS", ROWS)


@pytest.fixture
def place(tmp_path: Path, records: Path, cohort_path: Path, fedavg_run: Path) -> dict[str, Path]:
    """Where things lie and go."""
    return {"out": tmp_path / "out", "records": records, "cohort": cohort_path, "run": fedavg_run, "more": tmp_path}


Verb = Callable[[dict[str, Path], ecgfed.ProgressReporter], object]


def database(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    for number in (801, 802):
        write_record(place["more"] / "svdb", str(number), "NNNV" * 8, seed=number, leads=("ECG1", "ECG2"))
    return ecgfed.prepare_database("svdb", place["more"] / "svdb", place["out"], workers=1, progress=progress)


def delta(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    key = new_key(place["more"] / "clinic").private
    return ecgfed.export_delta(
        place["run"], place["out"], exported(place["run"]), sign=key, counter=1, progress=progress
    )


def joined(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    for number in range(2):
        write_record(place["more"] / f"in{number}", "p1", "NNNV" * 8, seed=number)
        ecgfed.prepare_folder(place["more"] / f"in{number}", place["more"] / f"site{number}", workers=1)
    return ecgfed.join_cohorts(
        [place["more"] / f"site{number}" for number in range(2)], place["out"], progress=progress
    )


def mitbih(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    for seed, name in enumerate(("100", "101")):
        write_record(place["more"] / "mitdb", name, "NNNV" * 8, seed=seed)
    return ecgfed.prepare_mitbih(place["more"] / "mitdb", place["out"], workers=1, progress=progress)


def cifar10(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    source = write_binary(place["more"] / "cifar")
    return ecgfed.prepare_cifar10(source, place["out"], clients=3, progress=progress)


def read_images(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    return ecgfed.read_images("cifar10", write_binary(place["more"] / "cifar"), progress=progress)


def reproduce(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    """The cohort of a table of few images, and one round."""
    write_binary(place["more"] / "cifar10")
    setting = PAPERS["fed-rod"].tables[1].settings
    few = tuple(replace(each, partition={"kind": "dirichlet", "clients": 8, "alpha": 0.3}) for each in setting)
    part: Any = {"data": "cifar10", "alpha": 0.3, "rows": ["FedAvg"], "scale": "reduced", "workers": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PAPERS["fed-rod"].tables, 1, replace(PAPERS["fed-rod"].tables[1], settings=few))
        return ecgfed.reproduce(
            "fed-rod", 1, source=place["more"], work=place["out"], progress=progress, should_stop=lambda: True, **part
        )


def sweep(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    less: Any = {"method": "fedavg", "rounds": 1, "local_steps": 1, "eval_every": 0, "workers": 1}
    return ecgfed.sweep(place["cohort"], {"lr": [0.1, 0.01]}, place["out"], progress=progress, **less)


def own_folder(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    return ecgfed.prepare_folder(
        place["records"], place["out"], workers=1, pack=place["more"] / "packed.zip", progress=progress
    )


def train(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    less: Any = {"local_steps": 1, "batch_size": 8, "eval_every": 0, "workers": 1}
    risk = {"risk": "meta-bsm"}
    return ecgfed.train(
        place["cohort"], place["out"], method="grp-fed", rounds=2, settings=risk, progress=progress, **less
    )


def train_seeds(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    less: Any = {"local_steps": 1, "eval_every": 0, "workers": 1}
    return ecgfed.train_seeds(
        place["cohort"], [3, 4], place["out"], method="fedavg", rounds=1, progress=progress, **less
    )


def held_out(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    cohort = ecgfed.resplit_cohort(place["cohort"], place["more"] / "without", holdout=["p1"])
    less: Any = {"local_steps": 1, "eval_every": 0, "workers": 1}
    run = ecgfed.train(cohort, place["out"], method="fedavg", rounds=1, **less)
    return ecgfed.evaluate_held_out(run, progress=progress)


def score_ec57(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    peaks = place["more"] / "peaks"
    ecgfed.detect(place["records"] / "p1", peaks)
    return ecgfed.score_ec57(place["records"], "qrs", test_folder=peaks, start=5, progress=progress)


def long_recording(place: dict[str, Path]) -> ecgfed.Recording:
    opened = ecgfed.open_recording(place["records"] / "p1", every_lead=True, min_samples=0)
    assert opened.is_lazy
    return opened


def convert(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    record = write_record(place["more"] / "in", "r1", "N" * 20, annotate=False)
    return ecgfed.convert(record, place["out"], progress=progress)


def personalize(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    record = place["records"] / "p1"
    return ecgfed.personalize(place["run"], place["out"], record=record, minutes=0.3, epochs=1, progress=progress)


def personalize_labels(place: dict[str, Path], progress: ecgfed.ProgressReporter) -> object:
    """From every mark of an annotation, and one where no beat is."""
    labels = place["more"] / "some.csv"
    marks = ecgfed.read_annotation(place["records"] / "p1").beats()
    rows = [f"{at},{symbol}" for at, symbol in zip(marks.sample.tolist(), marks.symbol.tolist(), strict=True)]
    labels.write_text(
        "\n".join(["sample,label", f"{(int(marks.sample[0]) + int(marks.sample[1])) // 2},N", *rows]) + "\n"
    )
    return ecgfed.personalize_labels(
        place["records"] / "p1", place["out"], labels=labels, patient="new", progress=progress
    )


#: verb -> how it is called; what it counts, a note and a warning it gives (parts of them).
VERBS: dict[str, tuple[Verb, set[str], tuple[str, ...], tuple[str, ...]]] = {
    "prepare_mitbih": (mitbih, {"records"}, (), ("6 files differ from the published database",)),
    "prepare_database": (database, {"records"}, (), ("6 files differ from the published database",)),
    "join_cohorts": (joined, set(), ("2 clients prefixed",), ()),
    "prepare_folder": (own_folder, {"records"}, ("Packed into", "packed.zip"), ()),
    "prepare_demo": (
        lambda place, progress: ecgfed.prepare_demo(place["out"], patients=2, minutes=1, workers=1, progress=progress),
        {"patients", "records"},
        ("Wrote 2 records into", "out-records"),
        (),
    ),
    "prepare_cifar10": (cifar10, {"images"}, (), ("cannot be compared with the official files",)),
    "train": (train, {"grp-fed"}, ("grp-fed on 4 clients: 2 rounds of 1 local step",), ("risk=meta-bsm pools",)),
    "train_seeds": (train_seeds, {"fedavg"}, ("Seed 4, 2 of 2:",), ()),
    "evaluate": (
        lambda place, progress: ecgfed.evaluate(place["run"], out=place["out"], progress=progress),
        {"patients"},
        ("Wrote ", "out."),
        (),
    ),
    "evaluate_held_out": (held_out, set(), ("Wrote ", "held-out.json"), ()),
    "export": (
        lambda place, progress: ecgfed.export(place["run"], place["out"], progress=progress),
        {"patients"},
        (),
        (),
    ),
    "export_delta": (delta, {"patients"}, (), ()),
    "predict": (
        lambda place, progress: ecgfed.predict(
            exported(place["run"]), place["records"] / "p1", leads="V1", progress=progress
        ),
        set(),
        (),
        ("lead V1 is not MLII",),
    ),
    "report_folder": (
        lambda place, progress: ecgfed.report_folder(
            place["records"], place["out"], exported(place["run"]), leads="V1", progress=progress
        ),
        {"recordings"},
        (),
        (),
    ),
    "predict_batch": (
        lambda place, progress: ecgfed.predict_batch(
            [place["records"] / "p1", place["records"] / "p2"],
            place["out"],
            bundle=exported(place["run"]),
            leads="V1",
            progress=progress,
        ),
        {"recordings"},
        (),
        ("p1: lead V1 is not MLII",),
    ),
    "report": (
        lambda place, progress: ecgfed.report(
            long_recording(place), exported(place["run"]), out=place["out"].with_suffix(".html"), progress=progress
        ),
        {"minutes read"},
        (),
        (),  # they are on its page
    ),
    "report_run": (
        lambda place, progress: ecgfed.report_run(place["run"], place["out"].with_suffix(".html"), progress=progress),
        set(),
        (" is not evaluated: 'ecgfed evaluate ",),
        (),
    ),
    "personalize": (personalize, set(), (), ("p1 took part in training",)),
    "label": (
        lambda place, progress: ecgfed.label(long_recording(place), count=2, progress=progress),
        {"minutes read"},
        (),
        (),
    ),
    "personalize_labels": (personalize_labels, {"checks"}, (), ("labels without a beat of their own are ignored",)),
    "detect": (lambda place, progress: ecgfed.detect(place["records"], progress=progress), {"records"}, (), ()),
    "inspect_recording": (
        lambda place, progress: ecgfed.inspect_recording(long_recording(place), progress=progress),
        {"minutes read"},
        (),
        (),
    ),
    "score_ec57": (score_ec57, set(), (), ("not scored, without .qrs: p2, p3, p4",)),
    "read_images": (read_images, set(), (), ("cannot be compared with the official files",)),
    "reproduce": (reproduce, set(), (), ("cannot be compared with the official files",)),
    "sweep": (sweep, {"fedavg"}, ("2 combinations of 1 seed",), ()),
    "convert": (convert, set(), (), ("no annotation beside it",)),
}


def test_every_verb_with_a_reporter_is_here() -> None:
    offered = {name: getattr(ecgfed, name) for name in ecgfed.__all__}
    verbs = {name for name, one in offered.items() if isinstance(one, types.FunctionType)}
    assert set(VERBS) == {name for name in verbs if "progress" in inspect.signature(offered[name]).parameters}


@pytest.mark.parametrize("name", sorted(VERBS))
def test_a_reporter_receives_each(name: str, place: dict[str, Path]) -> None:
    verb, counts, note, warning = VERBS[name]
    reporter = Recorder()
    verb(place, reporter)
    assert counts <= reporter.finished
    for steps in reporter.counted.values():
        assert all(total is None or 0 <= done <= total for done, total in steps)
    assert not note or any(all(part in said for part in note) for said in reporter.notes), reporter.notes
    assert not warning or any(all(part in said for part in warning) for said in reporter.warnings), reporter.warnings
    assert bool(warning) == bool(reporter.warnings)


def test_progress_goes_on_and_seeds_count_anew(place: dict[str, Path]) -> None:
    reporter = Recorder()
    own_folder(place, reporter)
    assert reporter.counted["records"] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    reporter = Recorder()
    train_seeds(place, reporter)
    assert reporter.counted["fedavg"] == [(1, 1), (1, 1)]
    assert [said for said in reporter.notes if said.startswith("Seed")] == ["Seed 3, 1 of 2:", "Seed 4, 2 of 2:"]


@pytest.mark.parametrize("name", ["predict", "convert", "personalize"])
def test_without_a_reporter_a_warning_is_pythons(
    name: str, place: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """It points at the line that called the verb, however deep it arose; nothing is printed."""
    verb, _, _, warning = VERBS[name]
    with pytest.warns(ecgfed.EcgfedWarning, match=warning[0]) as heard:
        verb(place, ecgfed.ProgressReporter())
    assert [one.filename for one in heard] == [__file__]
    assert issubclass(ecgfed.EcgfedWarning, UserWarning)
    own_folder({**place, "out": place["more"] / "quiet"}, ecgfed.ProgressReporter())
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
