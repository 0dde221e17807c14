"""``ecgfed ec57``: annotations against reference annotations, beat by beat, as WFDB's bxb scores them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.errors import OptionError, RecordError

from .complete import choices
from .output import JsonOption, QuietOption, console, note, print_json, table, warn
from .records import record_paths
from .tables import Cell

if TYPE_CHECKING:
    from ecgfed.evaluation.ec57 import Aggregate, Comparison

#: Columns of the table, named as bxb names them, and the scores they show.
COLUMNS = {
    "Q Se": "qrs_se",
    "Q +P": "qrs_ppv",
    "V Se": "veb_se",
    "V +P": "veb_ppv",
    "S Se": "sveb_se",
    "S +P": "sveb_ppv",
}


def ec57_command(
    records: Annotated[list[Path], typer.Argument(metavar="RECORDS", help="WFDB records, or folders of them.")],
    test: Annotated[str, typer.Option("--test", help="Suffix of the annotations under test: qrs, ecgfed, ...")],
    reference: Annotated[str, typer.Option("--reference", help="Suffix of the reference annotations.")] = "atr",
    test_folder: Annotated[
        Path | None, typer.Option("--test-folder", help="Where those under test lie, if not beside the records.")
    ] = None,
    start: Annotated[str, typer.Option(help="End of the learning period, M:SS or seconds; EC57 says 5:00.")] = "5:00",
    mapping: Annotated[
        str,
        typer.Option(
            help="aami5 (de Chazal) or aami5-bxb (escape beats e, j in S).",
            autocompletion=choices("aami5", "aami5-bxb"),
        ),
    ] = "aami5",
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score beat annotations by ANSI/AAMI EC57: QRS, VEB and SVEB sensitivity and +P, gross and average."""
    from ecgfed.evaluation.ec57 import CLASSES, MAPPINGS, aggregate

    if mapping not in MAPPINGS:
        raise OptionError("--mapping", f"{mapping!r}", f"one of {', '.join(MAPPINGS)}")
    start_s = _start(start)
    compared, without = [], []
    for path in record_paths(records):
        marks = (test_folder or path.parent) / f"{path.name}.{test}"
        if not marks.is_file() and path not in records:  # of a folder those that were annotated
            without.append(path.name)
            continue
        compared.append(_compare(path, marks, reference, start_s, mapping))
    if not compared:
        where = test_folder or records[0]
        raise RecordError(where, f"no record has annotations .{test}", "RECORD.SUFFIX", "check --test, --test-folder")
    if without:
        warn(f"not scored, without .{test}: {', '.join(without)}", quiet=quiet)
    total = aggregate(compared)
    about = {"reference": reference, "test": test, "mapping": mapping, "start_s": start_s, "match_s": 0.15}
    if json_output:
        rows = [one.as_json() for one in compared]
        print_json({**about, "classes": list(CLASSES), "records": rows, **total.as_json(), "not_scored": without})
    elif not quiet:
        _print(compared, total)


def _start(text: str) -> float:
    """Read ``5:00`` or ``300``."""
    parts = text.split(":")
    try:
        if len(parts) > 2 or any(not part.strip().replace(".", "", 1).isdigit() for part in parts):
            raise ValueError
        return float(parts[-1]) + (60 * float(parts[0]) if len(parts) == 2 else 0.0)
    except ValueError:
        raise OptionError("--start", f"{text!r}", "a time such as 5:00, or seconds") from None


def _compare(path: Path, marks: Path, reference: str, start_s: float, mapping: str) -> "Comparison":
    from ecgfed.evaluation.ec57 import compare
    from ecgfed.record.reader import format_of
    from ecgfed.record.wfdb_files import read_annotation
    from ecgfed.record.wfdb_header import read_header

    if format_of(path) != "wfdb":
        raise RecordError(path, "is no WFDB record", "one with its annotations", "make it with 'ecgfed convert'")
    header = read_header(path)
    samples = int(header.sig_len) or None
    if samples is not None and start_s * header.fs >= samples:
        raise RecordError(
            path, f"lasts {samples / header.fs:.0f} s", f"more than the {start_s:g} s that do not count", "pass --start"
        )
    theirs = read_annotation(path, reference, samples=samples)
    ours = read_annotation(marks.with_suffix(""), marks.suffix[1:], samples=samples)
    return compare(theirs, ours, float(header.fs), samples=samples, mapping=mapping, start_s=start_s, record=path.name)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _print(compared: "list[Comparison]", total: "Aggregate") -> None:
    """Print a line for each record, the aggregates, and the confusion matrix of all."""
    from ecgfed.evaluation.ec57 import CLASSES

    rows: list[list[Cell]] = [
        [one.record, int(one.scores["qrs_se"].whole), *(_percent(one.scores[key].percent) for key in COLUMNS.values())]
        for one in [*compared, total.gross]
    ]
    rows.append(["average", "", *(_percent(total.average[key]) for key in COLUMNS.values())])
    console.print(table(("record", "beats", *COLUMNS), rows))
    console.print()
    matrix: list[list[Cell]] = [
        [name, *("" if name in "OX" and i > 4 else int(count) for i, count in enumerate(row))]
        for name, row in zip(CLASSES, total.gross.counts.tolist(), strict=True)
    ]
    console.print(table(("reference \\ test", *(name.lower() for name in CLASSES)), matrix))
    note("Percent. Q: all QRS, V: VEB, S: SVEB; Se: sensitivity, +P: positive predictivity.", quiet=False)
    note("O: missed or extra; X: missed or extra while the other annotator was shut down.", quiet=False)
