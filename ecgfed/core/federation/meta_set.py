"""The class-balanced beats that ``risk=meta-bsm`` needs at the server, taken from the clients' validation beats."""

import numpy as np

from ecgfed.base.errors import CohortError, param
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.methods.base import Batch, Method
from ecgfed.core.methods.meta_balance import MetaBalanced


def with_meta_set(method: Method, data: TrainingData, seed: int) -> Method:
    """Return the method, or with ``risk=meta-bsm`` the method wrapped so that it learns the risk.

    Args:
        data: the clients' beats.
        seed: of the run; determines which beats are drawn.

    Raises:
        CohortError: there are no validation beats.
    """
    if getattr(method.settings, "risk", "ce") != "meta-bsm":
        return method
    return MetaBalanced(method, meta_set(data, method.settings.meta_beats, seed))


def meta_set(data: TrainingData, each: int, seed: int) -> Batch:
    """Draw ``each`` validation beats of every class from all clients together, or all if there are fewer."""
    rows = np.concatenate([np.empty(0, np.int64), *(data.valid_rows[client] for client in sorted(data.valid_rows))])
    if not len(rows):
        actual = "has no validation beats"
        expected = f"some for the meta set of {param('settings')} risk=meta-bsm"
        raise CohortError("the cohort", actual, expected, "choose another risk, or prepare it from more recordings")
    draw = np.random.default_rng([seed, 3])
    chosen = [np.sort(draw.permutation(rows[data.label[rows] == c])[:each]) for c in range(data.classes)]
    return data.batch(np.concatenate(chosen))
