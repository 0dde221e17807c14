"""Reading the XML that GE's MUSE exports (``RestingECG``, document type restecg.dtd): the leads of its rhythm waveform.

The format is described in GE's MUSE XML developer's manual and by what others read of it. A waveform is of type Rhythm
or Median (the representative beat, which is no recording). It has a sampling frequency, ``SampleBase`` times ten to the
``SampleExponent``, and a ``LeadData`` element for each lead: 16-bit little-endian numbers in base64, each worth
``LeadAmplitudeUnitsPerBit`` of ``LeadAmplitudeUnits``. Eight leads are stored; III, aVR, aVL and aVF follow from I and
II by Einthoven's and Goldberger's equations. Byte count, sample count and CRC-32, which a lead states again, are
compared. The document type is not fetched.
"""

import base64
import binascii
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from ecgfed.base.errors import RecordError
from ecgfed.base.language import message
from ecgfed.base.safe_io import read_bounded
from ecgfed.base.text import count_of
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
from ecgfed.domain.record.lead_names import folded, known_lead
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.twelve_leads import OF_I_AND_II, limb_lead
from ecgfed.domain.record.xml_tree import find_all, first, parse

#: Ten seconds of 15 leads have 300 kB; this is an hour of twelve.
MAX_BYTES = 128 << 20
_AGAIN = "export it again"
_UNITS = {"MICROVOLTS": "uV", "MILLIVOLTS": "mV", "VOLTS": "V", "NANOVOLTS": "nV"}
_AGE_YEARS = {"YEARS": 1.0, "MONTHS": 1 / 12, "WEEKS": 7 / 365.25, "DAYS": 1 / 365.25, "HOURS": 1 / 8766}
_PERSON, _TEST = "PatientDemographics", "TestDemographics"


def _document(path: Path) -> Element:
    """Return the document's root; raises RecordError."""
    data = read_bounded(path, MAX_BYTES, RecordError)
    try:
        root = parse(data, allow_doctype=True)
    except ValueError as error:
        problem = f"cannot be read as XML ({error})"
        raise RecordError(path, problem, "a RestingECG of MUSE", "check that it is the right file") from None
    if root.tag.rpartition("}")[2] != "RestingECG":
        problem = f"is XML whose root is {root.tag!r:.60}"
        raise RecordError(path, problem, "RestingECG, as MUSE exports it", "check that it is the right file")
    return root


def _number(element: Element, name: str, path: Path, default: str = "") -> float:
    """Return a number that an element states; raises RecordError where it is none, or too long to be one."""
    text = first(element, name).strip() or default
    if re.fullmatch(r"[+-]?[0-9]{1,15}(?:\.[0-9]{0,15})?", text) is None:
        action = "write a decimal point" if "," in text else _AGAIN
        raise RecordError(path, f"{name} {text!r:.40}", "a number", action)
    return float(text)


def _groups(root: Element, path: Path) -> tuple[list[SignalGroup], list[str]]:
    """Return the leads of the rhythm waveforms, in groups that begin together, and what to note of them."""
    rhythm = [
        lead_i for lead_i in find_all(root, "Waveform") if first(lead_i, "WaveformType").strip().casefold() == "rhythm"
    ]
    if not rhythm:
        kinds = (
            ", ".join(first(lead_i, "WaveformType").strip() or "none" for lead_i in find_all(root, "Waveform"))
            or "none"
        )
        problem = f"has no waveform of type Rhythm (it has {kinds:.80})"
        raise RecordError(path, problem, "one at least", "export it with its rhythm waveform")
    groups, notes = [], []
    for waveform in rhythm:
        exponent = _number(waveform, "SampleExponent", path, "0")
        fs_hz = _number(waveform, "SampleBase", path) * 10.0 ** max(-9.0, min(exponent, 9.0))
        if not fs_hz > 0:
            raise RecordError(path, f"sampling frequency {fs_hz:g} Hz", "above 0", _AGAIN)
        leads = find_all(waveform, "LeadData")
        if not 1 <= len(leads) <= MAX_CHANNELS:
            raise RecordError(path, f"a waveform of {count_of(len(leads), 'lead')}", f"1 to {MAX_CHANNELS}", _AGAIN)
        together: dict[tuple[float, int], list[Channel]] = {}
        for lead in leads:
            channel, samples, lead_notes = _channel(lead, path)
            notes += lead_notes
            start = _number(lead, "LeadTimeOffset", path, "0") + _number(lead, "LeadOffsetFirstSample", path, "0")
            together.setdefault((start, samples), []).append(channel)
        for (start, samples), channels in together.items():
            groups.append(SignalGroup(rounded_fs(fs_hz), samples, start, (*channels, *_derived(channels))))
    return groups, notes


