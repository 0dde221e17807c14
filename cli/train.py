"""``ecgfed train``: a cohort in, a run out."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError

from .complete import method_names
from .options import settings_of
from .output import JsonOption, QuietOption, WorkersOption, note, print_json, seconds, stderr
from .stop import graceful_stop
from .watch import watching

if TYPE_CHECKING:
    from ecgfed.core.runs.run import Run

AggregationOption = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        help="mean (default); against malicious clients median, trimmed-mean[:0.2] or norm-bound[:NORM].",
    ),
]
ClipOption = Annotated[
    float | None, typer.Option(metavar="C", help="Differential privacy: the longest update of a patient (L2).")
]
NoiseOption = Annotated[
    float | None, typer.Option(metavar="Z", help="Its noise: standard deviation over C; epsilon is told at the end.")
]
NoiseAtOption = Annotated[
    str | None, typer.Option(help="Who adds the noise: server (default), patient or, between hospitals, site.")
]


def train_command(
    cohort: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort made by 'ecgfed prepare'.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The run folder to make; default runs/COHORT-METHOD-sSEED.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="A name from 'ecgfed methods'; default grp-fed.", autocompletion=method_names)
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds, in place of passes.")] = None,
    passes: Annotated[
        float | None, typer.Option(help="Passes over all training beats, on average; default 20, over images 60.")
    ] = None,
    local_epochs: Annotated[
        int | None, typer.Option(help="A client's passes over its beats in a round, in place of steps.")
    ] = None,
    local_steps: Annotated[int | None, typer.Option(help="A client's optimizer steps in a round; default 4.")] = None,
    clients_per_round: Annotated[int | None, typer.Option(help="Participants of a round; default all.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Beats of a step; default 16, of images 64.")] = None,
    rr: Annotated[
        bool | None, typer.Option("--rr/--no-rr", help="Feed RR intervals to the net; default on for ECG.")
    ] = None,
    net: Annotated[
        str | None, typer.Option(help="ECG: default or reference. Images: resnet30 (default), convnet3 or convnet2.")
    ] = None,
    norm: Annotated[str | None, typer.Option(help="group, batch or none; default by net.")] = None,
    width: Annotated[float | None, typer.Option(help="Scales the net's channels; default 1.")] = None,
    window_share: Annotated[
        float | None,
        typer.Option(help="How much the window counts beside RR features; 0.1 suits patients who take no part."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything random; default 0.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Several seeds, such as 0,1,2: a run each, in OUT/seed-0 and so on.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; repeatable.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the same names, and a table [set]; the command line wins.")
    ] = None,
    leave_out: Annotated[
        str | None, typer.Option(help="nothing or poor-quality: training beats in bad stretches; default nothing.")
    ] = None,
    aggregation: AggregationOption = None,
    dp_clip: ClipOption = None,
    dp_noise: NoiseOption = None,
    dp_at: NoiseAtOption = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda; default auto.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="threads (a client a core) or batched (many at once); default by device and batch."),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="Clients in a stack of the batched engine; default 12, on a GPU 64.")
    ] = None,
    eval_every: Annotated[
        int | None, typer.Option(min=0, help="Score the validation split every n rounds (0 never); default rounds/20.")
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
    """Train one method on a cohort; with nothing else, GRP-FED by its published recipe.

    A killed run goes on with --resume and ends the same. Ctrl-C finishes the round and saves it; a second one stops at
    once.
    """
    from ecgfed.tasks.train import train, train_seeds

    options = {
        "method": method,
        "rounds": rounds,
        "passes": passes,
        "local_epochs": local_epochs,
        "local_steps": local_steps,
        "clients_per_round": clients_per_round,
        "batch_size": batch_size,
        "seed": seed,
        "rr": rr,
        "net": net,
        "norm": norm,
        "width": width,
        "window_share": window_share,
        "settings": settings_of(set_),
        "config": config,
        "leave_out": leave_out,
        "aggregation": aggregation,
        "dp_clip": dp_clip,
        "dp_noise": dp_noise,
        "dp_at": dp_at,
        "device": device,
        "engine": engine,
        "slots": slots,
        "eval_every": eval_every,
        "checkpoint_every": checkpoint_every,
        "tensorboard": tensorboard,
        "resume": resume,
        "overwrite": overwrite,
        "workers": workers,
    }
    several = _seeds(seeds, out)
    started = time.perf_counter()
    with graceful_stop(quiet=quiet) as stop, watching(quiet=quiet, json_output=json_output) as watch:
        if several is None or out is None:
            runs = [train(cohort, out, watch=watch, should_stop=stop.requested, **options)]  # type: ignore[arg-type]
        else:
            runs = train_seeds(cohort, several, out, watch=watch, should_stop=stop.requested, **options)
    if stop.code is not None:
        _exit_if_interrupted(runs, several, cohort, out, stop.code)
    _report(runs, out, time.perf_counter() - started, json_output=json_output, quiet=quiet)


def _seeds(text: str | None, out: Path | None) -> list[int] | None:
    if text is None:
        return None
    if out is None:
        raise OptionError("--seeds", "without --out", "a folder for the runs")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise OptionError("--seeds", f"{text!r}", "whole numbers, 0 or more, separated by commas")
    return [int(part) for part in parts]


def _exit_if_interrupted(runs: list["Run"], seeds: list[int] | None, cohort: Path, out: Path | None, code: int) -> None:
    """Say how to go on where a session ended before its last round; raises SystemExit."""
    run = runs[-1]
    rounds = run.store.rounds()
    if rounds >= run.plan.rounds and len(runs) == len(seeds or runs):
        return
    again = f"ecgfed train {shlex.quote(str(cohort))} --out {shlex.quote(str(out or run.path))} --resume"
    again += f" --seeds {','.join(map(str, seeds))}" if seeds else ""
    again += _method_label(run)
    line = f"ecgfed: stopped after round {rounds} of {run.plan.rounds}, saved; go on with: {again}"
    stderr.print(line, highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(code)


def _method_label(run: "Run") -> str:
    """What a command on the run has to say of its method: where somebody's own lies, since no file gets to run it."""
    return f" --method {shlex.quote(run.custom_method)}" if run.custom_method else ""


def _report(runs: list["Run"], out: Path | None, elapsed: float, *, json_output: bool, quiet: bool) -> None:
    where = out or runs[0].path
    if json_output:
        lines = [
            {
                "run": str(run.path),
                "method": run.method.name,
                "rounds": run.plan.rounds,
                **run.last_record(),
                "excluded": run.meta.get("excluded"),
            }
            for run in runs
        ]
        spent = {"seconds": round(elapsed, 2)}
        print_json({**lines[0], **spent} if len(runs) == 1 else {"runs": lines, **spent})
        return
    after = f"ecgfed evaluate {shlex.quote(str(where))}{_method_label(runs[0])}"
    note(f"Wrote {where} in {seconds(elapsed)}. Next: {after}", quiet=quiet)
