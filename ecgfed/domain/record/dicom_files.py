"""Reading DICOM's ECG waveforms through pydicom: twelve-lead, general (16 and 32 bits) and ambulatory ECG.

DICOM PS3.3, A.34 and C.10.9. pydicom takes the file apart; what the numbers mean is worked out here, since it takes a
missing sensitivity for 1, and units and padding for nothing. The file, and what a deflated one becomes, are weighed
first. Nothing that a file refers to is opened.
"""

import contextlib
import io
import math
import os
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.extras import require
from ecgfed.base.safe_io import open_regular
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import MAX_SAMPLES
from ecgfed.domain.record.groups import (
    MAX_CHANNELS,
    Channel,
    LeadSelection,
    SignalGroup,
    age,
    comment_lines,
    day,
    recording_of,
    rounded_fs,
)
from ecgfed.domain.record.lead_names import SCP_LEADS
from ecgfed.domain.record.metadata import NOT_STATED, Start, start_of_stamp
from ecgfed.domain.record.recording import Recording

#: Two days of three leads at 1000 Hz; deflated, samples shrink to a quarter at best.
MAX_BYTES, FREE_BYTES, MAX_TIMES = 2 << 30, 16 << 20, 20
_CLASSES = {
    "1.2.840.10008.5.1.4.1.1.9.1.1": "12-lead ECG",
    "1.2.840.10008.5.1.4.1.1.9.1.2": "general ECG",
    "1.2.840.10008.5.1.4.1.1.9.1.3": "ambulatory ECG",
    "1.2.840.10008.5.1.4.1.1.9.1.4": "general 32-bit ECG",
}
_DEFLATED = "1.2.840.10008.1.2.1.99"
_SYNTAXES = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", _DEFLATED)
#: Codes of a channel's source: 2:1 of MDC and 5.6.3-9-1 of SCPECG are both lead 1 of EN 1064's list.
_CODE = re.compile(r"(?:2:|5\.6\.3-9-)([0-9]{1,3})")
_TYPES = {
    (8, "SB"): "<i1",
    (8, "UB"): "<u1",
    (16, "SS"): "<i2",
    (16, "US"): "<u2",
    (32, "SL"): "<i4",
    (32, "UL"): "<u4",
}
_COMMENT_ATTRIBUTES = {
    "patient name": "PatientName", "patient id": "PatientID", "birth date": "PatientBirthDate",
    "start": "AcquisitionDateTime", "study date": "StudyDate", "study": "StudyDescription",
    "accession number": "AccessionNumber", "institution": "InstitutionName", "station": "StationName",
    "referring physician": "ReferringPhysicianName", "operator": "OperatorsName", "device": "ManufacturerModelName",
    "serial number": "DeviceSerialNumber", "patient comments": "PatientComments",
}  # fmt: skip


_Taken = TypeVar("_Taken")


def _contents(path: Path) -> tuple[list[SignalGroup], tuple[str, ...]]:
    """Return a file's groups of channels and its comments; raises RecordError."""
    return _read(path, lambda read: (_groups(read, path), _comments(read)))


def _read(path: Path, take: Callable[[Any], _Taken]) -> _Taken:
    """Return what ``take`` takes from a file's data set, once the file has passed the gate; raises RecordError."""
    try:
        stream = open_regular(path)
    except FileNotFoundError:
        raise RecordError(path, "does not exist", "a DICOM file", "check the path") from None
    with stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_BYTES:
            raise RecordError(path, f"has {size:,} bytes", f"at most {MAX_BYTES:,}", "cut it into parts")
        if stream.read(132)[128:] != b"DICM":
            problem = "is not DICOM"
            raise RecordError(path, problem, "a file that has DICM at byte 129", "check that it is the right file")
        require("pydicom", "reading a DICOM file")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of texts that are against the standard: they are only told
                return take(_parsed(stream, path))
        except RecordError:
            raise
        except Exception as error:  # pydicom raises what it comes upon, RecursionError among it
            problem = f"cannot be read as DICOM ({error!s:.160})"
            raise RecordError(path, problem, "DICOM", "fetch or copy it again") from error


