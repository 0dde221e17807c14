"""``ecgfed prepare``: recordings in, a cohort out."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ecgfed.errors import OptionError

from .output import (
    JsonOption,
    OverwriteOption,
    QuietOption,
    WorkersOption,
    console,
    note,
    print_json,
    progress_bar,
    seconds,
    warn,
)
from .reading import AnnotatorOption, ColumnsOption, FsOption, UnitsOption, lead_names, read_options

app = typer.Typer(help="Make a cohort from recordings.", no_args_is_help=True, rich_markup_mode=None)

OutOption = Annotated[Path, typer.Option("--out", help="The cohort folder to make.")]
SplitOption = Annotated[str, typer.Option(help="random (stratified by class) or chronological.")]
ClassesOption = Annotated[str, typer.Option(help="mitbih12, aami5, aami5-bxb, or a JSON or TOML file.")]
PeaksOption = Annotated[str, typer.Option(help="annotated or detected R peaks.")]
DetectorOption = Annotated[
    str, typer.Option(help="For detected peaks: ecgfed, xqrs, gqrs, sleepecg, neurokit or a NeuroKit method (docs).")
]
HoldoutOption = Annotated[str, typer.Option(help="Client ids to keep out of training, separated by commas.")]
PackOption = Annotated[
    Path | None, typer.Option("--pack", help="Also write the cohort as one small file (beats to whole microvolts).")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Decides the random split.")]
SYNTHETIC = "These patients are synthetic: it proves that the software runs, never that a method is good"


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _options(lead: str, classes: str, **rest: Any) -> Any:
    from ecgfed.beats.labels import load_label_map
    from ecgfed.cohort.build import PrepareOptions

    return PrepareOptions(leads=lead_names(lead), labels=load_label_map(classes), **rest)


@app.command("mitbih")
def mitbih(
    out: OutOption,
    source: Annotated[Path | None, typer.Option(help="Folder with the MIT-BIH records.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch the records from PhysioNet first.")] = False,
    url: Annotated[str | None, typer.Option(help="A mirror to download from.")] = None,
    split: SplitOption = "random",
    by: Annotated[str, typer.Option(help="record (46 clients) or patient (201 and 202 joined).")] = "record",
    classes: ClassesOption = "mitbih12",
    peaks: PeaksOption = "annotated",
    detector: DetectorOption = "ecgfed",
    holdout: HoldoutOption = "",
    lead: Annotated[str, typer.Option(help="Lead names in order of preference, separated by commas.")] = "MLII",
    seed: SeedOption = 0,
    pack: PackOption = None,
    overwrite: OverwriteOption = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a cohort from the MIT-BIH Arrhythmia Database: 46 clients, 12 classes, 105,045 beats by default."""
    from ecgfed.cohort.build import build_cohort
    from ecgfed.cohort.cohort import open_cohort
    from ecgfed.cohort.download import PHYSIONET, download_mitbih
    from ecgfed.cohort.mitbih import count_check, mitbih_sources, wrong_files

    if source is None:
        if not download:
            raise OptionError("--source", "is missing", "a folder with the records", "or pass --download")
        source = Path("mitdb")
    options = _options(lead, classes, split=split, peaks=peaks, detector=detector, holdout=_names(holdout), seed=seed)
    started = time.perf_counter()
    with progress_bar(quiet) as bar:
        if download:
            task = bar.add_task("download", total=None, about="")
            download_mitbih(
                source,
                base_url=url or PHYSIONET,
                progress=lambda name, done, total: bar.update(task, completed=done, total=total, about=name),
            )
        sources, without = mitbih_sources(source, options, by)
        check = count_check(sources, options)
        build_cohort(
            sources,
            out,
            options,
            kind="mitbih",
            overwrite=overwrite,
            workers=workers,
            check=check,
            about={"by": by, "without_lead": without, "counts_checked": check is not None},
            progress=_advance(bar),
        )
        altered = wrong_files(open_cohort(out).meta["records"])
    if altered:
        warn(f"{len(altered)} files in {source} are not the published ones: {', '.join(altered[:5])}", quiet=quiet)
    _pack(out, pack, quiet=quiet, json_output=json_output)
    _report(out, time.perf_counter() - started, json_output=json_output, quiet=quiet)


