"""A few labels to a patient's own model: counts of labels held back by hand, who each label is from, the same bits."""

import csv
import itertools
import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import wfdb
from conftest import write_record
from labelled_record import SYMBOLS, answers_of, grouped_of, table_of, truth_of
from scipy.stats import binomtest
from support import exported, snapshot, trace_once

import ecgfed as package
import ecgfed.tasks.personalize_labels as module
from ecgfed.base.deprecation import EcgfedDeprecation
from ecgfed.base.errors import BundleError, EcgfedError, OptionError, RecordError
from ecgfed.core.methods.base import Batch
from ecgfed.core.nets.net import Inputs
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.distilled import Distilled
from ecgfed.core.personal.kernel import Kernel
from ecgfed.core.personal.partway import Partway
from ecgfed.core.personal.registry import personal_by_name
from ecgfed.device import open_bundle
from ecgfed.domain.labels.label_errors import expected_errors
from ecgfed.domain.labels.spread import spread
from ecgfed.exports.bundles.weights import global_model
from ecgfed.tasks.cross_validation import (
    MAX_CHANCE,
    PREDICTORS,
    ClassResult,
    CrossValidation,
    Learner,
    are_consecutive,
    assign_blocks,
    assign_folds,
    cross_validate,
    training_beats,
)
from ecgfed.tasks.grouped import GroupedBeats
from ecgfed.tasks.label_personalization import LabelPersonalization, cross_validation_dict
from ecgfed.tasks.rhythms import sure_episodes

pytestmark = pytest.mark.filterwarnings("ignore::ecgfed.tasks.progress.EcgfedWarning")