@contextlib.contextmanager
def without_requests() -> Iterator[None]:
    """Hide the package requests while pydicom is imported.

    pydicom would load it, where it is installed, to fetch examples, and what that loads opens a socket at once to see
    whether there is IPv6. Nothing here opens one.
    """
    loaded = "requests" in sys.modules or "pydicom" in sys.modules
    if not loaded:
        sys.modules["requests"] = None  # type: ignore[assignment]  # Python's way to say that there is none
    try:
        yield
    finally:
        if not loaded:
            del sys.modules["requests"]


def _parsed(stream: BinaryIO, path: Path) -> Any:
    """Return pydicom's data set; raises what pydicom does, and RecordError."""
    with without_requests():
        from pydicom.filereader import read_dataset, read_file_meta_info, read_partial

    meta = read_file_meta_info(path)
    syntax = str(meta.get("TransferSyntaxUID", ""))
    if syntax not in _SYNTAXES:
        problem = f"transfer syntax {syntax!r:.80}"
        raise RecordError(path, problem, "little endian, deflated or not", "write it again with a DICOM tool")
    if syntax == _DEFLATED:  # pydicom would make room for whatever it becomes
        stream.seek(132 + 12 + int(meta.FileMetaInformationGroupLength))
        plain = _inflated(stream.read(), path)
        return read_dataset(io.BytesIO(plain), is_implicit_VR=False, is_little_endian=True)
    stream.seek(0)
    return read_partial(stream, stop_when=_no_zeros)


def _no_zeros(tag: Any, _kind: object, _length: object) -> bool:
    """Refuse zeros where an element should begin: pydicom would make an element of each eight of a gigabyte."""
    if int(tag) == 0:
        raise ValueError("zeros where an element should begin")
    return False


def _inflated(deflated: bytes, path: Path) -> bytes:
    """Return what a deflated data set holds, of a bounded size; raises RecordError."""
    limit = FREE_BYTES + MAX_TIMES * len(deflated)
    machine = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = machine.decompress(deflated, limit)
    if machine.unconsumed_tail or not machine.eof:
        problem = f"{len(deflated):,} deflated bytes that inflate to more than {limit:,}, or are cut short"
        raise RecordError(path, problem, action="write it again without deflating it")
    return plain


def _groups(read: Any, path: Path) -> list[SignalGroup]:
    """Return the groups of channels as recorded, those that were worked out left aside; raises RecordError."""
    kind = str(read.get("SOPClassUID", ""))
    if kind not in _CLASSES:
        problem = f"is DICOM of class {kind!r:.80}"
        raise RecordError(path, problem, f"an ECG: {', '.join(_CLASSES.values())}", "check that it is the right file")
    groups = list(read.get("WaveformSequence", ()))
    original = [group for group in groups if str(group.get("WaveformOriginality", "ORIGINAL")) != "DERIVED"]
    if not original:
        problem = f"holds {count_of(len(groups), 'waveform')}, none as it was recorded"
        raise RecordError(path, problem, "one at least", "choose another file, or leave this one out")
    start = _start(read)
    return [_group(group, path, start) for group in original]


def _start(read: Any) -> Start:
    """Return when the acquisition began; one that a writer removed, and replaced by any time, is not known."""
    if str(read.get("LongitudinalTemporalInformationModified", "") or "") == "REMOVED":
        return NOT_STATED
    stated, offset = str(read.get("AcquisitionDateTime", "") or ""), str(read.get("TimezoneOffsetFromUTC", "") or "")
    return start_of_stamp(stated if stated[-5:-4] in ("+", "-") else f"{stated}{offset}")


