"""Writing labelled examples that are divided among clients: published images, or somebody's own arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.cohort.partition import NOBODY, TEST_STREAM, VALID_STREAM, Dealer, drawn_counts
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID, SplitKind, split_beats
from ecgfed.domain.cohort.writer import CohortWriter


def split_client(
    label: NDArray[np.int64], kind: SplitKind, seed: int, client: int, *, test_share: float, valid_share: float
) -> NDArray[np.uint8]:
    """Return the split (n,) of the examples of one client, as ``split_beats``, by a seed of the client's own.

    Args:
        label: (n,) class numbers.
        kind: see ``split_beats``.
        seed: of the cohort.
        client: index of the client.
        test_share: see ``split_beats``.
        valid_share: see ``split_beats``.
    """
    own_seed = int(np.random.default_rng([seed, VALID_STREAM, client]).integers(2**63))
    return split_beats(label, kind, own_seed, test_share=test_share, valid_share=valid_share)


def append_clients(
    writer: CohortWriter,
    examples: NDArray[Any],
    label: NDArray[np.int64],
    client: NDArray[np.int64],
    split: NDArray[np.uint8],
    sample: NDArray[np.int64],
    ids: Sequence[str],
    classes: int,
    *,
    seed: int,
    valid_share: float,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """Write all clients of a cohort of images or arrays, with the common test pool if there is one.

    Args:
        writer: the cohort's.
        examples: (N, ...) of the writer's shape.
        label: (N,) class numbers.
        client: (N,) index into ``ids``; ``NOBODY`` for the common test pool (in ``TEST``), and for what is left over.
        split: (N,) 0 train, 1 valid, 2 test; without any 1, ``valid_share`` of each client's 0 become 1.
        sample: (N,) the row that the cohort names.
        ids: of the clients.
        classes: number of classes.
        seed: decides validation examples, and which test examples stand for which client.
        valid_share: of a client's training examples, stratified by class, if ``split`` has no validation example.
        on_progress: called after each client with its id, the number done and the number of all.

    Returns:
        Entries of the clients for ``cohort.json``; (clients, classes) int64, examples that are not in ``TEST``.
    """
    name, draw_valid = next(iter(writer.arrays)), not (split == VALID).any()
    counts = np.zeros((len(ids), classes), np.int64)

    def append(rows: NDArray[np.int64], parts: NDArray[np.uint8]) -> None:
        columns = {name: examples, "label": label, "client": client, "sample": sample}
        writer.append(**{column: values[rows] for column, values in columns.items()}, split=parts)

    pool = np.flatnonzero((client == NOBODY) & (split == TEST))
    append(pool, split[pool])
    order = np.argsort(client, kind="stable")
    edges = np.searchsorted(client[order], np.arange(len(ids) + 1))
    entries: list[dict[str, Any]] = []
    for i, id_ in enumerate(ids):
        rows = order[edges[i] : edges[i + 1]]
        parts, training = split[rows].copy(), rows[split[rows] == TRAIN]
        if draw_valid:
            drawn = split_client(label[training], "random", seed, i, test_share=0.0, valid_share=valid_share)
            parts[parts == TRAIN] = drawn
        append(rows, parts)
        counts[i] = np.bincount(label[rows[parts != TEST]], minlength=classes)
        entries.append({"id": id_, "patient": id_, "records": [], "holdout": False, name: len(rows)})
    stock = np.bincount(label[pool], minlength=classes)
    for i, id_ in enumerate(ids):
        if len(pool):
            rng = np.random.default_rng([seed, TEST_STREAM, i])
            rows = Dealer(np.arange(len(pool)), label[pool], rng, classes).deal(drawn_counts(counts[i], stock))
            writer.draw(test_client=np.full(len(rows), i), test_row=rows)
        if on_progress:
            on_progress(id_, i + 1, len(ids))
    return entries, counts
