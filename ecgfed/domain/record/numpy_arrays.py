"""Arrays in NumPy's format: a header is weighed against the file's size before anything is read; no pickle is."""

import math
import warnings
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.checks import MAX_SAMPLES, check_samples

#: The shorter axis counts leads; more than any recorder has means that the array is something else.
MAX_LEADS = 64
MAX_NUMBERS = 2 * MAX_SAMPLES
#: Dimensions that any NumPy makes.
_MAX_RANK = 32
_EXPECTED = "(samples,), (samples, leads) or (leads, samples)"


def array_header(stream: BinaryIO, size: int, where: str, limit: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of one array of a file of ``size`` bytes, and weigh it against them.

    Returns:
        Shape, whether the first axis is the one that lies close together (Fortran's order), and the element type.

    Raises:
        RecordError: objects (a pickle), complex or other kinds, a header that claims more or less than there is.
    """
    try:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file that Python 2 wrote, which is read as any other
            shape, fortran, dtype = read_header(stream)
        start = stream.tell()
    except Exception as problem:  # numpy raises ValueError for most, and what Python's parser raises
        expected = "a .npy array"
        raise RecordError(where, f"is not a NumPy array ({problem!s:.160})", expected, "write it again") from problem
    if dtype.hasobject:
        raise RecordError(where, "holds Python objects (a pickle)", "numbers", "save it with a numeric dtype")
    if dtype.kind not in "fiuU" or not 0 < dtype.itemsize <= (8 if dtype.kind != "U" else 4 * 256):
        raise RecordError(where, f"holds {dtype}", "real numbers", "save it with a numeric dtype")
    if len(shape) > _MAX_RANK or not all(type(length) is int and 0 <= length < 2**53 for length in shape):
        raise RecordError(where, f"claims shape {shape!r:.80}", _EXPECTED, "save one recording a file")
    count = math.prod(shape)
    if count * max(1, dtype.itemsize // 8) > min(limit, MAX_NUMBERS):
        expected = f"at most {min(limit, MAX_NUMBERS)} numbers"
        raise RecordError(where, f"claims shape {shape}", expected, "cut it into parts")
    if count * dtype.itemsize != size - start:
        expected = f"{count * dtype.itemsize} for shape {shape} of {dtype}"
        raise RecordError(where, f"holds {size - start} bytes of numbers", expected, "copy or write it again")
    return shape, fortran, dtype


def read_array(stream: BinaryIO, size: int, where: str, limit: int) -> NDArray[Any]:
    """Read one array of a file of ``size`` bytes once its header has been weighed against them; see ``array_header``.

    Raises:
        RecordError: as ``array_header``, and a stream that ends early.
    """
    shape, fortran, dtype = array_header(stream, size, where, limit)
    raw = stream.read(math.prod(shape) * dtype.itemsize)
    if len(raw) != math.prod(shape) * dtype.itemsize:
        raise RecordError(where, "ends early", f"{math.prod(shape) * dtype.itemsize} bytes", "copy or write it again")
    array: NDArray[Any] = np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")
    return array


def leads_by_samples(array: NDArray[Any], where: object) -> NDArray[Any]:
    """Turn an array so that it is (leads, samples): the longer axis is time; raises RecordError."""
    if array.dtype.kind not in "fiu":
        raise RecordError(where, f"holds {array.dtype}", "real numbers", "save it with a numeric dtype")
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise RecordError(where, f"has shape {array.shape}", _EXPECTED, "save one recording a file")
    check_samples(max(array.shape) if array.size else 0, where)
    if array.shape[0] == array.shape[1] and array.size > 1:
        raise RecordError(where, f"has shape {array.shape}", f"{_EXPECTED}, the longer axis being time")
    if min(array.shape) > MAX_LEADS:
        raise RecordError(where, f"has shape {array.shape}", f"at most {MAX_LEADS} leads on the shorter axis")
    return array.T if array.shape[0] > array.shape[1] else array
