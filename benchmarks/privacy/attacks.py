"""What can be read out of updates and models, with and without differential privacy: three attacks on MIT-BIH.

    python benchmarks/privacy/attacks.py --source MITDB --work DIR

- **Gradient inversion** (``inversion.py``): does the beat come back from one patient's update? FedAvg on windows alone,
  learning rate 0.02, momentum 0.9, a few patients, at the model that nobody has trained: where updates tell most.
- **Membership** by the threshold on the loss (Yeom et al., CSF 2018): the area under the ROC curve of telling beats
  that were trained on from the same patient's test beats, mean over the patients; and of telling patients who took
  part from those who did not, by the mean loss on their test beats (the federation is then every second patient).
- **Whose is it?** A model that one patient returned, or a personal extractor, is given no name: the patient of the 46
  whose test beats it fits best, beyond what the global model does, is named.

The models are those of ``dp.py`` (the same ``--work``): without privacy, and with the noise of ``PRIVATE``. Noise
before an update leaves is that of ``LEAVING``. Every finished attack is written into ``attack-runs.json`` beside this
file.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, prepared, remembered, save, table
from dp import BATCH, CLIP, ROUNDS, STEPS, run_of
from inversion import Seen, batch_of, correlations, inferred_labels, invert, matched, overlap
from scipy.stats import rankdata

import ecgfed
from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.federation.client_round import ClientResult, ClientWork, run_client
from ecgfed.core.federation.data import TrainingData, local_batches, local_rows, training_data
from ecgfed.core.federation.engine_choice import open_engine
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import client_work, initial_state, train
from ecgfed.core.federation.updates import noised_results
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import net_spec
from ecgfed.domain.cohort.split import TEST

RUNS = Path(__file__).with_name("attack-runs.json")
#: Rows of ``dp.py``: no privacy, and the noise at the server whose models are looked at.
PLAIN, PRIVATE = "none", "server, z = 0.1"
#: Noise of an update before it leaves, z.
LEAVING = 0.1
#: local steps, beats of a step, iterations of the attack
CASES = {"1 step of 1 beat": (1, 1, 250), "1 step of 16": (1, 16, 150), "4 steps of 1": (4, 1, 150),
         "4 steps of 16": (4, 16, 60)}  # fmt: skip
VICTIMS = (0, 15, 30, 45)
#: Noise on the updates that are inverted, z; None is no privacy at all.
NOISES = {"none": None, "z = 0.1": LEAVING}
SECRET = b"benchmarks/privacy: known to all, so that the attacks can be run again"
#: The most test beats of a patient that a named model is tried on.
TRIED = 40


def federated(cohort: ecgfed.Cohort, name: str, settings: dict[str, Any], *, rr: bool) -> Method:
    """Return a method on the default net."""
    kind = method_by_name(name)
    made: Any = make_settings(kind.settings_type, settings)
    spec = net_spec(len(cohort.classes), cohort.modality, rr=rr, rr_version=cohort.rr_version)
    return kind(make_net(spec), made)


def in_process(method: Method, data: TrainingData, plan: TrainPlan) -> State:
    """Train here and keep nothing on the disk; noise is drawn from ``SECRET``."""
    with open_engine(data, plan, device="cpu", engine="batched", workers=1) as engine:
        return train(method, data, plan, engine, initial_state(method, plan), secret=SECRET)


@single_torch_thread()
def a_round(
    method: Method, data: TrainingData, plan: TrainPlan, state: State, clients: Sequence[int]
) -> list[tuple[ClientWork, ClientResult]]:
    """Return one more round of some clients, after ``state``, as it leaves them."""
    first = method.net.initial(plan.seed)
    where = {"initial": first, "number": state.round + 1, "progress": min(state.round / plan.rounds, 0.999)}
    work = [client_work(method, data, plan, state, client, **where) for client in clients]
    results = [run_client(method, data, plan, one) for one in work]
    return list(zip(work, noised_results(method, plan, work, results, SECRET), strict=True))


# ---- gradient inversion


def mean_beats(cohort: ecgfed.Cohort) -> NDArray[np.float64]:
    """Each patient's mean test beat of its commonest class, (patients, 256)."""
    found = []
    for client in cohort.federation:
        rows = cohort.rows(client, TEST)
        label = cohort.label[rows]
        found.append(np.asarray(cohort.examples)[rows[label == np.bincount(label).argmax()], 0].mean(0, dtype=float))
    return np.stack(found)