@app.command("folder")
def folder(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of recordings, sub-folders included.")],
    out: OutOption,
    patients: Annotated[Path | None, typer.Option(help="CSV with columns record and patient.")] = None,
    patient_comment: Annotated[
        str | None, typer.Option(help="Regular expression, one group, that finds the patient in the header's comments.")
    ] = None,
    formats: Annotated[
        str,
        typer.Option("--format", help="wfdb, edf, csv, numpy: which recordings to take; default: the one there is."),
    ] = "",
    fs: FsOption = None,
    units: UnitsOption = None,
    columns: ColumnsOption = None,
    annotator: AnnotatorOption = "atr",
    split: SplitOption = "random",
    classes: ClassesOption = "mitbih12",
    peaks: PeaksOption = "annotated",
    detector: DetectorOption = "ecgfed",
    holdout: HoldoutOption = "",
    lead: Annotated[str, typer.Option(help="Lead names in order of preference, separated by commas.")] = "MLII,II",
    seed: SeedOption = 0,
    pack: PackOption = None,
    overwrite: OverwriteOption = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a cohort from your own annotated recordings: WFDB, EDF, CSV or NumPy."""
    from ecgfed.cohort.build import build_cohort
    from ecgfed.cohort.folder import folder_sources

    options = _options(
        lead,
        classes,
        split=split,
        peaks=peaks,
        detector=detector,
        holdout=_names(holdout),
        seed=seed,
        annotator=annotator,
        how=read_options(fs, units, columns),
    )
    if patients and patient_comment:
        raise OptionError("--patients and --patient-comment", "both given", "one of them")
    started = time.perf_counter()
    sources = folder_sources(
        directory, patients=patients, comment=patient_comment, formats=_names(formats), annotator=annotator
    )
    with progress_bar(quiet) as bar:
        build_cohort(sources, out, options, kind="folder", overwrite=overwrite, workers=workers, progress=_advance(bar))
    _pack(out, pack, quiet=quiet, json_output=json_output)
    _report(out, time.perf_counter() - started, json_output=json_output, quiet=quiet)


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
    from ecgfed.cohort.build import build_cohort
    from ecgfed.cohort.demo import GENERATOR, write_demo_records
    from ecgfed.files import replacing_folder

    folder = records or out.parent / f"{out.name}-records"
    here, there = out.resolve(), folder.resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise OptionError("--records", f"{folder} and the cohort {out} overlap", "two folders, neither in the other")
    options = _options("MLII", "mitbih12", split=split, holdout=_names(holdout), seed=seed)
    started = time.perf_counter()
    # Both folders or neither: the records take their name once the cohort has been made from them.
    with progress_bar(quiet) as bar, replacing_folder(folder, overwrite=overwrite, option="--records") as partial:
        sources = write_demo_records(
            partial, seed=seed, patients=patients, minutes=minutes, progress=_advance(bar, "patients")
        )
        build_cohort(
            sources,
            out,
            options,
            kind="demo",
            overwrite=overwrite,
            workers=workers,
            progress=_advance(bar),
            about={"synthetic": f"made by ecgfed prepare demo, seed {seed}, generator {GENERATOR}"},
        )
    note(f"Wrote {len(sources)} records into {folder}.", quiet=quiet, json_output=json_output)
    _pack(out, pack, quiet=quiet, json_output=json_output)
    _report(out, time.perf_counter() - started, json_output=json_output, quiet=quiet)


@app.command("unpack")
def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by --pack.")],
    out: OutOption,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a cohort from a packed file, on the machine it travelled to."""
    from ecgfed.cohort.pack import unpack_cohort

    started = time.perf_counter()
    unpack_cohort(file, out, overwrite=overwrite)
    _report(out, time.perf_counter() - started, json_output=json_output, quiet=quiet)


def _pack(out: Path, file: Path | None, *, quiet: bool, json_output: bool) -> None:
    if file is None:
        return
    from ecgfed.cohort.pack import pack_cohort

    size = pack_cohort(out, file)
    note(f"Packed into {file}, {size / 1e6:.1f} MB.", quiet=quiet, json_output=json_output)


def _advance(bar: Any, what: str = "records") -> Callable[[str, int, int], None]:
    task = bar.add_task(what, total=None, about="")
    return lambda name, done, total: bar.update(task, completed=done, total=total, about=name)


def _report(out: Path, elapsed: float, *, json_output: bool, quiet: bool) -> None:
    from ecgfed.cohort.cohort import open_cohort, summarise

    cohort = open_cohort(out)
    summary = summarise(cohort)
    if json_output:
        left_out: dict[str, int] = {}
        for record in cohort.meta["records"]:
            for symbol, count in record["left_out"].items():
                left_out[symbol] = left_out.get(symbol, 0) + count
        print_json(
            {
                "cohort": str(out),
                **summary,
                "without_beats": cohort.meta["without_beats"],
                "left_out": left_out,
                "synthetic": bool(cohort.meta.get("synthetic")),
                "seconds": round(elapsed, 2),
            }
        )
        return
    if quiet:
        return
    table = Table("class", "beats", "train", "valid", "test", "clients")
    for column in table.columns[1:]:
        column.justify = "right"
    for i, name in enumerate(cohort.classes):
        mine = cohort.label == i
        splits = [int((cohort.split[mine] == part).sum()) for part in range(3)]
        clients = len({int(c) for c in cohort.client[mine]})
        table.add_row(name, f"{int(mine.sum()):,}", *(f"{n:,}" for n in splits), str(clients))
    console.print(table)
    note(
        f"{summary['clients']} clients, {len(cohort.classes)} classes, {summary['beats']:,} beats "
        f"({', '.join(f'{n:,} {name}' for name, n in summary['splits'].items())}); "
        f"{summary['classes_per_client']} classes a client; {summary['padded']} beats padded at an edge, "
        f"{summary['poor_quality']:,} in stretches of poor quality.",
        quiet=quiet,
    )
    meta = cohort.meta
    if meta.get("without_lead"):
        note(f"Left out for want of lead {' or '.join(cohort.leads)}: {', '.join(meta['without_lead'])}.", quiet=quiet)
    if meta.get("counts_checked"):
        note("The counts are the published database's.", quiet=quiet)
    if meta.get("synthetic"):
        note(f"{SYNTHETIC} ({meta['synthetic']}).", quiet=quiet)
    _notices(summary, meta)
    note(f"Wrote {out} in {seconds(elapsed)}.", quiet=quiet)


def _notices(summary: dict[str, Any], meta: dict[str, Any]) -> None:
    """Say what to keep in mind beside every score."""
    missing = summary["cells_without_test"]
    if missing:
        warn(
            f"{len(missing)} of {summary['cells']} (client, class) pairs have no test beat: "
            + ", ".join(f"{client}:{name}" for client, name in missing)
        )
    if summary["one_class"]:
        warn(f"clients with one class only: {', '.join(summary['one_class'])}")
    if summary["no_test"]:
        warn(f"clients without any test beat, not scored on their own: {', '.join(summary['no_test'])}")
    if meta["without_beats"]:
        warn(f"left out, no beat of any class: {', '.join(meta['without_beats'])}")
