"""What every system's worker process shares: rounds on command, an answer a line. Needs numpy and torch only.

A line ``round N`` on stdin asks for the next round, the end of stdin for the end. The answer is one JSON line on
stdout; whatever a library prints goes to stderr.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import processes
import task as t
import torch
from numpy.typing import NDArray

Weights = Mapping[str, NDArray[np.float32]]


def arguments(description: str) -> tuple[Path, Path]:
    """Return the task's folder and the folder for the weights after each round, from the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("task", type=Path)
    parser.add_argument("weights", type=Path)
    values = parser.parse_args()
    return values.task, values.weights


class Conversation:
    """The worker's side. ``wait`` starts the clock, ``done`` stops it.

    Args:
        weights: folder for the weights after each round.
        facts: what this system runs on, for the record.
    """

    def __init__(self, weights: Path, **facts: Any) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._weights = weights
        self._number = 0
        self._say(
            {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "torch_threads": torch.get_num_threads(),
                "numpy": np.__version__,
                **facts,
            }
        )

    def wait(self) -> int | None:
        """Wait for the next command; return the round's number (from 1 on), or None when there is none to come."""
        line = sys.stdin.readline()
        if not line:
            return None
        self._number = int(line.removeprefix("round "))
        self._cpu, self._start = processes.tree_cpu_seconds(), time.perf_counter()
        return self._number

    def done(self, samples: int, weights: Weights) -> None:
        """Answer that the round is over, and leave the averaged weights for the comparison (not timed)."""
        seconds = time.perf_counter() - self._start
        cpu = processes.tree_cpu_seconds() - self._cpu
        np.savez(self._weights / f"{self._number}.npz", **{name: np.asarray(value) for name, value in weights.items()})
        self._say({"round": self._number, "seconds": seconds, "cpu_seconds": cpu, "samples": samples})

    def _say(self, message: dict[str, Any]) -> None:
        print(json.dumps(message), file=self._out, flush=True)


def plain_batches(task: t.Task, client: int, number: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return one client's batches of a round as tensors; slices of arrays, which is faster than a DataLoader."""
    return [(torch.from_numpy(window), torch.from_numpy(label)) for window, label in task.batches(client, number)]
