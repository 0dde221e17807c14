"""Checkpoints written aside of training, and what clients keep on disk."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from full_disk import gets_full
from safetensors.torch import load_file

from ecgfed.base.errors import RunError, StorageError
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.federation.trees import compact_storage, flatten, tree_bytes
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs import client_states
from ecgfed.core.runs.callbacks import SaveCheckpoint
from ecgfed.core.runs.checkpoint import CheckpointStore, Snapshot
from ecgfed.core.runs.client_states import ClientStates
from ecgfed.core.runs.tree_files import load_tree, serialised
from ecgfed.domain.cohort.cohort import open_cohort

NET = ResNet1d(NetSpec(12, width=0.35))


def number(value: float) -> dict[str, torch.Tensor]:
    """A tree of 400 bytes."""
    return {"w": torch.full((100,), float(value))}


def outcome(state: State, changed: list[int], **more: bool) -> RoundOutcome:
    return RoundOutcome(state, changed, {}, 0, **{"last": False, **more})


def state_of(round_number: int, clients: dict[int, float]) -> State:
    return State(
        round_number, number(-round_number), {c: number(v) for c, v in clients.items()}, dict.fromkeys(clients, 1)
    )


def save_round(run: Path, clients: dict[int, dict[str, torch.Tensor]], identity: str = "") -> None:
    """Save the only round of a run, in which these clients took part."""
    saver, state = SaveCheckpoint(CheckpointStore(run, identity)), state_of(0, {})
    saver.on_start(state)
    state.round, state.beats_used = 1, dict.fromkeys(clients, 1)
    for client, kept in clients.items():
        state.client_states[client] = kept
    saver.on_round(outcome(state, list(clients), last=True))
    saver.on_end(state)


def wait_until_written(run: Path) -> None:
    until = time.monotonic() + 60
    while not CheckpointStore(run).exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def names(run: Path) -> set[str]:
    return {path.name for path in (run / "checkpoint").iterdir()}


class Held(CheckpointStore):
    """A store whose writes wait until they are let go."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, snapshot: Snapshot) -> None:
        self.begun.release()
        assert self.go.acquire(timeout=10)
        super().write(snapshot)


def test_training_goes_on_while_a_checkpoint_is_written_and_one_write_is_in_flight(tmp_path: Path) -> None:
    store = Held(tmp_path)
    saver, state = SaveCheckpoint(store), state_of(0, {})
    saver.on_start(state)
    state.round, state.client_states[3], state.beats_used[3] = 1, number(31), 5
    saver.on_round(outcome(state, [3]))  # comes back although nothing is written yet
    assert store.begun.acquire(timeout=10)
    assert not store.exists()
    state.round, state.server, state.client_states[3] = 2, number(-2), number(32)
    second = threading.Thread(target=saver.on_round, args=(outcome(state, [3]),))
    second.start()
    second.join(0.2)
    assert second.is_alive()  # waits for the first
    store.go.release()
    second.join(10)
    assert not second.is_alive()
    # the first write saved round 1, not what the state became while it was written
    saved = CheckpointStore(tmp_path).load()
    assert (saved.round, saved.beats_used) == (1, {3: 5})
    assert saved.client_states[3]["w"][0] == 31
    store.go.release()
    saver.on_end(state)
    assert CheckpointStore(tmp_path).load().client_states[3]["w"][0] == 32
    assert names(tmp_path) == {"progress.json", "server.000002.safetensors", "client3.000002.safetensors"}


@pytest.mark.parametrize("last", [False, True])
def test_what_the_writer_could_not_write_surfaces_and_the_last_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    saver, state = SaveCheckpoint(CheckpointStore(tmp_path)), state_of(0, {})
    saver.on_start(state)
    state.round, state.client_states[0], state.beats_used[0] = 1, number(1), 1
    saver.on_round(outcome(state, [0]))
    wait_until_written(tmp_path)
    state.round, state.client_states[0] = 2, number(2)

    gets_full(monkeypatch)
    saver.on_round(outcome(state, [0], last=last))
    with pytest.raises(StorageError, match=r"client0.000002.*No space"):
        saver.on_end(state) if last else saver.on_round(outcome(state, [0]))
    saver.on_failure(state)
    monkeypatch.undo()
    saved = CheckpointStore(tmp_path).load()
    assert saved.round == 1
    assert saved.client_states[0]["w"][0] == 1


