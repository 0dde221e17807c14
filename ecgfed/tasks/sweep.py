"""``sweep``: train every combination of some settings, and compare them on validation data."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ecgfed.base.errors import DivergedError, OptionError, RunError, param
from ecgfed.base.executors import in_order
from ecgfed.base.files import read_json, write_json
from ecgfed.base.fsync import make_folder
from ecgfed.base.locks import locked
from ecgfed.base.options import flat_options, merged, options_of, taken
from ecgfed.base.plugins import names_code
from ecgfed.base.text import count_of, did_you_mean
from ecgfed.core.config import TrainConfig
from ecgfed.core.evaluation.result import SCENARIOS
from ecgfed.core.methods.own_losses import with_loss
from ecgfed.core.methods.registry import method_by_name, name_of
from ecgfed.core.methods.settings import make_settings, read_setting, settings_of
from ecgfed.core.nets.net_source import is_own, name_of_net
from ecgfed.core.runs.document import typed
from ecgfed.core.runs.own_functions import DECISIVE, OwnFunction, OwnFunctions
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.tasks.evaluate import evaluate
from ecgfed.tasks.opening import opened_cohort
from ecgfed.tasks.progress import SILENT, Messages, ProgressReporter
from ecgfed.tasks.sweep_result import Sweep, SweepRow, Values
from ecgfed.tasks.train import check_options, train_seeds
from ecgfed.tasks.train_options import SettingValue, resolve_options

FILE_NAME = "sweep.json"
SCHEMA_VERSION = 1
#: Maximum number of combinations, against typing errors.
MOST = 1000
#: A combination's row, None if it was stopped before its end; notes and warnings of a worker.
_Result = tuple[SweepRow | None, Messages]


@flat_options(TrainConfig, OwnFunctions)
def sweep(
    cohort: Cohort | Path | str,
    grid: Mapping[str, Sequence[SettingValue] | Mapping[str, OwnFunction]],
    out: Path | str,
    *,
    score: str = "T_g",
    seeds: Sequence[int] = (0,),
    config: TrainConfig | Path | str | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    resume: bool = False,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
    **options: object,
) -> Sweep:
    """Train every combination of a grid and score it on validation data; the test split is never read.

    The best of many has a validation score that is too good; ``evaluate`` its run on the test split once, at the end.

    Args:
        cohort: an opened cohort, or its folder; its clients need validation beats.
        grid: name -> values; a setting of the method (``lr``), an option of ``train`` (``local_steps``, ``method``), or
            ``sampler``, ``augmentation`` or ``lr_schedule`` as ``{label: function}``, None for none.
        out: the folder of the sweep: ``sweep.json``, and a folder of runs for each combination.
        score: the scenario that decides: ``T_g``, ``T_p``, ``T_r`` or ``T_l``; of several seeds their mean.
        seeds: of each combination.
        config: options of all combinations, as in ``train``.
        settings: settings of all combinations, by name.
        resume: continue the sweep in ``out``; finished combinations are not repeated, and values may be added.
        workers: number of threads; default one per core.
        executor: any ``concurrent.futures.Executor`` trains the combinations, each a task of its own
            (docs/executors.md).
        progress: receives progress, notes and warnings.
        should_stop: as in ``train``; with an executor, called after each combination.
        options: the fields of ``TrainConfig``, and those of ``OwnFunctions``.

    Returns:
        The combinations, best first; unfinished only if ``should_stop`` returned True. One that diverges has no scores
        and says why.

    Raises:
        EcgfedError: an invalid argument or input; every combination is checked before the first is trained.

    Examples:
        >>> import ecgfed
        >>> swept = ecgfed.sweep("cohort", {"lr": [0.01, 0.05]}, "swept", method="fedavg", rounds=2)
        >>> len(swept.rows)
        2
    """
    if score not in SCENARIOS:
        raise OptionError("score", f"{score!r:.50}", f"one of {', '.join(SCENARIOS)}", code="unknown-choice")
    out, seeds = Path(out), tuple(seeds)
    if options.get("seed") is not None:
        raise OptionError("seed", "given", "seeds=[...]", f"pass {param('seeds')}", code="conflict")
    own = merged(OwnFunctions, None, taken(options, OwnFunctions), "sweep")
    net: Any = options.get("net")
    options["net"] = name_of_net(net)
    base, base_settings = resolve_options(config, options, settings)
    trials = list(_trials(grid, base, base_settings, net))
    opened = opened_cohort(cohort, executor)
    if not len(opened.usable(opened.pool(1))):
        raise OptionError("cohort", f"{opened.path} has no validation beats", "some, to compare by", code="no-beats")
    for trial in trials:
        check_options(opened, trial.config, trial.settings, trial.net or trial.config.net)
    fixed = _fixed(opened, base, base_settings, own, seeds)
    make_folder(out)
    with locked(out):
        finished = _begin(out, fixed, resume=resume)
        progress.note(
            f"{count_of(len(trials), 'combination')} of {count_of(len(seeds), 'seed')}, scored on validation."
        )
        missing = [trial for trial in trials if trial.folder not in finished]
        work = ((trial, out.absolute(), seeds, workers, own) for trial in missing)
        if executor is None:
            results: Iterator[_Result] = ((_train(opened, *each, progress, should_stop), Messages()) for each in work)
        else:
            tasks = ((opened.path.absolute(), *each) for each in work)
            sent = {"settings": settings, "net": net, **vars(own), "grid": missing}
            results = in_order(executor, _train_elsewhere, tasks, parameters=sent)
        for trial, (row, messages) in zip(missing, results, strict=False):
            messages.report(progress)
            if row is None:
                break
            finished[trial.folder] = row
            write_json(out / FILE_NAME, {**fixed, "rows": [asdict(one) for one in finished.values()]})
            if executor is not None:
                progress.update("combinations", len(finished), len(trials), trial.text)
                if should_stop():
                    break
    rows = [finished[trial.folder] for trial in trials if trial.folder in finished]
    ordered = sorted(rows, key=lambda row: -row.mean(score))
    return Sweep(out, score, tuple(grid), seeds, tuple(ordered), len(trials))


@dataclass(frozen=True)
class _Trial:
    """A combination: its values, and the options and settings they make."""

    values: Values
    config: TrainConfig
    settings: Values
    net: Any  # as it was passed, a name of code, a class or a function; None for a net of this package
    functions: Mapping[str, OwnFunction] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={_text(value)}" for name, value in self.values.items())

    @property
    def folder(self) -> str:
        return "_".join(f"{name}-{_text(value)}" for name, value in sorted(self.values.items()))


def _plain(value: Any) -> SettingValue:
    """Return a value as JSON has it: of a class its name."""
    return name_of(method_by_name(value)) if isinstance(value, type) else value


def _text(value: object) -> str:
    """Return a value as part of a file's name."""
    return "".join(letter if letter.isalnum() or letter in ".+-" else "-" for letter in f"{value}")


