"""The samples of one WFDB record of one segment, in millivolt, with the checks the wfdb package leaves to its caller.

Format: signal(5), https://physionet.org/physiotools/wag/.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.errors import RecordError
from ecgfed.gate import check_expansion
from ecgfed.record.checks import MILLIVOLT, check_samples
from ecgfed.record.wfdb_header import header_path, unit

#: Bytes a sample takes in each uncompressed WFDB format.
_SAMPLE_BYTES = {
    "8": 1.0,
    "16": 2.0,
    "24": 3.0,
    "32": 4.0,
    "61": 2.0,
    "80": 1.0,
    "160": 2.0,
    "212": 1.5,
    "310": 4 / 3,
    "311": 4 / 3,
}
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


def signal_files(header: Any, base: Path, channels: list[int]) -> tuple[Path, ...]:
    """Return the files that hold some channels, each once."""
    return tuple(dict.fromkeys(base.parent / header.file_name[channel] for channel in channels))


def check_length(header: Any, base: Path, channel: int) -> None:
    """Compare a signal file's size with what the header promises, before wfdb reads it."""
    path = base.parent / header.file_name[channel]
    if not path.is_file():
        raise RecordError(
            path, "does not exist", f"the signal file that {base.name}.hea names", "fetch or copy it again"
        )
    check_samples(1 if header.sig_len is None else header.sig_len, header_path(base))
    width = _SAMPLE_BYTES.get(str(header.fmt[channel]))
    if width is None:  # FLAC: its length is known when it has been decoded
        frame = header.samps_per_frame[channel] or 1
        check_expansion((header.sig_len or 0) * frame, path.stat().st_size, path, RecordError)
        return
    if not header.sig_len:
        return
    same_file = [i for i, name in enumerate(header.file_name) if name == header.file_name[channel]]
    per_frame = sum(header.samps_per_frame[i] for i in same_file)
    offset = header.byte_offset[channel] or 0
    found = int(max(path.stat().st_size - offset, 0) / (per_frame * width)) if per_frame else 0
    if found < header.sig_len:
        raise RecordError(
            path, f"is cut short at {found} of {header.sig_len} samples", action="fetch or copy the record again"
        )


def _check_sum(header: Any, base: Path, channel: int, digital: Any) -> None:
    """Verify the header's 16-bit checksum, which may be written signed or unsigned (header(5))."""
    check_stated_sum(header, base, channel, int(digital.sum(dtype=np.int64)))


def check_stated_sum(header: Any, base: Path, channel: int, total: int) -> None:
    """Compare the sum of a lead's steps with the header's checksum, if it has one; raises RecordError."""
    stated = header.checksum[channel]
    if stated is None:
        return
    found = total % 65536
    if found != int(stated) % 65536:
        raise RecordError(
            base.parent / header.file_name[channel],
            f"checksum of lead {header.sig_name[channel]} is {found}",
            f"{int(stated) % 65536} from {base.name}.hea",
            "the file is corrupt: fetch or copy it again",
        )


@dataclass(frozen=True)
class Steps:
    """How the steps of one lead become millivolt.

    Attributes:
        baseline: the step of 0 mV.
        gain: steps a unit.
        millivolt: of a unit.
        invalid: the step that stands for no sample; None where the format has none.
        frame: samples in a frame, of which the mean is taken.
        skew: frames by which the lead lags.
    """

    baseline: float
    gain: float
    millivolt: float
    invalid: int | None
    frame: int
    skew: int

    @classmethod
    def of(cls, header: Any, base: Path, channel: int) -> "Steps":
        """Return those of a channel; raises RecordError where its unit is no voltage."""
        millivolt = MILLIVOLT[unit(header, base, channel)]
        gain, baseline = float(header.adc_gain[channel]), float(header.baseline[channel])
        invalid = _INVALID.get(str(header.fmt[channel]))
        frame, skew = header.samps_per_frame[channel] or 1, int(header.skew[channel] or 0)
        return cls(baseline, gain, millivolt, invalid, frame, skew)

    def to_mv(self, digital: Any) -> NDArray[np.float64]:
        """Return whole frames of steps in millivolt, one sample (the mean) for each frame, the skew left in."""
        signal_mv: NDArray[np.float64] = digital - self.baseline
        signal_mv /= self.gain
        if self.millivolt != 1:
            signal_mv *= self.millivolt
        if self.invalid is not None and (lost := digital == self.invalid).any():
            signal_mv[lost] = np.nan
        return signal_mv if self.frame == 1 else signal_mv.reshape(-1, self.frame).mean(axis=1)


def millivolt_of(header: Any, base: Path, channel: int, digital: Any) -> NDArray[np.float64]:
    """Return one lead in millivolt, one sample (the mean) for each frame, its skew removed."""
    steps = Steps.of(header, base, channel)
    signal_mv = steps.to_mv(digital)
    if skew := steps.skew:
        signal_mv = np.concatenate([signal_mv[skew:], np.full(min(skew, len(signal_mv)), np.nan)])
    return signal_mv


def read_digital(header: Any, base: Path, channels: list[int]) -> list[Any]:
    """Return the samples of some leads as they are stored, each of the length and checksum its header states."""
    import wfdb

    for channel in channels:
        check_length(header, base, channel)
    try:
        # The samples as they are stored, because the header's checksum is the sum of those.
        read = wfdb.rdrecord(str(base), channels=channels, physical=False, smooth_frames=False, ignore_skew=True)
    except Exception as problem:  # wfdb raises ValueError, IndexError and others for broken files
        raise RecordError(
            base, f"cannot be read ({type(problem).__name__}: {problem})", "a WFDB record", "fetch or copy it again"
        ) from problem
    for channel, digital in zip(channels, read.e_d_signal, strict=True):
        if not len(digital):
            raise RecordError(base, "holds no samples", action="choose another file, or leave this one out")
        _check_sum(header, base, channel, digital)
    return list(read.e_d_signal)
