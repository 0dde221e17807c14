"""``ecgfed predict``: a bundle and a recording in, beats with labels out. No torch anywhere on this path."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .complete import choices
from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, seconds, table
from .reading import (
    ColumnsOption,
    DetectorOption,
    FsOption,
    MainsOption,
    RecordArgument,
    UnitsOption,
    lead_names,
    lead_option,
    named_detector,
    read_options,
)
from .watch import watching


def predict_command(
    bundle_path: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle made by 'ecgfed export'.")],
    record: RecordArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for RECORD.ecgfed, RECORD.csv and RECORD.json.")],
    patient: Annotated[str | None, typer.Option(help="Use this patient's own model; default the global one.")] = None,
    lead: Annotated[str | None, lead_option("the bundle's")] = None,
    peaks: Annotated[
        str, typer.Option(help="detected or annotated R peaks.", autocompletion=choices("detected", "annotated"))
    ] = "detected",
    detector: DetectorOption = "ecgfed",
    mains: MainsOption = None,
    annotator: Annotated[str, typer.Option(help="Suffix of the annotation file, for annotated peaks.")] = "atr",
    strip: Annotated[bool, typer.Option("--strip", help="Also draw 10 s on ECG paper, RECORD.png.")] = False,
    strip_at: Annotated[
        float | None, typer.Option(min=0.0, help="Where the strip begins, in seconds; default: where most happens.")
    ] = None,
    fs: FsOption = None,
    units: UnitsOption = None,
    columns: ColumnsOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Classify every beat of a recording with a bundle. Research use only, not for diagnosis."""
    from ecgfed.tasks.predict import predict

    started = time.perf_counter()
    with watching(quiet=quiet, json_output=json_output) as watch:
        found = predict(
            bundle_path,
            record,
            patient=patient,
            leads=None if lead is None else lead_names(lead),
            peaks=peaks,
            detector=named_detector(detector),
            mains_hz=mains,
            annotator=annotator,
            how=read_options(fs, units, columns),
            watch=watch,
        )
    files = found.save(out, strip=strip, strip_at_s=strip_at, overwrite=overwrite)
    summary = {
        **found.about,
        "beats": len(found),
        "counts": found.counts,
        "poor_quality_beats": sum(map(bool, found.poor)),
        "files": [str(file) for file in files],
        "seconds": round(time.perf_counter() - started, 2),
    }
    if json_output:
        print_json(summary)
    elif not quiet:
        _print(summary)


def _print(summary: dict[str, Any]) -> None:
    from ecgfed.tasks.predict import whose

    note(f"Record {summary['record']}, lead {summary['lead']}, {whose(summary['patient'])}:", quiet=False)
    console.print(table(["class", "beats"], [[name, count] for name, count in summary["counts"].items() if count]))
    if summary["poor_quality_s"]:
        why = ", ".join(f"{reason} {total:.1f} s" for reason, total in summary["poor_quality_s"].items())
        poor = f"{summary['poor_quality_beats']:,} beats"
        note(f"{poor} lie in stretches of poor quality ({why}); see 'ecgfed inspect'.", quiet=False)
    note(f"{summary['intended_use']}", quiet=False)
    note(f"{summary['beats']:,} beats in {seconds(summary['seconds'])}: {', '.join(summary['files'])}", quiet=False)
