"""Recordings with a label of their own and none of a beat: on disk, and left out where beats are counted or scored."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import synthetic_signal

import ecgfed
from ecgfed.base.errors import CohortError, OptionError
from ecgfed.core.federation.client_round import ClientResult, ClientWork
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Method
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.cohort.cohort import UNLABELLED, Cohort
from ecgfed.domain.cohort.databases import CINC2017, excluded_classes
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.domain.cohort.summary import exclusions, summarise
from ecgfed.network.config import SiteOptions
from ecgfed.network.errors import SiteError
from ecgfed.network.partition import partition_cohort
from ecgfed.network.roster import build_roster
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_folder import make_site, registration
from ecgfed.network.site_run import RoundRequest, SiteRun

FS_HZ = 300
STRIPS = {"A00001": "N", "A00002": "A", "A00003": "O", "A00004": "~", "A00005": "N", "A00006": "N"}


def write_strip(folder: Path, name: str, signal_mv: np.ndarray) -> None:
    """As the Challenge has them: a .mat file whose numbers begin after 24 bytes, and a header that says so."""
    folder.mkdir(exist_ok=True)
    samples = np.rint(1000 * signal_mv).astype("<i2")
    (folder / f"{name}.mat").write_bytes(bytes(24) + samples.tobytes())
    total = int(samples.astype(np.int64).sum()) & 0xFFFF
    checksum = total - 0x10000 if total >= 0x8000 else total
    line = f"{name}.mat 16+24 1000/mV 16 0 {samples[0]} {checksum} 0 ECG"
    (folder / f"{name}.hea").write_text(f"{name} 1 {FS_HZ} {len(samples)}\n{line}\n")


@pytest.fixture(scope="module")
def strips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four strips of 30 beats, one of 8 s, one without any signal."""
    folder = tmp_path_factory.mktemp("strips") / "cinc2017"
    for seed, name in enumerate(STRIPS):
        signal, _ = synthetic_signal("N" * (7 if name == "A00005" else 30), fs_hz=FS_HZ, seed=seed)
        write_strip(folder, name, np.zeros(20 * FS_HZ) if name == "A00006" else signal)
    (folder / "REFERENCE.csv").write_text("".join(f"{name},{label}\n" for name, label in STRIPS.items()))
    return folder


