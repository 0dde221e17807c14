"""``ecgfed cohort``: what is done with cohorts that are there."""

from pathlib import Path
from typing import Annotated

import typer

from ecgfed.base.errors import OptionError

from .cohort_report import report_cohort
from .output import JsonOption, OverwriteOption, QuietOption
from .reading import names
from .reporter import Output

app = typer.Typer(help="Join cohorts, or divide one anew.", no_args_is_help=True, rich_markup_mode=None)


@app.command("join")
def join(
    cohorts: Annotated[list[Path] | None, typer.Argument(metavar="COHORTS", help="Cohorts, a site each.")] = None,
    out: Annotated[Path, typer.Option("--out", help="The cohort folder to make.")] = ...,  # type: ignore[assignment]
    site: Annotated[
        list[str] | None,
        typer.Option("--site", metavar="NAME=COHORT", help="A cohort and the name of its site; repeatable."),
    ] = None,
    clients: Annotated[
        str, typer.Option("--clients", metavar="WORD", help="patient (default), or site: a site is one client.")
    ] = "patient",
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Join separately prepared cohorts into one federation of several sites."""
    from ecgfed.domain.cohort.cohort import open_cohort
    from ecgfed.domain.cohort.join import site_names
    from ecgfed.tasks.join import join_cohorts

    unnamed = [open_cohort(path) for path in cohorts or ()]
    sites = list(zip(site_names(unnamed), unnamed, strict=True))
    for text in site or ():
        name, sign, path = text.partition("=")
        if not (name and sign and path):
            raise OptionError("--site", f"{text!r}", "NAME=COHORT")
        sites.append((name, open_cohort(path)))
    output = Output(json_output=json_output, quiet=quiet)
    names = [name for name, _ in sites]
    if repeated := next((name for name in names if names.count(name) > 1), ""):
        raise OptionError("--site", f"two are called {repeated}", "a name of its own for each", "pass NAME=COHORT")
    with output.reporter() as progress:
        cohort = join_cohorts(dict(sites), out, clients=clients, overwrite=overwrite, progress=progress)
    report_cohort(cohort, out, output)


@app.command("resplit")
def resplit(
    cohort: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort of recordings.")],
    out: Annotated[Path, typer.Option("--out", help="The cohort folder to make.")],
    seed: Annotated[int | None, typer.Option(help="Seed of the new random split; default the split as it is.")] = None,
    holdout: Annotated[
        str | None, typer.Option(help="Client ids to keep out of training, separated by commas; default as they are.")
    ] = None,
    holdout_site: Annotated[
        str, typer.Option("--holdout-site", help="Sites to keep out of training, separated by commas.")
    ] = "",
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Divide the beats of a cohort anew: another random split, patients left out, sites left out."""
    from ecgfed.tasks.resplit import resplit_cohort

    output = Output(json_output=json_output, quiet=quiet)
    made = resplit_cohort(
        cohort,
        out,
        seed=seed,
        holdout=None if holdout is None else names(holdout),
        holdout_site=names(holdout_site),
        overwrite=overwrite,
    )
    report_cohort(made, out, output)
