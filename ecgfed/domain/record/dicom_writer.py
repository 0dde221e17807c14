"""Writing DICOM: an ECG waveform with its beats and figures as annotations, and an encapsulated PDF.

DICOM PS3.3: A.34.3 to A.34.5 (12-lead, general and ambulatory ECG), C.10.8 to C.10.10 (waveform and annotations) and
A.45.1 (encapsulated PDF). Identifiers are UUIDs of the content (PS3.5, B.2). A time that the standard demands and that
nobody states is 1900-01-01 00:00, beside the attribute that says that times were removed (C.12.1.1.7).
"""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.extras import require
from ecgfed.domain.events.figure import LOINC, Figure
from ecgfed.domain.record.dicom_files import MAX_BYTES, without_requests
from ecgfed.domain.record.exchange import Document, beat_code, lead_code, unsuitable
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.wfdb_writer import choose_gain

FORMAT, PDF_FORMAT = "dicom", "dicom-pdf"
_TWELVE, _GENERAL, _AMBULATORY = (f"1.2.840.10008.5.1.4.1.1.9.1.{number}" for number in (1, 2, 3))
_PDF, _EXPLICIT = "1.2.840.10008.5.1.4.1.1.104.1", "1.2.840.10008.1.2.1"
_LEADS_OF_TWELVE = frozenset(("I", "II", "III", "aVR", "aVL", "aVF", *(f"V{number}" for number in range(1, 7))))
#: A 12-lead ECG has at most so many samples (A.34.3.4.5); lowest and highest sampling frequency and most leads.
_TWELVE_SAMPLES = 16_384
_LIMITS = {_TWELVE: (200, 1000, 13), _GENERAL: (200, 1000, 24), _AMBULATORY: (50, 1000, 12)}
_GAP = -32768
#: Positions in one annotation: their 32 bits each stay below the 2**16 bytes of an explicit VR.
_POSITIONS = 16_000
#: Our own coding scheme; names that begin with 99 need no registration (PS3.16, 8.2).
_OWN = "99ECGFED"
_UNKNOWN_TIME = "19000101000000"
_UNITS = {"1": "no units", "/min": "per minute", "s": "second", "ms": "millisecond", "%": "percent", "mV": "millivolt"}
_UNITS |= {"deg": "degree"}


def _class_of(recording: Recording) -> str | None:
    """Return the SOP class that takes a recording, the most specific first; None for none."""
    leads = {code[1] for name in recording.leads if (code := lead_code(name))}
    fits = [
        uid
        for uid, (lowest, highest, most) in _LIMITS.items()
        if lowest <= recording.fs_hz <= highest and len(recording.leads) <= most
    ]
    if _TWELVE in fits and (leads != _LEADS_OF_TWELVE or recording.samples > _TWELVE_SAMPLES):
        fits.remove(_TWELVE)
    return next(iter(fits), None)


def check_dicom(recording: Recording) -> None:
    """Refuse a recording that no ECG waveform of DICOM takes; raises OptionError."""
    if _class_of(recording) is None:
        reason = f"{len(recording.leads)} leads at {recording.fs_hz:g} Hz"
        expected = "at most 24 leads at 200 to 1000 Hz, or 12 from 50 Hz on"
        raise unsuitable(FORMAT, reason, expected, "read fewer leads, or take another format")
    size = 2 * recording.samples * len(recording.leads)
    if size > MAX_BYTES:
        raise unsuitable(FORMAT, f"{size:,} bytes of samples", f"at most {MAX_BYTES:,}", "cut the recording into parts")


def waveform_bytes(recording: Recording, document: Document) -> bytes:
    """Return a recording as a DICOM ECG waveform with its beats and figures as annotations.

    Args:
        recording: with every lead to write, one that ``check_dicom`` accepts.
        document: beats, figures, and what the user states of patient and time.

    Raises:
        MissingExtraError: pydicom is not installed.
    """
    written, sop_class = _data_set(document, recording.duration_s), _class_of(recording)
    written.SOPClassUID, written.Modality, written.SeriesNumber = sop_class, "ECG", 1
    written.SOPInstanceUID, written.SeriesInstanceUID = _uid(document, "waveform"), _uid(document, "waveforms")
    written.AcquisitionContextSequence = []
    written.WaveformSequence = [_group(recording, document)]
    written.WaveformAnnotationSequence = [
        *_beats(document),
        *(_figure(figure, recording.fs_hz) for figure in document.figures),
    ]
    return _file(written)


