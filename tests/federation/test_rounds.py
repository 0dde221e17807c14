"""Batches, participants, and the bits that must not depend on workers or interruptions."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ecgfed.base.errors import OptionError, RunError, StorageError
from ecgfed.core.federation.client_round import surveyed_rows
from ecgfed.core.federation.data import TrainingData, local_batches, training_data
from ecgfed.core.federation.plan import TrainPlan, participants
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.server_sgd import PlainMeanSettings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.callbacks import SaveCheckpoint, WriteHistory
from ecgfed.core.runs.checkpoint import CheckpointStore
from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.domain.cohort.cohort import open_cohort


def numbered(count: int) -> TrainingData:
    """One client whose i-th window holds i."""
    windows = np.repeat(np.arange(count, dtype=np.float32), 256).reshape(count, 1, 256)
    return TrainingData(np.array([0]), {0: np.arange(count)}, windows, None, np.zeros(count, int), 2)


def seen_in(data: TrainingData, plan: TrainPlan, seen: int) -> list[list[int]]:
    return [batch.inputs.examples[:, 0, 0].int().tolist() for (batch,) in local_batches(data, plan, 0, seen, 1)]


def flat(lists: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(lists))


def test_epochs_show_every_beat_once_and_keep_the_short_batch() -> None:
    data, plan = numbered(10), TrainPlan(local_epochs=2, batch_size=4)
    batches = seen_in(data, plan, 0)
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2]
    first, second = flat(batches[:3]), flat(batches[3:])
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_steps_are_full_batches_that_go_on_where_the_last_round_ended() -> None:
    data, plan = numbered(10), TrainPlan(local_epochs=None, local_steps=5, batch_size=4)
    stream = flat(seen_in(data, plan, 0))
    assert sorted(stream[:10]) == sorted(stream[10:]) == list(range(10))
    one_by_one = TrainPlan(local_epochs=None, local_steps=1, batch_size=4)
    assert [seen_in(data, one_by_one, 4 * i)[0] for i in range(5)] == seen_in(data, plan, 0)


def test_a_client_with_fewer_beats_than_a_batch_takes_what_it_has() -> None:
    assert [len(b) for b in seen_in(numbered(3), TrainPlan(local_epochs=None, local_steps=2, batch_size=64), 0)] == [
        3,
        3,
    ]
    assert [len(b) for b in seen_in(numbered(1), TrainPlan(local_epochs=2, batch_size=64), 0)] == [1, 1]


def test_the_order_depends_on_seed_and_client() -> None:
    data = numbered(50)
    zero, one = (seen_in(data, TrainPlan(local_epochs=1, batch_size=50, seed=s), 0) for s in (0, 1))
    assert zero != one
    assert zero == seen_in(data, TrainPlan(local_epochs=1, batch_size=50, seed=0), 0)


def test_passes_become_rounds() -> None:
    beats = np.array([640, 1280])
    assert TrainPlan(local_epochs=2).rounds_for_passes(20, beats) == 10
    # 4 steps of 64 by two clients are 512 of 1,920 beats: 20 passes are 75 rounds
    assert TrainPlan(local_epochs=None, local_steps=4).rounds_for_passes(20, beats) == 75
    assert TrainPlan(local_epochs=1, clients_per_round=1).rounds_for_passes(20, beats) == 40


def test_participants() -> None:
    clients = np.array([3, 1, 7, 9])
    assert participants(TrainPlan(), clients, 1).tolist() == [1, 3, 7, 9]
    plan = TrainPlan(clients_per_round=2)
    drawn = [participants(plan, clients, n).tolist() for n in range(1, 201)]
    assert all(len(set(pair)) == 2 and pair == sorted(pair) for pair in drawn)
    counts = np.bincount(flat(drawn), minlength=10)[[1, 3, 7, 9]]
    assert (np.abs(counts - 100) < 35).all()  # 5 standard deviations of a binomial(200, 1/2)
    assert drawn == [participants(plan, clients, n).tolist() for n in range(1, 201)]
    with pytest.raises(OptionError, match="at most 4"):
        participants(TrainPlan(clients_per_round=5), clients, 1)


@pytest.mark.parametrize(
    "values", [{"rounds": 0}, {"local_steps": 2}, {"local_epochs": None}, {"batch_size": 0}, {"seed": -1}]
)
def test_plans_that_make_no_sense_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        TrainPlan(**values)  # type: ignore[arg-type]


NET = ResNet1d(NetSpec(12, width=0.35))


def trained(
    cohort: Path, method_type: type, workers: int, plan: TrainPlan, run: Path | None = None, stop: int | None = None
) -> State:
    method = method_type(NET, method_type.settings_type(0.02))
    data = training_data(open_cohort(cohort), rr=False, most_per_class=plan.most_per_class)
    callbacks: list[Callback] = []
    state = initial_state(method, plan)
    if run:
        store = CheckpointStore(run)
        state = store.load() if store.exists() else state
        callbacks = [WriteHistory(run), SaveCheckpoint(store)]

    class Stop(Callback):
        def on_round(self, outcome: RoundOutcome) -> None:
            if outcome.state.round == stop:
                raise KeyboardInterrupt

    with ThreadEngine(data, plan, workers) as engine:
        try:
            train(method, data, plan, engine, state, [*callbacks, Stop()])
        except KeyboardInterrupt:
            assert stop is not None
    return state


def same(a: State, b: State) -> bool:
    def leaves(state: State) -> dict[str, torch.Tensor]:
        return flatten({"server": state.server, "kept": {str(k): v for k, v in state.client_states.items()}})

    one, two = leaves(a), leaves(b)
    return a.beats_used == b.beats_used and one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


@pytest.mark.parametrize("method", [FedAvg, Local])
@pytest.mark.parametrize("clients", [None, 2])
@pytest.mark.parametrize("most", [None, 10])
def test_a_stopped_run_goes_on_to_the_same_end(
    cohort_path: Path, tmp_path: Path, method: type, clients: int | None, most: int | None
) -> None:
    plan = TrainPlan(rounds=5, local_epochs=None, local_steps=2, batch_size=16, clients_per_round=clients)
    plan = replace(plan, most_per_class=most, augment=most is not None)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    through = trained(cohort_path, method, 2, plan, whole)
    for stop in (1, 3):
        trained(cohort_path, method, 2, plan, parts, stop)
    resumed = trained(cohort_path, method, 2, plan, parts)
    assert same(through, resumed)
    assert (whole / HISTORY).read_bytes() == (parts / HISTORY).read_bytes()
    files = {path.name: path.read_bytes() for path in (whole / "checkpoint").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (parts / "checkpoint").iterdir()}


def test_a_run_saved_every_second_round_resumes_to_the_same_end(cohort_path: Path, tmp_path: Path) -> None:
    plan = TrainPlan(rounds=5, local_epochs=None, local_steps=1, batch_size=16)
    data = training_data(open_cohort(cohort_path), rr=False)
    method = Local(NET, SgdSettings(0.02))

    class Stop(Callback):
        def on_round(self, outcome: RoundOutcome) -> None:
            if outcome.state.round == 3:
                raise KeyboardInterrupt

    store = CheckpointStore(tmp_path)
    with ThreadEngine(data, plan, 1) as engine, pytest.raises(KeyboardInterrupt):
        train(method, data, plan, engine, initial_state(method, plan), [SaveCheckpoint(store, 2), Stop()])
    assert store.load().round == 3  # not its turn, but an error saves what is there
    resumed = trained(cohort_path, Local, 1, plan, tmp_path)
    assert same(resumed, trained(cohort_path, Local, 1, plan))


def test_a_kill_between_the_files_of_a_checkpoint_leaves_the_one_before(
    cohort_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TrainPlan(rounds=3, local_epochs=None, local_steps=1, batch_size=16)
    trained(cohort_path, Local, 1, plan, tmp_path, stop=1)
    before = CheckpointStore(tmp_path).load()

    def killed(*_: object) -> None:
        raise StorageError("progress.json", "killed here")

    monkeypatch.setattr("ecgfed.core.runs.checkpoint.CheckpointStore._publish", killed)
    with pytest.raises(StorageError, match="killed here"):
        trained(cohort_path, Local, 1, plan, tmp_path)
    monkeypatch.undo()
    assert len(read_lines(tmp_path / HISTORY)) == 3  # the history is ahead of the checkpoint
    assert same(before, CheckpointStore(tmp_path).load())
    resumed = trained(cohort_path, Local, 1, plan, tmp_path)
    assert same(resumed, trained(cohort_path, Local, 1, plan))
    assert [line["round"] for line in read_lines(tmp_path / HISTORY)] == [1, 2, 3]


def test_a_half_line_at_the_end_of_a_history_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / HISTORY
    line = {"round": 1, "loss_mean": 0.5, "loss_max": 1.0}
    path.write_text(json.dumps(line) + "\n" + '{"round": 2, "lo')
    assert read_lines(path) == [line]
    path.write_text('{"round": 1, "lo\n' + json.dumps({"round": 2}) + "\n")
    with pytest.raises(RunError, match="line 1"):
        read_lines(path)


def test_a_checkpoint_of_changed_bytes_is_refused(cohort_path: Path, tmp_path: Path) -> None:
    trained(cohort_path, FedAvg, 1, TrainPlan(rounds=1, local_epochs=1, batch_size=16), tmp_path)
    (server,) = (tmp_path / "checkpoint").glob("server.*")
    data = bytearray(server.read_bytes())
    data[-1] ^= 1
    server.write_bytes(bytes(data))
    with pytest.raises(RunError, match="SHA-256"):
        CheckpointStore(tmp_path).load()


def test_trees_survive_flattening() -> None:
    tree = {"a": {"b.c": torch.ones(2), "d": {"e": torch.zeros(())}}, "f": torch.ones(1)}
    flat = flatten(tree)
    assert sorted(flat) == ["a/b.c", "a/d/e", "f"]
    assert unflatten(flat) == tree


def test_the_first_loss_is_what_the_untrained_net_gives(cohort_path: Path, tmp_path: Path) -> None:
    """History by hand: with lr 0 the mean over steps is the mean cross-entropy of the initial net over the batches."""
    plan = TrainPlan(rounds=1, local_epochs=1, batch_size=16)
    data = training_data(open_cohort(cohort_path), rr=False)
    method = FedAvg(NET, PlainMeanSettings(0.0))
    with ThreadEngine(data, plan, 2) as engine:
        train(method, data, plan, engine, initial_state(method, plan), [WriteHistory(tmp_path)])
    (line,) = read_lines(tmp_path / HISTORY)
    initial = NET.initial(0)
    for client, found in zip(line["clients"], line["losses"]["loss"], strict=True):
        batches = [group[0] for group in local_batches(data, plan, client, 0, 1)]
        each = [torch.nn.functional.cross_entropy(NET.logits(initial, b.inputs), b.label).item() for b in batches]
        assert found == pytest.approx(np.mean(each), abs=1e-6)
    assert line["loss_mean"] == pytest.approx(np.mean(line["losses"]["loss"]))
    assert line["loss_max"] == max(line["losses"]["loss"])
    assert line["passes"] == pytest.approx(1.0)


@pytest.mark.parametrize("most", [1, 7, 64])
def test_a_survey_of_some_beats_is_spread_over_the_recording_and_moves_on(most: int) -> None:
    rows = np.arange(1000, 1300)
    assert np.array_equal(surveyed_rows(rows, 0, 5), rows)
    assert np.array_equal(surveyed_rows(rows, 300, 5), rows)
    seen: set[int] = set()
    for number in range(1, 200):
        some = surveyed_rows(rows, most, number)
        assert len(set(some.tolist())) == most
        assert np.isin(some, rows).all()
        gaps = np.diff(np.append(some, some[0] + 300))
        assert gaps.max() - gaps.min() <= 1  # as even as whole numbers allow
        seen |= set(some.tolist())
    assert len(seen) >= min(300, 199 * most) * 0.6
