"""How the gate decides for two beats of one patient: ``python docs/images/gate/look.py`` writes ``numbers.json``.

Eleven synthetic patients train ``fed-gate``; demo04 takes no part. Its gate is made of its beats before its first
ventricular one, so that it knows R and A and has never had a V. Shown are a usual beat and a V of later.
"""

import json
import tempfile
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

import ecgfed
from ecgfed.core.federation.data import training_data
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.parts import head_of
from ecgfed.core.nets.personal_head import gated_logits, kernel_logits, squared_distances
from ecgfed.core.personal.apply import PersonalModels
from ecgfed.core.personal.base import descriptions_of
from ecgfed.core.personal.gated import Gated

HERE = Path(__file__).parent
PATIENT = "demo04"
#: Samples of a recording a second.
FS_HZ = 360


class Beat(TypedDict):
    """One beat and what decides about it; logits and probabilities are in the order of the classes."""

    time_s: float
    marked: str
    window_mv: list[float]
    nearest_mv: list[float]
    global_logits: list[float]
    own: list[float]
    distance: float
    mixture: list[float]


class Numbers(TypedDict):
    """What ``numbers.json`` holds."""

    classes: list[str]
    own_beats: dict[str, int]
    first_foreign_s: float
    gate: dict[str, list[float]]
    beats: list[Beat]
    later: dict[str, int]


def kept_window(params: Params, described: Tensor, own: Tensor) -> int:
    """Return which of the patient's own beats (beats, D) is the kept one that is nearest to a beat (1, D)."""
    nearest = params["own.kept"][int(squared_distances(params, described).argmin())]
    points = (own - params["own.shift"]) * params["own.scale"]
    return int((points - nearest).square().sum(1).argmin())


def numbers(folder: Path) -> Numbers:
    """Train in an empty folder, make the patient's gate, and look at its later beats."""
    cohort = ecgfed.prepare_demo(folder / "cohort", minutes=2, holdout=[PATIENT])
    run = ecgfed.train(
        cohort, folder / "run", method="fed-gate", rounds=25, local_steps=4, seed=0, eval_every=0, engine="threads"
    )
    data, classes = training_data(cohort, rr=True), cohort.classes
    (patient,) = (client for client in cohort.clients if client.id == PATIENT)
    rows = np.sort(np.concatenate([cohort.rows(patient, split) for split in range(3)]))
    rows = rows[np.argsort(cohort.sample[rows])]
    marked = "".join(classes[label] for label in cohort.label[rows])
    first = marked.index("V")
    before, later = data.batch(torch.as_tensor(rows[:first])), data.batch(torch.as_tensor(rows[first:]))
    answers = PersonalModels(run, run.state(), Gated(), lambda: data)
    params = answers.from_beats(before, None, patient.index).stages[-1].params
    model = answers.model
    own_described, described = (descriptions_of(run.net, model, some) for some in (before, later))
    with torch.inference_mode():
        logits = run.net.classify(head_of(model), described[:, : run.net.features])
        mixture = gated_logits(params, described, logits).exp()
        own = torch.softmax(kernel_logits(params, described) + params["gate.backing"] * logits, dim=1)
        distance = (squared_distances(params, described).amin(1) / params["gate.reach"]).sqrt()
    symbol = marked[first:]
    told = "".join(classes[one] for one in mixture.argmax(1).tolist())
    of_all = "".join(classes[one] for one in logits.argmax(1).tolist())
    of_own = "".join(classes[one] for one in own.argmax(1).tolist())
    # a usual beat that the global model takes for another, and a V
    usual = next(i for i, one in enumerate(symbol) if one == of_own[i] == "R" and of_all[i] == "N" and i > 10)
    shown = (usual, symbol.index("V", 1))

    def beat(number: int) -> Beat:
        row = rows[first + number]
        like = rows[kept_window(params, described[number : number + 1], own_described)]
        return {
            "time_s": round(float(cohort.sample[row]) / FS_HZ, 2),
            "marked": symbol[number],
            "window_mv": [round(float(one), 3) for one in cohort.beats[row, 0, ::2]],
            "nearest_mv": [round(float(one), 3) for one in cohort.beats[like, 0, ::2]],
            "global_logits": logits[number].tolist(),
            "own": own[number].tolist(),
            "distance": float(distance[number]),
            "mixture": mixture[number].tolist(),
        }

    right = {
        name: sum(a == b for a, b in zip(some, symbol, strict=True))
        for name, some in (("own", of_own), ("global", of_all), ("gate", told))
    }
    return {
        "classes": list(classes),
        "own_beats": {one: marked[:first].count(one) for one in sorted(set(marked[:first]))},
        "first_foreign_s": round(float(cohort.sample[rows[first]]) / FS_HZ, 2),
        "gate": {name[5:]: value.tolist() for name, value in params.items() if name.startswith("gate.")},
        "beats": [beat(number) for number in shown],
        "later": {"beats": len(symbol), **right},
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = numbers(Path(temporary))
    (HERE / "numbers.json").write_text(json.dumps(found) + "\n", "utf-8")
