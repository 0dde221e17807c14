"""``ecgfed personalize``: a run and a new patient's first labelled minutes in, that patient's personal model out."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .complete import detector_names
from .options import MethodOption, MovedCohortOption, PersonalOption, RunArgument, SignOption
from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, seconds, table
from .reading import (
    AnnotatorOption,
    ColumnsOption,
    FsOption,
    UnitsOption,
    as_typed,
    lead_names,
    lead_option,
    named_detector,
    read_options,
)
from .watch import watching

if TYPE_CHECKING:
    from ecgfed.tasks.personalize import PersonalModel


def personalize_command(
    run_path: RunArgument,
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
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the first minutes' beats.")] = 10,
    personal: PersonalOption = None,
    patient: Annotated[str | None, typer.Option(help="Name of the personal model; default the record's.")] = None,
    lead: Annotated[str | None, lead_option("the cohort's")] = None,
    detector: Annotated[
        str | None,
        typer.Option(
            help="Who finds the R peaks where the cohort's were detected; default as there.",
            autocompletion=detector_names,
        ),
    ] = None,
    annotator: AnnotatorOption = "atr",
    cohort_path: MovedCohortOption = None,
    fs: FsOption = None,
    units: UnitsOption = None,
    columns: ColumnsOption = None,
    method: MethodOption = None,
    sign: SignOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a personal model for a patient who took no part in training; score it on the rest of the recording."""
    from ecgfed.tasks.personalize import personalize

    started = time.perf_counter()
    with watching(quiet=quiet, json_output=json_output) as watch:
        model = personalize(
            run_path,
            out,
            record=record,
            minutes=minutes,
            class_mix=class_mix,
            epochs=epochs,
            personal=personal,
            patient=patient,
            leads=None if lead is None else lead_names(lead),
            detector=None if detector is None else named_detector(detector),
            annotator=annotator,
            cohort=cohort_path,
            how=read_options(fs, units, columns),
            overwrite=overwrite,
            method=method,
            sign=sign,
            watch=watch,
        )
    elapsed = time.perf_counter() - started
    if json_output:
        print_json({**model.to_dict(), "seconds": round(elapsed, 2)})
    elif not quiet:
        _print(model, elapsed, as_typed(lead=lead, fs=fs, units=units, columns=columns))


def _print(model: "PersonalModel", elapsed: float, reading: str) -> None:
    """Print what was made, and how to use it; ``reading`` is how the recording was told to be read."""
    learned, scores = model.learned_from, model.scores
    if "class_mix" in learned:
        source = "a class mix alone: " + ", ".join(
            f"{name} {share:.1%}" for name, share in learned["class_mix"].items()
        )
    else:
        counts = ", ".join(f"{name} {n:,}" for name, n in learned["classes"].items())
        source = f"{learned['beats']:,} beats of the first {learned['minutes']:g} minutes ({counts})"
    note(f"{model.patient}: a personal model ({model.method}) from {source}.", quiet=False)
    if scores["beats"]:
        columns = [f"on {scores['beats']:,} beats it has not seen", "macro-F1", "classes in truth", "accuracy"]
        rows = [
            [f"{name} model", *(scores[name][key] for key in ("macro_f1", "macro_f1_truth", "accuracy"))]
            for name in ("global", "personal")
        ]
        console.print(table(columns, rows))
    elif model.record:
        note("No beat of the recording is left to score it on.", quiet=False)
    path = model.bundle.path
    if model.modality == "image":
        note(f"Wrote {path} in {seconds(elapsed)}.", quiet=False)
        return
    then = f"ecgfed predict {path} {model.record or 'RECORD'} --patient {model.patient}{reading}"
    note(f"Wrote {path} in {seconds(elapsed)}. Next: {then} --out predictions", quiet=False)
