"""What the local objective of GRP-FED does to a finished global model: T_p and T_r after a few local steps, by beta.

    python benchmarks/grp_fed/personal_steps.py RUN [--betas 0.5 0.9 1.0] [--rounds 1 4]

RUN is a finished run of grp-fed. Every patient's extractor starts from the run's final global extractor and trains in
rounds of four steps against the fixed final head; the server stands still. Validation split; prints a table.
"""

import argparse
from pathlib import Path

import numpy as np

from ecgfed.cohort.split import VALID
from ecgfed.evaluation.predict import Predictor
from ecgfed.evaluation.scores import confusion, macro_f1
from ecgfed.federation.checkpoint import State
from ecgfed.federation.data import TrainingData, training_data
from ecgfed.federation.engine import ThreadEngine
from ecgfed.federation.plan import TrainPlan, available_cores
from ecgfed.federation.run import Run, open_run
from ecgfed.federation.train import train
from ecgfed.methods.grp_fed import GrpFed, GrpFedSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--betas", nargs="+", type=float, default=[0.5, 0.9, 1.0])
    parser.add_argument("--rounds", nargs="+", type=int, default=[1, 4])
    options = parser.parse_args()
    run = open_run(options.run)
    data = training_data(run.cohort(), rr=run.net.spec.rr)
    print("| beta | steps | T_p | T_r |\n| --- | --- | --- | --- |")
    for beta in options.betas:
        method, state = standing_still(run, beta)
        for rounds in options.rounds:
            plan = TrainPlan(rounds=rounds, local_epochs=None, local_steps=4, seed=run.plan.seed)
            with ThreadEngine(data, plan, available_cores()) as engine:
                state = train(method, data, plan, engine, state)
            print(f"| {beta} | {4 * rounds} | {' | '.join(f'{x:.3f}' for x in scores(run, data, method, state))} |")


def standing_still(run: Run, beta: float) -> tuple[GrpFed, State]:
    """Return a method that trains nothing but the patients' parts, and a state at the run's final global model."""
    frozen = GrpFedSettings(
        beta=beta, lr=0.0, anchor=0.0, server_optimizer="sgd", server_lr=0.0, server_momentum=0.0
    )  # fmt: skip
    method, final = GrpFed(run.net, frozen), run.state()
    model = final.server["model"]
    kept = {
        client: {**method.client_start(model), "discriminator": own["discriminator"]}
        for client, own in final.kept.items()
    }
    return method, State(0, method.server_start(model), kept, dict(final.seen))


def scores(run: Run, data: TrainingData, method: GrpFed, state: State) -> tuple[float, float]:
    """Return T_p and T_r on the validation split."""
    cohort = run.cohort()
    pool = cohort.pool(VALID)
    truth, owner, classes = cohort.label[pool].astype(np.int64), cohort.client[pool], len(cohort.classes)
    predictor = Predictor(run.net, data, pool, available_cores())
    t_p, t_r = [], []
    for client in cohort.federation:
        labels, own = (
            predictor.labels(method.personal_answer(state.server, state.kept[client.index])),
            owner == client.index,
        )
        t_p.append(macro_f1(confusion(truth[own], labels[own], classes)))
        t_r.append(macro_f1(confusion(truth, labels, classes)))
    return float(np.mean(t_p)), float(np.mean(t_r))


if __name__ == "__main__":
    main()
