"""A cohort of somebody's own examples: arrays of any shape, a torch ``Dataset``, or a table of columns."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgfed import __version__
from ecgfed.base.errors import OptionError, param
from ecgfed.base.files import replacing_folder
from ecgfed.base.safe_io import check_labels, check_name
from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.cohort.array_like import X_PARAM, as_array, as_column, as_numbers, is_dataset, items_of
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.deal import append_clients, split_client
from ecgfed.domain.cohort.layout import EXAMPLE, MAX_AXES
from ecgfed.domain.cohort.partition import NOBODY
from ecgfed.domain.cohort.split import (
    IN_GAP,
    SPLIT_KINDS,
    SPLIT_NAMES,
    TEST,
    TEST_SHARE,
    TRAIN,
    VALID_SHARE,
    split_by_time,
)
from ecgfed.domain.cohort.writer import CohortWriter

#: Labels are stored as int16.
MOST_CLASSES = 10_000


def cohort_from_arrays(
    X: object,  # noqa: N803 - scikit-learn's name
    y: ArrayLike | str | None,
    client: ArrayLike | str,
    split: ArrayLike | str | None = None,
    classes: Sequence[str | int] | None = None,
    out: Path | str | None = None,
    *,
    time: ArrayLike | str | None = None,
    gap: float = 0.0,
    seed: int = 0,
    test_share: float = TEST_SHARE,
    valid_share: float = VALID_SHARE,
    overwrite: bool = False,
) -> Cohort:
    """Make a cohort of your own examples, in memory or in a folder; ``train`` and ``evaluate`` take it as any other.

    Its rows are sorted by client: ``cohort.sample[row]`` is the place in ``X``, ``Scores.predictions`` has it as
    ``sample``.

    Args:
        X: (N, ...) examples of any shape, an array, tensor or list: uint8 as it is, other whole numbers as int64, the
            rest as float32. Or a ``torch.utils.data.Dataset`` of (example, label) pairs; then ``y`` is None. Or a table
            of columns, a mapping, a Hugging Face ``Dataset`` or a data frame; then ``y``, ``client``, ``split`` and
            ``time`` may be names of columns, and the one other column holds the examples (of a data frame all others
            are features).
        y: (N,) labels, whole numbers or texts.
        client: (N,) the client of each example, whole numbers or texts that can be file names. -1 stands for nobody: in
            the split ``test`` such examples are a test set common to all clients, each of whom is scored on a part of
            it drawn to the client's own mix of classes; other ones are left out.
        split: (N,) ``train``, ``valid`` or ``test``, or 0, 1 or 2; without any ``valid``, ``valid_share`` of each
            client's training examples become so. Or how to divide each client's examples: ``random`` (default),
            stratified by class, or ``chronological``, in the order of ``time``, or of ``X`` without it.
        classes: the classes, in order: names of the numbers 0, 1, ... in ``y``, or the texts or numbers that ``y``
            holds; default the sorted values of ``y``.
        out: folder to write the cohort into; default in memory, where it is as long as you keep it.
        time: (N,) when each example was taken, in any unit, for ``split="chronological"``.
        gap: least time between examples of different parts of a client's chronological split, in the unit of ``time``.
            Examples between them are left out of the cohort.
        seed: decides what is drawn.
        test_share: of each client's examples, for the test, where ``split`` does not name it.
        valid_share: of what the test leaves, for validation.
        overwrite: replace an existing ``out``.

    Raises:
        OptionError: arrays that do not fit together, cannot be used, or leave a cohort without training examples.
        StorageError: see ``replacing_folder``.

    Examples:
        >>> import ecgfed, numpy as np
        >>> X, y = np.random.default_rng(0).normal(size=(90, 4)), np.arange(90) % 3
        >>> ecgfed.cohort_from_arrays(X, y, ecgfed.partition(y, "iid", clients=3))
        Cohort('arrays-...': 3 clients, 3 classes, 90 examples)
    """
    for name, share in (("test_share", test_share), ("valid_share", valid_share)):
        if not isinstance(share, int | float | np.number) or not 0.0 <= share <= 0.9:
            raise OptionError(name, f"{share!r:.60}", "0 to 0.9")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise OptionError("seed", f"{seed!r:.60}", "a whole number, 0 or more")
    values, labels, owners, parts, times = _columns(X, y, client, split, time)
    examples = _examples(values)
    taken = _times(times, gap, parts, len(examples))
    label, names = _labels(labels, classes, len(examples))
    owner, ids = _clients(owners, len(examples))
    shares = (test_share, valid_share)
    if taken is None:
        divided = _split(parts, label, owner, len(ids), seed=seed, shares=shares)
    else:
        divided = _split_by_time(taken, gap, owner, len(ids), shares)
    owner = np.where(divided == IN_GAP, NOBODY, owner)
    _check_parts(owner, divided, ids)
    form = (str(examples.dtype), examples.shape[1:])
    left = int(((owner == NOBODY) & (divided != TEST)).sum())  # those in gaps included
    kind = parts if isinstance(parts, str) else "random" if parts is None else "given"
    meta = {
        "kind": "arrays",
        "tool_version": __version__,
        "classes": list(names),
        "label_map": LabelMap("arrays", names, {}).as_json(),
        EXAMPLE: {"dtype": form[0], "shape": list(form[1])},
        "units": "as given",
        "normalised": False,
        "split": kind,
        **({} if taken is None else {"split_gap": float(gap), "in_gap": int((divided == IN_GAP).sum())}),
        "seed": int(seed),
        "partition": None,
        "left_over": left,
        "holdout": [],
        "source": {"examples": len(examples)},
    }

    def write(folder: Path | None) -> Cohort | None:
        with CohortWriter(folder, "array", example=form) as writer:
            rows = np.arange(len(label))
            entries, counts = append_clients(
                writer, examples, label, owner, divided, rows, ids, len(names), seed=seed, valid_share=valid_share
            )
            per_class = dict(zip(names, counts.sum(0).tolist(), strict=True))
            return writer.finish({**meta, "class_counts": per_class, "clients": entries})

    if out is None:
        cohort = write(None)
        assert cohort is not None
        return cohort
    with replacing_folder(Path(out), overwrite=overwrite) as partial:
        write(partial)
    return open_cohort(Path(out))


def _columns(X: object, y: object, client: object, split: object, time: object) -> tuple[object, ...]:  # noqa: N803
    """Return examples, labels, clients, split and times, out of a table or a ``Dataset`` where they are in one."""
    frame: Any = X if hasattr(X, "columns") and hasattr(X, "to_numpy") else None  # pandas or polars
    names = list(X) if isinstance(X, Mapping) else getattr(X, "column_names", None)
    names = names if frame is None else list(frame.columns)
    if isinstance(names, list):
        table: Any = X
        named = {"y": y, "client": client, "split": split, "time": time}
        used = {name: value for name, value in named.items() if isinstance(value, str) and value in names}
        for name, value in named.items():
            if isinstance(value, str) and name not in used and not (name == "split" and value in SPLIT_KINDS):
                raise OptionError(
                    name, f"{value!r:.60}", f"a column, one of {listed(names, 12)}", code="unknown-choice"
                )
        others = [name for name in names if name not in used.values()]
        many = frame is not None and len(others) > 1
        if len(others) != 1 and not many:
            expected = "one column of examples beside those that y, client, split and time name"
            raise OptionError(
                X_PARAM, f"has the columns {listed(others, 12) or 'of these alone'}", expected, "drop the others"
            )
        examples = frame[others].to_numpy() if many else table[others[0]]
        columns = (table[used[name]] if name in used else value for name, value in named.items())
        return examples if frame is None or many else list(examples), *columns
    if is_dataset(X):
        return *items_of(X, y), client, split, time
    return X, y, client, split, time


def _examples(values: object) -> NDArray[Any]:
    array = as_numbers(values)
    if not 2 <= array.ndim <= MAX_AXES + 1 or not array.size:
        expected = f"(N, ...), N examples of one to {MAX_AXES} axes"
        raise OptionError(X_PARAM, f"is of shape {array.shape}", expected, "reshape it" if array.ndim == 1 else "")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind in "ui":
        if array.max() > np.iinfo(np.int64).max:
            raise OptionError(X_PARAM, f"holds {array.max()}", "whole numbers below 2^63, which int64 holds")
        return array.astype(np.int64)
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    finite = np.isfinite(array.reshape(len(array), -1)).all(1)
    if not finite.all():
        raise OptionError(X_PARAM, f"example {int(finite.argmin())} holds a value that is not finite", "finite numbers")
    return array


def _labels(
    values: object, classes: Sequence[str | int] | None, count: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return class numbers (N,), and the names of the classes."""
    if values is None:
        raise OptionError("y", "missing", "a label for each example", code="missing")
    array = as_column(values, "y", count)
    unique, label = np.unique(array, return_inverse=True)
    if classes is None and len(unique) == 1:
        problem = f"holds {unique.tolist()[0]!r:.40} alone"
        raise OptionError("y", problem, "two classes or more", f"name the others with {param('classes')}")
    if isinstance(classes, str) or not isinstance(classes, Iterable | None):
        raise OptionError("classes", f"{classes!r:.60}", "a list of names")
    ordered = list(unique.tolist() if classes is None else classes)
    if array.dtype.kind in "iu":  # of labels that came as floats, as_column has made whole numbers
        whole = [isinstance(value, float | np.floating) and float(value).is_integer() for value in ordered]
        ordered = [int(value) if is_whole else value for value, is_whole in zip(ordered, whole, strict=True)]
    names = tuple(str(value) for value in ordered)
    check_labels(names, "class", param("classes"), OptionError)
    if len(set(names)) < len(names) or not 2 <= len(names) <= MOST_CLASSES:
        problem = f"{count_of(len(set(names)), 'name')} for {count_of(len(names), 'class')}"
        raise OptionError("classes", problem, f"2 to {MOST_CLASSES:,} classes, each with a name of its own")
    if classes is None:
        return label.astype(np.int64), names
    if array.dtype.kind == "U" or all(isinstance(value, int | np.integer) for value in ordered):
        number = {name: i for i, name in enumerate(names)}
        strange = [value for value in unique.tolist() if str(value) not in number]
        if strange:
            raise OptionError("y", f"holds {strange[0]!r:.60}", f"one of the classes, {listed(names, 12)}")
        return np.array([number[str(value)] for value in unique.tolist()], np.int64)[label], names
    if unique[0] < 0 or unique[-1] >= len(names):
        wrong = unique[0] if unique[0] < 0 else unique[-1]
        raise OptionError("y", f"holds {wrong}", f"0 to {len(names) - 1}, numbers of the {len(names)} classes")
    return array.astype(np.int64), names


