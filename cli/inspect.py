"""``ecgfed inspect``: a recording in, what of it can be used out. No torch anywhere on this path."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, seconds, table
from .reading import (
    ColumnsOption,
    DetectorOption,
    FsOption,
    LeadsTogetherOption,
    MainsOption,
    RecordArgument,
    RepairOption,
    UnitsOption,
    lead_option,
    named_detector,
    read_options,
    wanted_leads,
)
from .watch import watching

if TYPE_CHECKING:
    from ecgfed.tasks.inspect import Inspection

#: How many stretches of a reason the table names.
NAMED = 4


def inspect_command(
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
    fs: FsOption = None,
    units: UnitsOption = None,
    columns: ColumnsOption = None,
    repair: RepairOption = False,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say how much of a recording can be used, what is amiss, and where. Findings are no errors."""
    from ecgfed.tasks.inspect import inspect_recording

    started = time.perf_counter()
    with watching(quiet=quiet, json_output=json_output) as watch:
        found = inspect_recording(
            record,
            leads=wanted_leads(lead, leads),
            annotator=annotator,
            detector=named_detector(detector),
            mains_hz=mains,
            how=read_options(fs, units, columns, repair),
            picture=out,
            at=at,
            overwrite=overwrite,
            watch=watch,
        )
    elapsed = time.perf_counter() - started
    if json_output:
        print_json({**found.to_dict(), "seconds": round(elapsed, 2)})
    elif not quiet:
        _print(found, elapsed)


def _print(found: "Inspection", elapsed: float) -> None:
    from ecgfed.reports.strip import clock
    from ecgfed.tasks.inspect import usable_percent

    recording, rate = found.recording, found.heart_rate_per_min
    beating = "no heart rate" if rate is None else f"median heart rate {rate:.0f}/min"
    note(
        f"Record {recording.name}: {clock(recording.duration_s)} at {recording.fs_hz:g} Hz, "
        f"leads {', '.join(found.quality)}; {recording.lead}: {beating}.",
        quiet=False,
    )
    if recording.skipped:  # who counts channels for --lead '#2' counts these too
        note(f"Left out: {', '.join(recording.skipped)}.", quiet=False)
    usable = [(lead, f"{one.usable_s:.1f} s", f"{usable_percent(one):.2f}%") for lead, one in found.quality.items()]
    console.print(table(("lead", "usable", ""), usable))
    reasons = [row for lead in found.quality for row in _reasons(found, lead)]
    if reasons:
        console.print()
        console.print(table(("lead", "reason", "seconds", "stretches", "where"), reasons))
    else:
        note("No stretch of any lead is amiss.", quiet=False)
    for finding in found.findings:
        note(f"- {finding.text}", quiet=False)
    if found.picture:
        note(f"Wrote {found.picture} in {seconds(elapsed)}.", quiet=False)


def _reasons(found: "Inspection", lead: str) -> list[tuple[str | int, ...]]:
    """Return a row for each reason: how long, how often, and where the first times."""
    from ecgfed.reports.strip import clock

    quality = found.quality[lead]
    rows: list[tuple[str | int, ...]] = []
    for reason, total in quality.seconds().items():
        places = [part for part in quality.stretches if part.reason == reason]
        edges = [(part.start / quality.fs_hz, part.stop / quality.fs_hz) for part in places[:NAMED]]
        more = f", {len(places) - NAMED} more" if len(places) > NAMED else ""
        where = ", ".join(f"{clock(start)}-{clock(stop)}" for start, stop in edges) + more
        rows.append((lead, reason, f"{total:.1f}", len(places), where))
    return rows
