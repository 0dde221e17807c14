"""The options of a recording's report, for ``ecgfed.report`` and ``ecgfed report``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ecgfed.base.language import LANGUAGES
from ecgfed.base.options import Options, option

#: Options that only the report of a single recording has.
OF_A_RECORDING = ("formats", "subject", "start", "edits", "indication", "diary", "full_disclosure")


@dataclass(frozen=True)
class PageOptions(Options):
    """How a page for people is written."""

    language: str = option("en", "Language of the page: en, de, fr or es.", LANGUAGES, metavar="LANGUAGE")


@dataclass(frozen=True)
class ReportOptions(PageOptions):
    """What a report states of patient and recording, and the files beside its page."""

    formats: str | Sequence[str] = option(
        (),
        "Also write the figures, or signal and beats, beside the page: ``fhir``, ``table``, ``aecg``, ``dicom``, "
        "``dicom-pdf`` (docs/report.md).",
        flag="format",
        metavar="LIST",
    )
    subject: str = option(
        "", "Identifier of the patient in these files; by default they name no patient.", metavar="ID"
    )
    start: datetime | str | None = option(  # noqa: RUF009
        None,
        "When the recording begins, in place of what its file states: a time of day (09:15:00), or a date and a time "
        "with its offset from UTC, which the files beside the page state in full.",
        metavar="TIME",
    )
    edits: Path | str | None = option(  # noqa: RUF009
        None, "Edits that a physician saved from the page of this recording, labelled as it is now (docs/report.md)."
    )
    show: str | Sequence[str] = option(
        (),
        "What the page and the files beside it state of what the recording's file does: ``date``, ``age``, ``sex``, "
        "``recorder``, ``notes`` (the texts of patient events and of a diary); by default the time of day alone.",
        metavar="LIST",
    )
    indication: str = option("", "Why the recording was made, on the page.", metavar="TEXT")
    diary: Path | str | None = option(  # noqa: RUF009
        None,
        "The patient's diary, a table with the columns ``time_s`` (seconds from the start) or ``time`` (of day), and "
        "``text`` (docs/report.md).",
    )
    header: bool = option(
        False,
        "Show what the recording's header states of patient and recording, on the page and in ``to_dict``; it may name "
        "the patient.",
    )
    full_disclosure: bool = option(
        False,
        "Also draw every minute of the lead in use, an hour a printed sheet; adds up to 6 MB to the page (a day: "
        "4.6 MB).",
    )
