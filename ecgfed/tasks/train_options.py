"""Options of ``train``: defaults, overridden by a TOML file or a ``TrainConfig``, overridden by arguments."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import torch

from ecgfed.base.errors import OptionError, param
from ecgfed.base.options import merged, names_of, options_of, unexpected
from ecgfed.base.plugins import names_code
from ecgfed.base.safe_io import MAX_TOML_BYTES, parse_toml, read_bounded
from ecgfed.core.config import EITHER_OR, ModelConfig, TrainConfig
from ecgfed.core.federation.data import TrainingData, uses_weak_labels
from ecgfed.core.federation.plan import TrainPlan, check_requirements, participants
from ecgfed.core.federation.updates import check_combining
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings, settings_of
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import Inputs, ModuleForm, Net, net_spec
from ecgfed.core.nets.net_source import NetFactory, NetSource, is_own, net_source
from ecgfed.core.nets.parts import extractor_of
from ecgfed.domain.cohort.cohort import Cohort

#: A function is a loss of one's own (``risk``).
SettingValue = str | int | float | bool | Callable[..., object] | None


class OwnNet(NamedTuple):
    """A net of one's own for a cohort."""

    source: NetSource
    shape: tuple[int, ...]
    dtype: str

    def form(self, modality: str) -> ModuleForm:
        """Return what it takes."""
        return ModuleForm(modality, self.shape, self.dtype, self.source.sha256)


def own_net(net: str | NetFactory | None, cohort: Cohort) -> OwnNet | None:
    """Return a net of one's own for a cohort, None for a name of this package or the default; raises OptionError."""
    if net is None or not is_own(net):
        return None
    return OwnNet(net_source(net), tuple(cohort.examples.shape[1:]), str(cohort.examples.dtype))


class Recipe(TypedDict):
    """Default amount of training."""

    local_steps: int
    passes: float
    batch_size: int


#: By modality: the fastest settings (docs/decisions/0037), with the same amount of work for every method.
RECIPES: dict[str, Recipe] = {
    "ecg": {"local_steps": 4, "passes": 20.0, "batch_size": 16},
    "image": {"local_steps": 4, "passes": 60.0, "batch_size": 64},
    "array": {"local_steps": 4, "passes": 20.0, "batch_size": 16},
}


