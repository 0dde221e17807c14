"""``ecgfed predict``: a bundle and a recording in, beats with labels out. No torch anywhere on this path."""

import csv
import io
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ecgfed.errors import OptionError, RecordError

from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, seconds, warn
from .reading import RECORD_HELP, ColumnsOption, FsOption, UnitsOption, check_targets, lead_names, read_options

SUFFIX = "ecgfed"


def predict_command(
    bundle_path: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle made by 'ecgfed export'.")],
    record: Annotated[Path, typer.Argument(metavar="RECORD", help=RECORD_HELP)],
    out: Annotated[Path, typer.Option("--out", help="Folder for RECORD.ecgfed, RECORD.csv and RECORD.json.")],
    patient: Annotated[str | None, typer.Option(help="Use this patient's own model; default the global one.")] = None,
    lead: Annotated[str | None, typer.Option(help="Lead names in order of preference; default the bundle's.")] = None,
    peaks: Annotated[str, typer.Option(help="detected or annotated R peaks.")] = "detected",
    detector: Annotated[str, typer.Option(help="For detected peaks: ecgfed, xqrs, ... (docs/qrs.md).")] = "ecgfed",
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
    from ecgfed.device import open_bundle
    from ecgfed.record.reader import read_recording
    from ecgfed.signal.detectors import detector_by_name
    from ecgfed.signal.quality import lead_quality

    if peaks not in ("detected", "annotated"):
        raise OptionError("--peaks", f"{peaks!r}", "detected or annotated")
    started = time.perf_counter()
    bundle = open_bundle(bundle_path)
    bundle.require_ecg()
    classifier = bundle.classifier(patient)
    leads = bundle.leads if lead is None else lead_names(lead)
    every_lead = detector_by_name(detector).every_lead and peaks == "detected"
    recording = read_recording(record, leads, every_lead=every_lead, how=read_options(fs, units, columns))
    if strip_at is not None and strip_at >= recording.duration_s:
        raise OptionError("--strip-at", f"{strip_at:g}", f"less than {recording.duration_s:.1f} s, the record's length")
    quality = lead_quality(recording.signal_mv, recording.fs_hz)
    r_samples = _r_peaks(recording, quality, peaks, detector, annotator)
    with_strip = strip or strip_at is not None
    targets = [out / f"{recording.name}.{suffix}" for suffix in (SUFFIX, "csv", "json", *["png"] * with_strip)]
    check_targets(targets, recording, overwrite)
    found = classifier.predict(recording.signal_mv, recording.fs_hz, r_samples, quality)
    about = {
        "record": recording.name,
        "lead": recording.lead,
        "fs_hz": recording.fs_hz,
        "duration_s": round(recording.duration_s, 3),
        "patient": patient,
        "peaks": peaks,
        "detector": detector if peaks == "detected" else None,
        "bundle": str(bundle_path),
        "method": bundle.manifest["method"],
        "classes": list(bundle.classes),
        "intended_use": bundle.manifest["intended_use"],
        "usable_s": round(quality.usable_s, 3),
        "poor_quality_s": quality.seconds(),
    }
    beats = _beats(r_samples, recording.fs_hz, found, bundle.labels, quality)
    _write(targets, about, beats, _strip(recording, about, beats, strip_at) if with_strip else None)
    counts = {name: int((found.label == i).sum()) for i, name in enumerate(bundle.classes)}
    summary = {
        **about,
        "beats": len(beats),
        "counts": counts,
        "poor_quality_beats": sum(bool(beat["poor_quality"]) for beat in beats),
        "files": [str(t) for t in targets],
        "seconds": round(time.perf_counter() - started, 2),
    }
    if recording.lead not in bundle.leads:
        warn(f"lead {recording.lead} is not {' or '.join(bundle.leads)}, which the model was trained on", quiet=quiet)
    if json_output:
        print_json(summary)
        return
    _print(summary, quiet)


def _r_peaks(recording: Any, quality: Any, peaks: str, detector: str, annotator: str) -> Any:
    """Return the R positions of a recording, detected or annotated."""
    from ecgfed.record.reader import annotation_file, read_annotation
    from ecgfed.signal.around_gaps import detect_around_gaps

    if peaks == "detected":
        name = f"{recording.path} lead {recording.lead}"
        lead = recording.leads.index(recording.lead)
        return detect_around_gaps(
            recording.signals_mv, recording.fs_hz, quality, lead=lead, detector=detector, name=name
        )
    r_samples = read_annotation(recording, annotator).beats().sample
    if not len(r_samples):
        marks = annotation_file(recording.path, annotator)
        raise RecordError(marks, "marks no beat", "beat annotations", "use --peaks detected")
    return r_samples


def _strip(recording: Any, about: dict[str, Any], beats: list[dict[str, Any]], at: float | None) -> bytes:
    """Draw the strip that begins at a time (s), or where most kinds of beats are."""
    import numpy as np

    from ecgfed.reports.strip import Strip, busiest_start, draw_strip
    from ecgfed.signal.filters import band_pass, fill_gaps

    names = [beat["class"] for beat in beats]
    samples = np.array([beat["sample"] for beat in beats])
    usual = max(set(names), key=names.count)
    whose = f"model of patient {about['patient']}" if about["patient"] else "global model"
    filtered = band_pass(fill_gaps(recording.signal_mv)[0], recording.fs_hz)
    drawn = Strip(
        filtered,
        recording.fs_hz,
        samples,
        names,
        usual,
        title=f"Record {recording.name}, lead {recording.lead}, {whose}",
        footer=f"band-pass 0.5 to 40 Hz · {about['intended_use']}",
    )
    if at is None:
        at = busiest_start(samples, names, usual, recording.fs_hz, len(filtered))
    return draw_strip(drawn, at)


def _beats(r_samples: Any, fs_hz: float, found: Any, labels: Any, quality: Any) -> list[dict[str, Any]]:
    from ecgfed.beats.extract import window_spans

    start, stop = window_spans(fs_hz, r_samples)
    poor = ["+".join(quality.reasons_in(*span)) for span in zip(start.tolist(), stop.tolist(), strict=True)]
    return [
        {
            "sample": int(sample),
            "time_s": round(int(sample) / fs_hz, 4),
            "class": labels.classes[label],
            "symbol": labels.symbol_of(labels.classes[label]),
            "probability": round(float(row[label]), 4),
            "flags": int(flags),
            "poor_quality": reasons,
        }
        for sample, label, row, flags, reasons in zip(
            r_samples, found.label, found.probability, found.flags, poor, strict=True
        )
    ]


def _write(targets: list[Path], about: dict[str, Any], beats: list[dict[str, Any]], png: bytes | None) -> None:
    """Write annotation, CSV, JSON and the strip, where one is wanted: all of them, or none."""
    from ecgfed.files import write_together

    table = io.StringIO()
    writer = csv.DictWriter(table, list(beats[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(beats)
    as_json = json.dumps({**about, "beats": beats}, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    contents: tuple[bytes, ...] = (_annotation(beats, about["fs_hz"]), table.getvalue().encode(), as_json.encode())
    if png is not None:
        contents += (png,)
    write_together(dict(zip(targets, contents, strict=True)))


def _annotation(beats: list[dict[str, Any]], fs_hz: float) -> bytes:
    """Return a WFDB annotation file; a class whose name is no symbol stands in the note beside its symbol."""
    import numpy as np

    from ecgfed.record.recording import Annotation
    from ecgfed.record.wfdb_writer import annotation_bytes

    notes = tuple("" if beat["class"] == beat["symbol"] else beat["class"] for beat in beats)
    marks = Annotation(
        np.array([beat["sample"] for beat in beats]), np.array([beat["symbol"] for beat in beats]), notes
    )
    return annotation_bytes(marks, fs_hz)


def _print(summary: dict[str, Any], quiet: bool) -> None:
    if quiet:
        return
    whose = f"model of patient {summary['patient']}" if summary["patient"] else "global model"
    note(f"Record {summary['record']}, lead {summary['lead']}, {whose}:", quiet=quiet)
    table = Table("class", "beats")
    for name, count in summary["counts"].items():
        if count:
            table.add_row(name, f"{count:,}")
    console.print(table)
    if summary["poor_quality_s"]:
        why = ", ".join(f"{reason} {total:.1f} s" for reason, total in summary["poor_quality_s"].items())
        poor = f"{summary['poor_quality_beats']:,} beats"
        note(f"{poor} lie in stretches of poor quality ({why}); see 'ecgfed inspect'.", quiet=quiet)
    note(f"{summary['intended_use']}", quiet=quiet)
    note(f"{summary['beats']:,} beats in {seconds(summary['seconds'])}: {', '.join(summary['files'])}", quiet=quiet)
