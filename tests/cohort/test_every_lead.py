"""Training examples of every lead of a recording, against cohorts of each lead alone and the records' annotations."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import Said, synthetic_signal
from numpy.typing import NDArray
from record_files import write_leads
from support import resealed

import ecgfed as front
from ecgfed.base.errors import CohortError
from ecgfed.core.federation.data import excluded_beats, training_data
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.layout import ARRAYS
from ecgfed.domain.cohort.other_leads import in_training
from ecgfed.domain.cohort.pack import pack_cohort
from ecgfed.domain.cohort.sources import PrepareOptions, Source
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.domain.cohort.summary import class_rows, exclusions, other_leads_line, summarise
from ecgfed.exports.bundles.training_metadata import training_metadata
from ecgfed.network.config import SiteOptions
from ecgfed.network.partition import partition_cohort
from ecgfed.network.site_folder import make_site, registration

SYMBOLS = "NNNVNNANNN" * 6
WAYS = [("random", "annotated", 3), ("chronological", "annotated", 2), ("random", "detected", 1)]
Prepare = Callable[..., Cohort]


def write(folder: Path, name: str, leads: dict[str, NDArray[np.float64]], r: NDArray[np.int64]) -> None:
    write_leads(folder, name, leads)
    wfdb.wrann(name, "atr", r, list(SYMBOLS), write_dir=str(folder))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records with MLII and V5, but for d: in b MLII is off for 9 s, in c V5 is; in e most of V5 is flat."""
    folder = tmp_path_factory.mktemp("two-leads") / "in"
    for seed, name in enumerate("abcde"):
        signal, r = synthetic_signal(SYMBOLS, seed=seed)
        other = -0.7 * signal + 0.03 * np.random.default_rng(100 + seed).standard_normal(len(signal))
        leads = {"MLII": signal, "V5": other}
        if name in "bc":
            leads["MLII" if name == "b" else "V5"][10 * 360 : 19 * 360] = 0.0
        if name == "d":
            del leads["V5"]
        if name == "e":
            other[5 * 360 : -10 * 360] = 0.0
            other[20 * 360 : 21 * 360] = signal[20 * 360 : 21 * 360]
        write(folder, name, leads, r)
    rows = "".join(
        f"{record},{patient}\n" for record, patient in zip("abcde", ("p1", "p1", "p2", "p3", "p4"), strict=True)
    )
    (folder.parent / "patients.csv").write_text("record,patient\n" + rows)
    return folder


