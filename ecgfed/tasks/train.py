"""``train``: train a run on a cohort."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, RunError, param
from ecgfed.base.executors import in_order
from ecgfed.base.options import flat_options, merged, taken
from ecgfed.base.text import count_of
from ecgfed.core.config import SITE, TrainConfig
from ecgfed.core.federation.data import excluded_beats, training_data, uses_weak_labels
from ecgfed.core.federation.engine_choice import choose_engine
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.own_losses import LOSS_PIN, is_loaded, loss_sha256, with_loss
from ecgfed.core.methods.settings import Settings, make_settings
from ecgfed.core.nets.net_source import name_of_net
from ecgfed.core.runs.own_functions import OWN_FUNCTIONS, OwnFunctions
from ecgfed.core.runs.run import FILE_NAME, Run, create_run, extend_run, lengths_of, open_run
from ecgfed.core.runs.seeds import seed_folder, split_folder
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.tasks.opening import PassedNet, opened_cohort, warn_if_unpinned
from ecgfed.tasks.progress import SILENT, Messages, ProgressReporter
from ecgfed.tasks.resplit import resplit_cohort
from ecgfed.tasks.run_folder import RunFolder, run_folder
from ecgfed.tasks.session import run_session
from ecgfed.tasks.train_options import SettingValue, build_method_and_plan, default_out, own_net, resolve_options


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(TrainConfig, OwnFunctions)
def train(
    cohort: Cohort | Path | str,
    out: Path | str | None = None,
    *,
    config: TrainConfig | Path | str | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    checkpoint_every: int | None = None,
    tensorboard: Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    workers: int | None = None,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
    **options: object,
) -> Run:
    """Train a method on a cohort; by default FedGate, for 20 passes.

    Options are passed as a ``TrainConfig``, by name, or both; None means the value in ``config``, or the default.

    Args:
        cohort: an opened cohort, or its folder.
        out: the run folder to make; default ``runs/COHORT-METHOD-sSEED``.
        config: a ``TrainConfig``, or a TOML file with its fields and a table ``[set]``; arguments take precedence.
        settings: settings of the method, by name.
        checkpoint_every: save every n rounds; default as often as takes 2% of the time.
        tensorboard: folder for TensorBoard scalars.
        resume: continue the run in ``out``.
        overwrite: replace the run in ``out``.
        workers: number of threads; default one per core.
        progress: receives progress, notes and warnings.
        should_stop: called after every round; if it returns True, the session is saved and ends.
        options: the fields of ``TrainConfig``, and those of ``OwnFunctions``.

    Returns:
        The run; unfinished only if ``should_stop`` returned True.

    Raises:
        EcgfedError: an invalid argument or input, as a single line; no new files remain, existing ones are unchanged.

    Examples:
        >>> import ecgfed
        >>> ecgfed.train("cohort", "a-run", method="fedavg", rounds=2, local_steps=1)
        Run('a-run': fedavg, 2 of 2 rounds)
    """
    passed_net = options.get("net")
    options["net"] = name_of_net(passed_net)  # type: ignore[arg-type]
    own = merged(OwnFunctions, None, taken(options, OwnFunctions), "train")
    resolved, method_settings = resolve_options(config, options, settings)
    net: PassedNet = passed_net or resolved.net  # type: ignore[assignment]
    if resume and overwrite:
        raise OptionError(f"{param('resume')} and {param('overwrite')}", "both given", "one of them", code="conflict")
    if tensorboard is not None:
        from ecgfed.core.runs.tensorboard import require_tensorboard

        require_tensorboard()
    opened = opened_cohort(cohort)
    folder = Path(out) if out is not None else default_out(opened, resolved)
    with run_folder(folder, resume=resume, overwrite=overwrite) as target:
        if resume:
            run, opened = _resume(folder, opened, resolved, method_settings, own, net, progress)
        else:
            run = _create(target, opened, resolved, method_settings, own, net)
        run_session(
            run,
            opened,
            resolved.given_values(),
            workers=workers,
            checkpoint_every=checkpoint_every,
            tensorboard=None if tensorboard is None else Path(tensorboard),
            progress=progress,
            should_stop=should_stop,
            own=own,
        )
    return run


@renamed_parameters("0.3", "0.5", watch="progress")
def train_seeds(
    cohort: Cohort | Path | str,
    seeds: Sequence[int],
    out: Path | str,
    *,
    split_seeds: Sequence[int] = (),
    executor: Executor | None = None,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
    **options: object,
) -> list[Run]:
    """Train once per seed into ``OUT/seed-N``; ``evaluate`` then returns mean and standard deviation.

    With ``split_seeds`` all of that for each split of the same beats, into ``OUT/split-K/seed-N``.

    Args:
        cohort: an opened cohort, or its folder.
        seeds: distinct seeds.
        out: the folder of the runs. With ``resume``, finished seeds are skipped and missing ones are started.
        split_seeds: seeds of random splits (``resplit_cohort``), each written to ``OUT/split-K/cohort``; default the
            cohort's own split alone.
        executor: any ``concurrent.futures.Executor`` trains the seeds, each a task of its own (docs/executors.md).
        progress: as in ``train``.
        should_stop: as in ``train``; with an executor, called after each seed.
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
    for name, numbers in (("seeds", seeds), ("split_seeds", split_seeds)):
        valid = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in numbers)
        if not valid or len(set(numbers)) < len(numbers) or not (numbers or name == "split_seeds"):
            raise OptionError(name, f"{numbers!r}", "distinct whole numbers, 0 or more")
    runs: list[Run] = []
    for number in split_seeds:
        folder = split_folder(out, number)
        split = _of_split(cohort, folder / "cohort", number, options)
        progress.note(f"Split {number}, {split_seeds.index(number) + 1} of {len(split_seeds)}:")
        each = {**options, "executor": executor, "progress": progress, "should_stop": should_stop}
        runs += train_seeds(split, seeds, folder, **each)  # type: ignore[arg-type]  # as they came
        if should_stop():
            break
    if split_seeds:
        return runs
    for first, second in (("seed", "seeds"), ("resume", "overwrite")):
        if options.get(first) not in (None, False) and (second == "seeds" or options.get(second)):
            raise OptionError(f"{param(first)} and {param(second)}", "both given", "one of them", code="conflict")
    if (out / FILE_NAME).is_file():
        raise OptionError("out", f"{out} is a run itself", "a folder for runs", "choose another")
    if not options.get("resume") and not options.get("overwrite"):
        taken = [seed_out.name for seed in seeds if (seed_out := seed_folder(out, seed)).exists()]
        if taken:
            action = f"pass {param('resume=True')} or {param('overwrite=True')}"
            raise OptionError("out", f"{out} holds {', '.join(taken)}", "none of these", action, code="exists")
    opened = opened_cohort(cohort, executor)
    folders = [seed_folder(out, seed) for seed in seeds]
    resumed = [bool(options.get("resume")) and (folder / FILE_NAME).is_file() for folder in folders]
    arguments = [{**options, "resume": on, "seed": seed} for seed, on in zip(seeds, resumed, strict=True)]
    if executor is not None:
        tasks = (
            (opened.path.absolute(), folder.absolute(), each) for folder, each in zip(folders, arguments, strict=True)
        )
        results = in_order(executor, _train_elsewhere, tasks, parameters=options)
        for folder, messages in zip(folders, results, strict=True):
            runs.append(open_run(folder, options.get("method"), options.get("net")))  # type: ignore[arg-type]
            messages.report(progress, f"{folder.name}: ")
            progress.update("seeds", len(runs), len(seeds), folder.name)
            if should_stop():
                break
        return runs
    for folder, each in zip(folders, arguments, strict=True):
        progress.note(f"Seed {each['seed']}, {len(runs) + 1} of {len(seeds)}:")
        runs.append(train(opened, folder, progress=progress, should_stop=should_stop, **each))  # type: ignore[arg-type]
        if should_stop():
            break
    return runs


