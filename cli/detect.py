"""``ecgfed detect``: recordings in, their R peaks out, as WFDB annotation files."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.errors import OptionError
from ecgfed.files import check_free

from .output import JsonOption, OverwriteOption, QuietOption, note, print_json, progress_bar, seconds
from .reading import (
    ColumnsOption,
    DetectorOption,
    FsOption,
    MainsOption,
    UnitsOption,
    lead_names,
    lead_option,
    read_options,
)
from .records import record_paths

if TYPE_CHECKING:
    from ecgfed.record.recording import ReadOptions
    from ecgfed.signal.detectors import Detector


def detect_command(
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORDS", help="Recordings of any format, or folders of WFDB records.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the annotation files, RECORD.SUFFIX.")],
    detector: DetectorOption = "ecgfed",
    mains: MainsOption = None,
    lead: Annotated[str | None, lead_option("MLII,II, else the first")] = None,
    suffix: Annotated[str, typer.Option(help="Suffix of the annotation files.")] = "qrs",
    fs: FsOption = None,
    units: UnitsOption = None,
    columns: ColumnsOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the R peaks of recordings, each marked N; 'ecgfed ec57' and WFDB's bxb score the files."""
    from ecgfed.files import write_together
    from ecgfed.record.reader import record_path
    from ecgfed.signal.detectors import check_mains, detector_option

    found_by, mains_hz = detector_option(detector), check_mains(mains)
    how = read_options(fs, units, columns)
    if not re.fullmatch(r"[A-Za-z]+", suffix) or suffix in ("hea", "dat", "atr"):
        raise OptionError("--suffix", f"{suffix!r}", "letters (WFDB allows no others), not hea, dat or atr")
    paths = record_paths(records)
    targets = [out / f"{record_path(path).name}.{suffix}" for path in paths]
    check_free(targets, overwrite=overwrite)
    if len(set(targets)) < len(targets):
        raise OptionError("RECORDS", "two records have the same name", "one of each", "name them in two calls")
    started = time.perf_counter()
    found, files = [], []
    with progress_bar(quiet) as bar:
        task = bar.add_task("records", total=len(paths), about="")
        for path, target in zip(paths, targets, strict=True):
            about, data = _detect(path, target, lead, how, detector=found_by, mains_hz=mains_hz)
            found.append(about)
            files.append(data)
            bar.update(task, advance=1, about=path.name)
    write_together(dict(zip(targets, files, strict=True)))
    if json_output:
        print_json({"detector": found_by.name, "mains_hz": mains_hz, "records": found})
        return
    for about in found:
        note(f"{about['record']}: {about['beats']:,} beats on {about['lead']}, {about['file']}", quiet=quiet)
    note(f"{len(found)} records in {seconds(time.perf_counter() - started)}.", quiet=quiet)


def _detect(
    path: Path, target: Path, lead: str | None, how: "ReadOptions", *, detector: "Detector", mains_hz: float | None
) -> tuple[dict[str, Any], bytes]:
    """Return what is to be said of a record, and its annotation file."""
    import numpy as np

    from ecgfed.record.reader import read_every_lead, read_recording
    from ecgfed.record.recording import Annotation
    from ecgfed.record.wfdb_writer import annotation_bytes
    from ecgfed.signal.around_gaps import detect_around_gaps

    if lead is None:
        recording = read_every_lead(path, ("MLII", "II"), how=how)
    else:
        recording = read_recording(path, lead_names(lead), every_lead=True, how=how)
    peaks = detect_around_gaps(
        recording.signals_mv,
        recording.fs_hz,
        lead=recording.leads.index(recording.lead),
        detector=detector,
        mains_hz=mains_hz,
        name=f"{path} lead {recording.lead}",
    )
    about = {
        "record": recording.name,
        "lead": recording.lead,
        "beats": len(peaks),
        "file": str(target),
        "duration_s": round(recording.duration_s, 3),
    }
    return about, annotation_bytes(Annotation(peaks, np.full(len(peaks), "N")), recording.fs_hz)
