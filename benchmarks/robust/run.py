"""One of ten sites is malicious: what T_g is left, by attack and by aggregation.

    python benchmarks/robust/run.py --source MITDB --work DIR

The 46 MIT-BIH clients by record are dealt out to ten sites, one client of the federation each (client i to site i mod
10). The first site attacks in every round: it trains on turned labels (class c becomes 11 - c), sends its update with
the sign turned, or ten times as long, or both. FedAvg with the plain server step, 8 local steps of 32 beats, RR
features on. T_g is macro-F1 of the global model on all test beats together, the malicious site's own patients' too, for
their test labels are right. Nothing was tuned: rounds and learning rate are round numbers, the defences are at their
defaults. Test beats are scored once, after the last round.

Every finished run is written into ``runs.json`` beside this file at once; what is there is not run again.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, mean_of, prepared, remembered, save, table

import ecgfed
from ecgfed.base.errors import RunError
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.core.federation.client_round import ClientEngine, ClientResult, ClientWork
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.core.federation.engine_choice import open_engine
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import net_spec
from ecgfed.domain.cohort.split import TEST

SITES, MALICIOUS, SEEDS = 10, 0, (0,)
PLAN = TrainPlan(rounds=200, local_epochs=None, local_steps=8, batch_size=32)
SETTINGS = {"lr": 0.02, **PLAIN_MEAN}
DEFENCES = ("mean", "median", "trimmed-mean", "norm-bound")
RUNS = Path(__file__).with_name("runs.json")


@dataclass(frozen=True)
class Attack:
    """What the malicious site does.

    Attributes:
        labels: whether it trains on turned labels.
        times: what its update is multiplied by.
    """

    labels: bool = False
    times: float = 1.0


ATTACKS = {
    "none": Attack(),
    "label flip": Attack(labels=True),
    "sign flip": Attack(times=-1.0),
    "update x 10": Attack(times=10.0),
    "label flip, x 10": Attack(labels=True, times=10.0),
    "sign flip, x 10": Attack(times=-10.0),
}


class Malicious:
    """An engine one of whose clients multiplies its update.

    Args:
        engine: runs all of them.
        times: what it multiplies by.
    """

    def __init__(self, engine: ClientEngine, times: float) -> None:
        self.engine, self.times = engine, times

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients of a round."""
        results = self.engine.run(method, work)
        place = [one.info.index for one in work].index(MALICIOUS)
        down = flatten(work[place].shared)
        sent = {p: down[p] + self.times * (v - down[p]) for p, v in flatten(results[place].returned).items()}
        results[place] = replace(results[place], returned=unflatten(sent))
        return results


def sites_of(cohort: ecgfed.Cohort) -> TrainingData:
    """Return the federation of ten sites, each a client with its patients' beats."""
    data = training_data(cohort, rr=True)
    rows = {
        site: np.concatenate([data.rows[int(client)] for client in data.clients[site::SITES]]) for site in range(SITES)
    }
    return replace(data, clients=np.arange(SITES), rows=rows, ids={}, valid_rows={})


def turned(data: TrainingData) -> TrainingData:
    """Return the federation with the malicious site's labels turned: class c becomes the last but c."""
    label = np.array(data.label)
    own = data.rows[MALICIOUS]
    label[own] = data.classes - 1 - label[own]
    return replace(data, label=label)


def score(method: Method, model: Any, cohort: ecgfed.Cohort, rows: NDArray[np.int64]) -> float:
    """Macro-F1 of a global model on rows of the cohort."""
    predictor = Predictor(method.net, training_data(cohort, rr=True), rows, workers=1)
    found = predictor.labels(method.global_model(model, (), "ensemble"))
    return macro_f1(confusion(cohort.label[rows], found, len(cohort.classes)))


def one_run(cohort: ecgfed.Cohort, attack: str, defence: str, seed: int) -> dict[str, Any]:
    """Train and score one run."""
    how, data = ATTACKS[attack], sites_of(cohort)
    spec = net_spec(len(cohort.classes), cohort.modality, rr=True, rr_version=cohort.rr_version)
    kind = method_by_name("fedavg")
    settings: Any = make_settings(kind.settings_type, SETTINGS)
    method, plan = kind(make_net(spec), settings), replace(PLAN, seed=seed, aggregation=defence)
    data = turned(data) if how.labels else data
    try:
        with open_engine(data, plan, device="cpu", engine="threads", workers=1) as engine:
            state = train(method, data, plan, Malicious(engine, how.times), initial_state(method, plan))
    except RunError as problem:  # a loss or a weight that is not finite
        return {"T_g": None, "ended": problem.line}
    rows = np.concatenate([cohort.rows(client, TEST) for client in cohort.federation])
    return {"T_g": score(method, state.server, cohort, rows)}


def _cell(scores: list[float | None]) -> str:
    """Return the mean of the seeds; where one ended in numbers that are none, that word."""
    there = [one for one in scores if one is not None]
    return mean_of(there) if len(there) == len(scores) else "diverged"


def page_of(results: dict[str, Any]) -> str:
    """Return the page's part: T_g on test beats, mean of the seeds."""
    runs = results["runs"]
    body = [
        (
            attack,
            *(_cell([runs[f"{attack}/{defence}/{seed}"]["T_g"] for seed in results["seeds"]]) for defence in DEFENCES),
        )
        for attack in ATTACKS
    ]
    seeds = "one seed" if len(results["seeds"]) == 1 else f"mean of {len(results['seeds'])} seeds"
    head = (
        f"T_g on MIT-BIH, one of {results['sites']} sites malicious, {results['rounds']} rounds of FedAvg, {seeds} "
        f"(`python benchmarks/robust/run.py --source MITDB --work DIR`):"
    )
    return "\n".join([head, "", *table(("the malicious site", *DEFENCES), body)])


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record")
    runs = {}
    for seed in SEEDS:
        for attack in ATTACKS:
            for defence in DEFENCES:
                name = f"{attack}/{defence}/{seed}"
                runs[name] = remembered(
                    RUNS,
                    name,
                    lambda a=attack, d=defence, s=seed: one_run(cohort, a, d, s),  # type: ignore[misc]
                    cohort,
                )
    results = {"seeds": list(SEEDS), "sites": SITES, "rounds": PLAN.rounds, "runs": runs}
    save(given, results)
    print(page_of(results))


if __name__ == "__main__":
    benchmark(main)
