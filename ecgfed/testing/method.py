"""Checks of federated methods (``ecgfed.core.methods.base.Method``), built-in and external."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from ecgfed.base.errors import OptionError, RunError
from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.communication_audit import audit_communication
from ecgfed.core.federation.communication_log import record_communication
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Method, Tree
from ecgfed.core.methods.models import Ensemble, Pipeline
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.callbacks import SaveCheckpoint
from ecgfed.core.runs.checkpoint import CheckpointStore
from ecgfed.testing.checks import CheckReport, PluginCheck, SkipCheck, expect, run_checks
from ecgfed.testing.federation import CLASSES, synthetic_federation
from ecgfed.testing.hooks import HookRecorder, changed, instrumented, same, snapshot
from ecgfed.testing.meta_device import runs_on_meta
from ecgfed.testing.trial import (
    SIZES,
    DoubleNet,
    Trial,
    copied,
    double_precision,
    expect_close,
    expect_equal,
    mixed_federation,
    trained,
    trees,
)

#: A single class, fewer beats than a batch, a single beat.
ODD = ([1] * 9, [0, 1, 2], [2], [0, 2] * 6)
#: Tolerances (absolute, relative) between engines, which sum in different order: in double precision, and in single for
#: methods with float32 parameters of their own, where a step such as Adam's amplifies the last bit.
DOUBLE, SINGLE = (1e-5, 1e-5), (1e-4, 1e-3)
#: Maximum difference of a logit between torch and an exported graph, proportional to logits above the second number; as
#: in ``ecgfed.exports.bundles``, which cannot be imported without onnx.
LOGIT_TOLERANCE, LARGE_LOGIT = 1e-4, 100.0


def check_method(kind: type[Method], settings: Mapping[str, object] | None = None, device: str = "cpu") -> CheckReport:
    """Check that a method meets the contract that engines, checkpoints, evaluation and export rely on.

    It trains a dozen times on a few synthetic beats with a small net, which takes seconds to a minute.

    Args:
        kind: the method's class.
        settings: by name, as ``--set`` takes them; the method's defaults otherwise.
        device: ``cpu`` or ``cuda``, where many clients are trained at once; everything else runs on the CPU.

    Returns:
        A report, to be printed, with the checks that could not run here.

    Raises:
        AssertionError: the first failed check, in one sentence.
        OptionError: invalid settings.
    """
    threads = torch.get_num_threads()
    try:
        name = getattr(kind, "name", "") or kind.__name__
        _check_definition(kind, name)
        return run_checks(name, CHECKS, Trial(kind, make_settings(kind.settings_type, dict(settings or {})), device))
    finally:
        torch.set_num_threads(threads)


def _check_definition(kind: type[Method], name: str) -> None:
    """Check what needs no training."""
    expect(isinstance(kind, type) and issubclass(kind, Method), f"{name}: is not a subclass of Method")
    missing = [member for member in ("name", "communication") if not getattr(kind, member, None)]
    expect(not missing, f"{name}: lacks {', '.join(missing)}")
    spec = kind.communication
    expect(spec.title and spec.reference, f"{name}: its communication spec lacks title or reference")
    expect(methods().get(name, kind) is kind, f"{name}: another method has this name")
    settings = kind.settings_type
    frozen = is_dataclass(settings) and settings.__dataclass_params__.frozen  # type: ignore[attr-defined]
    expect(frozen, f"{name}: its settings are not a frozen dataclass")
    try:
        make_settings(settings, {})
    except OptionError as refused:
        raise AssertionError(f"{name}: its own defaults are refused ({refused})") from refused


def _settings_survive_text(trial: Trial) -> None:
    kind = trial.kind.settings_type
    text = json.dumps(asdict(trial.settings), allow_nan=False)
    back: object = make_settings(kind, json.loads(text))
    expect(back == trial.settings, "its settings do not come back from JSON as they were")
    values = {field.name: getattr(trial.settings, field.name) for field in fields(kind)}
    values = {name: value for name, value in values.items() if not isinstance(value, str)}
    read: object = make_settings(kind, {name: str(value).lower() for name, value in values.items()})
    for name, value in values.items():
        expect(getattr(read, name) == value, f"its setting {name} comes back from text as {getattr(read, name)!r}")


def _hooks_are_sound(trial: Trial) -> None:
    recorder = HookRecorder()
    method = replace(trial, kind=instrumented(trial.kind, recorder)).build()
    state = trained(method, trial.data, trial.usual)
    before = {what: snapshot(tree) for what, tree in trees(state).items()}
    list(trial.models(method, state))
    for name, value in method.round_report(state.server).items():
        expect(isinstance(value, float), f"round_report gives {name} as {type(value).__name__}, not as a float")
    for returned in recorder.client_messages:
        method.local_model(returned)
    for what, tree in trees(state).items():
        path = changed(tree, before[what])
        expect(not path, f"computing a model changes {what} ({path})")
    _new_patient(method, state, method.init_new_client(state.server, method.net.initial(0)))


def _new_patient(method: Method, state: State, client_state: Tree) -> None:
    """Train a patient who was not in the run for one late round, from the state of ``init_new_client``."""
    number = max(SIZES) + 1  # not a client of the run
    data = synthetic_federation([[0, 1, 2] * 4], rr=True, seed=5)
    rows, valid_rows = {number: data.rows[0]}, {number: data.valid_rows[0]}
    data = replace(data, clients=np.array([number]), rows=rows, valid_rows=valid_rows)
    plan = replace(Trial(type(method), method.settings).usual, rounds=state.round + 1, clients_per_round=None)
    late = State(state.round, copied(state.server), {number: client_state})
    with ThreadEngine(data, plan, 1) as engine:
        train(method, data, plan, engine, late)


def _is_reproducible(trial: Trial) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index] # noqa: NPY002
    method = trial.build()
    first = trained(method, trial.data, trial.usual)
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # type: ignore[index] # noqa: NPY002
    expect(torch.equal(before[0], after[0]), "it draws from torch's global random numbers, which no seed of a run sets")
    expect(np.array_equal(before[1], after[1]), "it draws from NumPy's global random numbers")
    expect(before[2] == after[2], "it draws from Python's global random numbers")
    expect_equal(trial.run, first, "with a new instance, run again")
    with_threads = trained(method, trial.data, trial.usual, workers=3)
    expect_equal(first, with_threads, "run again, the same object with three threads")


def engines_agree(trial: Trial) -> None:
    """Check that many clients at once, on the trial's device, end like one after another on the CPU."""
    steps = trial.plan(rounds=2, local_epochs=None, local_steps=3, clients_per_round=3)
    for plan, norm, rr, clients_per_stack in ((trial.usual, "group", True, 2), (steps, "batch", False, 3)):
        try:
            with double_precision():
                sequential, batched = _both_engines(trial, plan, norm, rr, clients_per_stack, torch.float64)
            tolerance = DOUBLE
        except RuntimeError:  # the method has float32 parameters
            sequential, batched = _both_engines(trial, plan, norm, rr, clients_per_stack, torch.float32)
            tolerance = SINGLE
        expect(sequential.beats_used == batched.beats_used, "with many clients at once it is trained on other beats")
        for (what, tree), batched_tree in zip(trees(sequential).items(), trees(batched).values(), strict=True):
            condition = f"with many clients at once (norm {norm}) {what}"
            expect_close(flatten(tree), flatten(batched_tree), tolerance, condition)


