"""The reports of a folder's recordings in one list: as a page with a sortable row for each, and as a table."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from urllib.parse import quote

from ecgfed.base.language import number, page_language, tr, tr_later, translated, trn
from ecgfed.base.text import safe_row
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.rhythm_episodes import to_review
from ecgfed.reports.headline import none_detected
from ecgfed.reports.markup import NOT_ASSESSED, clock, per_cent
from ecgfed.reports.recording_parts import RecordingParts
from ecgfed.reports.rendering import render
from ecgfed.web.page import inline_page

STYLES, SCRIPTS = ("report.css", "index.css"), ("language.js", "run.js", "index.js")
#: Headings of the page's table.
HEAD = (
    *(tr_later("Recording"), tr_later("Reviewed"), tr_later("Length"), tr_later("Usable"), tr_later("Heart rate")),
    *(tr_later("Rhythm"), tr_later("Ventricular burden"), tr_later("Supraventricular burden"), tr_later("Warnings")),
)


#: Texts in the language of the page, which are no part of the table.
_PAGE_ONLY = ("page_rhythms", "page_warnings")


@dataclass(frozen=True)
class RecordingRow:
    """The headline of one recording's report, JSON-ready.

    Attributes:
        file: the recording, relative to its folder.
        page: its report, relative to the index.
        reviewed: whether a person reviewed the report.
        lead: the lead that was read.
        duration_s: length in seconds.
        usable_s: usable seconds of the lead.
        beats: number of counted beats.
        heart_rate_per_min: the mean heart rate; None where not assessed.
        rhythms: name of each rhythm but sinus rhythm -> its seconds.
        rhythms_to_review: names of those that must be reviewed before they count.
        ventricular_beats: number of ventricular ectopic beats; None where not assessed or withheld.
        ventricular_percent: their share of the counted beats.
        supraventricular_beats: number of supraventricular ectopic beats, likewise.
        supraventricular_percent: their share.
        withheld: ``ventricular`` and ``supraventricular`` where their counts are withheld.
        warnings: the warnings' texts, the most severe first.
        intended_use: what the report is for.
        page_rhythms: the rhythms in the language of the page, or which were looked for; ``""`` where none was.
        page_warnings: the warnings in the language of the page.
    """

    file: str
    page: str
    reviewed: bool
    lead: str
    duration_s: float
    usable_s: float
    beats: int
    heart_rate_per_min: float | None
    rhythms: dict[str, float]
    rhythms_to_review: list[str]
    ventricular_beats: int | None
    ventricular_percent: float | None
    supraventricular_beats: int | None
    supraventricular_percent: float | None
    withheld: list[str]
    warnings: list[str]
    intended_use: str
    page_rhythms: str
    page_warnings: list[str]

    @staticmethod
    def of(parts: RecordingParts, file: str, page: str) -> "RecordingRow":
        """Return the row of a report."""
        (lead,) = (row for row in parts.leads if row.name == parts.lead)
        events = parts.events
        ventricular, supra = _burden(events.ventricular), _burden(events.supra)
        mean = events.rates.mean
        rhythms = parts.named_rhythms  # the same rhythm may be from the signal and from a reviewer
        seconds = {of.rhythm: sum(one.seconds for one in rhythms if one.rhythm == of.rhythm) for of in rhythms}
        with page_language(parts.language):
            page_warnings = [translated(text) for _, text in parts.warnings]
            page_rhythms = _rhythms(parts)
        return RecordingRow(
            file,
            page,
            parts.review is not None and bool(parts.review.reviewed_by),
            parts.lead,
            round(parts.duration_s, 3),
            round(lead.usable_s, 3),
            events.counted,
            None if mean is None else round(mean, 1),
            {name: round(total, 1) for name, total in seconds.items()},
            list(dict.fromkeys(rhythm.rhythm for rhythm in rhythms if to_review(rhythm))),
            *ventricular,
            *supra,
            [KIND_WORDS[kind] for kind in events.withheld],
            [text for _, text in parts.warnings],
            parts.intended_use,
            page_rhythms,
            page_warnings,
        )

    @staticmethod
    def stored(values: Mapping[str, object]) -> "RecordingRow | None":
        """Return a row that was stored as ``asdict`` has it; None of anything else."""
        if set(values) != {field.name for field in fields(RecordingRow)}:
            return None
        row = RecordingRow(**values)  # type: ignore[arg-type]  # checked next
        texts = (row.file, row.page, row.lead, row.intended_use, row.page_rhythms)
        numbers = (row.duration_s, row.usable_s, row.beats)
        maybe = (
            *(row.heart_rate_per_min, row.ventricular_beats, row.ventricular_percent),
            *(row.supraventricular_beats, row.supraventricular_percent),
        )
        lists = (row.withheld, row.warnings, row.rhythms_to_review, row.page_warnings)
        valid = (
            all(isinstance(text, str) for text in texts)
            and all(_is_number(number) for number in numbers)
            and all(number is None or _is_number(number) for number in maybe)
            and all(isinstance(of, list) and all(isinstance(text, str) for text in of) for of in lists)
            and isinstance(row.rhythms, dict)
            and all(_is_number(seconds) for seconds in row.rhythms.values())
            and type(row.reviewed) is bool
        )
        return row if valid else None

    def to_dict(self) -> dict[str, object]:
        """Return the row for other programs, in English."""
        return {name: value for name, value in asdict(self).items() if name not in _PAGE_ONLY}

    @property
    def usable_percent(self) -> float:
        """Usable share of the lead, in percent."""
        return 100 * self.usable_s / self.duration_s if self.duration_s else 0.0


def _rhythms(parts: RecordingParts) -> str:
    """Return each rhythm with its time, and whether it is to be reviewed; without any, which were looked for."""
    texts = []
    for rhythm in parts.named_rhythms:
        name = translated(rhythm.rhythm)
        text = f"{tr('{rhythm} (to review)', rhythm=name) if to_review(rhythm) else name} {clock(rhythm.seconds, 0)}"
        texts.append(text)
    return tr("; ").join(texts) or none_detected(parts.events, parts.duration_s, parts.fibrillation_from_s) or ""


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _burden(ectopy: Ectopy | None) -> tuple[int | None, float | None]:
    if ectopy is None:
        return None, None
    return ectopy.total, None if ectopy.percent is None else round(ectopy.percent, 3)


#: A cell of the page: its text, and what it is sorted by.
SortableCell = tuple[str, str | float]


def cells_of(row: RecordingRow) -> list[SortableCell]:
    """Return the cells of a row, but its name, in the current language; what was not assessed is sorted last."""
    unknown: SortableCell = (translated(NOT_ASSESSED), "")

    def burden(kind: Kind, percent: float | None) -> SortableCell:
        if KIND_WORDS[kind] in row.withheld:
            return tr("withheld"), "" if percent is None else percent
        return unknown if percent is None else (per_cent(percent) or "", percent)

    rate = row.heart_rate_per_min
    return [
        (tr("yes") if row.reviewed else tr("no"), int(row.reviewed)),
        (clock(row.duration_s, 0), row.duration_s),
        (f"{clock(row.usable_s, 0)} ({number(row.usable_percent / 100, '.1%')})", row.usable_percent),
        unknown if rate is None else (tr("{rate:.0f}/min", rate=rate), rate),
        (row.page_rhythms, sum(row.rhythms.values())) if row.page_rhythms else unknown,
        burden(Kind.VENTRICULAR, row.ventricular_percent),
        burden(Kind.SUPRA, row.supraventricular_percent),
        (" ".join(row.page_warnings) or tr("none"), len(row.warnings)),
    ]


def index_page(rows: Sequence[RecordingRow], failed: Sequence[Mapping[str, str]], folder: str) -> str:
    """Return the page in the current language: a row for each recording, linked to its report, and the failed ones.

    Args:
        rows: the recordings with a report.
        failed: ``file`` and ``problem`` of the others.
        folder: name of the folder, as text.
    """
    use = translated(next((row.intended_use for row in rows), tr_later("Research use only, not for diagnosis.")))
    listed = [(row.file, quote(row.page), cells_of(row)) for row in rows]
    reviewed = sum(row.reviewed for row in rows)
    header = [
        (tr("Recordings"), len(rows) + len(failed)),
        (tr("With a report"), len(rows)),
        (tr("Failed"), len(failed)),
        (tr("Reviewed"), trn("{reviewed} of {n} report", "{reviewed} of {n} reports", len(rows), reviewed=reviewed)),
    ]
    parts = {"intended_use": use}
    head = [tr(name) for name in HEAD]
    body = render(
        "folder_index.html.j2", parts=parts, header=header, folder=folder, head=head, listed=listed, failed=failed
    )
    title = tr("ECG reports: {folder}", folder=folder)
    return inline_page(title, body, styles=STYLES, scripts=SCRIPTS, data={}, sheet=f"{title}. {use}")


def index_table(rows: Sequence[RecordingRow], failed: Sequence[Mapping[str, str]]) -> str:
    """Return a CSV table of the same rows; a cell is empty where its figure was not assessed."""
    names = [field.name for field in fields(RecordingRow) if field.name not in ("intended_use", *_PAGE_ONLY)]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, "problem"], restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        values = {name: value for name, value in asdict(row).items() if name in names}
        rhythms = "; ".join(f"{name} {seconds:g} s" for name, seconds in row.rhythms.items())
        lists = {name: "; ".join(getattr(row, name)) for name in ("withheld", "warnings", "rhythms_to_review")}
        writer.writerow(safe_row({**values, **lists, "rhythms": rhythms, "reviewed": int(row.reviewed)}))
    for failure in failed:
        writer.writerow(safe_row({"file": failure["file"], "problem": failure["problem"]}))
    return text.getvalue()
