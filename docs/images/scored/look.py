"""What each model answers on whose beats: ``python docs/images/scored/look.py`` writes ``numbers.json``.

The run is the one of ``docs/images/grp-fed``: GRP-FED, 25 rounds, eight synthetic patients of two minutes.
"""

import json
import tempfile
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

import ecgfed
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.federation.data import training_data
from ecgfed.domain.cohort.split import TEST

HERE = Path(__file__).parent


class Numbers(TypedDict):
    """What ``numbers.json`` holds: a symbol a test beat of each client; the answers of the global model come first."""

    clients: list[str]
    classes: list[str]
    truth: list[str]
    answers: list[list[str]]
    scores: dict[str, float]


def numbers(folder: Path) -> Numbers:
    """Train in an empty folder, and look at what each model answers on each client's test beats."""
    cohort = ecgfed.prepare_demo(folder / "cohort", patients=8, minutes=2)
    run = ecgfed.train(
        cohort, folder / "run", method="grp-fed", rounds=25, local_steps=4, seed=0, eval_every=0, engine="threads"
    )
    state, data = run.state(), training_data(cohort, rr=True)
    models = [run.method.global_model(state.server, (), "ensemble")]
    models += [
        run.method.personal_model(state.server, run.client_state(state, client.index)) for client in cohort.clients
    ]
    rows = [cohort.rows(client, TEST) for client in cohort.clients]
    predictors = [Predictor(run.net, data, some, 1) for some in rows]

    def symbols(labels: NDArray[np.integer]) -> str:
        return "".join(cohort.classes[label] for label in labels)

    scores = ecgfed.evaluate(run, local_models=False)
    return {
        "clients": [client.id for client in cohort.clients],
        "classes": list(cohort.classes),
        "truth": [symbols(cohort.label[some]) for some in rows],
        "answers": [[symbols(one.labels(model)) for one in predictors] for model in models],
        "scores": {"T_g": scores.T_g, "T_p": scores.T_p, "T_r": scores.T_r, "T_l": scores.T_l},
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = numbers(Path(temporary))
    (HERE / "numbers.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
