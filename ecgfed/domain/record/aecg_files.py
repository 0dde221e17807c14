"""Reading HL7 annotated ECGs (aECG): the rhythm of each series; its annotations are not read.

HL7 aECG Implementation Guide, final, 21 March 2005 (``urn:hl7-org:v3``). A series holds sets of sequences: one gives
the time (a beginning and an increment), each other one a lead: origin + scale times its digits. A series or a derived
one of representative beats is no recording and is passed by.
"""

import math
import warnings
from datetime import date
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError
from ecgfed.base.safe_io import read_bounded
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import MILLIVOLT
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
from ecgfed.domain.record.metadata import start_of_stamp
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.xml_tree import MAX_TEXT, find_all, first, parse

#: An hour of twelve leads at 500 Hz, written as text.
MAX_BYTES = 128 << 20
SPACE, _ROOT = "urn:hl7-org:v3", "AnnotatedECG"
_LEAD = "MDC_ECG_LEAD_"
_TIMES = ("TIME_ABSOLUTE", "TIME_RELATIVE")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_PERSON = "componentOf/timepointEvent/componentOf/subjectAssignment/subject/trialSubject"
_TRIAL = "componentOf/timepointEvent/componentOf/subjectAssignment/componentOf/clinicalTrial"
_DEVICE = "component/series/author/seriesAuthor/manufacturedSeriesDevice"


def _document(path: Path) -> Element:
    """Return the document's root; raises RecordError."""
    data = read_bounded(path, MAX_BYTES, RecordError)
    try:
        root = parse(data)
    except ValueError as problem:
        action = "check that it is the right file"
        raise RecordError(path, f"cannot be read as XML ({problem})", "an HL7 aECG", action) from None
    if root.tag not in (f"{{{SPACE}}}{_ROOT}", _ROOT):
        expected, action = f"{_ROOT}, as in an HL7 aECG", "check that it is the right file"
        raise RecordError(path, f"is XML whose root is {root.tag.rpartition('}')[2]!r:.60}", expected, action)
    return root


def _number(text: str, path: Path, what: str) -> float:
    try:
        value = float(text) if len(text) < 40 and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RecordError(path, f"{what} {text!r:.60}", "a number", "fetch or export it again")
    return value


def _groups(root: Element, path: Path) -> list[SignalGroup]:
    groups = []
    for series in find_all(root, "component/series"):
        if first(series, "code", "code") != "REPRESENTATIVE_BEAT":
            groups += [_group(sequence_set, path) for sequence_set in find_all(series, "component/sequenceSet")]
    if not groups:
        problem = "holds no series of rhythm"
        raise RecordError(path, problem, "one at least", "choose another file, or leave this one out")
    return groups


def _group(sequences: Element, path: Path) -> SignalGroup:
    """Return one set of sequences: its time, and its leads; raises RecordError."""
    times, channels, lengths = [], [], []
    sequences_of_set = find_all(sequences, "component/sequence")
    if len(sequences_of_set) > MAX_CHANNELS:
        problem = f"a set of {count_of(len(sequences_of_set), 'sequence')}"
        raise RecordError(path, problem, f"at most {MAX_CHANNELS}", "check that it is the right file")
    for sequence in sequences_of_set:
        code, value = first(sequence, "code", "code"), next(iter(find_all(sequence, "value")), None)
        if value is None:
            raise RecordError(path, f"sequence {code!r:.60} has no value", "numbers", "fetch or export it again")
        if code in _TIMES:
            times.append(value)
            continue
        digits = _digits(value, path, code)
        channels.append(_channel(code, value, digits, path))
        lengths.append(len(digits))
    if len(times) != 1 or not channels:
        problem = f"a set of {count_of(len(times), 'sequence')} of time and {len(channels)} of leads"
        raise RecordError(path, problem, "one of time and at least one of a lead", "fetch or export it again")
    if len(set(lengths)) != 1:
        problem = f"leads of {min(lengths)} to {max(lengths)} samples"
        raise RecordError(path, problem, "one length", "fetch or export it again")
    step, unit = first(times[0], "increment", "value"), first(times[0], "increment", "unit")
    step_s = _number(step, path, "time increment") * _SECONDS.get(unit, math.nan)
    if not step_s > 0 or not math.isfinite(1 / step_s):
        problem = f"time increment {step!r:.40} {unit!r:.20}"
        raise RecordError(path, problem, "above 0, in s, ms or us", "fetch or export it again")
    head = first(times[0], "head", "value")
    begins = start_of_stamp(head)
    return SignalGroup(rounded_fs(1 / step_s), lengths[0], head, tuple(channels), begins if begins.is_known else None)


