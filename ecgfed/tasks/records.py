"""Which records a verb was given, which lead of them is meant, and times in them, as a person writes these."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ecgfed.errors import OptionError, RecordError
from ecgfed.files import sha256
from ecgfed.record.leads import LeadGroup, are_ecg, choose_lead, position_in, requested_alias
from ecgfed.record.recording import AnyRecording
from ecgfed.record.wfdb_header import record_base, segment_names

#: ``300``, ``5:07.3`` or ``1:05:00``.
_MOMENT = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+\.?\d*|\.\d+)")


def record_paths(given: Sequence[Path]) -> list[Path]:
    """Return recordings' paths, WFDB records without suffix; of a folder its WFDB records in order of name.

    Segments are parts of the record that names them.

    Raises:
        RecordError: a folder without a record.
    """
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(record_base(path))
            continue
        headers = sorted(file for file in path.glob("*") if file.suffix.casefold() == ".hea")
        parts = {name for header in headers for name in segment_names(header)}
        inside = [record_base(header) for header in headers if header.stem not in parts]
        if not inside:
            raise RecordError(path, "holds no record", "WFDB headers (RECORD.hea)", "check the folder, or name files")
        found += inside
    return list(dict.fromkeys(found))


def with_lead(recording: AnyRecording, leads: tuple[str, ...]) -> AnyRecording:
    """Return a recording that has been read, with another lead in use.

    Args:
        recording: it.
        leads: lead names in order of preference.

    Raises:
        OptionError: a place, ``#2``, where it is not known: places count the channels of a file, and not all of them
            were read.
        RecordError: none of the leads is there, or two are that nothing tells apart.
    """
    places = [one for one in leads if position_in(one) is not None]
    if places and recording.files and (recording.skipped or len(recording.leads) == 1):
        read = f"{places[0]} of a recording of which not every channel was read"
        names = f"a name among {', '.join(recording.leads)}"
        raise OptionError("--lead", read, names, "or name its file: places count a file's channels")
    lead = recording.leads[choose_lead(recording.leads, recording.path, leads)]
    return replace(recording, lead=lead, requested_as=requested_alias(leads, lead))


def looked_at(recording: AnyRecording, leads: str | Sequence[str] | None) -> AnyRecording:
    """Return a recording in which beats are looked for in the leads that a person named, and in no other.

    Args:
        recording: with the lead in use chosen.
        leads: one name, or several in order of preference: the one in use alone; a ``LeadGroup``: all of it that is
            there; None: every ECG.

    Raises:
        RecordError: a lead of a group is not there, or two are that nothing tells apart.
    """
    if leads is None:
        return recording
    if not isinstance(leads, LeadGroup):
        return replace(recording, beat_leads=(recording.lead,))
    rows = [choose_lead(recording.leads, recording.path, (name,)) for name in leads]
    return replace(recording, beat_leads=tuple(recording.leads[row] for row in rows))


def recording_digests(recording: AnyRecording) -> list[str]:
    """Return SHA-256 of a recording's files but its header, in order: it is known by them, whatever it is called."""
    files = [file for file in recording.files if file.suffix.casefold() != ".hea" and file.is_file()]
    return sorted(map(sha256, files))


def no_ecg(recording: AnyRecording) -> str:
    """Say that the lead in use is no ECG by its name, in one sentence, or ``""``: a place asks for any channel."""
    at = recording.leads.index(recording.lead)
    return "" if are_ecg(recording.leads)[at] else f"lead {recording.lead} is no ECG by its name"


def seconds_of(moment: float | str, option: str, expected: str) -> float:
    """Return a time in a record in seconds.

    Args:
        moment: seconds, or text such as ``5:07.3``, ``1:05:00`` or ``300``.
        option: the option it was given with, for messages.
        expected: what to say is expected, for messages.

    Raises:
        OptionError: it is no time, or lies before 0.
    """
    if not isinstance(moment, str):
        if math.isfinite(moment) and moment >= 0:
            return float(moment)
    elif match := _MOMENT.fullmatch(moment.strip()):
        hours, minutes, rest = (float(part or 0) for part in match.groups())
        return 3600 * hours + 60 * minutes + rest
    raise OptionError(option, f"{moment!r}", expected)
