"""What a bundle's float and int8 forms say of test beats, patient by patient, for two benchmarks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import ecgfed
from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.domain.cohort.split import TEST
from ecgfed.exports.device.bundle import Bundle


def test_rows(cohort: ecgfed.Cohort, client: str) -> NDArray[np.int64]:
    """Return the test beats of a client."""
    return cohort.rows(cohort.client_by_id(client), TEST)


def logits_of(bundle: Bundle, cohort: ecgfed.Cohort, client: str | None, rows: NDArray[np.int64], *, int8: bool) -> Any:
    """Return what a model of the bundle (a client's own, None: the global one) says of some beats."""
    classifier = bundle.classifier(client, int8=int8)
    rr = np.asarray(cohort.rr[rows]) if bundle.rr_version else None
    return classifier.logits(np.take(cohort.beats, rows, axis=0), rr)


def agreed(label: NDArray[np.integer], before: NDArray[np.floating], after: NDArray[np.floating]) -> dict[str, Any]:
    """Compare logits of one form with those of another on the same beats: the fields of a row of ``by_patient``."""
    classes = before.shape[1]
    tables = [confusion(label, one.argmax(1), classes) for one in (before, after)]
    return {
        "beats": len(label),
        "macro_f1_float": macro_f1(tables[0]),
        "macro_f1": macro_f1(tables[1]),
        "macro_f1_truth_float": macro_f1(tables[0], "truth"),
        "macro_f1_truth": macro_f1(tables[1], "truth"),
        "agreement": float((before.argmax(1) == after.argmax(1)).mean()),
        "max_logit_difference": float(np.abs(before - after).max()),
    }


def by_patient(bundle: Bundle, cohort: ecgfed.Cohort) -> list[dict[str, Any]]:
    """Compare the int8 form of each patient's model, and of the global one, with the float one on test beats.

    Returns:
        A row a patient with test beats, then one of the global model (``client`` None) on all of them together:
        whether the form was ``accepted``, and where it was ``agreed``'s fields; else those of float with itself.
    """
    rows = []
    pool = np.concatenate([test_rows(cohort, client) for client in bundle.patients])
    for client, some in (*((client, test_rows(cohort, client)) for client in bundle.patients), (None, pool)):
        if not len(some):
            continue
        entry = bundle.manifest["global"] if client is None else bundle.manifest["patients"][client]
        before = logits_of(bundle, cohort, client, some, int8=False)
        accepted = bool(entry["int8"]["accepted"])
        after = logits_of(bundle, cohort, client, some, int8=True) if accepted else before
        rows.append({"client": client, "accepted": accepted, **agreed(cohort.label[some], before, after)})
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what rows of ``by_patient`` add up to: T_p in float and int8, how alike they are, who was accepted."""
    own = [row for row in rows if row["client"] is not None]
    (everyone,) = [row for row in rows if row["client"] is None]
    accepted = [row for row in own if row["accepted"]]
    beats = sum(row["beats"] for row in accepted)
    return {
        "patients": len(own),
        "accepted": len(accepted),
        "T_p_float": float(np.mean([row["macro_f1_float"] for row in own])),
        "T_p_int8": float(np.mean([row["macro_f1"] for row in own])),
        "T_p_truth_float": float(np.mean([row["macro_f1_truth_float"] for row in own])),
        "T_p_truth_int8": float(np.mean([row["macro_f1_truth"] for row in own])),
        "T_g_float": everyone["macro_f1_float"],
        "T_g_int8": everyone["macro_f1"] if everyone["accepted"] else None,
        "agreement": sum(row["agreement"] * row["beats"] for row in accepted) / beats if beats else None,
        "worst_agreement": min((row["agreement"] for row in accepted), default=None),
        "max_logit_difference": max((row["max_logit_difference"] for row in accepted), default=None),
    }


def chain_bytes(bundle: Bundle, client: str | None, *, int8: bool = False) -> int | None:
    """Return the bytes of the graphs of a model; None where its int8 form was refused."""
    entry = bundle.manifest["global"] if client is None else bundle.manifest["patients"][client]
    chain = entry["int8"]["chain"] if int8 else entry["chain"]
    return None if chain is None else sum(int(bundle.manifest["files"][name]["bytes"]) for name in chain)
