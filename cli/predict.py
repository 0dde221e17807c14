"""``ecgfed predict``: recordings in, and a bundle unless the model in the package shall read them; beats with labels
out. No torch anywhere on this path.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.text import count_of
from ecgfed.domain.record.read_options import ReadOptions

from .output import JsonOption, OverwriteOption, QuietOption, console, note, table, warn
from .reading import (
    RECORD_HELP,
    DetectorOption,
    ForceOption,
    LeadsTogetherOption,
    MainsOption,
    MarksOption,
    PeaksOption,
    TrustedOption,
    lead_option,
    named_detector,
    requested_leads,
    takes_reading,
)
from .reporter import Output
from .tables import Cell, fits

if TYPE_CHECKING:
    from ecgfed.tasks.predict import RecordingPredictions
    from ecgfed.tasks.predict_batch import Batch


@takes_reading
def predict_command(
    *,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="[BUNDLE] RECORD",
            help=f"A bundle, or none for the model in the package. {RECORD_HELP} Several, or a folder.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for RECORD.ecgfed, RECORD.csv and RECORD.json.")],
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", help="A bundle made by 'ecgfed export'; default the model in the package."),
    ] = None,
    patient: Annotated[str | None, typer.Option(help="Use this patient's own model; default the global one.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Use the model's int8 form.")] = False,
    lead: Annotated[str | None, lead_option("the bundle's")] = None,
    leads: LeadsTogetherOption = None,
    peaks: PeaksOption = "detected",
    detector: DetectorOption = "ecgfed",
    mains: MainsOption = None,
    annotator: MarksOption = "atr",
    strip: Annotated[bool, typer.Option("--strip", help="Also draw 10 s on ECG paper, RECORD.png.")] = False,
    strip_at: Annotated[
        float | None, typer.Option(min=0.0, help="Where the strip begins, in seconds; default: where most happens.")
    ] = None,
    how: ReadOptions,
    trusted: TrustedOption = None,
    force: ForceOption = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a batch in --out that was killed; it ends the same.")
    ] = False,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Classify every beat of a recording, or of all in a folder. Research use only, not for diagnosis."""
    from ecgfed.tasks.predict import predict
    from ecgfed.tasks.predict_inputs import bundle_and_records, is_batch

    output = Output(json_output=json_output, quiet=quiet)
    which, records = bundle_and_records(sources, bundle)
    options: dict[str, Any] = {
        "bundle": which,
        "patient": patient,
        "int8": int8,
        "leads": requested_leads(lead, leads),
        "peaks": peaks,
        "detector": named_detector(detector),
        "mains_hz": mains,
        "annotator": annotator,
        "how": how,
        "trusted": trusted or None,
        "force": force,
    }
    drawn: dict[str, Any] = {"strip": strip, "strip_at_s": strip_at, "overwrite": overwrite}
    if is_batch(records):
        from ecgfed.tasks.predict_batch import predict_batch

        with output.reporter() as progress:
            batch = predict_batch(records, out, **options, **drawn, resume=resume, progress=progress)
        _print_batch(batch, output)
        if batch.failed:
            raise typer.Exit(1)
        return
    if resume:
        raise OptionError("--resume", f"{records[0]} is one recording", "a folder, or several", "leave --resume out")
    with output.reporter() as progress:
        predictions = predict(recording=records[0], **options, progress=progress)
    files = predictions.save(out, **drawn)
    output.show(predictions.summary(files), lambda: _print(predictions, files, output.seconds))


def _print_batch(batch: "Batch", output: Output) -> None:
    """Print a line for each recording that was done, and a line on stderr for each that failed."""
    summary = str(batch.summary) if batch.completed else None
    output.show({**batch.to_dict(), "summary": summary}, lambda: _print_tables(batch))
    for failure in batch.failed:
        warn(f"failed: {failure['problem']}")
    if not (output.quiet or output.json_output):
        finished, failed = len(batch.completed), len(batch.failed)
        where = f": {summary}" if summary else "; nothing was written"
        note(f"{count_of(finished, 'recording')} done, {failed} failed, in {output.seconds}{where}")


