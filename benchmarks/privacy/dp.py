"""What differential privacy costs on MIT-BIH: T_g and T_p by epsilon.

    python benchmarks/privacy/dp.py --source MITDB --work DIR

GRP-FED with its defaults on the 46 clients by record, 30 rounds of 8 local steps of 16 beats, all clients in every
round (few rounds, since every round is charged), seed 0. The clipping norm was chosen on validation beats; test beats
are scored once, after the last round. The noise is drawn from a secret that is not kept here, so that another run of a
row with noise gives other figures.

Every finished run is written into ``dp-runs.json`` beside this file at once; what is there is not run again.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, prepared, remembered, save, scored, short, table, trained

import ecgfed
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.core.federation.data import training_data
from ecgfed.core.privacy.accountant import DELTA
from ecgfed.domain.cohort.split import TEST

CLIP, ROUNDS, STEPS, BATCH = 1.0, 30, 8, 16
#: name -> options of ``ecgfed.train``; ``run_of`` adds ``dp_clip``
ROWS: dict[str, dict[str, Any]] = {
    "none": {},
    "server, z = 0.03": {"dp_noise": 0.03},
    "server, z = 0.1": {"dp_noise": 0.1},
    "server, z = 1": {"dp_noise": 1.0},
    "patient, z = 0.03": {"dp_noise": 0.03, "dp_at": "patient"},
}
#: Clipping norms that were tried, and the row that says which is best on validation beats.
CLIPS, CHOSEN_BY = (0.3, 1.0), "server, z = 0.1"
RUNS = Path(__file__).with_name("dp-runs.json")


def folder_of(work: Path, row: str) -> Path:
    """Return a row's run folder."""
    return work / row.replace(" ", "-").replace(",", "").replace("=", "is")


def run_of(cohort: ecgfed.Cohort, work: Path, row: str, clip: float = CLIP) -> ecgfed.Run:
    """Train a row's run, or open the one that is there."""
    folder = folder_of(work, row if row == "none" else f"{row}, C = {clip:g}")
    how: dict[str, Any] = {} if row == "none" else {"dp_clip": clip}
    return trained(
        cohort,
        folder,
        method="grp-fed",
        rounds=ROUNDS,
        local_steps=STEPS,
        batch_size=BATCH,
        eval_every=0,
        engine="batched",
        workers=1,
        **how,
        **ROWS[row],
    )


def tried(cohort: ecgfed.Cohort, work: Path, clip: float) -> dict[str, Any]:
    """Train the row that ``CLIP`` is chosen by with another clipping norm; on validation beats alone."""

    def make() -> dict[str, Any]:
        valid = scored(run_of(cohort, work, CHOSEN_BY, clip), "valid", local_models=False, workers=1)["scores"]
        return {"valid_T_g": valid["T_g"], "valid_T_p": valid["T_p"]}

    return remembered(RUNS, f"{CHOSEN_BY}, C = {clip:g}", make, cohort)


def scores_of(cohort: ecgfed.Cohort, run: ecgfed.Run) -> dict[str, float]:
    """T_g and T_p on test beats, as ``ecgfed evaluate`` has them; T_r, which takes an hour's share, is left out."""
    data, state, classes = training_data(cohort, rr=True), run.state(), len(cohort.classes)
    everybody = run.method.global_model(state.server, (), "ensemble")
    pool, own = np.zeros((classes, classes), np.int64), list[float]()
    for client in cohort.federation:
        rows = cohort.rows(client, TEST)
        predictor = Predictor(run.net, data, rows, workers=1)
        pool += confusion(cohort.label[rows], predictor.labels(everybody), classes)
        personal = run.method.personal_model(state.server, run.client_state(state, client.index))
        own.append(macro_f1(confusion(cohort.label[rows], predictor.labels(personal), classes)))
    return {"T_g": macro_f1(pool), "T_p": float(np.mean(own))}


def measured(cohort: ecgfed.Cohort, work: Path, row: str) -> dict[str, Any]:
    """Train and score one row."""

    def make() -> dict[str, Any]:
        run = run_of(cohort, work, row)
        return {"epsilon": run.last_record().get("epsilon"), **scores_of(cohort, run)}

    return remembered(RUNS, row, make, cohort)


def page_of(results: dict[str, Any]) -> str:
    """Return the page's part."""
    body = []
    for name, row in results["rows"].items():  # those that were run
        epsilon = "-" if name == "none" else "infinite" if row["epsilon"] is None else short(row["epsilon"])
        body.append((name, epsilon, f"{row['T_g']:.3f}", f"{row['T_p']:.3f}"))
    head = (
        f"GRP-FED on the 46 clients of MIT-BIH, {results['rounds']} rounds of {results['local_steps']} steps of "
        f"{results['batch_size']} beats, C = {results['clip']:g}, epsilon at delta {results['delta']:g}, one seed "
        "(`python benchmarks/privacy/dp.py --source MITDB --work DIR`):"
    )
    return "\n".join([head, "", *table(("noise added by", "epsilon", "T_g", "T_p"), body)])


def main(given: argparse.Namespace) -> None:
    cohort = prepared(given.source, given.work, by="record")
    rows = {row: measured(cohort, given.work, row) for row in ROWS}
    clips = {f"{clip:g}": tried(cohort, given.work, clip) for clip in CLIPS}
    results = {
        "clips": clips,
        "clip": CLIP,
        "rounds": ROUNDS,
        "local_steps": STEPS,
        "batch_size": BATCH,
        "delta": DELTA,
        "rows": rows,
    }
    save(given, results)
    print(page_of(results))


if __name__ == "__main__":
    benchmark(main, results="dp.json")
