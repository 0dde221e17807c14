"""Parse records, leads and times as users specify them."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ecgfed.base.errors import OptionError, RecordError, param
from ecgfed.base.files import sha256
from ecgfed.base.language import message
from ecgfed.domain.record.checks import check_stated
from ecgfed.domain.record.file_summary import file_summary
from ecgfed.domain.record.leads import (
    LeadGroup,
    NoLeadError,
    choose_lead,
    ecg_alone,
    find_lead,
    lead_list,
    position_in,
    requested_alias,
)
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.record.recording import ReadOptions, Recording, spans
from ecgfed.domain.record.wfdb_header import record_base, segment_names
from ecgfed.domain.signal.chunked_quality import lead_quality

#: A lead is looked through in parts of so many seconds for one that can be used.
_LOOK_S = 60.0
#: The readers' reasons for skipping channels that are not ECG.
NOT_ECG = ("no ECG", "no voltage")
#: ``300``, ``5:07.3`` or ``1:05:00``.
_MOMENT = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+\.?\d*|\.\d+)")


def record_paths(paths: Sequence[Path]) -> list[Path]:
    """Return paths of recordings, WFDB records without suffix; a folder yields its WFDB records in name order.

    Segments of multi-segment records are not listed.

    Raises:
        RecordError: a folder without records.
    """
    records: list[Path] = []
    for path in paths:
        if not path.is_dir():
            records.append(record_base(path))
            continue
        headers = sorted(file for file in path.glob("*") if file.suffix.casefold() == ".hea")
        parts = {name for header in headers for name in segment_names(header)}
        inside = [record_base(header) for header in headers if header.stem not in parts]
        if not inside:
            raise RecordError(path, "holds no record", "WFDB headers (RECORD.hea)", "check the folder, or name files")
        records += inside
    return list(dict.fromkeys(records))


def with_lead(recording: Recording, leads: tuple[str, ...]) -> Recording:
    """Return a recording with another lead in use.

    Args:
        leads: lead names in order of preference.

    Raises:
        OptionError: a channel number, ``#2``, of a recording of which some channels were not read: it counts the
            channels of the file.
        RecordError: none of the leads is present, or two that match are indistinguishable.
    """
    positions = [name for name in leads if position_in(name) is not None]
    if positions and recording.files and (recording.skipped or len(recording.leads) == 1):
        read = f"{positions[0]} of a recording of which not every channel was read"
        names = f"a name among {', '.join(recording.leads)}"
        raise OptionError("leads", read, names, "or pass its file: numbers count the channels of the file")
    lead = recording.leads[choose_lead(recording.leads, recording.path, leads)]
    return replace(recording, lead=lead, requested_as=requested_alias(leads, lead))


def with_beat_leads(recording: Recording, leads: str | Sequence[str] | None) -> Recording:
    """Return a recording whose beats are detected in the requested leads only.

    Args:
        recording: the recording, with the lead in use chosen.
        leads: one name, or several in order of preference: the lead in use only; a ``LeadGroup``: all of its leads;
            None: all ECG leads.

    Raises:
        RecordError: a lead of a group is missing or not an ECG, or two that match are indistinguishable.
    """
    if leads is None:
        return recording
    if not isinstance(leads, LeadGroup):
        return replace(recording, beat_leads=(recording.lead,))
    for name in leads:
        _check_channel(recording, name)
    rows = [choose_lead(recording.leads, recording.path, (name,)) for name in leads]
    return replace(recording, beat_leads=tuple(recording.leads[row] for row in rows))


def _check_channel(recording: Recording, name: str) -> None:
    """Raise RecordError if a requested lead is a channel that was skipped."""
    channels = dict(entry.rpartition(": ")[::2] for entry in recording.skipped)
    match = None if find_lead(recording.leads, (name,)) else find_lead(tuple(channels), (name,))
    if match is None:
        return
    channel = tuple(channels)[match.at[0]]
    reason = channels[channel]
    what = "is not an ECG channel" if reason in NOT_ECG else f"cannot be read beside {recording.lead} ({reason})"
    problem = f"channel {channel} {what}"
    expected = f"leads among {', '.join(recording.leads)}"
    raise RecordError(recording.path, problem, expected, f"leave it out of {param('leads')}", code="unknown-lead")


def open_for_model(
    recording: Recording | Path | str,
    trained: tuple[str, ...],
    leads: str | Sequence[str] | None,
    *,
    every_lead: bool = True,
    how: ReadOptions | None = None,
    min_samples: int | None = None,
) -> Recording:
    """Return a recording with the lead in use chosen: the requested lead, else a lead the model was trained on.

    Without a requested lead, a recording with a single ECG lead that the model was not trained on is read all the
    same; predictions warn of the other lead.

    Args:
        recording: a recording, or its file.
        trained: the model's leads in order of preference.
        leads: as in ``with_beat_leads``.
        every_lead: also read the other leads of a file.
        how: sampling frequency, units and columns of CSV and NumPy files.
        min_samples: as in ``open_recording``.

    Raises:
        EcgfedError: it is unreadable, or none of the leads is present and there are several ECG leads.
    """

    def open_with(selection: tuple[str, ...]) -> Recording:
        if isinstance(recording, Recording):
            return with_lead(recording, selection)
        return open_recording(recording, selection, every_lead=every_lead, how=how, min_samples=min_samples)

    named = None if leads is None else lead_list(leads)
    try:
        result = open_with(trained if named is None else named)
    except NoLeadError as problem:
        if named is not None or len(problem.ecg) != 1:
            if isinstance(recording, Path | str):  # what else has to be stated belongs to the same line
                check_stated([problem, *missing] if (missing := file_summary(recording, how=how).missing) else [])
            raise
        result = open_with(problem.ecg)
    return with_beat_leads(with_usable_lead(result, trained) if named is None else result, named)


def with_usable_lead(recording: Recording, preferred: tuple[str, ...]) -> Recording:
    """Return a recording with another lead in use where nothing of the chosen one can be used, and a note of it.

    Args:
        recording: with every lead.
        preferred: lead names in order of preference; else the first ECG that can be used.
    """
    if _has_usable_part(recording, recording.lead):
        return recording
    ecg = [name for name in ecg_alone(recording).leads if name != recording.lead and _has_usable_part(recording, name)]
    if not ecg:
        return recording
    match = find_lead(ecg, preferred)
    lead = ecg[match.at[0] if match else 0]
    note = message("nothing of {lead} can be used: {other} is read in its place", lead=recording.lead, other=lead)
    requested_as = requested_alias(preferred, lead)
    return replace(recording, lead=lead, requested_as=requested_as, notes=(*recording.notes, note))


def _has_usable_part(recording: Recording, lead: str) -> bool:
    block = max(1, round(_LOOK_S * recording.fs_hz))
    return any(
        lead_quality(recording.lead_mv(lead, start, stop), recording.fs_hz).usable_s > 0
        for start, stop in spans(recording.samples, block)
    )


def recording_digests(recording: Recording) -> list[str]:
    """Return sorted SHA-256 digests of a recording's files without the header: they identify it under any name."""
    files = [file for file in recording.files if file.suffix.casefold() != ".hea" and file.is_file()]
    return sorted(map(sha256, files))


def seconds_of(moment: float | str, option: str, expected: str) -> float:
    """Return a time in a record in seconds.

    Args:
        moment: seconds, or text such as ``5:07.3``, ``1:05:00`` or ``300``.
        option: the option, for messages.
        expected: the expected value, for messages.

    Raises:
        OptionError: an invalid or negative time.
    """
    if not isinstance(moment, str):
        if math.isfinite(moment) and moment >= 0:
            return float(moment)
    elif match := _MOMENT.fullmatch(moment.strip()):
        hours, minutes, rest = (float(part or 0) for part in match.groups())
        return 3600 * hours + 60 * minutes + rest
    raise OptionError(option, f"{moment!r}", expected)
