"""What users pass as arrays: lists, tensors, columns of frames and torch ``Dataset``s become NumPy arrays.

Nothing here imports torch, pandas or scipy: their objects are known by their attributes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, param
from ecgfed.base.text import listed

#: Parameter of the examples in messages, where others are in small letters.
X_PARAM = param("X")


def as_array(values: object, name: str) -> NDArray[Any]:
    """Return values as one array.

    Args:
        values: an array, tensor, column of a frame, or a list of them or of numbers or texts.
        name: the parameter, for messages.

    Raises:
        OptionError: they are no such values, or of several shapes.
    """
    _check_kind(values, name)
    try:
        if isinstance(values, list | tuple) and values and not isinstance(values[0], int | float | str):
            return _stacked([_as_numpy(value) for value in values], name)
        array = _as_numpy(values)
    except (ValueError, TypeError, RuntimeError) as problem:
        raise OptionError(
            param(name), f"cannot be made one array ({problem!s:.120})", "values of one shape"
        ) from problem
    if array.dtype.kind == "O" and array.ndim == 1 and len(array) and np.ndim(array[0]):
        return _stacked([_as_numpy(value) for value in array], name)
    return array


def _check_kind(values: object, name: str) -> None:
    """Refuse what is no array, with what to pass in its place; raises OptionError."""
    kind, where = type(values).__name__, param(name)
    is_tensor = hasattr(values, "detach") and hasattr(values, "layout")
    if hasattr(values, "toarray") or (is_tensor and str(values.layout) != "torch.strided"):  # type: ignore[attr-defined]
        dense = "toarray()" if hasattr(values, "toarray") else "to_dense()"
        raise OptionError(where, f"is sparse ({kind})", "a dense array", f"pass {where}.{dense}")
    if hasattr(values, "dataset") and hasattr(values, "batch_sampler"):
        raise OptionError(where, f"is a {kind}, which gives batches", "its Dataset", f"pass {where}.dataset")
    if hasattr(values, "__iter__") and not hasattr(values, "__len__") and not hasattr(values, "__array__"):
        problem = f"is of type {kind}, which gives values one by one and has no length"
        raise OptionError(where, problem, "an array or a list", f"pass list({where})")
    if isinstance(values, str | bytes | set | frozenset) or not hasattr(values, "__len__"):
        problem = "is None" if values is None else f"is of type {kind}"
        raise OptionError(where, problem, "an array, a tensor, a list, or a Dataset with a length")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        problem = f"has {int(np.ma.getmaskarray(values).sum()):,} masked values"
        raise OptionError(where, problem, "a value everywhere", "fill them, or leave these examples out")


def _as_numpy(value: Any) -> NDArray[Any]:
    """Return one array; of a tensor also where it takes a gradient, is on a GPU, or of a type that NumPy lacks."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16" or str(value.dtype).startswith("torch.float8"):
            value = value.float()
    return np.asarray(value)


def _stacked(arrays: list[NDArray[Any]], name: str) -> NDArray[Any]:
    """Return arrays of one shape as one; raises OptionError."""
    for place, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            problem = f"holds shapes {arrays[0].shape} at 0 and {array.shape} at {place}"
            raise OptionError(param(name), problem, "values of one shape", "pad or crop them")
    return np.stack(arrays)


def as_numbers(values: object) -> NDArray[Any]:
    """Return examples as an array of numbers or bools; raises OptionError."""
    array = as_array(values, "X")
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (ValueError, TypeError) as problem:
            raise OptionError(X_PARAM, f"holds objects ({problem!s:.100})", "numbers of one shape") from problem
    if array.dtype.kind not in "buif":
        actions = {"c": "pass real and imaginary part as two channels", "U": "encode texts as whole numbers"}
        raise OptionError(X_PARAM, f"holds {array.dtype}", "numbers", actions.get(array.dtype.kind, ""))
    return array