def _channel(lead: Element, path: Path) -> tuple[Channel, int, list[str]]:
    """Return a lead, its length, and what to note of it; raises RecordError where its numbers are not as stated."""
    name = " ".join(first(lead, "LeadID").split()) or "lead"
    size = _number(lead, "LeadSampleSize", path, "2")
    if size != 2:
        raise RecordError(path, f"lead {name} has samples of {size:g} bytes", "2", _AGAIN)
    try:
        data = base64.b64decode("".join((lead.findtext("{*}WaveFormData") or "").split()), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise RecordError(path, f"lead {name} holds no base64 ({problem})", "its samples", _AGAIN) from None
    samples = len(data) // 2
    for what, expected_count in (("LeadByteCountTotal", len(data)), ("LeadSampleCountTotal", samples)):
        stated = _number(lead, what, path, str(expected_count))
        if stated != expected_count or len(data) % 2:
            raise RecordError(path, f"lead {name} holds {len(data)} bytes", f"{what} {stated:.0f}", _AGAIN)
    notes: list[str] = []
    checksum = first(lead, "LeadDataCRC32").strip()
    if checksum.isdigit() and len(checksum) <= 10 and int(checksum) not in (0, binascii.crc32(data)):
        notes.append(message("lead {name}: its CRC-32 disagrees with its samples", name=name))
    if first(lead, "LeadOff").strip().upper() == "TRUE":
        notes.append(message("lead {name}: marked as off by the recorder", name=name))
    step, unit = _number(lead, "LeadAmplitudeUnitsPerBit", path), first(lead, "LeadAmplitudeUnits").strip()
    if not step > 0:
        raise RecordError(path, f"lead {name} has a step of {step:g}", "a step above 0", _AGAIN)
    known = _UNITS.get(unit.upper(), unit or "no unit")
    return Channel(name, known, lambda: np.frombuffer(data, "<i2").astype(np.float64) * step), samples, notes


def _derived(channels: list[Channel]) -> list[Channel]:
    """Return the limb leads that are not stored beside I and II."""
    known = ((known_lead(folded(channel.name)), channel) for channel in channels)
    by_lead = {lead.lead: channel for lead, channel in known if lead and not lead.electrodes}
    if not {"I", "II"} <= set(by_lead) or by_lead["I"].unit != by_lead["II"].unit:
        return []
    lead_i, lead_ii = by_lead["I"], by_lead["II"]

    def derived(name: str) -> Channel:
        return replace(lead_i, name=name, read=lambda: limb_lead(name, lead_i.read(), lead_ii.read()))

    return [derived(name) for name in OF_I_AND_II if name not in by_lead]


def _day(text: str) -> date | None:
    """Return a day that MUSE writes as month-day-year."""
    match = re.fullmatch(r"([0-9]{1,2})-([0-9]{1,2})-([0-9]{4})", text.strip())
    return day(int(match[3]), int(match[1]), int(match[2])) if match else None


def _comments(root: Element) -> tuple[str, ...]:
    """Return what the document says of patient and recording: a list of its elements, and no other."""
    born, began = first(root, f"{_PERSON}/DateofBirth"), first(root, f"{_TEST}/AcquisitionDate")
    stated, unit = first(root, f"{_PERSON}/PatientAge").strip(), first(root, f"{_PERSON}/AgeUnits").strip().upper()
    years = str(int(int(stated) * _AGE_YEARS[unit or "YEARS"])) if stated.isdigit() and len(stated) < 6 and (
        unit or "YEARS") in _AGE_YEARS else age(_day(born), _day(began))  # fmt: skip
    return comment_lines(
        {
            "patient name": f"{first(root, f'{_PERSON}/PatientFirstName')} {first(root, f'{_PERSON}/PatientLastName')}",
            "patient id": first(root, f"{_PERSON}/PatientID"),
            "sex": {"MALE": "M", "FEMALE": "F"}.get(first(root, f"{_PERSON}/Gender").strip().upper(), ""),
            "age": years,
            "birth date": born,
            "start": f"{began} {first(root, f'{_TEST}/AcquisitionTime')}",
            "device": first(root, f"{_TEST}/AcquisitionDevice"),
            "institution": f"{first(root, f'{_TEST}/SiteName')} {first(root, f'{_TEST}/LocationName')}",
            "technician": f"{first(root, f'{_TEST}/AcquisitionTechFirstName')} "
            f"{first(root, f'{_TEST}/AcquisitionTechLastName')}",
        }
    )


def read_muse(path: Path, selection: LeadSelection) -> Recording:
    """Read a resting ECG that MUSE exported; limb leads that it does not store are derived, and that is noted.

    Raises:
        RecordError: no XML, a document type that declares anything, no rhythm, counts that disagree with the samples,
            what is no number, units that are no voltage, a missing lead.
    """
    root = _document(path)
    groups, notes = _groups(root, path)
    recording = recording_of(path, groups, selection, _comments(root))
    stored = {" ".join(first(lead, "LeadID").split()) for lead in find_all(root, "Waveform/LeadData")}
    derived = [name for name in recording.leads if name in OF_I_AND_II and name not in stored]
    if derived:
        notes.append(message("{leads} derived from I and II, not stored in the file", leads=", ".join(derived)))
    return replace(recording, notes=tuple(dict.fromkeys(notes)))


def muse_comments(path: Path) -> tuple[str, ...]:
    """Return what a document says of patient and recording, as comment lines; raises RecordError."""
    return _comments(_document(path))