@pytest.fixture(scope="module")
def prepare(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    made: dict[str, Cohort] = {}

    def cohort_of(lead: str, train_leads: str, split: str, peaks: str, rr_version: int, **options: Any) -> Cohort:
        key = json.dumps([lead, train_leads, split, peaks, rr_version, options])
        if key not in made:
            options = {"leads": (lead,), "split": split, "peaks": peaks, "rr_version": rr_version, **options}
            options |= {"patients": records.parent / "patients.csv", "skip_unusable": True, "workers": 1}
            out = tmp_path_factory.mktemp("cohorts") / "c"
            made[key] = front.prepare_folder(records, out, train_leads=train_leads, **options)
        return made[key]

    return cohort_of


def names_of(cohort: Cohort) -> NDArray[np.str_]:
    return np.array([record["name"] for record in cohort.meta["records"]])[cohort.record]


def marks_of(cohort: Cohort, records: Path) -> NDArray[np.int64]:
    """The annotated beat next to each row."""
    marks = {name: wfdb.rdann(str(records / name), "atr").sample for name in "abcde"}
    nearest = [
        int(marks[name][np.abs(marks[name] - at).argmin()])
        for name, at in zip(names_of(cohort), cohort.sample, strict=True)
    ]
    return np.array(nearest)


@pytest.mark.parametrize("way", WAYS)
def test_examples_are_those_of_the_lead_alone_and_no_scored_beat_is_among_them(
    prepare: Prepare, records: Path, way: tuple[str, str, int]
) -> None:
    first, alone, both = prepare("MLII", "first", *way), prepare("V5", "first", *way), prepare("MLII", "all", *way)
    other = both.other_lead
    for name in (name for name in ARRAYS if name != "record"):
        assert both.arrays[name][~other].tobytes() == first.arrays[name][:].tobytes()
    np.testing.assert_array_equal(names_of(both)[~other], names_of(first))
    assert (both.split[other] == TRAIN).all()

    row_of = {
        (name, at): row for row, (name, at) in enumerate(zip(names_of(alone), alone.sample.tolist(), strict=True))
    }
    rows = [row_of[name, at] for name, at in zip(names_of(both)[other], both.sample[other].tolist(), strict=True)]
    for name in ("beats", "rr", "label", "flags"):
        assert both.arrays[name][other].tobytes() == alone.arrays[name][rows].tobytes()

    marks, names = marks_of(both, records), names_of(both)
    split_of = {
        (name, at): part
        for name, at, part in zip(names[~other], marks[~other].tolist(), both.split[~other], strict=True)
    }
    trained = set(zip(names[other], marks[other].tolist(), strict=True))
    assert not any(split_of.get(beat, TRAIN) != TRAIN for beat in trained)
    without = sorted(beat for beat in trained if beat not in split_of)
    for name, at in without:  # MLII does not show it: it lies between training beats
        times = sorted(mark for record, mark in split_of if record == name)
        around = [mark for mark in times if mark < at][-1:] + [mark for mark in times if mark > at][:1]
        assert {split_of[name, mark] for mark in around} == {TRAIN}
    in_v5 = set(zip(names_of(alone), marks_of(alone, records).tolist(), strict=True))
    assert trained == {beat for beat in in_v5 if beat[0] in "abc" and split_of.get(beat) == TRAIN} | set(without)
    if way[0] == "chronological":  # the 9 s without MLII are in the part for validation
        assert not without


def test_a_count_of_beats_counts_no_example_of_another_lead(prepare: Prepare, tmp_path: Path) -> None:
    first, both = prepare("MLII", "first", *WAYS[0]), prepare("MLII", "all", *WAYS[0])
    added = int(both.other_lead.sum())
    plain, summary = summarise(first), summarise(both)
    assert summary.pop("other_leads") == {"examples": added, "leads": {"V5": added}}  # type: ignore[misc]
    assert plain.pop("other_leads") == {"examples": 0, "leads": {}}  # type: ignore[misc]
    assert summary == plain
    assert (
        other_leads_line(summarise(both)["other_leads"]) == f"{added} training examples of 1 other lead: V5 ({added})"
    )
    assert class_rows(both) == class_rows(first)
    assert repr(both).split(":")[1] == repr(first).split(":")[1]
    assert "train_leads" not in first.meta
    assert both.meta["train_leads"] == "all"
    for key in ("class_counts", "clients", "leads", "holdout"):
        assert both.meta[key] == first.meta[key]
    for part in (TRAIN, VALID, TEST):
        np.testing.assert_array_equal(names_of(both)[both.pool(part)], names_of(first)[first.pool(part)])

    data = training_data(both, rr=True)
    assert data.train_examples.sum() == len(first.pool(TRAIN)) + added
    assert set(np.concatenate([*data.rows.values()])) == set(both.training_pool().tolist())
    assert data.times is not None
    assert set(data.times.seconds(np.flatnonzero(both.other_lead))) == {f"{name} in lead V5" for name in "abc"}
    assert excluded_beats(both, "nothing").read == len(first.pool(TRAIN)) + added
    drawn = training_data(both, rr=True, most_per_class=9)
    epoch = sum(drawn.class_counts(int(client)) for client in drawn.clients)
    assert [*training_metadata(both, "nothing", 9)["epoch_counts"].values()] == epoch.tolist()  # type: ignore[union-attr]
    stated, alone = training_metadata(both, "nothing"), training_metadata(first, "nothing")
    assert stated.pop("other_leads") == {"V5": added}
    assert stated == alone

    counted = exclusions(both)
    others = counted.pop("other_leads")
    assert counted == exclusions(first)
    assert others.used == added
    assert others.excluded["poor_lead"] > 10  # the flat ones are without signal
    assert others.read == 4 * len(SYMBOLS)  # d has no V5


def test_the_lead_travels_with_the_examples(prepare: Prepare, tmp_path: Path) -> None:
    both, added = prepare("MLII", "all", *WAYS[0]), prepare("MLII", "all", *WAYS[0]).other_lead
    pack_cohort(both.path, tmp_path / "c.zip")
    unpacked = front.unpack_cohort(tmp_path / "c.zip", tmp_path / "unpacked")
    np.testing.assert_array_equal(unpacked.other_lead, added)
    assert summarise(unpacked) == summarise(both)

    partition_cohort(both, [tmp_path / "one", tmp_path / "two"])
    parts = [open_cohort(tmp_path / name) for name in ("one", "two")]
    np.testing.assert_array_equal(np.concatenate([part.other_lead for part in parts]), added)
    counts = [part.meta["class_counts"] for part in parts]
    assert {name: counts[0][name] + counts[1][name] for name in both.classes} == both.meta["class_counts"]
    site = make_site(tmp_path / "site", tmp_path / "one", SiteOptions(numbers="cohort"))
    examples = registration(site, True, "nothing")["train_examples"]
    assert examples == [int(((parts[0].client == n) & (parts[0].split == TRAIN)).sum()) for n in range(2)]

    joined = front.join_cohorts({"one": parts[0], "two": parts[1]}, tmp_path / "joined")
    np.testing.assert_array_equal(joined.other_lead, added)
    assert joined.meta["class_counts"] == both.meta["class_counts"]
    assert summarise(joined)["other_leads"] == summarise(both)["other_leads"]
    beats = [site["examples"] for site in summarise(joined)["sites"].values()]
    assert beats == [int((~part.other_lead).sum()) for part in parts]


def test_held_out_patients_give_no_examples(prepare: Prepare) -> None:
    cohort = prepare("MLII", "all", *WAYS[0], holdout=("p1",))
    assert {cohort.clients[number].id for number in cohort.client[cohort.other_lead]} == {"p2"}


def test_real_records(mitdb: Path, tmp_path: Path) -> None:
    """100 has MLII and V5, 114 V5 and MLII: both are trained on in V5, and scored in MLII."""
    for file in (file for name in ("100", "114") for file in mitdb.glob(f"{name}.*")):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / file.name).symlink_to(file)
    how: dict[str, Any] = {"classes": "aami5", "rr_version": 3, "workers": 1}
    both = front.prepare_mitbih(tmp_path / "in", tmp_path / "both", train_leads="all", **how)
    alone = front.prepare_mitbih(tmp_path / "in", tmp_path / "v5", leads=("V5",), **how)
    rows = np.flatnonzero(both.split[~both.other_lead] == TRAIN)  # every beat shows in both leads
    assert {entry["lead"] for entry in both.meta["records"] if "first_lead" in entry} == {"V5"}
    for name in ("beats", "rr", "label", "sample"):
        assert both.arrays[name][both.other_lead].tobytes() == alone.arrays[name][rows].tobytes()


