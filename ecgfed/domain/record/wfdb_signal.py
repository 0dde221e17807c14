"""The samples of one WFDB record of one segment, in millivolt, with the checks the wfdb package leaves to its caller.

Format: signal(5), https://physionet.org/physiotools/wag/.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.extras import require
from ecgfed.base.language import Spelled, message, messages
from ecgfed.base.safe_io import check_expansion
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import MILLIVOLT, check_samples, parse_units
from ecgfed.domain.record.recording import ReadOptions, spans
from ecgfed.domain.record.wfdb_decode import FORMATS, SignalFile
from ecgfed.domain.record.wfdb_header import beside, frame_of, header_path, unit

#: The value that stands for "no sample" in each format that has one (signal(5)).
_INVALID = {
    "16": -(2**15),
    "61": -(2**15),
    "160": -(2**15),
    "24": -(2**23),
    "32": -(2**31),
    "80": -(2**7),
    "212": -(2**11),
    "310": -(2**9),
    "311": -(2**9),
    "508": -(2**7),
    "516": -(2**15),
    "524": -(2**23),
}
_FLAC = ("508", "516", "524")
#: Frames that are read at once when a whole file is checked.
_CHECKED = 1 << 18


def signal_path(header: Any, base: Path, channel: int) -> Path:
    """Return the file that holds a channel."""
    return beside(base.parent, header.file_name[channel])


def signal_files(header: Any, base: Path, channels: Sequence[int]) -> tuple[Path, ...]:
    """Return the files that hold some channels, each once."""
    return tuple(dict.fromkeys(signal_path(header, base, channel) for channel in channels))


def signal_file(header: Any, base: Path, channel: int) -> tuple[SignalFile, slice] | None:
    """Return the file that holds a channel and where in a frame its samples lie; None for FLAC.

    Raises:
        RecordError: no such file, or signals of several formats in one.
    """
    path = signal_path(header, base, channel)
    if not path.is_file():
        problem = "does not exist"
        raise RecordError(path, problem, f"the signal file that {base.name}.hea names", "fetch or copy it again")
    together = [i for i, name in enumerate(header.file_name) if name == header.file_name[channel]]
    forms = {(str(header.fmt[i]), int(header.byte_offset[i] or 0)) for i in together}
    if len(forms) > 1:
        problem = (
            f"{header_path(base).name} gives {path.name} the formats {' and '.join(sorted(fmt for fmt, _ in forms))}"
        )
        raise RecordError(base, problem, "one format and offset a file", "correct the header")
    fmt, offset = forms.pop()
    if fmt in _FLAC:
        return None
    if fmt not in FORMATS:
        problem = f"lead {header.sig_name[channel]} has format {fmt}"
        expected = "a format that holds samples"
        raise RecordError(header_path(base), problem, expected, f"name another lead with {param('leads')}")
    width = sum(frame_of(header, i) for i in together)
    start = sum(frame_of(header, i) for i in together if i < channel)
    return SignalFile(path, fmt, offset, width), slice(start, start + frame_of(header, channel))


def settle(header: Any, base: Path, channels: Sequence[int], how: ReadOptions) -> tuple[str, ...]:
    """Set a header's length and gains to what is read, and return what has to be noted of them.

    A number of samples of 0, or none, is unspecified: then the files' length counts, and no checksum (header(5)).

    Args:
        header: of a record of one segment; changed.
        base: the record.
        channels: those that are read.
        how: ``repair`` reads what is there of a file that was cut short; ``units`` calibrates a signal without a gain.

    Raises:
        RecordError: a file that is missing, empty, or shorter than the header says.
    """
    stated, frame = header.sig_len or None, max(frame_of(header, c) for c in channels)
    check_samples((stated or 1) * frame, header_path(base))
    files = {signal_path(header, base, c): signal_file(header, base, c) for c in channels}
    frames_of_file = {path: file[0].frame_count for path, file in files.items() if file is not None}
    notes: list[str] = []
    if stated is None:
        header.checksum = [None] * header.n_sig
        header.sig_len = min(frames_of_file.values(), default=0)
        if not frames_of_file:
            problem = "does not say how many samples a compressed signal file holds"
            raise RecordError(header_path(base), problem, "their number", "write it into the record line")
        if len(set(frames_of_file.values())) > 1:
            ends = ", ".join(f"{path.name} {count_of(frames, 'sample')}" for path, frames in frames_of_file.items())
            notes.append(
                message(
                    "the header states no length and the signal files differ ({ends}): the shortest counts", ends=ends
                )
            )
    for path, frames in frames_of_file.items() if stated else ():
        notes += _against(path, frames, header, base, how)
    check_samples(header.sig_len * frame, base)
    for path in (path for path, file in files.items() if file is None):
        check_expansion(header.sig_len * frame, path.stat().st_size, path, RecordError)
    return (*notes, *_calibrate(header, base, channels, how))


def _against(path: Path, frames: int, header: Any, base: Path, how: ReadOptions) -> list[str]:
    """Compare a signal file's length with the header's; return what to note, shorten the header under ``repair``."""
    stated = header.sig_len
    if frames > stated + 1:  # the last group of bits may hold one more
        return [
            messages(
                "{file} holds {n} sample more than the {stated} that {header} states: it is not read",
                "{file} holds {n} samples more than the {stated} that {header} states: they are not read",
                frames - stated,
                file=path.name,
                stated=stated,
                header=f"{base.name}.hea",
            )
        ]
    if frames >= stated:
        return []
    if not how.repair:
        action = f"fetch or copy the record again, or read what is there with {param('repair=True')}"
        raise RecordError(path, f"is cut short at {frames} of {stated} samples", action=action)
    header.sig_len, header.checksum = frames, [None] * header.n_sig
    missing = (stated - frames) / header.fs
    return [
        message(
            "repaired: {file} holds {n:,} of {stated:,} samples; the last {missing:.1f} s are missing, and its "
            "checksum cannot be compared",
            file=path.name,
            n=frames,
            stated=stated,
            missing=missing,
        )
    ]


def _calibrate(header: Any, base: Path, channels: Sequence[int], how: ReadOptions) -> list[str]:
    """Give signals without a gain the one that ``--units`` states, else the default; return what to note of them."""
    bare = [c for c in channels if not header.calibrated[c]]
    if not bare:
        return []
    names = ", ".join(str(header.sig_name[c]) for c in bare)
    leads = messages("lead {names}", "leads {names}", len(bare), names=names)
    if not (how.units and "/" in how.units):
        return [
            message(
                "{leads} not calibrated (gain 0 or none in {header}): {steps:g} steps a {unit} assumed, as WFDB does; "
                "amplitudes may be wrong; state the gain with {option}, as in '200(0)/mV'",
                leads=leads,
                header=f"{base.name}.hea",
                steps=float(header.adc_gain[bare[0]]),
                unit=unit(header, base, bare[0]),
                option=Spelled(param("units")),
            )
        ]
    scale = parse_units(how.units, "units")
    for c in bare:
        header.adc_gain[c] = MILLIVOLT[unit(header, base, c)] / scale.mv
        if "(" in how.units:
            header.baseline[c] = scale.zero
    return [
        message(
            "{leads} not calibrated (gain 0 or none in {header}): {units} taken from {option}",
            leads=leads,
            header=f"{base.name}.hea",
            units=how.units,
            option=Spelled(param("units")),
        )
    ]


def _check_stated_sum(header: Any, base: Path, channel: int, total: int) -> None:
    """Compare the sum of a lead's steps with the header's 16-bit checksum, if it has one; raises RecordError.

    It may be written signed or unsigned (header(5)).
    """
    stated = header.checksum[channel]
    if stated is None:
        return
    summed = total % 65536
    if summed != int(stated) % 65536:
        problem = f"checksum of lead {header.sig_name[channel]} is {summed}"
        expected, action = f"{int(stated) % 65536} from {base.name}.hea", "the file is corrupt: fetch or copy it again"
        raise RecordError(signal_path(header, base, channel), problem, expected, action)


@dataclass(frozen=True)
class LeadSteps:
    """How the steps of one lead become millivolt.

    Attributes:
        baseline: the step of 0 mV.
        gain: steps a unit.
        millivolt: of a unit.
        invalid: the step that stands for no sample; None where the format has none.
        frame: samples in a frame.
        skew: samples by which the lead lags, whole frames of them.
    """

    baseline: float
    gain: float
    millivolt: float
    invalid: int | None
    frame: int
    skew: int

    @classmethod
    def of(cls, header: Any, base: Path, channel: int) -> "LeadSteps":
        """Return those of a channel; raises RecordError where its unit is no voltage."""
        millivolt = MILLIVOLT[unit(header, base, channel)]
        gain, baseline = float(header.adc_gain[channel]), float(header.baseline[channel])
        invalid = _INVALID.get(str(header.fmt[channel]))
        frame = frame_of(header, channel)
        return cls(baseline, gain, millivolt, invalid, frame, int(header.skew[channel] or 0) * frame)

    def to_mv(self, digital: Any, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return steps in millivolt, the skew left in; in ``out``, where it is there."""
        signal_mv: NDArray[np.float64] = np.subtract(digital, self.baseline, out=out)
        signal_mv /= self.gain
        if self.millivolt != 1:
            signal_mv *= self.millivolt
        if self.invalid is not None and (lost := digital == self.invalid).any():
            signal_mv[lost] = np.nan
        return signal_mv