def as_column(values: object, name: str, count: int | None = None) -> NDArray[Any]:
    """Return whole numbers, bools or texts, one for each example.

    Args:
        values: (N,) numbers or texts; whole numbers may be floats.
        name: the parameter, for messages.
        count: number of examples; None for any.

    Raises:
        OptionError: another shape, a missing value, or numbers that are not whole.
    """
    array = as_array(values, name)
    if array.ndim != 1 or not len(array) or len(array) != (len(array) if count is None else count):
        expected = f"({'N' if count is None else count},), one for each example of X"
        action = ""
        if array.ndim == 2 and array.size:
            action = (
                f"pass {param(name)}[:, 0]" if array.shape[1] == 1 else f"of one-hot rows pass {param(name)}.argmax(1)"
            )
        raise OptionError(param(name), f"is of shape {array.shape}", expected, action)
    missing = np.array([_is_missing(value) for value in array.tolist()], bool)
    if missing.any():
        problem = f"has no value at {int(missing.argmax())} ({int(missing.sum()):,} of {len(array):,} are missing)"
        raise OptionError(param(name), problem, "one for each example", "leave these examples out")
    if array.dtype.kind == "f":
        broken = (array != np.floor(array)) | (np.abs(array) >= 2**53)
        if broken.any():
            problem, action = f"holds {array[broken][0]:g}, a number that is not whole", ""
            if name == "y":
                action = "for a measured quantity make classes first, as with np.digitize: regression is not supported"
            raise OptionError(param(name), problem, "whole numbers or texts", action)
        array = array.astype(np.int64)
    if array.dtype.kind not in "biuUO" or (array.dtype.kind == "O" and not all(isinstance(v, str) for v in array)):
        raise OptionError(param(name), f"holds {array.dtype}", "whole numbers or texts, all of one kind")
    return array.astype(str) if array.dtype.kind == "O" else array


def _is_missing(value: object) -> bool:
    """Return whether a value stands for none: None, NaN, NaT, or pandas' NA, whose comparisons are no bools."""
    equal: object = value is not None and value == value
    return not (isinstance(equal, bool | np.bool_) and equal)


def is_dataset(values: object) -> bool:
    """Say whether values are a ``torch.utils.data.Dataset`` with a length, or its like."""
    has = hasattr(values, "__getitem__") and hasattr(values, "__len__") and not hasattr(values, "__array__")
    return has and not isinstance(values, Sequence) and not hasattr(values, "toarray")


def items_of(dataset: Any, y: object) -> tuple[list[object], object]:
    """Return the examples of a ``Dataset``, and their labels: the second of each pair, unless ``y`` has them.

    Raises:
        OptionError: its items are no pairs; with ``y``, they are mappings or hold several values beside the label.
    """
    items = [dataset[place] for place in range(len(dataset))]
    first = items[0] if items else ()
    if isinstance(first, Mapping):
        keys = listed([str(key) for key in first], 6)
        expected, action = (
            "(example, label) pairs",
            f"pass [item[KEY] for item in {X_PARAM}], and labels as {param('y')}",
        )
        raise OptionError(X_PARAM, f"is a Dataset whose items are mappings with {keys}", expected, action)
    lengths = {len(item) if isinstance(item, tuple | list) else 0 for item in items}
    if lengths - ({2} if y is None else {0, 1, 2}):
        number = max(lengths - {2})
        what = f"tuples of {number} values" if number else f"single values ({type(first).__name__})"
        expected = "(example, label) pairs" if y is None else "examples, or (example, label) pairs"
        action = (
            f"pass labels as {param('y')}" if not number else f"pass examples as {X_PARAM} and labels as {param('y')}"
        )
        raise OptionError(X_PARAM, f"is a Dataset whose items are {what}", expected, action)
    if y is None:
        return [item[0] for item in items], [item[1] for item in items]
    return [item[0] if isinstance(item, tuple) else item for item in items], y
