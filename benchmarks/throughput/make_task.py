"""Write a task's files: beats from a seed, ecgfed's own order of batches, ecgfed's own initial weights."""

import json
from pathlib import Path

import numpy as np
import task as t
import torch

from ecgfed.federation.data import _stream
from ecgfed.nets.layers import trainable
from ecgfed.nets.resnet1d import NetSpec, ResNet1d, count_parameters


def reference_net() -> ResNet1d:
    """Return the reference net with BatchNorm, its number of parameters checked."""
    net = ResNet1d(NetSpec(t.CLASSES, plan="reference", norm="batch"))
    found = count_parameters(trainable(net.initial(t.SEED)))
    if found != t.PARAMETERS:
        raise SystemExit(f"ecgfed's reference net has {found} parameters, not {t.PARAMETERS}: nothing to compare")
    return net


def beats(clients: int, beats_each: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw windows and labels: a wave of the label's own frequency under noise, so that there is something to learn."""
    rng = np.random.default_rng([t.SEED, clients, beats_each])
    label = rng.integers(0, t.CLASSES, clients * beats_each)
    seconds = np.arange(t.SAMPLES) / t.SAMPLES
    phase = rng.uniform(0, 2 * np.pi, (len(label), 1))
    wave = np.sin(2 * np.pi * (2 + label[:, None]) * seconds + phase)
    windows = wave + rng.standard_normal((len(label), t.SAMPLES))
    return windows[:, None].astype(np.float32), label


def make_task(folder: Path, clients: int, beats_each: int, rounds: int) -> t.Task:
    """Write the files unless the same lie there already, and open them.

    Args:
        folder: where to.
        clients: number of clients.
        beats_each: beats of each.
        rounds: rounds to write the order of beats for, warm-up included.
    """
    net = reference_net()
    description = {
        "clients": clients, "beats": beats_each, "samples": t.SAMPLES, "classes": t.CLASSES, "seed": t.SEED,
        "rounds": rounds, "torch": torch.__version__, "numpy": np.__version__,
    }  # fmt: skip
    if t.described(folder) != description:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / t.DESCRIPTION).unlink(missing_ok=True)
        windows, label = beats(clients, beats_each)
        orders = [[_stream(t.SEED, c, beats_each, r * beats_each, beats_each) for c in range(clients)]
                  for r in range(rounds)]  # fmt: skip
        np.save(folder / t.WINDOWS, windows)
        np.save(folder / t.LABELS, label)
        np.save(folder / t.ORDERS, np.array(orders))
        np.savez(folder / t.INITIAL, **{name: value.numpy() for name, value in net.initial(t.SEED).items()})
        (folder / t.DESCRIPTION).write_text(json.dumps(description))
    return t.open_task(folder)
