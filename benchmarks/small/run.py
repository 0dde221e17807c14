"""A net small enough for a microcontroller by version of its RR features, on patients it has not seen.

``python benchmarks/small/run.py --data DATA --work DIR``

DATA holds the folders ``mitdb``, of which only the DS1 records are read, and ``svdb``. For each version of the RR
features, the same net is trained by the same federation (FedAvg with Adam at the server, a client a patient, augmented
batches; with version 4 the interval after a beat is void in some of them) without a fold of both databases' patients,
and read on them; annotated R peaks, first lead. With version 4 it is read once more with every interval after a beat
void, as of a device that answers before the next beat. Version 1 has no share of the window (``--window-share``). A
part, one version and fold, is stored in DIR when it is done; ``--part 4-0`` computes one part alone.

Counts are pooled over patients. As in EC57, F and Q beats that are called V, and Q beats called S, count for nothing.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

import ecgfed
from ecgfed.base.errors import RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.core.nets.parts import count_parameters
from ecgfed.domain.beats.past import FEATURES
from ecgfed.domain.cohort.cohort import Cohort

VERSIONS = (1, 2, 4)
SITES = {"ds1": "mitdb", "svdb": "svdb"}
SETTINGS = {**common.SAME_SERVER, "server_beta2": 0.999, "server_lr": 0.005}
PLAN: dict[str, Any] = {
    "local_epochs": None,
    "local_steps": 1,
    "batch_size": 64,
    "clients_per_round": 8,
    "most_per_class": 800,
}
#: Beats that are read at once.
AT_ONCE = 4096


def cohort_of(given: argparse.Namespace, version: int) -> Cohort:
    """Return the cohort of both databases, made where it is not there."""
    ds1, joined = given.work / "ds1", given.work / f"joined-{version}"
    if joined.is_dir():
        return ecgfed.open_cohort(joined)
    ds1.mkdir(parents=True, exist_ok=True)
    for record in common.DS1:
        for file in (given.data / "mitdb").glob(f"{record}.*"):
            if not (ds1 / file.name).is_symlink():
                (ds1 / file.name).symlink_to(file)
    how: dict[str, Any] = {"classes": "aami5", "rr_version": version, "workers": 1}
    sites = {site: given.work / f"{site}-{version}" for site in SITES}
    if not sites["ds1"].is_dir():
        ecgfed.prepare_folder(ds1, sites["ds1"], leads="MLII", **how)
    if not sites["svdb"].is_dir():
        ecgfed.prepare_database("svdb", given.data / "svdb", sites["svdb"], **how)
    return ecgfed.join_cohorts(sites, joined)


def fold_of(cohort: Cohort, folds: int) -> dict[int, int]:
    """Return the fold of each client, those of a site with many ectopic beats divided evenly."""
    ectopic = np.isin(cohort.label, [cohort.classes.index(name) for name in "SV"])
    counts = np.bincount(cohort.client[ectopic], minlength=len(cohort.clients))
    found: dict[int, int] = {}
    for site in SITES:
        ordered = sorted(cohort.sites[site], key=lambda one: (-counts[one.index], one.id))
        # 0 1 2 2 1 0 0 1 2: no fold gets the larger of every pair
        found |= {one.index: min(i % (2 * folds), 2 * folds - 1 - i % (2 * folds)) for i, one in enumerate(ordered)}
    return found


def trained(given: argparse.Namespace, cohort: Cohort, version: int, left_out: set[int]) -> tuple[Net, Pipeline]:
    """Train on the patients that are not left out; return the net and the global model."""
    share = 1.0 if version == 1 else given.window_share
    spec = NetSpec(len(cohort.classes), "default", rr=True, rr_version=version, width=given.width, window_share=share)
    kind = method_by_name("fedavg")
    method = kind(make_net(spec), make_settings(kind.settings_type, SETTINGS))
    data = training_data(cohort, rr=True, most_per_class=PLAN["most_per_class"])
    remaining = np.array([one for one in data.clients if int(one) not in left_out])
    data = replace(data, clients=remaining, valid_rows={})
    plan = TrainPlan(rounds=given.rounds, augment=True, seed=given.seed, **PLAN)
    with ThreadEngine(data, plan, 1) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan))
    model = method.global_model(state.server, [{} for _ in data.clients], "one model")
    assert isinstance(model, Pipeline)
    return method.net, model


def confusion(
    net: Net, model: Pipeline, cohort: Cohort, rows: NDArray[np.int64], *, next_void: bool
) -> NDArray[np.int64]:
    """Return (classes, classes) counts of some beats, by reference and answer."""
    counts = np.zeros((len(cohort.classes),) * 2, np.int64)
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]
        rr = np.array(cohort.rr[some])
        if next_void:
            rr[:, [i for i, name in enumerate(FEATURES) if name.startswith("next_over_")]] = 0
            rr[:, FEATURES.index("void_next")] = 1
        with torch.inference_mode():
            logits = chain_logits(net, model, Inputs(torch.from_numpy(cohort.examples[some]), torch.from_numpy(rr)))
        np.add.at(counts, (cohort.label[some], logits.argmax(1).numpy()), 1)
    return counts


def part(given: argparse.Namespace, version: int, fold: int) -> dict[str, Any]:
    """Return confusion counts of a fold's patients by site; trained now unless they are in the work folder."""
    file = given.work / "parts" / f"{version}-{fold}.json"
    settings = {name: getattr(given, name) for name in ("rounds", "folds", "width", "window_share", "seed")}
    if file.is_file():
        stored = read_json(file, RunError)
        if stored["settings"] != settings:
            raise RunError(file, f"was made with {stored['settings']}", str(settings), "name another --work")
        return dict(stored["counts"])
    cohort = cohort_of(given, version)
    of_client = fold_of(cohort, given.folds)
    left_out = {client for client, number in of_client.items() if number == fold}
    net, model = trained(given, cohort, version, left_out)
    counts: dict[str, Any] = {"parameters": count_parameters(net.initial(0))}
    for site in SITES:
        new = [one.index for one in cohort.sites[site] if one.index in left_out]
        rows = np.flatnonzero(np.isin(cohort.client, new))
        reads = {"counts": False} | ({"next_void": True} if version == 4 else {})
        counts[site] = {
            name: confusion(net, model, cohort, rows, next_void=void).tolist() for name, void in reads.items()
        }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {"settings": settings, "counts": counts})
    print(f"{version}-{fold}: done, {counts}", flush=True)
    return counts


