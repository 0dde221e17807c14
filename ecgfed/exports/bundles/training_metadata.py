"""Training metadata of a bundle: synthetic or not, beats per class, and digests of the recordings."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.split import TRAIN
from ecgfed.domain.cohort.summary import other_leads


def _training_rows(cohort: Cohort, client: Client, leave_out: str) -> NDArray[np.int64]:
    return cohort.usable(cohort.rows(client, TRAIN), leave_out)


def training_metadata(cohort: Cohort, leave_out: str, most_per_class: int | None = None) -> dict[str, Any]:
    """Return ``trained_on`` of a manifest.

    Args:
        leave_out: excluded training beats, as in ``TrainPlan``.
        most_per_class: as in ``TrainPlan``; adds ``epoch_counts``, the beats per class that an epoch draws.
    """
    of_client = np.zeros((len(cohort.federation), len(cohort.classes)), np.int64)
    for counts, client in zip(of_client, cohort.federation, strict=True):
        counts += np.bincount(cohort.label[_training_rows(cohort, client, leave_out)], minlength=len(counts))
    drawn = {} if most_per_class is None else {"epoch_counts": np.minimum(of_client, most_per_class).sum(0)}
    by_class = {"class_counts": of_client.sum(0), **drawn}
    of_others = other_leads(cohort, cohort.usable(cohort.training_pool(), leave_out))["leads"]
    records = _records(cohort)
    files = [file for record in _records(cohort) for file in record.get("sha256", {}).items()]
    digests = {digest for name, digest in files if not name.casefold().endswith(".hea")}
    return {
        "synthetic": bool(
            cohort.meta["kind"] == "demo" or (records and all(record.get("synthetic") is True for record in records))
        ),
        "clients": len(cohort.federation),
        **{what: dict(zip(cohort.classes, counts.tolist(), strict=True)) for what, counts in by_class.items()},
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
