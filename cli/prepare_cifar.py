"""``ecgfed prepare cifar10``: the second benchmark's images in, a cohort out."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ecgfed.errors import OptionError

from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, progress_bar, seconds, warn
from .prepare import OutOption


def cifar10(
    out: OutOption,
    source: Annotated[
        Path | None, typer.Option(help="Folder with the batches of either layout, or an official archive.")
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch the binary archive (162 MB) first.")] = False,
    url: Annotated[str | None, typer.Option(help="A mirror to download from.")] = None,
    partition: Annotated[str, typer.Option(help="longtail (GRP-FED) or dirichlet (Fed-RoD).")] = "longtail",
    clients: Annotated[int | None, typer.Option(help="How many clients; default 50 for longtail, 20 else.")] = None,
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
    from ecgfed.cohort.cifar import CifarOptions, build_cifar_cohort
    from ecgfed.cohort.cifar_files import HOME_PAGE, download_cifar10, read_cifar10

    shape = _shape(partition, {"rho": rho, "tau": tau, "alpha": alpha, "imbalance": imbalance})
    options = CifarOptions(partition, clients, valid_share=valid_share, limit=limit, seed=seed, **shape)
    if source is None and not download:
        raise OptionError("--source", "is missing", "a folder with CIFAR-10", "or pass --download")
    if download and source is not None and source.is_file():
        raise OptionError("--source", f"{source} is a file", "a folder to download into", "or leave --download out")
    started = time.perf_counter()
    with progress_bar(quiet) as bar:
        task = bar.add_task("images", total=None, about="")

        def tell(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, about=name)

        if download:
            source = download_cifar10(source or Path("cifar10"), base_url=url or HOME_PAGE, progress=tell)
        assert source is not None
        data = read_cifar10(source, tell)
        build_cifar_cohort(data, out, options, overwrite=overwrite, progress=tell)
    if data.warning:
        warn(data.warning, quiet=quiet)
    _report(out, time.perf_counter() - started, json_output=json_output, quiet=quiet)


def _shape(partition: str, given: dict[str, float | None]) -> dict[str, float]:
    """Return the options given for a partition; refuse those that are the other one's."""
    others = {"longtail": ("alpha", "imbalance"), "dirichlet": ("rho", "tau")}
    for name in others.get(partition, ()):
        if given[name] is not None:
            other = next(kind for kind in others if kind != partition)
            raise OptionError(f"--{name}", f"given for {partition}", f"--partition {other}", f"leave --{name} out")
    return {name: value for name, value in given.items() if value is not None}


def _report(out: Path, elapsed: float, *, json_output: bool, quiet: bool) -> None:
    from ecgfed.cohort.cohort import open_cohort, summarise

    cohort = open_cohort(out)
    summary = summarise(cohort)
    meta = cohort.meta
    if json_output:
        print_json(
            {
                "cohort": str(out),
                **summary,
                "partition": meta["partition"],
                "left_over": meta["left_over"],
                "source": meta["source"],
                "seconds": round(elapsed, 2),
            }
        )
        return
    if quiet:
        return
    console.print(_table(cohort))
    sizes = sorted(client["images"] for client in meta["clients"])
    note(
        f"{summary['clients']} clients of {sizes[0]:,} to {sizes[-1]:,} images, "
        f"{summary['classes_per_client']} classes a client; {summary['splits']['train']:,} to train on, "
        f"{summary['splits']['valid']:,} valid, {summary['splits']['test']:,} to test in common; "
        f"{meta['left_over']:,} images not used.",
        quiet=quiet,
    )
    missing = summary["cells_without_test"]
    if missing:
        warn(f"{len(missing)} of {summary['cells']} (client, class) pairs are too rare for a test image of their own")
    note(f"Wrote {out} in {seconds(elapsed)}. Next: ecgfed train {out} --out RUN", quiet=quiet)


def _table(cohort: Any) -> Table:
    from ecgfed.cohort.cohort import NOBODY

    table = Table("class", "images", "train", "valid", "test", "clients")
    for column in table.columns[1:]:
        column.justify = "right"
    for i, name in enumerate(cohort.classes):
        mine = cohort.label == i
        splits = [int((cohort.split[mine] == part).sum()) for part in range(3)]
        owners = {int(c) for c in cohort.client[mine]} - {NOBODY}
        table.add_row(name, f"{int(mine.sum()):,}", *(f"{n:,}" for n in splits), str(len(owners)))
    return table
