"""Every method on the 46 real clients: ten rounds, the same local work, test scores.

    python benchmarks/methods/run.py --source MITDB --work DIR [--rounds 10] [--local-steps 8]

It shows that all of them run and are scored, not which is best: ten rounds are few, and settings are the defaults.
Methods that are there already in DIR are not trained again.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import parser, prepared, save, scored, script, trained

from ecgfed import Cohort
from ecgfed.methods.registry import method_by_name, methods

Settings = dict[str, float | str]
#: Beside every registered method: GRP-FED's ablations, learned risks. Rounds are few, so local steps begin at once.
EARLY: Settings = {"personal_start": 0.0}
MORE: dict[str, tuple[str, Settings]] = {
    "grp-fed, beta .9": ("grp-fed", {**EARLY, "beta": 0.9}),
    "grp-fed, no discriminator (beta 1)": ("grp-fed", {**EARLY, "beta": 1.0}),
    "grp-fed, fixed q": ("grp-fed", {**EARLY, "eta_q": 0.0}),
    "fedavg, bsm": ("fedavg", {"risk": "bsm"}),
    "fedavg, meta-bsm": ("fedavg", {"risk": "meta-bsm"}),
    "fed-rod-hyper, meta-bsm": ("fed-rod-hyper", {"risk": "meta-bsm"}),
    "fed-rod, generic scaffold": ("fed-rod", {"generic": "scaffold", "momentum": 0.0}),
    "fed-rod, generic feddyn": ("fed-rod", {"generic": "feddyn"}),
    "fed-rod, generic fedprox": ("fed-rod", {"generic": "fedprox"}),
    "per-fedavg, hf": ("per-fedavg", {"form": "hf"}),
    "mtl, learned": ("mtl", {"relation": "learned"}),
}


def measured(run: Path, cohort: Cohort, name: str, settings: Settings, given: argparse.Namespace) -> dict[str, Any]:
    """Train and evaluate one method; return its test scores."""
    steps = 1 if method_by_name(name).needs.one_step else given.local_steps
    plan = {"rounds": given.rounds, "local_steps": steps, "batch_size": 64, "rr": False, "eval_every": 0, "seed": 0}
    done = trained(cohort, run, method=name, settings=settings, **plan)
    scores, last = scored(done), done.last_record()
    row = {"settings": settings, "loss_mean": last["loss_mean"], "loss_max": last["loss_max"]}
    row |= {key: scores["scores"][key] for key in ("T_g", "T_p", "T_r", "T_l")}
    row |= {key: scores["accuracies"][key] for key in ("G_FL", "P_FL_split", "P_FL_expected", "drift")}
    fairness = scores["fairness"]["personal_f1"]
    row |= {f"personal_f1_{key}": fairness[key] for key in ("std", "worst_decile", "worst")}
    local = scores["local_models"]
    return row | {"T_p_local": local["T_p"] if local else None, "T_r_local": local["T_r"] if local else None}


def main() -> None:
    arguments = parser(__doc__, __file__)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--local-steps", type=int, default=8)
    given = arguments.parse_args()
    cohort = prepared(given.source, given.work, by="record")
    asked: dict[str, tuple[str, Settings]] = {name: (name, EARLY if name == "grp-fed" else {}) for name in methods()}
    results = {}
    for title, (name, settings) in {**asked, **MORE}.items():
        run = given.work / title.replace(", ", "-").replace(" ", "-").replace("(", "").replace(")", "")
        results[title] = measured(run, cohort, name, settings, given)
        rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in results[title].items()}
        print(title, rounded, flush=True)
        save(given, {"methods": results})


if __name__ == "__main__":
    script(main)
