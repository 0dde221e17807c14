"""A physician's edits of a report: the JSON file that its page saves and ``report --edits`` reads.

Edits are listed in the order in which they were made; of several edits of one beat the last one counts. Files come from
strangers: every entry is checked, and one that does not fit is refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ecgfed.base.errors import RecordError
from ecgfed.base.files import read_json
from ecgfed.base.text import visible_text
from ecgfed.domain.events.kinds import RHYTHM_NAMES
from ecgfed.domain.labels.user_labels import NO_BEAT, SYMBOLS

FORMAT, VERSION = "ecgfed-edits", 1
#: Maximum number of characters of a name and of a text, and of edits and samples of a file.
MAX_NAME, MAX_TEXT, MAX_EDITS, MAX_SAMPLES = 200, 10_000, 100_000, 5_000_000
TEXTS = ("indication", "comments", "conclusion")
#: An added beat is at least this far from every other beat (s): at 300 a minute beats are 200 ms apart.
REFRACTORY_S = 0.2
#: Note of an added beat in the annotation of an edited report.
ADDED = "added"
#: Date and time with the offset from UTC, as the page writes them; ``fromisoformat`` allows more than JavaScript reads.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d[+-](?:[01]\d|2[0-3]):[0-5]\d", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIELDS = ("format", "version", "recording", "beats", "author", "saved_at", "reviewed", *TEXTS, "strips", "edits")
#: A member that files lack which were saved before conclusions were drafted.
_DRAFT = "conclusion_draft"


@dataclass(frozen=True)
class BeatEdit:
    """A label for some beats.

    Attributes:
        samples: R peaks of the beats.
        label: a symbol of ``ecgfed.domain.labels.user_labels.SYMBOLS``, ``|`` removes the beats; None accepts the
            labels that the beats have.
        added: the beat, one alone, was not detected and is added.
    """

    samples: tuple[int, ...]
    label: str | None
    added: bool = False


@dataclass(frozen=True)
class IntervalEdit:
    """A decision on the interval between two consecutive beats, at ``start`` and ``stop``.

    Attributes:
        start: sample of the beat before it.
        stop: sample of the beat after it.
        accepted: the interval is measured; otherwise it is in no rate and no pause.
    """

    start: int
    stop: int
    accepted: bool


@dataclass(frozen=True)
class RhythmEdit:
    """A decision on an episode of a rhythm.

    Attributes:
        rhythm: the rhythm's name in the report before editing.
        start: sample at which the episode begins, rounded.
        stop: sample at which it ends.
        label: the rhythm's name after editing, its own one or one of ``RHYTHM_NAMES``; its own one accepts the episode,
            ``""`` rejects it.
    """

    rhythm: str
    start: int
    stop: int
    label: str


@dataclass(frozen=True)
class Edits:
    """All edits of a report.

    Attributes:
        path: their file, for messages.
        recording: id of the recording, 16 hexadecimal digits.
        beats: digest of the beats and rhythms before editing.
        author: who made the edits.
        saved_at: when the file was saved, with its offset from UTC.
        reviewed: who reviewed the report and when; None for not reviewed.
        indication: text of the reviewer.
        comments: likewise.
        conclusion: likewise.
        conclusion_draft: the draft of the conclusion when the reviewer accepted or last changed it; ``""`` for none.
        strips: sample at which a strip begins -> comment on it.
        of_beats: edits of beats, in order.
        of_intervals: edits of intervals, in order.
        of_rhythms: edits of episodes, in order.
        document: the content of the file.
    """

    path: Path
    recording: str
    beats: str
    author: str
    saved_at: datetime
    reviewed: tuple[str, datetime] | None
    indication: str
    comments: str
    conclusion: str
    conclusion_draft: str
    strips: Mapping[int, str]
    of_beats: tuple[BeatEdit, ...]
    of_intervals: tuple[IntervalEdit, ...]
    of_rhythms: tuple[RhythmEdit, ...]
    document: Mapping[str, Any]

    def check_recording(self, recording: str, samples: int) -> None:
        """Refuse edits of another recording, or beyond its end.

        Args:
            recording: id of the recording.
            samples: its length.

        Raises:
            RecordError: they do not fit.
        """
        if self.recording != recording:
            problem = f"holds edits of another recording ({self.recording})"
            raise RecordError(self.path, problem, f"those of {recording}", "name the recording they were made of")
        latest = max(
            max(self.strips, default=0),
            *(max(edit.samples) for edit in self.of_beats),
            *(edit.stop for edit in self.of_intervals),
            *(edit.stop - 1 for edit in self.of_rhythms),
            0,
        )
        if latest >= samples:
            problem = f"has an edit at sample {latest}"
            raise RecordError(self.path, problem, f"0 to {samples - 1}, the recording's length")

    def check_beats(self, beats: str) -> None:
        """Refuse edits of other labels of the recording; raises RecordError.

        Args:
            beats: digest of the beats and rhythms before editing.
        """
        if self.beats != beats:
            problem = f"holds edits of other labels of this recording ({self.beats})"
            action = "use the bundle, the patient, the lead and the labels that the edited page was made with"
            raise RecordError(self.path, problem, f"those of this report ({beats})", action)


def read_edits(path: Path) -> Edits:
    """Read the edits of a report.

    Raises:
        RecordError: the file cannot be read, or does not have the format; the message names the first problem.
    """
    document = read_json(path, RecordError)
    reader = _Reader(path)
    of = reader.members(document, "the file", _FIELDS, optional=(_DRAFT,))
    if of["format"] != FORMAT:
        raise reader.problem("format", of["format"], f"{FORMAT!r}: the file that an edited page saves")
    if of["version"] != VERSION or isinstance(of["version"], bool):
        raise reader.problem("version", of["version"], f"{VERSION}")
    reviewed = None
    if of["reviewed"] is not None:
        review = reader.members(of["reviewed"], "reviewed", ("by", "at"))
        reviewed = reader.name(review["by"], "reviewed.by"), reader.time(review["at"], "reviewed.at")
    strips: dict[int, str] = {}
    for where, entry in reader.entries(of["strips"], "strips"):
        strip = reader.members(entry, where, ("sample", "comment"))
        strips[reader.sample(strip["sample"], where)] = reader.text(strip["comment"], where)
    edits = [reader.edit(entry, where) for where, entry in reader.entries(of["edits"], "edits")]
    return Edits(
        path,
        reader.digest(of["recording"], "recording"),
        reader.digest(of["beats"], "beats"),
        reader.name(of["author"], "author"),
        reader.time(of["saved_at"], "saved_at"),
        reviewed,
        reader.text(of["indication"], "indication"),
        reader.text(of["comments"], "comments"),
        reader.text(of["conclusion"], "conclusion"),
        reader.text(of.get(_DRAFT, ""), _DRAFT),
        strips,
        tuple(edit for edit in edits if isinstance(edit, BeatEdit)),
        tuple(edit for edit in edits if isinstance(edit, IntervalEdit)),
        tuple(edit for edit in edits if isinstance(edit, RhythmEdit)),
        document,
    )


class _Reader:
    """Reads the values of a file and refuses those that do not fit.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples_left = MAX_SAMPLES

    def problem(self, where: str, value: object, expected: str) -> RecordError:
        """Return the error for a value."""
        return RecordError(self.path, f"{where} is {value!r:.60}", expected)

    def members(
        self, value: object, where: str, names: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return an object that has exactly these members, the optional ones or not."""
        if not isinstance(value, dict):
            raise self.problem(where, value, f"an object with {', '.join(names)}")
        for name in names:
            if name not in value:
                raise RecordError(self.path, f"{where} has no {name!r}", f"{', '.join(names)}")
        if unknown := next((name for name in value if name not in (*names, *optional)), None):
            raise RecordError(self.path, f"{where} has {unknown!r:.60}", f"nothing but {', '.join(names)}")
        return value

    def entries(self, value: object, where: str) -> Iterator[tuple[str, object]]:
        """Yield the entries of a list, each with its place."""
        if not isinstance(value, list):
            raise self.problem(where, value, "a list")
        if len(value) > MAX_EDITS:
            raise RecordError(self.path, f"{where} has {len(value):,} entries", f"at most {MAX_EDITS:,}")
        for number, entry in enumerate(value):
            yield f"{where}[{number}]", entry

    def digest(self, value: object, where: str) -> str:
        """Return 16 hexadecimal digits."""
        if not isinstance(value, str) or len(value) != 16 or set(value) - set("0123456789abcdef"):
            raise self.problem(where, value, "16 hexadecimal digits")
        return value

    def name(self, value: object, where: str) -> str:
        """Return a name on one line."""
        if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME or not value.isprintable():
            raise self.problem(where, value, f"a name on one line of 1 to {MAX_NAME} characters")
        return value

    def text(self, value: object, where: str) -> str:
        """Return a text of several lines, which may be empty, without hidden characters (``visible_text``)."""
        if not isinstance(value, str) or len(value) > MAX_TEXT or _SURROGATE.search(value):
            raise self.problem(where, value, f"text of at most {MAX_TEXT:,} characters")
        return visible_text(value)

    def time(self, value: object, where: str) -> datetime:
        """Return a date and time with its offset from UTC."""
        try:
            moment = datetime.fromisoformat(value if isinstance(value, str) and _TIME.fullmatch(value) else "")
        except ValueError:  # such as February 30
            moment = None
        if moment is None:
            raise self.problem(where, value, "date and time with their offset from UTC, 2026-11-28T09:15:00+01:00")
        return moment

    def sample(self, value: object, where: str) -> int:
        """Return a sample number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 53 or value % 1:
            raise self.problem(f"{where} sample", value, "a whole number of samples, 0 or more")
        return int(value)  # JavaScript does not tell 5.0 from 5

    def samples(self, value: object, where: str) -> tuple[int, ...]:
        """Return sample numbers, one at least."""
        if not isinstance(value, list) or not value or len(value) > self.samples_left:
            raise self.problem(f"{where} samples", value, f"a list of samples, at most {MAX_SAMPLES:,} in all")
        self.samples_left -= len(value)
        return tuple(self.sample(entry, where) for entry in value)

    def edit(self, value: object, where: str) -> BeatEdit | IntervalEdit | RhythmEdit:
        """Return an edit of any kind."""
        kind = value.get("edit") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in _KINDS:
            raise self.problem(f"{where} edit", kind, f"one of {', '.join(_KINDS)}")
        names, read = _KINDS[kind]
        of = self.members(value, where, ("edit", "at", "samples", *names))
        self.time(of["at"], f"{where} at")
        return read(self, of, self.samples(of["samples"], where), where)

    def span(self, samples: tuple[int, ...], where: str) -> tuple[int, int]:
        """Return start and stop."""
        if len(samples) != 2 or samples[0] >= samples[1]:
            raise self.problem(f"{where} samples", list(samples), "two samples, the earlier one first")
        return samples[0], samples[1]


def _label(reader: _Reader, of: Mapping[str, Any], samples: tuple[int, ...], where: str) -> BeatEdit:
    if not isinstance(of["label"], str) or of["label"] not in SYMBOLS:
        raise reader.problem(f"{where} label", of["label"], f"one of {' '.join(sorted(SYMBOLS))}")
    return BeatEdit(samples, of["label"])


def _accept(_reader: _Reader, _of: Mapping[str, Any], samples: tuple[int, ...], _where: str) -> BeatEdit:
    return BeatEdit(samples, None)


def _add(reader: _Reader, of: Mapping[str, Any], samples: tuple[int, ...], where: str) -> BeatEdit:
    if len(samples) != 1:
        raise reader.problem(f"{where} samples", list(samples), "the sample of one beat")
    edit = _label(reader, of, samples, where)
    if edit.label == NO_BEAT:
        raise reader.problem(f"{where} label", NO_BEAT, "a symbol of a beat")
    return BeatEdit(samples, edit.label, added=True)


def _interval(reader: _Reader, of: Mapping[str, Any], samples: tuple[int, ...], where: str) -> IntervalEdit:
    if not isinstance(of["accepted"], bool):
        raise reader.problem(f"{where} accepted", of["accepted"], "true or false")
    return IntervalEdit(*reader.span(samples, where), of["accepted"])


def _rhythm(reader: _Reader, of: Mapping[str, Any], samples: tuple[int, ...], where: str) -> RhythmEdit:
    rhythm, label = reader.name(of["rhythm"], f"{where} rhythm"), of["label"]
    if not isinstance(label, str) or label not in ("", rhythm, *RHYTHM_NAMES):
        raise reader.problem(f"{where} label", label, f"{rhythm!r:.60}, '' or one of {', '.join(RHYTHM_NAMES)}")
    return RhythmEdit(rhythm, *reader.span(samples, where), label)


#: Kind of an edit -> its members beside ``edit``, ``at`` and ``samples``, and what reads it.
_Read = Callable[[_Reader, Mapping[str, Any], tuple[int, ...], str], BeatEdit | IntervalEdit | RhythmEdit]
_KINDS: dict[str, tuple[tuple[str, ...], _Read]] = {
    "label": (("label",), _label),
    "accept": ((), _accept),
    "add": (("label",), _add),
    "interval": (("accepted",), _interval),
    "rhythm": (("rhythm", "label"), _rhythm),
}