def test_a_client_is_read_when_asked_for_and_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_round(tmp_path, {client: number(client) for client in range(50)})
    read: list[str] = []
    original = client_states.open_regular
    monkeypatch.setattr(client_states, "open_regular", lambda path: (read.append(path.name), original(path))[1])
    kept = CheckpointStore(tmp_path).load().client_states
    assert isinstance(kept, ClientStates)
    assert read == ["server.000001.safetensors"]
    assert 7 in kept
    assert 50 not in kept
    assert list(kept) == list(range(50))
    assert read == ["server.000001.safetensors"]
    assert [int(kept[client]["w"][0]) for client in (7, 7, 8)] == [7, 7, 8]
    assert read[1:] == ["client7.000001.safetensors", "client8.000001.safetensors"]
    small = ClientStates(kept.folder, kept.files(), cache_bytes=1000)  # two clients of 400 bytes
    del read[:]
    for client in (1, 2, 1, 3, 1, 2):
        assert int(small[client]["w"][0]) == client
    assert [int(name[6]) for name in read] == [1, 2, 3, 2]  # 1 was asked for more lately than 2
    with pytest.raises(KeyError):
        kept[50]


def test_a_slice_of_a_batch_does_not_hold_the_batch_in_memory() -> None:
    stacked = torch.arange(4000.0).reshape(1000, 4)
    own = compact_storage({"a": {"w": stacked[3]}, "b": torch.ones(2)})
    assert own["a"]["w"].untyped_storage().nbytes() == 16
    assert own["a"]["w"].tolist() == [12, 13, 14, 15]
    assert tree_bytes(own) == 24


class StopAt(Callback):
    def __init__(self, round_number: int) -> None:
        self.round_number = round_number

    def on_round(self, outcome: RoundOutcome) -> None:
        if outcome.state.round == self.round_number:
            raise KeyboardInterrupt


@pytest.mark.parametrize("spill_bytes", [0, 64 << 20])
def test_states_written_ahead_of_a_checkpoint_do_not_disturb_it(
    cohort_path: Path, tmp_path: Path, spill_bytes: int
) -> None:
    """Every third round is saved, the run dies after the fifth: it goes on from the third, to the same end."""
    data, method = training_data(open_cohort(cohort_path), rr=False), Local(NET, SgdSettings(0.02))
    plan = TrainPlan(rounds=7, local_epochs=None, local_steps=1, batch_size=16, clients_per_round=2)

    def run(folder: Path, stop: int | None) -> State:
        folder.mkdir(exist_ok=True)
        store = CheckpointStore(folder)
        state = store.load() if store.exists() else initial_state(method, plan)
        callbacks: list[Callback] = [SaveCheckpoint(store, 3, spill_bytes), *([StopAt(stop)] if stop else [])]
        with ThreadEngine(data, plan, 1) as engine:
            return train(method, data, plan, engine, state, callbacks)

    whole = run(tmp_path / "whole", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SaveCheckpoint, "on_failure", SaveCheckpoint.on_end)  # a kill saves nothing on the way out
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "parts", 5)
    saved = json.loads((tmp_path / "parts" / "checkpoint" / "progress.json").read_text())
    assert saved["round"] == 3
    named = {entry["name"] for entry in saved["files"].values()} | {"progress.json"}
    ahead = names(tmp_path / "parts") - named
    assert named <= names(tmp_path / "parts")
    assert all(".000004." in name or ".000005." in name for name in ahead)
    assert bool(ahead) == (spill_bytes == 0)
    resumed = run(tmp_path / "parts", None)
    for state in (resumed, CheckpointStore(tmp_path / "parts").load()):
        one, two = (flatten({str(client): tree for client, tree in s.client_states.items()}) for s in (state, whole))
        assert one.keys() == two.keys()
        assert all(torch.equal(one[path], two[path]) for path in one)
    for name in names(tmp_path / "whole"):
        assert (tmp_path / "parts" / "checkpoint" / name).read_bytes() == (
            tmp_path / "whole" / "checkpoint" / name
        ).read_bytes()
    assert names(tmp_path / "whole") == names(tmp_path / "parts")


