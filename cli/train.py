"""``ecgfed train``: a cohort in, a run out."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.core.config import TrainConfig

from .complete import method_names
from .expand import takes_options
from .options import SetOption, seeds_of, settings_of
from .output import JsonOption, QuietOption, WorkersOption, note, stderr
from .reporter import Output
from .stop import graceful_stop

if TYPE_CHECKING:
    from ecgfed.core.runs.run import Run


@takes_options(
    "options",
    TrainConfig,
    insert={"seed": ("seeds", "split_seeds", "set_", "config")},
    complete={"method": method_names},
)
def train_command(
    cohort: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort made by 'ecgfed prepare'.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="The run folder to make; default runs/COHORT-METHOD-sSEED.")
    ] = None,
    options: TrainConfig,
    seeds: Annotated[
        str | None, typer.Option(help="Several seeds, such as 0,1,2: a run each, in OUT/seed-0 and so on.")
    ] = None,
    split_seeds: Annotated[
        str | None,
        typer.Option(help="Seeds of random splits, such as 0,1,2: all of it on each, in OUT/split-0 and so on."),
    ] = None,
    set_: SetOption = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the same names, and a table [set]; the command line wins.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Save every n rounds; default: as often as costs 2% of the time.")
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write TensorBoard scalars there; needs ecgfed[tensorboard].")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train one method on a cohort; with nothing else, FedGate for 20 passes.

    A killed run goes on with --resume and ends the same. Ctrl-C finishes the round and saves it; a second one stops at
    once.
    """
    from ecgfed.tasks.train import train, train_seeds

    arguments = {
        **options.given_values(),
        "settings": settings_of(set_),
        "config": config,
        "checkpoint_every": checkpoint_every,
        "tensorboard": tensorboard,
        "resume": resume,
        "overwrite": overwrite,
        "workers": workers,
    }
    several, splits = _seeds(seeds, out), _seeds(split_seeds, out, "--split-seeds") or []
    if splits and several is None:
        several = [options.given_values().get("seed", 0)]
        arguments.pop("seed", None)
    output = Output(json_output=json_output, quiet=quiet)
    with graceful_stop(quiet=quiet) as stop, output.reporter() as progress:
        if several is None or out is None:
            runs = [train(cohort, out, progress=progress, should_stop=stop.requested, **arguments)]
        else:
            arguments["split_seeds"] = splits
            runs = train_seeds(cohort, several, out, progress=progress, should_stop=stop.requested, **arguments)
    if stop.code is not None:
        _exit_if_interrupted(runs, several, splits, cohort, out, stop.code)
    _report(runs, out, output)


def _seeds(text: str | None, out: Path | None, option: str = "--seeds") -> list[int] | None:
    if text is None:
        return None
    if out is None:
        raise OptionError(option, "without --out", "a folder for the runs")
    return seeds_of(text)


def _exit_if_interrupted(
    runs: list["Run"], seeds: list[int] | None, splits: list[int], cohort: Path, out: Path | None, code: int
) -> None:
    """Say how to go on where a session ended before its last round; raises SystemExit."""
    run = runs[-1]
    rounds = run.store.rounds()
    if rounds >= run.plan.rounds and len(runs) == len(seeds or runs) * max(1, len(splits)):
        return
    again = f"ecgfed train {shlex.quote(str(cohort))} --out {shlex.quote(str(out or run.path))} --resume"
    again += f" --seeds {','.join(map(str, seeds))}" if seeds else ""
    again += f" --split-seeds {','.join(map(str, splits))}" if splits else ""
    again += _own_code(run)
    line = f"ecgfed: stopped after round {rounds} of {run.plan.rounds}, saved; go on with: {again}"
    stderr.print(line, highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(code)


def _own_code(run: "Run") -> str:
    """Return the options that name a run's own method and net, which no file gets to run by itself."""
    named = {"method": run.custom_method, "net": run.custom_net}
    return "".join(f" --{option} {shlex.quote(name)}" for option, name in named.items() if name)


def _report(runs: list["Run"], out: Path | None, output: Output) -> None:
    where = out or runs[0].path
    lines = [
        {"run": str(run.path), "method": run.method.name, "rounds": run.plan.rounds}
        | {**run.last_record(), "excluded": run.meta.get("excluded")}
        for run in runs
    ]
    after = f"ecgfed evaluate {shlex.quote(str(where))}{_own_code(runs[0])}"
    output.show(
        lines[0] if len(runs) == 1 else {"runs": lines},
        lambda: note(f"Wrote {where} in {output.seconds}. Next: {after}"),
    )