def _print_tables(batch: "Batch") -> None:
    """Print the recordings, the classes of all of them together, and what speaks against the answers."""
    if not batch.completed:
        return
    counts, uncertain, ood = batch.counts, batch.low_confidence_counts, batch.out_of_distribution_counts
    present, any_ood = [name for name, count in counts.items() if count], any(ood.values())
    last = ["far"] * any_ood
    unclassified = [item.get("unclassified_beats", 0) for item in batch.completed]
    some_without = any(unclassified)
    lengths = [
        [item["file"], item["lead"], f"{item['duration_s'] / 60:.1f} min", item["beats"]] for item in batch.completed
    ]
    classes = [[item["counts"][name] for name in present] for item in batch.completed]
    warning_cells = [
        [
            item["poor_quality_beats"],
            *[without] * some_without,
            item["uncertain_beats"],
            *[item["far_beats"]] * any_ood,
            len(item["warnings"]),
        ]
        for item, without in zip(batch.completed, unclassified, strict=True)
    ]
    begin = ["recording", "lead", "length", "beats"]
    end = ["poor", *["unclassified"] * some_without, "uncertain", *last, "warnings"]
    wide = [[*row, *counted, *doubtful] for row, counted, doubtful in zip(lengths, classes, warning_cells, strict=True)]
    if fits([*begin, *present, *end], wide, width=console.width):
        console.print(table([*begin, *present, *end], wide))
    else:  # what is in doubt first
        console.print(
            table([*begin, *end], [[*row, *cells] for row, cells in zip(lengths, warning_cells, strict=True)])
        )
        note("")
        console.print(table(["recording", *present], [[row[0], *n] for row, n in zip(lengths, classes, strict=True)]))
    note("")
    totals: list[list[Cell]] = [[name, counts[name], uncertain[name], *[ood[name]] * any_ood] for name in present]
    if some_without:
        totals.append(["unclassified", sum(unclassified), "", *[""] * any_ood])
    console.print(table(["class", "beats", "uncertain", *last], totals))
    for line in batch.remarks:
        note(f"- {line}")
    note(f"{batch.completed[0]['intended_use']}")


def _print(predictions: "RecordingPredictions", files: list[Path], elapsed: str) -> None:
    from ecgfed.domain.record.leads import described
    from ecgfed.tasks.predict import describe_model
    from ecgfed.tasks.predict_inputs import card_of

    metadata = predictions.metadata
    model = describe_model(metadata["patient"]) + (f" in {metadata['precision']}" if "precision" in metadata else "")
    note(f"Record {metadata['record']}, lead {described(metadata['lead'])}, {model}:")
    doubtful = predictions.low_confidence_counts
    rows: list[list[Cell]] = [[name, count, doubtful[name]] for name, count in predictions.counts.items() if count]
    rows += [[f"{symbol} (unclassified)", count, ""] for symbol, count in predictions.unclassified_counts.items()]
    console.print(table(["class", "beats", "uncertain"], rows))
    for warning in predictions.warnings:
        if not warning.severe:  # the others were told as they were found
            note(f"- {warning.text}")
    if metadata["signature"] is not None:
        signed = "and trusted" if metadata["signature"]["trusted"] else "not asked whether you trust it (--trusted KEY)"
        checked = signed if metadata["signature"]["verified"] else "not checked; pip install 'ecgfed[sign]' checks it"
        note(f"Bundle signed by {metadata['signature']['key']}, {checked}.")
    if card := card_of(metadata["bundle"]):
        note(f"By the model in the package: what it learned from, and what it gets wrong, is in {card}.")
    note(f"{metadata['intended_use']}")
    note(f"{count_of(len(predictions), 'beat')} in {elapsed}: {', '.join(map(str, files))}")
