"""``evaluation-SPLIT/resampled.npz``: the scenarios when patients are drawn, for intervals over runs; without torch."""

import zipfile
from pathlib import Path

import numpy as np

from ecgfed.base.errors import RunError
from ecgfed.core.runs.intervals import DRAWS, Draws

FILE_NAME = "resampled.npz"
SCORES = ("T_g", "T_p", "T_r", "T_l")


def write_draws(folder: Path, draws: Draws) -> None:
    """Write the draws of the four scenarios, (draws,) float64 each, none where there are none."""
    of = {name: draws["scores", name] for name in SCORES}
    if all(len(values) for values in of.values()):
        np.savez_compressed(folder / FILE_NAME, **of)  # type: ignore[arg-type]  # it also takes allow_pickle


def read_draws(folder: Path) -> Draws:
    """Return the draws in the folder of an evaluation; {} where it has none; raises RunError for a damaged file."""
    file = folder / FILE_NAME
    if not file.is_file():
        return {}
    try:
        with np.load(file, allow_pickle=False) as stored:
            draws: Draws = {("scores", name): np.asarray(stored[name], np.float64) for name in SCORES}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise RunError(file, f"cannot be read ({problem!s:.120})", "scores", "run 'ecgfed evaluate' again") from problem
    if any(values.shape != (DRAWS,) for values in draws.values()):
        raise RunError(file, "holds another number of draws", f"{DRAWS:,}", "run 'ecgfed evaluate' again")
    return draws
