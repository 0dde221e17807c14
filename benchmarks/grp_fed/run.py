"""GRP-FED as shipped and as printed beside FedAvg and Local: 46 MIT-BIH clients, 4 local steps, equal sample passes.

    python benchmarks/grp_fed/run.py --source MITDB --work DIR [--passes 60] [--seeds 0 1] [--only NAME ...] [--collect]

Settings were chosen on the validation split; the test split is read once a run, at its end. Writes ``results.json``
beside this file (or ``--results``) and prints the table. A run that DIR already holds is not done again; ``--collect``
only gathers those that are there. A run that stops by itself, as the printed losses do, is listed with its reason.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ECGFED = str(Path(sys.executable).with_name("ecgfed"))
#: FedAvg with the server step GRP-FED has, so that the weights are the only difference of their global models
SAME_SERVER = ("lr=0.02", "server_optimizer=adam", "server_momentum=0.9", "server_lr=0.01", "server_schedule=cosine")
#: name -> (method, settings)
RUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "grp": ("grp-fed", ()),
    "fedavg-adam": ("fedavg", SAME_SERVER),
    "fedavg": ("fedavg", ("lr=0.02",)),
    "local": ("local", ()),
    "printed": ("grp-fed-printed", ()),
    "printed-bce": ("grp-fed-printed", ("discriminator_loss=bce", "regulariser=non-saturating")),
    "grp-beta.9": ("grp-fed", ("beta=0.9",)),
    "grp-beta.1": ("grp-fed", ("beta=0.1",)),
    "grp-beta1": ("grp-fed", ("beta=1",)),
    "grp-q1": ("grp-fed", ("eta_q=0",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source")
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--passes", default="60")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--only", nargs="+", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    options = parser.parse_args()
    cohort = options.work / "cohort"
    if not options.collect and not cohort.is_dir():
        if not options.source:
            parser.error("--source is needed to prepare the cohort")
        ecgfed("prepare", "mitbih", "--source", options.source, "--out", str(cohort), "--quiet")
    rows, stopped = [], []
    for seed in options.seeds:
        for name in options.only:
            run = options.work / f"{name}-s{seed}"
            if not options.collect and not (run / "evaluation-test" / "scores.json").is_file():
                reason = train_and_score(run, cohort, name, seed, options.passes)
                run.with_name(f"{run.name}.stopped").write_text(reason)
            if reason := stop_reason(run):
                stopped.append({"name": name, "seed": seed, "reason": reason})
                print(json.dumps(stopped[-1]), flush=True)
            if (run / "evaluation-test" / "scores.json").is_file():
                rows.append(row_of(run, name, seed))
                print(json.dumps(rows[-1]), flush=True)
    options.results.write_text(json.dumps({"rows": rows, "stopped": stopped}, indent=1) + "\n")
    table(rows)


def ecgfed(*arguments: str) -> str:
    """Run a command; return its one line on standard error where it stopped with exit code 2."""
    done = subprocess.run([ECGFED, *arguments], stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 2):
        raise SystemExit(done.stderr)
    return done.stderr.strip() if done.returncode else ""


def train_and_score(run: Path, cohort: Path, name: str, seed: int, passes: str) -> str:
    """Train and evaluate; return why it stopped, or an empty text."""
    method, settings = RUNS[name]
    given = [part for setting in settings for part in ("--set", setting)]
    resume = ["--resume"] if (run / "run.json").is_file() else []
    reason = ecgfed(
        "train",
        str(cohort),
        "--method",
        method,
        "--local-steps",
        "4",
        "--passes",
        passes,
        "--no-rr",
        "--seed",
        str(seed),
        "--checkpoint-every",
        "20",
        "--out",
        str(run),
        "--quiet",
        *given,
        *resume,
    )
    for split in ("valid", "test"):
        reason = reason or ecgfed("evaluate", str(run), "--split", split, "--quiet")
    return reason


def stop_reason(run: Path) -> str:
    file = run.with_name(f"{run.name}.stopped")
    return file.read_text() if file.is_file() else ""


def row_of(run: Path, name: str, seed: int) -> dict[str, object]:
    scores = {s: json.loads((run / f"evaluation-{s}" / "scores.json").read_text()) for s in ("valid", "test")}
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    seconds = [json.loads(line)["seconds"] for line in (run / "timing.jsonl").read_text().splitlines()]
    meta = json.loads((run / "run.json").read_text())
    effective = [line["effective_clients"] for line in lines if "effective_clients" in line]
    return {
        "name": name,
        "method": meta["method"],
        "settings": meta["settings"],
        "seed": seed,
        "rounds": len(lines),
        "passes": round(lines[-1]["passes"], 2),
        "valid": scores["valid"]["scores"],
        "test": scores["test"]["scores"],
        "test_truth": scores["test"]["scores_truth"],
        "T_p_variants": scores["test"]["T_p_variants"],
        "loss_max": lines[-1]["loss_max"],
        "q_last": lines[-1].get("q"),
        "effective_clients": [round(min(effective), 1), round(max(effective), 1)] if effective else None,
        "train_s": round(sum(seconds)),
    }


def table(rows: list[dict[str, object]]) -> None:
    print(
        "| run | seed | valid T_g | T_g | T_p | T_p of the global model | T_r | T_l | effective clients | worst loss |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        test, valid = row["test"], row["valid"]
        assert isinstance(test, dict)
        assert isinstance(valid, dict)
        cells = [f"{test[key]:.3f}" for key in ("T_g", "T_p", "T_p_global", "T_r", "T_l")]
        effective = row["effective_clients"] or "-"
        print(
            f"| {row['name']} | {row['seed']} | {valid['T_g']:.3f} | {' | '.join(cells)} | {effective} "
            f"| {row['loss_max']:.2f} |"
        )


if __name__ == "__main__":
    main()