def encapsulated_pdf(pdf: bytes, document: Document, duration_s: float) -> bytes:
    """Return a PDF of the report as a DICOM object of the same study as its waveform.

    Args:
        pdf: the PDF.
        document: whose report it is.
        duration_s: length of the recording.

    Raises:
        MissingExtraError: pydicom is not installed.
    """
    written = _data_set(document, duration_s)
    written.SOPClassUID, written.Modality, written.SeriesNumber = _PDF, "DOC", 2
    written.SOPInstanceUID, written.SeriesInstanceUID = _uid(document, "pdf"), _uid(document, "pdfs")
    written.ConversionType, written.BurnedInAnnotation = "WSD", "YES"  # the page may name whom the user named
    written.DocumentTitle, written.ConceptNameCodeSequence = "ECG report", [_code("11524-6", "LN", "EKG study")]
    written.MIMETypeOfEncapsulatedDocument = "application/pdf"
    written.EncapsulatedDocument = pdf + b"\0" * (len(pdf) % 2)
    written.EncapsulatedDocumentLength = len(pdf)
    return _file(written)


def _new() -> Any:
    """Return an empty data set of pydicom."""
    require("pydicom", "writing DICOM")
    with without_requests():
        from pydicom.dataset import Dataset

    return Dataset()


def _uid(document: Document, part: str) -> str:
    return f"2.25.{document.uuid(part).int}"


def _code(value: str, scheme: str, meaning: str) -> Any:
    item = _new()
    if len(value) > 16:  # what a short code holds
        item.LongCodeValue = value
    else:
        item.CodeValue = value
    item.CodingSchemeDesignator, item.CodeMeaning = scheme, meaning[:64]
    return item


def _data_set(document: Document, duration_s: float) -> Any:
    """Return what every object states: patient, study, equipment, time, and that the rest was removed."""
    written, stated, period = _new(), document.stated, document.stated.period(duration_s)
    text = _UNKNOWN_TIME if period is None else f"{period[0]:%Y%m%d%H%M%S.%f%z}"
    day, time = text[:8], text[8:14]
    written.SpecificCharacterSet = "ISO_IR 192"
    written.PatientName = written.PatientBirthDate = written.PatientSex = ""
    written.PatientID = stated.subject
    written.StudyInstanceUID = _uid(document, "study")
    written.StudyDate, written.StudyTime = ("", "") if period is None else (day, time)
    written.ReferringPhysicianName = written.StudyID = written.AccessionNumber = ""
    written.Manufacturer, written.SoftwareVersions = "ecgfed", document.version
    written.InstanceNumber, written.ContentDate, written.ContentTime = 1, day, time
    written.AcquisitionDateTime = text
    if not stated.subject:
        written.PatientIdentityRemoved = "YES"
        written.DeidentificationMethod = "no field of the recording's file was copied"
    written.LongitudinalTemporalInformationModified = "REMOVED" if period is None else "UNMODIFIED"
    return written


def _group(recording: Recording, document: Document) -> Any:
    """Return the multiplex group of all leads, 16 bits a sample; what was not recorded is padding."""
    group, samples = _new(), recording.samples
    frames: NDArray[np.int16] = np.empty((samples, len(recording.leads)), "<i2")
    channels = []
    for row, (lead, name) in enumerate(zip(recording.leads, document.leads, strict=True)):
        signal = recording.lead_mv(lead, 0, samples)
        gain, zero = choose_gain(signal)
        frames[:, row] = np.where(np.isnan(signal), _GAP, np.rint(np.nan_to_num(signal) * gain) + zero)
        channels.append(_channel(name, gain, zero))
    group.WaveformOriginality = "ORIGINAL"
    group.NumberOfWaveformChannels, group.NumberOfWaveformSamples = len(channels), samples
    group.SamplingFrequency = _decimal(recording.fs_hz)
    group.ChannelDefinitionSequence = channels
    group.WaveformBitsAllocated, group.WaveformSampleInterpretation = 16, "SS"
    group.add_new("WaveformPaddingValue", "OW", _GAP.to_bytes(2, "little", signed=True))
    group.add_new("WaveformData", "OW", frames.tobytes())
    return group


