"""Which records a verb was given, which lead of them is meant, and times in them, as a person writes these."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.files import sha256
from ecgfed.domain.record.leads import (
    LeadGroup,
    NoLeadError,
    are_ecg,
    choose_lead,
    find_lead,
    lead_list,
    position_in,
    requested_alias,
)
from ecgfed.domain.record.opening import open_recording
from ecgfed.domain.record.recording import AnyRecording, ReadOptions
from ecgfed.domain.record.wfdb_header import record_base, segment_names

#: Why a channel that is no ECG was not read, as the readers say it.
NOT_ECG = ("no ECG", "no voltage")
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
        RecordError: a lead of a group is not there, is no ECG, or two are that nothing tells apart.
    """
    if leads is None:
        return recording
    if not isinstance(leads, LeadGroup):
        return replace(recording, beat_leads=(recording.lead,))
    for name in leads:
        _refuse_left_out(recording, name)
    rows = [choose_lead(recording.leads, recording.path, (name,)) for name in leads]
    return replace(recording, beat_leads=tuple(recording.leads[row] for row in rows))


def _refuse_left_out(recording: AnyRecording, name: str) -> None:
    """Raise RecordError where a lead that a person named is a channel that was not read beside the one in use."""
    channels = dict(entry.rpartition(": ")[::2] for entry in recording.skipped)
    match = None if find_lead(recording.leads, (name,)) else find_lead(tuple(channels), (name,))
    if match is None:
        return
    channel = tuple(channels)[match.at[0]]
    reason = channels[channel]
    what = "is not an ECG channel" if reason in NOT_ECG else f"cannot be read beside {recording.lead} ({reason})"
    found = f"channel {channel} {what}"
    raise RecordError(recording.path, found, f"leads among {', '.join(recording.leads)}", "leave it out of --leads")


def open_for_model(
    recording: AnyRecording | Path | str,
    trained: tuple[str, ...],
    leads: str | Sequence[str] | None,
    *,
    every_lead: bool = True,
    how: ReadOptions | None = None,
) -> AnyRecording:
    """Return a recording with the lead in use chosen for a model: as a person named it, else as the model was trained.

    Where a person named none and the recording has none of the model's, but a single ECG, that one is read: there is
    nothing to choose, and predictions warn of the other lead.

    Args:
        recording: one that was read, or its file.
        trained: the model's leads in order of preference.
        leads: as of ``looked_at``.
        every_lead: read the other leads of a file, too.
        how: what a CSV or NumPy file leaves open.

    Raises:
        EcgfedError: it cannot be read, or none of the leads is there and there are several ECGs to choose from.
    """

    def opened(selection: tuple[str, ...]) -> AnyRecording:
        if isinstance(recording, AnyRecording):
            return with_lead(recording, selection)
        return open_recording(recording, selection, every_lead=every_lead, how=how)

    named = None if leads is None else lead_list(leads)
    try:
        found = opened(trained if named is None else named)
    except NoLeadError as problem:
        if named is not None or len(problem.ecg) != 1:
            raise
        found = opened(problem.ecg)
    return looked_at(found, named)


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
