"""Search a learning rate with Optuna; trials that are worse than the median on validation beats end early.

    pip install optuna
    python examples/prune_optuna.py COHORT --out trials --trials 10

The study lies in memory, so that nothing outside the process is needed. The test split is not read.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import ecgfed

SCORE = "valid_T_g"


def search(cohort: Path | str, out: Path | str, trials: int, **options: Any) -> Any:
    """Return Optuna's study of ``trials`` runs in ``out``; options as for ``ecgfed.train``.

    The method must have a global model, and ``eval_every`` rounds lie between two decisions.
    """
    import optuna

    def objective(trial: optuna.Trial) -> float:
        latest = 0.0

        def report(record: dict[str, Any]) -> None:
            nonlocal latest
            if SCORE in record:
                latest = record[SCORE]
                trial.report(latest, step=record["round"])
                if trial.should_prune():
                    raise optuna.TrialPruned  # the finished rounds are saved

        lr = trial.suggest_float("lr", 1e-3, 1e-1, log=True)
        run = Path(out) / f"trial-{trial.number}"
        ecgfed.train(cohort, run, settings={"lr": lr}, callbacks=[report], **options)
        return latest

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=2),
    )
    study.optimize(objective, n_trials=trials)
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cohort")
    parser.add_argument("--out", default="trials")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--rounds", type=int)
    arguments = parser.parse_args()
    try:
        study = search(arguments.cohort, arguments.out, arguments.trials, rounds=arguments.rounds)
    except ModuleNotFoundError as problem:
        sys.exit(f"skipped: {problem}; pip install optuna")
    print(f"best learning rate {study.best_params['lr']:.4f}: {SCORE} {study.best_value:.3f}")
