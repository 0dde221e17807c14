"""The options of a recording's report, for ``ecgfed.report`` and ``ecgfed report``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ecgfed.base.options import Options, option


@dataclass(frozen=True)
class ReportOptions(Options):
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
        "When the recording begins, with its offset from UTC, in these files; by default they state no clock time.",
        metavar="TIME",
    )
    edits: Path | str | None = option(  # noqa: RUF009
        None, "Edits that a physician saved from the page of this recording, labelled as it is now (docs/report.md)."
    )
    header: bool = option(
        False,
        "Show what the recording's header states of patient and recording, on the page and in ``to_dict``; it may name "
        "the patient.",
    )
