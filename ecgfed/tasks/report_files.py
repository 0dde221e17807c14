"""The files of a recording's report: the page and its PDF, files for other programs, the edited beats' annotation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ecgfed.base.files import check_free
from ecgfed.base.language import message
from ecgfed.domain.record.metadata import Start
from ecgfed.domain.record.recording import Recording
from ecgfed.reports.drawing import Reading
from ecgfed.reports.options import ReportOptions
from ecgfed.reports.recording_report import RecordingReport
from ecgfed.tasks.page_files import earlier_files, page_targets, write_page
from ecgfed.tasks.pdf import find_browser
from ecgfed.tasks.progress import ProgressReporter
from ecgfed.tasks.report_edits import SUFFIX, annotation_file, edited_annotation
from ecgfed.tasks.report_exchange import SUFFIXES, Exchange, exchange_of

#: Files beside a page that an earlier report may have left: those that no recording is (a table or DICOM may be one).
_OF_EARLIER = (SUFFIX, *(suffix for suffix in SUFFIXES.values() if suffix not in (".csv", ".dcm")))


@dataclass(frozen=True)
class ReportFiles:
    """The files that a report writes, all or none.

    Attributes:
        targets: the page, and its PDF where one is wanted; empty for no files.
        beside: all other files.
        exchange: the files for other programs, which are among them.
        browser: Chromium, which prints the page; None without a PDF.
        overwrite: replace existing files.
    """

    targets: tuple[Path, ...]
    beside: tuple[Path, ...]
    exchange: Exchange
    browser: Path | None
    overwrite: bool

    @classmethod
    def of(
        cls,
        options: ReportOptions,
        page: Path | str | None,
        leads: str | Sequence[str] | None,
        *,
        pdf: bool,
        overwrite: bool,
    ) -> Self:
        """Return the files of a report, checked as far as that can be done before the recording is read.

        Args:
            options: the options of the report.
            page: the page; None writes nothing.
            leads: the leads that the user typed.
            pdf: also print the page.
            overwrite: replace existing files.

        Raises:
            OptionError: files that cannot be written, no Chromium, or options that contradict each other.
            MissingExtraError: pydicom is not installed.
        """
        exchange = exchange_of(options, page, leads)
        edited = () if options.edits is None or page is None else (annotation_file(Path(page)),)
        beside = (*exchange.files.values(), *edited)
        targets = page_targets(page, pdf=pdf, overwrite=overwrite, more=beside)
        return cls(tuple(targets), beside, exchange, find_browser() if pdf else None, overwrite)

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return *self.targets, *self.beside

    def check(self, recording: Recording, diary: Path | str | None) -> None:
        """Raise OptionError where a file is one that is read, or of a format that cannot hold the recording."""
        read = recording.files if diary is None else (*recording.files, Path(diary))
        check_free(self.paths, read, overwrite=self.overwrite)
        self.exchange.check(recording)

    def write(self, report: RecordingReport, reading: Reading, start: Start, progress: ProgressReporter) -> None:
        """Write the files; raises StorageError, OptionError.

        Args:
            report: the report.
            reading: the recording, its labelled beats and their counts.
            start: when the recording begins, as far as the files beside the page may state it.
            progress: receives a warning of files that an earlier report of this name left.
        """
        if not self.targets:
            return
        if earlier := earlier_files(self.targets[0], _OF_EARLIER, self.beside):
            names = ", ".join(file.name for file in earlier)
            text = message(
                "not written again, of an earlier report of this name, which may have been signed: {names}", names=names
            )
            progress.warn(text)
        contents = self.exchange.begun(start).contents(reading, report.parts)
        if reading.edited is not None:
            contents[annotation_file(self.targets[0])] = edited_annotation(reading.edited, reading.recording.fs_hz)
        write_page(self.targets, report.html, self.browser, contents)
