"""``ecgfed ec57``: annotations against reference annotations, beat by beat, as WFDB's bxb scores them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .complete import choices
from .output import JsonOption, QuietOption, console, note, print_json, table
from .reporter import Output
from .tables import Cell

if TYPE_CHECKING:
    from ecgfed.tasks.ec57 import Ec57Scores, Row


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
    """Score beat annotations by ANSI/AAMI EC57: QRS, VEB, SVEB, VF and AF sensitivity and +P; no ST."""
    from ecgfed.tasks.ec57 import score_ec57

    with Output(json_output=json_output, quiet=quiet).reporter() as progress:
        scores = score_ec57(
            records, test, reference=reference, test_folder=test_folder, start=start, mapping=mapping, progress=progress
        )
    if json_output:
        print_json(scores.to_dict())
    elif not quiet:
        _print(scores)


def _print(scores: "Ec57Scores") -> None:
    """Print a line for each record, the aggregates, the confusion matrix of all, and episodes where there are any."""
    from ecgfed.core.evaluation.ec57 import CLASSES
    from ecgfed.tasks.ec57 import COLUMNS, FIBRILLATION_COLUMNS, FLUTTER_COLUMNS

    console.print(table(("record", "beats", *COLUMNS), _cells(scores.rows())))
    console.print()
    matrix = [
        (name, *("" if name in "OX" and i > 4 else int(count) for i, count in enumerate(row)))
        for name, row in zip(CLASSES, scores.total.gross.counts.tolist(), strict=True)
    ]
    console.print(table(("reference \\ test", *(name.lower() for name in CLASSES)), matrix))
    flutter, fibrillation = scores.flutter_rows(), scores.fibrillation_rows()
    for name, columns, rows in (("VF", FLUTTER_COLUMNS, flutter), ("AF", FIBRILLATION_COLUMNS, fibrillation)):
        if rows:
            console.print()
            console.print(table(("record", f"{name} episodes", *columns), _cells(rows)))
    words = scores.mapping_words
    note(f"{words[0].upper()}{words[1:]}.")
    note("Percent. Q: all QRS, V: VEB, S: SVEB; Se: sensitivity, +P: positive predictivity.")
    note("O: missed or extra; X: missed or extra while the other annotator was shut down.")
    if scores.shutdown_words():
        note(scores.shutdown_words())
    if flutter:
        note("VF: flutter and fibrillation, [ to ]; E: by episodes, D: by duration.")
    else:
        note("VF: neither file marks flutter or fibrillation, [ to ], so it has no scores.")
    if fibrillation:
        note("AF: atrial fibrillation, + with (AFIB; +P without the reference's atrial flutter, (AFL.")
    else:
        note("AF: neither file marks atrial fibrillation, + with (AFIB, so it has no scores.")
    note("Not scored: ST; WFDB's epicmp does.")


def _cells(rows: "list[Row]") -> list[tuple[Cell, ...]]:
    return [
        (name, "" if count is None else count, *("-" if value is None else f"{value:.2f}" for value in percents))
        for name, count, percents in rows
    ]