def inversion(cohort: ecgfed.Cohort, state: State, method: Method, case: str, noise: float | None) -> dict[str, Any]:
    """Invert one round's update of each victim."""
    steps, batch, iterations = CASES[case]
    data = training_data(cohort, rr=False)
    plan = TrainPlan(max(state.round + 1, 1), None, steps, batch_size=batch)
    if noise is not None:
        plan = replace(plan, dp_clip=CLIP, dp_noise=noise, dp_at="patient")
    draw, known = np.random.default_rng(7), mean_beats(cohort)
    found: dict[str, list[float]] = {name: [] for name in ("correlation", "guess", "named", "labels", "loss")}
    for place, (work, result) in zip(VICTIMS, a_round(method, data, plan, state, VICTIMS), strict=True):
        true, labels = batch_of(list(local_batches(data, plan, place, work.beats_used, 1)))
        sent, back = work.shared["model"], result.returned["model"]
        seen = Seen(sent, {name: back[name] - value for name, value in sent.items()}, steps, batch)
        others = np.delete(known, place, axis=0)
        guess = torch.from_numpy(others[draw.integers(0, len(others), 32)]).float().unsqueeze(1)
        told = inferred_labels(method.net, seen, method.settings, guess)
        windows, loss = invert(
            method.net,
            seen,
            method.settings,
            told,
            typical=others.mean(0),
            iterations=iterations,
            seed=place,
            starts=3 if len(told) == 1 else 1,
        )
        found["correlation"] += matched(windows, true).tolist()
        found["guess"] += correlations(others.mean(0, keepdims=True), true)[0].tolist()
        nearest = correlations(windows, known).argmax(1)
        found["named"] += (nearest == place).tolist()
        found["labels"].append(overlap(told, labels))
        found["loss"].append(loss)
    return {name: float(np.mean(values)) for name, values in found.items()} | {"victims": len(VICTIMS)}


# ---- membership


