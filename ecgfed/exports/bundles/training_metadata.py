"""Training metadata of a bundle: synthetic or not, beats per class, and digests of the recordings."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.split import TRAIN
from ecgfed.domain.cohort.summary import other_leads


def training_metadata(cohort: Cohort, leave_out: str, most_per_class: int | None = None) -> dict[str, Any]:
    """Return ``trained_on`` of a manifest.

    Args:
        leave_out: excluded training beats, as in ``TrainPlan``.
        most_per_class: as in ``TrainPlan``; adds ``epoch_counts``, examples per class that an epoch draws.
    """

    def counts(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(cohort.label[cohort.usable(rows, leave_out)], minlength=len(cohort.classes))

    by_class = {"class_counts": counts(cohort.pool(TRAIN))}
    if most_per_class is not None:
        drawn = [np.minimum(counts(cohort.training_rows(client)), most_per_class) for client in cohort.federation]
        by_class["epoch_counts"] = np.sum(drawn, axis=0, dtype=np.int64)
    of_others = other_leads(cohort, cohort.usable(cohort.training_pool(), leave_out))["leads"]
    records = _records(cohort)
    files = [file for record in _records(cohort) for file in record.get("sha256", {}).items()]
    digests = {digest for name, digest in files if not name.casefold().endswith(".hea")}
    return {
        "synthetic": bool(
            cohort.meta["kind"] == "demo" or (records and all(record.get("synthetic") is True for record in records))
        ),
        "clients": len(cohort.federation),
        **{what: dict(zip(cohort.classes, each.tolist(), strict=True)) for what, each in by_class.items()},
        "recordings": (sorted(digests) if digests else None),
        **({"other_leads": of_others} if of_others else {}),
    }


def classes_of(cohort: Cohort, client: Client, leave_out: str) -> tuple[str, ...]:
    """Return the classes of a client's training beats."""
    present = np.unique(cohort.label[cohort.usable(cohort.training_rows(client), leave_out)])
    return tuple(cohort.classes[number] for number in present.tolist())


def _records(cohort: Cohort) -> list[dict[str, Any]]:
    """Return the entries of the training recordings in ``cohort.json``."""
    took_part = {name for client in cohort.federation for name in client.records}
    return [record for record in cohort.meta.get("records", ()) if record["name"] in took_part]
