"""Patients who took no part: what each method makes of their first minutes, on MIT-BIH.

    python benchmarks/newcomers/run.py --source MITDB --work DIR [--passes 10]

Ten patients are held out of training. For five of them (TUNE) several numbers of passes over the first five minutes are
tried, and the best by mean macro-F1 (classes in truth) on the rest of their recordings is taken for the other five
(REPORT). Each method is compared with its own global answer on the same beats. Trainings resume where DIR has them.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import SAME_SERVER, parser, prepared, save, script, trained

from ecgfed import Cohort, Run
from ecgfed.beats.path import BeatOptions, read_beats
from ecgfed.evaluation.newcomer import FirstBeats, adapted, compare, first_beats, from_class_mix

TUNE = ("106", "119", "203", "215", "223")
REPORT = ("200", "213", "221", "228", "233")
EPOCHS = (1, 3, 10, 30)
MINUTES = 5.0
METHODS: dict[str, dict[str, float | str]] = {
    "fedavg": {**SAME_SERVER},
    "grp-fed": {},
    "fed-rod-hyper": {"lr": 0.02},
    "ditto": {**SAME_SERVER, "personal_lr": 0.02},
    "per-fedavg": {**SAME_SERVER},
    "pfedme": {},
    "local": {"lr": 0.02},
}


def patient(record: Path, cohort: Cohort, run: Run) -> FirstBeats:
    beats = read_beats(record, BeatOptions(cohort.leads, "annotated", rr_version=cohort.rr_version))
    labelled, fs_hz = beats.labelled(cohort.labels), beats.recording.fs_hz
    return first_beats(labelled, fs_hz, MINUTES, len(cohort.classes), record.name, rr=run.net.spec.rr)


def mean(scores: list[dict[str, Any]], answer: str) -> dict[str, float]:
    return {key: round(float(np.mean([row[answer][key] for row in scores])), 4) for key in scores[0][answer]}


def measured(run: Run, cohort: Cohort, source: Path) -> dict[str, Any]:
    """Scores of one method on both groups of patients.

    ``personalize`` has one number of passes, and a class mix is scored on the whole recording there; here several
    numbers are tried, and all are scored on the same beats, so its parts are used.
    """
    state = run.state()
    kept = (run.kept(state, client.index) for client in cohort.federation)
    everyone = run.method.global_answer(state.server, kept, "ensemble")
    people = {name: patient(source / name, cohort, run) for name in (*TUNE, *REPORT)}

    def scores(names: tuple[str, ...], epochs: int) -> list[dict[str, Any]]:
        return [
            compare(run, people[n], {"global": everyone, "personal": adapted(run, cohort, state, people[n], epochs)})
            for n in names
        ]

    tuned = {epochs: mean(scores(TUNE, epochs), "personal") for epochs in EPOCHS}
    best = max(EPOCHS, key=lambda epochs: tuned[epochs]["macro_f1_truth"])
    final = scores(REPORT, best)
    found = {
        "rounds": state.round,
        "tune": {str(k): v for k, v in tuned.items()},
        "epochs": best,
        "report": {"global": mean(final, "global"), "personal": mean(final, "personal")},
        "patients": dict(zip(REPORT, final, strict=True)),
    }
    mixes = []
    for name in REPORT:
        mix = people[name].data.class_counts(0).numpy()
        chain = from_class_mix(run, state, mix)
        if chain is not None:
            mixes.append(compare(run, people[name], {"personal": chain}))
    if mixes:
        found["report"]["class_mix_alone"] = mean(mixes, "personal")
    return found


def main() -> None:
    arguments = parser(__doc__, __file__)
    arguments.add_argument("--passes", type=float, default=10)
    given = arguments.parse_args()
    cohort = prepared(given.source, given.work, by="record", holdout=(*TUNE, *REPORT))
    results: dict[str, Any] = {}
    for name, settings in METHODS.items():
        plan = {"local_steps": 4, "batch_size": 64, "passes": given.passes, "rr": True, "eval_every": 0, "seed": 0}
        run = trained(cohort, given.work / name, method=name, settings=settings, **plan)
        results[name] = {"settings": settings, **measured(run, cohort, given.source)}
        row = results[name]["report"]
        print(name, results[name]["epochs"], {k: v["macro_f1_truth"] for k, v in row.items()}, flush=True)
        save(given, {"minutes": MINUTES, "tune": TUNE, "report": REPORT, "methods": results})


if __name__ == "__main__":
    script(main)
