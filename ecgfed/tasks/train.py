"""``train``: train a run on a cohort."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, RunError, param
from ecgfed.base.text import count_of
from ecgfed.core.federation.data import excluded_beats, training_data
from ecgfed.core.federation.engine_choice import choose_engine
from ecgfed.core.federation.plan import TrainPlan, check_passes, check_requirements, participants
from ecgfed.core.federation.updates import check_combining
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import Settings, make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import net_spec
from ecgfed.core.privacy.noise import SITE
from ecgfed.core.runs.run import FILE_NAME, Run, create_run, extend_run, lengths_of, open_run
from ecgfed.core.runs.seeds import seed_folder
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.tasks.opening import warn_if_unpinned
from ecgfed.tasks.progress import SILENT, ProgressReporter
from ecgfed.tasks.run_folder import RunFolder, run_folder
from ecgfed.tasks.session import run_session
from ecgfed.tasks.train_options import DEFAULTS, RECIPES, SettingValue, TrainOptions, default_out, resolve_options


@renamed_parameters("0.3", "0.5", watch="progress")
def train(
    cohort: Cohort | Path | str,
    out: Path | str | None = None,
    *,
    method: str | None = None,
    rounds: int | None = None,
    passes: float | None = None,
    local_epochs: int | None = None,
    local_steps: int | None = None,
    clients_per_round: int | None = None,
    batch_size: int | None = None,
    rr: bool | None = None,
    net: str | None = None,
    norm: str | None = None,
    width: float | None = None,
    window_share: float | None = None,
    seed: int | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    config: Path | str | None = None,
    leave_out: str | None = None,
    aggregation: str | None = None,
    dp_clip: float | None = None,
    dp_noise: float | None = None,
    dp_at: str | None = None,
    device: str | None = None,
    engine: str | None = None,
    slots: int | None = None,
    eval_every: int | None = None,
    checkpoint_every: int | None = None,
    tensorboard: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    workers: int | None = None,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a method on a cohort; by default, GRP-FED with its published recipe.

    None means the value in ``config``, or the default.

    Args:
        cohort: an opened cohort, or its folder.
        out: the run folder to make; default ``runs/COHORT-METHOD-sSEED``.
        method: a name from ``ecgfed methods``, or a custom method as ``FILE.py:CLASS``; default ``grp-fed``.
        rounds: communication rounds, instead of ``passes``.
        passes: passes over all training beats, on average; default 20, over images 60.
        local_epochs: a client's passes over its beats per round, instead of ``local_steps``.
        local_steps: a client's optimizer steps per round; default 4.
        clients_per_round: participants per round; default all.
        batch_size: beats per step; default 16, for images 64.
        rr: feed RR intervals to the net; default on for ECG.
        net: name of the net; default by modality.
        norm: ``group``, ``batch`` or ``none``; default by net.
        width: factor for the net's channels; default 1.
        window_share: weight of the window relative to RR features of version 2; default 1. 0.1 is better for
            patients outside the training data.
        seed: random seed; default 0.
        settings: settings of the method, by name.
        config: TOML file with these names and a table ``[set]``; arguments take precedence.
        leave_out: training beats to exclude: ``nothing`` or ``poor-quality``.
        aggregation: ``mean``, or robust against a few malicious clients: ``median``, ``trimmed-mean[:SHARE]`` or
            ``norm-bound[:NORM]``; default ``mean``.
        dp_clip: differential privacy per patient: maximum L2 norm of an update; default 0, off.
        dp_noise: standard deviation of the noise divided by ``dp_clip``.
        dp_at: where noise is added: ``server`` or ``patient``; default ``server``.
        device: ``auto``, ``cpu`` or ``cuda``.
        engine: ``auto``, ``threads`` or ``batched``.
        slots: clients per stack in the batched engine.
        eval_every: score the validation split every n rounds, 0 for never; default twenty times.
        checkpoint_every: save every n rounds; default as often as takes 2% of the time.
        tensorboard: folder for TensorBoard scalars.
        resume: continue the run in ``out``.
        overwrite: replace the run in ``out``.
        workers: number of threads; default one per core.
        progress: receives progress, notes and warnings.
        should_stop: called after every round; if it returns True, the session is saved and ends.

    Returns:
        The run; unfinished only if ``should_stop`` returned True.

    Raises:
        EcgfedError: an invalid argument or input, as a single line; no new files remain, existing ones are unchanged.

    Examples:
        >>> import ecgfed
        >>> ecgfed.train("cohort", "a-run", method="fedavg", rounds=2, local_steps=1)
        Run('a-run': fedavg, 2 of 2 rounds)
    """
    arguments: TrainOptions = {
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
        "device": device,
        "engine": engine,
        "slots": slots,
        "eval_every": eval_every,
        "leave_out": leave_out,
        "aggregation": aggregation,
        "dp_clip": dp_clip,
        "dp_noise": dp_noise,
        "dp_at": dp_at,
    }
    options, method_settings = resolve_options(arguments, settings or {}, None if config is None else Path(config))
    if resume and overwrite:
        raise OptionError(f"{param('resume')} and {param('overwrite')}", "both given", "one of them", code="conflict")
    if tensorboard is not None:
        from ecgfed.core.runs.tensorboard import require_tensorboard

        require_tensorboard()
    opened = cohort if isinstance(cohort, Cohort) else open_cohort(Path(cohort))
    folder = Path(out) if out is not None else default_out(opened, {**DEFAULTS, **options})
    with run_folder(folder, resume=resume, overwrite=overwrite) as target:
        if resume:
            run, opened = _resume(folder, opened, options, method_settings, progress)
        else:
            run = _create(target, opened, {**DEFAULTS, **options}, method_settings)
        run_session(
            run,
            opened,
            options,
            workers=workers,
            checkpoint_every=checkpoint_every,
            tensorboard=None if tensorboard is None else Path(tensorboard),
            progress=progress,
            should_stop=should_stop,
        )
    return run


