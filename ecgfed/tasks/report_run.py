"""``report`` of a run: a page for researchers from the folder that ``train`` and ``evaluate`` wrote."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import EcgfedError, RunError
from ecgfed.base.plugins import names_code
from ecgfed.base.text import count_of
from ecgfed.core.runs.document import FILE_NAME, RunDocument, read_run_json
from ecgfed.core.runs.seeds import single_run_folder
from ecgfed.exports.device.federation import federation_in
from ecgfed.reports.run_content import Lines, run_parts
from ecgfed.reports.run_parts import CommunicationCost
from ecgfed.reports.run_report import RunReport
from ecgfed.tasks.page_files import page_targets, write_page
from ecgfed.tasks.pdf import find_browser
from ecgfed.tasks.progress import SILENT, ProgressReporter

#: Sites of a federation that are listed by name.
_MOST_SITES = 20


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
    parts = run_parts(path, None if cohort is None else _folder(cohort), _sent, _federation(path))
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


def _federation(path: Path) -> list[tuple[str, str]]:
    """Return the federation that trained a run: its run, sites and databases; empty for a run of one machine."""
    try:
        federation = federation_in(read_run_json(path))
    except (KeyError, TypeError, ValueError) as problem:
        raise RunError(
            path / FILE_NAME, f"federation lacks {problem!s:.100}", "its sites", "restore the file"
        ) from problem
    if federation is None:
        return []
    sites = [f"{site.name}: {count_of(site.patients, 'patient')}" for site in federation.sites[:_MOST_SITES]]
    more = len(federation.sites) - len(sites)
    databases = sorted({name for site in federation.sites for name in site.databases})
    rows = [
        ("Federation", f"run {federation.run[:16]}: {federation.describe()}"),
        ("Sites", "; ".join([*sites, *([f"{more:,} more"] if more else [])])),
        ("Databases", "; ".join(databases) or "not recorded"),
    ]
    return [*rows, ("Patients of this page", federation.site)] if federation.site else rows
