"""``ecgfed predict``: a bundle and a recording in, beats with labels out. No torch anywhere on this path."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from ecgfed.tasks.predict import RecordingPredictions


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
    trusted: Annotated[
        list[Path] | None,
        typer.Option("--trusted", metavar="KEY", help="Refuse a bundle that this public key (PEM) did not sign."),
    ] = None,
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
            trusted=trusted or None,
            watch=watch,
        )
    files = found.save(out, strip=strip, strip_at_s=strip_at, overwrite=overwrite)
    elapsed = time.perf_counter() - started
    if json_output:
        written = {"files": [str(file) for file in files], "seconds": round(elapsed, 2)}
        poor = sum(map(bool, found.poor))
        print_json({**found.about, "beats": len(found), "counts": found.counts, "poor_quality_beats": poor, **written})
    elif not quiet:
        _print(found, files, elapsed)


def _print(found: "RecordingPredictions", files: list[Path], elapsed: float) -> None:
    from ecgfed.tasks.predict import whose

    about = found.about
    note(f"Record {about['record']}, lead {about['lead']}, {whose(about['patient'])}:", quiet=False)
    console.print(table(["class", "beats"], [[name, count] for name, count in found.counts.items() if count]))
    if about["poor_quality_s"]:
        why = ", ".join(f"{reason} {total:.1f} s" for reason, total in about["poor_quality_s"].items())
        poor = f"{sum(map(bool, found.poor)):,} beats"
        note(f"{poor} lie in stretches of poor quality ({why}); see 'ecgfed inspect'.", quiet=False)
    if about["signature"] is not None:
        signed = "and trusted" if about["signature"]["trusted"] else "not asked whether you trust it (--trusted KEY)"
        checked = signed if about["signature"]["verified"] else "not checked; pip install 'ecgfed[sign]' checks it"
        note(f"Bundle signed by {about['signature']['key']}, {checked}.", quiet=False)
    note(f"{about['intended_use']}", quiet=False)
    note(f"{len(found):,} beats in {seconds(elapsed)}: {', '.join(map(str, files))}", quiet=False)