def _trials(
    grid: Mapping[str, Sequence[SettingValue] | Mapping[str, OwnFunction]],
    base: TrainConfig,
    base_settings: Mapping[str, SettingValue],
    net: object,
) -> Iterator[_Trial]:
    """Yield every combination, checked; raises OptionError."""
    if not grid:
        raise OptionError("grid", f"{grid!r:.100}", "name -> values", "such as {'lr': [0.01, 0.1]}")
    for name, values in grid.items():
        if name in DECISIVE and not isinstance(values, Mapping):
            raise OptionError("grid", f"{name}: {values!r:.100}", "{label: function}, and None for no function")
        labelled = isinstance(values, Mapping) and name in DECISIVE and all(isinstance(label, str) for label in values)
        if not (labelled or (isinstance(values, Sequence) and not isinstance(values, str))) or not values:
            raise OptionError("grid", f"{name}: {values!r:.100}", "a list of values")
    combinations = math.prod(len(values) for values in grid.values())
    if combinations > MOST:
        raise OptionError("grid", f"{combinations:,} combinations", f"at most {MOST:,}")
    folders: set[str] = set()
    for values in itertools.product(*grid.values()):
        named = dict(zip(grid, values, strict=True))
        own: dict[str, Any] = {name: grid[name][label] for name, label in named.items() if name in DECISIVE}  # type: ignore[index]
        OwnFunctions(**own)  # checks them
        trial = replace(_trial(named, base, base_settings, net), functions=own)
        if trial.folder in folders:
            raise OptionError("grid", f"{trial.text} twice", "distinct values")
        folders.add(trial.folder)
        yield trial