def test_names_of_leads_that_are_text_leave_an_anonymous_cohort(tmp_path: Path) -> None:
    signal, r = synthetic_signal(SYMBOLS)
    write(tmp_path / "in", "r", {"Anna Muster": signal, "Anna again": -signal}, r)
    out = tmp_path / "c"
    cohort = front.prepare_folder(tmp_path / "in", out, leads="#1", train_leads="all", anonymize=True, workers=1)
    assert [entry["lead"] for entry in cohort.meta["records"]] == ["lead 1", "lead 2"]
    assert cohort.meta["anonymised"]["removed"]["names of leads"] == 1
    assert "Anna" not in (out / "cohort.json").read_text()


def test_which_beats_may_be_trained_on() -> None:
    first, split = np.array([10, 20, 30, 40, 50, 60]), np.array([0, 0, 2, 0, 1, 0])
    mark = np.array([5, 10, 15, 20, 25, 30, 40, 45, 60, 70])
    expected = [True, True, True, True, False, False, True, False, True, True]
    assert in_training(mark, first, split).tolist() == expected
    order = np.array([3, 0, 5, 2, 4, 1])
    assert in_training(mark, first[order], split[order]).tolist() == expected
    assert not in_training(mark, first[:0], split[:0]).any()


def test_strips_without_labelled_beats(tmp_path: Path) -> None:
    """What is true of a recording's beats is true of them in every lead."""
    signal, _ = synthetic_signal("N" * 30)
    path = write_leads(tmp_path, "s", {"I": signal, "II": 0.8 * signal, "resp": signal})
    ordinary = write_leads(tmp_path, "n", {"I": signal})
    sources = [Source(p.name, p.name, (p,), record_label="N", excluded_classes=("V",)) for p in (path, ordinary)]
    options = PrepareOptions(BeatOptions(), unlabelled=True, train_leads="all")
    build_cohort(sources, tmp_path / "c", options, kind="folder", workers=1)
    cohort = open_cohort(tmp_path / "c")
    strip = cohort.client_by_id("s")
    assert len(cohort.weak_rows(strip)) == 2 * len(cohort.weak_rows(cohort.client_by_id("n"))) > 50
    assert summarise(cohort)["unlabelled"] == len(cohort.label) - cohort.other_lead.sum()
    assert summarise(cohort)["other_leads"]["leads"] == {"II": int(cohort.other_lead.sum())}


def test_a_cohort_that_scores_another_lead_is_refused(prepare: Prepare, tmp_path: Path) -> None:
    source = prepare("MLII", "all", *WAYS[0])
    folder = tmp_path / "c"
    shutil.copytree(source.path, folder)
    split = np.load(folder / "split.npy")
    split[np.flatnonzero(source.other_lead)[0]] = TEST
    np.save(folder / "split.npy", split)
    with pytest.raises(CohortError, match="another lead in valid or test"):
        open_cohort(resealed(folder))
    document = json.loads((folder / "cohort.json").read_text())
    document["records"][-1]["first_lead"] = 5
    (folder / "cohort.json").write_text(json.dumps(document))
    with pytest.raises(CohortError, match="lead"):
        open_cohort(folder)


def test_the_command(records: Path, tmp_path: Path, ecgfed: Callable[..., Said]) -> None:
    one = tmp_path / "one"
    one.mkdir()
    for file in records.glob("d.*"):
        shutil.copy(file, one)
    said = ecgfed("prepare", "folder", one, "--out", tmp_path / "d", "--train-leads", "all", "--workers", 1)
    assert said.code == 0
    assert "--train-leads all changes nothing" in said.err
    refused = ecgfed("prepare", "folder", one, "--out", tmp_path / "e", "--train-leads", "both")
    assert refused.code == 2
    assert "--train-leads" in refused.err
    assert not (tmp_path / "e").exists()
