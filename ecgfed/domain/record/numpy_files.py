"""Reading recordings from NumPy arrays, .npy and .npz; a pickle is never loaded, and a header never believed alone."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.language import message, messages, tr_later
from ecgfed.base.safe_io import FREE_NUMBERS, NUMBERS_A_BYTE, open_regular
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import (
    MAX_SPREAD_MV,
    STEPS_MV,
    Scale,
    check_fs,
    check_size,
    check_stated,
    contradiction,
    may_hold_sentinels,
    parse_units,
    sentinels_to_nan,
)
from ecgfed.domain.record.kinds import name_without_suffix
from ecgfed.domain.record.leads import are_ecg, choose_lead, distinct, requested_alias
from ecgfed.domain.record.numpy_arrays import MAX_LEADS, MAX_NUMBERS, array_header, leads_by_samples, read_array
from ecgfed.domain.record.recording import LazySignals, ReadOptions, Recording, spans

_NAMED = ("signal", "fs", "units", "leads")
#: Samples that are looked at at once when a whole file is checked.
_CHECKED = 1 << 18


class _Contents(NamedTuple):
    """What a file holds: (leads, samples) numbers, and what it says of them."""

    signals: NDArray[Any]
    leads: tuple[str, ...] = ()
    fs_hz: float | None = None
    units: str | None = None


def is_npz(path: Path) -> bool:
    """Say whether a file is an archive of arrays: by its first bytes, whatever its suffix."""
    with open_regular(path) as stream:
        return stream.read(2) == b"PK"


class _Npy(NamedTuple):
    """What the header of a ``.npy`` file says.

    Attributes:
        contents: of the file; its signals have the array's shape and type, and none of its numbers.
        offset: where the numbers begin, in bytes.
        width: numbers beside one another that are of one sample: the leads, or 1 where each lead lies by itself.
    """

    contents: _Contents
    offset: int
    width: int

    @property
    def samples(self) -> int:
        """Length of a lead."""
        return int(self.contents.signals.shape[1])


def _open_npy(path: Path) -> _Npy:
    with open_regular(path) as stream:
        shape, fortran, dtype = array_header(stream, path.stat().st_size, str(path), MAX_NUMBERS)
        offset = stream.tell()
    signals = leads_by_samples(np.broadcast_to(np.empty((), dtype), shape), path)
    by_sample = len(shape) == 2 and (shape[0] > shape[1]) != fortran
    return _Npy(_Contents(signals), offset, signals.shape[0] if by_sample else 1)


def _scalar(array: NDArray[Any], where: str) -> Any:
    if array.size != 1:
        raise RecordError(where, f"has shape {array.shape}", "one value")
    return array.reshape(())[()]


def _read_npz(path: Path) -> _Contents:
    """Read ``signal`` with ``leads``, or an array for each lead under its name; ``fs`` and ``units`` where they are."""
    try:
        size = path.stat().st_size
        budget = FREE_NUMBERS + NUMBERS_A_BYTE * size  # a file of 1 MB can claim a gigabyte: no signal shrinks so far
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            arrays: dict[str, NDArray[Any]] = {}
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                if len(arrays) == 2 * MAX_LEADS:
                    problem = f"holds {len(archive.infolist())} arrays"
                    raise RecordError(path, problem, f"at most {2 * MAX_LEADS}", "check that it is the right file")
                if name in arrays:  # readers differ in which of them counts
                    problem = f"holds two arrays called {name!r:.60}"
                    raise RecordError(path, problem, "one of each name", "write it again")
                with archive.open(entry) as stream:
                    arrays[name] = read_array(stream, entry.file_size, f"{path}: {name}", budget)  # type: ignore[arg-type]
                budget -= max(arrays[name].size, arrays[name].nbytes // 8)
    except RecordError:
        raise
    except Exception as error:  # zipfile raises BadZipFile, NotImplementedError, zlib.error, EOFError and others
        problem = f"cannot be read as .npz ({error!s:.160})"
        raise RecordError(path, problem, "arrays saved by numpy.savez", "copy or write it again") from error
    fs = _scalar(arrays["fs"], f"{path}: fs") if "fs" in arrays else None
    if fs is not None and arrays["fs"].dtype.kind not in "fiu":
        raise RecordError(f"{path}: fs", f"is {str(fs)!r}", "a number in Hz")
    units = str(_scalar(arrays["units"], f"{path}: units")) if "units" in arrays else None
    leads = tuple(str(name) for name in arrays["leads"].ravel()) if "leads" in arrays else ()
    if "signal" in arrays:
        signals = leads_by_samples(arrays["signal"], f"{path}: signal")
    else:
        rows = {name: array for name, array in arrays.items() if name not in _NAMED}
        shapes = {array.shape for array in rows.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1 or leads:
            problem = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
            expected = "signal and leads, or one array (samples,) for each lead, and beside them fs and units alone"
            raise RecordError(path, f"holds {problem}", expected)
        leads = tuple(rows)
        signals = np.stack([leads_by_samples(array, f"{path}: {name}")[0] for name, array in rows.items()])
    return _Contents(signals, leads, None if fs is None else float(fs), units)


def _scale(contents: _Contents, how: ReadOptions, path: Path) -> Scale | None:
    """Return how numbers become millivolt, None where nothing states it; raises RecordError for a contradiction."""
    if contents.units is not None:
        scale = parse_units(contents.units, f"{path}: units")
        if how.units is not None and parse_units(how.units, "units") != scale:
            raise contradiction(path, f"is in {contents.units}", "units", how.units)
        return scale
    return None if how.units is None else parse_units(how.units, "units")


def _fs(contents: _Contents, how: ReadOptions, path: Path) -> float | None:
    """Return the sampling frequency, None where nothing states it; raises RecordError for a contradiction."""
    fs_hz = how.fs_hz if contents.fs_hz is None else contents.fs_hz
    if fs_hz is None:
        return None
    check_fs(fs_hz, path, f"{fs_hz:g}", f"correct {param('fs_hz')}" if contents.fs_hz is None else "correct fs in it")
    if how.fs_hz is not None and how.fs_hz != fs_hz:
        raise contradiction(path, f"says fs {fs_hz:g} Hz", "fs_hz", f"{how.fs_hz:g}")
    return fs_hz


def _unstated(
    contents: _Contents, fs_hz: float | None, scale: Scale | None, named: bool, path: Path
) -> list[RecordError]:
    """Return all that a file leaves open."""
    missing = []
    if not named:
        problem = messages("does not name its {n} lead", "does not name its {n} leads", len(contents.signals))
        action = f"name them in order with {param('columns=MLII')},V1"
        missing.append(RecordError(path, problem, action=action, code="not-stated"))
    if fs_hz is None:
        action = f"say it with {param('fs_hz')}"
        missing.append(
            RecordError(path, tr_later("does not say its sampling frequency"), action=action, code="not-stated")
        )
    if scale is None:
        whole = contents.signals.dtype.kind in "iu"
        problem = message("holds whole numbers without units") if whole else message("holds numbers without units")
        expected, action = "mV, uV, V or steps as in 200(1024)/mV", f"state the units with {param('units')}"
        missing.append(RecordError(path, problem, expected, action, code="not-stated"))
    return missing


class StatedArray(NamedTuple):
    """What a NumPy file states.

    Attributes:
        leads: names of its leads; numbered where it does not name them.
        fs_hz: sampling frequency, or None.
        samples: of each lead.
        missing: all that is not stated.
    """

    leads: tuple[str, ...]
    fs_hz: float | None
    samples: int
    missing: tuple[RecordError, ...]


def stated_array(path: Path, how: ReadOptions) -> StatedArray:
    """Return what a file states and all that it leaves open; raises RecordError for what is wrong with it."""
    npy = None if is_npz(path) else _open_npy(path)
    contents = _read_npz(path) if npy is None else npy.contents
    fs_hz, scale, names = _fs(contents, how, path), _scale(contents, how, path), how.columns or contents.leads
    missing = _unstated(contents, fs_hz, scale, bool(names), path)
    numbered = tuple(f"lead {number + 1}" for number in range(len(contents.signals)))
    samples = int(contents.signals.shape[1])
    return StatedArray(tuple(filter(None, names)) or numbered, fs_hz, samples, tuple(missing))


class _Selection(NamedTuple):
    """Which leads of a file are wanted, and how their numbers become millivolt."""

    names: dict[int, str]
    fs_hz: float
    scale: Scale
    chosen: int
    rows: list[int]
    skipped: tuple[str, ...]
    requested_as: str


def _select(
    contents: _Contents,
    path: Path,
    leads: tuple[str, ...],
    *,
    every_lead: bool,
    include_non_ecg: bool,
    how: ReadOptions,
) -> _Selection:
    """Choose leads by their names; raises RecordError where nothing says names, units or sampling frequency."""
    names = how.columns or contents.leads
    fs_hz, scale = _fs(contents, how, path), _scale(contents, how, path)
    check_stated(_unstated(contents, fs_hz, scale, bool(names), path))
    assert fs_hz is not None
    assert scale is not None
    if len(names) != len(contents.signals):
        source = f"as {param('columns')} names" if how.columns else "as it names"
        action = f"correct {param('columns')}" if how.columns else f"name them in order with {param('columns=MLII')},V1"
        raise RecordError(path, f"holds {count_of(len(contents.signals), 'lead')}", f"{len(names)}, {source}", action)
    named = [row for row, name in enumerate(names) if name]
    if not named:
        problem = "has no lead with a name"
        raise RecordError(path, problem, action=f"name one with {param('columns=MLII')},V1", code="not-stated")
    present = distinct([names[row] for row in named])
    called = dict(zip(named, present, strict=True))
    chosen = named[choose_lead(present, path, leads)]
    ecg = [row for row, heart in zip(named, are_ecg(present), strict=True) if heart or include_non_ecg or row == chosen]
    return _Selection(
        called,
        fs_hz,
        scale,
        chosen,
        ecg if every_lead else [chosen],
        skipped=tuple(f"{called[row]}: no ECG" for row in named if every_lead and row not in ecg),
        requested_as=requested_alias(leads, called[chosen]),
    )


@dataclass(frozen=True)
class _Numbers:
    """Reads leads of a ``.npy`` file.

    Attributes:
        path: the file.
        npy: what its header says.
        rows: the leads that are read.
        scale: how a number becomes millivolt.
    """

    path: Path
    npy: _Npy
    rows: tuple[int, ...]
    scale: Scale

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``."""
        return self.scale.to_mv(self.numbers(start, stop, rows))

    def numbers(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[Any]:
        """Return the stored numbers of a block."""
        width = self.npy.width
        if width > 1:
            numbers = self._segment(start * width, (stop - start) * width).reshape(-1, width).T
            return numbers[[self.rows[row] for row in rows]]
        return np.stack([self._segment(self.rows[row] * self.npy.samples + start, stop - start) for row in rows])

    def _segment(self, first: int, count: int) -> NDArray[Any]:
        dtype = self.npy.contents.signals.dtype
        numbers = np.fromfile(self.path, dtype, count, offset=self.npy.offset + first * dtype.itemsize)
        if len(numbers) != count:
            raise RecordError(self.path, "has become shorter", "the file as it was opened", "copy it again")
        return numbers


def _plausible(block: _Numbers) -> bool:
    """Return whether ``check_size`` and ``sentinels_to_nan`` would leave every lead as it is, block by block."""
    leads = len(block.rows)
    ends, integers = [], np.ones(leads, np.bool_)
    for start, stop in spans(block.npy.samples, _CHECKED):
        signals = block(start, stop, range(leads))
        if np.isinf(signals).any():
            return False
        is_sample = ~np.isnan(signals)
        low = np.min(signals, axis=1, where=is_sample, initial=np.inf)
        high = np.max(signals, axis=1, where=is_sample, initial=-np.inf)
        next_low = np.min(signals, axis=1, where=is_sample & (signals > low[:, None]), initial=np.inf)
        next_high = np.max(signals, axis=1, where=is_sample & (signals < high[:, None]), initial=-np.inf)
        ends.append(np.stack([low, high, next_low, next_high], axis=1))
        integers &= ((signals == np.rint(signals)) | ~is_sample).all(axis=1)
    for of_lead, is_integer in zip(np.concatenate(ends, axis=1), integers, strict=True):
        values = np.unique(of_lead[np.isfinite(of_lead)])
        reach = float(values[-1] - values[0]) if len(values) else 0.0
        if reach > MAX_SPREAD_MV or (is_integer and reach >= STEPS_MV):
            return False
        if may_hold_sentinels(values, np.rint(values / block.scale.mv + block.scale.zero)):
            return False
    return True


def read_numpy(
    path: Path, leads: tuple[str, ...], *, every_lead: bool = False, include_non_ecg: bool = False, how: ReadOptions
) -> Recording:
    """Read a recording from ``.npz``, or open one of ``.npy``, which is lazy.

    Args:
        path: ``.npy`` of (samples,), (samples, leads) or (leads, samples), the longer axis being time; ``.npz`` with
            ``signal`` so and ``leads``, or one array (samples,) under each lead's name, and perhaps ``fs``, ``units``.
        leads: lead names in order of preference.
        every_lead: read all of them that are an ECG's.
        include_non_ecg: with every lead: also what is no ECG.
        how: names (``--columns``), fs and units, where the file does not say them.

    Raises:
        RecordError: objects, complex numbers, another rank, a file shorter or longer than its header says, nothing
            that says names, units or sampling frequency, a missing lead.
    """
    if not path.is_file():
        raise RecordError(path, "does not exist", "a NumPy array", "check the path")
    npy = None if is_npz(path) else _open_npy(path)
    contents = _read_npz(path) if npy is None else npy.contents
    selection = _select(contents, path, leads, every_lead=every_lead, include_non_ecg=include_non_ecg, how=how)
    names, rows = tuple(selection.names[row] for row in selection.rows), tuple(range(len(selection.rows)))
    block = None if npy is None else _Numbers(path, npy, tuple(selection.rows), selection.scale)
    source: NDArray[np.float64] | LazySignals
    notes: tuple[str, ...] = ()
    if block is not None and _plausible(block):
        source = LazySignals(block.npy.samples, block, rows)
    else:
        stored = contents.signals[selection.rows] if block is None else block.numbers(0, block.npy.samples, rows)
        numbers = stored.astype(np.float64)
        notes = sentinels_to_nan(numbers, names)
        source = selection.scale.to_mv(numbers)
        check_size(source, names, path)
    return Recording(
        name_without_suffix(path),
        path,
        selection.names[selection.chosen],
        names,
        selection.fs_hz,
        source,
        (),
        files=(path,),
        skipped=selection.skipped,
        requested_as=selection.requested_as,
        notes=notes,
    )
