"""What every method promises, ours and those from outside (``ecgfed.methods.base.Method``)."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from ecgfed.errors import OptionError, RunError
from ecgfed.evaluation.predict import chain_logits
from ecgfed.federation.batched import BatchedEngine
from ecgfed.federation.communication_audit import audit_communication
from ecgfed.federation.communication_log import record_communication
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.state import State
from ecgfed.federation.threads import ThreadEngine
from ecgfed.federation.train import initial_state, train
from ecgfed.federation.trees import flatten
from ecgfed.methods.answers import Chain, Ensemble
from ecgfed.methods.base import Method, Tree
from ecgfed.methods.registry import methods
from ecgfed.methods.settings import make_settings
from ecgfed.nets.resnet1d import ResNet1d
from ecgfed.runs.callbacks import SaveCheckpoint
from ecgfed.runs.checkpoint import CheckpointStore
from ecgfed.testing.federation import CLASSES, synthetic_federation
from ecgfed.testing.hooks import Watch, changed, remembered, same, watched
from ecgfed.testing.promises import CheckReport, LeftOut, Promise, expect, try_promises
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

#: One class alone, fewer beats than a batch, a single beat.
ODD = ([1] * 9, [0, 1, 2], [2], [0, 2] * 6)
#: How far two engines may lie apart, since they add up in another order: (absolute, relative) in double precision, and
#: in single for methods with parameters of their own in it, where a step like Adam's makes more of the last bit.
DOUBLE, SINGLE = (1e-5, 1e-5), (1e-4, 1e-3)
#: Largest difference of a logit between torch and an exported graph; it grows with logits beyond the second number, as
#: that of bundles does (whose folder cannot be asked where onnx is missing).
LOGIT_TOLERANCE, LARGE_LOGIT = 1e-4, 100.0


def check_method(kind: type[Method], settings: Mapping[str, object] | None = None) -> CheckReport:
    """Check that a method keeps what every engine, checkpoint, evaluation and export relies on.

    It trains a dozen times on a few made-up beats with a small net, which takes seconds to a minute.

    Args:
        kind: the method's class.
        settings: by name, as ``--set`` takes them; the method's defaults otherwise.

    Returns:
        What it keeps, to be printed, and what could not be tried here.

    Raises:
        AssertionError: the first promise it breaks, in one sentence.
        OptionError: settings that the method does not take.
    """
    threads = torch.get_num_threads()
    try:
        name = getattr(kind, "name", "") or kind.__name__
        _is_complete(kind, name)
        return try_promises(name, PROMISES, Trial(kind, make_settings(kind.settings_type, dict(settings or {}))))
    finally:
        torch.set_num_threads(threads)


def _is_complete(kind: type[Method], name: str) -> None:
    """What can be said without running it; a class that is no method has no promises to keep."""
    expect(isinstance(kind, type) and issubclass(kind, Method), f"{name}: is no subclass of Method")
    missing = [need for need in ("name", "card", "settings_type") if not getattr(kind, need, None)]
    missing += sorted(kind.__abstractmethods__)
    expect(not missing, f"{name}: lacks {', '.join(missing)}")
    expect(kind.card.title and kind.card.reference, f"{name}: its card has no title or no reference")
    expect(methods().get(name, kind) is kind, f"{name}: another method has this name")
    settings = kind.settings_type
    frozen = is_dataclass(settings) and settings.__dataclass_params__.frozen  # type: ignore[attr-defined]
    expect(frozen, f"{name}: its settings are no frozen dataclass")
    try:
        make_settings(settings, {})
    except OptionError as refused:
        raise AssertionError(f"{name}: its own defaults are refused ({refused})") from refused


def _settings_travel(trial: Trial) -> None:
    kind = trial.kind.settings_type
    text = json.dumps(asdict(trial.settings), allow_nan=False)
    expect(
        make_settings(kind, json.loads(text)) == trial.settings, "its settings do not come back from JSON as they were"
    )
    named = {field.name: str(getattr(trial.settings, field.name)).lower() for field in fields(kind)}
    read: object = make_settings(
        kind, {n: v for n, v in named.items() if not isinstance(getattr(trial.settings, n), str)}
    )
    for name in named:
        value = getattr(trial.settings, name)
        if not isinstance(value, str):
            expect(getattr(read, name) == value, f"its setting {name} comes back from text as {getattr(read, name)!r}")


def _has_sound_hooks(trial: Trial) -> None:
    watch = Watch()
    method = replace(trial, kind=watched(trial.kind, watch)).made()
    state = trained(method, trial.data, trial.usual)
    before = {what: remembered(tree) for what, tree in trees(state).items()}
    list(trial.answers(method, state))
    for name, value in method.round_report(state.server).items():
        expect(isinstance(value, float), f"round_report gives {name} as {type(value).__name__}, not as a float")
    for returned in watch.sent_back:
        method.local_answer(returned)
    for what, tree in trees(state).items():
        where = changed(tree, before[what])
        expect(not where, f"an answer changes {what} ({where})")
    _new_patient(method, state, method.newcomer(state.server, method.net.initial(0)))


def _new_patient(method: Method, state: State, kept: Tree) -> None:
    """Let a patient who took no part take one round late in the run, from what ``newcomer`` says they keep."""
    number = max(SIZES) + 1  # no client's
    one = synthetic_federation([[0, 1, 2] * 4], rr=True, seed=5)
    data = replace(one, clients=np.array([number]), rows={number: one.rows[0]}, valid_rows={number: one.valid_rows[0]})
    plan = replace(Trial(type(method), method.settings).usual, rounds=state.round + 1, clients_per_round=None)
    late = State(state.round, copied(state.server), {number: kept})
    with ThreadEngine(data, plan, 1) as engine:
        train(method, data, plan, engine, late)


def _gives_the_same_bits(trial: Trial) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index] # noqa: NPY002
    method = trial.made()
    once = trained(method, trial.data, trial.usual)
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # type: ignore[index] # noqa: NPY002
    expect(torch.equal(before[0], after[0]), "it draws from torch's global random numbers, which no seed of a run sets")
    expect(np.array_equal(before[1], after[1]), "it draws from NumPy's global random numbers")
    expect(before[2] == after[2], "it draws from Python's global random numbers")
    expect_equal(trial.run, once, "made anew and run again")
    expect_equal(
        once, trained(method, trial.data, trial.usual, workers=3), "run again, the same object with three threads"
    )


def _means_the_same_in_either_engine(trial: Trial) -> None:
    steps = trial.plan(rounds=2, local_epochs=None, local_steps=3, clients_per_round=3)
    for plan, norm, rr, slots in ((trial.usual, "group", True, 2), (steps, "batch", False, 3)):
        try:
            with double_precision():
                one, many = _both_engines(trial, plan, norm, rr, slots, torch.float64)
            tolerance = DOUBLE
        except RuntimeError:  # a type of its own somewhere
            one, many = _both_engines(trial, plan, norm, rr, slots, torch.float32)
            tolerance = SINGLE
        expect(one.beats_used == many.beats_used, "with many clients at once it is trained on other beats")
        for (what, mine), theirs in zip(trees(one).items(), trees(many).values(), strict=True):
            expect_close(flatten(mine), flatten(theirs), tolerance, f"with many clients at once (norm {norm}) {what}")


def _both_engines(
    trial: Trial, plan: TrainPlan, norm: str, rr: bool, slots: int, dtype: torch.dtype
) -> tuple[State, State]:
    """Train one client after the other, and many at once."""
    double = dtype == torch.float64
    method = trial.made(norm=norm, rr=rr, net=DoubleNet if double else ResNet1d)
    data = mixed_federation(rr=rr)
    if double:
        examples, features = data.examples.astype(np.float64), None if data.rr is None else data.rr.astype(np.float64)
        data = replace(data, examples=examples, rr=features)  # type: ignore[arg-type]  # single everywhere but here
    with BatchedEngine(data, plan, "cpu", slots) as engine:
        many = train(method, data, plan, engine, initial_state(method, plan))
    return trained(method, data, plan), many


def _resumes(trial: Trial) -> None:
    plan = trial.usual
    with TemporaryDirectory() as folder:
        saved = [SaveCheckpoint(CheckpointStore(Path(folder)))]
        trained(trial.made(), trial.data, plan, callbacks=saved, should_stop=lambda: True)
        method, state = trial.made(), CheckpointStore(Path(folder)).load()
        expect(state.round == 1, f"stopped after one round it has saved {state.round}")
        with ThreadEngine(trial.data, plan, 1) as engine:
            resumed = train(method, trial.data, plan, engine, state)
        expect_equal(trial.run, resumed, "resumed from disk after one of two rounds")


def _moves(trial: Trial) -> None:
    method = trial.made()
    start = flatten(initial_state(method, trial.usual).server)
    moved = any(path in start and not same(start[path], leaf) for path, leaf in flatten(trial.run.server).items())
    expect(moved or not trial.kind.has_global_model, "two rounds leave the server's state as it was")
    rows = trial.data.batch(np.arange(len(trial.data.label))).inputs
    before, after = initial_state(method, trial.usual).server, trial.run.server
    fresh = method.client_start(method.net.initial(trial.usual.seed))
    then = chain_logits(method.net, method.personal_answer(before, fresh), rows)
    now = chain_logits(method.net, method.personal_answer(after, trial.run.client_states.get(1, fresh)), rows)
    expect(not torch.equal(then, now), "two rounds leave the personal answer as it was")


def _answers(trial: Trial) -> None:
    method, data = trial.made(), trial.data
    inputs = data.batch(np.arange(len(data.label))).inputs
    for what, answer in trial.answers(method, trial.run):
        members: Sequence[Chain] = answer.members if isinstance(answer, Ensemble) else (answer,)
        expect(members, f"{what} is an ensemble of nobody")
        for chain in members:
            expect(isinstance(chain, Chain) and chain.parts, f"{what} is no Chain of parts")
            for part in chain.parts:
                expect(part.role in method.net.roles, f"{what} has a part of role {part.role!r}, which the net has not")
            logits = chain_logits(method.net, chain, inputs)
            expect(tuple(logits.shape) == (len(data.label), CLASSES), f"{what} gives logits {tuple(logits.shape)}")
            expect(logits.isfinite().all(), f"{what} gives logits that are not finite")
    _shares_what_it_says(trial, method)


def _shares_what_it_says(trial: Trial, method: Method) -> None:
    """A part that is declared as everybody's is the same for everybody: it is shipped once."""
    shared: dict[str, dict[str, object]] = {}
    for client in sorted(trial.run.client_states):
        for part in method.personal_answer(trial.run.server, trial.run.client_states[client]).parts:
            if part.shared:
                where = changed(part.params, shared.setdefault(part.role, remembered(part.params)))
                expect(not where, f"the shared {part.role} of personal answers differs between patients ({where})")


