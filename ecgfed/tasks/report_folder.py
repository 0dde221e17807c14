"""``report`` for all recordings of a folder: a page each, and an index of them as page, table and JSON."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ecgfed.base.errors import EcgfedError, OptionError, RecordError, param
from ecgfed.base.files import check_free, create_folder, write_together
from ecgfed.base.language import page_language
from ecgfed.base.locks import locked
from ecgfed.base.options import flat_options, merged, taken
from ecgfed.base.text import count_of, listed, safe_text
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.cohort.folder import doubled, not_utf8, recordings_and_not_read
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.reader import record_path
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports.folder_index import RecordingRow, index_page, index_table
from ecgfed.reports.options import OF_A_RECORDING, ReportOptions
from ecgfed.tasks.batch_state import BatchState, call_of
from ecgfed.tasks.batch_work import RecordingReporter
from ecgfed.tasks.pdf import find_browser
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.progress import SILENT, ProgressReporter
from ecgfed.tasks.report import report
from ecgfed.tasks.report_edits import annotation_file
from ecgfed.tasks.report_patient import shown_of

#: Edits of a recording, saved from its page, lie beside it under its name and this.
EDITS = "-edits.json"
#: The index: a page, a table, and JSON.
INDEX = ("index.html", "index.csv", "index.json")


@dataclass(frozen=True, repr=False, eq=False)
class FolderReport:
    """The reports of a folder.

    Attributes:
        rows: the headline of each report, in order of name.
        failed: ``file``, ``problem``, ``code`` and, if there is one, ``parameter`` of each recording without a report.
        files: the index: page, table and JSON.
    """

    rows: tuple[RecordingRow, ...]
    failed: tuple[dict[str, str], ...]
    files: tuple[Path, ...]

    def __repr__(self) -> str:
        return f"FolderReport({count_of(len(self.rows), 'report')}, {len(self.failed)} failed)"

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of the JSON index."""
        return {
            "recordings": len(self.rows) + len(self.failed),
            "done": [row.to_dict() for row in self.rows],
            "failed": list(self.failed),
            "files": [file.name for file in self.files],
        }


class _ReportState(BatchState):
    """The completed reports of an unfinished folder."""

    name: ClassVar[str] = "reports.unfinished.jsonl"

    def _is_valid(self, entry: Mapping[str, Any]) -> bool:
        maps = all(isinstance(entry.get(name), dict) for name in ("read", "written", "done"))
        return isinstance(entry.get("file"), str) and maps and RecordingRow.stored(entry["done"]) is not None


@dataclass(frozen=True)
class _ReportRequest:
    """A recording, its name in the index, its page, and why it cannot be read, where that is known."""

    path: Path
    name: str
    page: Path
    not_read: EcgfedError | None = None

    @property
    def edits(self) -> Path | None:
        """The edits of its report that lie beside it; None without."""
        file = record_path(self.path)
        file = file.with_name(f"{file.name}{EDITS}")
        return file if file.is_file() else None

    @property
    def other_edits(self) -> list[str]:
        """Names of files beside it that a browser made of edits saved again: ``NAME-edits (1).json``."""
        file = record_path(self.path)
        start, end = f"{file.name}{EDITS.removesuffix('.json')}", ".json"
        names = (one.name for one in file.parent.iterdir())
        return sorted(n for n in names if n.startswith(start) and n.endswith(end) and n != f"{start}{end}")

    def files(self, *, pdf: bool) -> list[Path]:
        """Return the files of its report."""
        files = [self.page, self.page.with_suffix(".pdf")] if pdf else [self.page]
        return files if self.edits is None else [*files, annotation_file(self.page)]


