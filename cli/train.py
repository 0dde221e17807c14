"""``ecgfed train``: a cohort in, a run out."""

import math
import shutil
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ecgfed.errors import EcgfedError, OptionError, RunError

from .output import JsonOption, QuietOption, WorkersOption, note, print_json, seconds
from .session import check_tensorboard, compute_of, run_session

#: What a run is made of when neither the command line nor the file says otherwise.
DEFAULTS: dict[str, Any] = {
    "method": "fedavg",
    "rounds": None,
    "passes": None,
    "local_epochs": None,
    "local_steps": None,
    "clients_per_round": None,
    "batch_size": 64,
    "seed": 0,
    "rr": None,
    "net": None,
    "norm": None,
    "width": 1.0,
    "device": "auto",
    "engine": "auto",
    "slots": None,
    "eval_every": None,
    "leave_out": "nothing",
}
DEFAULT_ROUNDS = 20
#: Of those without a default value here: what kind of value a configuration file has to hold.
KINDS: dict[str, type] = {"passes": float, "rr": bool, "net": str, "norm": str}
#: Two ways to say one thing: where the command line says one of them, the file's other one does not count.
EITHER_OR = (("rounds", "passes"), ("local_epochs", "local_steps"))


def train_command(
    cohort: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort made by 'ecgfed prepare'.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    method: Annotated[str | None, typer.Option(help="A name from 'ecgfed methods'; default fedavg.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds; default 20.")] = None,
    passes: Annotated[
        float | None, typer.Option(help="Instead of rounds: passes over all training beats, on average.")
    ] = None,
    local_epochs: Annotated[int | None, typer.Option(help="A client's passes over its beats in a round.")] = None,
    local_steps: Annotated[int | None, typer.Option(help="Or a client's optimizer steps in a round.")] = None,
    clients_per_round: Annotated[int | None, typer.Option(help="Participants of a round; default all.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Beats of a step; default 64.")] = None,
    rr: Annotated[
        bool | None, typer.Option("--rr/--no-rr", help="Feed RR intervals to the net; default on for ECG.")
    ] = None,
    net: Annotated[
        str | None, typer.Option(help="ECG: default or reference. Images: resnet30 (default), convnet3 or convnet2.")
    ] = None,
    norm: Annotated[str | None, typer.Option(help="group, batch or none; default by net.")] = None,
    width: Annotated[float | None, typer.Option(help="Scales the net's channels; default 1.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything random; default 0.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; repeatable.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the same names, and a table [set]; the command line wins.")
    ] = None,
    leave_out: Annotated[
        str | None, typer.Option(help="nothing or poor-quality: training beats in bad stretches; default nothing.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda; default auto.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="threads (a client a core) or batched (many at once); default by device.")
    ] = None,
    slots: Annotated[int | None, typer.Option(help="Clients in flight of the batched engine; default 64.")] = None,
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
    workers: WorkersOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train one method on a cohort. A killed run goes on with --resume and ends the same.

    Ctrl-C finishes the round and saves it; a second one stops at once.
    """
    given = {
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
        "device": device,
        "engine": engine,
        "slots": slots,
        "eval_every": eval_every,
        "leave_out": leave_out,
    }
    given = {name: value for name, value in given.items() if value is not None}
    settings = _settings(set_ or [])
    if config:
        in_file, settings_in_file = _read_config(config)
        for pair in EITHER_OR:
            if any(name in given for name in pair):
                in_file = {name: value for name, value in in_file.items() if name not in pair}
        given, settings = {**in_file, **given}, {**settings_in_file, **settings}
    for first, second in EITHER_OR:
        if first in given and second in given:
            raise OptionError(f"{_option(first)} and {_option(second)}", "both given", "one of them")
    check_tensorboard(tensorboard)
    started = time.perf_counter()
    with _nothing_half_written(out):
        if resume:
            run, opened = _resume(out, cohort, given, settings)
        else:
            run, opened = _create(out, cohort, {**DEFAULTS, **given}, settings)
        last = run_session(
            run, opened, workers, checkpoint_every, given, tensorboard=tensorboard, quiet=quiet, json_output=json_output
        )
    summary = {
        "run": str(out),
        "method": run.method.name,
        "rounds": run.plan.rounds,
        **last,
        "seconds": round(time.perf_counter() - started, 2),
    }
    if json_output:
        print_json(summary)
        return
    valid = ", ".join(f"{name[6:]} {last[name]:.3f}" for name in ("valid_T_g", "valid_T_p") if name in last)
    note(
        f"{run.method.name}: {run.plan.rounds} rounds, {last['passes']:.1f} passes over the training beats, "
        f"loss mean {last['loss_mean']:.3f} max {last['loss_max']:.3f}{', valid ' + valid if valid else ''}.",
        quiet=quiet,
    )
    note(f"Wrote {out} in {seconds(summary['seconds'])}. Next: ecgfed evaluate {out}", quiet=quiet)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


@contextmanager
def _nothing_half_written(out: Path) -> Iterator[None]:
    """Take a new run's folder away again when the run fails before one round of it was saved."""
    from ecgfed.runs.checkpoint import CheckpointStore

    is_new = not out.exists()
    is_ours = is_new or (out.is_dir() and not any(out.iterdir()))
    try:
        yield
    except EcgfedError:
        if is_ours and out.is_dir() and not CheckpointStore(out).exists():
            with suppress(OSError):
                for part in out.iterdir():
                    shutil.rmtree(part) if part.is_dir() else part.unlink()
                if is_new:
                    out.rmdir()
        raise


def _settings(pairs: list[str]) -> dict[str, Any]:
    settings = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise OptionError("--set", f"{pair!r}", "NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise OptionError("--config", f"{path} cannot be read ({problem})", "a TOML file") from problem
    settings = values.pop("set", {})
    values = {name.replace("-", "_"): value for name, value in values.items()}
    for name, value in values.items():
        if name not in DEFAULTS:
            raise OptionError(f"--config {path}", f"unknown name {name!r}", f"one of {', '.join(DEFAULTS)}, [set]")
        example = KINDS.get(name, int)() if DEFAULTS[name] is None else DEFAULTS[name]
        fits = isinstance(value, type(example)) or (isinstance(example, float) and isinstance(value, int))
        if not fits or (isinstance(value, bool) and not isinstance(example, bool)):
            raise OptionError(f"--config {path}", f"{name} = {value!r}", f"a value of type {type(example).__name__}")
        values[name] = type(example)(value)
    if not isinstance(settings, dict):
        raise OptionError(f"--config {path}", "set is no table", "[set] with the method's settings")
    return values, settings


def _check_passes(passes: float) -> None:
    if not (passes > 0 and math.isfinite(passes)):
        raise OptionError("--passes", f"{passes}", "a finite number above 0")


def _create(out: Path, cohort_path: Path, options: dict[str, Any], settings: dict[str, Any]) -> Any:
    from ecgfed.cohort.cohort import open_cohort
    from ecgfed.federation.data import training_data
    from ecgfed.federation.engine_choice import choose_engine
    from ecgfed.federation.plan import TrainPlan, check_needs, participants
    from ecgfed.methods.registry import method_by_name
    from ecgfed.methods.settings import make_settings
    from ecgfed.nets.build import make_net
    from ecgfed.nets.net import net_spec
    from ecgfed.runs.run import create_run

    device, engine = choose_engine(options["device"], options["engine"], options["slots"])
    kind = method_by_name(options["method"])
    made: Any = make_settings(kind.settings_type, settings)
    opened = open_cohort(cohort_path)
    epochs, steps = options["local_epochs"], options["local_steps"]
    plan_values = {
        "local_epochs": 1 if epochs is None and steps is None else epochs,
        "local_steps": steps,
        "clients_per_round": options["clients_per_round"],
        "batch_size": options["batch_size"],
        "seed": options["seed"],
        "leave_out": options["leave_out"],
    }
    plan = TrainPlan(rounds=DEFAULT_ROUNDS if options["rounds"] is None else options["rounds"], **plan_values)
    spec = net_spec(
        len(opened.classes),
        opened.modality,
        architecture=options["net"],
        norm=options["norm"],
        rr=options["rr"],
        width=options["width"],
    )
    data = training_data(opened, rr=spec.rr, leave_out=plan.leave_out)
    participants(plan, data.clients, 1)  # refuses more clients a round than there are, before anything is written
    if options["passes"] is not None:
        _check_passes(options["passes"])
        plan = TrainPlan(rounds=plan.rounds_for_passes(options["passes"], data.train_examples), **plan_values)
    method = kind(make_net(spec), made)
    check_needs(method.needs, plan, len(data.clients))
    every = max(1, plan.rounds // 20) if options["eval_every"] is None else options["eval_every"]
    compute = {"device": device, "engine": engine, "slots": options["slots"]}
    run = create_run(out, opened, method, plan, {**compute, "eval_every": every})
    return run, opened


def _resume(out: Path, cohort_path: Path, given: dict[str, Any], settings: dict[str, Any]) -> Any:
    from dataclasses import asdict

    from ecgfed.federation.data import training_data
    from ecgfed.federation.engine_choice import choose_engine
    from ecgfed.methods.registry import method_by_name
    from ecgfed.methods.settings import make_settings
    from ecgfed.runs.run import extend_run, open_run

    run = open_run(out)
    compute = compute_of(run.meta, given)
    choose_engine(compute["device"], compute["engine"], compute["slots"])
    stored = {
        **asdict(run.plan),
        "norm": run.net.spec.norm,
        "rr": run.net.spec.rr,
        "width": run.net.spec.width,
        "net": run.net.spec.architecture,
        "eval_every": run.meta.get("eval_every", 0),
    }
    for name, value in given.items():
        if name in stored and name != "rounds" and value != stored[name]:
            found = f"was begun with {name} {stored[name]}, not {value}"
            raise RunError(out, found, action=f"leave {_option(name)} out")
    if "method" in given and method_by_name(given["method"]) is not type(run.method):
        found = f"was begun with method {run.method.name}, not {given['method']}"
        raise RunError(out, found, action="leave --method out")
    begun = asdict(run.method.settings)
    asked = asdict(make_settings(run.method.settings_type, {**begun, **settings}))
    for name, value in asked.items():
        if value != begun[name]:
            raise RunError(out, f"was begun with {name}={begun[name]}, not {value}", action=f"leave --set {name} out")
    cohort = run.unchanged_cohort(cohort_path)
    rounds = given.get("rounds")
    if "passes" in given:
        _check_passes(given["passes"])
        data = training_data(cohort, rr=run.net.spec.rr, leave_out=run.plan.leave_out)
        rounds = run.plan.rounds_for_passes(given["passes"], data.train_examples)
    if rounds is not None and rounds != run.plan.rounds:
        run = extend_run(run, rounds)
    return run, cohort
