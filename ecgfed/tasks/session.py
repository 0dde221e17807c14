"""A training session: from the last checkpoint to the end, or until it is asked to stop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ecgfed.base.errors import RunError, param, spelled
from ecgfed.base.text import count_of
from ecgfed.core.evaluation.monitor import NEVER_PREDICTED, ValidationScores
from ecgfed.core.federation.data import TrainingData, excluded_beats, training_data, uses_weak_labels, weak_groups
from ecgfed.core.federation.engine_choice import open_engine
from ecgfed.core.federation.estimate import remaining_seconds, step_arithmetic
from ecgfed.core.federation.meta_set import with_meta_set
from ecgfed.core.federation.plan import worker_count
from ecgfed.core.federation.progress import ProgressCallback, TrainingProgress
from ecgfed.core.federation.train import Callback, initial_state, train
from ecgfed.core.federation.updates import NoisedEngine, describe_aggregation, describe_privacy_spent
from ecgfed.core.runs.callbacks import SaveCheckpoint, WriteHistory
from ecgfed.core.runs.client_states import ClientStates
from ecgfed.core.runs.history import HISTORY, read_history, read_lines
from ecgfed.core.runs.noise_key import noise_key
from ecgfed.core.runs.own_functions import OwnFunctions
from ecgfed.core.runs.run import Run
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.summary import leads_line, other_leads, other_leads_line
from ecgfed.tasks.progress import ProgressReporter, report_exclusions

#: The remaining time is reported after this number of rounds in a session and this time in seconds.
TIMED_ROUNDS, TIMED_S = 3, 5.0


def run_session(
    run: Run,
    cohort: Cohort,
    options: Mapping[str, Any],
    *,
    workers: int | None,
    checkpoint_every: int | None,
    tensorboard: Path | None,
    progress: ProgressReporter,
    should_stop: Callable[[], bool],
    own: OwnFunctions,
) -> None:
    """Train the remaining rounds; report the cost before and a summary after.

    Args:
        options: may override the ``device``, ``engine`` and ``slots`` of the run.
        workers: as in ``ecgfed.tasks.train.train``.
        checkpoint_every: as in ``train``.
        tensorboard: as in ``train``.
        progress: as in ``train``.
        should_stop: as in ``train``.
        own: a user's functions.

    Raises:
        EcgfedError: training cannot continue; the last checkpoint is intact.
    """
    plan, rr, store, rounds = run.plan, run.net.spec.rr, run.store, run.plan.rounds
    weak = uses_weak_labels(run.method, run.method.settings, plan)
    data = training_data(cohort, rr=rr, leave_out=plan.leave_out, weak=weak, most_per_class=plan.most_per_class)
    data = replace(data, augmentation=own.augmentation)
    state = run.state() if store.exists() else initial_state(run.method, run.plan)
    client_states = state.client_states  # read when their clients participate, unless they are small
    if isinstance(client_states, ClientStates) and client_states.small():
        client_states.read_all()
    threads = worker_count(workers)
    history = read_lines(run.path / HISTORY, state.round)
    if len(history) < state.round:
        problem = "lacks rounds that the checkpoint has"
        raise RunError(run.path / HISTORY, problem, count_of(state.round, "line"), "restore it")
    secret = noise_key(run.path, run.plan)
    who_trains = _who_trains(cohort, data)
    data = data.for_method(run.method)
    if leads := leads_line(cohort, cohort.federation):
        progress.note(f"Leads of different names are trained on together: {leads}.")
    if others := other_leads_line(other_leads(cohort, cohort.usable(cohort.training_pool(), run.plan.leave_out))):
        progress.note(f"Trained on beside these: {others}.")
    _report_cost(run, data, state.round, progress, who_trains, excluded_beats(cohort, run.plan.leave_out))
    compute = {name: options.get(name, run.meta.get(name)) for name in ("device", "engine", "slots")}
    with open_engine(
        data,
        run.plan,
        device=str(compute["device"] or "cpu"),
        engine=str(compute["engine"] or "auto"),
        workers=threads,
        slots=compute["slots"],
    ) as engine:
        every = int(run.meta.get("eval_every", 0))
        callbacks: list[Callback] = [
            ValidationScores(run.method, cohort, data, every, threads),
            WriteHistory(run.path),  # before the checkpoint, so that the history never lacks one of its rounds
            SaveCheckpoint(store, checkpoint_every),
            ProgressCallback(rounds, _RoundReporter(run, data, state.round, progress)),
        ]
        if tensorboard is not None:
            from ecgfed.core.runs.tensorboard import WriteTensorBoard

            callbacks.append(WriteTensorBoard(tensorboard))
        callbacks += own.as_callbacks()
        clients = NoisedEngine(engine, run.plan, secret)
        train(run.method, data, run.plan, clients, state, callbacks, should_stop, secret, own.of_rounds(history))
    if state.round >= rounds:
        for line in lessons(run):
            progress.note(line)


def _who_trains(cohort: Cohort, data: TrainingData) -> str:
    """Describe the number of training clients, and of the cohort's clients if some do not train."""
    excluded_clients, labelled = (
        sum(client.holdout for client in cohort.clients),
        len(data.clients) - len(data.excluded),
    )
    if labelled == len(cohort.clients):
        return count_of(labelled, "client")
    used = sum(len(group) for group in weak_groups(cohort) if group[0].index in data.excluded)
    unused = len(cohort.weak_clients) - used
    without = len(cohort.clients) - excluded_clients - len(cohort.weak_clients) - labelled
    unlabelled = "with a label of the recording alone, which is not trained on"
    reasons = ((excluded_clients, "held out"), (unused, unlabelled), (without, "without a training beat"))
    why = ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)
    who = f"{labelled} of {count_of(len(cohort.clients), 'client')}" + (f" ({why})" if why else "")
    if not used:
        return who
    pooled = count_of(len(data.excluded), "weak client")
    return f"{who} and {used:,} with a label of the recording alone, pooled by what it excludes into {pooled}"


