"""The work every system does: the numbers, and the files it is read from. Needs numpy only, not ecgfed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLIENTS, BEATS, SAMPLES, CLASSES = 46, 512, 256, 12
BATCH, LEARNING_RATE, MOMENTUM = 64, 0.005, 0.9
#: Trainable values of the reference net.
PARAMETERS = 92_908
#: Averaged weights of two systems may differ by this much after a round; float32 sums in another order do.
TOLERANCE = 1e-4
SEED = 0

DESCRIPTION, WINDOWS, LABELS, ORDERS, INITIAL = "task.json", "windows.npy", "label.npy", "orders.npy", "initial.npz"


@dataclass(frozen=True)
class Task:
    """The files of ``make_task``, opened.

    Attributes:
        windows: (clients * beats, 1, 256) float32, memory-mapped; client after client.
        label: (clients * beats,) int64.
        orders: (rounds, clients, beats) the order in which a client goes through its beats in a round.
        initial: the weights everybody starts from, by ecgfed's names.
    """

    windows: NDArray[np.float32]
    label: NDArray[np.int64]
    orders: NDArray[np.int64]
    initial: dict[str, NDArray[np.float32]]

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.orders.shape[1]

    @property
    def beats(self) -> int:
        """Beats of each client."""
        return self.orders.shape[2]

    @property
    def samples(self) -> int:
        """Beats that a round trains on."""
        return self.clients * self.beats

    def batches(self, client: int, number: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Yield one client's windows and labels in one round (from 1 on), batch after batch, as fresh arrays."""
        rows = client * self.beats + self.orders[number - 1, client]
        for start in range(0, self.beats, BATCH):
            batch = rows[start : start + BATCH]
            yield self.windows[batch], self.label[batch]


def open_task(folder: Path) -> Task:
    """Open the files of a task; the large ones are memory-mapped."""
    windows, orders = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (WINDOWS, ORDERS))
    with np.load(folder / INITIAL) as initial:
        return Task(windows, np.load(folder / LABELS), orders, dict(initial))


def described(folder: Path) -> dict[str, object] | None:
    """Return what a task folder says of itself, or None where there is none."""
    path = folder / DESCRIPTION
    return json.loads(path.read_text()) if path.is_file() else None
