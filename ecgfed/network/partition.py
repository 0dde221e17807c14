"""Partition a cohort among several sites for a trial on one machine; each patient belongs to exactly one site."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.errors import OptionError
from ecgfed.base.files import replacing_folder
from ecgfed.domain.cohort.cohort import UNLABELLED, Client, Cohort
from ecgfed.domain.cohort.writer import CohortWriter

#: Keys of ``cohort.json`` that are recomputed for each partition.
_RECOMPUTED = ("schema_version", "modality", "beats", "sha256", "fingerprint", "digest")


def blocks(clients: int, sites: int) -> list[range]:
    """Return the clients of each site: contiguous blocks of nearly equal size.

    Raises:
        OptionError: more sites than clients.
    """
    if not 1 <= sites <= clients:
        raise OptionError("sites", f"{sites} for a cohort of {clients} patients", f"1 to {clients}")
    edges = [site * clients // sites for site in range(sites + 1)]
    return [range(start, stop) for start, stop in pairwise(edges)]


def partition_cohort(cohort: Cohort, folders: Sequence[Path]) -> None:
    """Write a cohort for each site, with its clients in their original order.

    Args:
        cohort: a cohort of ECG beats.
        folders: new folders, one per site.

    Raises:
        OptionError: more sites than clients, images, or a folder that exists.
        StorageError: the disk refuses.
    """
    if cohort.modality != "ecg":
        reason = "holds images, whose test pool is shared by all clients"
        raise OptionError(str(cohort.path), reason, "a cohort of ECG beats")
    for folder, part in zip(folders, blocks(len(cohort.clients), len(folders)), strict=True):
        _write_part(cohort, folder, cohort.clients[part.start : part.stop])


def _write_part(cohort: Cohort, folder: Path, clients: Sequence[Client]) -> None:
    low, high = np.searchsorted(cohort.client, [clients[0].index, clients[-1].index + 1])
    names = [record["name"] for record in cohort.meta.get("records", ())]
    records = [index for index, name in enumerate(names) if any(name in client.records for client in clients)]
    with replacing_folder(folder) as new, CohortWriter(new, rr_version=cohort.rr_version) as writer:
        for client in clients:
            start, stop = np.searchsorted(cohort.client, [client.index, client.index + 1])
            rows = {name: np.asarray(array[start:stop]) for name, array in cohort.arrays.items()}
            rows["client"] = rows["client"] - clients[0].index
            rows["record"] = np.searchsorted(records, rows["record"])
            writer.append(**rows)
        writer.finish(_meta(cohort, clients, records, np.asarray(cohort.label[low:high][~cohort.other_lead[low:high]])))


def _meta(cohort: Cohort, clients: Sequence[Client], records: Sequence[int], label: np.ndarray) -> dict[str, Any]:
    counts = np.bincount(label[label != UNLABELLED], minlength=len(cohort.classes)).tolist()
    ids, number = {client.id for client in clients}, Counter(client.site for client in clients)
    by_client: dict[str, Any] = {
        name: {client: value for client, value in cohort.meta[name].items() if client in ids}
        for name in ("record_labels", "excluded_classes")
        if name in cohort.meta
    }
    sites = [{**site, "clients": number[site["name"]]} for site in cohort.meta.get("sites", ()) if number[site["name"]]]
    recomputed: dict[str, Any] = {
        "clients": [cohort.meta["clients"][client.index] for client in clients],
        "records": [cohort.meta["records"][index] for index in records],
        "holdout": [client.id for client in clients if client.holdout],
        "class_counts": dict(zip(cohort.classes, counts, strict=True)),
        "without_beats": [],
        "divided_from": cohort.fingerprint,
        **by_client,
        **({"sites": sites} if sites else {}),
    }
    return {**{name: value for name, value in cohort.meta.items() if name not in _RECOMPUTED}, **recomputed}
