"""``ecgfed prepare``: recordings in, a cohort out."""

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.options import names_of
from ecgfed.domain.cohort.databases import DATABASES, Database
from ecgfed.domain.cohort.sources import TRAIN_LEADS
from ecgfed.domain.cohort.split import SPLIT_KINDS
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.tasks.prepare import PrepareConfig

from .cohort_report import print_problems, report_cohort
from .complete import choices, detector_names
from .expand import takes_options
from .output import JsonOption, OverwriteOption, QuietOption, WorkersOption
from .reading import KeyOption, check_reading, lead_names, named_detector, names
from .reporter import Output

if TYPE_CHECKING:
    from ecgfed.domain.cohort.split import SplitKind

app = typer.Typer(help="Make a cohort from recordings.", no_args_is_help=True, rich_markup_mode=None)

OutOption = Annotated[Path, typer.Option("--out", help="The cohort folder to make.")]
SplitOption = Annotated[
    str, typer.Option(help="random (stratified by class) or chronological.", autocompletion=choices(*SPLIT_KINDS))
]
HoldoutOption = Annotated[str, typer.Option(help="Client ids to keep out of training, separated by commas.")]
PackOption = Annotated[
    Path | None, typer.Option("--pack", help="Also write the cohort as one small file (beats to whole microvolts).")
]