def _both_engines(
    trial: Trial, plan: TrainPlan, norm: str, rr: bool, clients_per_stack: int, dtype: torch.dtype
) -> tuple[State, State]:
    """Train one client after the other, and many at once; return both states."""
    double = dtype == torch.float64
    method = trial.build(norm=norm, rr=rr, net=DoubleNet if double else ResNet1d)
    data = mixed_federation(rr=rr)
    if double:
        examples, features = data.examples.astype(np.float64), None if data.rr is None else data.rr.astype(np.float64)
        data = replace(data, examples=examples, rr=features)  # type: ignore[arg-type]  # float32 everywhere else
    with BatchedEngine(data, plan, trial.device, clients_per_stack) as engine:
        batched = train(method, data, plan, engine, initial_state(method, plan))
    return trained(method, data, plan), batched


def _resumes(trial: Trial) -> None:
    plan = trial.usual
    with TemporaryDirectory() as folder:
        saved = [SaveCheckpoint(CheckpointStore(Path(folder)))]
        trained(trial.build(), trial.data, plan, callbacks=saved, should_stop=lambda: True)
        method, state = trial.build(), CheckpointStore(Path(folder)).load()
        expect(state.round == 1, f"stopped after one round it has saved {state.round}")
        with ThreadEngine(trial.data, plan, 1) as engine:
            resumed = train(method, trial.data, plan, engine, state)
        expect_equal(trial.run, resumed, "resumed from disk after one of two rounds")


def _training_changes_model(trial: Trial) -> None:
    method = trial.build()
    start = flatten(initial_state(method, trial.usual).server)
    moved = any(path in start and not same(start[path], leaf) for path, leaf in flatten(trial.run.server).items())
    expect(moved or not trial.kind.has_global_model, "two rounds do not change the server's state")
    rows = trial.data.batch(np.arange(len(trial.data.label))).inputs
    before, after = initial_state(method, trial.usual).server, trial.run.server
    fresh = method.client_start(method.net.initial(trial.usual.seed))
    logits_before = chain_logits(method.net, method.personal_model(before, fresh), rows)
    logits_after = chain_logits(method.net, method.personal_model(after, trial.run.client_states.get(1, fresh)), rows)
    expect(not torch.equal(logits_before, logits_after), "two rounds do not change the personal model")


