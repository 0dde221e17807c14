"""``report`` of a run: a page for researchers from the folder that ``train`` and ``evaluate`` wrote."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import EcgfedError
from ecgfed.base.plugins import names_code
from ecgfed.core.runs.document import RunDocument
from ecgfed.core.runs.seeds import single_run_folder
from ecgfed.reports.run_content import Lines, run_parts
from ecgfed.reports.run_parts import CommunicationCost
from ecgfed.reports.run_report import RunReport
from ecgfed.tasks.page_files import page_targets, write_page
from ecgfed.tasks.pdf import find_browser
from ecgfed.tasks.progress import SILENT, ProgressReporter


@runtime_checkable
class Opened(Protocol):
    """An open run or cohort, as a protocol so that their libraries are not loaded for a page."""

    @property
    def path(self) -> Path:
        """The folder."""


@renamed_parameters("0.3", "0.5", watch="progress")
def report_run(
    run: Opened | Path | str,
    out: Path | str | None = None,
    *,
    cohort: Opened | Path | str | None = None,
    pdf: bool = False,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
) -> RunReport:
    """Make a report page of a run: scores, patients, classes, learning curves, clients, cost, settings.

    Nothing is trained or scored: the page of a run without evaluation says so.

    Args:
        run: a run, or its folder.
        out: the page to write, ``.html``; None writes nothing.
        cohort: its cohort, if that has moved.
        pdf: also print the page to a PDF beside it, with Chromium.
        overwrite: replace an existing page.
        progress: receives progress, notes and warnings.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.

    Examples:
        >>> import ecgfed
        >>> ecgfed.report_run("run")  # doctest: +ELLIPSIS
        RunReport('run': ...)
    """
    targets = page_targets(out, pdf=pdf, overwrite=overwrite)
    browser = find_browser() if pdf else None
    path = single_run_folder(_folder(run))
    parts = run_parts(path, None if cohort is None else _folder(cohort), _sent)
    if not parts.scored:
        progress.note(f"{path} is not evaluated: 'ecgfed evaluate {path}' scores it.")
    result = RunReport(path, parts, tuple(targets))
    if targets:
        write_page(targets, result.html, browser)
    return result


def _folder(source: Opened | Path | str) -> Path:
    return source.path if isinstance(source, Opened) else Path(source)


def _sent(document: RunDocument, lines: Lines) -> CommunicationCost | str:
    """Return the bytes sent, or why they are unknown."""
    if names_code(document.method):
        return "its method is custom code, which is not run for a page"
    try:
        from ecgfed.core.federation.cost import round_bytes
        from ecgfed.core.runs.run import open_run
    except ImportError:
        return "it is measured with torch, which is not installed (pip install 'ecgfed[train]')"
    try:
        run = open_run(document.path)
        bytes_by_round = round_bytes(run.method, run.plan, len(document.clients))
    except (EcgfedError, ValueError, RuntimeError) as error:
        return f"it could not be measured ({error.reason if isinstance(error, EcgfedError) else error})"
    numbers = sorted(bytes_by_round)
    rows = [(f"Round {number:,}, one client", *bytes_by_round[number]) for number in numbers]
    rows = [row for i, row in enumerate(rows) if i == 0 or row[1:] != rows[i - 1][1:]]
    if len(rows) == 1:
        rows = [("Each round, one client", *rows[0][1:])]
    else:
        rows = [(f"{row[0]}{', and from then on' if i else ''}", *row[1:]) for i, row in enumerate(rows)]
    participants = [len(line["clients"]) if isinstance(line.get("clients"), list) else None for line in lines]
    if not participants or None in participants:
        return CommunicationCost(tuple(rows), None, None, False)
    down = up = 0
    for line, clients in zip(lines, participants, strict=True):
        after = next((number for number in numbers if number >= line["round"]), numbers[-1])
        down, up = down + (clients or 0) * bytes_by_round[after][0], up + (clients or 0) * bytes_by_round[after][1]
    bytes_after_first = {bytes_by_round[number] for number in numbers[1:]}
    all_clients = document.plan.get("clients_per_round") is None
    return CommunicationCost(tuple(rows), down, up, len(bytes_after_first) > 1 or (len(rows) > 1 and not all_clients))
