"""Log a training to Weights & Biases, offline: without an account and without a network.

    pip install wandb
    python examples/log_wandb.py COHORT --out run

Offline runs lie in ``wandb/``; ``wandb sync`` uploads them later.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import ecgfed


def numbers(record: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a round's record: losses, passes, validation scores."""
    return {name: value for name, value in record.items() if isinstance(value, int | float)}


def train(cohort: Path | str, out: Path | str, **options: Any) -> ecgfed.Run:
    """Train a run whose rounds are logged; options as for ``ecgfed.train``."""
    import wandb

    with wandb.init(project="ecgfed", mode="offline", config=options) as logged:
        return ecgfed.train(
            cohort, out, callbacks=[lambda record: logged.log(numbers(record), step=record["round"])], **options
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cohort")
    parser.add_argument("--out", default="run")
    parser.add_argument("--rounds", type=int)
    arguments = parser.parse_args()
    try:
        train(arguments.cohort, arguments.out, rounds=arguments.rounds)
    except ModuleNotFoundError as problem:
        sys.exit(f"skipped: {problem}; pip install wandb")
