"""What the local objective of GRP-FED does to a finished global model: T_p and T_r after a few local steps, by beta.

    python benchmarks/grp_fed/personal_steps.py RUN [--betas 0.5 0.9 1.0] [--penalties 0 10] [--rounds 5 25 75]
        [--momenta 0.9] [--every 1]

RUN is a finished run of grp-fed. Every patient's extractor starts from the run's final global extractor and trains in
rounds of four steps against the fixed final head; the server stands still. ``--every 3`` takes every third patient. T_p
and T_r on the validation split, the first row the global model's own; prints a table.
"""

import argparse
import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option

from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.core.federation.plan import TrainPlan, available_cores
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import train
from ecgfed.core.methods.grp_fed import GrpFed, GrpFedSettings
from ecgfed.core.runs.run import Run, open_run
from ecgfed.domain.cohort.split import VALID


def main(options: argparse.Namespace) -> None:
    run = open_run(options.run)
    data = training_data(run.cohort(), rr=run.net.spec.rr)
    data = replace(data, clients=data.clients[:: options.every])
    print("| beta | gradient penalty | momentum | steps | T_p | T_r |\n| --- | --- | --- | --- | --- | --- |")
    method, state = standing_still(run, 1.0, 0.0, 0.9)
    t_p, t_r = scores(run, data, method, state)
    print(f"| the global model | | | 0 | {t_p:.3f} | {t_r:.3f} |", flush=True)
    for beta, penalty, momentum in itertools.product(options.betas, options.penalties, options.momenta):
        if beta == 1 and penalty:
            continue  # nothing asks the discriminator
        method, state = standing_still(run, beta, penalty, momentum)
        for rounds in options.rounds:
            plan = TrainPlan(rounds=rounds, local_epochs=None, local_steps=4, seed=run.plan.seed)
            with ThreadEngine(data, plan, available_cores()) as engine:
                state = train(method, data, plan, engine, state)
            t_p, t_r = scores(run, data, method, state)
            print(f"| {beta} | {penalty:g} | {momentum} | {4 * rounds} | {t_p:.3f} | {t_r:.3f} |", flush=True)


def standing_still(run: Run, beta: float, penalty: float, momentum: float) -> tuple[GrpFed, State]:
    """Return a method that trains nothing but the patients' parts, and a state at the run's final global model."""
    frozen = GrpFedSettings(
        beta=beta,
        lr=0.0,
        momentum=momentum,
        personal_start=0.0,
        gradient_penalty=penalty,
        server_optimizer="sgd",
        server_lr=0.0,
        server_momentum=0.0,
    )
    method, final = GrpFed(run.net, frozen), run.state()
    model = final.server["model"]
    return method, State(0, method.server_start(model), {}, dict(final.beats_used))


def scores(run: Run, data: TrainingData, method: GrpFed, state: State) -> tuple[float, float]:
    """Return T_p and T_r on the validation split."""
    cohort = run.cohort()
    pool = cohort.pool(VALID)
    truth, owner, classes = cohort.label[pool].astype(np.int64), cohort.client[pool], len(cohort.classes)
    predictor = Predictor(run.net, data, pool, available_cores())
    t_p, t_r = [], []
    for client in data.clients.tolist():
        labels = predictor.labels(method.personal_model(state.server, state.client_states.get(client, {})))
        own = owner == client
        t_p.append(macro_f1(confusion(truth[own], labels[own], classes)))
        t_r.append(macro_f1(confusion(truth, labels, classes)))
    return float(np.mean(t_p)), float(np.mean(t_r))


if __name__ == "__main__":
    benchmark(
        main,
        option("run", type=Path),
        option("--betas", nargs="+", type=float, default=[0.5, 0.9, 1.0]),
        option("--penalties", nargs="+", type=float, default=[0.0, 10.0]),
        option("--rounds", nargs="+", type=int, default=[5, 25, 75]),
        option("--momenta", nargs="+", type=float, default=[0.9]),
        option("--every", type=int, default=1),
        standard=False,
    )