@dataclass(frozen=True)
class Channels:
    """Some channels of a record of one segment, read as they are asked for.

    Attributes:
        stored: of each channel, the file it lies in and where in a frame; or all its samples, as they are stored, where
            its format can be read from its beginning alone.
        steps: of each channel, how they become millivolt; all have the same number of samples in a frame.
        frames: length of the record in frames.
    """

    stored: tuple[tuple[SignalFile, slice] | NDArray[Any], ...]
    steps: tuple[LeadSteps, ...]
    frames: int

    @classmethod
    def of(cls, header: Any, base: Path, channels: Sequence[int]) -> "Channels":
        """Return those of a header whose length is settled (``settle``); raises RecordError, by a checksum too."""
        stored = tuple(_stored(header, base, channel) for channel in channels)
        steps = tuple(LeadSteps.of(header, base, channel) for channel in channels)
        block = cls(stored, steps, int(header.sig_len))
        stated = [row for row, channel in enumerate(channels) if header.checksum[channel] is not None]
        totals = np.zeros(len(stated), np.int64)
        for start, stop in spans(block.frames, _CHECKED) if stated else ():
            totals += [int(samples.sum(dtype=np.int64)) for samples in block.digital(start, stop, stated)]
        for row, total in zip(stated, totals.tolist(), strict=True):
            _check_stated_sum(header, base, channels[row], total)
        return block

    @property
    def samples(self) -> int:
        """Length of a channel."""
        return self.frames * self.steps[0].frame

    @property
    def is_lazy(self) -> bool:
        """Whether no channel lies in memory."""
        return not any(isinstance(stored, np.ndarray) for stored in self.stored)

    def digital(self, start: int, stop: int, rows: Sequence[int]) -> list[NDArray[Any]]:
        """Return frames ``start`` to ``stop`` of some channels as they are stored; raises RecordError."""
        frame, signals = self.steps[0].frame, []
        frames: dict[SignalFile, NDArray[Any]] = {}
        for stored in (self.stored[row] for row in rows):
            if isinstance(stored, np.ndarray):
                signals.append(stored[start * frame : stop * frame])
                continue
            file, columns = stored
            if file not in frames:
                frames[file] = file.frames(start, stop)
            signals.append(frames[file][:, columns].ravel())
        return signals

    def __call__(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        """Read a block, as ``ReadBlock``; samples are a lead's own, several in each frame."""
        if any(self.steps[row].skew for row in rows):
            return np.concatenate([self._skewed(start, stop, row) for row in rows])
        return self._in_mv(start, stop, rows)

    def _in_mv(self, start: int, stop: int, rows: Sequence[int]) -> NDArray[np.float64]:
        out, frame = np.empty((len(rows), stop - start)), self.steps[0].frame
        first = start // frame
        for line, row, digital in zip(out, rows, self.digital(first, -(-stop // frame), rows), strict=True):
            self.steps[row].to_mv(digital[start - first * frame :][: stop - start], line)
        return out

    def _skewed(self, start: int, stop: int, row: int) -> NDArray[np.float64]:
        """Return a block of a lead that lags: what was recorded later, and nothing at its end."""
        skew = self.steps[row].skew
        first, last = min(start + skew, self.samples), min(stop + skew, self.samples)
        out = np.full((1, stop - start), np.nan)
        out[:, : last - first] = self._in_mv(first, last, [row])
        return out


def _stored(header: Any, base: Path, channel: int) -> tuple[SignalFile, slice] | NDArray[Any]:
    """Return where a channel's samples lie, or, of a format that is read from its beginning alone, the samples."""
    located = signal_file(header, base, channel)
    if located is None:
        return _read_flac(header, base, channel)
    file, columns = located
    if file.fmt != "8":
        return located
    # first differences, which begin from the header's initial value
    differences = file.frames(0, header.sig_len)[:, columns].ravel()
    return np.asarray(np.cumsum(differences, dtype=np.int64) + (header.init_value[channel] or 0))


def _read_flac(header: Any, base: Path, channel: int) -> NDArray[Any]:
    """Return the samples of a lead in a FLAC file, through wfdb and soundfile."""
    require("wfdb", f"reading FLAC of the record {base.name}")
    import wfdb

    path = signal_path(header, base, channel)
    try:
        parsed = wfdb.rdheader(str(base))
        if (parsed.file_name, parsed.fmt, parsed.byte_offset) != (
            header.file_name,
            header.fmt,
            [offset or None for offset in header.byte_offset],
        ):
            raise ValueError("the wfdb package reads other files or formats in its header")
        # The samples as they are stored, because the header's checksum is the sum of those.
        read = wfdb.rdrecord(str(base), channels=[channel], physical=False, smooth_frames=False, ignore_skew=True)
    except Exception as error:  # wfdb raises ValueError, IndexError and others for broken files
        problem = f"cannot be read as FLAC of format {header.fmt[channel]} ({str(error) or type(error).__name__:.160})"
        raise RecordError(path, problem, "a compressed signal file", "fetch or copy it again") from error
    digital: NDArray[Any] = read.e_d_signal[0]
    if len(digital) != header.sig_len * frame_of(header, channel):
        problem, frames = f"holds {count_of(len(digital), 'sample')}", header.sig_len * frame_of(header, channel)
        raise RecordError(path, problem, f"{frames} as {base.name}.hea says", "fetch or copy it again")
    return digital
