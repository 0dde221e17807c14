"""By which rule activations become int8: three rules, judged on validation beats alone.

    python benchmarks/device/ranges.py RUN --work DIR

Exports the run once for each rule of ``ecgfed.exports.bundles.ranges`` and reads from the manifests what the forms lose
and keep. Writes ``ranges.json`` beside this file (or ``--results``) and prints the table.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, command, option, print_table

import ecgfed
from ecgfed.base.files import write_json
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.int8_variants import Int8Rule
from ecgfed.exports.bundles.ranges import RULES


def judged(run: ecgfed.Run, folder: Path, rule: str) -> dict[str, Any]:
    """Export a run with one rule, and return what its forms lose and keep on validation beats."""
    asked = Int8Rule(ranges=rule)
    manifest = export_bundle(run, run.cohort(), run.state(), folder, int8=asked, overwrite=True)
    forms = [entry["int8"] for entry in manifest["patients"].values() if entry["int8"]["beats"]]
    lost = [form["macro_f1_float"] - form["macro_f1"] for form in forms]
    agreement, apart = ([form[name] for form in forms] for name in ("agreement", "max_logit_difference"))
    everyone = manifest["global"]["int8"]
    return {
        "rule": rule,
        "patients": len(forms),
        "accepted": sum(form["accepted"] for form in forms),
        "mean_loss": float(np.mean(lost)),
        "worst_loss": float(np.max(lost)),
        "mean_agreement": float(np.mean(agreement)),
        "worst_agreement": float(np.min(agreement)),
        "mean_logit_difference": float(np.mean(apart)),
        "global_loss": everyone["macro_f1_float"] - everyone["macro_f1"],
        "global_agreement": everyone["agreement"],
    }


def main(given: argparse.Namespace) -> None:
    run = ecgfed.open_run(given.run)
    given.work.mkdir(parents=True, exist_ok=True)
    rows = [judged(run, given.work / f"bundle-{rule}", rule) for rule in RULES]
    about = {"method": run.method.name, "rounds": run.plan.rounds, "split": "valid"}
    write_json(given.results, {"command": command(given), **about, "rules": rows})
    names = [name for name in rows[0] if name != "patients"]
    print_table(names, [[row[n] if isinstance(row[n], str | int) else f"{row[n]:.4f}" for n in names] for row in rows])


if __name__ == "__main__":
    benchmark(
        main,
        option("run", type=Path, help="a run with its cohort"),
        option("--work", type=Path, required=True, help="folder for the bundles"),
        option("--results", type=Path, default=Path(__file__).with_name("ranges.json")),
        standard=False,
    )
