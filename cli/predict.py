"""``ecgfed predict``: a bundle and a recording in, beats with labels out. No torch anywhere on this path."""

import csv
import io
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ecgfed.errors import OptionError, StorageError

from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, seconds, warn

SUFFIX = "ecgfed"


def predict_command(
    bundle_path: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle made by 'ecgfed export'.")],
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A WFDB record, with or without .hea.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for RECORD.ecgfed, RECORD.csv and RECORD.json.")],
    patient: Annotated[str | None, typer.Option(help="Use this patient's own model; default the global one.")] = None,
    lead: Annotated[str | None, typer.Option(help="Lead names in order of preference; default the bundle's.")] = None,
    peaks: Annotated[str, typer.Option(help="detected or annotated R peaks.")] = "detected",
    annotator: Annotated[str, typer.Option(help="Suffix of the annotation file, for annotated peaks.")] = "atr",
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Classify every beat of a recording with a bundle. Research use only, not for diagnosis."""
    from ecgfed.device import open_bundle
    from ecgfed.record.peaks import detect_r_peaks
    from ecgfed.record.wfdb_files import read_annotation, read_recording

    if peaks not in ("detected", "annotated"):
        raise OptionError("--peaks", f"{peaks!r}", "detected or annotated")
    started = time.perf_counter()
    bundle = open_bundle(bundle_path)
    classifier = bundle.classifier(patient)
    leads = tuple(name.strip() for name in lead.split(",") if name.strip()) if lead else bundle.leads
    recording = read_recording(record, leads)
    if peaks == "annotated":
        r_samples = read_annotation(record, annotator, samples=len(recording.signal_mv)).beats().sample
    else:
        r_samples = detect_r_peaks(recording.signal_mv, recording.fs_hz, name=f"{record} lead {recording.lead}")
    targets = [out / f"{recording.name}.{suffix}" for suffix in (SUFFIX, "csv", "json")]
    taken = [target.name for target in targets if target.exists()]
    if taken and not overwrite:
        raise OptionError("--out", f"{out} holds {', '.join(taken)}", "no such files", "choose another, or --overwrite")
    found = classifier.predict(recording.signal_mv, recording.fs_hz, r_samples)
    about = {
        "record": recording.name, "lead": recording.lead, "fs_hz": recording.fs_hz,
        "duration_s": round(recording.duration_s, 3), "patient": patient, "peaks": peaks, "bundle": str(bundle_path),
        "method": bundle.manifest["method"], "classes": list(bundle.classes),
        "intended_use": bundle.manifest["intended_use"],
    }  # fmt: skip
    beats = _beats(r_samples, recording.fs_hz, found, bundle.labels)
    _write(targets, about, beats, recording.fs_hz)
    counts = {name: int((found.label == i).sum()) for i, name in enumerate(bundle.classes)}
    summary = {
        **about, "beats": len(beats), "counts": counts, "files": [str(t) for t in targets],
        "seconds": round(time.perf_counter() - started, 2),
    }  # fmt: skip
    if recording.lead not in bundle.leads:
        warn(f"lead {recording.lead} is not {' or '.join(bundle.leads)}, which the model was trained on", quiet=quiet)
    if json_output:
        print_json(summary)
        return
    _print(summary, quiet)


def _beats(r_samples: Any, fs_hz: float, found: Any, labels: Any) -> list[dict[str, Any]]:
    return [
        {
            "sample": int(sample), "time_s": round(int(sample) / fs_hz, 4), "class": labels.classes[label],
            "symbol": labels.symbol_of(labels.classes[label]), "probability": round(float(row[label]), 4),
            "flags": int(flags),
        }
        for sample, label, row, flags in zip(r_samples, found.label, found.probability, found.flags, strict=True)
    ]  # fmt: skip


def _write(
    targets: list[Path], about: dict[str, Any], beats: list[dict[str, Any]], fs_hz: float
) -> None:
    """Write annotation, CSV and JSON, each whole or not at all."""
    import numpy as np
    import wfdb

    from ecgfed.files import write_bytes, write_json, write_text

    annotation, table, as_json = targets
    try:
        annotation.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            names = [beat["class"] for beat in beats]
            wfdb.wrann(
                about["record"], SUFFIX, np.array([beat["sample"] for beat in beats]), [beat["symbol"] for beat in beats],
                # an annotation holds one symbol; a class of another name goes into its text
                aux_note=["" if name == beat["symbol"] else name for name, beat in zip(names, beats, strict=True)],
                fs=fs_hz, write_dir=folder,
            )  # fmt: skip
            data = (Path(folder) / f"{about['record']}.{SUFFIX}").read_bytes()
    except OSError as problem:
        raise StorageError(annotation, f"could not be written ({problem.strerror})", action="choose another --out") from None
    write_bytes(annotation, data)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, ["sample", "time_s", "class", "symbol", "probability", "flags"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(beats)
    write_text(table, stream.getvalue())
    write_json(as_json, {**about, "beats": beats})


def _print(summary: dict[str, Any], quiet: bool) -> None:
    if quiet:
        return
    table = Table("class", "beats", title=f"{summary['record']}, lead {summary['lead']}, "
                  + (f"model of patient {summary['patient']}" if summary["patient"] else "global model"))  # fmt: skip
    for name, count in summary["counts"].items():
        if count:
            table.add_row(name, f"{count:,}")
    console.print(table)
    note(f"{summary['intended_use']}", quiet=quiet)
    note(f"{summary['beats']:,} beats in {seconds(summary['seconds'])}: {', '.join(summary['files'])}", quiet=quiet)
