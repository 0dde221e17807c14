"""``ecgfed agreement``: two readers' labels of one recording in, how far they agree out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.text import count_of

from .output import JsonOption, QuietOption, console, note, table
from .reporter import Output

if TYPE_CHECKING:
    from ecgfed.domain.labels.agreement import Agreement
    from ecgfed.tasks.agreement import LabelAgreement

NOT_DEFINED = "not defined"
#: Disagreements that are listed.
_LISTED = 50


def agreement_command(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A reader's labels: of 'label', WFDB, or edits.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another reader's of the same recording.")],
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare two readers' labels of one recording: Cohen's kappa, percent agreement, confusion by class."""
    from ecgfed.tasks.agreement import label_agreement

    output = Output(json_output=json_output, quiet=quiet)
    compared = label_agreement(first, second)
    output.show(compared.to_dict(), lambda: _print(compared))


def _print(compared: "LabelAgreement") -> None:
    from ecgfed.reports.markup import clock
    from ecgfed.tasks.agreement import SAMPLING

    both = compared.by_class.beats
    note(f"{count_of(both, 'beat')} labelled by both.")
    rows = [(name, *_scores(agreement)) for name, agreement in _levels(compared)]
    console.print(table(("labels", "agreement", "kappa", "95% interval"), rows))
    for name, agreement in _levels(compared):
        note("")
        shares = agreement.by_class
        counts = [
            (label, *row, f"{100 * shares[label]:.1f}%")
            for label, row in zip(agreement.classes, agreement.confusion.tolist(), strict=True)
        ]
        console.print(table((f"{name}: first \\ second", *agreement.classes, "agreement"), counts))
    note("Agreement of a class: of its labels by either reader, the share that the other reader gave too.")
    if compared.disagreements:
        note("")
        differing = [
            ("-" if time_s is None else clock(time_s), str(sample), first, second)
            for sample, time_s, first, second in compared.disagreements
        ]
        console.print(table(("to resolve", "sample", "first", "second"), differing[:_LISTED]))
        if len(differing) > _LISTED:
            note(f"{len(differing) - _LISTED:,} more in --json.")
    note(
        f"Not compared: {compared.only_first} labelled by the first alone, {compared.only_second} by the second alone, "
        f"{compared.cannot_tell} that one of them cannot tell."
    )
    note(SAMPLING)


def _levels(compared: "LabelAgreement") -> tuple[tuple[str, "Agreement"], ...]:
    return (("AAMI classes", compared.by_class), ("symbols", compared.by_symbol))


def _scores(agreement: "Agreement") -> tuple[str, str, str]:
    low, high = agreement.interval
    percent = f"{agreement.percent:.1f}%"
    if agreement.kappa != agreement.kappa:  # NaN
        return percent, NOT_DEFINED, "-"
    return percent, f"{agreement.kappa:.3f}", f"{low:.3f} to {high:.3f}"