def scores(counts: NDArray[np.int64], classes: tuple[str, ...]) -> dict[str, Any]:
    """Return VEB and SVEB F1, sensitivity and positive predictivity in percent."""
    at = {name: i for i, name in enumerate(classes)}
    by_kind: dict[str, Any] = {}
    for name, kind, no_matter in (("VEB", "V", "FQ"), ("SVEB", "S", "Q")):
        called = counts[:, at[kind]].sum() - sum(counts[at[other], at[kind]] for other in no_matter)
        right, there = counts[at[kind], at[kind]], counts[at[kind]].sum()
        figures = {"f1": 2 * right / (called + there), "se": right / there, "ppv": right / max(called, 1)}
        by_kind[name] = {figure: round(100 * float(value), 1) for figure, value in figures.items()}
    return by_kind


def main(given: argparse.Namespace) -> None:
    """Make one part, or all of them and the table."""
    if given.part:
        version, fold = map(int, given.part.split("-"))
        part(given, version, fold)
        return
    results: dict[str, Any] = {}
    for version in VERSIONS:
        parts = [part(given, version, fold) for fold in range(given.folds)]
        classes = cohort_of(given, version).classes
        for name in ("counts", *(("next_void",) if version == 4 else ())):
            key = f"version {version}" + (", no next beat" if name == "next_void" else "")
            sums = {site: np.sum([one[site][name] for one in parts], axis=0) for site in SITES}
            results[key] = {site: {**scores(sums[site], classes), "counts": sums[site].tolist()} for site in SITES}
            results[key]["parameters"] = parts[0]["parameters"]
    common.save(given, {"recipe": {**SETTINGS, **PLAN, "rounds": given.rounds, "width": given.width}, **results})
    common.print_table(
        ("RR features", *(f"{kind} {site}" for site in SITES for kind in ("VEB", "SVEB"))),
        [(key, *(row[site][kind]["f1"] for site in SITES for kind in ("VEB", "SVEB"))) for key, row in results.items()],
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    common.benchmark(
        main,
        common.option("--data", type=Path, required=True, help="folder with mitdb and svdb"),
        common.option("--work", type=Path, required=True, help="folder for what is made, and not made again"),
        common.option("--results", type=Path, default=Path(__file__).with_name("results.json")),
        common.option("--part", help="make this part alone: version and fold, as 4-0"),
        common.option("--rounds", type=int, default=200),
        common.option("--folds", type=int, default=3),
        common.option("--width", type=float, default=0.5),
        common.option("--window-share", type=float, default=0.3),
        common.option("--seed", type=int, default=0),
        standard=False,
    )