def _trial(values: Values, base: TrainConfig, base_settings: Mapping[str, SettingValue], net: object) -> _Trial:
    """Return a combination, checked; raises OptionError."""
    trainable = {option.name: option for option in options_of(TrainConfig) if option.name != "seed"}
    of_net: Any = values.get("net")
    named = {"net": name_of_net(of_net)} if "net" in values else {}
    of_train = {
        name: value if isinstance(value, type) else read_setting(trainable[name], value)
        for name, value in {**values, **named}.items()
        if name in trainable
    }
    config, _ = resolve_options(base, of_train, None)
    kind = method_by_name(config.method).settings_type
    known = {setting.name: setting for setting in settings_of(kind)}
    of_method = {name: value for name, value in values.items() if name not in (*trainable, *DECISIVE)}
    for name in of_method:
        if name not in known:
            action = did_you_mean(name, [*known, *trainable])
            raise OptionError(
                f"{param('grid')} {name}", "is no setting or option", action=action, code="unknown-choice"
            )
    of_method = {name: read_setting(known[name], value) for name, value in of_method.items()}
    settings = {**base_settings, **of_method}
    make_settings(kind, with_loss(settings))
    chosen = {name: _plain({**values, **of_train, **of_method}[name]) for name in values}
    if "net" in values and not isinstance(values["net"], str):
        chosen["net"] = str(of_train["net"]).rpartition(":")[2]
    own_net: Any = (of_net if "net" in values else net) or config.net
    return _Trial(chosen, config, settings, own_net if is_own(own_net) else None)


def _fixed(
    cohort: Cohort, config: TrainConfig, settings: Mapping[str, SettingValue], own: OwnFunctions, seeds: Sequence[int]
) -> dict[str, Any]:
    """Return what all combinations have in common, JSON-ready, which a resumed sweep must have too."""
    options = {name: _plain(value) for name, value in config.given_values().items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "split": "valid",
        "cohort": cohort.fingerprint,
        "options": options,
        "settings": with_loss(settings),
        "own_functions": own.names(),
        "seeds": list(seeds),
    }


def _begin(out: Path, fixed: Mapping[str, Any], *, resume: bool) -> dict[str, SweepRow]:
    """Return the finished combinations of a sweep to continue, by folder; raises OptionError, RunError."""
    file = out / FILE_NAME
    if not file.is_file():
        if any(not part.name.startswith(".") for part in out.iterdir()) and not resume:
            raise OptionError(
                "out", f"{out} is not empty", "a new folder", f"choose another {param('out')}", code="exists"
            )
        write_json(file, {**fixed, "rows": []})
        return {}
    if not resume:
        action = f"pass {param('resume=True')}, or choose another {param('out')}"
        raise OptionError("out", f"{out} holds a sweep", "a new folder", action, code="exists")
    again = f"sweep into another {param('out')}"
    stored = read_json(file, RunError)
    for name, value in fixed.items():
        if stored.get(name) != value:
            problem = f"was begun with {name} {stored.get(name)!r:.150}, not {value!r:.150}"
            raise RunError(file, problem, action=again, code="contradiction")
    rows = (_row(row, file) for row in typed(stored, "rows", list, file, again))
    return {row.folder: row for row in rows}


def _row(row: object, file: Path) -> SweepRow:
    """Return a row of ``sweep.json``; raises RunError."""
    if not isinstance(row, dict):
        raise RunError(file, f"has the row {row!r:.100}", "a JSON object")
    scores = typed(row, "scores", dict, file)
    for values in scores.values():
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise RunError(file, f"has the scores {scores!r:.100}", "lists of numbers")
    return SweepRow(
        typed(row, "values", dict, file), typed(row, "folder", str, file), scores, typed(row, "problem", str, file)
    )


def _train(
    cohort: Cohort,
    trial: _Trial,
    out: Path,
    seeds: Sequence[int],
    workers: int | None,
    own: OwnFunctions,
    progress: ProgressReporter,
    should_stop: Callable[[], bool] = lambda: False,
) -> SweepRow | None:
    """Train and score a combination; None if it was stopped before its end."""
    progress.note(f"Combination {trial.text}:")
    folder = out / trial.folder
    try:
        runs = train_seeds(
            cohort,
            seeds,
            folder,
            resume=True,
            settings=trial.settings,
            workers=workers,
            progress=progress,
            should_stop=should_stop,
            **{**trial.config.given_values(), "net": trial.net or trial.config.net},
            **{**own.given_values(), **trial.functions},
        )
        if len(runs) < len(seeds) or any(run.store.rounds() < run.plan.rounds for run in runs):
            return None
        named = trial.config.method
        method = named if isinstance(named, type) or names_code(named) else None
        scores = evaluate(
            folder, cohort=cohort, split="valid", local_models=False, method=method, net=trial.net, workers=workers
        )
    except DivergedError as problem:
        progress.warn(f"{trial.text}: {problem}")
        return SweepRow(trial.values, trial.folder, {}, str(problem))
    return SweepRow(trial.values, trial.folder, {name: scores.each(name) for name in SCENARIOS})


def _train_elsewhere(
    cohort: Path, trial: _Trial, out: Path, seeds: Sequence[int], workers: int | None, own: OwnFunctions
) -> _Result:
    """Run on a worker: train and score a combination; return its row, and the notes and warnings."""
    messages = Messages()
    return _train(open_cohort(cohort), trial, out, seeds, workers, own, messages), messages
