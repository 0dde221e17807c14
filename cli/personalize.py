"""``ecgfed personalize``: a patient's own model in a bundle out; in is a recording with some labels, or a run and a new
patient's first labelled minutes.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.text import count_of
from ecgfed.domain.record.read_options import ReadOptions

from .complete import detector_names
from .options import MethodOption, MovedCohortOption, NetOption, PersonalOption, SignOption
from .output import JsonOption, OverwriteOption, QuietOption, console, note, table
from .reading import (
    AnnotatorOption,
    ForceOption,
    LeadsTogetherOption,
    MainsOption,
    PeaksOption,
    TrustedOption,
    as_typed,
    lead_option,
    named_detector,
    requested_leads,
    takes_reading,
    typed_reading,
)
from .reporter import Output
from .tables import Cell
from .two_forms import refuse_options_of

if TYPE_CHECKING:
    from ecgfed.tasks.label_personalization import LabelPersonalization
    from ecgfed.tasks.personalize import PersonalModel

#: Options of runs, and of recordings; the others are of both.
_OF_A_RUN = ("record", "class_mix", "epochs", "cohort_path", "method", "net")
_OF_A_RECORDING = ("labels", "bundle", "beats", "peaks", "mains", "seed", "trusted", "force")


@takes_reading
def personalize_command(
    *,
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(metavar="RECORD", help="A recording, with --labels; or a run, the folder of 'ecgfed train'."),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The bundle to make, a folder or a .zip, with this patient's model.")
    ],
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a recording: what 'ecgfed label' saved, or a WFDB annotation."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Of a recording: the model to begin from; default that in the package.")
    ] = None,
    beats: Annotated[
        Path | None, typer.Option(help="Of a recording: folder for a label of every beat; default OUT-beats.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="Of a run: the new patient's recording, with its annotations.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Learn from the first minutes' beats; default 5 of a run, else all.")
    ] = None,
    class_mix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of a run: learn from no beat but from how often each class occurs: JSON {class: number} or CSV.",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Of a run: passes over the first minutes' beats.")] = 10,
    personal: PersonalOption = None,
    patient: Annotated[str | None, typer.Option(help="Name of the personal model; default the record's.")] = None,
    lead: Annotated[str | None, lead_option("the cohort's or the bundle's")] = None,
    leads: LeadsTogetherOption = None,
    peaks: PeaksOption = "detected",
    detector: Annotated[
        str | None,
        typer.Option(
            help="Who finds the R peaks, of a run where the cohort's were detected; default as there, else ours.",
            autocompletion=detector_names,
        ),
    ] = None,
    mains: MainsOption = None,
    annotator: AnnotatorOption = "atr",
    seed: Annotated[int, typer.Option(min=0, help="Of a recording: that of 'ecgfed label'.")] = 0,
    cohort_path: MovedCohortOption = None,
    how: ReadOptions,
    method: MethodOption = None,
    net: NetOption = None,
    sign: SignOption = None,
    trusted: TrustedOption = None,
    force: ForceOption = False,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a patient's own model from a recording and a few labels of its beats, or from a run and a new patient."""
    output = Output(json_output=json_output, quiet=quiet)
    options: dict[str, Any] = {
        "minutes": minutes,
        "patient": patient,
        "leads": requested_leads(lead, leads),
        "annotator": annotator,
        "how": how,
        "sign": sign,
        "overwrite": overwrite,
    }
    typed = as_typed(lead=lead, **typed_reading(how))
    if _is_run(source, labels):
        refuse_options_of(context, source, _OF_A_RECORDING, "recordings", "a run")
        options |= {"record": record, "class_mix": class_mix, "epochs": epochs, "personal": personal}
        options |= {"cohort": cohort_path, "method": method, "net": net}
        options["detector"] = None if detector is None else named_detector(detector)
        from ecgfed.tasks.personalize import personalize

        with output.reporter() as progress:
            from_run = personalize(source, out, **options, progress=progress)
        output.show(from_run.to_dict(), lambda: _print(from_run, output.seconds, typed))
        return
    refuse_options_of(context, source, _OF_A_RUN, "runs", "a recording")
    if labels is None:
        expected = "a file of labels, as 'ecgfed label' saves it"
        raise OptionError("--labels", f"is missing, and {source} is a recording", expected)
    options |= {"labels": labels, "bundle": bundle, "beats": beats, "peaks": peaks, "mains_hz": mains, "seed": seed}
    options |= {"trusted": trusted or None, "force": force}
    options |= {} if personal is None else {"personal": personal}
    options |= {} if detector is None else {"detector": named_detector(detector)}
    typed += as_typed(peaks=peaks if peaks != "detected" else None, detector=detector, mains=mains)
    typed += " --force" * force
    from ecgfed.tasks.personalize_labels import personalize_labels

    with output.reporter() as progress:
        model = personalize_labels(source, out, **options, progress=progress)
    reading = f"{shlex.quote(str(source))} --patient {shlex.quote(model.patient)}{typed}"
    output.show(model.to_dict(), lambda: _print_labelled(model, output.seconds, reading))