@pytest.fixture(scope="module", autouse=True)
def graphs_traced_once() -> Iterator[None]:
    """Each role of a net is traced once for all of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        trace_once(patch)
        yield


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_record(tmp_path_factory.mktemp("own"), "rec", SYMBOLS, seed=4)


@pytest.fixture(scope="module")
def grouped(record: Path) -> GroupedBeats:
    return grouped_of(record)


@pytest.fixture(scope="module")
def label(record: Path, grouped: GroupedBeats) -> dict[int, str]:
    """Twelve answers, one of which nobody could tell, and one that is no beat. What a model calls V is F here."""
    calls = {"V": "F", "A": "N"}
    labels = answers_of(grouped, [calls.get(one, one) for one in truth_of(record, grouped)], 12)
    seconds = [beat for beat, symbol in labels.items() if symbol == "N"]
    return {**labels, seconds[-1]: "?", seconds[-2]: "|"}


@pytest.fixture(scope="module")
def labels(grouped: GroupedBeats, label: dict[int, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("labels") / "rec-labels.csv"
    file.write_bytes(table_of(grouped, label))
    return file


@pytest.fixture(scope="module")
def made(record: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> LabelPersonalization:
    return package.personalize_labels(record, tmp_path_factory.mktemp("made") / "bundle", labels=labels)


def learner_of(grouped: GroupedBeats, label: dict[int, str]) -> Learner:
    bundle = grouped.bundle
    beats = training_beats(grouped, label)
    everyone = torch.full((len(bundle.classes),), 1.0 / len(bundle.classes))
    return Learner(global_model(bundle), grouped.groups, bundle.labels, beats, Partway(), everyone, 0)


def test_parts_hold_their_share_of_every_class() -> None:
    rng = np.random.default_rng(3)
    for count in (5, 6, 19, 100):
        number = rng.integers(0, 4, count)
        part = assign_folds(number, 5, seed=7)
        sizes = Counter(part.tolist())
        assert set(sizes) == set(range(5))
        assert max(sizes.values()) - min(sizes.values()) <= 1
        for one in range(4):
            held = [int(((part == p) & (number == one)).sum()) for p in range(5)]
            assert max(held) - min(held) <= 1
        assert (assign_folds(number, 5, seed=7) == part).all()
    assert any((assign_folds(number, 5, seed=seed) != part).any() for seed in range(3))


def test_counts_of_labels_held_back_by_hand(record: Path, grouped: GroupedBeats, label: dict[int, str]) -> None:
    """Everything but the parts is done again: the groups' labels, the global model's, and two trainings a part."""
    learner, bundle = learner_of(grouped, label), grouped.bundle
    found = cross_validate(learner, label, grouped.predictions.label)
    assert found is not None
    class_of = {symbol: bundle.classes.index(name) for symbol, name in bundle.labels.symbols.items()}
    usable = [beat for beat in sorted(label) if label[beat] in class_of]
    assert len(usable) == 10
    part = assign_folds(np.array([class_of[label[beat]] for beat in usable]), 5, 0)
    windows = grouped.beats.windows
    examples, rr = torch.from_numpy(windows.window_mv), torch.from_numpy(windows.rr_s)
    net, params = learner.start.net, learner.start.params
    right = dict.fromkeys(PREDICTORS, 0)
    torch.set_num_threads(1)
    for number in range(5):
        away = [beat for beat, one in zip(usable, part.tolist(), strict=True) if one == number]
        rest = {beat: symbol for beat, symbol in label.items() if beat not in away}
        names, _ = spread(grouped.groups, rest)
        known = [beat for beat in range(len(names)) if names[beat] in class_of]
        train = Batch(Inputs(examples[known], rr[known]), torch.tensor([class_of[str(names[beat])] for beat in known]))
        own = PatientBeats(train, None, learner.everyone, (0, 0))
        personal = Partway().fit(net, params, own).stages[0].params
        describer, kernel = Kernel().fit(net, net.initial(0), own).stages
        with torch.inference_mode():
            seen = Inputs(examples[away], rr[away])
            by_personal = net.logits(personal, seen).argmax(1).tolist()
            by_scratch = net.roles["kernel"](kernel.params, net.describe(describer.params, seen)).argmax(1).tolist()
        for i, beat in enumerate(away):
            truth = class_of[label[beat]]
            right["groups"] += class_of.get(str(names[beat]), -1) == truth
            right["global"] += int(grouped.predictions.label[beat]) == truth
            right["personal"] += by_personal[i] == truth
            right["scratch"] += by_scratch[i] == truth
    assert (found.labels, found.folds, found.right) == (10, 5, right)
    for name in PREDICTORS:
        assert sum(check.right[name] for check in found.by_class.values()) == right[name]
    assert {name: check.labels for name, check in found.by_class.items()} == dict(
        Counter(bundle.labels.symbols[label[beat]] for beat in usable)
    )
    for check in found.by_class.values():  # what one of the two alone has right is the whole difference
        for name, lost in check.lost.items():
            assert check.right[name] - check.right["global"] == check.gained[name] - lost
    assert cross_validate(learner, dict(list(label.items())[:3]), grouped.predictions.label) is None


def test_blocks_of_time_are_in_order_and_of_one_size() -> None:
    for count in (5, 6, 19, 100):
        blocks = assign_blocks(count, 5)
        expected = [len(block) for block in np.array_split(np.arange(count), 5)]
        assert blocks.tolist() == sorted(blocks.tolist())
        assert sorted(Counter(blocks.tolist()).values()) == sorted(expected)


@pytest.mark.parametrize(
    ("beats", "expected"),
    [
        (range(40, 400), True),  # minutes without a gap
        ([*range(100), *range(101, 200), *range(203, 300)], True),  # some beats without a label
        (range(0, 2000, 97), False),  # as the page asks
        ([3, 4, 90, 91, 200, 300, 400, 500], False),  # two pairs
        ([7], False),
    ],
)
def test_labels_are_consecutive_where_most_have_the_next_beat_labelled(beats: Iterable[int], expected: bool) -> None:
    assert are_consecutive(np.array(list(beats))) == expected


def test_labels_of_consecutive_beats_are_held_back_in_blocks_of_time(
    record: Path, grouped: GroupedBeats, label: dict[int, str]
) -> None:
    """The groups' share by hand: each fifth in order of time takes the labels of the other four."""
    truth = truth_of(record, grouped)
    early = {beat: truth[beat] for beat in range(100)}
    learner = replace(learner_of(grouped, early), how=personal_by_name("head"))  # the fastest
    checked = cross_validate(learner, early, grouped.predictions.label)
    assert checked is not None
    assert (checked.by_time, checked.labels, checked.folds) == (True, 100, 5)
    classes = grouped.bundle.labels.symbols
    right = 0
    for start in range(0, 100, 20):
        names, _ = spread(grouped.groups, {beat: early[beat] for beat in early if not start <= beat < start + 20})
        right += sum(classes[str(names[beat])] == classes[early[beat]] for beat in range(start, start + 20))
    assert checked.right["groups"] == right
    assert cross_validation_dict(checked)["by_time"]
    scattered = cross_validate(replace(learner_of(grouped, label), how=learner.how), label, grouped.predictions.label)
    assert scattered is not None
    assert not scattered.by_time
    assert "by_time" not in cross_validation_dict(scattered)


