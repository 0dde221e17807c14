"""What holds for every registered method: recorded numbers, and finite ones whatever a client holds."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ecgfed.evaluation.predict import chain_logits
from ecgfed.federation.data import TrainingData
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.threads import ThreadEngine
from ecgfed.federation.train import RoundOutcome, initial_state, train
from ecgfed.federation.trees import flatten
from ecgfed.methods.answers import Answer, Chain
from ecgfed.methods.base import Method
from ecgfed.methods.registry import methods
from ecgfed.methods.settings import make_settings
from ecgfed.nets.net import NetSpec
from ecgfed.nets.resnet1d import ResNet1d
from ecgfed.runs.callbacks import Callback

#: Losses and answers of a small run of each method; ``ECGFED_RECORD=1 pytest tests/methods/test_every_method.py``
#: writes them anew, and the diff is to be explained.
RECORDED = Path(__file__).with_name("recorded.json")
CLASSES, VALID, SAMPLES = 3, 4, 256


def federation(labels: list[list[int]]) -> TrainingData:
    """Clients of the given labels; each class is a bump of its own, each client has its own gain and noise."""
    rng = np.random.default_rng(11)
    time = np.arange(SAMPLES)
    rows, windows = {}, []
    valid_rows: dict[int, np.ndarray] = {}
    every: list[int] = []
    for client, own in enumerate(labels):
        start = len(every)
        all_labels = own + own[:VALID]
        for label in all_labels:
            bump = np.exp(-0.5 * ((time - 100 - 20 * label) / (4 + 3 * label)) ** 2)
            windows.append((1 + 0.2 * client) * bump + 0.1 * rng.standard_normal(SAMPLES))
        rows[client] = np.arange(start, start + len(own))
        valid_rows[client] = np.arange(start + len(own), start + len(all_labels))
        every += all_labels
    return TrainingData(
        clients=np.arange(len(labels)),
        rows=rows,
        examples=np.array(windows, np.float32)[:, None, :],
        rr=None,
        label=np.array(every),
        classes=CLASSES,
        valid_rows=valid_rows,
    )


def made(name: str, **spec: Any) -> Method:
    kind = methods()[name]
    return kind(ResNet1d(NetSpec(CLASSES, width=0.35, **spec)), make_settings(kind.settings_type, {}))


class Watch(Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_round(self, outcome: RoundOutcome) -> None:
        self.losses.append(outcome.record["loss_mean"])


def logits(method: Method, answer: Answer, data: TrainingData) -> torch.Tensor:
    """Mean logits of an answer's members on every beat."""
    inputs = data.batch(np.arange(len(data.label))).inputs
    chains = [answer] if isinstance(answer, Chain) else list(answer.members)
    return torch.stack([chain_logits(method.net, chain, inputs) for chain in chains]).mean(0)


@pytest.mark.parametrize("name", sorted(methods()))
def test_a_small_run_gives_the_recorded_numbers(name: str) -> None:
    data = federation([[0] * 14 + [1] * 6, [1] * 9 + [2] * 3, [0, 2] * 8])
    method, watch = made(name), Watch()
    steps = 1 if method.needs.one_step else 3
    plan = TrainPlan(rounds=5, local_epochs=None, local_steps=steps, batch_size=8, seed=4)
    with ThreadEngine(data, plan, 1) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan), [watch])
    kept = [state.kept[client] for client in range(3)]
    found = {
        "losses": watch.losses,
        "global": logits(method, method.global_answer(state.server, kept, "ensemble"), data).abs().mean().item(),
        "personal": [
            logits(method, method.personal_answer(state.server, own), data).abs().mean().item() for own in kept
        ],
    }
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("ECGFED_RECORD"):
        text = json.dumps(dict(sorted({**recorded, name: found}.items())), indent=1)
        RECORDED.write_text(text + "\n")
        pytest.skip("recorded anew")
    for key, value in recorded[name].items():
        assert found[key] == pytest.approx(value, rel=2e-3, abs=1e-5), key


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("name", sorted(methods()))
def test_one_class_one_batch_and_one_beat_give_finite_numbers(name: str, norm: str) -> None:
    data = federation([[1] * 9, [0, 1, 2], [2], [0, 2] * 6])
    valid_rows = {client: rows for client, rows in data.valid_rows.items() if client != 2}  # one has none of those
    data, method = replace(data, valid_rows=valid_rows), made(name, norm=norm)
    plan = TrainPlan(rounds=3, local_epochs=1, batch_size=8)
    if method.needs.one_step:
        plan = replace(plan, local_epochs=None, local_steps=1)
    with ThreadEngine(data, plan, 1) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan))
    trees = {"server": state.server, **{f"client {c}": tree for c, tree in state.kept.items()}}
    for path, leaf in flatten(trees).items():
        assert torch.isfinite(leaf).all(), path
    kept = [state.kept[client] for client in range(4)]
    for protocol in ("ensemble", "average"):
        assert torch.isfinite(logits(method, method.global_answer(state.server, kept, protocol), data)).all()
    for own in kept:
        assert torch.isfinite(logits(method, method.personal_answer(state.server, own), data)).all()
