"""What a bundle says of its training: made-up patients or not, classes and their beats, which recordings took part."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.cohort.cohort import Client, Cohort
from ecgfed.cohort.split import TRAIN


def _training_rows(cohort: Cohort, client: Client, leave_out: str) -> NDArray[np.int64]:
    rows = cohort.rows(client, TRAIN)
    return cohort.usable(rows, leave_out)


def training_facts(cohort: Cohort, leave_out: str) -> dict[str, Any]:
    """Return ``trained_on`` of a manifest.

    Args:
        cohort: what the run was trained on.
        leave_out: training beats that took no part, as in ``TrainPlan``.
    """
    counts = np.zeros(len(cohort.classes), np.int64)
    for client in cohort.federation:
        counts += np.bincount(cohort.label[_training_rows(cohort, client, leave_out)], minlength=len(counts))
    return {
        "synthetic": _is_synthetic(cohort),
        "clients": len(cohort.federation),
        "class_counts": {name: int(count) for name, count in zip(cohort.classes, counts, strict=True)},
        "recordings": _digests(cohort),
    }


def classes_of(cohort: Cohort, client: Client, leave_out: str) -> tuple[str, ...]:
    """Return the classes that one client has training beats of."""
    there = np.unique(cohort.label[_training_rows(cohort, client, leave_out)])
    return tuple(cohort.classes[number] for number in there.tolist())


def _records(cohort: Cohort) -> list[dict[str, Any]]:
    """Return what ``cohort.json`` says of each recording that took part."""
    took_part = {name for client in cohort.federation for name in client.records}
    return [one for one in cohort.meta.get("records", ()) if one["name"] in took_part]


def _is_synthetic(cohort: Cohort) -> bool:
    """Whether nobody in it is a person: made by ``prepare demo``, or from its records."""
    records = _records(cohort)
    return bool(cohort.meta["kind"] == "demo" or (records and all(one.get("synthetic") is True for one in records)))


def _digests(cohort: Cohort) -> list[str] | None:
    """Return SHA-256 of the recordings' files but their headers, in order; None where the cohort does not hold them."""
    files = [file for one in _records(cohort) for file in one.get("sha256", {}).items()]
    found = {digest for name, digest in files if not name.casefold().endswith(".hea")}
    return sorted(found) if found else None