def _takes_cohort_options(
    leads: tuple[str, ...], classes: str, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator of a command with a parameter ``how``, for a ``PrepareConfig`` with these defaults."""
    return takes_options(
        "how",
        PrepareConfig,
        without=without,
        complete={
            "split": choices(*SPLIT_KINDS),
            "peaks": choices("annotated", "detected"),
            "train_leads": choices(*TRAIN_LEADS),
            "detector": detector_names,
        },
        defaults={
            **({"leads": ",".join(leads)} if leads else {}),
            **{"classes": classes, "split": "random", "peaks": "annotated", "detector": "ecgfed", "annotator": "atr"},
            **{"rr_version": PrepareConfig.rr_version, "seed": 0, "train_leads": "first"},
        },
        parse={
            **{"leads": lead_names, "holdout": names, "detector": named_detector, "split": str, "classes": str},
            "mains_hz": lambda hz: int(hz) if hz.is_integer() else hz,
        },
        check=check_reading,
    )


def _database_command(database: Database) -> Callable[..., None]:
    """Return the command that makes a cohort from a database."""

    def command(
        *,
        out: OutOption,
        source: Annotated[Path | None, typer.Option(help=f"Folder with the records of the {database.title}.")] = None,
        download: Annotated[bool, typer.Option("--download", help="Fetch the records from PhysioNet first.")] = False,
        url: Annotated[str | None, typer.Option(help="A mirror to download from.")] = None,
        by: Annotated[
            str, typer.Option(help="patient (201 and 202 joined: 45 clients) or record (46, as papers have it).")
        ] = "patient",
        how: PrepareConfig,
        pack: PackOption = None,
        key: KeyOption = None,
        overwrite: OverwriteOption = False,
        workers: WorkersOption = None,
        json_output: JsonOption = False,
        quiet: QuietOption = False,
    ) -> None:
        from ecgfed.tasks.prepare_databases import prepare_database

        if source is None and not download:
            raise OptionError("--source", "is missing", "a folder with the records", "or pass --download")
        output = Output(json_output=json_output, quiet=quiet)
        with output.reporter() as progress:
            cohort = prepare_database(
                database.kind,
                source or Path(database.path).parent,
                out,
                download=download,
                url=url,
                by=by,
                how=how,
                pack=pack,
                key=key,
                overwrite=overwrite,
                workers=workers,
                progress=progress,
            )
        report_cohort(cohort, out, output)

    command.__doc__ = f"{database.summary}\n\n{database.source_line}"
    if not database.same_patient:
        signature = inspect.signature(command)
        parameters = [part for name, part in signature.parameters.items() if name != "by"]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    without = {*names_of(ReadOptions), "annotator", *["peaks"] * bool(database.record_labels)}
    return _takes_cohort_options(database.leads, database.classes, without)(command)


for _database in DATABASES.values():
    app.command(_database.kind)(_database_command(_database))


@app.command("folder")
@_takes_cohort_options(("MLII", "II"), "mitbih12")
def folder(
    *,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of recordings, sub-folders included.")],
    out: OutOption,
    patients: Annotated[Path | None, typer.Option(help="CSV with columns record and patient.")] = None,
    patient_comment: Annotated[
        str | None, typer.Option(help="Regular expression, one group, that finds the patient in the header's comments.")
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="wfdb, edf, csv, numpy, dicom, aecg, muse, scp, ishne: which recordings to take; "
            "default: all of them.",
        ),
    ] = "",
    how: PrepareConfig,
    pack: PackOption = None,
    key: KeyOption = None,
    skip_unusable: Annotated[
        bool, typer.Option("--skip-unusable", help="Leave out recordings that cannot be used; else they are listed.")
    ] = False,
    overwrite: OverwriteOption = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a cohort from your own annotated recordings: WFDB, EDF, CSV, NumPy, DICOM, HL7 aECG, SCP-ECG or ISHNE."""
    from ecgfed.tasks.prepare import prepare_folder

    output = Output(json_output=json_output, quiet=quiet)
    with print_problems(output), output.reporter() as progress:
        cohort = prepare_folder(
            directory,
            out,
            patients=patients,
            patient_comment=patient_comment,
            formats=names(formats),
            how=how,
            pack=pack,
            key=key,
            skip_unusable=skip_unusable,
            overwrite=overwrite,
            workers=workers,
            progress=progress,
        )
    report_cohort(cohort, out, output)


@app.command("demo")
def demo(
    out: OutOption,
    records: Annotated[
        Path | None, typer.Option(help="Where to write the records; default: COHORT-records, beside the cohort.")
    ] = None,
    patients: Annotated[int, typer.Option(help="How many patients to make up.")] = 12,
    minutes: Annotated[float, typer.Option(help="How long to record each.")] = 6.0,
    split: SplitOption = "random",
    holdout: HoldoutOption = "",
    seed: Annotated[int, typer.Option(min=0, help="Decides the recordings and the random split.")] = 0,
    pack: PackOption = None,
    overwrite: OverwriteOption = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make up recordings of 12 synthetic patients and a cohort from them: to see the software run, without data."""
    from ecgfed.tasks.prepare import prepare_demo

    output = Output(json_output=json_output, quiet=quiet)
    with output.reporter() as progress:
        cohort = prepare_demo(
            out,
            records=records,
            patients=patients,
            minutes=minutes,
            split=cast("SplitKind", split),
            holdout=names(holdout),
            seed=seed,
            pack=pack,
            overwrite=overwrite,
            workers=workers,
            progress=progress,
        )
    report_cohort(cohort, out, output)


@app.command("unpack")
def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by --pack.")],
    out: OutOption,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a cohort from a packed file, on the machine it travelled to."""
    from ecgfed.tasks.prepare import unpack_cohort

    output = Output(json_output=json_output, quiet=quiet)
    report_cohort(unpack_cohort(file, out, overwrite=overwrite), out, output)


@app.command("cifar10")
def cifar10(
    out: OutOption,
    source: Annotated[
        Path | None, typer.Option(help="Folder with the batches of either layout, or an official archive.")
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch the binary archive (162 MB) first.")] = False,
    url: Annotated[str | None, typer.Option(help="A mirror to download from.")] = None,
    partition: Annotated[
        str, typer.Option(help="longtail (GRP-FED), dirichlet (Fed-RoD), shards or iid.")
    ] = "longtail",
    clients: Annotated[
        int | None, typer.Option(help="How many clients; default 50 for longtail, 100 for shards, else 20.")
    ] = None,
    rho: Annotated[float | None, typer.Option(help="longtail: client sizes fall as rank^-rho; default 0.7.")] = None,
    tau: Annotated[
        float | None, typer.Option(help="longtail: a client's class shares fall by this factor; default 0.5.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="dirichlet: concentration; less is more different clients; default 0.3.")
    ] = None,
    imbalance: Annotated[
        float | None,
        typer.Option(help="dirichlet: images of the most frequent class for one of the rarest; default 1."),
    ] = None,
    shards: Annotated[int | None, typer.Option(help="shards: shards of one class each client; default 2.")] = None,
    valid_share: Annotated[float, typer.Option(help="Share of a client's images it does not train on.")] = 0.1,
    limit: Annotated[
        int | None, typer.Option(help="Take so many of the 50,000 images, and a fifth of it to test; for quick tries.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is drawn.")] = 0,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a cohort from CIFAR-10: 50 clients of long-tailed size and classes by default, 10,000 common test images."""
    from ecgfed.tasks.prepare_images import prepare_cifar10

    if source is None and not download:
        raise OptionError("--source", "is missing", "a folder with CIFAR-10", "or pass --download")
    output = Output(json_output=json_output, quiet=quiet)
    with output.reporter() as progress:
        cohort = prepare_cifar10(
            source or Path("cifar10"),
            out,
            download=download,
            url=url,
            partition=partition,
            clients=clients,
            rho=rho,
            tau=tau,
            alpha=alpha,
            imbalance=imbalance,
            shards=shards,
            valid_share=valid_share,
            limit=limit,
            seed=seed,
            overwrite=overwrite,
            progress=progress,
        )
    report_cohort(cohort, out, output)
