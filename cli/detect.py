"""``ecgfed detect``: recordings in, their R peaks out, as WFDB annotation files."""

from pathlib import Path
from typing import Annotated

import typer

from ecgfed.base.text import count_of
from ecgfed.domain.record.read_options import ReadOptions

from .output import JsonOption, OverwriteOption, QuietOption, note, print_json, warn
from .reading import (
    DetectorOption,
    LeadsTogetherOption,
    MainsOption,
    lead_option,
    named_detector,
    requested_leads,
    takes_reading,
)
from .reporter import Output


@takes_reading
def detect_command(
    *,
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORDS", help="Recordings of any format, or folders of WFDB records.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the annotation files, RECORD.SUFFIX.")],
    detector: DetectorOption = "ecgfed",
    mains: MainsOption = None,
    lead: Annotated[str | None, lead_option("MLII,II, else the first")] = None,
    leads: LeadsTogetherOption = None,
    suffix: Annotated[str, typer.Option(help="Suffix of the annotation files.")] = "qrs",
    how: ReadOptions,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the R peaks of recordings, each marked N; 'ecgfed ec57' and WFDB's bxb score the files."""
    from ecgfed.tasks.detect import detect

    output = Output(json_output=json_output, quiet=quiet)
    with output.reporter() as progress:
        detections = detect(
            records,
            out,
            leads=requested_leads(lead, leads),
            detector=named_detector(detector),
            mains_hz=mains,
            suffix=suffix,
            how=how,
            overwrite=overwrite,
            progress=progress,
        )
    if json_output:
        print_json(detections.to_dict())
    else:
        for record in detections.records:
            note(
                f"{record.record}: {count_of(len(record.sample), 'beat')} on {record.lead}, {record.file}", quiet=quiet
            )
    for failure in detections.failed:
        warn(f"failed: {failure['problem']}")
    if not json_output:
        failed = f", {len(detections.failed)} failed" if detections.failed else ""
        note(f"{count_of(len(detections.records), 'record')}{failed} in {output.seconds}.", quiet=quiet)
    if detections.failed:
        raise typer.Exit(1)
