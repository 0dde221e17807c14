"""Patients who took no part: what each method makes of their first minutes, on MIT-BIH.

    python benchmarks/newcomers/run.py --source MITDB --work DIR [--passes 10] [--out results.json]

Ten patients are held out of training. For five of them (TUNE) several numbers of passes over the first five minutes are
tried, and the best by mean macro-F1 (classes in truth) on the rest of their recordings is taken for the other five
(REPORT). Each method is compared with its own global answer on the same beats. Trainings resume where DIR has them.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.beats.extract import labelled_beats
from ecgfed.cohort.cohort import Cohort
from ecgfed.evaluation.newcomer import FirstBeats, adapted, compare, first_beats, from_class_mix
from ecgfed.record.wfdb_files import read_annotation, read_recording
from ecgfed.runs.run import Run, open_run

TUNE = ("106", "119", "203", "215", "223")
REPORT = ("200", "213", "221", "228", "233")
EPOCHS = (1, 3, 10, 30)
MINUTES = 5.0
SERVER = {"server_optimizer": "adam", "server_lr": 0.01, "server_momentum": 0.9, "server_schedule": "cosine"}
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"lr": 0.02, **SERVER},
    "grp-fed": {},
    "fed-rod-hyper": {"lr": 0.02},
    "ditto": {"lr": 0.02, "personal_lr": 0.02, **SERVER},
    "per-fedavg": {"lr": 0.02, **SERVER},
    "pfedme": {},
    "local": {"lr": 0.02},
}


def ecgfed(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "ecgfed_cli.main", *map(str, arguments)], check=True)


def trained(name: str, cohort: Path, work: Path, passes: float) -> Path:
    """Train a method, or go on with it; return its run."""
    run = work / name
    settings = [part for key, value in METHODS[name].items() for part in ("--set", f"{key}={value}")]
    if (run / "run.json").exists():
        ecgfed("train", cohort, "--out", run, "--resume", "--quiet")
    else:
        plan = ("--local-steps", 4, "--passes", passes, "--eval-every", 0, "--seed", 0)
        ecgfed("train", cohort, "--method", name, *plan, "--out", run, "--quiet", *settings)
    return run


def patient(record: Path, cohort: Cohort, run: Run) -> FirstBeats:
    recording = read_recording(record, ("MLII",))
    annotation = read_annotation(record, samples=len(recording.signal_mv))
    beats = labelled_beats(recording.signal_mv, recording.fs_hz, annotation, cohort.labels)
    return first_beats(beats, recording.fs_hz, MINUTES, len(cohort.classes), record.name, rr=run.net.spec.rr)


def mean(scores: list[dict[str, Any]], answer: str) -> dict[str, float]:
    return {key: round(float(np.mean([row[answer][key] for row in scores])), 4) for key in scores[0][answer]}


def measured(path: Path, source: Path) -> dict[str, Any]:
    """Scores of one method on both groups of patients."""
    run = open_run(path)
    cohort, state = run.cohort(), run.state()
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--passes", type=float, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    cohort = given.work / "cohort"
    if not cohort.exists():
        ecgfed("prepare", "mitbih", "--source", given.source, "--out", cohort, "--holdout", ",".join(TUNE + REPORT))
    results: dict[str, Any] = {}
    for name in METHODS:
        results[name] = {
            "settings": METHODS[name],
            **measured(trained(name, cohort, given.work, given.passes), given.source),
        }
        row = results[name]["report"]
        print(name, results[name]["epochs"], {k: v["macro_f1_truth"] for k, v in row.items()}, flush=True)
        about = {"command": f"benchmarks/newcomers/run.py --passes {given.passes:g}", "minutes": MINUTES}
        text = json.dumps({**about, "tune": TUNE, "report": REPORT, "methods": results}, indent=1)
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
