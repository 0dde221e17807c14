"""``ecgfed personalize``: a run and a new patient's first labelled minutes in, that patient's personal model out."""

import csv
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ecgfed.errors import OptionError

from .output import (
    JsonOption,
    OverwriteOption,
    QuietOption,
    console,
    note,
    open_run_and_cohort,
    print_json,
    seconds,
    warn,
)
from .reading import AnnotatorOption, ColumnsOption, FsOption, UnitsOption, as_typed, lead_names, read_options

DEFAULT_MINUTES, DEFAULT_EPOCHS = 5.0, 10


def personalize_command(
    run_path: Annotated[Path, typer.Argument(metavar="RUN", help="A run made by 'ecgfed train'.")],
    out: Annotated[Path, typer.Option("--out", help="The bundle folder to make, with this patient's model.")],
    record: Annotated[
        Path | None, typer.Option("--record", help="The new patient's recording, with its annotations.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Learn from the first minutes' beats; default 5.")] = None,
    class_mix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Learn from no beat but from how often each class occurs: JSON {class: number} or CSV."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the first minutes' beats.")] = DEFAULT_EPOCHS,
    patient: Annotated[str | None, typer.Option(help="Name of the personal model; default the record's.")] = None,
    lead: Annotated[str | None, typer.Option(help="Lead names in order of preference; default the cohort's.")] = None,
    annotator: AnnotatorOption = "atr",
    cohort_path: Annotated[Path | None, typer.Option("--cohort", help="The cohort, where it has moved.")] = None,
    fs: FsOption = None,
    units: UnitsOption = None,
    columns: ColumnsOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a personal model for a patient who took no part in training; score it on the rest of the recording."""
    from ecgfed.bundles.export import write_bundle
    from ecgfed.evaluation.newcomer import adapted
    from ecgfed.files import check_new_folder

    name = _check(record, minutes, class_mix, patient)
    check_new_folder(out, overwrite=overwrite)
    started = time.perf_counter()
    run, cohort = open_run_and_cohort(run_path, cohort_path)
    if record is not None and cohort.modality != "ecg":
        raise OptionError("--record", "a run on images", "a run on ECG beats", "name one with the patient's leads")
    state = run.state()
    mix = None if class_mix is None else _read_class_mix(class_mix, cohort.classes)
    length = 0.0 if mix is not None else minutes or DEFAULT_MINUTES
    first, known = None, name if name in {client.id for client in cohort.federation} else None
    if record is not None:
        how = read_options(fs, units, columns)
        first, same = _first_beats(record, lead, annotator, length, cohort, run, name, how)
        known = same or known
    if known:
        warn(f"{known} took part in training: the scores are not those of a new patient", quiet=quiet)
    if mix is not None:
        chain = _from_class_mix(run, state, mix)
    else:
        assert first is not None
        chain = adapted(run, cohort, state, first, epochs)
    scores: dict[str, Any] = {"beats": 0} if first is None else _scores(run, cohort, state, first, chain)
    own = {"minutes": length, "beats": scores["beats"], **scores.get("personal", {})}
    model = _model(name, chain, cohort, first, own, rr=run.net.spec.rr)
    manifest = write_bundle(run, cohort, state, out, [model], None, overwrite=overwrite)
    summary = {
        "run": str(run_path),
        "method": run.method.name,
        "patient": name,
        "record": None if not record else str(record),
        "learned_from": _learned_from(first, cohort, length, epochs, mix),
        "scores": scores,
        "bundle": str(out),
        "modality": cohort.modality,
        "parity": manifest["parity"],
        "seconds": round(time.perf_counter() - started, 2),
    }
    if json_output:
        print_json(summary)
        return
    if not quiet:
        _print(summary, as_typed(lead=lead, fs=fs, units=units, columns=columns))


def _check(record: Path | None, minutes: float | None, class_mix: Path | None, patient: str | None) -> str:
    """Refuse options that do not go together; return the patient's name."""
    from ecgfed.record.reader import record_path

    if minutes is not None and class_mix is not None:
        raise OptionError("--minutes and --class-mix", "both given", "one of them")
    if minutes is not None and not 0 < minutes < float("inf"):
        raise OptionError("--minutes", f"{minutes:g}", "more than 0")
    if record is None and class_mix is None:
        raise OptionError("--record", "is missing", "the new patient's recording", "or pass --class-mix FILE")
    name = patient or (record_path(record).name if record else "")
    if not name or Path(name).name != name or name.startswith("."):
        raise OptionError("--patient", f"{name!r}", "a name that can be a file's", "name the personal model with it")
    return name


def _first_beats(
    record: Path, lead: str | None, annotator: str, minutes: float, cohort: Any, run: Any, name: str, how: Any
) -> tuple[Any, str | None]:
    """Return the recording's labelled beats, cut as the cohort's were and divided by time, and whose they were."""
    from ecgfed.cohort.build import PrepareOptions, beats_of
    from ecgfed.evaluation.newcomer import first_beats

    leads = cohort.leads if lead is None else lead_names(lead)
    cut = {name: cohort.meta[name] for name in ("peaks", "detector") if cohort.meta.get(name)}
    recording, _, beats = beats_of(
        record, PrepareOptions(leads=leads, labels=cohort.labels, annotator=annotator, how=how, **cut)
    )
    first = first_beats(
        beats, recording.fs_hz, minutes, len(cohort.classes), name, rr=run.net.spec.rr, leave_out=run.plan.leave_out
    )
    return first, _participant(recording.files, cohort)


