"""EC57's VEB and SVEB scores of several records, with intervals over patients."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.core.evaluation.ec57 import BeatComparison

#: Patients are drawn anew so often; the interval holds 95% of what comes out.
DRAWS, INTERVAL = 2000, (2.5, 97.5)


def found_missed_false(counts: NDArray[np.int64]) -> dict[str, tuple[int, int, int]]:
    """Return VEB and SVEB found, missed and called so falsely, of EC57 counts (7, 7)."""
    scores = BeatComparison("", counts).scores
    return {
        kind: (
            int(scores[f"{kind}_se"].part),
            int(scores[f"{kind}_se"].total - scores[f"{kind}_se"].part),
            int(scores[f"{kind}_ppv"].total - scores[f"{kind}_ppv"].part),
        )
        for kind in ("veb", "sveb")
    }


def _f1(tally: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 in percent of tallies (..., found missed false)."""
    found, missed, false = np.moveaxis(tally, -1, 0)
    whole = 2 * found + missed + false
    return np.asarray(100.0 * 2 * found / np.maximum(whole, 1))


def scored(counts: Mapping[str, NDArray[np.int64]], records: Sequence[str] | None = None) -> dict[str, Any]:
    """Return Se, +P and F1 in percent of some records together, F1 with its interval over records.

    Args:
        counts: record -> EC57 counts (7, 7).
        records: which of them; default all.
    """
    names = list(counts if records is None else records)
    tallies = {kind: np.array([found_missed_false(counts[name])[kind] for name in names]) for kind in ("veb", "sveb")}
    drawn = np.random.default_rng(0).integers(len(names), size=(DRAWS, len(names)))
    made: dict[str, Any] = {"records": len(names)}
    for kind, tally in tallies.items():
        found, missed, false = tally.sum(0).tolist()
        low, high = np.percentile(_f1(tally[drawn].sum(1)), INTERVAL).tolist()
        made[kind] = {
            "se": _share(found, found + missed),
            "ppv": _share(found, found + false),
            "f1": round(float(_f1(tally.sum(0))), 2),
            "interval": [round(low, 2), round(high, 2)],
            "beats": found + missed,
        }
    return made


def _share(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None
