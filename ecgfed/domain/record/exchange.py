"""What exported documents share: coded beats, coded figures, and what the user states of patient and time."""

import uuid
from dataclasses import dataclass
from datetime import datetime, time, timedelta

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, param
from ecgfed.domain.events.figure import OWN_SYSTEM, Figure
from ecgfed.domain.record.lead_names import SCP_LEADS, folded, known_lead
from ecgfed.domain.record.metadata import NOT_STATED, Start

_NAMESPACE = uuid.UUID(int=int(OWN_SYSTEM.removeprefix("2.25.")))
#: As long as DICOM allows an identifier to be (PS3.5, LO).
_MAX_SUBJECT = 64
#: WFDB symbol -> code, reference identifier and meaning in ISO/IEEE 11073-10102 (DICOM PS3.16, CID 3335).
BEAT_CODES = {
    "N": (8208, "MDC_ECG_BEAT_NORMAL", "Normal beat (sinus beat, normal conduction)"),
    "L": (8464, "MDC_ECG_BEAT_LBB_BLK_COMP", "Left bundle branch block beat"),
    "R": (8496, "MDC_ECG_BEAT_RBB_BLK_COMP", "Right bundle branch block beat"),
    "B": (8448, "MDC_ECG_BEAT_BB_BLK", "Bundle branch block beat"),
    "A": (8272, "MDC_ECG_BEAT_ATR_P_C", "Atrial premature contraction (beat)"),
    "a": (8304, "MDC_ECG_BEAT_ATR_P_C_ABERR", "Aberrated atrial premature beat (Ashman beat)"),
    "J": (8288, "MDC_ECG_BEAT_JUNC_P_C", "Junctional (nodal) premature contraction"),
    "S": (8256, "MDC_ECG_BEAT_SV_P_C", "Supraventricular premature contraction"),
    "V": (8336, "MDC_ECG_BEAT_V_P_C", "Ventricular premature contraction beat"),
    "r": (8368, "MDC_ECG_BEAT_V_P_C_RonT", "R-on-T premature ventricular beat"),
    "E": (8432, "MDC_ECG_BEAT_V_ESC", "Ventricular escape beat"),
    "F": (8352, "MDC_ECG_BEAT_V_P_C_FUSION", "Fusion of ventricular and normal beat"),
    "/": (8704, "MDC_ECG_BEAT_PACED", "Paced beat"),
    "f": (8720, "MDC_ECG_BEAT_PACED_FUS", "Pacemaker Fusion beat"),
    "e": (8400, "MDC_ECG_BEAT_ATR_ESC", "Atrial escape beat"),
    "j": (8416, "MDC_ECG_BEAT_JUNC_ESC", "Junctional (nodal) escape beat"),
    "n": (8384, "MDC_ECG_BEAT_SV_ESC", "Supraventricular escape beat"),
}
UNKNOWN_BEAT = (8736, "MDC_ECG_BEAT_UNKNOWN", "Unclassifiable beat")
_LEAD_CODES = {name: number for number, name in SCP_LEADS.items()}


@dataclass(frozen=True)
class Stated:
    """What documents state of patient and time: nothing of the recording's file but what the user allows.

    Attributes:
        subject: identifier of the patient, or a pseudonym; ``""`` for none.
        start: when the recording begins, as far as it may be stated.

    Raises:
        OptionError: a subject of control characters or more than 64 characters.
    """

    subject: str = ""
    start: Start = NOT_STATED

    def __post_init__(self) -> None:
        if len(self.subject) > _MAX_SUBJECT or not self.subject.isprintable() or "\\" in self.subject:
            expected = f"at most {_MAX_SUBJECT} printable characters, no backslash"
            raise OptionError("subject", f"{self.subject!r:.100}", expected)

    def period(self, duration_s: float) -> tuple[datetime, datetime] | None:
        """Return when a recording of this length begins and ends; None where day or time of day is not stated.

        None too where the end would be after the year 9999, which a file may state.
        """
        start = self.start
        if start.date is None or start.time is None:
            return None
        begins = datetime.combine(start.date, start.time)
        try:
            return begins, begins + timedelta(seconds=duration_s)
        except OverflowError:
            return None


@dataclass(frozen=True, eq=False)
class Document:
    """What is written of a recording.

    Attributes:
        stated: of patient and time.
        leads: names of the recording's leads as written.
        sample: (beats,) int64 R peaks.
        symbol: (beats,) WFDB symbols.
        remark: (beats,) what limits a label, such as ``low confidence``; ``""`` for nothing.
        figures: the figures of the report.
        provisional: no person has reviewed the labels.
        reviewed: a person reviewed the report, and is named in its edits.
        intended_use: in one sentence.
        warnings: codes of the report's warnings.
        version: of ecgfed.
        digest: of the content: equal content has equal identifiers.
        conclusion: that a reader accepted or wrote; ``""`` for none.
        older: the figures have changed since then.
    """

    stated: Stated
    leads: tuple[str, ...]
    sample: NDArray[np.int64]
    symbol: NDArray[np.str_]
    remark: NDArray[np.str_]
    figures: tuple[Figure, ...]
    provisional: bool
    reviewed: bool
    intended_use: str
    warnings: tuple[str, ...]
    version: str
    digest: str
    conclusion: str = ""
    older: bool = False

    def uuid(self, part: str) -> uuid.UUID:
        """Return the identifier of a part of the document: a name-based UUID (RFC 4122, version 5)."""
        return uuid.uuid5(_NAMESPACE, f"{self.digest} {part}")


def beat_code(symbol: str) -> tuple[int, str, str]:
    """Return code, reference identifier and meaning of a WFDB symbol in ISO/IEEE 11073-10102."""
    return BEAT_CODES.get(symbol, UNKNOWN_BEAT)


def lead_code(name: str) -> tuple[int, str] | None:
    """Return number and name of a standard lead in ISO/IEEE 11073-10101; None for modified and unknown leads."""
    lead = known_lead(folded(name))
    if lead is None or lead.electrodes or lead.lead not in _LEAD_CODES:
        return None
    return _LEAD_CODES[lead.lead], lead.lead


def stated_start(start: datetime | str | None) -> Start | None:
    """Return the start that a user states, None for none; raises OptionError where it is no time that is understood."""
    if start is None or start == "":
        return None
    try:
        at = datetime.fromisoformat(start) if isinstance(start, str) and len(start) > len("00:00:00.000000") else start
        if isinstance(at, str):
            return Start(time=time.fromisoformat(at))
        if at.utcoffset() is not None:
            return Start(at.date(), at.timetz())
    except ValueError:
        pass
    expected = "a time of day such as 09:15:00, or a date and a time with its offset such as 2026-03-04T09:15:00+01:00"
    raise OptionError("start", f"{str(start)!r:.60}", expected)


def unsuitable(format_name: str, reason: str, expected: str, action: str) -> OptionError:
    """Return the error of a recording that a format cannot hold."""
    return OptionError(f"{param('formats')} {format_name}", reason, expected, action, code="conflict")
