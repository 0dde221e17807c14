"""``reproduce``: train and score the rows of a paper's table, and set them beside what was printed."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import OptionError, param
from ecgfed.base.options import flat_options, merged
from ecgfed.core.config import TablePart
from ecgfed.core.methods.registry import methods
from ecgfed.papers import fed_rod, fedabc, grp_fed
from ecgfed.papers.table import Paper, Row, Setting, Table
from ecgfed.tasks.progress import SILENT, ProgressReporter
from ecgfed.tasks.reproduce_data import locate, missing_line, prepared_cohort
from ecgfed.tasks.reproduce_result import Reproduction, StoredRuns
from ecgfed.tasks.reproduce_run import PaperRun

PAPERS = {paper.name: paper for paper in (grp_fed.PAPER, fed_rod.PAPER, fedabc.PAPER)}


@dataclass(frozen=True)
class Selection:
    """The part of a table that is run.

    Attributes:
        paper: the paper.
        table: the table.
        settings: its groups of columns.
        rows: its rows.
        scale: ``full`` or ``reduced``.
        seeds: number of seeds; None for the protocol's.
    """

    paper: Paper
    table: Table
    settings: tuple[Setting, ...]
    rows: tuple[Row, ...]
    scale: str
    seeds: int | None

    def runs(self) -> Iterator[PaperRun]:
        """Yield each run, setting by setting, seed by seed; rows that this version cannot train are left out."""
        known = methods()
        for setting in self.settings:
            protocol = setting.protocol.at(self.scale)
            for seed in range(protocol.seeds if self.seeds is None else self.seeds):
                for row in self.rows:
                    if row.cells(setting) and row.method in known:
                        yield PaperRun(self.paper.name, self.table.ensemble, setting, row, self.scale, seed)


@flat_options(TablePart)
def reproduce(
    paper: str,
    table: int,
    *,
    source: Path | str,
    work: Path | str,
    part: TablePart | None = None,
    results: Path | str | None = None,
    device: str = "auto",
    workers: int | None = None,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
    **options: object,
) -> Reproduction:
    """Train and score the rows of a paper's table; finished runs are not repeated, an interrupted one continues.

    Args:
        paper: ``grp-fed``, ``fed-rod`` or ``fedabc``.
        table: its number.
        source: folder of the data sets: ``mitdb``, ``cifar10``, ``cifar100``, ``mnist``, ``fashion-mnist`` in it.
        work: folder for cohorts and runs; created if needed.
        part: the part of the table; default all of it (``Protocol.differences`` says how ``reduced`` differs).
        results: JSON file of finished runs; default ``WORK/results.json``.
        device: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
        workers: number of threads; default one per core.
        progress: receives progress, notes and warnings.
        should_stop: called after every round; if it returns True, the session is saved and ends.
        options: the fields of ``TablePart``.

    Raises:
        EcgfedError: an invalid argument, or data that cannot be used; finished runs stay in ``results``.

    Examples:
        >>> import ecgfed
        >>> try:
        ...     ecgfed.reproduce("fedabc", 1, source="nowhere", work="work", data="mnist", scale="reduced")
        ... except ecgfed.EcgfedError as problem:
        ...     print(problem.code)
        missing
    """
    part = merged(TablePart, part, options, "reproduce")
    chosen = select(paper, table, part)
    source, work = Path(source), Path(work)
    stored = StoredRuns(work / "results.json" if results is None else Path(results))
    names = dict.fromkeys(setting.data for setting in chosen.settings)
    places = {name: place for name in names if (place := locate(name, source)) is not None}
    absent = tuple(missing_line(name, source) for name in names if name not in places)
    if part.data is not None and absent:
        raise OptionError("source", absent[0], "the data of the table", code="missing")
    for line in absent:
        progress.warn(line)
    runs = [run for run in chosen.runs() if run.setting.data in places]
    for done, run in enumerate(runs):
        progress.update("runs", done, len(runs), run.label)
        cohort = prepared_cohort(
            run.setting,
            run.protocol,
            run.seed,
            source=places[run.setting.data],
            folder=work / "cohorts",
            valid_share=run.row.valid_share,
            progress=progress,
        )
        if stored.find(run, cohort) is None:
            measured = run.measured(
                cohort, work / "runs", device=device, workers=workers, progress=progress, should_stop=should_stop
            )
            if measured is None:
                break
            stored.add(run, cohort, measured)
    progress.update("runs", len(runs), len(runs))
    return Reproduction.of(chosen.paper, chosen.table, chosen.settings, chosen.rows, part.scale, stored.runs, absent)


def select(paper: str, table: int, part: TablePart) -> Selection:
    """Return the part of a table that options name; raises OptionError if the table has no such part."""
    _check("paper", paper, PAPERS)
    tables = PAPERS[paper].tables
    if table not in tables:
        raise OptionError("table", f"{table}", f"one of {_listed(tables)}, of {paper}", code="unknown-choice")
    chosen = tables[table]
    settings, data, alpha = chosen.settings, part.data, part.alpha
    if data is not None:
        _check("data", data, dict.fromkeys(setting.data for setting in settings))
        settings = tuple(setting for setting in settings if setting.data == data)
    if alpha is not None:
        alphas = sorted({float(setting.partition["alpha"]) for setting in settings if "alpha" in setting.partition})
        if alpha not in alphas:
            expected = f"one of {_listed(alphas)}" if alphas else f"no {param('alpha')} for this table"
            raise OptionError("alpha", f"{alpha:g}", expected, code="unknown-choice")
        settings = tuple(setting for setting in settings if setting.partition.get("alpha") == alpha)
    by_name = {row.name.casefold(): row for row in chosen.rows}
    for name in part.rows or ():
        if name.casefold() not in by_name:
            names = "; ".join(row.name for row in chosen.rows)
            raise OptionError("rows", f"{name!r:.60}", f"some of {names}", code="unknown-choice")
    wanted = [by_name[name.casefold()] for name in part.rows] if part.rows else list(chosen.rows)
    return Selection(PAPERS[paper], chosen, settings, tuple(wanted), part.scale, part.seeds)


def _check(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise OptionError(name, f"{value!r:.60}", f"one of {_listed(known)}", code="unknown-choice")


def _listed(values: Iterable[object]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