def _report_cost(
    run: Run, data: TrainingData, completed: int, progress: ProgressReporter, who_trains: str, excluded: Exclusions
) -> None:
    plan = run.plan
    if completed >= plan.rounds:
        progress.note(f"{run.path} has all its {count_of(plan.rounds, 'round')}.")
        return
    if completed:
        progress.note(f"Going on after round {completed} of {plan.rounds}.")
    if getattr(run.method.settings, "risk", "") == "meta-bsm":
        pooled = "risk=meta-bsm pools validation beats of the patients at the server"
        progress.warn(f"{pooled} and sends them to every client")
    if run.method.requirements.pooled:
        progress.note(f"{run.method.name} is not federated: the training beats of all clients lie in one place.")
    for line in describe_aggregation(plan):
        progress.note(line)
    report_exclusions([excluded], progress)
    who = plan.clients_per_round or len(data.clients)
    epochs, steps = plan.local_epochs, plan.local_steps
    local = count_of(epochs or 0, "local epoch") if steps is None else count_of(steps, "local step")
    per_round = sum(plan.examples_for(int(count)) for count in data.train_examples) * who / len(data.clients)
    passes = plan.rounds * per_round / data.train_examples.sum()
    if plan.most_per_class is not None:
        examples, most = sum(len(rows) for rows in data.rows.values()), f"{plan.most_per_class:,} of each class"
        progress.note(f"An epoch of a client draws at most {most}: {data.train_examples.sum():,} of {examples:,}.")
    progress.note(
        f"{run.method.name} on {who_trains}: {count_of(plan.rounds, 'round')} of {local}, {passes:.3g} passes over "
        f"{count_of(int(data.train_examples.sum()), 'training example')}. The first rounds tell how long it takes."
    )


class _RoundReporter:
    """Reports the progress after each round, and once the remaining time."""

    def __init__(self, run: Run, data: TrainingData, first_round: int, progress: ProgressReporter) -> None:
        self.run, self.first_round, self.reporter = run, first_round, progress
        self.arithmetic = step_arithmetic(with_meta_set(run.method, data, run.plan.seed), data, run.plan)
        self.time_reported = False

    def __call__(self, progress: TrainingProgress) -> None:
        speed, record = progress.rounds_per_s, progress.record
        completed = progress.round - self.first_round
        since = max(self.first_round, progress.round - progress.timed)
        remaining_s = remaining_seconds(self.arithmetic, progress.rounds, progress.round, 1 / speed, since)
        if not self.time_reported and completed >= TIMED_ROUNDS and completed / speed >= TIMED_S:
            self.time_reported = True
            remaining = f"About {_minutes(remaining_s)} from here, at {1 / speed:.2g} s a round now."
            self.reporter.note(f"{remaining} Ctrl-C saves and stops.")
        what, losses = self.run.method.name, f"loss mean {record['loss_mean']:.3f} max {record['loss_max']:.3f}"
        item = f"{progress.samples_per_s:,.0f} samples/s, {losses}"
        rate = f"{speed:.1f} rounds/s" if speed >= 1 else f"{1 / speed:.1f} s a round"
        self.reporter.update(what, progress.round, progress.rounds, item, rate=rate, remaining_s=remaining_s)


def _minutes(value: float) -> str:
    if value < 90:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} minutes" if value < 5400 else f"{value / 3600:.1f} hours"


def lessons(run: Run) -> list[str]:
    """Summarize a finished run: validation scores, classes never predicted, suggestions."""
    lines = read_history(run.path, run.plan.rounds)
    last = lines[-1]
    latest: dict[str, float | Sequence[str]] = {}
    for line in lines:
        latest |= {name: line[name] for name in ("valid_T_g", "valid_T_p", NEVER_PREDICTED) if name in line}
    scores = ", ".join(f"{name[6:]} {latest[name]:.3f}" for name in ("valid_T_g", "valid_T_p") if name in latest)
    summary = [
        f"{run.method.name}: {count_of(run.plan.rounds, 'round')}, {last['passes']:.1f} passes over the training "
        f"examples, loss mean {last['loss_mean']:.3f} max {last['loss_max']:.3f}; "
        + (f"on validation {scores}." if scores else spelled(f"validation was not scored ({param('eval_every')} 0)."))
    ]
    never = latest.get(NEVER_PREDICTED, ())
    if isinstance(never, Sequence) and never:
        summary.append(f"Classes the global model never predicts on validation: {', '.join(never)}.")
    summary += describe_privacy_spent(run.plan, last.get("epsilon"))
    from ecgfed.tasks.train_options import RECIPES

    tries, recipe = [], RECIPES[run.net.spec.modality]
    if float(last["passes"]) < recipe["passes"] / 2:
        tries.append(f"this was short, a smoke test; the recipe takes {param('passes')} {recipe['passes']:g}")
    if run.plan.local_steps is None and len(run.meta.get("clients", ())) > 1:
        steps = f"{param('local_steps')} {recipe['local_steps']}"
        tries.append(f"few local steps keep clients from drifting apart: {steps}")
    if bool(never) and not tries:
        risk = f"a balanced risk ({param('settings')} risk=bsm)"
        tries.append(f"{risk} or more {param('passes')}, for the classes never predicted")
    return summary + ([spelled(f"To try: {'; '.join(tries)}.")] if tries else [])