def _of_split(cohort: Cohort | Path | str, folder: Path, seed: int, options: Mapping[str, object]) -> Cohort:
    """Return a cohort with the split of a seed, from ``folder`` where a resumed training finds it."""
    if options.get("resume") and folder.is_dir():
        return open_cohort(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return resplit_cohort(cohort, folder, seed=seed, overwrite=bool(options.get("overwrite")))


def _train_elsewhere(cohort: Path, folder: Path, options: dict[str, object]) -> Messages:
    """Run on a worker: train a run; return the notes and warnings."""
    messages = Messages()
    train(cohort, folder, progress=messages, **options)  # type: ignore[arg-type]
    return messages


def _create(
    target: RunFolder,
    cohort: Cohort,
    config: TrainConfig,
    settings: Mapping[str, SettingValue],
    own: OwnFunctions,
    net: PassedNet,
) -> Run:
    """Check the options, then create the run's folder."""
    method, plan, device, engine = check_options(cohort, config, settings, net)
    metadata = {
        "device": device,
        "engine": engine,
        "slots": config.slots,
        "eval_every": max(1, plan.rounds // 20) if config.eval_every is None else config.eval_every,
        "excluded": excluded_beats(cohort, plan.leave_out).as_json(),
        **({OWN_FUNCTIONS: own.names()} if own.names() else {}),
        **({LOSS_PIN: digest} if (digest := loss_sha256(str(getattr(method.settings, "risk", "")))) else {}),
    }
    return target.create(lambda path: create_run(path, cohort, method, plan, metadata))


def check_options(
    cohort: Cohort, config: TrainConfig, settings: Mapping[str, SettingValue], net: PassedNet
) -> tuple[Method, TrainPlan, str, str]:
    """Return what options amount to: method, plan, device and engine; nothing is written.

    Args:
        cohort: the cohort.
        config: the options.
        settings: of the method, by name.
        net: a net of one's own as it was passed, or None.

    Raises:
        OptionError: a combination of options that cannot be trained on this cohort.
    """
    if config.dp_at == SITE:
        problem = "site, of which a simulation has none"
        raise OptionError("dp_at", problem, "server or patient", "ecgfed federate", code="conflict")
    settings = with_loss(settings)
    shape = len(cohort.classes), cohort.modality, cohort.rr_version if cohort.modality == "ecg" else 1
    leave_out, most = config.leave_out, config.most_per_class
    method, plan = build_method_and_plan(
        config,
        settings,
        shape,
        lambda rr, weak: training_data(cohort, rr=rr, leave_out=leave_out, weak=weak, most_per_class=most),
        own_net(net, cohort),
    )
    clients = 1 if method.requirements.pooled else plan.clients_per_round or len(cohort.federation)
    compute = config.device, config.engine, config.slots
    return method, plan, *choose_engine(*compute, plan.batch_size, clients, method.net.stacking_problem)


def _resume(
    out: Path,
    cohort: Cohort,
    config: TrainConfig,
    settings: Mapping[str, SettingValue],
    own: OwnFunctions,
    net: PassedNet,
    progress: ProgressReporter,
) -> tuple[Run, Cohort]:
    """Open a run to continue; refuse options that differ from those it was started with."""
    options = config.given_values()
    run = warn_if_unpinned(open_run(out, options.get("method"), net), progress)
    if run.custom_net:
        del options["net"]  # its file may have moved
    own.check_resumed(out, run.meta)
    compute = {name: options.get(name, run.meta.get(name)) for name in ("device", "engine", "slots")}
    device, engine = str(compute["device"] or "cpu"), str(compute["engine"] or "auto")
    choose_engine(device, engine, compute["slots"], stacking_problem=run.net.stacking_problem)
    stored: dict[str, object] = {
        **asdict(run.plan),
        **{"net" if name == "architecture" else name: value for name, value in asdict(run.net.spec).items()},
        "eval_every": run.meta.get("eval_every", 0),
    }
    for name, value in options.items():
        if name in stored and name != "rounds" and value != stored[name]:
            action = f"leave {param(name)} out"
            problem = f"was begun with {name} {stored[name]}, not {value}"
            raise RunError(out, problem, action=action, parameter=name, code="contradiction")
    stored_settings = asdict(run.method.settings)
    pinned = run.meta.get(LOSS_PIN)
    settings = with_loss(settings, None if pinned is None else str(pinned))
    if not is_loaded(str(stored_settings.get("risk", "")), pinned) and "risk" not in settings:
        problem = f"was begun with the loss {stored_settings['risk']!s:.200}, somebody's own code"
        action = f"pass {param('settings')} risk=FILE.py:NAME again"
        raise RunError(out, problem, action=action, parameter="settings", code="code-not-loaded")
    requested_settings = asdict(make_settings(run.method.settings_type, {**stored_settings, **settings}))
    for name, value in requested_settings.items():
        if value != stored_settings[name]:
            problem = f"was begun with {name}={stored_settings[name]}, not {value}"
            raise RunError(out, problem, action=f"leave {param('settings')} {name} out", code="contradiction")
    cohort = run.cohort(cohort)
    plan = run.plan
    passes, rounds = options.get("passes"), options.get("rounds")
    if passes is not None:
        weak = uses_weak_labels(run.method, run.method.settings, plan)
        rr, most = run.net.spec.rr, plan.most_per_class
        data = training_data(cohort, rr=rr, leave_out=plan.leave_out, weak=weak, most_per_class=most)
        data = data.for_method(run.method)
        plan = plan.with_passes(passes, data.train_examples, run.method.requirements.batches_per_step)
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
        extended_to = f"{out} was begun for {count_of(first_length, 'round')} and goes on to {rounds}"
        schedule = f"{', '.join(planned)} went by {first_length} until now"
        progress.warn(f"{extended_to}; {schedule}, so it ends elsewhere than a run begun for {rounds}")
    return extended, cohort