def _participant(files: tuple[Path, ...], cohort: Any) -> str | None:
    """Return the client who trained on one of these very files, whatever they are called now."""
    from ecgfed.files import sha256

    read = {sha256(file) for file in files}
    whose = {name: client.id for client in cohort.federation for name in client.records}
    for record in cohort.meta["records"]:
        if record["name"] in whose and read & set(record["sha256"].values()):
            return str(whose[record["name"]])
    return None


def _from_class_mix(run: Any, state: Any, mix: Any) -> Any:
    from ecgfed.evaluation.newcomer import from_class_mix

    chain = from_class_mix(run, state, mix)
    if chain is None:
        raise OptionError(
            "--class-mix",
            f"a run of {run.method.name}",
            "one of a method that makes models from class mixes",
            "train with --method fed-rod-hyper, or pass --minutes",
        )
    return chain


def _scores(run: Any, cohort: Any, state: Any, first: Any, chain: Any) -> dict[str, Any]:
    from ecgfed.evaluation.newcomer import compare

    kept = (run.kept(state, client.index) for client in cohort.federation)
    everyone = run.method.global_answer(state.server, kept, "ensemble")
    return compare(run, first, {"global": everyone, "personal": chain})


def _model(name: str, chain: Any, cohort: Any, first: Any, scores: dict[str, Any], *, rr: bool) -> Any:
    """Return the patient's part of the bundle; without a recording, beats of the cohort prove the graphs."""
    from ecgfed.bundles.export import PARITY_BEATS, PatientModel
    from ecgfed.evaluation.newcomer import inputs_of

    if first is None:
        return PatientModel(name, name, chain, inputs_of(cohort, PARITY_BEATS, rr=rr), None)
    return PatientModel(name, name, chain, first.some(PARITY_BEATS), scores)


def _learned_from(first: Any, cohort: Any, minutes: float, epochs: int, mix: Any) -> dict[str, Any]:
    if mix is not None:
        shares = {name: float(n) for name, n in zip(cohort.classes, mix / mix.sum(), strict=True) if n}
        return {"beats": 0, "class_mix": shares}
    counts = first.data.class_counts(0).tolist()
    classes = {name: n for name, n in zip(cohort.classes, counts, strict=True) if n}
    return {"minutes": minutes, "epochs": epochs, "beats": sum(counts), "classes": classes}


def _read_class_mix(path: Path, classes: tuple[str, ...]) -> Any:
    """Return (classes,) float64 numbers, not all 0, of a JSON object or of CSV lines ``class,number``."""
    import numpy as np

    expected = f'JSON such as {{"{classes[0]}": 0.9, "{classes[1]}": 0.1}}, or CSV lines CLASS,NUMBER'
    option = f"--class-mix {path}"
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("{"):
            pairs = [(str(name), float(value)) for name, value in json.loads(text).items()]
        else:
            rows = [row for row in csv.reader(text.splitlines()) if row]
            rows = rows[1:] if rows and rows[0][0] == "class" else rows
            pairs = [(name.strip(), float(value)) for name, value in rows]
    except (OSError, ValueError, TypeError, AttributeError) as problem:
        raise OptionError(option, f"cannot be read ({problem})", expected) from problem
    mix = np.zeros(len(classes))
    for name, value in pairs:
        if name not in classes:
            raise OptionError(option, f"class {name!r}", f"one of {', '.join(classes)}")
        if not 0 <= value < float("inf"):
            raise OptionError(option, f"{value:g} for class {name}", "0 or more")
        mix[classes.index(name)] += value
    if not mix.sum():
        raise OptionError(option, "no class occurs", expected)
    return mix


def _print(summary: dict[str, Any], reading: str) -> None:
    """Print what was made, and how to use it; ``reading`` is how the recording was told to be read."""
    learned, scores = summary["learned_from"], summary["scores"]
    if "class_mix" in learned:
        source = "a class mix alone: " + ", ".join(
            f"{name} {share:.1%}" for name, share in learned["class_mix"].items()
        )
    else:
        counts = ", ".join(f"{name} {n:,}" for name, n in learned["classes"].items())
        source = f"{learned['beats']:,} beats of the first {learned['minutes']:g} minutes ({counts})"
    note(f"{summary['patient']}: a personal model ({summary['method']}) from {source}.", quiet=False)
    if scores["beats"]:
        table = Table(f"on {scores['beats']:,} beats it has not seen", "macro-F1", "classes in truth", "accuracy")
        for answer in ("global", "personal"):
            row = scores[answer]
            table.add_row(f"{answer} model", *(f"{row[k]:.3f}" for k in ("macro_f1", "macro_f1_truth", "accuracy")))
        console.print(table)
    elif summary["record"]:
        note("No beat of the recording is left to score it on.", quiet=False)
    if summary["modality"] == "image":
        note(f"Wrote {summary['bundle']} in {seconds(summary['seconds'])}.", quiet=False)
        return
    then = f"ecgfed predict {summary['bundle']} {summary['record'] or 'RECORD'} --patient {summary['patient']}{reading}"
    note(f"Wrote {summary['bundle']} in {seconds(summary['seconds'])}. Next: {then} --out predictions", quiet=False)