def _clients(values: object, count: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return the index of each example's client (N,), or ``NOBODY``, and the clients' ids."""
    array = as_column(values, "client", count)
    unique, owner = np.unique(array, return_inverse=True)
    owner = owner.astype(np.int64)
    if array.dtype.kind in "iu" and unique[0] == NOBODY:
        unique, owner = unique[1:], owner - 1
    if array.dtype.kind in "iu" and len(unique) and unique[0] < 0:
        raise OptionError("client", f"holds {unique[0]}", "0 or more, or -1 for nobody")
    ids = [str(value) for value in unique.tolist()]
    for id_ in ids:
        check_name(id_, "client", param("client"), OptionError)
    if len({id_.casefold() for id_ in ids}) < len(ids):
        raise OptionError("client", "two differ in case only", "an id of its own for each, whatever its case")
    if not ids:
        raise OptionError("client", "is -1 everywhere", "a client for some examples")
    return owner, ids


def _split(
    values: object,
    label: NDArray[np.int64],
    owner: NDArray[np.int64],
    clients: int,
    *,
    seed: int,
    shares: tuple[float, float],
) -> NDArray[np.uint8]:
    """Return the split (N,) uint8, given or drawn client by client."""
    split = np.full(len(label), TRAIN, np.uint8)
    if values is None or isinstance(values, str):
        kind = next((kind for kind in SPLIT_KINDS if kind == (values or "random")), None)
        if kind is None:
            expected = f"one of {', '.join(SPLIT_KINDS)}, or the split of each example"
            raise OptionError("split", f"{values!r:.60}", expected, code="unknown-choice")
        for i in range(clients):
            rows = np.flatnonzero(owner == i)
            split[rows] = split_client(label[rows], kind, seed, i, test_share=shares[0], valid_share=shares[1])
        return split
    array = as_column(values, "split", len(label))
    if array.dtype.kind == "b":  # True would be 1, validation, where a mask of test examples may be meant
        raise OptionError("split", "holds bool", f"{', '.join(SPLIT_NAMES)}, or 0, 1, 2", "such as np.where(...)")
    names: tuple[object, ...] = SPLIT_NAMES if array.dtype.kind == "U" else tuple(range(len(SPLIT_NAMES)))
    strange = [value for value in np.unique(array).tolist() if value not in names]
    if strange:
        raise OptionError("split", f"holds {strange[0]!r:.40}", f"{', '.join(SPLIT_NAMES)}, or 0, 1, 2")
    for number, name in enumerate(names):
        split[array == name] = number
    return split


def _times(values: object, gap: float, split: object, count: int) -> NDArray[np.float64] | None:
    """Return the time of each example (N,), or None without any."""
    if not isinstance(gap, int | float | np.number) or not 0 <= gap < np.inf:
        raise OptionError("gap", f"{gap!r:.60}", "0 or more")
    if values is None:
        if gap:
            raise OptionError("gap", f"{gap:g} without times", "a time for each example", f"pass {param('time')}")
        return None
    if split != "chronological":
        raise OptionError("time", "with another split", f"{param('split')} chronological", code="conflict")
    array = as_array(values, "time")
    if array.shape != (count,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise OptionError("time", f"{array.dtype} of shape {array.shape}", f"({count},) finite numbers")
    return array.astype(np.float64)


def _split_by_time(
    time: NDArray[np.float64], gap: float, owner: NDArray[np.int64], clients: int, shares: tuple[float, float]
) -> NDArray[np.uint8]:
    """Return the split (N,) uint8 of each client's examples in the order of their times, ``IN_GAP`` included."""
    split = np.full(len(time), TRAIN, np.uint8)
    for i in range(clients):
        rows = np.flatnonzero(owner == i)
        rows = rows[np.argsort(time[rows], kind="stable")]
        split[rows] = split_by_time(time[rows], gap, test_share=shares[0], valid_share=shares[1])
    return split


def _check_parts(owner: NDArray[np.int64], split: NDArray[np.uint8], ids: Sequence[str]) -> None:
    """Refuse a common test set beside clients' own test examples, and arrays without anything to train on."""
    own, common = (split == TEST) & (owner != NOBODY), (split == TEST) & (owner == NOBODY)
    if own.any() and common.any():
        problem = f"has test examples of client {ids[int(owner[own][0])]} and of nobody (-1)"
        raise OptionError("split", problem, "a common test set, or test examples of each client", "leave out one kind")
    if not ((split == TRAIN) & (owner != NOBODY)).any():
        raise OptionError("split", "leaves no client a training example", "at least one")
