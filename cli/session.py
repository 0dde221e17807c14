"""One session of training: from the last checkpoint on, to the end or until somebody asks it to stop."""

import shlex
from pathlib import Path
from typing import Any

from ecgfed.errors import RunError

from .output import note, progress_bar, stderr, warn
from .stop import graceful_stop


def check_tensorboard(folder: Path | None) -> None:
    """Refuse a folder for TensorBoard, before anything is written, where it is not installed; raises OptionError."""
    if folder is not None:
        from ecgfed.runs.tensorboard import require_tensorboard

        require_tensorboard()


def compute_of(meta: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return ``device``, ``engine`` and ``slots``: what this session was given, else what the run began with."""
    defaults = (("device", "cpu"), ("engine", "auto"), ("slots", None))
    return {name: given.get(name, meta.get(name, default)) for name, default in defaults}


def run_session(
    run: Any,
    cohort: Any,
    workers: int | None,
    checkpoint_every: int | None,
    given: dict[str, Any],
    *,
    tensorboard: Path | None,
    quiet: bool,
    json_output: bool,
) -> dict[str, Any]:
    """Train the rounds that are left and return the numbers of the last one.

    ``given`` may name another ``device``, ``engine`` or ``slots`` than the run began with.

    Raises:
        EcgfedError: training cannot go on; the last checkpoint is there.
        SystemExit: Ctrl-C or SIGTERM: 130 or 143, after the round was finished and saved.
    """
    from ecgfed.federation.data import training_data
    from ecgfed.federation.engine_choice import open_engine
    from ecgfed.federation.plan import available_cores
    from ecgfed.federation.train import initial_state, train
    from ecgfed.runs.callbacks import HISTORY, read_lines

    data = training_data(cohort, rr=run.net.spec.rr, leave_out=run.plan.leave_out)
    store = run.store
    state = store.load() if store.exists() else initial_state(run.method, run.plan)
    threads = workers or available_cores()
    rounds = run.plan.rounds
    if len(read_lines(run.path / HISTORY, state.round)) < state.round:
        raise RunError(run.path / HISTORY, "lacks rounds that the checkpoint has", f"{state.round} lines", "restore it")
    if state.round >= rounds:
        note(f"{run.path} has all its {rounds} rounds.", quiet=quiet, json_output=json_output)
    elif state.round:
        note(f"Going on after round {state.round}.", quiet=quiet, json_output=json_output)
    if getattr(run.method.settings, "risk", "") == "meta-bsm":
        line = "risk=meta-bsm pools validation beats of the patients at the server and sends them to every client"
        warn(line, quiet=quiet)
    compute = compute_of(run.meta, given)
    with (
        graceful_stop(quiet=quiet) as stop,
        progress_bar(quiet) as bar,
        open_engine(data, run.plan, **compute, workers=threads) as engine,
    ):
        watching = _callbacks(run, cohort, data, threads, store, checkpoint_every, bar, state.round, tensorboard)
        train(run.method, data, run.plan, engine, state, watching, stop.asked)
    if stop.code is not None and state.round < rounds:
        again = f"ecgfed train {shlex.quote(str(cohort.path))} --out {shlex.quote(str(run.path))} --resume"
        line = f"ecgfed: stopped after round {state.round} of {rounds}, saved; go on with: {again}"
        stderr.print(line, highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(stop.code)
    last = read_lines(run.path / HISTORY, rounds)[-1]
    return {name: value for name, value in last.items() if name not in ("round", "clients", "losses")}


def _callbacks(
    run: Any,
    cohort: Any,
    data: Any,
    threads: int,
    store: Any,
    checkpoint_every: int | None,
    bar: Any,
    done: int,
    tensorboard: Path | None,
) -> list[Any]:
    """Return what watches a session; the history comes before the checkpoint, so that it is never behind it."""
    from ecgfed.evaluation.monitor import ValidationScores
    from ecgfed.federation.progress import Progress, ReportProgress
    from ecgfed.runs.callbacks import SaveCheckpoint, WriteHistory
    from ecgfed.runs.tensorboard import WriteTensorBoard

    task = bar.add_task(run.method.name, total=run.plan.rounds, completed=done, about="", rate="")

    def tell(progress: Progress) -> None:
        speed, record = progress.rounds_per_s, progress.record
        bar.update(
            task,
            completed=progress.round,
            left_s=progress.left_s,
            rate=f"{speed:.1f} rounds/s" if speed >= 1 else f"{1 / speed:.1f} s a round",
            about=f"{progress.samples_per_s:,.0f} samples/s, "
            f"loss mean {record['loss_mean']:.3f} max {record['loss_max']:.3f}",
        )

    every = int(run.meta.get("eval_every", 0))
    return [
        ValidationScores(run.method, cohort, data, every, threads),
        WriteHistory(run.path),
        SaveCheckpoint(store, checkpoint_every),
        ReportProgress(run.plan.rounds, tell),
        *([WriteTensorBoard(tensorboard)] if tensorboard else []),
    ]
