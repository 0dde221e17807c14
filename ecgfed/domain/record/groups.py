"""Channels that were sampled together, and the recording made of them: what the hospital formats' readers share.

A resting ECG may hold parts: twelve leads in four groups of three, a strip of rhythm, a median beat. A recording has
one sampling frequency and one beginning, so it is the group of the chosen lead and the groups sampled with it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import RecordError, param
from ecgfed.base.text import count_of
from ecgfed.domain.record.checks import MILLIVOLT, check_fs, check_samples, check_size
from ecgfed.domain.record.kinds import name_without_suffix
from ecgfed.domain.record.leads import are_ecg, choose_lead, distinct, requested_alias
from ecgfed.domain.record.metadata import Start, metadata_of
from ecgfed.domain.record.recording import Recording

#: More channels than any recorder of ECGs has.
MAX_CHANNELS = 256


@dataclass(frozen=True)
class Channel:
    """One channel of a file.

    Attributes:
        name: as the file says it.
        unit: what ``read`` gives its values in, as the file writes it.
        read: returns (samples,) float64 in that unit, NaN where nothing was recorded.
    """

    name: str
    unit: str
    read: Callable[[], NDArray[np.float64]]


@dataclass(frozen=True)
class SignalGroup:
    """Channels that were sampled together.

    Attributes:
        fs_hz: sampling frequency in Hz.
        samples: of each channel.
        start: when it begins; equal for groups that begin together.
        channels: at least one.
        begins: when its first sample was recorded; None takes what comments state.
    """

    fs_hz: float
    samples: int
    start: object
    channels: tuple[Channel, ...]
    begins: Start | None = None

    @property
    def clock(self) -> tuple[float, int, object]:
        """What groups have in common that were sampled together."""
        return self.fs_hz, self.samples, self.start


class LeadSelection(NamedTuple):
    """What is read of a file: the lead that is asked for, and whether the other ECGs, and what is none."""

    leads: tuple[str, ...]
    every_lead: bool = False
    include_non_ecg: bool = False


def rounded_fs(fs_hz: float) -> float:
    """Return a sampling frequency, the whole number that it is but for rounding."""
    return float(round(fs_hz)) if math.isclose(fs_hz, round(fs_hz), rel_tol=1e-6) else fs_hz


def recording_of(
    path: Path,
    groups: Sequence[SignalGroup],
    selection: LeadSelection,
    comments: tuple[str, ...],
    recorder: str | None = None,
) -> Recording:
    """Return the recording of a file's groups; of two leads of one name the longer part's.

    Args:
        path: the file.
        groups: in its order.
        selection: which leads.
        comments: what it says of patient and recording.
        recorder: make or model of the recorder, where comments state more than that; None takes it from them.

    Raises:
        RecordError: no channel, too many, no such lead, units that are no voltage, a length or a sampling frequency
            that cannot be, wrong units.
    """
    count = sum(len(group.channels) for group in groups)
    if not 1 <= count <= MAX_CHANNELS:
        raise RecordError(path, f"holds {count} channels", f"1 to {MAX_CHANNELS}", "check that it is the right file")
    rows, again = _rows(groups)
    names = [channel.name for _, channel in rows]
    at = choose_lead(names, path, selection.leads, [channel.unit for _, channel in rows])
    group, lead = rows[at][0], names[at]
    check_fs(group.fs_hz, path, f"{group.fs_hz:g}", "check the file")
    check_samples(group.samples, path)
    channels, skipped = [], []
    for row, ((channel_group, channel), ecg) in enumerate(zip(rows, are_ecg(names), strict=True)):
        reason = _reason(channel_group, group, channel, ecg or selection.include_non_ecg)
        if row == at or (selection.every_lead and not reason):
            channels.append(channel)
        elif selection.every_lead:
            skipped.append(f"{channel.name}: {reason}")
    signals = np.stack([_millivolt(channel, group.samples, path) for channel in channels])
    read = tuple(channel.name for channel in channels)
    check_size(signals, read, path)
    metadata = metadata_of(comments)
    if group.begins is not None:
        metadata = replace(metadata, start=group.begins)
    if recorder is not None:
        metadata = replace(metadata, recorder=recorder)
    return Recording(
        name_without_suffix(path),
        path,
        lead,
        read,
        group.fs_hz,
        signals,
        comments,
        files=(path,),
        skipped=(*skipped, *(again if selection.every_lead else ())),
        requested_as=requested_alias(selection.leads, lead),
        metadata=metadata,
    )


def _rows(groups: Sequence[SignalGroup]) -> tuple[list[tuple[SignalGroup, Channel]], tuple[str, ...]]:
    """Return the channels in the file's order, each name once, and what is said of those that are there again."""
    order = sorted(range(len(groups)), key=lambda number: -groups[number].samples / groups[number].fs_hz)
    taken: set[str] = set()
    by_group: dict[int, list[tuple[SignalGroup, Channel]]] = {}
    again = []
    for number in order:
        group = groups[number]
        names = distinct([channel.name for channel in group.channels])
        channels = [replace(channel, name=name) for channel, name in zip(group.channels, names, strict=True)]
        by_group[number] = [(group, channel) for channel in channels if channel.name not in taken]
        again += [f"{channel.name}: there again, {_length(group)}" for channel in channels if channel.name in taken]
        taken.update(names)
    return [row for number in sorted(by_group) for row in by_group[number]], tuple(again)


def _length(group: SignalGroup) -> str:
    return f"{group.samples / group.fs_hz:g} s"


def _reason(group: SignalGroup, chosen: SignalGroup, channel: Channel, welcome: bool) -> str:
    """Say why a channel is not read beside the chosen lead, or ``""``."""
    if group.fs_hz != chosen.fs_hz:
        return f"{group.fs_hz:g} Hz"
    if group.clock != chosen.clock:
        return f"another part of {_length(group)}"
    if channel.unit not in MILLIVOLT:
        return "no voltage"
    return "" if welcome else "no ECG"


def _millivolt(channel: Channel, samples: int, path: Path) -> NDArray[np.float64]:
    if channel.unit not in MILLIVOLT:
        problem = f"lead {channel.name} is in {channel.unit!r:.40}"
        raise RecordError(path, problem, "one of mV, uV, µV, V, nV", f"choose another with {param('leads')}")
    with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is refused for it
        values = channel.read()
    if values.shape != (samples,):
        problem = f"lead {channel.name} holds {count_of(len(values), 'sample')}"
        raise RecordError(path, problem, f"{samples}, as the others hold", "fetch or export it again")
    values *= MILLIVOLT[channel.unit]
    return values


def comment_lines(fields: dict[str, str]) -> tuple[str, ...]:
    """Return comment lines of the fields of a header that say something: ``patient name: Doe``."""
    texts = {name: " ".join(text.split()) for name, text in fields.items()}
    return tuple(f"{name}: {text}" for name, text in texts.items() if text)


def age(born: date | None, began: date | None) -> str:
    """Return the whole years between two days, or ``""`` where they are not known or no person's."""
    if born is None or began is None:
        return ""
    years = began.year - born.year - ((began.month, began.day) < (born.month, born.day))
    return str(years) if 0 <= years <= 130 else ""


def day(year: int, month: int, of_month: int) -> date | None:
    """Return a day, or None where there is no such one."""
    try:
        return date(year, month, of_month)
    except (ValueError, OverflowError):
        return None