def _stays_finite(trial: Trial) -> None:
    data = synthetic_federation(ODD)
    data = replace(data, valid_rows={client: rows for client, rows in data.valid_rows.items() if client != 2})
    inputs = data.batch(np.arange(len(data.label))).inputs
    for norm in ("group", "batch"):
        method = trial.made(norm=norm, rr=False)
        state = trained(method, data, trial.plan(rounds=2, local_epochs=1))
        for what, tree in trees(state).items():
            for path, leaf in flatten(tree).items():
                told = f"clients of one class or one beat (norm {norm}) make {path} of {what} not finite"
                expect(leaf.isfinite().all(), told)
        for what, answer in trial.answers(method, state):
            for chain in answer.members if isinstance(answer, Ensemble) else (answer,):
                finite = chain_logits(method.net, chain, inputs).isfinite().all()
                expect(finite, f"clients of one class or one beat (norm {norm}) make {what} not finite")


def _refuses_nan(trial: Trial) -> None:
    examples = trial.data.examples.copy()
    examples[trial.data.rows[1]] = np.nan
    data = replace(trial.data, examples=examples)
    try:
        trained(trial.made(), data, trial.usual)
    except RunError as refused:
        expect("client 1 in round 1" in str(refused), f"of a client whose beats are NaN it says: {refused}")
        return
    expect(False, "beats that are NaN are trained on as if they were numbers")


