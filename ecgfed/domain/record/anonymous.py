"""Taking names of people out of a recording: what leaves, what may stay, and the list that says what left.

What may stay is listed here, and everything else leaves: a field nobody thought of is gone, not kept. The list names
fields and counts, never what stood in them. Where the line is drawn and why: docs/decisions/0027.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ecgfed.base.errors import OptionError
from ecgfed.base.language import message
from ecgfed.domain.record.groups import comment_lines
from ecgfed.domain.record.lead_names import is_impersonal
from ecgfed.domain.record.metadata import RecordingMetadata
from ecgfed.domain.record.reader import format_of
from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.record.wfdb_header import header_fields, header_path

#: What a person may ask to keep of a header (``keep``).
KEEPABLE = ("age", "sex")
#: Formats whose comments are our own, a field and what it says.
HOSPITAL = ("dicom", "aecg", "muse", "scp", "ishne")
#: Ages from here on are one: so few people are that old that an age is close to a name (HIPAA, 45 CFR 164.514(b)).
OLDEST = 90
#: Notes of annotations that are codes, not text: rhythms, the words MIT-BIH's annotators used (annotation tables of
#: the WFDB Applications Guide), ST and T changes as the European ST-T Database writes them, and single symbols.
_RHYTHMS = "AB|AFIB|AFL|ASYS|ATACH|B|BI|BII|HGEA|IVR|J|MAT|N|NOD|NOISE|P|PM|PREX|SAB|SBR|SVTA|T|VER|VF|VFIB|VFL|VT"
_CODES = re.compile(rf"\((?:{_RHYTHMS})|TS|PSE|MISSB|U|\(?A?(?:ST|T)[0-9][+-]{{1,2}}[0-9]{{0,4}}\)?|[!-~]|")
#: EDF's dates and times that say nothing.
_NO_DATE, _NO_TIME = ("01.01.85", ""), ("00.00.00", "")


@dataclass(frozen=True, eq=False)
class Anonymised:
    """A recording without names.

    Attributes:
        recording: under its new name; its comments are what was kept. ``path`` and ``files`` still say where it was
            read, for errors: they are never written.
        annotation: marks without free text, or None.
        removed: what left, ``patient name``, ``comments (3)``: fields, never what stood in them.
    """

    recording: Recording
    annotation: Annotation | None
    removed: tuple[str, ...]


def check_keep(keep: Iterable[str]) -> tuple[str, ...]:
    """Return what shall be kept of a header; raises OptionError for what cannot be."""
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    unknown = [name for name in names if name not in KEEPABLE]
    if unknown:
        expected = f"{' or '.join(KEEPABLE)}, or both, separated by commas"
        raise OptionError("keep", f"{unknown[0]!r}", expected, code="unknown-choice")
    return names


def anonymised(
    recording: Recording,
    annotation: Annotation | None,
    name: str,
    *,
    keep: Sequence[str] = (),
    leads: Sequence[str] = (),
) -> Anonymised:
    """Return a recording and its annotation without names, dates and free text.

    Args:
        recording: as it was read.
        annotation: its marks.
        name: the new name.
        keep: ``age`` (90 and older are one) and ``sex``, where the header says them in a form that is known.
        leads: names of leads to keep although they are not among the usual ones, because a person typed them.
    """
    removed = list(removed_fields(recording))
    stated, keep = recording.metadata, check_keep(keep)
    retained = RecordingMetadata(
        age=min(stated.age, OLDEST) if "age" in keep and stated.age is not None else None,
        sex=stated.sex if "sex" in keep else "",
    )
    fields = {"age": "" if retained.age is None else age_text(retained.age), "sex": retained.sex}
    names, renamed = lead_names(recording.leads, leads)
    if renamed:
        removed.append(f"names of leads ({renamed})")
    marks, texts = (None, 0) if annotation is None else anonymous_annotation(annotation)
    if texts:
        removed.append(f"texts of annotations ({texts})")
    clean = replace(
        recording,
        name=name,
        lead=names[recording.leads.index(recording.lead)],
        leads=names,
        comments=comment_lines(fields),
        metadata=retained,
        skipped=tuple(_channel(channel, leads) for channel in recording.skipped),
        notes=(),  # they name leads and files
    )
    return Anonymised(clean, marks, tuple(removed))


def anonymous_annotation(annotation: Annotation) -> tuple[Annotation, int]:
    """Return marks whose notes are codes of a known list, and how many texts left.

    A mark that is nothing but a text (symbol ``"``) leaves with it; every other mark stays, without its note.
    """
    if not annotation.note:
        return annotation, 0
    free = np.array([_CODES.fullmatch(note.strip()) is None for note in annotation.note], dtype=bool)
    stay = ~(free & (annotation.symbol == '"'))
    notes = tuple(
        "" if text else note for note, text, retain in zip(annotation.note, free, stay, strict=True) if retain
    )
    kind = None if annotation.subtype is None else annotation.subtype[stay]
    cleaned = Annotation(annotation.sample[stay], annotation.symbol[stay], notes if any(notes) else (), kind)
    return cleaned, int(free.sum())


def removed_fields(recording: Recording) -> tuple[str, ...]:
    """Return which fields of a recording's files could name a person and hold something: names of fields alone."""
    kind = format_of(recording.path)
    fields = ["record and file name"]
    if kind == "edf":
        fields += _edf_fields(recording.path)
    elif kind in HOSPITAL:  # their readers write a line for each field that says something
        fields += [comment.partition(":")[0] for comment in recording.comments]
        fields.append("all else beside the signal")
    elif recording.comments:
        fields.append(f"comments ({len(recording.comments)})")
    if kind == "wfdb":
        fields += _wfdb_fields(recording.path)
    return tuple(fields)


def _wfdb_fields(path: Path) -> list[str]:
    """The record line may end with the time and the date of the first sample (header(5))."""
    line = header_fields(header_path(path))[0]
    return [name for name, field in zip(("start time", "start date"), line[4:6], strict=False) if field]


def _edf_fields(path: Path) -> list[str]:
    """Return which fields of an EDF or EDF+ header say something: of patient and recording, and texts of channels."""
    main, texts = _edf_header(path)
    patient, recording, date, time = (main[a:b].strip(" \0") for a, b in ((8, 88), (88, 168), (168, 176), (176, 184)))
    fields = []
    if main[192:196] in ("EDF+", "BDF+"):
        names = ("patient code", "sex", "birth date", "patient name")
        fields += _filled_subfields(patient.split(), names, "more about the patient")
        parts = recording.split()
        parts = parts[1:] if parts[:1] == ["Startdate"] else parts
        names = ("start date", "investigation code", "technician", "equipment")
        fields += _filled_subfields(parts, names, "more about the recording")
    else:
        fields += [name for name, text in (("patient", patient), ("recording", recording)) if text]
    if date not in _NO_DATE and "start date" not in fields:
        fields.append("start date")
    if time not in _NO_TIME:
        fields.append("start time")
    return fields + [f"{name} ({count})" for name, count in texts.items() if count]


def _filled_subfields(parts: Sequence[str], names: Sequence[str], more: str) -> list[str]:
    """Return the names of the EDF+ subfields that hold more than the X of an unknown one."""
    filled = [name for name, part in zip(names, parts, strict=False) if part not in ("X", "")]
    return filled + [more] * any(part != "X" for part in parts[len(names) :])


def _edf_header(path: Path) -> tuple[str, dict[str, int]]:
    """Return the first 256 characters of an EDF header, and how many channels say anything of sensor and filter."""
    with path.open("rb") as stream:
        main = stream.read(256).decode("latin-1")
        channels = int(main[252:256])  # the reader has checked it
        rest = stream.read(256 * channels).decode("latin-1")

    def texts(start: int, width: int) -> int:
        first = start * channels
        return sum(bool(rest[first + width * i : first + width * (i + 1)].strip(" \0")) for i in range(channels))

    return main, {"texts of sensors": texts(16, 80), "texts of filters": texts(136, 80)}


def age_text(years: int) -> str:
    """Return an age as it may be written without naming anyone: from ``OLDEST`` on all are one."""
    return str(years) if years < OLDEST else message("{years} or older", years=OLDEST)


def lead_names(names: Sequence[str], typed: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return leads' names, those that are not known as a lead's by number, and how many those are."""
    known = [name in typed or is_impersonal(name) for name in names]
    taken = {name for name, is_known in zip(names, known, strict=True) if is_known}
    new_names = []
    for number, (name, is_known) in enumerate(zip(names, known, strict=True), 1):
        new = name if is_known else f"lead {number}"
        while not is_known and new in taken:
            new += "x"
        new_names.append(new)
    return tuple(new_names), known.count(False)


def _channel(description: str, typed: Sequence[str]) -> str:
    """Return what is said of a channel that was left out, without its name where that is no lead's."""
    name, colon, reason = description.rpartition(": ")
    return description if name in typed or is_impersonal(name) else f"a channel{colon}{reason}"
