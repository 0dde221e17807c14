"""The task in ecgfed's terms, and its files: beats from a seed, ecgfed's own order of batches and initial weights."""

import json
from pathlib import Path

import numpy as np
import task as t
import torch
from numpy.typing import NDArray

from ecgfed.core.federation.data import TrainingData, local_rows
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.nets.layers import trainable
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.parts import count_parameters
from ecgfed.core.nets.resnet1d import ResNet1d


def reference_net() -> ResNet1d:
    """Return the reference net with BatchNorm, its number of parameters checked."""
    net = ResNet1d(NetSpec(t.CLASSES, architecture="reference", norm="batch"))
    found = count_parameters(trainable(net.initial(t.SEED)))
    if found != t.PARAMETERS:
        raise SystemExit(f"ecgfed's reference net has {found} parameters, not {t.PARAMETERS}: nothing to compare")
    return net


def one_epoch(rounds: int) -> TrainPlan:
    """Return the plan of every system here: one local epoch a round."""
    return TrainPlan(rounds=rounds, local_epochs=1, batch_size=t.BATCH, seed=t.SEED)


def training_data(
    windows: NDArray[np.float32], label: NDArray[np.int64], clients: int, beats_each: int
) -> TrainingData:
    """Return beats as ecgfed's engines take them."""
    rows = np.arange(clients * beats_each).reshape(clients, beats_each)
    clients_rows = dict(enumerate(rows))
    return TrainingData(np.arange(clients), clients_rows, windows, None, label, classes=t.CLASSES)


def draw_beats(clients: int, beats_each: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw windows and labels: a wave of the label's own frequency under noise, so that there is something to learn."""
    rng = np.random.default_rng([t.SEED, clients, beats_each])
    label = rng.integers(0, t.CLASSES, clients * beats_each)
    seconds = np.arange(t.SAMPLES) / t.SAMPLES
    phase = rng.uniform(0, 2 * np.pi, (len(label), 1))
    wave = np.sin(2 * np.pi * (2 + label[:, None]) * seconds + phase)
    windows = wave + rng.standard_normal((len(label), t.SAMPLES))
    return windows[:, None].astype(np.float32), label


def build_task(clients: int, beats_each: int, rounds: int) -> t.Task:
    """Make a task in memory; rounds include the warm-up."""
    windows, label = draw_beats(clients, beats_each)
    data, plan = training_data(windows, label, clients, beats_each), one_epoch(rounds)
    orders = np.array(
        [
            [
                np.concatenate([rows for (rows,) in local_rows(data, plan, client, number * beats_each, 1)])
                - client * beats_each
                for client in range(clients)
            ]
            for number in range(rounds)
        ]
    )
    initial = {name: value.numpy() for name, value in reference_net().initial(t.SEED).items()}
    return t.Task(windows, label, orders, initial)


def make_task(folder: Path, clients: int, beats_each: int, rounds: int) -> t.Task:
    """Write a task's files unless the same lie there already, and open them.

    Args:
        folder: where to.
        clients: number of clients.
        beats_each: beats of each.
        rounds: rounds to write the order of beats for, warm-up included.
    """
    description = {
        "clients": clients,
        "beats": beats_each,
        "samples": t.SAMPLES,
        "classes": t.CLASSES,
        "seed": t.SEED,
        "rounds": rounds,
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    if t.described(folder) != description:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / t.DESCRIPTION).unlink(missing_ok=True)
        task = build_task(clients, beats_each, rounds)
        np.save(folder / t.WINDOWS, task.windows)
        np.save(folder / t.LABELS, task.label)
        np.save(folder / t.ORDERS, task.orders)
        np.savez(folder / t.INITIAL, **task.initial)
        (folder / t.DESCRIPTION).write_text(json.dumps(description))
    return t.open_task(folder)