def resolve_options(
    config: TrainConfig | Path | str | None,
    arguments: Mapping[str, object],
    settings: Mapping[str, SettingValue] | None,
) -> tuple[TrainConfig, dict[str, SettingValue]]:
    """Combine a file or a ``TrainConfig`` with arguments; return the options and the method's settings.

    Raises:
        OptionError: the file cannot be read, has an invalid name or value, or both of two alternatives are set.
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise OptionError("settings", f"{settings!r}", "settings by name", "such as {'lr': 0.01}")
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if not isinstance(config, TrainConfig | Path | str | None):
        raise OptionError("config", f"{config!r:.100}", "a TrainConfig, or the path of a TOML file")
    if not isinstance(config, Path | str):
        values, method_settings = {} if config is None else config.given_values(), dict[str, SettingValue]()
    else:
        values, method_settings = _read_config(Path(config))
        for name, named, passed, expected, how in (
            ("method", values.get("method"), arguments, "a registered name", param("method=FILE.py:CLASS")),
            ("net", values.get("net"), arguments, "a registered name", param("net=FILE.py:CLASS")),
            (
                "risk",
                method_settings.get("risk"),
                settings or {},
                "a known loss",
                f"{param('settings')} risk=FILE.py:NAME",
            ),
        ):
            if isinstance(named, str) and names_code(named) and name not in passed:
                problem = f"its {name} {named!r:.200} is somebody's own code, which is not run from a file"
                action = f"read it, then pass it with {how}"
                raise OptionError(f"{param('config')} {config}", problem, expected, action, code="code-not-loaded")
    options = names_of(TrainConfig)
    if unknown := sorted(arguments.keys() - set(options)):
        named = arguments.get("method", values.get("method"))
        method = method_by_name(named if isinstance(named, str | type) else TrainConfig.method)
        of_method = {one.name: f"settings={{{one.name!r}: ...}}" for one in settings_of(method.settings_type)}
        raise unexpected("train", unknown[0], of_method | {name: name for name in options})
    for pair in EITHER_OR:
        if any(name in arguments for name in pair):
            values = {name: value for name, value in values.items() if name not in pair}
    return merged(TrainConfig, None, {**values, **arguments}, "train"), {**method_settings, **(settings or {})}


def _read_config(path: Path) -> tuple[dict[str, Any], dict[str, SettingValue]]:
    where = f"{param('config')} {path}"
    try:
        values = parse_toml(read_bounded(path, MAX_TOML_BYTES, OptionError, where))
    except ValueError as problem:
        raise OptionError("config", f"{path} cannot be read ({problem})", "a TOML file") from problem
    settings = values.pop("set", {})
    if not isinstance(settings, dict):
        raise OptionError(where, "set is no table", "[set] with the method's settings")
    known, checked = {option.name: option for option in options_of(TrainConfig)}, {}
    for written, value in values.items():
        name = written.replace("-", "_")
        if name not in known:
            expected = f"one of {', '.join(known)}, [set]"
            raise OptionError(where, f"unknown name {name!r:.100}", expected, code="unknown-choice")
        try:
            known[name].check(value)
        except OptionError as problem:
            raise OptionError(where, f"{name} = {value!r:.100}", problem.expected, code=problem.code) from problem
        checked[name] = known[name].kind(value)
    return checked, settings


def build_method_and_plan(
    config: ModelConfig,
    settings: Mapping[str, SettingValue],
    cohort: tuple[int, str, int],
    data_of: Callable[[bool, bool], TrainingData],
    own: OwnNet | None = None,
) -> tuple[Method, TrainPlan]:
    """Return the method and the plan for options, checked before anything is written.

    Args:
        config: the options.
        settings: the method's settings, by name.
        cohort: its number of classes, its modality, and the version of its RR features.
        data_of: returns its training beats, with RR features or without, with weak clients or without.
        own: a net of one's own, with dtype and shape of its examples.

    Raises:
        OptionError: the plan is not valid for the method or the number of clients.
    """
    kind, (classes, modality, rr_version) = method_by_name(config.method), cohort
    method_settings: object = make_settings(kind.settings_type, dict(settings))
    spec = net_spec(
        classes,
        modality,
        architecture=config.net if own is None else own.source.origin,
        norm=config.norm,
        rr=config.rr,
        width=config.width,
        rr_version=rr_version,
        window_share=config.window_share,
        module=None if own is None else own.form(modality),
        module_norm="none" if own is None else own.source.norm(classes),
        takes_rr=own is not None and own.source.takes_rr,
    )
    method, recipe = kind(make_net(spec, own and own.source), method_settings), RECIPES[modality]
    described = [one.what for one in (*kind.communication.down, *kind.communication.up)]
    described += [one.what for one in kind.communication.stores]
    if any("extractor" in what for what in described) and not extractor_of(method.net.initial(0)):
        problem = f"has no parameters before its head, and {kind.name} needs an extractor"
        raise OptionError("net", problem, "a layer before the head", code="conflict")
    if config.augment and modality == "array":
        raise OptionError("augment", "True for arrays", "a cohort of ECG beats or CIFAR-10 images", code="conflict")
    local_steps = config.local_steps
    if config.local_epochs is None and local_steps is None:
        local_steps = 1 if method.requirements.single_step else recipe["local_steps"]
    resolved = {"rounds": config.rounds or 1, "local_steps": local_steps}
    resolved["batch_size"] = config.batch_size or recipe["batch_size"]
    plan = TrainPlan(**{**config.shared_with(TrainPlan), **resolved})
    data = data_of(spec.rr, uses_weak_labels(method, method.settings, plan)).for_method(method)
    participants(plan, data.clients, 1)  # refuses more clients a round than there are
    if config.rounds is None:
        passes = recipe["passes"] if config.passes is None else config.passes
        plan = plan.with_passes(passes, data.train_examples, method.requirements.batches_per_step)
    check_requirements(method.requirements, plan, len(data.clients))
    check_combining(method, plan)
    if own is not None and spec.norm == "batch":
        _check_single_examples(method.net, plan, data)
    return method, plan


def _check_single_examples(net: Net, plan: TrainPlan, data: TrainingData) -> None:
    """Refuse a plan with a batch of one example for a net that cannot train on one, as BatchNorm1d cannot."""
    lengths = {int(client): data.epoch_length(int(client)) for client in data.clients}
    rest = plan.batch_size if plan.local_steps is None else 1  # steps take full batches, epochs end with what is left
    alone = [client for client, n in lengths.items() if min(n, plan.batch_size) == 1 or n % rest == 1]
    if not alone:
        return
    try:
        with torch.no_grad():
            net.extract(net.initial(0), Inputs(torch.zeros(1, *net.input_shape, dtype=net.input_type)), {})
    except OptionError as problem:
        name = data.ids[alone[0]]
        reason = f"cannot train on a batch of one example, and client {name} ({lengths[alone[0]]} examples) has one"
        action = "use other layers than BatchNorm, leave such clients out, or change the batch size"
        raise OptionError("net", reason, "two or more in a batch", action, code="conflict") from problem


def default_out(cohort: Cohort, config: TrainConfig) -> Path:
    """Return the default run folder, ``runs/COHORT-METHOD-sSEED``."""
    return Path("runs") / f"{cohort.path.resolve().name}-{method_by_name(config.method).name}-s{config.seed}"