@renamed_parameters("0.3", "0.5", watch="progress")
def train_seeds(
    cohort: Cohort | Path | str,
    seeds: Sequence[int],
    out: Path | str,
    *,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
    **options: object,
) -> list[Run]:
    """Train once per seed into ``OUT/seed-N``; ``evaluate`` then returns mean and standard deviation.

    Args:
        cohort: an opened cohort, or its folder.
        seeds: distinct seeds.
        out: the folder of the runs. With ``resume``, finished seeds are skipped and missing ones are started.
        progress: as in ``train``.
        should_stop: as in ``train``.
        options: as in ``train``.

    Raises:
        EcgfedError: as ``train``.

    Examples:
        >>> import ecgfed
        >>> runs = ecgfed.train_seeds("cohort", [0, 1], "seeds", method="fedavg", rounds=1, local_steps=1)
        >>> ecgfed.evaluate("seeds", split="valid").std("T_g") >= 0
        True
    """
    out = Path(out)
    _check_seeds(seeds, out, options)
    opened = cohort if isinstance(cohort, Cohort) else open_cohort(Path(cohort))
    runs: list[Run] = []
    for seed in seeds:
        folder = seed_folder(out, seed)
        progress.note(f"Seed {seed}, {len(runs) + 1} of {len(seeds)}:")
        resume = bool(options.get("resume")) and (folder / FILE_NAME).is_file()
        arguments = {**options, "resume": resume, "seed": seed, "progress": progress, "should_stop": should_stop}
        runs.append(train(opened, folder, **arguments))  # type: ignore[arg-type]  # train's own options, checked there
        if should_stop():
            break
    return runs


def _check_seeds(seeds: Sequence[int], out: Path, options: Mapping[str, object]) -> None:
    """Check the seeds and the folder for their runs before training; raises OptionError."""
    valid = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds)
    if not valid or not seeds or len(set(seeds)) < len(seeds):
        raise OptionError("seeds", f"{seeds!r}", "distinct whole numbers, 0 or more")
    for first, second in (("seed", "seeds"), ("resume", "overwrite")):
        if options.get(first) not in (None, False) and (second == "seeds" or options.get(second)):
            raise OptionError(f"{param(first)} and {param(second)}", "both given", "one of them", code="conflict")
    if (out / FILE_NAME).is_file():
        raise OptionError("out", f"{out} is a run itself", "a folder for runs", "choose another")
    if not options.get("resume") and not options.get("overwrite"):
        taken = [folder.name for seed in seeds if (folder := seed_folder(out, seed)).exists()]
        if taken:
            raise OptionError(
                "out",
                f"{out} holds {', '.join(taken)}",
                "none of these",
                f"pass {param('resume=True')} or {param('overwrite=True')}",
                code="exists",
            )