@flat_options(ReportOptions, RecordingOptions, without=OF_A_RECORDING)
def report_folder(
    folder: Path | str,
    out: Path | str,
    bundle: Bundle | Path | str | None = None,
    *,
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    rules: EventRules | None = None,
    pdf: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> FolderReport:
    """Make a report page of every recording in a folder, and an index of them. Research use only, not for diagnosis.

    A recording that cannot be used is listed with the reason, and so are broken links, pipes and files or sub-folders
    that cannot be read; the others are completed. An interrupted call continues with ``resume``, with the same result.
    Edits that a physician saved from a page (``NAME-edits.json``) are applied where they lie beside the recording.

    Args:
        folder: searched recursively for recordings of any format.
        out: output folder, with the sub-folders of the input: a page for each recording, and ``index.html``,
            ``index.csv`` and ``index.json``.
        bundle: as in ``report``; so are all arguments up to ``pdf``.
        how: see there.
        trusted: see there.
        force: see there.
        rules: see there.
        pdf: see there.
        resume: continue in ``out``: recordings completed by the same call are skipped, unless one of their files has
            changed.
        overwrite: replace files of these names, but never a recording.
        progress: receives progress, notes and warnings.
        options: ``language``, ``header`` and ``show`` as in ``report``, and fields of ``RecordingOptions``, which take
            precedence over ``how``.

    Raises:
        EcgfedError: an unusable bundle or option; a folder without recordings, existing files, or an unfinished call
            with other arguments.

    Examples:
        >>> import ecgfed
        >>> ecgfed.report_folder("cohort-records", "reports", "bundle")
        FolderReport(3 reports, 0 failed)
    """
    folder, out = Path(folder), Path(out)
    if resume and overwrite:
        raise OptionError(f"{param('resume')} and {param('overwrite')}", "both given", "one of them", code="conflict")
    stated = merged(ReportOptions, None, taken(options, ReportOptions), "report_folder", without=OF_A_RECORDING)
    resolved = RecordingOptions.merged(how, options, "report_folder")
    opened, rules = opened_bundle(bundle, trusted), EventRules() if rules is None else rules
    if pdf:
        find_browser()
    same: dict[str, Any] = {"header": stated.header, "language": stated.language, "pdf": pdf, "force": force}
    call = call_of(
        opened, resolved.beat_options(), patient=None, int8=False, force=force, strip=False, strip_at_s=None
    ) | {**same, "rules": rules.to_dict(), "show": list(shown_of(stated).names)}
    same |= {"bundle": opened, "how": resolved, "rules": rules, "show": stated.show, "overwrite": overwrite or resume}
    requests = _requests(folder, out, resolved.annotator)
    with locked(out):
        state = _ReportState(out, json.loads(json.dumps(call)), opened.classes)
        if resume:
            state.resume()
        else:
            if not overwrite:
                state.refuse_unfinished()
            targets = [file for request in requests for file in request.files(pdf=pdf)]
            check_free([*(out / name for name in INDEX), *targets], overwrite=overwrite)
        state.begin()
        rows, failed = _report_all(requests, state, same, progress)
        result = FolderReport(tuple(rows), tuple(failed), tuple(out / name for name in INDEX))
        with page_language(stated.language):
            page_text = index_page(rows, failed, folder.name or str(folder))
        texts = (page_text, index_table(rows, failed), _json(result))
        write_together({file: text.encode() for file, text in zip(result.files, texts, strict=True)})
        state.end()
    return result


def _json(result: FolderReport) -> str:
    return f"{json.dumps(result.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)}\n"


def _report_all(
    requests: Sequence[_ReportRequest], state: _ReportState, same: Mapping[str, Any], progress: ProgressReporter
) -> tuple[list[RecordingRow], list[dict[str, str]]]:
    """Report the recordings that are not completed; return the rows of the completed ones, and the failed ones.

    Args:
        requests: all recordings.
        state: which of them are completed.
        same: the arguments of ``report`` that are the same for each.
        progress: receives progress, notes and warnings.
    """
    rows: list[RecordingRow] = []
    failed: list[dict[str, str]] = []
    problems, resumed = _name_clashes(requests, state.out), 0
    for number, request in enumerate(requests):
        try:
            if request.path in problems:
                raise problems[request.path]
            files = request.files(pdf=same["pdf"])
            if stored := state.stored_result(request.name, request.path, files):
                row = RecordingRow.stored(stored)
                resumed += 1
            else:
                create_folder(request.page.parent)
                if others := request.other_edits:
                    applied = "none" if request.edits is None else request.edits.name
                    progress.warn(f"{request.name}: edits in {listed(others)} are not applied ({applied} applied)")
                reporter = RecordingReporter(progress, request.name)
                made = report(request.path, out=request.page, edits=request.edits, progress=reporter, **same)
                row = RecordingRow.of(made.parts, request.name, request.page.relative_to(state.out).as_posix())
                read = [*made.recording.files, *([] if request.edits is None else [request.edits])]
                state.store(request.name, request.path, read, files, asdict(row))
            assert row is not None  # resume() has left out the others
            rows.append(row)
        except EcgfedError as problem:
            failed.append({"file": safe_text(request.name), **problem.as_json()})
        progress.update("recordings", number + 1, len(requests), request.name)
    if resumed:
        progress.note(f"{resumed} of {count_of(len(requests), 'recording')} already had a report.")
    return rows, failed


def _requests(folder: Path, out: Path, annotator: str) -> list[_ReportRequest]:
    """List the recordings of a folder, but those in ``out``, with their pages."""
    if out.suffix.casefold() in (".html", ".htm"):
        raise OptionError("out", f"{out} names a page", f"a folder for a page of each recording in {folder}")
    if folder.resolve() == out.resolve():
        raise OptionError("out", f"{out} is the folder of the recordings", "another folder")
    requests = []
    paths, not_read = recordings_and_not_read(folder, annotator)
    for path in paths:
        if not Path(os.path.realpath(path)).is_relative_to(out.resolve()):  # resolve() raises where links are circular
            relative = path.relative_to(folder)
            page = out / relative.parent / f"{record_path(path).name}.html"
            requests.append(_ReportRequest(path, relative.as_posix(), page, not_read.get(path)))
    if not requests:
        raise RecordError(folder, "holds no recording", "one or more", "check the path")
    return requests


def _name_clashes(requests: Sequence[_ReportRequest], out: Path) -> dict[Path, EcgfedError]:
    """Return an error for each recording whose page would replace another one, or the index."""
    paths = [request.path for request in requests]
    not_read = {request.path: request.not_read for request in requests if request.not_read is not None}
    problems: dict[Path, EcgfedError] = {**doubled(paths), **not_utf8(paths), **not_read}
    taken = {str(out / INDEX[0]).casefold(): INDEX[0]}  # case-insensitive, as on Windows and macOS
    for request in requests:
        if request.path not in problems:
            first = taken.setdefault(str(request.page).casefold(), request.name)
            if first != request.name:
                problem = f"has the name of {first}, which its page would replace"
                problems[request.path] = RecordError(request.path, problem, "another name")
    return problems