@pytest.fixture(scope="module")
def weak(strips: Path, tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return ecgfed.prepare_database("cinc2017", strips, tmp_path_factory.mktemp("weak") / "weak", workers=1)


@pytest.fixture(scope="module")
def joined(weak: Cohort, cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    """The synthetic patients of four, whose classes are mapped, and the strips."""
    return ecgfed.join_cohorts({"ward": cohort_path, "home": weak}, tmp_path_factory.mktemp("both") / "c")


def test_a_strip_is_a_client_whose_label_excludes_classes(weak: Cohort) -> None:
    assert {client.id: client.record_label for client in weak.clients} == {k: STRIPS[k] for k in list(STRIPS)[:4]}
    assert weak.classes == ("N", "S", "V", "F", "Q")
    of = {client.id: row.tolist() for client, row in zip(weak.clients, weak.excluded_classes, strict=True)}
    nothing = [False] * 5
    normal, fibrillation = [False, True, True, True, False], [False, True, False, False, False]
    assert of == {"A00001": normal, "A00002": fibrillation, "A00003": nothing, "A00004": nothing}
    assert set(weak.label.tolist()) == {UNLABELLED}
    counts = {client.id: len(weak.weak_rows(client)) for client in weak.clients}
    assert all(28 <= count <= 30 for count in counts.values()), counts
    twelve = BUILT_IN["mitbih12"]
    assert excluded_classes(CINC2017, "N", twelve) == ["V", "A", "F", "a", "E", "J"]
    assert excluded_classes(CINC2017, "A", twelve) == ["A", "a", "J"]


def test_strips_that_cannot_be_used_are_listed(weak: Cohort) -> None:
    used = {record["name"]: record.get("not_used") for record in weak.meta["records"]}
    assert used["A00005"] == "too_short"
    assert used["A00006"] in ("all_noise", "none_detected")
    assert [used[name] for name in list(STRIPS)[:4]] == [None] * 4
    counted = exclusions(weak)["recordings"]
    assert (counted.read, counted.used, counted.excluded["too_short"]) == (6, 4, 1)


def test_no_unlabelled_beat_is_counted_scored_or_trained_on(weak: Cohort, joined: Cohort, cohort_path: Path) -> None:
    summary = summarise(weak)
    assert (sum(summary["classes"].values()), sum(summary["splits"].values())) == (0, 0)
    assert summary["unlabelled"] == len(weak.label)
    assert summary["record_labels"] == {"N": 1, "A": 1, "O": 1, "~": 1}
    assert summary["one_class"] == summary["no_test"] == []
    with pytest.raises(CohortError, match="no beat has a label, only recordings do"):
        training_data(weak, rr=True)
    alone = ecgfed.open_cohort(cohort_path)
    for split in (TRAIN, VALID, TEST):
        np.testing.assert_array_equal(joined.pool(split), alone.pool(split))
        assert all(joined.class_counts(client, split).sum() == 0 for client in joined.weak_clients)
    assert len(training_data(joined, rr=True).clients) == len(joined.federation) == len(alone.clients)
    assert [client.id for client in joined.weak_clients] == list(STRIPS)[:4]
    assert joined.excluded_classes[-4:].tolist() == weak.excluded_classes.tolist()


def test_a_run_of_both_is_scored_on_labelled_beats(joined: Cohort, tmp_path: Path) -> None:
    notes = Notes()
    run = ecgfed.train(joined, tmp_path / "run", method="fedavg", rounds=1, local_steps=1, workers=1, progress=notes)
    pooled = "and 2 with a label of the recording alone, pooled by what it excludes into 2 weak clients"
    assert any(
        f"4 of 8 clients (2 with a label of the recording alone, which is not trained on) {pooled}" in n
        for n in notes.lines
    )
    state = run.state()
    assert sorted(state.client_states) == sorted(training_data(joined, rr=True, weak=True).rows)
    scores = ecgfed.evaluate(run, workers=1)
    assert scores.results[0]["beats"] == len(joined.pool(TEST))
    assert scores.results[0]["patients"] == 4
    weak_rows = np.concatenate([joined.weak_rows(client) for client in joined.weak_clients])
    assert not np.isin(weak_rows, joined.pool(TEST)).any()


def test_a_run_with_weak_clients_resumes_to_the_same_bits(joined: Cohort, tmp_path: Path) -> None:
    how: dict[str, Any] = {"method": "fedavg", "local_steps": 2, "workers": 1}
    whole = ecgfed.train(joined, tmp_path / "whole", rounds=3, **how)
    stops = iter([True])
    ecgfed.train(joined, tmp_path / "halves", rounds=3, should_stop=lambda: next(stops, True), **how)
    resumed = ecgfed.train(joined, tmp_path / "halves", resume=True, workers=1)
    one, other = (flatten(run.state().server) for run in (whole, resumed))
    assert all(torch.equal(value, other[path]) for path, value in one.items())
    without = ecgfed.train(joined, tmp_path / "without", rounds=3, settings={"weak_weight": 0}, **how)
    leaves = flatten(without.state().server)
    assert not all(torch.equal(value, leaves[path]) for path, value in one.items())


def test_a_group_of_strips_is_one_client_with_all_their_beats(joined: Cohort, cohort_path: Path) -> None:
    data, alone = training_data(joined, rr=True, weak=True), training_data(joined, rr=True)
    normal, fibrillation, *_ = joined.weak_clients
    assert data.clients.tolist() == [*alone.clients.tolist(), normal.index, fibrillation.index]
    for client in (normal, fibrillation):
        np.testing.assert_array_equal(data.rows[client.index], joined.usable(joined.weak_rows(client)))
        np.testing.assert_array_equal(data.excluded[client.index], joined.excluded_classes[client.index])
        assert data.class_counts(client.index).sum() == 0
    assert data.valid_rows.keys() == alone.valid_rows.keys()
    assert not alone.excluded


def test_sites_train_what_one_machine_trains(joined: Cohort, tmp_path: Path) -> None:
    """Without Flower: the server's roster and rounds, the sites' own runs between them; the same bits."""
    partition_cohort(joined, [tmp_path / "one", tmp_path / "two"])
    sites = [make_site(tmp_path / f"s{n}", tmp_path / n, SiteOptions(numbers="cohort")) for n in ("one", "two")]
    claimed = [(node, registration(site, True, "nothing", weak=True)) for node, site in enumerate(sites)]
    roster = build_roster({0: "one", 1: "two"}, claimed)
    how: dict[str, Any] = {"method": "grp-fed", "rounds": 2, "local_steps": 2, "workers": 1}
    run = ecgfed.train(joined, tmp_path / "alone", engine="threads", **how)
    settings, net = asdict(run.method.settings), run.net.spec.as_json()
    specs = [
        RunSpec("0" * 64, "grp-fed", settings, net, asdict(run.plan), joined.classes, first, roster.clients)
        for first in roster.first_numbers
    ]
    last = dict.fromkeys(range(len(sites)), 0)

    class Sites:
        def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
            results = {}
            for number, (site, spec) in enumerate(zip(sites, specs, strict=True)):
                mine = [one for one in work if roster.site_of(one.info.index) == number]
                clients, shared = tuple(one.info.index for one in mine), [one.shared for one in mine]
                request = RoundRequest(spec, mine[0].info.round, clients, last[number], shared)
                reply = SiteRun(site, spec).run(request)
                last[number] = request.round
                parts = zip(clients, reply.returned, reply.losses, reply.examples, strict=True)
                results |= {client: ClientResult(tree, {}, losses, beats) for client, tree, losses, beats in parts}
            return [results[one.info.index] for one in work]

    state = train(run.method, roster.data(), run.plan, Sites(), initial_state(run.method, run.plan))
    alone = flatten(run.state().server)
    assert all(torch.equal(value, alone[path]) for path, value in flatten(state.server).items())


def test_a_site_with_strips_alone_registers_their_groups(joined: Cohort, tmp_path: Path) -> None:
    partition_cohort(joined, [tmp_path / "one", tmp_path / "two"])
    site = make_site(tmp_path / "site", tmp_path / "two", SiteOptions(numbers="cohort"))
    claimed = registration(site, True, "nothing", weak=True)
    data = training_data(joined, rr=True, weak=True)
    assert (claimed["patients"], claimed["clients"]) == (4, [0, 1])
    assert claimed["train_examples"] == data.train_examples.tolist()[-2:]
    mine = site.training_data(site.cohort(), rr=True, leave_out="nothing", first=4, weak=True)
    np.testing.assert_array_equal(mine.excluded[4], data.excluded[4])
    with pytest.raises(SiteError, match="no beat has a label"):
        registration(site, True, "nothing")


class Notes(ecgfed.ProgressReporter):
    """Collects the notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_packed_divided_and_anonymised_it_stays_what_it_is(joined: Cohort, strips: Path, tmp_path: Path) -> None:
    from ecgfed.domain.cohort.pack import pack_cohort

    pack_cohort(joined.path, tmp_path / "packed.zip")
    unpacked = ecgfed.unpack_cohort(tmp_path / "packed.zip", tmp_path / "unpacked")
    np.testing.assert_array_equal(unpacked.excluded_classes, joined.excluded_classes)
    partition_cohort(joined, [tmp_path / "one", tmp_path / "two"])
    one, two = ecgfed.open_cohort(tmp_path / "one"), ecgfed.open_cohort(tmp_path / "two")
    assert (len(one.weak_clients), len(two.weak_clients), list(one.sites), list(two.sites)) == (
        0,
        4,
        ["ward"],
        ["home"],
    )
    anonymous = ecgfed.prepare_database("cinc2017", strips, tmp_path / "anonymous", anonymize=True, workers=1)
    assert Counter(client.record_label for client in anonymous.clients) == Counter(list(STRIPS.values())[:4])
    assert all(client.id.startswith("p0") for client in anonymous.clients)


def test_labels_and_options_that_do_not_fit_are_refused(strips: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="peaks: annotated; expected detected"):
        ecgfed.prepare_database("cinc2017", strips, tmp_path / "c", peaks="annotated")
    copy = tmp_path / "in"
    copy.mkdir()
    for file in strips.glob("A00001.*"):
        (copy / file.name).write_bytes(file.read_bytes())
    wrong = {"": "holds no table of labels", "A00002,N\n": "has no label of A00001", "A00001,X": "has the line"}
    for table, text in wrong.items():
        if table:
            (copy / "REFERENCE.csv").write_text(table)
        with pytest.raises(CohortError, match=text):
            ecgfed.prepare_database("cinc2017", copy, tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.cinc2017
def test_the_real_strips_have_their_labels(cinc2017: Path, tmp_path: Path) -> None:
    cohort = ecgfed.prepare_database("cinc2017", cinc2017, tmp_path / "c", workers=2)
    published = dict(line.split(",") for line in (cinc2017 / "REFERENCE.csv").read_text().split())
    assert {client.id: client.record_label for client in cohort.clients}.items() <= published.items()
    assert len(cohort.meta["records"]) == len(list(cinc2017.glob("*.mat")))
    left_out = {record["name"]: record["duration_s"] for record in cohort.meta["records"] if "not_used" in record}
    assert len(left_out) + len(cohort.clients) == len(cohort.meta["records"])
    lengths = {record["name"]: record["duration_s"] for record in cohort.meta["records"]}
    assert all(lengths[client.id] >= 10 for client in cohort.clients)
    assert sum(published[name] == "~" for name in left_out) > len(left_out) / 2  # noise is what is left out