def _is_run(source: Path, labels: Path | None) -> bool:
    """Say whether a run is meant: with labels where it is one, else unless it can only be a recording."""
    from ecgfed.domain.record.wfdb_header import record_base
    from ecgfed.tasks.report_input import find_run

    if labels is not None:
        return find_run(source) is not None
    return (
        source.is_dir()
        or source.name == "run.json"
        or not (source.is_file() or Path(f"{record_base(source)}.hea").exists())
    )


def _print_labelled(model: "LabelPersonalization", elapsed: str, reading: str) -> None:
    """Print what was made, what it is worth, and where to label next; ``reading`` is how the recording is read."""
    counts = ", ".join(f"{symbol} {count:,}" for symbol, count in model.user_labels.counts.items())
    labelled = len(model.user_labels.label)
    note(f"{model.patient}: {count_of(labelled, 'label')} ({counts}).")
    sources = model.labels.by_source()
    rows: list[list[Cell]] = []
    for name, count in model.labels.by_symbol().items():
        of_symbol = model.labels.source[model.labels.symbol == name]
        rows.append([name, count, *(int((of_symbol == source).sum()) for source in sources)])
    console.print(table(["label", "beats", *(f"from {name}" for name in sources)], rows))
    for line in model.sentences():
        note(line)
    files = ", ".join(map(str, model.files))
    note(f"Wrote {model.bundle.path}, {files} in {elapsed}.")
    note(f"Next: ecgfed predict {shlex.quote(str(model.bundle.path))} {reading} --out predictions")


def _print(model: "PersonalModel", elapsed: str, reading: str) -> None:
    """Print what was made, and how to use it; ``reading`` is how the recording was told to be read."""
    learned, scores = model.learned_from, model.scores
    if "class_mix" in learned:
        source = "a class mix alone: " + ", ".join(
            f"{name} {share:.1%}" for name, share in learned["class_mix"].items()
        )
    else:
        counts = ", ".join(f"{name} {n:,}" for name, n in learned["classes"].items())
        early = count_of(learned["minutes"], "minute")
        source = f"{count_of(learned['beats'], 'beat')} of the first {early} ({counts})"
    note(f"{model.patient}: a personal model ({model.method}) from {source}.")
    if scores["beats"]:
        columns = [
            f"on {count_of(scores['beats'], 'beat')} it did not learn from",
            "macro-F1",
            "classes in truth",
            "accuracy",
        ]
        rows = [
            [f"{name} model", *(scores[name][key] for key in ("macro_f1", "macro_f1_truth", "accuracy"))]
            for name in ("global", "personal")
        ]
        console.print(table(columns, rows))
    elif model.record:
        note("No beat of the recording is left to score it on.")
    path = model.bundle.path
    if model.modality == "image":
        note(f"Wrote {path} in {elapsed}.")
        return
    run, record, patient = (shlex.quote(str(name)) for name in (path, model.record or "RECORD", model.patient))
    then = f"ecgfed predict {run} {record} --patient {patient}{reading}"
    note(f"Wrote {path} in {elapsed}. Next: {then} --out predictions")
