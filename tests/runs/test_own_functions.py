"""Own callbacks, client sampler, augmentation, learning-rate schedule: same seed, same bits, in both engines."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import ecgfed
from ecgfed.base.errors import EcgfedError, OptionError, RunError
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.own_functions import RoundInfo
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.runs.run import Run

ROUNDS = 4
SHORT: dict[str, Any] = {
    "rounds": ROUNDS,
    "local_steps": 2,
    "batch_size": 8,
    "width": 0.34,
    "method": "fedavg",
    "eval_every": 2,
}
Floats = NDArray[Any]


def weights(run: Run) -> dict[str, torch.Tensor]:
    state = run.state()
    clients = {str(client): state.client_states[client] for client in sorted(state.client_states)}
    return flatten({"server": state.server, "clients": clients})


def assert_same(first: Run, second: Run, tolerance: float = 0.0) -> None:
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=tolerance, atol=tolerance, msg=name)


def differ(first: Run, second: Run) -> bool:
    ours, theirs = weights(first), weights(second)
    return any(not torch.equal(value, theirs[name]) for name, value in ours.items())


def worst_two(info: RoundInfo) -> list[int]:
    """Clients never seen, then those with the largest loss; a random one besides."""
    order = np.argsort(-np.nan_to_num(info.losses, nan=np.inf), kind="stable")
    rest = info.random.choice(info.clients[order[1:]])
    return [int(info.clients[order[0]]), int(rest)]


def noisy(examples: Floats, random: np.random.Generator) -> Floats:
    return (examples + 0.01 * random.standard_normal(examples.shape)).astype(examples.dtype)


def decayed(round_number: int, rounds: int) -> float:
    return float(0.5 ** (round_number - 1))


OWN: dict[str, dict[str, Any]] = {
    "sampler": {"sampler": worst_two},
    "augmentation": {"augmentation": noisy},
    "lr_schedule": {"lr_schedule": decayed},
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("engine", ["threads", "batched"])
def test_same_seed_same_bits_and_resumed_equals_uninterrupted(
    name: str, engine: str, cohort_path: Path, tmp_path: Path
) -> None:
    options = {**SHORT, **OWN[name], "engine": engine}
    whole = ecgfed.train(cohort_path, tmp_path / "whole", workers=1, **options)
    assert_same(whole, ecgfed.train(cohort_path, tmp_path / "again", workers=2, **options))
    part = ecgfed.train(cohort_path, tmp_path / "part", should_stop=lambda: True, **options)
    assert part.store.rounds() == 1
    with pytest.raises(RunError, match=f"was begun with {name}") as caught:
        ecgfed.train(cohort_path, tmp_path / "part", resume=True)
    assert caught.value.parameter == name
    resumed = ecgfed.train(cohort_path, tmp_path / "part", resume=True, **OWN[name])
    assert_same(whole, resumed)
    assert [line["clients"] for line in resumed.history()] == [line["clients"] for line in whole.history()]
    assert differ(whole, ecgfed.train(cohort_path, tmp_path / "without", **{**SHORT, "engine": engine}))


@pytest.mark.parametrize("name", OWN)
def test_the_engines_agree(name: str, cohort_path: Path, tmp_path: Path) -> None:
    runs = [
        ecgfed.train(cohort_path, tmp_path / engine, engine=engine, **SHORT, **OWN[name])
        for engine in ("threads", "batched")
    ]
    assert_same(*runs, tolerance=1e-5)
    if name == "sampler":
        assert [line["clients"] for line in runs[0].history()] == [line["clients"] for line in runs[1].history()]


def test_a_sampler_that_draws_as_we_do_gives_our_bits(cohort_path: Path, tmp_path: Path) -> None:
    def uniform(info: RoundInfo) -> NDArray[np.int64]:
        return info.random.choice(info.clients, size=info.clients_per_round, replace=False)

    options = {**SHORT, "clients_per_round": 2}
    ours = ecgfed.train(cohort_path, tmp_path / "ours", **options)
    assert_same(ours, ecgfed.train(cohort_path, tmp_path / "own", sampler=uniform, **options))


def test_what_a_sampler_knows(cohort_path: Path, tmp_path: Path) -> None:
    seen: list[RoundInfo] = []

    def two(info: RoundInfo) -> list[int]:
        seen.append(info)
        return [0, info.round % 3 + 1]

    run = ecgfed.train(cohort_path, tmp_path / "run", sampler=two, **SHORT)
    cohort = ecgfed.open_cohort(cohort_path)
    history = run.history()
    assert [line["clients"] for line in history] == [[0, 2], [0, 3], [0, 1], [0, 2]]
    assert seen[0].ids == ("p1", "p2", "p3", "p4")
    assert seen[0].train_examples.tolist() == [int(cohort.class_counts(c).sum()) for c in cohort.federation]
    assert np.isnan(seen[0].losses).all()
    assert (seen[0].rounds, seen[0].clients_per_round) == (ROUNDS, 4)
    first, second = history[0]["losses"]["loss"], history[1]["losses"]["loss"]
    np.testing.assert_array_equal(seen[2].losses, [second[0], np.nan, first[1], second[1]])


def by_hand(run: Run, change: Callable[[int], dict[str, Any]], negate: bool = False) -> State:
    """The same rounds, one call of the training loop each, with other settings in each."""
    data = training_data(run.cohort(), rr=run.net.spec.rr)
    if negate:
        data = replace(data, examples=-data.examples)
    state = initial_state(run.method, run.plan)
    with ThreadEngine(data, run.plan, 1) as engine:
        for number in range(1, ROUNDS + 1):
            method = type(run.method)(run.net, replace(run.method.settings, **change(number)))
            stop = lambda: True  # noqa: E731
            train(method, data, run.plan, engine, state, should_stop=stop)
    return state


def test_a_schedule_changes_the_clients_rate(cohort_path: Path, tmp_path: Path) -> None:
    run = ecgfed.train(cohort_path, tmp_path / "run", lr_schedule=decayed, engine="threads", **SHORT)
    lr = run.method.settings.lr
    state = by_hand(run, lambda number: {"lr": lr * 0.5 ** (number - 1)})
    for name, value in run.state().server["model"].items():
        assert torch.equal(value, state.server["model"][name]), name


def test_an_augmentation_is_what_is_trained_on(cohort_path: Path, tmp_path: Path) -> None:
    options = {**SHORT, "rr": False, "engine": "threads"}
    run = ecgfed.train(cohort_path, tmp_path / "run", augmentation=lambda x, random: -x, **options)
    state = by_hand(run, lambda number: {}, negate=True)
    for name, value in run.state().server["model"].items():
        assert torch.equal(value, state.server["model"][name]), name


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sampler": lambda info: []}, r"sampler: returned \[\] in round 1; expected some of"),
        ({"sampler": lambda info: [0, 0]}, "each once"),
        ({"sampler": lambda info: [9]}, "some of RoundInfo.clients"),
        ({"sampler": lambda info: [0.5]}, "some of RoundInfo.clients"),
        ({"sampler": 3}, "sampler: 3; expected a function"),
        ({"sampler": lambda info: [0], "dp_clip": 1.0}, "epsilon"),
        ({"augmentation": lambda x, random: x[:1]}, "augmentation: returned float32 of shape"),
        ({"augmentation": lambda x, random: x.astype(np.float64)}, "expected float32 of shape"),
        (
            {"augmentation": lambda x, random: x * np.float32(np.nan)},
            "augmentation: returned a value that is not finite",
        ),
        ({"lr_schedule": lambda number, rounds: -1}, "lr_schedule: returned -1 in round 1"),
        ({"lr_schedule": lambda number, rounds: 0.0}, "a number above 0"),
        ({"lr_schedule": lambda number, rounds: "fast"}, "a number above 0"),
        ({"callbacks": print}, "a list of functions"),
        ({"callbacks": [3]}, "a function, or an object of Callback"),
    ],
)
@pytest.mark.parametrize("engine", ["threads", "batched"])
def test_what_they_may_not_return(
    cohort_path: Path, tmp_path: Path, wrong: dict[str, Any], words: str, engine: str
) -> None:
    with pytest.raises(OptionError, match=words):
        ecgfed.train(cohort_path, tmp_path / "run", **{**SHORT, "engine": engine, **wrong})
    assert not (tmp_path / "run").exists()


def test_another_function_than_at_the_start_is_refused(cohort_path: Path, tmp_path: Path) -> None:
    ecgfed.train(cohort_path, tmp_path / "run", should_stop=lambda: True, **SHORT, **OWN["sampler"])
    with pytest.raises(RunError, match="was begun with sampler worst_two, not test_another"):
        ecgfed.train(cohort_path, tmp_path / "run", resume=True, sampler=lambda info: [0])
    with pytest.raises(RunError, match="was begun with no lr_schedule, not decayed"):
        ecgfed.train(cohort_path, tmp_path / "run", resume=True, **OWN["sampler"], **OWN["lr_schedule"])


def test_a_callback_receives_the_records(cohort_path: Path, tmp_path: Path) -> None:
    """And what it does to them is not in the history."""
    records: list[dict[str, Any]] = []
    calls: list[str] = []

    class Counted(Callback):
        def on_start(self, state: State) -> None:
            calls.append(f"start {state.round}")

        def on_end(self, state: State) -> None:
            calls.append(f"end {state.round}")

    def spoil(record: dict[str, Any]) -> None:
        record["losses"].clear()

    run = ecgfed.train(cohort_path, tmp_path / "run", callbacks=[records.append, spoil, Counted()], **SHORT)
    assert records == run.history() == [json.loads(json.dumps(record)) for record in records]
    assert [record["round"] for record in records] == [1, 2, 3, 4]
    assert [record["round"] for record in records if "valid_T_g" in record] == [2, 4]
    assert calls == ["start 0", "end 4"]
    assert_same(run, ecgfed.train(cohort_path, tmp_path / "without", **SHORT))


def test_a_callback_that_raises_ends_the_session_and_loses_no_round(cohort_path: Path, tmp_path: Path) -> None:
    class PrunedError(Exception):
        pass

    def stop(record: dict[str, Any]) -> None:
        if record["round"] == 2:
            raise PrunedError

    with pytest.raises(PrunedError):
        ecgfed.train(cohort_path, tmp_path / "run", callbacks=[stop], **SHORT)
    assert ecgfed.open_run(tmp_path / "run").store.rounds() == 2
    later: list[int] = []
    resumed = ecgfed.train(
        cohort_path, tmp_path / "run", resume=True, callbacks=[lambda record: later.append(record["round"])]
    )
    assert later == [3, 4]
    assert_same(resumed, ecgfed.train(cohort_path, tmp_path / "whole", **SHORT))


def test_a_method_of_all_clients_refuses_a_sampler_of_some(cohort_path: Path, tmp_path: Path) -> None:
    with pytest.raises(EcgfedError, match="all with this method"):
        ecgfed.train(
            cohort_path, tmp_path / "run", sampler=lambda info: [0], **{**SHORT, "method": "afl", "local_steps": 1}
        )


def test_a_method_without_clients_refuses_a_sampler(cohort_path: Path, tmp_path: Path) -> None:
    """centralised pools all clients: a sampler would be called with one, and change nothing."""
    with pytest.raises(OptionError) as refused:
        ecgfed.train(cohort_path, tmp_path / "run", sampler=worst_two, **{**SHORT, "method": "centralised"})
    assert (refused.value.code, refused.value.parameter) == ("conflict", "sampler")
    assert not (tmp_path / "run").exists()


def test_local_models_are_scored_without_them_and_a_note_says_so(cohort_path: Path, tmp_path: Path) -> None:
    notes: list[str] = []

    class Notes(ecgfed.ProgressReporter):
        def note(self, text: str) -> None:
            notes.append(text)

    own = {"sampler": worst_two, "augmentation": noisy}
    run = ecgfed.train(cohort_path, tmp_path / "run", **own, **SHORT)
    ecgfed.evaluate(run, split="valid", progress=Notes())
    assert [note for note in notes if "augmentation" in note and "sampler" not in note]
    notes.clear()
    ecgfed.evaluate(run, split="valid", local_models=False, progress=Notes())
    assert not [note for note in notes if "augmentation" in note]