def _channel(name: str, gain: float, zero: int) -> Any:
    """Return the definition of a channel: millivolt = step * sensitivity + baseline."""
    channel, standard = _new(), lead_code(name)
    channel.ChannelLabel = name[:16]
    source = (
        _code(name[:64], _OWN, f"Lead {name}")
        if standard is None
        else _code(f"2:{standard[0]}", "MDC", f"Lead {standard[1]}")
    )
    channel.ChannelSourceSequence = [source]
    channel.ChannelSensitivity, channel.ChannelSensitivityCorrectionFactor = _decimal(1 / gain), "1"
    channel.ChannelSensitivityUnitsSequence = [_code("mV", "UCUM", _UNITS["mV"])]
    channel.ChannelBaseline, channel.ChannelSampleSkew = _decimal(-zero / gain), "0"
    channel.WaveformBitsStored = 16
    return channel


def _decimal(value: float) -> str:
    """Return a number as a decimal string of at most 16 characters."""
    return next(text for digits in range(16, 0, -1) if len(text := f"{value:.{digits}g}") <= 16)


def _beats(document: Document) -> Iterator[Any]:
    """Yield the R peaks of each class of beats, and of each remark on labels."""
    for symbol in sorted(set(document.symbol.tolist())):
        number, _, meaning = beat_code(symbol)
        for item in _points(document.sample[document.symbol == symbol]):
            item.ConceptNameCodeSequence = [_code(f"10:{number}", "MDC", meaning)]
            yield item
    for remark in sorted(set(document.remark.tolist()) - {""}):
        for item in _points(document.sample[document.remark == remark]):
            item.UnformattedTextValue = f"beats: {remark}"
            yield item


def _points(sample: NDArray[np.int64]) -> Iterator[Any]:
    """Yield annotations of points in time in all leads; the first sample has number 1."""
    for first in range(0, len(sample), _POSITIONS):
        item, positions = _annotation(1), (sample[first : first + _POSITIONS] + 1).tolist()
        item.TemporalRangeType = "POINT" if len(positions) == 1 else "MULTIPOINT"
        item.ReferencedSamplePositions = positions
        yield item


def _figure(figure: Figure, fs_hz: float) -> Any:
    """Return a figure as a measurement, or a text where it was not assessed or is not sure."""
    item, (system, code, meaning) = _annotation(2), figure.code
    if figure.start_s is not None:
        item.TemporalRangeType, item.ReferencedSamplePositions = "POINT", [int(figure.start_s * fs_hz) + 1]
    if figure.value is None or figure.remark:
        value = f"not assessed: {figure.reason}" if figure.value is None else f"{figure.value:.12g} {figure.unit}"
        item.UnformattedTextValue = f"{figure.title}: {value}{', ' * bool(figure.remark)}{figure.remark}"
        return item
    item.ConceptNameCodeSequence = [_code(code, "LN" if system == LOINC else _OWN, meaning)]
    item.NumericValue = _decimal(figure.value)
    item.MeasurementUnitsCodeSequence = [_code(figure.unit, "UCUM", _UNITS[figure.unit])]
    return item


def _annotation(group: int) -> Any:
    """Return an annotation of all leads: group 1 are beats, 2 figures."""
    item = _new()
    item.ReferencedWaveformChannels, item.AnnotationGroupNumber = [1, 0], group
    return item


def _file(written: Any) -> bytes:
    """Return a data set as a file (PS3.10), explicit VR, little endian."""
    with without_requests():
        from pydicom.dataset import FileMetaDataset
        from pydicom.filewriter import dcmwrite

    written.file_meta = FileMetaDataset()
    written.file_meta.MediaStorageSOPClassUID = written.SOPClassUID
    written.file_meta.MediaStorageSOPInstanceUID = written.SOPInstanceUID
    written.file_meta.TransferSyntaxUID = _EXPLICIT
    stream = io.BytesIO()
    dcmwrite(stream, written, enforce_file_format=True)
    return stream.getvalue()
