"""The cohort: ``cohort.json`` and flat arrays, ordered by client then time, memory-mapped files or in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError
from ecgfed.base.files import read_folder_document
from ecgfed.base.safe_io import check_labels, check_links
from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY, still_windows
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.cohort.arrays import check_document, check_drawn, check_hashes, load_array
from ecgfed.domain.cohort.clients import AGAIN, FIRST_LEAD, check_excluded, check_records, check_sites, client_of
from ecgfed.domain.cohort.clients import Client as Client
from ecgfed.domain.cohort.layout import (
    DRAWN_ARRAYS,
    EXAMPLE_WORDS,
    MAX_ROWS,
    MODALITIES,
    Layout,
    example_of,
    layout_of,
    modality_of,
    rr_version_of,
)
from ecgfed.domain.cohort.partition import NOBODY as NOBODY
from ecgfed.domain.cohort.split import TEST, TRAIN
from ecgfed.domain.record.leads import leads_in

SCHEMA_VERSION = 1
FILE_NAME = "cohort.json"
#: Windows that are looked at at once.
_AT_ONCE = 1 << 14
#: What --leave-out knows.
LEAVE_OUT = ("nothing", "poor-quality")
#: ``label`` of beats that nobody labelled, those of clients with a label of the recording alone.
UNLABELLED = -1


@dataclass(frozen=True, repr=False, eq=False)
class Cohort:
    """An opened cohort; its arrays are memory-mapped and read-only.

    Attributes:
        path: the folder; of a cohort in memory a name.
        meta: the contents of ``cohort.json``.
        clients: all clients, held-out ones included, in order of ``client.npy``.
        labels: classes and the symbols behind them.
        arrays: all arrays by name: ``MODALITIES``, but for ECG ``DRAWN_ARRAYS`` too. See docs/cohort.md.
        in_memory: whether it lies in no folder.
    """

    path: Path
    meta: dict[str, Any]
    clients: tuple[Client, ...]
    labels: LabelMap
    arrays: dict[str, NDArray[Any]]
    in_memory: bool = False

    def __repr__(self) -> str:
        examples = count_of(int((~self.other_lead).sum()), self.example_word)
        size = f"{count_of(len(self.clients), 'client')}, {count_of(len(self.classes), 'class')}, {examples}"
        return f"Cohort({str(self.path)!r}: {size})"

    @property
    def label(self) -> NDArray[np.int16]:
        """(N,) class numbers, in order of ``classes``; ``UNLABELLED`` for beats of ``weak_clients``."""
        return self.arrays["label"]

    @property
    def client(self) -> NDArray[np.int32]:
        """(N,) index into ``clients``, increasing; ``NOBODY`` first, where there is a common test pool."""
        return self.arrays["client"]

    @property
    def sample(self) -> NDArray[np.int64]:
        """(N,) R position in the recording; of an image, its row in the official order; of an array, that in ``X``."""
        return self.arrays["sample"]

    @property
    def split(self) -> NDArray[np.uint8]:
        """(N,) 0 train, 1 valid, 2 test."""
        return self.arrays["split"]

    @property
    def modality(self) -> str:
        """``ecg``, ``image`` or ``array``."""
        return modality_of(self.meta)

    @property
    def example_word(self) -> str:
        """What an example is called: beat, image or example."""
        return EXAMPLE_WORDS[self.modality]

    @property
    def has_common_pool(self) -> bool:
        """Whether clients share test examples, as in CIFAR-10: rows of ``NOBODY``, drawn to each client's mix."""
        return bool(self.client[0] == NOBODY)

    @property
    def leads(self) -> tuple[str, ...]:
        """Lead names in order of preference; none but for ECG."""
        return leads_in(self.meta) if self.modality == "ecg" else ()

    @property
    def examples(self) -> NDArray[Any]:
        """What a net sees: beats (N, 1, 256) float32 millivolt, images (N, 3, 32, 32) uint8, or arrays (N, ...)."""
        return self.arrays[next(iter(MODALITIES[self.modality]))]

    @property
    def beats(self) -> NDArray[np.float32]:
        """(N, 1, 256) float32 millivolt, filtered, not normalised; raises CohortError but for ECG."""
        return self._of_beats("beats")

    @property
    def rr(self) -> NDArray[np.float32]:
        """(N, features) float32 RR features of ``rr_version``; raises CohortError but for ECG."""
        return self._of_beats("rr")

    @property
    def rr_version(self) -> int:
        """The version of its RR features (``ecgfed.domain.beats.rr``)."""
        return rr_version_of(self.meta)

    @property
    def record(self) -> NDArray[np.int32]:
        """(N,) index into ``records``; raises CohortError but for ECG."""
        return self._of_beats("record")

    @property
    def flags(self) -> NDArray[np.uint8]:
        """(N,) bits, see docs/cohort.md; raises CohortError but for ECG."""
        return self._of_beats("flags")

    def _of_beats(self, name: str) -> NDArray[Any]:
        if name not in self.arrays:
            raise CohortError(self.path, f"holds {self.example_word}s, and so no {name}", "a cohort of ECG beats")
        return self.arrays[name]

    @cached_property
    def no_signal(self) -> NDArray[np.bool_]:
        """(N,) bool, beats whose window holds nothing (``still_windows``), which cohorts before 0.3 have; ECG only."""
        if self.modality != "ecg":
            return np.zeros(len(self.label), np.bool_)
        at_once = range(0, len(self.label), _AT_ONCE)
        return np.concatenate([still_windows(self.beats[start : start + _AT_ONCE]) for start in at_once])

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
        """The clients that take part in training with labelled beats."""
        return tuple(client for client in self.clients if not client.holdout and not client.record_label)

    @cached_property
    def weak_clients(self) -> tuple[Client, ...]:
        """The clients, not held out, of whom only a label of the recording is known (``excluded_classes``)."""
        return tuple(client for client in self.clients if not client.holdout and client.record_label)

    @cached_property
    def excluded_classes(self) -> NDArray[np.bool_]:
        """(clients, classes) bool: the label of a client's recording says that it has no beat of the class.

        All False for a client whose beats are labelled, and where the label of the recording excludes nothing.
        """
        stated = self.meta.get("excluded_classes", {})
        rows = [[name in stated.get(client.id, ()) for name in self.classes] for client in self.clients]
        return np.array(rows, np.bool_)

    @cached_property
    def other_lead(self) -> NDArray[np.bool_]:
        """(N,) bool, training examples of another lead than the recording's first; beside it they count as no beats."""
        of_other = np.array([FIRST_LEAD in record for record in self.meta.get("records", ())], np.bool_)
        return of_other[self.record] if of_other.any() else np.zeros(len(self.label), np.bool_)

    @cached_property
    def sites(self) -> dict[str, tuple[Client, ...]]:
        """The clients of each site by its name, in order; {} for a cohort that was not joined."""
        names = dict.fromkeys(client.site for client in self.clients if client.site)
        return {name: tuple(client for client in self.clients if client.site == name) for name in names}

    @property
    def held_out(self) -> tuple[str, ...]:
        """Ids of the clients that take no part in training."""
        return tuple(client.id for client in self.clients if client.holdout)

    @cached_property
    def _rows(self) -> tuple[tuple[NDArray[np.int64], ...], ...]:
        """Rows of each client (outer) and split (inner)."""
        numbers = np.arange(len(self.clients) + 1)
        spans, parts = list(pairwise(np.searchsorted(self.client, numbers))), range(3)
        labelled = (self.label != UNLABELLED) & ~self.other_lead
        rows_of_split = [
            [start + np.flatnonzero((self.split[start:stop] == part) & labelled[start:stop]) for part in parts]
            for start, stop in spans
        ]
        if self.has_common_pool:
            for i, (start, stop) in enumerate(pairwise(np.searchsorted(self.arrays["test_client"], numbers))):
                rows_of_split[i][TEST] = self.arrays["test_row"][start:stop]
        return tuple(map(tuple, rows_of_split))

    def rows(self, client: Client, split: int) -> NDArray[np.int64]:
        """Return the rows (beats,) int64, increasing, of one client and one split (0 train, 1 valid, 2 test).

        Beats without a label are in no split (``weak_rows``), and examples of other leads are no beats of their own
        (``training_rows``). Where clients share test examples (``has_common_pool``), these are the rows drawn to the
        client's mix of classes.
        """
        return self._rows[client.index][split]

    def training_rows(self, client: Client) -> NDArray[np.int64]:
        """Return the rows (examples,) int64, increasing, that a model of one client trains on: of all leads."""
        start, stop = np.searchsorted(self.client, [client.index, client.index + 1])
        labelled = self.label[start:stop] != UNLABELLED
        rows: NDArray[np.int64] = start + np.flatnonzero((self.split[start:stop] == TRAIN) & labelled)
        return rows

    def training_pool(self) -> NDArray[np.int64]:
        """Return ``training_rows`` of all clients that take part in training, increasing."""
        return np.concatenate([np.empty(0, np.int64), *map(self.training_rows, self.federation)])

    def weak_rows(self, client: Client) -> NDArray[np.int64]:
        """Return the rows (examples,) int64, increasing, of a client's beats without a label, in all leads."""
        start, stop = np.searchsorted(self.client, [client.index, client.index + 1])
        rows: NDArray[np.int64] = start + np.flatnonzero(self.label[start:stop] == UNLABELLED)
        return rows

    def pool(self, split: int) -> NDArray[np.int64]:
        """Return the rows of one split of all clients that take part in training, increasing.

        A common test pool is every test example, once, whether drawn for a client or not.
        """
        if split == TEST and self.has_common_pool:
            return np.flatnonzero(self.client == NOBODY)
        return np.concatenate([np.empty(0, np.int64), *(self.rows(client, split) for client in self.federation)])

    def usable(self, rows: NDArray[np.int64], leave_out: str = "nothing") -> NDArray[np.int64]:
        """Return the rows that are left without windows that hold nothing, and without what ``LEAVE_OUT`` names."""
        rows = rows[~self.no_signal[rows]]
        return rows if leave_out == "nothing" else rows[self.flags[rows] & FLAG_POOR_QUALITY == 0]

    def exclusions(self, rows: NDArray[np.int64], leave_out: str, what: str) -> Exclusions:
        """Count what ``usable`` leaves out of some rows, which ``what`` names in the singular."""
        usable, silent = len(self.usable(rows, leave_out)), int(self.no_signal[rows].sum())
        return Exclusions(what, len(rows), {"no_signal": silent, "poor_quality": len(rows) - silent - usable})

    def class_counts(self, client: Client, split: int = TRAIN) -> NDArray[np.int64]:
        """Return beats per class (classes,) of one client and split."""
        return np.bincount(self.label[self.rows(client, split)], minlength=len(self.classes))

    def client_by_id(self, client_id: str) -> Client:
        """Return a client by its id; raises CohortError that lists the ids."""
        if client := next((client for client in self.clients if client.id == client_id), None):
            return client
        ids = listed([client.id for client in self.clients], 12)
        raise CohortError(self.path, f"has no client {client_id!r}", f"one of {ids}", code="unknown-patient")


