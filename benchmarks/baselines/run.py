"""FedAvg and Local on the 46 MIT-BIH clients: two kinds of local work, two norms, equal sample passes.

    python benchmarks/baselines/run.py --source MITDB --work DIR [--passes 20] [--seed 0]

Writes ``results.json`` beside this file and prints the table. A combination that DIR already holds is not run again.
"""

import argparse
import json
import sys
from pathlib import Path

from measure import measure

HERE = Path(__file__).parent
ECGFED = str(Path(sys.executable).with_name("ecgfed"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--passes", default="20")
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    cohort = options.work / "cohort"
    if not cohort.is_dir():
        measure([ECGFED, "prepare", "mitbih", "--source", options.source, "--out", str(cohort), "--quiet"])
    rows = []
    for method in ("fedavg", "local"):
        for work in ("--local-epochs=1", "--local-steps=4"):
            for norm in ("group", "batch"):
                rows.append(one(options, cohort, method, work, norm))
                print(json.dumps(rows[-1]), flush=True)
    (HERE / "results.json").write_text(json.dumps({"passes": options.passes, "rows": rows}, indent=1) + "\n")
    print("| method | local work a round | norm | rounds | T_g | T_p | T_r | T_l | T_l, patients | train s | peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        scores = " | ".join(f"{row['scores'][k]:.3f}" for k in ("T_g", "T_p", "T_r", "T_l", "T_l_clients"))
        print(
            f"| {row['method']} | {row['work']} | {row['norm']} | {row['rounds']} | {scores} "
            f"| {row['train_s']:.0f} | {row['train_peak_mb']} |"
        )


def one(options: argparse.Namespace, cohort: Path, method: str, work: str, norm: str) -> dict[str, object]:
    run = options.work / f"{method}{work.replace('=', '')}-{norm}-seed{options.seed}"
    done = run / "benchmark.json"
    if done.is_file():
        return dict(json.loads(done.read_text()))
    trained = measure(
        [
            ECGFED,
            "train",
            str(cohort),
            "--method",
            method,
            "--out",
            str(run),
            "--passes",
            options.passes,
            work,
            "--norm",
            norm,
            "--seed",
            options.seed,
            "--no-rr",
            "--json",
            "--quiet",
        ]
    )
    scored = measure([ECGFED, "evaluate", str(run), "--json", "--quiet"])
    result = json.loads(scored["output"])
    row = {
        "method": method,
        "work": work.strip("-").replace("=", " "),
        "norm": norm,
        "seed": int(options.seed),
        "rounds": json.loads(trained["output"])["rounds"],
        "scores": result["scores"],
        "scores_truth": result["scores_truth"],
        "accuracy": result["accuracy"],
        "train_s": trained["wall_s"],
        "train_cpu_s": trained["cpu_s"],
        "train_peak_mb": trained["peak_mb"],
        "evaluate_s": scored["wall_s"],
        "evaluate_peak_mb": scored["peak_mb"],
    }
    done.write_text(json.dumps(row))
    return row


if __name__ == "__main__":
    main()