def _create(target: RunFolder, cohort: Cohort, options: TrainOptions, settings: Mapping[str, SettingValue]) -> Run:
    """Check the options, then create the run's folder."""
    kind = method_by_name(options["method"] or "")
    method_settings: object = make_settings(kind.settings_type, dict(settings))
    spec = net_spec(
        len(cohort.classes),
        cohort.modality,
        architecture=options["net"],
        norm=options["norm"],
        rr=options["rr"],
        width=1.0 if options["width"] is None else options["width"],
        rr_version=cohort.rr_version if cohort.modality == "ecg" else 1,
        window_share=1.0 if options["window_share"] is None else options["window_share"],
    )
    method = kind(make_net(spec), method_settings)
    plan = _plan(options, cohort, method)
    requested = options["device"] or "auto", options["engine"] or "auto", options["slots"]
    device, engine = choose_engine(*requested, plan.batch_size, plan.clients_per_round or len(cohort.federation))
    every = options["eval_every"]
    metadata = {
        "device": device,
        "engine": engine,
        "slots": options["slots"],
        "eval_every": max(1, plan.rounds // 20) if every is None else every,
        "excluded": excluded_beats(cohort, plan.leave_out).as_json(),
    }
    return target.create(lambda path: create_run(path, cohort, method, plan, metadata))


def _plan(options: TrainOptions, cohort: Cohort, method: Method) -> TrainPlan:
    """Return the plan for options on a cohort, checked before anything is written."""
    epochs, steps, recipe = options["local_epochs"], options["local_steps"], RECIPES[cohort.modality]
    if epochs is None and steps is None:
        steps = 1 if method.requirements.single_step else recipe["local_steps"]
    plan = TrainPlan(
        rounds=1 if options["rounds"] is None else options["rounds"],
        local_epochs=epochs,
        local_steps=steps,
        clients_per_round=options["clients_per_round"],
        batch_size=recipe["batch_size"] if options["batch_size"] is None else options["batch_size"],
        seed=options["seed"] or 0,
        leave_out=options["leave_out"] or "nothing",
        aggregation=options["aggregation"] or "mean",
        dp_clip=options["dp_clip"] or 0.0,
        dp_noise=options["dp_noise"] or 0.0,
        dp_at=options["dp_at"] or "server",
    )
    data = training_data(cohort, rr=method.net.spec.rr, leave_out=plan.leave_out)
    participants(plan, data.clients, 1)  # refuses more clients a round than there are
    if options["rounds"] is None:
        passes = recipe["passes"] if options["passes"] is None else options["passes"]
        plan = plan.with_passes(check_passes(passes), data.train_examples, method.requirements.batches_per_step)
    check_requirements(method.requirements, plan, len(data.clients))
    check_combining(method, plan)
    if plan.dp_at == SITE:
        raise OptionError(
            "dp_at", "site, of which a simulation has none", "server or patient", "ecgfed federate", code="conflict"
        )
    return plan


def _resume(
    out: Path, cohort: Cohort, options: TrainOptions, settings: Mapping[str, SettingValue], progress: ProgressReporter
) -> tuple[Run, Cohort]:
    """Open a run to continue; refuse options that differ from those it was started with."""
    run = warn_if_unpinned(open_run(out, options.get("method")), progress)
    compute = {name: options.get(name, run.meta.get(name)) for name in ("device", "engine", "slots")}
    choose_engine(str(compute["device"] or "cpu"), str(compute["engine"] or "auto"), compute["slots"])  # type: ignore[arg-type]
    stored: dict[str, object] = {
        **asdict(run.plan),
        "norm": run.net.spec.norm,
        "rr": run.net.spec.rr,
        "width": run.net.spec.width,
        "window_share": run.net.spec.window_share,
        "net": run.net.spec.architecture,
        "eval_every": run.meta.get("eval_every", 0),
    }
    for name, value in options.items():
        if name in stored and name != "rounds" and value != stored[name]:
            action = f"leave {param(name)} out"
            raise RunError(
                out,
                f"was begun with {name} {stored[name]}, not {value}",
                action=action,
                parameter=name,
                code="contradiction",
            )
    stored_settings = asdict(run.method.settings)
    requested_settings = asdict(make_settings(run.method.settings_type, {**stored_settings, **settings}))
    for name, value in requested_settings.items():
        if value != stored_settings[name]:
            raise RunError(
                out,
                f"was begun with {name}={stored_settings[name]}, not {value}",
                action=f"leave {param('settings')} {name} out",
                code="contradiction",
            )
    cohort = run.cohort(cohort.path)
    plan = run.plan
    passes, rounds = options.get("passes"), options.get("rounds")
    if passes is not None:
        data = training_data(cohort, rr=run.net.spec.rr, leave_out=plan.leave_out)
        plan = plan.with_passes(check_passes(passes), data.train_examples, run.method.requirements.batches_per_step)
    rounds = plan.rounds if rounds is None else rounds
    if rounds == run.plan.rounds:
        return run, cohort
    method_settings, completed = run.method.settings, run.store.rounds()
    extended = extend_run(run, rounds)
    # a shortened run is further along than its rounds alone suggest
    first_length, *_ = lengths = lengths_of(run)
    over = min(1.0, completed / min(*lengths, rounds))
    planned = method_settings.planned_by_length(over) if isinstance(method_settings, Settings) else ()
    if planned:
        progress.warn(
            f"{out} was begun for {count_of(first_length, 'round')} and goes on to {rounds}; {', '.join(planned)}"
            f" went by {first_length} until now, so it ends elsewhere than a run begun for {rounds}"
        )
    return extended, cohort
