"""``ecgfed inspect``: a recording in, what of it can be used out. No torch anywhere on this path."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.domain.record.read_options import ReadOptions

from .output import JsonOption, OverwriteOption, QuietOption, console, note, table
from .reading import (
    DetectorOption,
    LeadsTogetherOption,
    MainsOption,
    RecordArgument,
    lead_option,
    named_detector,
    requested_leads,
    takes_reading,
)
from .reporter import Output

if TYPE_CHECKING:
    from ecgfed.tasks.inspect import Inspection

#: How many stretches of a reason the table names.
NAMED = 4


@takes_reading
def inspect_command(
    *,
    record: RecordArgument,
    lead: Annotated[str | None, lead_option("MLII,II, else the first")] = None,
    leads: LeadsTogetherOption = None,
    annotator: Annotated[
        str, typer.Option(help="Suffix of the annotation file, looked at where there is one.")
    ] = "atr",
    out: Annotated[
        Path | None, typer.Option(metavar="PICTURE", help="Also draw the record and 10 s of it, as .png or .svg.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="M:SS", help="Where the 10 s begin; default: where most is amiss.")
    ] = None,
    detector: DetectorOption = "ecgfed",
    mains: MainsOption = None,
    how: ReadOptions,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say how much of a recording can be used, what is amiss, and where. Findings are no errors."""
    from ecgfed.tasks.inspect import inspect_recording

    output = Output(json_output=json_output, quiet=quiet)
    with output.reporter() as progress:
        inspection = inspect_recording(
            record,
            leads=requested_leads(lead, leads),
            annotator=annotator,
            detector=named_detector(detector),
            mains_hz=mains,
            how=how,
            picture=out,
            at=at,
            overwrite=overwrite,
            progress=progress,
        )
    output.show(inspection.to_dict(), lambda: _print(inspection, output.seconds))


def _print(inspection: "Inspection", elapsed: str) -> None:
    from ecgfed.reports.strip import clock
    from ecgfed.tasks.inspect import usable_percent

    recording, rate = inspection.recording, inspection.heart_rate_per_min
    beating = "no heart rate" if rate is None else f"median heart rate {rate:.0f}/min"
    note(
        f"Record {recording.name}: {clock(recording.duration_s)} at {recording.fs_hz:g} Hz, "
        f"leads {', '.join(inspection.quality)}; {recording.lead}: {beating}."
    )
    if recording.skipped:  # who counts channels for --lead '#2' counts these too
        note(f"Left out: {', '.join(recording.skipped)}.")
    usable = [
        (lead, f"{item.usable_s:.1f} s", f"{usable_percent(item):.2f}%") for lead, item in inspection.quality.items()
    ]
    console.print(table(("lead", "usable", ""), usable))
    reasons = [row for lead in inspection.quality for row in _reasons(inspection, lead)]
    if reasons:
        console.print()
        console.print(table(("lead", "reason", "seconds", "stretches", "where"), reasons))
    else:
        note("No stretch of any lead is amiss.")
    for finding in inspection.findings:
        note(f"- {finding.text}")
    if inspection.picture:
        note(f"Wrote {inspection.picture} in {elapsed}.")


def _reasons(inspection: "Inspection", lead: str) -> list[tuple[str | int, ...]]:
    """Return a row for each reason: how long, how often, and where the first times."""
    from ecgfed.reports.strip import clock

    quality = inspection.quality[lead]
    rows: list[tuple[str | int, ...]] = []
    for reason, total in quality.seconds().items():
        segments = [part for part in quality.stretches if part.reason == reason]
        edges = [(part.start / quality.fs_hz, part.stop / quality.fs_hz) for part in segments[:NAMED]]
        more = f", {len(segments) - NAMED} more" if len(segments) > NAMED else ""
        where = ", ".join(f"{clock(start)}-{clock(stop)}" for start, stop in edges) + more
        rows.append((lead, reason, f"{total:.1f}", len(segments), where))
    return rows
