"""Reading recordings from NumPy arrays, .npy and .npz; a pickle is never loaded, and a header never believed alone."""

import math
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.record.checks import (
    MAX_SAMPLES,
    MAX_SPREAD_MV,
    STEPS_MV,
    Scale,
    check_fs,
    check_samples,
    check_size,
    parse_units,
)
from ecgfed.record.kinds import name_without_suffix
from ecgfed.record.leads import are_ecg, choose_lead, distinct, other_name
from ecgfed.record.recording import LongRecording, ReadOptions, Recording, spans
from ecgfed.safe_io import FREE_NUMBERS, NUMBERS_A_BYTE, open_regular
from ecgfed.text import count_of

#: The shorter axis counts leads; more than any recorder has means that the array is something else.
MAX_LEADS = 64
#: Samples that are looked at at once when a whole file is checked.
_CHECKED = 1 << 18
MAX_NUMBERS = 2 * MAX_SAMPLES
#: Dimensions that any NumPy makes.
_MAX_RANK = 32
_NAMED = ("signal", "fs", "units", "leads")
_EXPECTED = "(samples,), (samples, leads) or (leads, samples)"


class _Held(NamedTuple):
    """What a file holds: (leads, samples) numbers, and what it says of them."""

    signals: NDArray[Any]
    leads: tuple[str, ...] = ()
    fs_hz: float | None = None
    units: str | None = None


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
        raise RecordError(
            where, f"is not a NumPy array ({problem!s:.160})", "a .npy array", "write it again"
        ) from problem
    if dtype.hasobject:
        raise RecordError(where, "holds Python objects (a pickle)", "numbers", "save it with a numeric dtype")
    if dtype.kind not in "fiuU" or not 0 < dtype.itemsize <= (8 if dtype.kind != "U" else 4 * 256):
        raise RecordError(where, f"holds {dtype}", "real numbers", "save it with a numeric dtype")
    if len(shape) > _MAX_RANK or not all(type(length) is int and 0 <= length < 2**53 for length in shape):
        raise RecordError(where, f"claims shape {shape!r:.80}", _EXPECTED, "save one recording a file")
    count = math.prod(shape)
    if count * max(1, dtype.itemsize // 8) > min(limit, MAX_NUMBERS):
        raise RecordError(
            where, f"claims shape {shape}", f"at most {min(limit, MAX_NUMBERS)} numbers", "cut it into parts"
        )
    if count * dtype.itemsize != size - start:
        raise RecordError(
            where,
            f"holds {size - start} bytes of numbers",
            f"{count * dtype.itemsize} for shape {shape} of {dtype}",
            "copy or write it again",
        )
    return shape, fortran, dtype


def _read_array(stream: BinaryIO, size: int, where: str, limit: int) -> NDArray[Any]:
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


def _leads_by_samples(array: NDArray[Any], where: object) -> NDArray[Any]:
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


def is_npz(path: Path) -> bool:
    """Say whether a file is an archive of arrays: by its first bytes, whatever its suffix."""
    with open_regular(path) as stream:
        return stream.read(2) == b"PK"


def _read_npy(path: Path) -> _Held:
    with open_regular(path) as stream:
        array = _read_array(stream, path.stat().st_size, str(path), MAX_NUMBERS)
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
                    found = f"holds {len(archive.infolist())} arrays"
                    raise RecordError(path, found, f"at most {2 * MAX_LEADS}", "check that it is the right file")
                if name in held:  # readers differ in which of them counts
                    found = f"holds two arrays called {name!r:.60}"
                    raise RecordError(path, found, "one of each name", "write it again")
                with archive.open(entry) as stream:
                    held[name] = _read_array(stream, entry.file_size, f"{path}: {name}", left)  # type: ignore[arg-type]
                left -= max(held[name].size, held[name].nbytes // 8)
    except RecordError:
        raise
    except Exception as problem:  # zipfile raises BadZipFile, NotImplementedError, zlib.error, EOFError and others
        found = f"cannot be read as .npz ({problem!s:.160})"
        raise RecordError(path, found, "arrays saved by numpy.savez", "copy or write it again") from problem
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


class _AskedFor(NamedTuple):
    """Which leads of a file are wanted, and how their numbers become millivolt."""

    names: dict[int, str]
    fs_hz: float
    scale: Scale
    chosen: int
    rows: list[int]
    left_out: tuple[str, ...]
    stands_for: str


def _asked_for(
    held: _Held, path: Path, leads: tuple[str, ...], *, every_lead: bool, others: bool, how: ReadOptions
) -> _AskedFor:
    """Choose leads by their names; raises RecordError where nothing says names, units or sampling frequency."""
    names = how.columns or held.leads
    if not names:
        raise RecordError(
            path,
            f"does not name its {count_of(len(held.signals), 'lead')}",
            action="name them in order with --columns MLII,V1",
        )
    if len(names) != len(held.signals):
        said = "as --columns names" if how.columns else "as it names"
        action = "correct --columns" if how.columns else "name them in order with --columns MLII,V1"
        raise RecordError(path, f"holds {count_of(len(held.signals), 'lead')}", f"{len(names)}, {said}", action)
    fs_hz, scale = _fs(held, how, path), _scale(held, how, path)
    named = [row for row, name in enumerate(names) if name]
    if not named:
        raise RecordError(path, "has no lead with a name", action="name one with --columns MLII,V1")
    present = distinct([names[row] for row in named])
    called = dict(zip(named, present, strict=True))
    chosen = named[choose_lead(present, path, leads)]
    ecg = [row for row, heart in zip(named, are_ecg(present), strict=True) if heart or others or row == chosen]
    return _AskedFor(
        called,
        fs_hz,
        scale,
        chosen,
        ecg if every_lead else [chosen],
        left_out=tuple(f"{called[row]}: no ECG" for row in named if every_lead and row not in ecg),
        stands_for=other_name(leads, called[chosen]),
    )


def open_npy(
    path: Path, leads: tuple[str, ...], *, every_lead: bool, how: ReadOptions, least: int
) -> LongRecording | None:
    """Open a ``.npy`` file of at least ``least`` samples a lead, to be read by blocks.

    Returns:
        None where it has to be read whole: a short one, or values so far apart that ``check_size`` has to look at all.

    Raises:
        RecordError: as ``read_numpy``.
    """
    with open_regular(path) as stream:
        shape, fortran, dtype = array_header(stream, path.stat().st_size, str(path), MAX_NUMBERS)
        offset = stream.tell()
    if len(shape) not in (1, 2) or dtype.kind == "U" or max(shape) < least:
        return None
    # nothing is read of it: it stands for the array's shape and type
    held = _Held(_leads_by_samples(np.broadcast_to(np.empty((), dtype), shape), path))
    asked = _asked_for(held, path, leads, every_lead=every_lead, others=False, how=how)
    by_sample = len(shape) == 2 and (shape[0] > shape[1]) != fortran
    width, samples = (held.signals.shape[0] if by_sample else 1), held.signals.shape[1]
    block = _Numbers(path, offset, dtype, samples, width, tuple(asked.rows), asked.scale)
    kept = tuple(asked.names[row] for row in asked.rows)
    if not _plausible(block, len(kept)):
        return None
    return LongRecording(
        name_without_suffix(path),
        path,
        asked.names[asked.chosen],
        kept,
        asked.fs_hz,
        samples,
        block,
        (),
        files=(path,),
        left_out=asked.left_out,
        stands_for=asked.stands_for,
    )


@dataclass(frozen=True)
class _Numbers:
    """The numbers of a file.

    Attributes:
        path: the file.
        offset: where they begin, in bytes.
        dtype: their type.
        samples: of a lead.
        width: numbers beside one another that are of one sample: the leads, or 1 where each lead lies by itself.
        rows: the leads that are read.
        scale: how a number becomes millivolt.
    """

    path: Path
    offset: int
    dtype: np.dtype[Any]
    samples: int
    width: int
    rows: tuple[int, ...]
    scale: Scale

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``."""
        if self.width > 1:
            numbers = self._stretch(start * self.width, (stop - start) * self.width).reshape(-1, self.width).T
            found = numbers[[self.rows[row] for row in rows]]
        else:
            found = np.stack([self._stretch(self.rows[row] * self.samples + start, stop - start) for row in rows])
        with np.errstate(over="ignore", invalid="ignore"):
            signals: NDArray[np.float64] = (found.astype(np.float64) - self.scale.zero) * self.scale.mv
        return signals

    def _stretch(self, first: int, count: int) -> NDArray[Any]:
        found = np.fromfile(self.path, self.dtype, count, offset=self.offset + first * self.dtype.itemsize)
        if len(found) != count:
            raise RecordError(self.path, "has become shorter", "the file as it was opened", "copy it again")
        return found


def _plausible(block: _Numbers, leads: int) -> bool:
    """Say whether ``check_size`` would find nothing amiss with any lead, as far as a look at each block tells."""
    low, high, whole = np.full(leads, np.inf), np.full(leads, -np.inf), np.ones(leads, np.bool_)
    for start, stop in spans(block.samples, _CHECKED):
        signals = block(start, stop, range(leads))
        if np.isinf(signals).any():
            return False
        held = ~np.isnan(signals)
        low = np.minimum(low, np.min(signals, axis=1, where=held, initial=np.inf))
        high = np.maximum(high, np.max(signals, axis=1, where=held, initial=-np.inf))
        whole &= ((signals == np.rint(signals)) | ~held).all(axis=1)
    reach = np.where(high >= low, high - low, 0.0)
    return bool((reach <= MAX_SPREAD_MV).all() and not (whole & (reach >= STEPS_MV)).any())


def read_numpy(
    path: Path, leads: tuple[str, ...], *, every_lead: bool = False, others: bool = False, how: ReadOptions
) -> Recording:
    """Read a recording from ``.npy`` or ``.npz``.

    Args:
        path: ``.npy`` of (samples,), (samples, leads) or (leads, samples), the longer axis being time; ``.npz`` with
            ``signal`` so and ``leads``, or one array (samples,) under each lead's name, and perhaps ``fs``, ``units``.
        leads: lead names in order of preference.
        every_lead: read all of them that are an ECG's.
        others: with every lead: also what is no ECG.
        how: names (``--columns``), fs and units, where the file does not say them.

    Raises:
        RecordError: objects, complex numbers, another rank, a file shorter or longer than its header says, nothing
            that says names, units or sampling frequency, a missing lead.
    """
    if not path.is_file():
        raise RecordError(path, "does not exist", "a NumPy array", "check the path")
    held = _read_npz(path) if is_npz(path) else _read_npy(path)
    asked = _asked_for(held, path, leads, every_lead=every_lead, others=others, how=how)
    scale = asked.scale
    with np.errstate(over="ignore", invalid="ignore"):
        signals = (held.signals[asked.rows].astype(np.float64) - scale.zero) * scale.mv
    kept = tuple(asked.names[row] for row in asked.rows)
    check_size(signals, kept, path)
    return Recording(
        name_without_suffix(path),
        path,
        asked.names[asked.chosen],
        kept,
        asked.fs_hz,
        signals,
        (),
        files=(path,),
        left_out=asked.left_out,
        stands_for=asked.stands_for,
    )