def _card_is_true(trial: Trial) -> None:
    method = trial.made(rr=False)
    plan = trial.plan(rounds=10, local_epochs=None, local_steps=2)
    # a run's first rounds and its last ones, for methods have phases
    problems = audit_communication(record_communication(method, mixed_federation(rr=False), plan, (1, 2, 9, 10)))
    expect(not problems, problems[0] if problems else "")


def _exports(trial: Trial) -> None:
    absent = [package for package in ("onnx", "onnxscript", "onnxruntime") if find_spec(package) is None]
    if absent:
        raise LeftOut(f"{' and '.join(absent)} not installed")
    from ecgfed.testing.graphs import expected_logits, exported_logits

    method = trial.made()
    inputs = trial.data.batch(np.arange(16)).inputs
    for what, answer in trial.answers(method, trial.run, patients=1):
        exported, expected = (logits(method.net, answer, inputs) for logits in (exported_logits, expected_logits))
        most = float(np.abs(exported - expected).max())
        limit = LOGIT_TOLERANCE * max(1.0, float(np.abs(expected).max()) / LARGE_LOGIT)
        expect(most <= limit, f"exported, {what} gives logits up to {most:.2g} away from torch's")


#: Tried in this order; a new promise is one more line here.
PROMISES: tuple[Promise[Trial], ...] = (
    Promise("settings that go through JSON and text and come back", _settings_travel),
    Promise("hooks that give trees of one form and leave what they are given as it was", _has_sound_hooks),
    Promise("the same bits from the same seed, whatever object or number of threads", _gives_the_same_bits),
    Promise("the same meaning one after the other and many at once", _means_the_same_in_either_engine),
    Promise("the same end when stopped and resumed from disk", _resumes),
    Promise("training that changes the model", _moves),
    Promise("finite answers of the net's own roles, shared parts the same for all", _answers),
    Promise("finite numbers from clients of one class, few beats or one", _stays_finite),
    Promise("one line that names the client whose beats are NaN", _refuses_nan),
    Promise("a card that says what travels and what stays", _card_is_true),
    Promise("exported graphs that answer as the model does", _exports),
)
