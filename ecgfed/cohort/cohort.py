"""The cohort on disk: ``cohort.json`` and flat arrays, ordered by client then time, opened memory-mapped."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import FLAG_PADDED, FLAG_POOR_QUALITY
from ecgfed.beats.labels import LabelMap
from ecgfed.cohort.split import TRAIN
from ecgfed.errors import CohortError
from ecgfed.files import read_folder_document

SCHEMA_VERSION = 1
FILE_NAME = "cohort.json"
#: What --leave-out knows.
LEAVE_OUT = ("nothing", "poor-quality")
#: name -> (dtype, shape of one beat)
ARRAYS: dict[str, tuple[str, tuple[int, ...]]] = {
    "beats": ("float32", (1, 256)),
    "rr": ("float32", (4,)),
    "label": ("int16", ()),
    "client": ("int32", ()),
    "record": ("int32", ()),
    "sample": ("int64", ()),
    "split": ("uint8", ()),
    "flags": ("uint8", ()),
}


@dataclass(frozen=True)
class Client:
    """One client of the federation: usually one patient, on MIT-BIH one record.

    Attributes:
        index: its number, the value in ``client.npy``.
        id: the name used in options, tables and file names.
        patient: whose beats these are.
        records: the recordings they came from.
        holdout: kept out of training altogether, as a new patient.
    """

    index: int
    id: str
    patient: str
    records: tuple[str, ...]
    holdout: bool


@dataclass(frozen=True)
class Cohort:
    """An opened cohort; its arrays are memory-mapped and read-only.

    Attributes:
        path: the folder.
        meta: the contents of ``cohort.json``.
        clients: all clients, held-out ones included, in order of ``client.npy``.
        labels: classes and the symbols behind them.
        beats: (N, 1, 256) float32 millivolt, filtered, not normalised.
        rr: (N, 4) float32, seconds (see ``ecgfed.beats.windows.rr_features``).
        label, client, record, sample, split, flags: (N,), see the cohort contract in docs/cohort.md.
    """

    path: Path
    meta: dict[str, Any]
    clients: tuple[Client, ...]
    labels: LabelMap
    beats: NDArray[np.float32]
    rr: NDArray[np.float32]
    label: NDArray[np.int16]
    client: NDArray[np.int32]
    record: NDArray[np.int32]
    sample: NDArray[np.int64]
    split: NDArray[np.uint8]
    flags: NDArray[np.uint8]

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in order of their number."""
        return self.labels.classes

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the arrays' hashes: two cohorts with the same beats, labels and splits share it."""
        return str(self.meta["fingerprint"])

    @cached_property
    def federation(self) -> tuple[Client, ...]:
        """The clients that take part in training."""
        return tuple(client for client in self.clients if not client.holdout)

    @cached_property
    def _rows(self) -> tuple[tuple[NDArray[np.int64], ...], ...]:
        """Rows of each client (outer) and split (inner)."""
        edges = np.searchsorted(self.client, np.arange(len(self.clients) + 1))
        return tuple(
            tuple(start + np.flatnonzero(self.split[start:stop] == part) for part in range(3))
            for start, stop in pairwise(edges)
        )

    def rows(self, client: Client, split: int) -> NDArray[np.int64]:
        """Return the rows (beats,) int64 of one client and one split (0 train, 1 valid, 2 test)."""
        return self._rows[client.index][split]

    def pool(self, split: int) -> NDArray[np.int64]:
        """Return the rows of one split of all clients that take part in training, in order."""
        parts = [self.rows(client, split) for client in self.federation]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def kept(self, rows: NDArray[np.int64], leave_out: str) -> NDArray[np.int64]:
        """Return the rows that are left without what ``LEAVE_OUT`` names: ``nothing`` or ``poor-quality``."""
        return rows if leave_out == "nothing" else rows[self.flags[rows] & FLAG_POOR_QUALITY == 0]

    def class_counts(self, client: Client, split: int = TRAIN) -> NDArray[np.int64]:
        """Return beats per class (classes,) of one client and split."""
        return np.bincount(self.label[self.rows(client, split)], minlength=len(self.classes))

    def client_by_id(self, client_id: str) -> Client:
        """Return a client by its id; raises CohortError that lists the ids."""
        for client in self.clients:
            if client.id == client_id:
                return client
        raise CohortError(self.path, f"has no client {client_id!r}", f"one of {', '.join(c.id for c in self.clients)}")


