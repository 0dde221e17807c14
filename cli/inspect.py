"""``ecgfed inspect``: a recording in, what of it can be used out. No torch anywhere on this path."""

import contextlib
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.errors import MissingExtraError, OptionError, RecordError

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
    read_options,
)

if TYPE_CHECKING:
    from ecgfed.record.recording import Annotation, ReadOptions, Recording
    from ecgfed.signal.detectors import Detector
    from ecgfed.signal.findings import Finding
    from ecgfed.signal.quality import LeadQuality

#: What a model of the default cohort is trained on; the first lead present where there is neither.
DEFAULT_LEADS = ("MLII", "II")
#: How many stretches of a reason the table names.
NAMED = 4


def inspect_command(
    record: RecordArgument,
    lead: Annotated[str | None, lead_option("MLII,II, else the first")] = None,
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
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say how much of a recording can be used, what is amiss, and where. Findings are no errors."""
    from ecgfed.signal.detectors import check_mains, detector_option
    from ecgfed.signal.quality import lead_quality

    started = time.perf_counter()
    form, found_by, mains_hz = _form(out, overwrite), detector_option(detector), check_mains(mains)
    recording, wanted = _read(record, lead, read_options(fs, units, columns))
    start_s = None if at is None else _moment(at, recording.duration_s)
    quality = {
        name: lead_quality(signal, recording.fs_hz)
        for name, signal in zip(recording.leads, recording.signals_mv, strict=True)
    }
    rate, findings = _judge(recording, wanted, quality, annotator, detector=found_by, mains_hz=mains_hz)
    summary = {
        "record": recording.name,
        "path": str(recording.path),
        "fs_hz": recording.fs_hz,
        "duration_s": round(recording.duration_s, 3),
        "lead": recording.lead,
        "detector": found_by.name,
        "heart_rate_per_min": None if rate is None else round(rate, 1),
        "leads": [_about_lead(name, found) for name, found in quality.items()],
        "findings": findings,
        "picture": None if out is None else str(out),
    }
    if out is not None:
        _draw(recording, quality, summary, start_s, out, form)
    summary["seconds"] = round(time.perf_counter() - started, 2)
    if json_output:
        print_json(summary)
        return
    _print(summary, quiet)


def _form(out: Path | None, overwrite: bool) -> str:
    """Return the picture's format from its name; refuse another, and a file that is there."""
    from ecgfed.reports.quality_page import FORMATS

    if out is None:
        return FORMATS[0]
    form = out.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise OptionError("--out", f"{out}", " or ".join(f"a name that ends in .{name}" for name in FORMATS))
    if out.exists() and not overwrite:
        raise OptionError("--out", f"{out} exists", "a new file", "choose another, or pass --overwrite")
    if not out.parent.is_dir():
        raise OptionError("--out", f"{out.parent} is not a folder", "a folder to write into", "make it first")
    return form


def _read(record: Path, lead: str | None, how: "ReadOptions") -> tuple["Recording", tuple[str, ...]]:
    """Return the recording with every lead, and the names of the leads that were wanted."""
    from ecgfed.record.reader import read_every_lead, read_recording

    if lead is None:
        return read_every_lead(record, DEFAULT_LEADS, how=how), DEFAULT_LEADS
    leads = lead_names(lead)
    return read_recording(record, leads, every_lead=True, how=how), leads


def _moment(text: str, duration_s: float) -> float:
    """Read ``5:07.3``, ``1:05:00`` or seconds; raises OptionError where it is none, or past the record's end."""
    match = re.fullmatch(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?)", text.strip())
    if not match:
        raise OptionError("--at", f"{text!r}", "a time in the record, such as 5:00")
    hours, minutes, rest = (float(part or 0) for part in match.groups())
    moment = 3600 * hours + 60 * minutes + rest
    if moment >= duration_s:
        raise OptionError("--at", f"{text}", f"less than {_clock(duration_s)}, the record's length")
    return moment


def _judge(
    recording: "Recording",
    wanted: tuple[str, ...],
    quality: "dict[str, LeadQuality]",
    annotator: str,
    *,
    detector: "Detector",
    mains_hz: float | None,
) -> tuple[float | None, list[dict[str, Any]]]:
    """Return the median heart rate of the chosen lead, and what is to be said of the whole recording."""
    import numpy as np

    from ecgfed.record.reader import has_annotation
    from ecgfed.signal.around_gaps import detect_around_gaps
    from ecgfed.signal.findings import heart_rate, missing_lead, record_findings

    bad = {name: found.bad() for name, found in quality.items()}
    peaks = np.empty(0, np.int64)
    with contextlib.suppress(RecordError):  # no beats: a finding, said below
        lead = recording.leads.index(recording.lead)
        peaks = detect_around_gaps(
            recording.signals_mv,
            recording.fs_hz,
            quality[recording.lead],
            lead=lead,
            detector=detector,
            mains_hz=mains_hz,
        )
    findings = missing_lead(recording, wanted)
    annotation = None
    if has_annotation(recording, annotator):
        annotation, unreadable = _annotation(recording, annotator)
        findings += unreadable
    findings += record_findings(recording, peaks, np.stack([bad[name] for name in recording.leads]), annotation)
    return heart_rate(peaks, recording.fs_hz, bad[recording.lead]), [asdict(finding) for finding in findings]


def _annotation(recording: "Recording", annotator: str) -> "tuple[Annotation | None, list[Finding]]":
    """Read the annotation; one that cannot be read is a finding, because the recording can."""
    from ecgfed.record.reader import read_annotation
    from ecgfed.signal.findings import Finding

    try:
        return read_annotation(recording, annotator), []
    except (RecordError, MissingExtraError) as problem:
        return None, [Finding("annotation", None, f"The annotation cannot be used: {problem}.")]


def _about_lead(name: str, quality: "LeadQuality") -> dict[str, Any]:
    """Return what the JSON output says of one lead."""
    return {
        "lead": name,
        "usable_s": round(quality.usable_s, 3),
        "usable_percent": round(100 * quality.usable_s * quality.fs_hz / quality.samples, 2),
        "seconds": quality.seconds(),
        "stretches": [
            {
                "start_s": round(part.start / quality.fs_hz, 3),
                "stop_s": round(part.stop / quality.fs_hz, 3),
                "start_sample": part.start,
                "stop_sample": part.stop,
                "reason": str(part.reason),
            }
            for part in quality.stretches
        ],
    }


def _draw(
    recording: "Recording",
    quality: "dict[str, LeadQuality]",
    summary: dict[str, Any],
    start_s: float | None,
    out: Path,
    form: str,
) -> None:
    from ecgfed.files import write_bytes
    from ecgfed.reports.quality_page import QualityPage, draw_quality, worst_start

    chosen = quality[recording.lead]
    usable = next(about["usable_percent"] for about in summary["leads"] if about["lead"] == recording.lead)
    page = QualityPage(
        recording.signals_mv,
        recording.leads,
        recording.lead,
        recording.fs_hz,
        {
            about["lead"]: [(part["start_s"], part["stop_s"], part["reason"]) for part in about["stretches"]]
            for about in summary["leads"]
        },
        title=f"Record {recording.name}, {_clock(recording.duration_s)} at {recording.fs_hz:g} Hz; "
        f"{recording.lead} {usable:g}% usable",
        footer="not filtered · research use only, not for diagnosis",
    )
    if start_s is None:
        start_s = worst_start(chosen.bad(), recording.fs_hz)
    write_bytes(out, draw_quality(page, start_s, form=form))


def _clock(moment_s: float) -> str:
    from ecgfed.reports.strip import clock

    return clock(moment_s)


def _print(summary: dict[str, Any], quiet: bool) -> None:
    if quiet:
        return
    rate = summary["heart_rate_per_min"]
    beating = "no heart rate" if rate is None else f"median heart rate {rate:.0f}/min"
    note(
        f"Record {summary['record']}: {_clock(summary['duration_s'])} at {summary['fs_hz']:g} Hz, "
        f"leads {', '.join(about['lead'] for about in summary['leads'])}; {summary['lead']}: {beating}.",
        quiet=quiet,
    )
    usable = [(one["lead"], f"{one['usable_s']:.1f} s", f"{one['usable_percent']:.2f}%") for one in summary["leads"]]
    console.print(table(("lead", "usable", "share"), usable))
    reasons: list[tuple[str | int, ...]] = []
    for about in summary["leads"]:
        for reason, total in about["seconds"].items():
            places = [part for part in about["stretches"] if part["reason"] == reason]
            where = ", ".join(f"{_clock(p['start_s'])}-{_clock(p['stop_s'])}" for p in places[:NAMED])
            more = f", {len(places) - NAMED} more" if len(places) > NAMED else ""
            reasons.append((about["lead"], reason, f"{total:.1f}", len(places), where + more))
    if reasons:
        console.print()
        console.print(table(("lead", "reason", "seconds", "stretches", "where"), reasons))
    else:
        note("No stretch of any lead is amiss.", quiet=quiet)
    for finding in summary["findings"]:
        note(f"- {finding['text']}", quiet=quiet)
    if summary["picture"]:
        note(f"Wrote {summary['picture']} in {seconds(summary['seconds'])}.", quiet=quiet)
