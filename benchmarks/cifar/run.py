"""Does every registered method train on CIFAR-10? Two rounds of each on a subset, by the command line.

    python benchmarks/cifar/run.py --source CIFAR --work DIR [--net resnet30] [--images 1000] [--clients 10]

CIFAR is what ``ecgfed prepare cifar10 --source`` takes. It shows that methods run and stay finite on images; two rounds
on a subset say nothing about which is better. Every method has its own default settings, which were chosen on ECG.
Writes ``results.json`` beside this file (or ``--results``). A method that DIR already holds is not done again.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ECGFED = str(Path(sys.executable).with_name("ecgfed"))
SCORES = ("T_g", "T_p", "T_r", "T_l", "T_p_global")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--net", default="resnet30")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    options = parser.parse_args()
    cohort = options.work / f"cohort-{options.images}-{options.clients}"
    if not cohort.is_dir():
        done = ecgfed(
            "prepare",
            "cifar10",
            "--source",
            options.source,
            "--out",
            cohort,
            "--limit",
            options.images,
            "--clients",
            options.clients,
            "--quiet",
        )
        if done.returncode:
            sys.exit(done.stderr)
    names = [method["name"] for method in json.loads(ecgfed("methods", "--json").stdout)]
    rows = []
    for name in names:
        rows.append(trained(name, cohort, options))
        print(json.dumps(rows[-1]), flush=True)
    meta = json.loads((cohort / "cohort.json").read_text())
    result = {
        "command": f"python benchmarks/cifar/run.py --net {options.net} --images {options.images} "
        f"--clients {options.clients} --rounds {options.rounds}",
        "partition": meta["partition"],
        "seed": meta["seed"],
        "official": meta["source"]["official"],
        "tool_version": meta["tool_version"],
        "finite": all(row["finite"] for row in rows),
        "methods": rows,
    }
    options.results.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{sum(row['finite'] for row in rows)} of {len(rows)} methods finite; wrote {options.results}")


def ecgfed(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ECGFED, *map(str, arguments)], capture_output=True, text=True, check=False)


def trained(name: str, cohort: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train and score one method: its losses and scores, or the line it stopped with."""
    run = options.work / f"{options.net}-{name}"
    workers = ("--workers", options.workers)
    if not (run / "evaluation-test" / "scores.json").is_file():
        given = ("--method", name, "--net", options.net, "--rounds", options.rounds, "--eval-every", 0, "--quiet")
        done = ecgfed("train", cohort, "--out", run, *given, *workers)
        if "--local-steps" in done.stderr:  # defined for one local step a round only
            done = ecgfed("train", cohort, "--out", run, *given, *workers, "--local-steps", 1)
        if not done.returncode:
            done = ecgfed("evaluate", run, "--quiet", *workers)
        if done.returncode:
            return {"method": name, "finite": False, "reason": done.stderr.strip()}
    result = json.loads((run / "evaluation-test" / "scores.json").read_text())
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    losses = [[line["loss_mean"], line["loss_max"]] for line in history]
    scores = {key: result["scores"][key] for key in SCORES}
    finite = all(math.isfinite(value) for value in (*scores.values(), *(v for pair in losses for v in pair)))
    plan = json.loads((run / "run.json").read_text())["plan"]
    return {
        "method": name,
        "finite": finite,
        "rounds": result["round"],
        "local_steps": plan["local_steps"],
        **{key: round(value, 4) for key, value in scores.items()},
        "accuracy": round(result["accuracy"], 4),
        "loss_mean_by_round": [round(mean, 4) for mean, _ in losses],
    }


if __name__ == "__main__":
    main()
