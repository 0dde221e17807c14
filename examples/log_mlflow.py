"""Log a training to MLflow, into a file: without an account and without a server.

    pip install mlflow
    python examples/log_mlflow.py COHORT --out run

``mlflow ui --backend-store-uri sqlite:///mlflow.db`` shows it.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import ecgfed


def numbers(record: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a round's record: losses, passes, validation scores."""
    return {name: value for name, value in record.items() if isinstance(value, int | float)}


def train(cohort: Path | str, out: Path | str, *, store: str = "sqlite:///mlflow.db", **options: Any) -> ecgfed.Run:
    """Train a run whose rounds are logged; options as for ``ecgfed.train``.

    Args:
        store: MLflow's tracking URI.
    """
    import mlflow

    mlflow.set_tracking_uri(store)
    mlflow.set_experiment("ecgfed")
    with mlflow.start_run(run_name=Path(out).name):
        mlflow.log_params({name: value for name, value in options.items() if value is not None})
        return ecgfed.train(
            cohort, out, callbacks=[lambda record: mlflow.log_metrics(numbers(record), step=record["round"])], **options
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
        sys.exit(f"skipped: {problem}; pip install mlflow")