@pytest.mark.parametrize("spill_bytes", [0, 64 << 20])
def test_an_error_saves_the_last_finished_round(tmp_path: Path, spill_bytes: int) -> None:
    saver, state = SaveCheckpoint(CheckpointStore(tmp_path), 10, spill_bytes), state_of(0, {})
    saver.on_start(state)
    for round_number in (1, 2, 3):
        state.round, state.server = round_number, number(-round_number)
        state.client_states[0], state.beats_used[0] = number(round_number), 1
        saver.on_round(outcome(state, [0]))
    state.client_states[0] = number(99)  # the round that failed had begun to change it
    state.server = number(98)
    saver.on_failure(state)
    saved = CheckpointStore(tmp_path).load()
    assert (saved.round, saved.server["w"][0], saved.client_states[0]["w"][0]) == (3, -3, 3)


def test_checkpoints_take_their_share_of_the_time_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write takes 0.1 s: from its end on 5 s pass until the next one, whatever the rounds."""
    now = [100.0]
    monkeypatch.setattr("ecgfed.core.runs.callbacks.time.perf_counter", lambda: now[0])
    written: list[int] = []

    class Noted(CheckpointStore):
        def write(self, snapshot: Snapshot) -> None:
            written.append(snapshot.round)
            super().write(snapshot)
            now[0] += 0.1  # whether it computes or waits for the disk

    saver, state = SaveCheckpoint(Noted(tmp_path), None), state_of(0, {})
    saver.on_start(state)
    for round_number in range(1, 14):
        state.round = round_number
        saver.on_round(outcome(state, []))
        saver._writer.wait()  # type: ignore[union-attr]
        now[0] += 1.0
    assert written == [1, 6, 11]
    saver.on_failure(state)
    assert CheckpointStore(tmp_path).load().round == 13


def test_leftovers_of_a_kill_go_when_the_run_goes_on(tmp_path: Path) -> None:
    save_round(tmp_path, {})
    for name in ("client1.000002.safetensors", ".client2.000002.safetensors.partial"):
        (tmp_path / "checkpoint" / name).write_bytes(b"half")
    loaded = CheckpointStore(tmp_path).load()
    assert len(names(tmp_path)) == 4  # reading changes nothing: somebody may be training here
    CheckpointStore(tmp_path).attach(loaded)
    assert names(tmp_path) == {"progress.json", "server.000001.safetensors"}


def test_a_client_that_keeps_nothing_is_still_known(tmp_path: Path) -> None:
    save_round(tmp_path, {4: {}})
    loaded = CheckpointStore(tmp_path).load()
    assert list(loaded.client_states) == [4]
    assert loaded.client_states[4] == {}
    assert names(tmp_path) == {"progress.json", "server.000001.safetensors"}


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    save_round(tmp_path, {}, "mine")
    assert CheckpointStore(tmp_path, "mine").load().round == 1
    with pytest.raises(RunError, match="another run"):
        CheckpointStore(tmp_path, "yours").load()


def test_an_index_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Without lengths and without the run's identity."""
    save_round(tmp_path, {0: number(5)}, "mine")
    path = tmp_path / "checkpoint" / "progress.json"
    index: dict[str, Any] = json.loads(path.read_text())
    del index["run"]
    for entry in index["files"].values():
        del entry["bytes"]
    path.write_text(json.dumps(index))
    assert CheckpointStore(tmp_path, "mine").load().client_states[0]["w"][0] == 5


def test_what_is_written_is_a_safetensors_file(tmp_path: Path) -> None:
    tree = {
        "a": {"f": torch.randn(3, 2), "d": torch.tensor(1.5, dtype=torch.float64), "e": torch.empty(0, 4)},
        "b": torch.arange(5),
        "bf": torch.randn(3, 3, dtype=torch.bfloat16),
        "z": torch.tensor(1, dtype=torch.bfloat16),
        "c": torch.tensor([True, False]),
        "t": torch.randn(4, 6).t(),
        "u": torch.ones(3, dtype=torch.uint8),
        "h": torch.randn(2, 4, 3, 3).to(memory_format=torch.channels_last),
        "s": torch.randn(10, 4)[3],
    }
    (tmp_path / "tree.safetensors").write_bytes(serialised(tree))
    theirs, ours = load_file(tmp_path / "tree.safetensors"), flatten(tree)
    assert theirs.keys() == ours.keys()
    for path, value in ours.items():
        assert theirs[path].dtype == value.dtype
        assert theirs[path].shape == value.shape
        assert torch.equal(theirs[path], value)
    # in the tree's own order: a sum over parameters in another one has other bits
    assert list(flatten(load_tree(serialised(tree), tmp_path, RunError))) == list(ours)
    assert serialised({}) == b"\x08" + b"\x00" * 7 + b"{}      "