def _digits(value: Element, path: Path, code: str) -> NDArray[np.float64]:
    """Return the numbers of one sequence (samples,) float64; raises RecordError."""
    text = value.findtext("{*}digits") or ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns where it stops before the end
            return np.fromstring(text, np.float64, sep=" ") if text.strip() else np.empty(0)
    except (ValueError, DeprecationWarning):
        # a comma may divide two numbers or be a decimal one, and nothing says which
        action = (
            "separate the numbers by blanks, and use a decimal point" if "," in text else "fetch or export it again"
        )
        problem = f"sequence {code!r:.60} holds what is no number"
        raise RecordError(path, problem, "numbers between blanks", action) from None


def _channel(code: str, value: Element, digits: NDArray[np.float64], path: Path) -> Channel:
    """Return a lead, in the unit of its scale; its origin may be in another one of voltage."""
    unit, zero_unit = first(value, "scale", "unit"), first(value, "origin", "unit")
    scale = _number(first(value, "scale", "value"), path, f"scale of {code:.60}")
    zero = _number(first(value, "origin", "value") or "0", path, f"origin of {code:.60}")
    if zero and zero_unit != unit:
        if not {unit, zero_unit} <= set(MILLIVOLT):
            problem = f"origin of {code:.60} in {zero_unit!r:.20}"
            raise RecordError(path, problem, f"{unit!r:.20}", "fetch or export it again")
        zero *= MILLIVOLT[zero_unit] / MILLIVOLT[unit]
    return Channel(lead_of(code), unit, lambda: zero + scale * digits)


def lead_of(code: str) -> str:
    """Return the lead of an ISO/IEEE 11073 code: MDC_ECG_LEAD_AVR is aVR; another code stays."""
    name = code.removeprefix(_LEAD)
    return f"aV{name[2]}" if name in ("AVR", "AVL", "AVF") else name or "lead"


def _day(text: str) -> date | None:
    return day(int(text[:4]), int(text[4:6]), int(text[6:8])) if text[:8].isdecimal() and len(text) >= 8 else None


def _comments(root: Element) -> tuple[str, ...]:
    """Return what the document says of patient and recording."""
    person = f"{_PERSON}/subjectDemographicPerson"
    began = next((first(root, f"effectiveTime{part}", "value") for part in ("/low", "/center", "")
                  if first(root, f"effectiveTime{part}", "value")), "")  # fmt: skip
    born = first(root, f"{person}/birthTime", "value")
    name = next(iter(find_all(root, f"{person}/name")), None)
    sex = first(root, f"{person}/administrativeGenderCode", "code")
    return comment_lines(
        {
            "patient name": "" if name is None else " ".join(name.itertext())[:MAX_TEXT],
            "patient id": first(root, f"{_PERSON}/id", "extension"),
            "sex": sex if sex in ("M", "F") else "",
            "age": age(_day(born), _day(began)),
            "birth date": born,
            "start": began,
            "document id": first(root, "id", "extension") or first(root, "id", "root"),
            "trial": f"{first(root, f'{_TRIAL}/id', 'extension')} {first(root, f'{_TRIAL}/title')}",
            "device": f"{first(root, f'{_DEVICE}/manufacturerModelName')} {first(root, f'{_DEVICE}/id', 'extension')}",
            "text": first(root, "text"),
        }
    )


def read_aecg(path: Path, selection: LeadSelection) -> Recording:
    """Read an annotated ECG.

    Raises:
        RecordError: no XML, a document type or entities, another document, no rhythm, sequences of different lengths,
            what is no number, units that are no voltage, a missing lead.
    """
    root = _document(path)
    recorder = first(root, f"{_DEVICE}/manufacturerModelName").strip()
    return recording_of(path, _groups(root, path), selection, _comments(root), recorder)


def aecg_comments(path: Path) -> tuple[str, ...]:
    """Return what a document says of patient and recording, as comment lines; raises RecordError."""
    return _comments(_document(path))
