"""Reading recordings from NumPy arrays, .npy and .npz; a pickle is never loaded, and a header never believed alone."""

import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.gate import FREE_NUMBERS, NUMBERS_A_BYTE, open_regular
from ecgfed.record.checks import MAX_SAMPLES, Scale, check_fs, check_samples, check_size, choose_lead, parse_units
from ecgfed.record.recording import ReadOptions, Recording

#: The shorter axis counts leads; more than any recorder has means that the array is something else.
MAX_LEADS = 64
_MAX_NUMBERS = 2 * MAX_SAMPLES
_NAMED = ("signal", "fs", "units", "leads")
_EXPECTED = "(samples,), (samples, leads) or (leads, samples)"


class _Held(NamedTuple):
    """What a file holds: (leads, samples) numbers, and what it says of them."""

    signals: NDArray[Any]
    leads: tuple[str, ...] = ()
    fs_hz: float | None = None
    units: str | None = None


def _read_array(stream: BinaryIO, size: int, where: str, limit: int) -> NDArray[Any]:
    """Read one array of a file of ``size`` bytes once its header has been weighed against them.

    Raises:
        RecordError: objects (a pickle), complex or other kinds, a header that claims more or less than there is.
    """
    try:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
        start = stream.tell()
    except Exception as problem:  # numpy raises ValueError for most, and what Python's parser raises
        raise RecordError(
            where, f"is not an array of numpy ({problem!s:.160})", "a .npy array", "write it again"
        ) from problem
    if dtype.hasobject:
        raise RecordError(where, "holds Python objects (a pickle)", "numbers", "save it with a numeric dtype")
    if dtype.kind not in "fiuU" or dtype.itemsize > (8 if dtype.kind != "U" else 4 * 256):
        raise RecordError(where, f"holds {dtype}", "real numbers", "save it with a numeric dtype")
    count = math.prod(shape)
    if count * max(1, dtype.itemsize // 8) > min(limit, _MAX_NUMBERS) or any(length < 0 for length in shape):
        raise RecordError(
            where, f"claims shape {shape}", f"at most {min(limit, _MAX_NUMBERS)} numbers", "cut it into parts"
        )
    if count * dtype.itemsize != size - start:
        raise RecordError(
            where,
            f"holds {size - start} bytes of numbers",
            f"{count * dtype.itemsize} for shape {shape} of {dtype}",
            "copy or write it again",
        )
    raw = stream.read(count * dtype.itemsize)
    if len(raw) != count * dtype.itemsize:
        raise RecordError(where, "ends early", f"{count * dtype.itemsize} bytes", "copy or write it again")
    array: NDArray[Any] = np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")
    return array


def _leads_by_samples(array: NDArray[Any], where: object) -> NDArray[Any]:
    """Turn an array so that it is (leads, samples): the longer axis is time; raises RecordError."""
    if array.dtype.kind not in "fiu":
        raise RecordError(where, f"holds {array.dtype}", "real numbers")
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


def _read_npy(path: Path) -> _Held:
    with open_regular(path) as stream:
        array = _read_array(stream, path.stat().st_size, str(path), _MAX_NUMBERS)
    return _Held(_leads_by_samples(array, path))


def _scalar(array: NDArray[Any], where: str) -> Any:
    if array.size != 1:
        raise RecordError(where, f"has shape {array.shape}", "one value")
    return array.reshape(())[()]


def _read_npz(path: Path) -> _Held:
    """Read ``signal`` with ``leads``, or an array for each lead under its name; ``fs`` and ``units`` where they are."""
    try:
        size = path.stat().st_size
        left = FREE_NUMBERS + NUMBERS_A_BYTE * size  # a file of 1 MB can claim a gigabyte: no signal shrinks so far
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            held: dict[str, NDArray[Any]] = {}
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                if len(held) == 2 * MAX_LEADS:
                    raise RecordError(path, f"holds {len(archive.infolist())} arrays", f"at most {2 * MAX_LEADS}")
                with archive.open(entry) as stream:
                    held[name] = _read_array(stream, entry.file_size, f"{path}: {name}", left)  # type: ignore[arg-type]
                left -= max(held[name].size, held[name].nbytes // 8)
    except RecordError:
        raise
    except Exception as problem:  # zipfile raises BadZipFile, NotImplementedError, zlib.error, EOFError and others
        raise RecordError(
            path, f"cannot be read as .npz ({type(problem).__name__}: {problem})", "arrays saved by numpy.savez"
        ) from problem
    fs = _scalar(held["fs"], f"{path}: fs") if "fs" in held else None
    if fs is not None and held["fs"].dtype.kind not in "fiu":
        raise RecordError(f"{path}: fs", f"is {str(fs)!r}", "a number in Hz")
    units = str(_scalar(held["units"], f"{path}: units")) if "units" in held else None
    leads = tuple(str(name) for name in held["leads"].ravel()) if "leads" in held else ()
    if "signal" in held:
        signals = _leads_by_samples(held["signal"], f"{path}: signal")
    else:
        rows = {name: array for name, array in held.items() if name not in _NAMED}
        shapes = {array.shape for array in rows.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1 or leads:
            found = ", ".join(f"{name} {array.shape}" for name, array in held.items()) or "nothing"
            expected = "signal and leads, or one array (samples,) for each lead, and beside them fs and units alone"
            raise RecordError(path, f"holds {found}", expected)
        leads = tuple(rows)
        signals = np.stack([_leads_by_samples(array, f"{path}: {name}")[0] for name, array in rows.items()])
    return _Held(signals, leads, None if fs is None else float(fs), units)


def _scale(held: _Held, how: ReadOptions, path: Path) -> Scale:
    if held.units is not None:
        own = parse_units(held.units, f"{path}: units")
        if how.units is not None and parse_units(how.units, "--units") != own:
            raise RecordError(path, f"is in {held.units}", f"{how.units} as --units says", "leave --units out")
        return own
    if how.units is None:
        kind = "whole numbers" if held.signals.dtype.kind in "iu" else "numbers"
        raise RecordError(
            path, f"holds {kind} without units", "mV, uV, V or steps as in 200(1024)/mV", "say them with --units"
        )
    return parse_units(how.units, "--units")


def _fs(held: _Held, how: ReadOptions, path: Path) -> float:
    fs_hz = how.fs_hz if held.fs_hz is None else held.fs_hz
    if fs_hz is None:
        raise RecordError(path, "does not say its sampling frequency", action="say it with --fs")
    check_fs(fs_hz, path, f"{fs_hz:g}", "correct --fs" if held.fs_hz is None else "correct fs in it")
    if how.fs_hz is not None and how.fs_hz != fs_hz:
        raise RecordError(path, f"says fs {fs_hz:g} Hz", f"{how.fs_hz:g} as --fs says", "leave --fs out")
    return fs_hz


def read_numpy(path: Path, leads: tuple[str, ...], *, every_lead: bool = False, how: ReadOptions) -> Recording:
    """Read a recording from ``.npy`` or ``.npz``.

    Args:
        path: ``.npy`` of (samples,), (samples, leads) or (leads, samples), the longer axis being time; ``.npz`` with
            ``signal`` so and ``leads``, or one array (samples,) under each lead's name, and perhaps ``fs``, ``units``.
        leads: lead names in order of preference.
        every_lead: read all of them.
        how: names (``--columns``), fs and units, where the file does not say them.

    Raises:
        RecordError: objects, complex numbers, another rank, a file shorter or longer than its header says, nothing
            that says names, units or sampling frequency, a missing lead.
    """
    if not path.is_file():
        raise RecordError(path, "does not exist", "an array of numpy", "check the path")
    held = _read_npz(path) if path.suffix.casefold() == ".npz" else _read_npy(path)
    names = how.columns or held.leads
    if not names:
        raise RecordError(
            path, f"does not name its {len(held.signals)} leads", action="name them in order with --columns MLII,V1"
        )
    if len(names) != len(held.signals):
        said = "as --columns names" if how.columns else "as it names"
        raise RecordError(path, f"holds {len(held.signals)} leads", f"{len(names)}, {said}")
    fs_hz, scale = _fs(held, how, path), _scale(held, how, path)
    named = [row for row, name in enumerate(names) if name]
    chosen = named[choose_lead([names[row] for row in named], path, leads)] if named else -1
    if chosen < 0:
        raise RecordError(path, "has no lead with a name", "one in --columns")
    rows = named if every_lead else [chosen]
    with np.errstate(over="ignore", invalid="ignore"):
        signals = (held.signals[rows].astype(np.float64) - scale.zero) * scale.mv
    kept = tuple(names[row] for row in rows)
    check_size(signals, kept, path)
    return Recording(path.stem, path, names[chosen], kept, fs_hz, signals, (), files=(path,))
