"""What an epoch draws with ``most_per_class``, and what ``augment`` makes of a batch, against loops by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_engines import federation

import ecgfed
from ecgfed.base.errors import RunError
from ecgfed.core.federation.augment import augment
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.client_round import ClientWork, prepared
from ecgfed.core.federation.data import TrainingData, local_batches, local_rows, training_data
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Batch, ClientInfo
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import RR_COUNT, Inputs, NetSpec
from ecgfed.core.nets.resnet1d import CONTEXT_SCALE, ResNet1d
from ecgfed.core.personal.apply import PersonalModels
from ecgfed.core.personal.registry import personal_by_name
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.exports.device.bundle import open_bundle


def two_clients(most: int | None) -> TrainingData:
    """A patient with 9, 2 and 4 beats of three classes, and a weak client with 7 beats."""
    label = np.array([0, 0, 2, 0, 1, 0, 0, 2, 0, 0, 2, 1, 0, 2, 0] + 7 * [-1])
    windows = np.repeat(np.arange(22, dtype=np.float32), 256).reshape(22, 1, 256)
    rows = {3: np.arange(15), 5: np.arange(15, 22)}
    excluded = {5: np.array([False, True, False])}
    return TrainingData(np.array([3, 5]), rows, windows, None, label, 3, excluded=excluded, most_per_class=most)


def drawn_by_hand(data: TrainingData, seed: int, client: int, epoch: int, most: int) -> list[int]:
    """Go through the shuffled beats, and take each unless there are enough of its class."""
    rows, taken = [], Counter[int]()
    for position in np.random.default_rng([seed, 2, client, epoch]).permutation(len(data.rows[client])):
        row = int(data.rows[client][position])
        taken[int(data.label[row])] += 1
        if taken[int(data.label[row])] <= most:
            rows.append(row)
    return rows


@pytest.mark.parametrize("local", [{"local_epochs": 3}, {"local_epochs": None, "local_steps": 6}])
@pytest.mark.parametrize(("client", "length"), [(3, 8), (5, 3)])
def test_an_epoch_draws_some_of_each_class_anew(local: dict[str, int | None], client: int, length: int) -> None:
    data, plan = two_clients(3), TrainPlan(**local, batch_size=4, seed=9)  # type: ignore[arg-type]
    stream = [row for epoch in range(30) for row in drawn_by_hand(data, 9, client, epoch, 3)]
    assert len(stream) == 30 * length
    assert len(set(stream)) == len(data.rows[client])  # all of them in time
    beats_used = 0
    for _ in range(3):
        drawn = [row for (rows,) in local_rows(data, plan, client, beats_used, 1) for row in rows]
        assert drawn == stream[beats_used : beats_used + len(drawn)]
        assert len(drawn) == plan.examples_for(length)
        beats_used += len(drawn)


def test_counts_and_weights_are_those_of_an_epoch() -> None:
    data = two_clients(3)
    assert data.train_examples.tolist() == [8, 3]
    assert data.class_counts(3).tolist() == [3, 2, 3]
    assert data.class_counts(5).tolist() == [0, 0, 0]
    ((batch,), *_) = local_batches(data, TrainPlan(batch_size=4), 3, 0, 1)
    assert batch.counts is not None
    assert batch.counts.tolist() == [3, 2, 3]
    # an epoch of both is 11 beats of 22, and so is a round
    assert TrainPlan().rounds_for_passes(20, data.train_examples) == 20
    for plenty in (None, 9):
        everything = two_clients(plenty)
        assert everything.train_examples.tolist() == [15, 7]
        assert everything.class_counts(3).tolist() == [9, 2, 4]
        assert everything.epoch_rows(1, 3, 2).tolist() == two_clients(None).epoch_rows(1, 3, 2).tolist()


def test_the_loss_before_a_round_is_of_the_beats_of_its_epoch() -> None:
    data, kind = two_clients(3), methods()["q-ffl"]
    method = kind(ResNet1d(NetSpec(3, width=0.35)), make_settings(kind.settings_type, {}))
    assert method.requirements.pre_round_metrics
    model = method.net.initial(0)
    info = ClientInfo(3, 1, 8, data.class_counts(3), 1, seed=9)
    work = prepared(method, data, ClientWork(info, {"model": model}, {}, beats_used=17))  # in the third epoch
    batch = data.batch(np.array(drawn_by_hand(data, 9, 3, 2, 3)))
    expected = torch.nn.functional.cross_entropy(method.net.logits(model, batch.inputs), batch.label)
    assert float(work.info.pre_round_metrics["loss"]) == pytest.approx(float(expected), rel=1e-5)


def beats(version: int | None, count: int = 6) -> Batch:
    rng = np.random.default_rng(5)
    windows = torch.from_numpy(rng.standard_normal((count, 1, 256), np.float32))
    rr = None if version is None else torch.from_numpy(rng.uniform(0.4, 1.5, (count, RR_COUNT[version])))
    inputs = Inputs(windows, None if rr is None else rr.float())
    return Batch(inputs, torch.arange(count), torch.ones(3), excluded=torch.zeros(3, dtype=torch.bool))


@pytest.mark.parametrize("version", [None, 1, 2, 3])
def test_beats_are_varied_as_the_formula_says(version: int | None) -> None:
    batch = beats(version, 30)
    before = [value.clone() for value in (batch.inputs.examples, batch.inputs.rr) if value is not None]
    varied, rng, f = augment(batch, np.random.default_rng([1, 2])), np.random.default_rng([1, 2]), np.float32
    log_gain, inverted = 0.2 * rng.standard_normal(30, f), rng.random(30) < 0.1
    # of version 3 before, within and after the window
    steps, noise = rng.integers(-2, 3, 30), 0.05 * rng.standard_normal((30, 144 if version == 3 else 64), f)
    unit = {None: np.ones(0), 1: np.full(4, 0.3)}.get(version, 1 / np.array(CONTEXT_SCALE))
    jitter = 0.15 * unit * rng.standard_normal((30, len(unit)), f)
    assert inverted.any()
    assert not inverted.all()
    assert len(set(steps.tolist())) == 5
    for i in range(30):
        lead = batch.inputs.examples[i, 0].numpy().astype(float)  # in steps of 11 ms, one sample or four
        gain, first = np.exp(log_gain[i]) * (-1 if inverted[i] else 1), 0
        size_mv = lead.std()
        if batch.inputs.rr is not None and varied.inputs.rr is not None:
            rr = batch.inputs.rr[i].numpy().astype(float)
            expected = rr[: len(unit)] + jitter[i]
            if version == 3:
                size_mv, first = rr[16], 188
                before_mv, after_mv = size_mv * rr[17:64].repeat(4), size_mv * rr[64:97].repeat(4)
                lead = np.concatenate([before_mv, lead, after_mv])
        noisy = [gain * lead[k] + size_mv * noise[i, k // 4] for k in range(len(lead))]
        moved = np.array([noisy[min(max(k - 4 * steps[i], 0), len(lead) - 1)] for k in range(len(lead))])
        np.testing.assert_allclose(varied.inputs.examples[i, 0], moved[first : first + 256], rtol=1e-5, atol=1e-5)
        if version == 3:
            beside = [moved[4 * k] / size_mv for k in [*range(47), *range(111, 144)]]
            changed = gain * rr[97:] + noise[i]
            difference = [changed[min(max(k - steps[i], 0), 143)] for k in range(144)]
            expected = np.concatenate([expected, [size_mv], beside, difference])
        if varied.inputs.rr is not None:
            np.testing.assert_allclose(varied.inputs.rr[i], expected, rtol=1e-5, atol=1e-5)
    after = [value for value in (batch.inputs.examples, batch.inputs.rr) if value is not None]
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))  # often a view of the cohort's arrays
    assert varied.label is batch.label
    assert varied.counts is batch.counts
    assert varied.excluded is batch.excluded
    assert varied.inputs.examples.dtype == torch.float32


def test_images_are_shifted_and_mirrored() -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(1, 256, (40, 3, 32, 32), dtype=np.uint8))
    varied = augment(Batch(Inputs(images), torch.zeros(40, dtype=torch.int64)), np.random.default_rng(4))
    seen = set()
    for before, after in zip(images.numpy(), varied.inputs.examples.numpy(), strict=True):
        padded = np.pad(before, ((0, 0), (4, 4), (4, 4)))
        cuts = {
            (top, left, mirror): padded[:, top : top + 32, left : left + 32][..., :: -1 if mirror else 1]
            for top in range(9)
            for left in range(9)
            for mirror in (False, True)
        }
        seen |= {place for place, cut in cuts.items() if np.array_equal(cut, after)}
    assert len(seen) > 30
    assert {place[2] for place in seen} == {False, True}
    assert {place[0] for place in seen} == {place[1] for place in seen} == set(range(9))


def test_a_batch_is_varied_by_its_place_in_the_stream() -> None:
    data, steps = federation(True), TrainPlan(local_epochs=None, local_steps=4, batch_size=8, augment=True)
    whole = [group[0].inputs for group in local_batches(data, steps, 1, 0, 1)]
    single = [next(local_batches(data, steps, 1, 8 * t, 1))[0].inputs for t in range(4)]
    ((first, second),) = local_batches(data, replace(steps, local_steps=1), 1, 0, 2)
    for one, other in zip(whole, single, strict=True):
        assert torch.equal(one.examples, other.examples)
        assert one.rr is not None
        assert other.rr is not None
        assert torch.equal(one.rr, other.rr)
    assert torch.equal(first.inputs.examples, whole[0].examples)
    assert torch.equal(second.inputs.examples, whole[1].examples)
    ((other_seed,), *_) = local_batches(data, replace(steps, seed=1), 1, 0, 1)
    assert not torch.equal(other_seed.inputs.examples, whole[0].examples)


@pytest.mark.parametrize("name", ["fedavg", "per-fedavg", "grp-fed"])
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_engines_train_on_the_same_batches(name: str, norm: str) -> None:
    data = replace(federation(True), most_per_class=6)
    plan, kind = TrainPlan(rounds=2, local_epochs=2, batch_size=8, augment=True), methods()[name]
    method = kind(ResNet1d(NetSpec(3, norm=norm, width=0.35, rr=True)), make_settings(kind.settings_type, {}))
    if method.requirements.single_step:
        plan = replace(plan, local_epochs=None, local_steps=1)
    states = []
    for engine in (
        ThreadEngine(data, plan, 1),
        BatchedEngine(data, plan, "cpu", 2),
        BatchedEngine(data, plan, "cpu", 2, 3),
    ):
        with engine:
            states.append(train(method, data, plan, engine, initial_state(method, plan)))
    threads, stacked, parallel = (flatten({"server": state.server, "0": state.client_states[0]}) for state in states)
    assert states[0].beats_used == states[1].beats_used
    for path, value in threads.items():
        torch.testing.assert_close(stacked[path], value, atol=1e-4, rtol=1e-3)
        assert torch.equal(stacked[path], parallel[path])


def test_a_run_records_both_and_goes_on_with_them(cohort_path: Path, tmp_path: Path) -> None:
    options: Any = {"method": "fedavg", "local_steps": 2, "device": "cpu"}
    run = ecgfed.train(cohort_path, tmp_path / "run", passes=1, most_per_class=5, augment=True, **options)
    cohort, meta = open_cohort(cohort_path), run.meta["plan"]
    assert (meta["most_per_class"], meta["augment"]) == (5, True)
    counts = np.array([cohort.class_counts(client) for client in cohort.federation])
    assert run.last_record()["passes"] * np.minimum(counts, 5).sum() == sum(run.state().beats_used.values())
    for changed in ({"most_per_class": 6}, {"augment": False}):
        with pytest.raises(RunError, match="was begun with"):
            ecgfed.train(cohort_path, tmp_path / "run", resume=True, rounds=run.plan.rounds + 1, **changed)  # type: ignore[arg-type]
    # the prior of the trained model, which that of a patient replaces
    models = PersonalModels(run, run.state(), personal_by_name("prior"), lambda: training_data(cohort, rr=True))
    expected = np.minimum(counts, 5).sum(0)
    np.testing.assert_allclose(models._everyone, expected / expected.sum(), rtol=1e-6)
    ecgfed.export(run, tmp_path / "bundle", global_only=True)
    trained_on = open_bundle(tmp_path / "bundle").trained_on
    assert list((trained_on.epoch_counts or {}).values()) == expected.tolist()
    assert list((trained_on.class_counts or {}).values()) == counts.sum(0).tolist()
    plain = ecgfed.train(cohort_path, tmp_path / "plain", rounds=1, **options)
    assert not {"most_per_class", "augment"} & plain.meta["plan"].keys()  # as runs and sites of 0.2 have it
    assert open_run(plain.path).plan.most_per_class is None