def test_the_teacher_answers_all_beats_without_a_label_those_after_the_first_minutes_too(
    record: Path, grouped: GroupedBeats
) -> None:
    first = grouped_of(record, minutes=1)
    early = dict(enumerate(truth_of(record, first)[: first.grouped - 5]))
    beats = training_beats(first, early, whole=True)
    assert beats.row.tolist() == list(range(grouped.grouped))
    learner = replace(learner_of(first, early), beats=beats, how=Distilled())
    own = learner.patient_beats(early)
    assert own is not None
    assert own.unlabelled is not None
    windows = torch.from_numpy(grouped.beats.windows.window_mv)
    assert torch.equal(own.unlabelled.examples, windows[first.grouped - 5 :])
    assert torch.equal(own.train.inputs.examples, windows[: first.grouped])
    partway = replace(learner, how=Partway()).patient_beats(early)
    assert partway is not None
    assert partway.unlabelled is None


def test_a_distilled_model_is_exported(
    record: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecgfed.core.personal.distilled.STEPS", 20)
    stated(monkeypatch, personal=11, scratch=10, **{"global": 10})
    distilled = package.personalize_labels(record, tmp_path / "b", labels=labels, personal="distilled")
    assert distilled.bundle.manifest["patients"]["rec"]["personal"] == "distilled"
    own, everyone = (package.predict(distilled.bundle, record, patient=who) for who in ("rec", None))
    assert (own.probability != everyone.probability).any()


def test_of_very_many_labels_some_are_learned_from(
    grouped: GroupedBeats, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the rare kinds, evenly of the others; and the counts are of these."""
    truth = dict(enumerate(truth_of(record, grouped)))
    assert Counter(truth.values()) == {"N": 150, "V": 20, "A": 10}
    monkeypatch.setattr("ecgfed.tasks.cross_validation.MAX_LEARNED", 60)
    row = training_beats(grouped, truth).row.tolist()
    assert row == sorted(set(row))
    assert Counter(truth[beat] for beat in row) == {"N": 30, "V": 20, "A": 10}
    assert np.diff([beat for beat in row if truth[beat] == "N"]).max() < 15
    learner = learner_of(grouped, truth)
    found = cross_validate(learner, truth, grouped.predictions.label)
    assert found is not None
    assert found.labels == 60
    few = {beat: truth[beat] for beat in range(0, 180, 9)}
    some = training_beats(grouped, few).row
    assert (len(some), set(few) <= set(some.tolist())) == (60, True)


@pytest.mark.parametrize(
    ("personal", "everyone", "scratch", "best"),
    [
        (18, 12, 15, "personal"),
        (15, 15, 15, "personal"),
        (14, 16, 14, "personal"),  # 0.632 * 14 + 0.368 * 20 = 16.208
        (14, 17, 14, "global"),
        (14, 13, 15, "scratch"),
        (14, 17, 15, "global"),  # 0.632 * 15 + 0.368 * 20 = 16.84
        (20, 20, 20, "personal"),
    ],
)
def test_the_best_estimate_is_exported(personal: int, everyone: int, scratch: int, best: str) -> None:
    right = {"groups": 0, "personal": personal, "global": everyone, "scratch": scratch}
    checked = CrossValidation(20, 5, right)
    assert checked.best == best
    assert checked.estimate("personal") == pytest.approx(0.632 * personal + 0.368 * 20)
    assert checked.estimate("global") == everyone


@pytest.mark.parametrize(
    ("lost", "gained", "best"),
    [
        (0, 3, "global"),  # chance alone: 1/8
        (0, 4, "global"),  # 1/16
        (0, 5, "personal"),  # 1/32
        (1, 7, "personal"),  # 9/256
        (2, 7, "global"),  # 46/512
    ],
)
def test_labels_of_consecutive_beats_need_a_gain_beyond_chance(lost: int, gained: int, best: str) -> None:
    """Of 486 labels that the global model has nearly all right, three more are no reason to forget what comes later."""
    by_class = {"V": check_of(40, lost, gained)}
    right = {"groups": 0, "global": 10, "personal": 10 - lost + gained, "scratch": 9 - lost + gained}
    checked = CrossValidation(40, 5, right, by_class, by_time=True)
    assert checked.gains("personal") == (binomtest(lost, lost + gained, alternative="less").pvalue <= 0.05)
    assert (checked.best, checked.estimate("personal")) == (best, right["personal"])
    assert CrossValidation(40, 5, right, by_class).best == "personal"


def check_of(labels: int, lost: int, gained: int) -> ClassResult:
    """The global model has ten of the labels right; personal and scratch lose and gain some."""
    right = {"groups": 0, "global": 10, "personal": 10 - lost + gained, "scratch": 10 - lost + gained}
    both = {"groups": 0, "personal": lost, "scratch": lost}, {"groups": 0, "personal": gained, "scratch": gained}
    return ClassResult(labels, right, *both)


def test_a_class_is_lowered_where_chance_would_hardly_do_so() -> None:
    """scipy's exact binomial test of the labels that one of the two alone has right."""
    for lost, gained in itertools.product(range(8), repeat=2):
        expected = lost > gained and binomtest(gained, lost + gained, alternative="less").pvalue <= MAX_CHANCE
        by_class = {"V": check_of(20, lost, gained)}
        assert CrossValidation(20, 5, {}, by_class).lowered("personal") == (["V"] if expected else []), (lost, gained)
    two_lost = {"V": check_of(20, 2, 0)}  # chance alone: 1/4
    assert CrossValidation(20, 5, {}, two_lost, by_time=True).lowered("personal") == ["V"]


def test_a_refused_model_is_said_with_both_figures(made: LabelPersonalization) -> None:
    right = {"groups": 0, "personal": 12, "global": 12, "scratch": 10}
    checked = CrossValidation(20, 5, right, {"V": check_of(12, 6, 0)})
    refused = replace(made, checked=checked, exported=checked.best)
    lines = refused.sentences()
    assert any("12 labels V held back, the personal model had 4 right and the global model 10" in one for one in lines)
    assert "In the bundle: the global model, unchanged." in lines
    told = refused.to_dict()["held_back"]
    assert told["lowers"] == {"personal": ["V"], "scratch": ["V"]}
    assert told["by_class"]["V"] == {"labels": 12, "groups": 0, "global": 10, "personal": 4, "scratch": 4}


def test_the_interval_is_in_text_and_json(
    made: LabelPersonalization, grouped: GroupedBeats, label: dict[int, str]
) -> None:
    expected = expected_errors(grouped.groups, label)
    told = made.to_dict()["expected_wrong"]
    assert (told["low"], told["high"], told["level"]) == (expected.low, expected.high, 0.9)
    assert told["beats"] == round(expected.beats, 1)
    assert any(f"90% interval {expected.low} to {expected.high})" in one for one in made.sentences())


def test_a_model_that_lowers_a_class_is_not_exported_however_many_it_has_right() -> None:
    right = {"groups": 0, "personal": 18, "global": 12, "scratch": 15}
    assert CrossValidation(20, 5, right, {"V": check_of(12, 1, 0)}).best == "personal"  # one label is chance
    lowered = CrossValidation(20, 5, right, {"N": check_of(8, 0, 8), "V": check_of(12, 6, 0)})
    assert (lowered.best, lowered.lowered("personal")) == ("global", ["V"])


def rows_of(made: LabelPersonalization) -> list[dict[str, str]]:
    with made.files[1].open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_label_says_whom_it_is_from(
    made: LabelPersonalization, record: Path, grouped: GroupedBeats, label: dict[int, str]
) -> None:
    rows, at = rows_of(made), grouped.beats.r_samples.tolist()
    names, origin = spread(grouped.groups, label)
    model = [made.bundle.labels.symbol_of(one) for one in package.predict(made.bundle, record, patient="rec").names]
    assert [int(row["sample"]) for row in rows] == at
    for beat, row in enumerate(rows):
        assert float(row["time_s"]) == pytest.approx(at[beat] / 360, abs=6e-4)
        if str(names[beat]) == "?":
            assert (row["source"], row["symbol"], row["stands_for_sample"]) == ("model", model[beat], "")
        else:
            source = "clinician" if beat in label else "group"
            assert (row["source"], row["symbol"]) == (source, str(names[beat]))
            assert int(row["stands_for_sample"]) == at[int(origin[beat])]
        assert row["model"] == model[beat]
    assert {row["source"] for row in rows} == {"clinician", "group", "model"}
    assert sum(row["source"] == "clinician" for row in rows) == 11
    marks = wfdb.rdann(str(made.files[0].with_suffix("")), "own")
    beats = [row for row in rows if row["symbol"] != "|"]
    assert len(beats) < len(rows)
    assert marks.sample.tolist() == [int(row["sample"]) for row in beats]
    assert list(marks.symbol) == [row["symbol"] for row in beats]
    assert [note.strip("\0") for note in marks.aux_note] == [row["source"] for row in beats]
    assert [int(one) for one in marks.subtype] == [int(row["uncertain"]) for row in beats]
    told = made.to_dict()
    assert told["beats_by_source"] == dict(Counter(row["source"] for row in rows))
    assert told["beats_by_symbol"] == dict(Counter(row["symbol"] for row in rows))
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_what_is_doubted(made: LabelPersonalization) -> None:
    """A group's label that the model gives another class; none that a person gave."""
    symbols = made.bundle.labels.symbols
    for row in rows_of(made):
        if row["source"] == "group":
            otherwise = row["symbol"] in symbols and symbols[row["symbol"]] != symbols[row["model"]]
            assert row["uncertain"] == str(int(otherwise))
        if row["source"] == "clinician":
            assert row["uncertain"] == "0"


def test_the_bundle_answers_for_the_patient_and_says_what_it_learned_from(
    made: LabelPersonalization, record: Path, label: dict[int, str]
) -> None:
    entry = made.bundle.manifest["patients"]["rec"]
    assert (made.exported, entry["personal"]) == ("personal", "partway")
    assert entry["labels"] == dict(Counter(label.values()))
    assert entry["classes"] == ["N", "F"]
    assert entry["held_back"] == made.to_dict()["held_back"]
    found = package.predict(made.bundle, record, patient="rec")
    assert "beats of this very recording" in " ".join(one.text for one in found.warnings if one.code == "took-part")
    general = package.predict(made.bundle, record)
    assert not any("this very recording" in one.text for one in general.warnings)  # the global model has not seen it


def test_a_copy_of_the_recording_is_known_by_its_files(
    made: LabelPersonalization, record: Path, tmp_path: Path
) -> None:
    for suffix in (".dat", ".hea"):
        data = record.with_suffix(suffix).read_bytes()
        (tmp_path / f"else{suffix}").write_bytes(data.replace(b"rec", b"else") if suffix == ".hea" else data)
    found = package.predict(made.bundle, tmp_path / "else", patient="rec")
    assert any("this very recording" in one.text for one in found.warnings)
    other = write_record(tmp_path, "other", "N" * 60, seed=8)
    assert not any(
        "this very recording" in one.text for one in package.predict(made.bundle, other, patient="rec").warnings
    )


def test_the_same_seed_gives_the_same_bits(
    made: LabelPersonalization, record: Path, labels: Path, tmp_path: Path
) -> None:
    torch.set_num_threads(2)
    again = package.personalize_labels(str(record), str(tmp_path / "again"), labels=str(labels))
    assert snapshot(again.bundle.path) == snapshot(made.bundle.path)
    assert [file.read_bytes() for file in again.files] == [file.read_bytes() for file in made.files]
    for key, value in made.to_dict().items():
        assert key in ("bundle", "files") or again.to_dict()[key] == value
    opened = package.open_recording(record, every_lead=True)
    in_memory = package.personalize_labels(opened, tmp_path / "memory", labels=labels)
    assert snapshot(in_memory.bundle.path) == snapshot(made.bundle.path)


def stated(monkeypatch: pytest.MonkeyPatch, **right: int) -> None:
    counts = CrossValidation(20, 5, {"groups": 20, **right})
    monkeypatch.setattr(module, "cross_validate", lambda *a: counts)


@pytest.mark.parametrize("best", ["global", "scratch"])
def test_what_is_better_is_exported(
    record: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: str
) -> None:
    """Where the personal model had fewer labels right, the patient's graph is the better one's."""
    stated(monkeypatch, **{"personal": 10, "global": 10, "scratch": 10, best: 15})
    made = package.personalize_labels(record, tmp_path / "b", labels=labels)
    assert made.exported == best == made.bundle.manifest["patients"]["rec"]["personal"]
    own, everyone = (package.predict(made.bundle, record, patient=who) for who in ("rec", None))
    if best == "global":
        np.testing.assert_allclose(own.probability, everyone.probability, atol=1e-5)
        assert "recordings" not in made.bundle.manifest["patients"]["rec"]  # it learned from nothing
    else:
        assert made.bundle.manifest["patients"]["rec"]["chain"][1].endswith("kernel.onnx")
        assert (own.label != everyone.label).any()


def test_too_few_labels_are_not_believed(
    record: Path, grouped: GroupedBeats, label: dict[int, str], tmp_path: Path
) -> None:
    few = dict([(beat, symbol) for beat, symbol in label.items() if symbol in "NF"][:4])
    (tmp_path / "few.csv").write_bytes(table_of(grouped, few))
    made = package.personalize_labels(record, tmp_path / "b", labels=tmp_path / "few.csv")
    assert (made.exported, made.checked) == ("global", None)
    assert "fewer than 5 labels" in made.unchecked
    assert made.to_dict()["held_back"] is None
    assert made.labels.by_source() == {"clinician": 4, "group": 0, "model": grouped.grouped - 4}
    assert any("would be expected" in one and "if each took its group's" in one for one in made.sentences())


def test_one_class_alone_is_said(record: Path, grouped: GroupedBeats, tmp_path: Path) -> None:
    truth = truth_of(record, grouped)
    normal = [beat for beat in range(grouped.grouped) if truth[beat] == "N"][::16]
    (tmp_path / "n.csv").write_bytes(table_of(grouped, dict.fromkeys(normal, "N")))
    made = package.personalize_labels(record, tmp_path / "b", labels=tmp_path / "n.csv")
    assert "only N was labelled" in made.unchecked
    assert made.checked is not None


def test_every_beats_own_label_stays_its_own(record: Path, grouped: GroupedBeats, tmp_path: Path) -> None:
    """A cardiologist's annotation marks every beat: nothing is spread."""
    made = package.personalize_labels(record, tmp_path / "b", labels=record.with_suffix(".atr"))
    assert made.labels.by_source() == {"clinician": grouped.grouped, "group": 0, "model": 0}
    assert made.labels.symbol.tolist() == truth_of(record, grouped)
    assert made.enough.enough
    assert made.to_dict()["label_next"] == []


def test_the_first_minutes_are_for_labels_and_the_rest_for_the_model(
    record: Path, grouped: GroupedBeats, tmp_path: Path
) -> None:
    made = package.personalize_labels(record, tmp_path / "b", labels=record.with_suffix(".atr"), minutes=1)
    early = int((grouped.beats.r_samples < 60 * 360).sum())
    assert made.labels.by_source() == {"clinician": early, "group": 0, "model": grouped.grouped - early}
    assert (made.labels.source[early:] == "model").all()
    assert (made.labels.symbol[early:] == made.labels.model[early:]).all()
    assert made.to_dict()["labels_too_late"] == grouped.grouped - early
    assert made.enough.beats == early


def test_a_bundle_of_twelve_classes_and_old_rr_features(fedavg_run: Path, record: Path, tmp_path: Path) -> None:
    old = Path(__file__).parent.parent / "data" / "version-0.1" / "bundle"
    for number, bundle in enumerate((exported(fedavg_run), old)):
        truth = record.with_suffix(".atr")
        made = package.personalize_labels(
            record, tmp_path / f"b{number}", labels=truth, bundle=bundle, patient="new", force=True
        )
        assert made.bundle.patients[-1] == "new"
        assert made.bundle.rr_version == open_bundle(bundle).rr_version
        found = package.predict(made.bundle, record, patient="new", force=True)
        symbols = [made.bundle.labels.symbol_of(name) for name in found.names]
        inside = sure_episodes(found.cut.fibrillation).inside(found.cut.r_samples / found.fs_hz)
        for symbol, of_model, fibrillation in zip(symbols, made.labels.model, inside, strict=True):
            assert symbol == of_model or (fibrillation and of_model == "A"), "no A in fibrillation (decision 0077)"


def test_symbols_without_a_class_stay_and_are_not_learned(
    record: Path, grouped: GroupedBeats, label: dict[int, str], tmp_path: Path
) -> None:
    from ecgfed.tasks.progress import EcgfedWarning

    strange = {beat: "B" if symbol == "F" else symbol for beat, symbol in label.items()}
    (tmp_path / "b.csv").write_bytes(table_of(grouped, strange))
    with pytest.warns(EcgfedWarning, match="has no class for . B"):
        made = package.personalize_labels(record, tmp_path / "b", labels=tmp_path / "b.csv")
    assert "B" in made.labels.by_symbol()
    assert "F" not in made.bundle.manifest["patients"]["rec"].get("classes", [])
    (tmp_path / "b.csv").write_bytes(table_of(grouped, dict.fromkeys(list(label)[:6], "B")))
    with pytest.raises(RecordError, match="B alone"):
        package.personalize_labels(record, tmp_path / "c", labels=tmp_path / "b.csv")


def test_what_cannot_be_is_said_and_writes_nothing(
    record: Path, labels: Path, made: LabelPersonalization, local_run: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    calls: list[tuple[dict[str, Any], str]] = [
        ({"personal": "method"}, "needs a run"),
        ({"personal": "partwey"}, "did you mean partway"),
        ({"seed": -1}, "seed"),
        ({"minutes": 0}, "minutes"),
        ({"minutes": float("nan")}, "minutes"),
        ({"patient": "../x"}, "patient"),
        ({"bundle": made.bundle}, "has a patient rec"),
        ({"bundle": exported(local_run)}, "ensemble"),
        ({"bundle": tmp_path / "none"}, "none"),
        ({"beats": tmp_path / "new" / "inside"}, "inside the bundle"),
        ({"leads": "V9"}, "V9"),
        ({"labels": tmp_path / "nowhere.csv"}, "nowhere.csv"),
        ({"sign": tmp_path / "nowhere.pem"}, "nowhere.pem"),
        ({"trusted": tmp_path / "nowhere.pem"}, "nowhere.pem"),
    ]
    for options, said in calls:
        with pytest.raises(EcgfedError, match=said) as problem:
            package.personalize_labels(record, tmp_path / "new", **{"labels": labels, **options})
        assert "\n" not in problem.value.line
        assert snapshot(tmp_path) == before, options
    with pytest.raises(OptionError, match=r"rec.own, rec.csv.*overwrite"):
        package.personalize_labels(record, tmp_path / "new", labels=labels, beats=made.files[0].parent)
    with pytest.raises(OptionError, match=r"not empty"):
        package.personalize_labels(record, made.bundle.path, labels=labels)
    assert snapshot(tmp_path) == before


def test_its_own_labels_are_no_labels_of_a_person(made: LabelPersonalization, record: Path, tmp_path: Path) -> None:
    for file in made.files:
        with pytest.raises(RecordError, match="labels propagated by 'ecgfed personalize'"):
            package.personalize_labels(record, tmp_path / "b", labels=file)


def test_one_more_time_into_its_own_bundle(
    made: LabelPersonalization, record: Path, labels: Path, tmp_path: Path
) -> None:
    first = package.personalize_labels(record, tmp_path / "b", labels=labels)
    second = package.personalize_labels(
        record, tmp_path / "b", labels=record.with_suffix(".atr"), bundle=tmp_path / "b", overwrite=True
    )
    assert second.bundle.patients == ("rec",)
    assert second.user_labels.label != first.user_labels.label


@pytest.mark.parametrize(
    ("name", "found"),
    [("shared", "was changed by somebody else since it was opened"), ("shared.zip", "does not hold|was changed")],
)
def test_a_patient_whom_another_process_added_meanwhile_is_not_lost(
    record: Path, labels: Path, tmp_path: Path, name: str, found: str
) -> None:
    shared, told = tmp_path / name, {"labels": labels, "overwrite": True}
    package.personalize_labels(record, shared, patient="one", beats=tmp_path / "one", **told)
    before = open_bundle(shared)
    package.personalize_labels(record, shared, bundle=before, patient="two", beats=tmp_path / "two", **told)
    with pytest.raises(BundleError, match=found):
        package.personalize_labels(record, shared, bundle=before, patient="three", beats=tmp_path / "three", **told)
    assert set(open_bundle(shared).patients) == {"one", "two"}
    assert not (tmp_path / "three").exists()


def test_nothing_is_published_where_the_labels_cannot_be_written(
    record: Path, labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ecgfed.base.errors import StorageError

    def full(contents: object) -> None:
        raise StorageError("beats", "no space left")

    monkeypatch.setattr(module, "write_together", full)
    with pytest.raises(StorageError):
        package.personalize_labels(record, tmp_path / "b", labels=labels)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("groups", "everyone", "trusted"), [(18, 18, True), (14, 18, True), (13, 18, False), (5, 0, True)]
)
def test_groups_that_find_clearly_fewer_labels_than_the_global_model_are_not_trusted(
    groups: int, everyone: int, trusted: bool
) -> None:
    """Of twenty labels the estimates are 16.2 and 15.6 where 14 and 13 are right, 1.8 and 2.4 below 18."""
    right = {"groups": groups, "personal": 9, "global": everyone, "scratch": 9}
    choice = module._ExportChoice("global", None, CrossValidation(20, 5, right), "")  # type: ignore[arg-type]
    assert choice.groups_trusted is trusted


def test_labels_of_one_class_alone_make_a_model_that_says_what_it_may_miss(
    record: Path, grouped: GroupedBeats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A calm quarter of an hour, say: the model then reads another recording, whose V it may all call N."""
    monkeypatch.setattr("ecgfed.tasks.label_warnings._MIN_OTHER", 10**9)  # as if the global model saw N alone
    same = dict.fromkeys(answers_of(grouped, ["N"] * grouped.grouped, 8), "N")
    (tmp_path / "same.csv").write_bytes(table_of(grouped, same))
    made = package.personalize_labels(record, tmp_path / "b", labels=tmp_path / "same.csv", patient="calm")
    assert made.exported == "personal"
    told = package.predict(made.bundle, record, patient="calm", force=True)
    (doubt,) = [one for one in told.warnings if one.code == "never-seen-classes" and one.severe]
    assert "learned from labels of N alone" in doubt.text
    assert "every beat of S, V, F, Q" in doubt.text
    assert "99%" not in " ".join(one.text for one in told.warnings)  # the global model's promise is not this one's


def test_labels_that_the_global_model_never_gives_and_beats_that_are_none_are_doubted(
    record: Path, grouped: GroupedBeats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecgfed.tasks.label_warnings._MIN_OTHER", 10**9)
    paced = dict.fromkeys(answers_of(grouped, ["/"] * grouped.grouped, 8), "/")
    (tmp_path / "paced.csv").write_bytes(table_of(grouped, paced))
    made = package.personalize_labels(record, tmp_path / "b", labels=tmp_path / "paced.csv")
    assert any("0 of 8 labels" in text for text in made.metadata["warnings"])
    (said,) = [one for one in made.sentences() if "expected to have a wrong label" in one]
    assert said.startswith("0 of ")
    assert said.endswith("see the warnings before you rely on that.")  # neither enough, nor would more of them help
    none = {beat: "|" if number else "N" for number, beat in enumerate(paced)}
    (tmp_path / "none.csv").write_bytes(table_of(grouped, none))
    gone = package.personalize_labels(record, tmp_path / "c", labels=tmp_path / "none.csv")
    assert any("would be no beats" in text for text in gone.metadata["warnings"])


@pytest.mark.parametrize(
    ("old", "new"),
    [("answered", "user_labels"), ("kept", "exported"), ("about", "metadata"), ("places", "next_labels")],
)
def test_attributes_of_0_2_still_work(old: str, new: str, made: LabelPersonalization) -> None:
    with pytest.warns(EcgfedDeprecation, match=f"{old} is deprecated .* use {new}"):
        value = made.places() if old == "places" else getattr(made, old)
    assert value == (made.next_labels() if old == "places" else getattr(made, new))


def test_names_of_0_2_still_work(made: LabelPersonalization, grouped: GroupedBeats) -> None:
    with pytest.warns(EcgfedDeprecation, match="use ecgfed.tasks.label_personalization.LabelPersonalization"):
        assert package.OwnModel is package.LabelPersonalization  # type: ignore[attr-defined]
    with pytest.warns(EcgfedDeprecation, match="use exported"):
        assert replace(made, kept="global").exported == "global"  # type: ignore[call-arg]
    with pytest.warns(EcgfedDeprecation, match="use predictions"):
        assert grouped.answers is grouped.predictions  # type: ignore[attr-defined]
    with pytest.warns(EcgfedDeprecation, match="use unmatched"):
        assert made.user_labels.apart == made.user_labels.unmatched  # type: ignore[attr-defined]
    with pytest.warns(EcgfedDeprecation, match="use folds"):
        assert CrossValidation(20, 5, {}).parts == 5  # type: ignore[attr-defined]


def test_choosing_predictions_uses_no_deprecated_name(grouped: GroupedBeats) -> None:
    beats = np.array([5, 2], dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EcgfedDeprecation)
        chosen = grouped.all_predictions.chosen(beats)
    for name in ("label", "low_confidence", "out_of_distribution"):  # of a grouping the others are empty
        assert getattr(chosen, name).tolist() == getattr(grouped.all_predictions, name)[beats].tolist(), name