def _group(group: Any, path: Path, start: Start) -> SignalGroup:
    channels, samples = int(group.NumberOfWaveformChannels), int(group.NumberOfWaveformSamples)
    kind = (int(group.WaveformBitsAllocated), str(group.WaveformSampleInterpretation))
    if kind not in _TYPES:
        problem = f"samples of {kind[0]} bits, {kind[1]!r:.20}"
        raise RecordError(path, problem, "whole numbers of 8, 16 or 32 bits", "convert it with a DICOM tool")
    if not (1 <= channels <= MAX_CHANNELS and 1 <= samples <= MAX_SAMPLES):
        problem = f"claims {count_of(samples, 'sample')} of {count_of(channels, 'channel')}"
        raise RecordError(path, problem, "at least one", "check that it is the right file")
    form, data = np.dtype(_TYPES[kind]), group.WaveformData
    size = channels * samples * form.itemsize
    if not isinstance(data, bytes) or len(data) not in (size, size + size % 2):
        problem = f"{len(data) if isinstance(data, bytes) else 0} bytes of samples"
        expected = f"{size} for {samples} of {count_of(channels, 'channel')}"
        raise RecordError(path, problem, expected, "fetch or copy it again")
    defined = list(group.ChannelDefinitionSequence)
    if len(defined) != channels:
        problem = f"defines {count_of(len(defined), 'channel')}"
        raise RecordError(path, problem, f"{channels}", "fetch or export it again")
    fs_hz = float(group.SamplingFrequency)
    if not (math.isfinite(fs_hz) and fs_hz > 0):
        raise RecordError(path, f"sampling frequency {fs_hz} Hz", "above 0", "fetch or export it again")
    frames = np.frombuffer(data, form, channels * samples).reshape(samples, channels)
    gap = _padding(group.get("WaveformPaddingValue"), form, path)
    lead_channels = tuple(
        _channel(definition, frames[:, row], gap, fs_hz, path) for row, definition in enumerate(defined)
    )
    offset_ms = float(group.get("MultiplexGroupTimeOffset") or 0)
    begins = start.later(offset_ms / 1000)
    return SignalGroup(rounded_fs(fs_hz), samples, offset_ms, lead_channels, begins)


def _padding(value: Any, form: np.dtype[Any], path: Path) -> Any:
    """Return the step that stands for no sample, or None; raises RecordError for what is no single number.

    The standard writes it as the samples' own bytes (OB or OW), some recorders as a number (SS, US, SL).
    """
    if value in (None, "") or (isinstance(value, bytes) and len(value) < form.itemsize):
        return None
    if isinstance(value, int):  # -32768 and 32768 are the same 16 bits
        bits = 8 * form.itemsize
        if not -(1 << bits - 1) <= value < 1 << bits:
            return None  # no sample can be it
        value = (value % (1 << bits)).to_bytes(form.itemsize, "little")
    if not isinstance(value, bytes):
        raise RecordError(path, f"has the padding value {str(value)!r:.40}", "one number", "fetch or export it again")
    return np.frombuffer(value, form, 1)[0]


def _channel(defined: Any, steps: NDArray[Any], gap: Any, fs_hz: float, path: Path) -> Channel:
    """Return a channel: sample * sensitivity * correction + baseline, in the unit it states; raises RecordError."""
    name = _name(defined)
    skew = abs(float(defined.get("ChannelSampleSkew") or 0)) + abs(float(defined.get("ChannelTimeSkew") or 0)) * fs_hz
    if not skew < 1:
        problem = f"lead {name} is {skew:.3g} samples out of step with the others"
        raise RecordError(path, problem, "less than one", "export it with its leads in step")
    unit, sensitivity = _unit(defined), defined.get("ChannelSensitivity")
    factor = float(1 if sensitivity is None else sensitivity)
    factor *= float(defined.get("ChannelSensitivityCorrectionFactor") or 1)
    zero = float(defined.get("ChannelBaseline") or 0)
    if not (math.isfinite(factor) and math.isfinite(zero)) or factor == 0:
        problem = f"lead {name} has sensitivity {factor} and baseline {zero}"
        raise RecordError(path, problem, "numbers", "fetch or export it again")

    def signal() -> NDArray[np.float64]:
        values: NDArray[np.float64] = steps.astype(np.float64) * factor + zero
        if gap is not None:
            values[steps == gap] = np.nan
        return values

    return Channel(name, unit if sensitivity is not None else f"steps of {unit or 'no unit'}", signal)


