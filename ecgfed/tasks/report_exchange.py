"""A report's figures, signal and beats as files for other programs: ``report --format``."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ecgfed import __version__
from ecgfed.base.errors import OptionError, param
from ecgfed.base.extras import require
from ecgfed.base.text import count_of, safe_text
from ecgfed.domain.record.aecg_writer import FORMAT as AECG
from ecgfed.domain.record.aecg_writer import aecg_bytes, check_aecg
from ecgfed.domain.record.anonymous import lead_names
from ecgfed.domain.record.dicom_writer import FORMAT as DICOM
from ecgfed.domain.record.dicom_writer import PDF_FORMAT, check_dicom, encapsulated_pdf, waveform_bytes
from ecgfed.domain.record.exchange import Document, Stated
from ecgfed.domain.record.metadata import Start
from ecgfed.domain.record.recording import Recording
from ecgfed.reports.drawing import Reading
from ecgfed.reports.fhir import fhir_bundle
from ecgfed.reports.figure_table import figure_table
from ecgfed.reports.figures import figures
from ecgfed.reports.options import ReportOptions
from ecgfed.reports.recording_page import recording_page
from ecgfed.reports.recording_parts import RecordingParts
from ecgfed.reports.recording_warnings import LEFT_OUT
from ecgfed.tasks.pdf import find_browser, print_pdf

FHIR, TABLE = "fhir", "table"
#: Format -> the end of its file's name.
SUFFIXES: dict[str, str] = {FHIR: ".fhir.json", TABLE: ".csv", AECG: ".aecg.xml", DICOM: ".dcm", PDF_FORMAT: ".pdf.dcm"}
LOW_CONFIDENCE, NOT_COUNTED = "low confidence", "in an unusable stretch, not counted"


@dataclass(frozen=True)
class Exchange:
    """Files to write beside a page.

    Attributes:
        files: format -> its file.
        stated: what the files state of patient and time.
        typed_leads: names of leads that the user typed: they are written as they are.
        browser: Chromium, for an encapsulated PDF; else None.
    """

    files: dict[str, Path]
    stated: Stated
    typed_leads: tuple[str, ...] = ()
    browser: Path | None = None

    def check(self, recording: Recording) -> None:
        """Refuse a recording that one of the formats cannot hold, before the work begins; raises OptionError."""
        if AECG in self.files:
            check_aecg(recording)
        if DICOM in self.files:
            check_dicom(recording)

    def begun(self, start: Start) -> "Exchange":
        """Return it with the start that its files may state."""
        return replace(self, stated=replace(self.stated, start=start))

    def contents(self, reading: Reading, parts: RecordingParts) -> dict[Path, bytes]:
        """Return the files of a report: each one's content.

        Args:
            reading: the recording, its labelled beats and their counts.
            parts: the content of the page.

        Raises:
            OptionError: a recording that a format cannot hold.
            StorageError: the browser failed.
        """
        recording = reading.recording
        document = self._document(reading, parts)
        made: dict[Path, bytes] = {}
        for name, path in self.files.items():
            if name == FHIR:
                made[path] = (json.dumps(fhir_bundle(document, parts.duration_s), indent=1) + "\n").encode()
            elif name == TABLE:
                made[path] = figure_table(document, path.stem).encode()
            elif name == AECG:
                made[path] = aecg_bytes(recording, document)
            elif name == DICOM:
                made[path] = waveform_bytes(recording, document)
            elif self.browser is not None:
                subject = self.stated.subject or "without a name"
                left_out = count_of(len(recording.skipped), "channel")  # whose names may be anybody's
                header = tuple((head, left_out if head == LEFT_OUT else text) for head, text in parts.header)
                page = recording_page(replace(parts, record=subject, header=header, header_lines=None, patient=()))
                made[path] = encapsulated_pdf(print_pdf(page, self.browser), document, parts.duration_s)
        return made

    def _document(self, reading: Reading, parts: RecordingParts) -> Document:
        labelled, beats = reading.labelled, reading.beats
        uncertain = np.zeros(len(beats), np.bool_) if labelled.uncertain is None else labelled.uncertain
        remark = np.where(beats.assessed, np.where(uncertain, LOW_CONFIDENCE, ""), NOT_COUNTED)
        names, _ = lead_names(reading.recording.leads, self.typed_leads)
        lead = safe_text(names[reading.recording.leads.index(parts.lead)])
        values = figures(parts, f"{lead} alone")
        content = hashlib.sha256(beats.sample.tobytes())
        content.update(repr((labelled.names.tolist(), remark.tolist(), values, self.stated, names)).encode())
        content.update(parts.conclusion.encode())
        for lead in reading.recording.leads:  # ten seconds tell recordings without beats apart
            content.update(reading.recording.lead_mv(lead, 0, round(10 * reading.recording.fs_hz)).tobytes())
        return Document(
            self.stated,
            tuple(map(safe_text, names)),
            beats.sample,
            labelled.names,
            remark,
            values,
            labelled.provisional,
            parts.review is not None and bool(parts.review.reviewed_by),
            parts.intended_use,
            tuple(code for code, _ in parts.warnings),
            __version__,
            content.hexdigest(),
            parts.conclusion,
            parts.conclusion_is_older,
        )


def exchange_of(
    stated_by_user: ReportOptions, page: Path | str | None, leads: str | Sequence[str] | None = None
) -> Exchange:
    """Return the files to write beside a page, checked before the work begins; their start comes with the recording.

    Args:
        stated_by_user: names among ``SUFFIXES``, as a list or separated by commas, and what the files state.
        page: the page, whose name the files have too; None for none.
        leads: the leads that the user typed.

    Raises:
        OptionError: an unknown format, a format without a page, a subject without a format, no Chromium.
        MissingExtraError: pydicom is not installed.
    """
    formats, subject = stated_by_user.formats, stated_by_user.subject
    texts = [formats] if isinstance(formats, str) else list(formats)
    names = tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))
    for name in names:
        if name not in SUFFIXES:
            raise OptionError("formats", f"{name!r:.60}", f"one of {', '.join(SUFFIXES)}", code="unknown-choice")
    if names and page is None:
        action = f"name one with {param('out')}"
        raise OptionError("formats", f"without {param('out')}", "a page to write beside", action, code="missing")
    if subject and not names:
        expected = f"{param('formats')} too: the page does not name it"
        raise OptionError("subject", f"without {param('formats')}", expected, code="missing")
    if DICOM in names or PDF_FORMAT in names:
        require("pydicom", "writing DICOM")
    browser = find_browser("formats") if PDF_FORMAT in names else None
    typed = (leads,) if isinstance(leads, str) else tuple(leads or ())
    target = Path(page or "page")
    files = {name: target.with_name(f"{target.stem}{SUFFIXES[name]}") for name in names}
    return Exchange(files, Stated(subject), typed, browser)
