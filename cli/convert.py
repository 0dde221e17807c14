"""``ecgfed convert``: a recording of any format in, a WFDB record out, read back before it is kept."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.files import check_free

from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, seconds, table, warn
from .reading import ColumnsOption, FsOption, RecordArgument, UnitsOption, lead_names, read_options

if TYPE_CHECKING:
    from ecgfed.record.recording import Annotation, Recording


def convert_command(
    record: RecordArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for RECORD.hea, RECORD.dat and RECORD.atr.")],
    lead: Annotated[
        str, typer.Option(help="The lead whose sampling frequency the record gets; default: the first.")
    ] = "",
    annotator: Annotated[
        str | None,
        typer.Option(help="Suffix of the annotation file; edf: inside an EDF+ file; default: atr where there is one."),
    ] = None,
    fs: FsOption = None,
    units: UnitsOption = None,
    columns: ColumnsOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a recording and its annotation as a WFDB record of 16 bits: EDF, CSV, NumPy or WFDB in."""
    from ecgfed.files import write_together
    from ecgfed.record.reader import read_recording
    from ecgfed.record.wfdb_writer import record_bytes, record_name

    started = time.perf_counter()
    leads = lead_names(lead) if lead else ()
    recording = read_recording(record, leads, every_lead=True, how=read_options(fs, units, columns))
    annotation = _annotation(recording, annotator)
    name = record_name(recording.name)
    suffixes = ("hea", "dat", "atr") if annotation is not None else ("hea", "dat")
    targets = [out / f"{name}.{suffix}" for suffix in suffixes]
    check_free(targets, recording.files, overwrite=overwrite)
    files, written = record_bytes(recording, name, annotation)
    write_together(dict(zip(targets, files.values(), strict=True)))
    for channel in recording.left_out:
        warn(f"left out: {channel}", quiet=quiet)
    if annotation is None:
        warn("no annotation beside it: name one with --annotator", quiet=quiet)
    summary = {
        "record": name,
        "from": str(record),
        "fs_hz": recording.fs_hz,
        "duration_s": round(recording.duration_s, 3),
        "leads": [
            {
                "name": one.name,
                "gain_per_mv": one.gain,
                "zero": one.zero,
                "step_uv": one.step_uv,
                "max_error_uv": round(one.max_error_mv * 1000, 6),
                "gaps": one.gaps,
            }
            for one in written
        ],
        "annotations": None if annotation is None else len(annotation.sample),
        "left_out": list(recording.left_out),
        "files": [str(target) for target in targets],
        "seconds": round(time.perf_counter() - started, 2),
    }
    if json_output:
        print_json(summary)
    elif not quiet:
        _print(summary)


def _annotation(recording: "Recording", annotator: str | None) -> "Annotation | None":
    """Return the annotation asked for, or the one there is, or None."""
    from ecgfed.record.reader import has_annotation, read_annotation

    if annotator is None and not has_annotation(recording):
        return None
    return read_annotation(recording, annotator or "atr")


def _print(summary: dict[str, Any]) -> None:
    note(f"Record {summary['record']}, {summary['fs_hz']:g} Hz, {seconds(summary['duration_s'])}:", quiet=False)
    rows = [
        (
            lead["name"],
            f"{lead['gain_per_mv']:g}",
            f"{lead['step_uv']:g} uV",
            f"{lead['max_error_uv']:.3g} uV",
            lead["gaps"],
        )
        for lead in summary["leads"]
    ]
    console.print(table(("lead", "steps a mV", "a step", "largest error", "gaps"), rows))
    marks = "no annotation" if summary["annotations"] is None else f"{summary['annotations']:,} annotations"
    note(f"{marks}; read back and compared: {', '.join(summary['files'])}", quiet=False)
