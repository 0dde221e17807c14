"""Options of ``train``: defaults, overridden by a TOML file, overridden by arguments."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, cast

from ecgfed.base.errors import OptionError, param
from ecgfed.base.plugins import names_code
from ecgfed.base.safe_io import MAX_TOML_BYTES, parse_toml, read_bounded
from ecgfed.core.methods.registry import method_by_name
from ecgfed.domain.cohort.cohort import Cohort

SettingValue = str | int | float | bool | None


class TrainOptions(TypedDict, total=False):
    """Options of ``ecgfed.tasks.train.train``; options that are not set are absent or None."""

    method: str | None
    rounds: int | None
    passes: float | None
    local_epochs: int | None
    local_steps: int | None
    clients_per_round: int | None
    batch_size: int | None
    seed: int | None
    rr: bool | None
    net: str | None
    norm: str | None
    width: float | None
    window_share: float | None
    device: str | None
    engine: str | None
    slots: int | None
    eval_every: int | None
    leave_out: str | None
    aggregation: str | None
    dp_clip: float | None
    dp_noise: float | None
    dp_at: str | None


class Recipe(TypedDict):
    """Default amount of training."""

    local_steps: int
    passes: float
    batch_size: int


#: By modality: the fastest settings (docs/decisions/0037), with the same amount of work for every method.
RECIPES: dict[str, Recipe] = {
    "ecg": {"local_steps": 4, "passes": 20.0, "batch_size": 16},
    "image": {"local_steps": 4, "passes": 60.0, "batch_size": 64},
}
DEFAULTS: TrainOptions = {
    "method": "grp-fed",
    "rounds": None,
    "passes": None,
    "local_epochs": None,
    "local_steps": None,
    "clients_per_round": None,
    "batch_size": None,
    "seed": 0,
    "rr": None,
    "net": None,
    "norm": None,
    "width": 1.0,
    "window_share": 1.0,
    "device": "auto",
    "engine": "auto",
    "slots": None,
    "eval_every": None,
    "leave_out": "nothing",
    "aggregation": None,
    "dp_clip": None,
    "dp_noise": None,
    "dp_at": None,
}
#: name -> the type of its value in a file
_TYPES: dict[str, type] = {
    "method": str,
    "rounds": int,
    "passes": float,
    "local_epochs": int,
    "local_steps": int,
    "clients_per_round": int,
    "batch_size": int,
    "seed": int,
    "rr": bool,
    "net": str,
    "norm": str,
    "width": float,
    "window_share": float,
    "device": str,
    "engine": str,
    "slots": int,
    "eval_every": int,
    "leave_out": str,
    "aggregation": str,
    "dp_clip": float,
    "dp_noise": float,
    "dp_at": str,
}
#: Pairs of alternatives: an argument for one overrides the other in the file.
EITHER_OR = (("rounds", "passes"), ("local_epochs", "local_steps"))


def resolve_options(
    arguments: TrainOptions, settings: Mapping[str, SettingValue], config: Path | None
) -> tuple[TrainOptions, dict[str, SettingValue]]:
    """Combine arguments and a file; return the options that are set and the method's settings.

    Raises:
        OptionError: the file cannot be read, has an invalid name or value, or both of two alternatives are set.
    """
    if not isinstance(settings, Mapping):
        raise OptionError("settings", f"{settings!r}", "settings by name", "such as {'lr': 0.01}")
    options = {name: value for name, value in arguments.items() if value is not None}
    method_settings = dict(settings)
    if config is not None:
        in_file, settings_in_file = _read_config(config)
        named = in_file.get("method")
        if isinstance(named, str) and names_code(named) and "method" not in options:
            raise OptionError(
                f"{param('config')} {config}",
                f"its method {named!r:.200} is somebody's own code, which is not run from a file",
                "a registered name",
                f"read it, then pass it with {param('method=FILE.py:CLASS')}",
                code="code-not-loaded",
            )
        for pair in EITHER_OR:
            if any(name in options for name in pair):
                in_file = {name: value for name, value in in_file.items() if name not in pair}
        options, method_settings = {**in_file, **options}, {**settings_in_file, **method_settings}
    for first, second in EITHER_OR:
        if first in options and second in options:
            raise OptionError(f"{param(first)} and {param(second)}", "both given", "one of them", code="conflict")
    return cast(TrainOptions, options), method_settings


def _read_config(path: Path) -> tuple[dict[str, object], dict[str, SettingValue]]:
    try:
        values = parse_toml(read_bounded(path, MAX_TOML_BYTES, OptionError, f"{param('config')} {path}"))
    except ValueError as problem:
        raise OptionError("config", f"{path} cannot be read ({problem})", "a TOML file") from problem
    settings = values.pop("set", {})
    if not isinstance(settings, dict):
        raise OptionError(f"{param('config')} {path}", "set is no table", "[set] with the method's settings")
    checked = {}
    for written, value in values.items():
        name = written.replace("-", "_")
        if name not in _TYPES:
            raise OptionError(
                f"{param('config')} {path}",
                f"unknown name {name!r:.100}",
                f"one of {', '.join(_TYPES)}, [set]",
                code="unknown-choice",
            )
        kind = _TYPES[name]
        fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise OptionError(
                f"{param('config')} {path}", f"{name} = {value!r:.100}", f"a value of type {kind.__name__}"
            )
        try:
            checked[name] = kind(value)
        except OverflowError as problem:  # an int that is too large for a float
            raise OptionError(f"{param('config')} {path}", f"{name} = {value!r:.100}", "a smaller number") from problem
    return checked, settings


def default_out(cohort: Cohort, options: TrainOptions) -> Path:
    """Return the default run folder, ``runs/COHORT-METHOD-sSEED``."""
    method = method_by_name(options["method"] or "").name
    return Path("runs") / f"{cohort.path.resolve().name}-{method}-s{options['seed']}"