def beat_losses(method: Method, chain: Pipeline, data: TrainingData, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Cross-entropy of each row, (rows,)."""
    parts = []
    with torch.inference_mode():
        for start in range(0, len(rows), 512):
            batch = data.batch(rows[start : start + 512])
            logits = chain_logits(method.net, chain, batch.inputs)
            parts.append(torch.nn.functional.cross_entropy(logits, batch.label, reduction="none").double().numpy())
    return np.concatenate(parts)


def area(inside: NDArray[np.floating], outside: NDArray[np.floating]) -> float:
    """Area under the ROC curve of "a small loss was trained on" (Mann and Whitney's U)."""
    ranks = rankdata(np.concatenate([-inside, -outside]))
    n, m = len(inside), len(outside)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def whole(model: Any) -> Pipeline:
    """A model as an answer."""
    return Pipeline((Stage("model", model, shared=False),))


def membership(cohort: ecgfed.Cohort, run: ecgfed.Run, plan: TrainPlan) -> dict[str, Any]:
    """Beats of training against test beats, by shipped models and by those of one more round; means over the patients.

    Args:
        cohort: the cohort.
        run: whose models are shipped.
        plan: of the one more round.
    """
    method, state, data = run.method, run.state(), training_data(cohort, rr=True)
    shipped, personal, returned = [], [], []
    with single_torch_thread():
        for client in cohort.federation:
            place, test = client.index, cohort.rows(client, TEST)
            trained = data.rows[place][np.random.default_rng(place).permutation(len(data.rows[place]))[:200]]
            chain = method.global_model(state.server, (), "ensemble")
            shipped.append(area(*(beat_losses(method, chain, data, rows) for rows in (trained, test))))
            own = method.personal_model(state.server, state.client_states[place])
            personal.append(area(*(beat_losses(method, own, data, rows) for rows in (trained, test))))
            ((work, result),) = a_round(method, data, plan, state, [place])
            just = np.concatenate([rows for (rows,) in local_rows(data, plan, place, work.beats_used, 1)])
            model = whole(result.returned["model"])
            returned.append(area(*(beat_losses(method, model, data, rows) for rows in (just, test))))
    each = {"shipped global model": shipped, "shipped personal model": personal, "returned model": returned}
    return {name: {"mean": float(np.mean(v)), "most": float(np.max(v))} for name, v in each.items()}


def took_part(cohort: ecgfed.Cohort, plan: TrainPlan) -> dict[str, Any]:
    """Patients who took part against those who did not, by the global model's mean loss on their test beats."""
    data = training_data(cohort, rr=True)
    inside = data.clients[::2]
    half = replace(data, clients=inside, rows={int(c): data.rows[int(c)] for c in inside})
    method = federated(cohort, "grp-fed", {"personalise": False}, rr=True)
    state = in_process(method, half, plan)
    chain = method.global_model(state.server, (), "ensemble")
    loss = [float(beat_losses(method, chain, data, cohort.rows(c, TEST)).mean()) for c in cohort.federation]
    took = np.isin([client.index for client in cohort.federation], inside)
    losses = np.array(loss)
    return {"area": area(losses[took], losses[~took]), "inside": int(took.sum()), "outside": int((~took).sum())}


# ---- whose is it?


def named(cohort: ecgfed.Cohort, run: ecgfed.Run, what: str, plan: TrainPlan) -> dict[str, Any]:
    """Name the patient of each model without a name: share that is right, and the median rank of the true one."""
    method, state, data = run.method, run.state(), training_data(cohort, rr=True)
    patients = [client.index for client in cohort.federation]
    tried = {client.index: cohort.rows(client, TEST)[:: max(1, len(cohort.rows(client, TEST)) // TRIED)]
             for client in cohort.federation}  # fmt: skip
    together = np.concatenate([tried[place] for place in patients])
    edges = np.cumsum([0, *(len(tried[place]) for place in patients)])[:-1]
    counts = np.array([len(tried[place]) for place in patients])
    with single_torch_thread():
        chain = method.global_model(state.server, (), "ensemble")
        base = np.add.reduceat(beat_losses(method, chain, data, together), edges) / counts
        ranks = []
        for place in patients:
            if what == "extractor":
                model = method.personal_model(state.server, state.client_states[place])
            else:
                ((_, result),) = a_round(method, data, plan, state, [place])
                model = whole(result.returned["model"])
            gain = base - np.add.reduceat(beat_losses(method, model, data, together), edges) / counts
            ranks.append(int((gain > gain[patients.index(place)]).sum()) + 1)
    right = float(np.mean(np.array(ranks) == 1))
    return {"right": right, "median_rank": float(np.median(ranks)), "patients": len(patients)}


# ---- all of it


def inversion_rows(results: dict[str, Any]) -> str:
    """Return the page's table of inversions."""
    body = [
        (case, noise, *(f"{one[key]:.2f}" for key in ("correlation", "guess")), f"{100 * one['named']:.0f}%",
         f"{100 * one['labels']:.0f}%")
        for name, one in results["inversion"].items()
        for case, noise in [name.split("/")]
    ]  # fmt: skip
    head = ("update", "noise", "correlation", "a guess's", "names the patient", "labels right")
    return "\n".join(table(head, body))


def other_rows(results: dict[str, Any]) -> str:
    """Return the page's table of membership and names."""
    member, took, named_ones = results["membership"], results["took_part"], results["named"]
    both = (PLAIN, PRIVATE)
    body = [
        (f"beat in training? {what}, area", *(f"{member[row][what]['mean']:.3f}" for row in both))
        for what in ("shipped global model", "shipped personal model", "returned model")
    ]
    body.append(("patient in training? shipped global model, area", *(f"{took[row]['area']:.3f}" for row in both)))
    for what, words in (("model", "whose returned model?"), ("extractor", "whose personal extractor?")):
        right = (f"{100 * named_ones[name]['right']:.0f}%" for name in (what, f"{what}, private"))
        body.append((f"{words} right, of {named_ones[what]['patients']}", *right))
    return "\n".join(table(("attack", "no privacy", "with noise"), body))


def page_of(results: dict[str, Any]) -> str:
    """Return the page's part: both tables."""
    head = (
        f"Updates of {results['victims']} patients, C = {results['clip']:g}, noise before they leave "
        "(`python benchmarks/privacy/attacks.py --source MITDB --work DIR`):"
    )
    other = (
        f"Membership and names. Noise: {results['private']} for what is shipped, z = {results['leaving']:g} before it "
        "leaves for what is returned; an area of 0.5 is a guess:"
    )
    return "\n".join([head, "", inversion_rows(results), "", other, "", other_rows(results)])


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record")
    results: dict[str, Any] = {"clip": CLIP, "leaving": LEAVING, "private": PRIVATE, "victims": len(VICTIMS)}
    runs = {row: run_of(cohort, given.work, row) for row in (PLAIN, PRIVATE)}
    noise = runs[PRIVATE].plan.dp_noise
    base = TrainPlan(ROUNDS, None, STEPS, batch_size=BATCH)
    leaving = replace(base, dp_clip=CLIP, dp_noise=LEAVING, dp_at="patient")
    results["membership"] = {
        row: remembered(RUNS, f"membership/{row}", partial(membership, cohort, runs[row], plan), cohort)
        for row, plan in ((PLAIN, base), (PRIVATE, leaving))
    }
    results["took_part"] = {
        row: remembered(RUNS, f"took part/{row}", partial(took_part, cohort, plan), cohort)
        for row, plan in ((PLAIN, base), (PRIVATE, replace(base, dp_clip=CLIP, dp_noise=noise)))
    }
    results["named"] = {
        name: remembered(RUNS, f"named/{name}", partial(named, cohort, runs[row], what, plan), cohort)
        for name, row, what, plan in (
            ("model", PLAIN, "model", base),
            ("model, private", PLAIN, "model", leaving),
            ("extractor", PLAIN, "extractor", base),
            ("extractor, private", PRIVATE, "extractor", base),
        )
    }
    results["inversion"] = inversions(cohort)
    save(given, results)
    print(page_of(results))


def inversions(cohort: ecgfed.Cohort) -> dict[str, Any]:
    """Invert updates in every case, with every noise."""
    method = federated(cohort, "fedavg", {"lr": 0.02, "momentum": 0.9}, rr=False)
    state = initial_state(method, TrainPlan())
    return {
        f"{case}/{noise}": remembered(
            RUNS, f"inversion/{case}/{noise}", partial(inversion, cohort, state, method, case, deviation), cohort
        )
        for case in CASES
        for noise, deviation in NOISES.items()
    }


if __name__ == "__main__":
    benchmark(main, results="attacks.json")
