"""Every method on the 46 real clients: ten rounds, the same local work, test scores.

    python benchmarks/methods/run.py --source MITDB --work DIR [--rounds 10] [--local-steps 8] [--out results.json]

It shows that all of them run and are scored, not which is best: ten rounds are few, and settings are the defaults.
Methods that are there already in DIR are not trained again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ecgfed.methods.registry import methods

#: Beside every registered method: GRP-FED's ablations, learned risks. Rounds are few, so local steps begin at once.
EARLY = {"personal_start": "0"}
MORE: dict[str, tuple[str, dict[str, str]]] = {
    "grp-fed, beta .9": ("grp-fed", {**EARLY, "beta": "0.9"}),
    "grp-fed, no discriminator (beta 1)": ("grp-fed", {**EARLY, "beta": "1"}),
    "grp-fed, fixed q": ("grp-fed", {**EARLY, "eta_q": "0"}),
    "fedavg, bsm": ("fedavg", {"risk": "bsm"}),
    "fedavg, meta-bsm": ("fedavg", {"risk": "meta-bsm"}),
    "fed-rod-hyper, meta-bsm": ("fed-rod-hyper", {"risk": "meta-bsm"}),
    "fed-rod, generic scaffold": ("fed-rod", {"generic": "scaffold", "momentum": "0"}),
    "fed-rod, generic feddyn": ("fed-rod", {"generic": "feddyn"}),
    "fed-rod, generic fedprox": ("fed-rod", {"generic": "fedprox"}),
    "per-fedavg, hf": ("per-fedavg", {"form": "hf"}),
    "mtl, learned": ("mtl", {"relation": "learned"}),
}


def ecgfed(*arguments: object) -> str:
    command = [sys.executable, "-m", "ecgfed_cli.main", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measured(run: Path, cohort: Path, name: str, settings: dict[str, str], given: argparse.Namespace) -> dict[str, Any]:
    """Train and evaluate one method; return its test scores."""
    if not (run / "evaluation-test" / "scores.json").exists():
        steps = 1 if name == "afl" else given.local_steps
        pairs = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        again = ("--resume",) if (run / "run.json").exists() else ()
        plan = ("--method", name, "--rounds", given.rounds, "--local-steps", steps, "--no-rr", "--eval-every", 0)
        ecgfed("train", cohort, *plan, "--seed", 0, "--out", run, "--quiet", *pairs, *again)
        ecgfed("evaluate", run, "--quiet")
    scores = json.loads((run / "evaluation-test" / "scores.json").read_text())
    last = json.loads((run / "history.jsonl").read_text().splitlines()[-1])
    row = {"settings": settings, "loss_mean": last["loss_mean"], "loss_max": last["loss_max"]}
    row |= {key: scores["scores"][key] for key in ("T_g", "T_p", "T_r", "T_l")}
    row |= {key: scores["accuracies"][key] for key in ("G_FL", "P_FL_split", "P_FL_expected", "drift")}
    fairness = scores["fairness"]["personal_f1"]
    row |= {f"personal_f1_{key}": fairness[key] for key in ("std", "worst_decile", "worst")}
    local = scores["local_models"]
    return row | {"T_p_local": local["T_p"] if local else None, "T_r_local": local["T_r"] if local else None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--local-steps", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    cohort = given.work / "cohort"
    if not cohort.exists():
        ecgfed("prepare", "mitbih", "--source", given.source, "--out", cohort, "--quiet")
    asked = {**{name: (name, EARLY if name == "grp-fed" else {}) for name in methods()}, **MORE}
    results = {}
    for title, (name, settings) in asked.items():
        run = given.work / title.replace(", ", "-").replace(" ", "-").replace("(", "").replace(")", "")
        results[title] = measured(run, cohort, name, settings, given)
        rounded = {k: v if v is None or isinstance(v, dict) else round(v, 4) for k, v in results[title].items()}
        print(title, rounded, flush=True)
        about = {"command": f"benchmarks/methods/run.py --rounds {given.rounds} --local-steps {given.local_steps}"}
        given.out.write_text(json.dumps({**about, "methods": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
