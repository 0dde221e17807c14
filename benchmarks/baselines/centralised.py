"""Centralised training of the default net on the pooled MIT-BIH cohort: the ceiling a federation is measured against.

    python benchmarks/baselines/centralised.py COHORT [--norm group|batch] [--epochs 8] [--lr 0.03] [--rr]

All patients' beats become one client, trained by the product's own loop. Prints one JSON object: macro-F1 on the test
pool after the last epoch (the test split is read once), validation macro-F1 and seconds of every epoch.
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option

from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import CONVENTIONS, confusion, macro_f1
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.core.federation.plan import TrainPlan, available_cores
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.server_sgd import PlainMeanSettings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.parts import count_parameters
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID


class Epochs(Callback):
    """Notes loss, validation score and time of every epoch."""

    def __init__(self, method: FedAvg, cohort: Cohort, data: TrainingData) -> None:
        self.method, self.cohort, self.data = method, cohort, data
        self.epochs: list[dict[str, float]] = []
        self.since = time.perf_counter()

    def on_round(self, outcome: RoundOutcome) -> None:
        """Note this epoch."""
        seconds = time.perf_counter() - self.since
        valid = score(self.method, outcome.state, self.cohort, self.data, VALID)["any"]
        loss = outcome.record["loss_mean"]
        self.epochs.append({"loss": round(loss, 4), "valid": round(valid, 4), "s": round(seconds, 1)})
        self.since = time.perf_counter()


def score(method: FedAvg, state: State, cohort: Cohort, data: TrainingData, split: int) -> dict[str, float]:
    rows = cohort.pool(split)
    answer = method.global_model(state.server, (), "ensemble")
    labels = Predictor(method.net, data, rows, available_cores()).labels(answer)
    matrix = confusion(cohort.label[rows].astype(np.int64), labels, len(cohort.classes))
    return {convention: macro_f1(matrix, convention) for convention in CONVENTIONS}


def main(options: argparse.Namespace) -> None:
    cohort = open_cohort(options.cohort)
    data = training_data(cohort, rr=options.rr)
    pooled = dataclasses.replace(data, clients=np.array([0]), rows={0: cohort.pool(TRAIN)})
    net = ResNet1d(NetSpec(len(cohort.classes), norm=options.norm, rr=options.rr))
    method = FedAvg(net, PlainMeanSettings(lr=options.lr, momentum=0.9))
    plan = TrainPlan(rounds=options.epochs, local_epochs=1, seed=options.seed)
    epochs = Epochs(method, cohort, data)
    started = time.perf_counter()
    with ThreadEngine(pooled, plan, 1) as engine:
        state = train(method, pooled, plan, engine, initial_state(method, plan), [epochs])
    seconds = time.perf_counter() - started
    print(
        json.dumps(
            {
                "norm": options.norm,
                "rr": options.rr,
                "epochs": options.epochs,
                "lr": options.lr,
                "seed": options.seed,
                "parameters": count_parameters(state.server["model"]),
                "seconds": round(seconds, 1),
                "test_macro_f1": score(method, state, cohort, data, TEST),
                "per_epoch": epochs.epochs,
            }
        )
    )


if __name__ == "__main__":
    benchmark(
        main,
        option("cohort", type=Path),
        option("--norm", default="group"),
        option("--epochs", type=int, default=8),
        option("--lr", type=float, default=0.03),
        option("--seed", type=int, default=0),
        option("--rr", action="store_true"),
        standard=False,
    )