def open_cohort(path: Path | str) -> Cohort:
    """Open a cohort folder.

    Args:
        path: the folder, made by ``prepare``.

    Raises:
        CohortError: no such folder, another schema version, a missing or damaged file, no beats, an array that is not
            what ``cohort.json`` says (SHA-256), a ``cohort.json`` that was changed (its digest), a name that cannot be
            a file's, a link out of the folder.
    """
    path = Path(path)
    meta = read_folder_document(path, FILE_NAME, SCHEMA_VERSION, CohortError, what="a cohort", command="ecgfed prepare")
    layout, count, drawn, clients, labels = _document(meta, path / FILE_NAME)
    check_links(path, [f"{name}.npy" for name in layout], CohortError)
    arrays = {name: load_array(path, layout, name, drawn if name in DRAWN_ARRAYS else count) for name in layout}
    check_hashes(path, path / FILE_NAME, meta, arrays)
    cohort = _checked(path, meta, clients, labels, arrays)
    check_document(path / FILE_NAME, meta)
    return cohort


#: The cohorts in memory, as long as somebody holds them.
_IN_MEMORY: WeakSet[Cohort] = WeakSet()


def cohort_in_memory(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Cohort:
    """Return a cohort of arrays that lies in no folder, checked as ``open_cohort`` does; raises CohortError.

    Args:
        meta: what ``cohort.json`` would say.
        arrays: all arrays by name.
    """
    path = Path(f"arrays-{meta['fingerprint'][:12]}")
    _, _, _, clients, labels = _document(meta, path)
    cohort = _checked(path, meta, clients, labels, arrays, in_memory=True)
    _IN_MEMORY.add(cohort)
    return cohort


def held_in_memory(fingerprint: str, fits: Callable[[Cohort], bool] = lambda _: True) -> Cohort | None:
    """Return a cohort in memory of a fingerprint that this process still holds, or None.

    Args:
        fingerprint: of its arrays, which cohorts with other names of classes and clients share.
        fits: says which of several is meant; without one that fits, any of them is returned.
    """
    held = [cohort for cohort in _IN_MEMORY if cohort.fingerprint == fingerprint]
    return next(filter(fits, held), next(iter(held), None))


def _checked(
    path: Path,
    meta: dict[str, Any],
    clients: tuple[Client, ...],
    labels: LabelMap,
    arrays: dict[str, NDArray[Any]],
    *,
    in_memory: bool = False,
) -> Cohort:
    """Return a cohort whose arrays fit one another and its document; raises CohortError."""
    of_ecg = modality_of(meta) == "ecg"
    client, first = arrays["client"], 0 if of_ecg else NOBODY
    if (np.diff(client) < 0).any() or client.min() < first or client.max() >= len(clients):
        raise CohortError(path / "client.npy", "is not ordered by client", action=AGAIN)
    weak = np.array([bool(client.record_label) for client in clients])[client]
    if (arrays["label"][~weak] < 0).any() or (arrays["label"][weak] != UNLABELLED).any():
        raise CohortError(path / "label.npy", "has unlabelled beats of other clients than cohort.json", action=AGAIN)
    if arrays["label"].max() >= len(labels.classes):
        raise CohortError(path / "label.npy", "holds a label outside the classes", action=AGAIN)
    if arrays["split"].max() > TEST:
        raise CohortError(path / "split.npy", f"holds split {arrays['split'].max()}", "0, 1 or 2", "prepare it again")
    record = arrays.get("record") if "records" in meta else None
    if record is not None and not 0 <= record.min() <= record.max() < len(meta["records"]):
        raise CohortError(path / "record.npy", "names no record", "records of cohort.json", AGAIN)
    if not of_ecg:
        check_drawn(path, arrays, len(clients))
    cohort = Cohort(path, meta, clients, labels, arrays, in_memory)
    if (cohort.split[cohort.other_lead] != TRAIN).any():
        raise CohortError(path / "split.npy", "has beats of another lead in valid or test", "training beats", AGAIN)
    return cohort


def _document(meta: dict[str, Any], where: Path) -> tuple[Layout, int, int, tuple[Client, ...], LabelMap]:
    """Return what ``cohort.json`` says, checked: layout, rows, rows drawn, clients, labels; raises CohortError."""
    try:
        layout = layout_of(modality_of(meta), rr_version_of(meta), example_of(meta))
        count, drawn = meta[next(iter(layout))], meta.get("drawn", 0)
        labels_of, excluded = dict(meta.get("record_labels", {})), dict(meta.get("excluded_classes", {}))
        client_fields = [
            (c["id"], c["patient"], c["records"], c["holdout"], c.get("site", ""), labels_of.get(c["id"], ""))
            for c in meta["clients"]
        ]
        names, symbols = list(meta["label_map"]["classes"]), dict(meta["label_map"]["symbols"])
        labels = LabelMap.from_json(meta["label_map"])
        leads = leads_in(meta) if {"lead", "leads"} & set(meta) else ()
        records = [entry["name"] for entry in meta.get("records", ())]
        str(meta["fingerprint"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CohortError(where, f"lacks {error}", action=AGAIN) from error
    for what, number in (("rows", count), ("drawn", drawn)):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ROWS:
            raise CohortError(where, f"{what} are {number!r:.100}", f"a whole number up to {MAX_ROWS:,}", AGAIN)
    clients = tuple(client_of(i, entry, where) for i, entry in enumerate(client_fields))
    check_excluded(excluded, clients, names, where)
    check_sites(meta, clients, where)
    if len({client.id.casefold() for client in clients}) < len(clients):
        raise CohortError(where, "two clients have the same id", "an id of its own for each, whatever its case", AGAIN)
    for kind, texts in (("lead", leads), ("class", names), ("record", records)):
        check_labels(texts, kind, where, CohortError)
    check_records(meta.get("records", ()), where)
    if len(set(names)) < len(names) or not set(names) >= set(map(str, symbols.values())) or not names:
        raise CohortError(where, "its label map names other classes than it has", "each class once", AGAIN)
    if not count or not clients:
        raise CohortError(where.parent, "is empty", "at least one labelled beat", "prepare it from other recordings")
    every = layout if modality_of(meta) == "ecg" else {**layout, **DRAWN_ARRAYS}
    return every, count, drawn, clients, labels
