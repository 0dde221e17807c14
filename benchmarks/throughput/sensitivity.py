"""What the comparison of weights would see: the plain loop with one thing changed, against our weights.

    python benchmarks/throughput/sensitivity.py --work DIR

After ``run.py --work DIR`` (full size): one round of the loop for every change, the largest difference of the average.
"""

import argparse
from pathlib import Path

import numpy as np
import task as t
import torch
from net import net_with, train_client, weights_of
from worker import Weights, plain_batches
from worker_loop import average


def one_round(
    task: t.Task,
    *,
    order: int = 1,
    rate: float = t.LEARNING_RATE,
    momentum: float = t.MOMENTUM,
    standardise: bool = True,
    average_statistics: bool = True,
) -> Weights:
    """Return the averaged weights after one round of the plain loop, changed as asked."""
    before = t.LEARNING_RATE, t.MOMENTUM
    t.LEARNING_RATE, t.MOMENTUM = rate, momentum
    net = net_with(task.initial)
    if not standardise:
        net.extractor.standardise = torch.nn.Identity()  # type: ignore[assignment]
    server = {name: value.clone() for name, value in net.state_dict().items()}
    states = []
    for client in range(task.clients):
        net.load_state_dict(server)
        train_client(net, plain_batches(task, client, order))
        states.append({name: value.clone() for name, value in net.state_dict().items()})
    t.LEARNING_RATE, t.MOMENTUM = before
    mean = average(states)
    if not average_statistics:
        mean |= {name: value for name, value in states[0].items() if "running_" in name}
    return weights_of(mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of a finished run.py")
    work = parser.parse_args().work
    task = t.open_task(work / f"task-{t.CLIENTS}x{t.BEATS}")
    with np.load(work / "weights" / "ours" / "1.npz") as file:
        ours = dict(file)
    changes = {
        "nothing": {},
        "learning rate 0.0051": {"rate": 0.0051},
        "momentum 0.89": {"momentum": 0.89},
        "batches in another order": {"order": 2},
        "running statistics of the first client, not averaged": {"average_statistics": False},
        "windows not standardised": {"standardise": False},
    }
    print("| changed in the plain loop | largest difference |\n| --- | --- |")
    for name, change in changes.items():
        found = one_round(task, **change)  # type: ignore[arg-type]
        worst = max(float(np.abs(found[entry].astype(np.float64) - value).max()) for entry, value in ours.items())
        print(f"| {name} | {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