def _models_are_finite(trial: Trial) -> None:
    method, data = trial.build(), trial.data
    inputs = data.batch(np.arange(len(data.label))).inputs
    for what, model in trial.models(method, trial.run):
        members: Sequence[Pipeline] = model.members if isinstance(model, Ensemble) else (model,)
        expect(members, f"{what} is an empty ensemble")
        for pipeline in members:
            expect(isinstance(pipeline, Pipeline) and pipeline.stages, f"{what} is not a Pipeline of stages")
            for stage in pipeline.stages:
                known_role = stage.role in method.net.roles
                expect(known_role, f"{what} has a stage of role {stage.role!r}, which the net does not have")
            logits = chain_logits(method.net, pipeline, inputs)
            expect(tuple(logits.shape) == (len(data.label), CLASSES), f"{what} gives logits {tuple(logits.shape)}")
            expect(logits.isfinite().all(), f"{what} gives logits that are not finite")
    _shared_stages_are_equal(trial, method)


def _shared_stages_are_equal(trial: Trial, method: Method) -> None:
    """Check that shared stages are equal for all patients, since they are exported once."""
    shared: dict[str, dict[str, object]] = {}
    for client in sorted(trial.run.client_states):
        for stage in method.personal_model(trial.run.server, trial.run.client_states[client]).stages:
            if stage.shared:
                path = changed(stage.params, shared.setdefault(stage.role, snapshot(stage.params)))
                expect(not path, f"the shared {stage.role} of personal models differs between patients ({path})")


def _stays_finite(trial: Trial) -> None:
    data = synthetic_federation(ODD)
    data = replace(data, valid_rows={client: rows for client, rows in data.valid_rows.items() if client != 2})
    inputs = data.batch(np.arange(len(data.label))).inputs
    for norm in ("group", "batch"):
        method = trial.build(norm=norm, rr=False)
        state = trained(method, data, trial.plan(rounds=2, local_epochs=1))
        for what, tree in trees(state).items():
            for path, leaf in flatten(tree).items():
                message = f"clients of one class or one beat (norm {norm}) make {path} of {what} not finite"
                expect(leaf.isfinite().all(), message)
        for what, model in trial.models(method, state):
            for pipeline in model.members if isinstance(model, Ensemble) else (model,):
                finite = chain_logits(method.net, pipeline, inputs).isfinite().all()
                expect(finite, f"clients of one class or one beat (norm {norm}) make {what} not finite")


def _rejects_nan(trial: Trial) -> None:
    examples = trial.data.examples.copy()
    examples[trial.data.rows[1]] = np.nan
    data = replace(trial.data, examples=examples)
    try:
        trained(trial.build(), data, trial.usual)
    except RunError as refused:
        message = str(refused)
        expect("client 1 in round 1" in message, f"the error for NaN beats does not name the client: {message}")
        return
    expect(False, "beats that are NaN are trained on without an error")


def _communication_matches_spec(trial: Trial) -> None:
    method = trial.build(rr=False)
    plan = trial.plan(rounds=10, local_epochs=None, local_steps=2)
    # a run's first and last rounds, since methods have phases
    problems = audit_communication(record_communication(method, mixed_federation(rr=False), plan, (1, 2, 9, 10)))
    expect(not problems, problems[0] if problems else "")


def _exports(trial: Trial) -> None:
    absent = [package for package in ("onnx", "onnxscript", "onnxruntime") if find_spec(package) is None]
    if absent:
        raise SkipCheck(f"{' and '.join(absent)} not installed")
    from ecgfed.testing.graphs import expected_logits, exported_logits

    method = trial.build()
    inputs = trial.data.batch(np.arange(16)).inputs
    for what, model in trial.models(method, trial.run, patients=1):
        exported, expected = (logits(method.net, model, inputs) for logits in (exported_logits, expected_logits))
        difference = float(np.abs(exported - expected).max())
        limit = LOGIT_TOLERANCE * max(1.0, float(np.abs(expected).max()) / LARGE_LOGIT)
        expect(difference <= limit, f"exported, {what} gives logits up to {difference:.2g} away from torch's")


#: Run in this order; a new check is one more line here.
CHECKS: tuple[PluginCheck[Trial], ...] = (
    PluginCheck("settings survive JSON and text", _settings_survive_text),
    PluginCheck("hooks return trees of equal form and do not change their arguments", _hooks_are_sound),
    PluginCheck("the same seed gives the same bits, for any instance and number of threads", _is_reproducible),
    PluginCheck("clients one after the other and many at once agree", engines_agree),
    PluginCheck("a run stopped and resumed from disk ends the same", _resumes),
    PluginCheck("training changes the model", _training_changes_model),
    PluginCheck("models are finite, of the net's roles, with equal shared stages", _models_are_finite),
    PluginCheck("numbers stay finite with clients of one class or one beat", _stays_finite),
    PluginCheck("an error names the client whose beats are NaN", _rejects_nan),
    PluginCheck("the communication spec matches what is sent and stored", _communication_matches_spec),
    PluginCheck("exported graphs agree with the model", _exports),
    PluginCheck("rounds and models run on another device, and wait for no value", runs_on_meta),
)