def _name(defined: Any) -> str:
    """Return a lead's name: by its source's code where that is of the standard's list, else by meaning or label."""
    source: Any = next(iter(defined.get("ChannelSourceSequence", ())), {})
    code = _CODE.fullmatch(str(source.get("CodeValue", "")).strip())
    if code and int(code[1]) in SCP_LEADS:
        return SCP_LEADS[int(code[1])]
    name = str(source.get("CodeMeaning", "") or defined.get("ChannelLabel", "") or "lead").strip()
    return re.sub(r"(?i)^lead +(?=\S)|\s*\([^)]*\)$", "", name) or "lead"


def _unit(defined: Any) -> str:
    units: Any = next(iter(defined.get("ChannelSensitivityUnitsSequence", ())), {})
    return str(units.get("CodeValue", "")).strip()


def _day(text: str) -> date | None:
    return day(int(text[:4]), int(text[4:6]), int(text[6:8])) if len(text) >= 8 and text[:8].isdecimal() else None


def _comments(read: Any) -> tuple[str, ...]:
    """Return what a file says of patient and recording: a list of its attributes, and no other."""
    fields = {
        name: str(read.get(attribute, "") or "").replace("^", " ") for name, attribute in _COMMENT_ATTRIBUTES.items()
    }
    stated = re.fullmatch(r"([0-9]{3})Y", str(read.get("PatientAge", "") or "").strip())
    years = (
        str(int(stated[1]))
        if stated
        else age(_day(fields["birth date"]), _day(fields["start"] or fields["study date"]))
    )
    sex = str(read.get("PatientSex", "") or "")
    return comment_lines({**fields, "age": years, "sex": sex if sex in ("M", "F") else ""})


def read_dicom(path: Path, selection: LeadSelection) -> Recording:
    """Read an ECG waveform; samples that are padding as NaN.

    Raises:
        RecordError: another format or class, waveforms that were worked out only, any size but the stated one, a
            sensitivity that is missing, units that are no voltage, channels that do not lie together, a missing lead.
        MissingExtraError: pydicom is not installed.
    """
    groups, comments = _contents(path)
    return recording_of(path, groups, selection, comments)


def dicom_comments(path: Path) -> tuple[str, ...]:
    """Return what a file says of patient and recording, as comment lines; raises as ``read_dicom``."""
    return _contents(path)[1]


def dicom_texts(path: Path) -> list[tuple[float, str]]:
    """Return seconds from the start and text of each text annotation of a file's only waveform; raises RecordError.

    Of several waveforms (PS3.3, C.10.10) it is not plain when each began: their annotations are not read.
    """
    return _read(path, _texts)


def _texts(read: Any) -> list[tuple[float, str]]:
    groups = list(read.get("WaveformSequence", ()))
    texts = []
    for item in read.get("WaveformAnnotationSequence", ()) if len(groups) == 1 else ():
        text, positions = str(item.get("UnformattedTextValue", "") or ""), item.get("ReferencedSamplePositions")
        offsets = item.get("ReferencedTimeOffsets")
        if text and positions is not None:  # the first sample is 1
            texts.append(((float(_first(positions)) - 1) / float(groups[0].SamplingFrequency), text))
        elif text and offsets is not None:
            texts.append((float(_first(offsets)) / 1000, text))
    return texts


def _first(value: Any) -> Any:
    """Return the first of the values of an attribute, which pydicom does not put into a list where it has one."""
    return value[0] if isinstance(value, Sequence) else value