def _load_array(path: Path, name: str, beats: int) -> NDArray[Any]:
    dtype, tail = ARRAYS[name]
    file = path / f"{name}.npy"
    try:
        array = np.load(file, mmap_mode="r" if beats else None, allow_pickle=False)
    except FileNotFoundError:
        raise CohortError(file, "does not exist", action="prepare the cohort again") from None
    except Exception as problem:  # numpy raises ValueError, EOFError, TokenError for a damaged file
        raise CohortError(file, f"cannot be read ({problem})", action="prepare the cohort again") from problem
    if array.dtype != np.dtype(dtype) or array.shape != (beats, *tail):
        raise CohortError(
            file, f"holds {array.dtype} {array.shape}", f"{dtype} {(beats, *tail)}", "prepare the cohort again"
        )
    return array if name == "beats" else np.asarray(array)


def open_cohort(path: Path | str) -> Cohort:
    """Open a cohort folder.

    Raises:
        CohortError: no such folder, another schema version, a missing or damaged file, no beats.
    """
    path = Path(path)
    meta = read_folder_document(path, FILE_NAME, SCHEMA_VERSION, CohortError, what="a cohort", command="ecgfed prepare")
    try:
        count = int(meta["beats"])
        clients = tuple(
            Client(i, str(c["id"]), str(c["patient"]), tuple(c["records"]), bool(c["holdout"]))
            for i, c in enumerate(meta["clients"])
        )
        labels = LabelMap.from_json(meta["label_map"])
        str(meta["fingerprint"])
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise CohortError(path / FILE_NAME, f"lacks {problem}", action="prepare the cohort again") from problem
    if not count or not clients:
        raise CohortError(path, "is empty", "at least one labelled beat", "prepare it from other recordings")
    arrays = {name: _load_array(path, name, count) for name in ARRAYS}
    client = arrays["client"]
    if (np.diff(client) < 0).any() or client.min() < 0 or client.max() >= len(clients):
        raise CohortError(path / "client.npy", "is not ordered by client", action="prepare the cohort again")
    if arrays["label"].min() < 0 or arrays["label"].max() >= len(labels.classes):
        raise CohortError(path / "label.npy", "holds a label outside the classes", action="prepare the cohort again")
    return Cohort(path, meta, clients, labels, **arrays)


def summarise(cohort: Cohort) -> dict[str, Any]:
    """Count what a cohort holds: beats per class and split, and what to say beside every score.

    Returns:
        JSON-ready: ``clients``, ``beats``, ``classes`` (beats per class), ``splits``, ``classes_per_client``,
        ``cells_without_test`` ((client, class) pairs that no test beat represents), ``one_class`` and ``no_test``
        (clients of one class, and without any test beat), ``padded``.
    """
    per_class = np.bincount(cohort.label, minlength=len(cohort.classes))
    table = np.zeros((len(cohort.clients), len(cohort.classes), 3), dtype=np.int64)
    np.add.at(table, (cohort.client, cohort.label, cohort.split), 1)
    present = table.sum(2) > 0
    missing = np.argwhere(present & (table[:, :, 2] == 0))
    ids: Sequence[str] = [client.id for client in cohort.clients]
    return {
        "clients": len(cohort.clients),
        "beats": len(cohort.label),
        "classes": {name: int(n) for name, n in zip(cohort.classes, per_class, strict=True)},
        "splits": {name: int((cohort.split == i).sum()) for i, name in enumerate(("train", "valid", "test"))},
        "classes_per_client": round(float(present.sum(1).mean()), 2),
        "cells": int(present.sum()),
        "cells_without_test": [[ids[i], cohort.classes[j]] for i, j in missing.tolist()],
        "one_class": [ids[i] for i in np.flatnonzero(present.sum(1) == 1).tolist()],
        "no_test": [ids[i] for i in np.flatnonzero(table[:, :, 2].sum(1) == 0).tolist()],
        "holdout": [client.id for client in cohort.clients if client.holdout],
        "padded": int((cohort.flags & FLAG_PADDED).astype(bool).sum()),
        "poor_quality": int((cohort.flags & FLAG_POOR_QUALITY).astype(bool).sum()),
    }
