"""What is in a cohort, counted: for the person who made it, and to be said beside every score."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, final

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.extract import FLAG_PADDED, FLAG_POOR_QUALITY
from ecgfed.domain.cohort.clients import FIRST_LEAD, of_first_lead
from ecgfed.domain.cohort.cohort import NOBODY, UNLABELLED, Client, Cohort
from ecgfed.domain.cohort.split import SPLIT_NAMES, TEST
from ecgfed.domain.record.leads import usual_name

#: Why a recording without labelled beats is not used, keys of ``exclusions.REASONS``.
NOT_USED = ("too_short", "all_noise", "none_detected")


class SiteSummary(TypedDict):
    """What a site of a joined cohort holds."""

    clients: int
    examples: int
    classes: dict[str, int]
    leads: dict[str, int]


class OtherLeads(TypedDict):
    """Training examples of other leads than the first: of beats that are counted in the first, or that it lacks."""

    examples: int
    leads: dict[str, int]


class Counts(TypedDict):
    """What a cohort of any kind holds; an example is a beat, an image or an array, of a recording's first lead.

    Attributes:
        classes: examples per class.
        splits: examples per split.
        classes_per_client: classes a client has, on average.
        cells: (client, class) pairs with an example.
        cells_without_test: pairs that no test example represents.
        cells_without_train: pairs with a test example and none to train on: classes that come late in a recording.
        one_class: clients of one class.
        no_test: clients without any test example.
        holdout: clients kept out of training.
        padded: beats whose window reaches past an end of the recording.
        poor_quality: beats whose window overlaps a bad stretch.
        unlabelled: beats without a label, of clients with a label of the recording; counted nowhere else but there.
        record_labels: clients per label of the recording.
        leads: clients per lead, by its usual name; one that has several is counted for each.
        other_leads: training examples of other leads, counted nowhere else, and how many each lead has.
        sites: clients, examples and leads of each site of a joined cohort.
    """

    classes: dict[str, int]
    splits: dict[str, int]
    classes_per_client: float
    cells: int
    cells_without_test: list[list[str]]
    cells_without_train: list[list[str]]
    one_class: list[str]
    no_test: list[str]
    holdout: list[str]
    padded: int
    poor_quality: int
    unlabelled: int
    record_labels: dict[str, int]
    leads: dict[str, int]
    other_leads: OtherLeads
    sites: dict[str, SiteSummary]


@final
class BeatSummary(Counts):
    """What a cohort of beats holds, JSON-ready."""

    clients: int
    beats: int


@final
class ImageSummary(Counts):
    """What a cohort of images holds, JSON-ready."""

    clients: int
    images: int


class ClassRow(NamedTuple):
    """A class of a cohort: its examples, all and by split, and the clients who have some."""

    name: str
    examples: int
    train: int
    valid: int
    test: int
    clients: int


@final
class ArraySummary(Counts):
    """What a cohort of arrays holds, JSON-ready."""

    clients: int
    examples: int


def summarise(cohort: Cohort) -> BeatSummary | ImageSummary | ArraySummary:
    """Count what a cohort holds."""
    beats = ~cohort.other_lead
    labelled = (cohort.label != UNLABELLED) & beats
    per_class = np.bincount(cohort.label[labelled], minlength=len(cohort.classes))
    table = np.zeros((len(cohort.clients), len(cohort.classes), 3), dtype=np.int64)
    owned = (cohort.client != NOBODY) & labelled
    np.add.at(table, (cohort.client[owned], cohort.label[owned], cohort.split[owned]), 1)
    if cohort.has_common_pool:
        client, drawn = cohort.arrays["test_client"], cohort.label[cohort.arrays["test_row"]]
        np.add.at(table, (client, drawn, np.full(len(drawn), TEST)), 1)
    flags = cohort.flags[beats] if cohort.modality == "ecg" else np.zeros(0, np.uint8)
    present = table.sum(2) > 0
    strong = np.array([not client.record_label for client in cohort.clients])
    missing = np.argwhere(present & (table[:, :, 2] == 0))
    late = np.argwhere((table[:, :, 0] == 0) & (table[:, :, 2] > 0))
    ids: Sequence[str] = [client.id for client in cohort.clients]
    counts: Counts = {
        "classes": {name: int(n) for name, n in zip(cohort.classes, per_class, strict=True)},
        "splits": {name: int((labelled & (cohort.split == i)).sum()) for i, name in enumerate(SPLIT_NAMES)},
        "classes_per_client": round(float(present.sum(1)[strong].mean()), 2) if strong.any() else 0.0,
        "cells": int(present.sum()),
        "cells_without_test": [[ids[i], cohort.classes[j]] for i, j in missing.tolist()],
        "cells_without_train": [[ids[i], cohort.classes[j]] for i, j in late.tolist()],
        "one_class": [ids[i] for i in np.flatnonzero(present.sum(1) == 1).tolist()],
        "no_test": [ids[i] for i in np.flatnonzero(strong & (table[:, :, 2].sum(1) == 0)).tolist()],
        "holdout": [client.id for client in cohort.clients if client.holdout],
        "padded": int((flags & FLAG_PADDED).astype(bool).sum()),
        "poor_quality": int((flags & FLAG_POOR_QUALITY).astype(bool).sum()),
        "unlabelled": int((beats & ~labelled).sum()),
        "record_labels": dict(Counter(client.record_label for client in cohort.clients if client.record_label)),
        "leads": lead_counts(cohort, cohort.clients),
        "other_leads": other_leads(cohort),
        "sites": {
            site: _site_summary(cohort, clients, table[[client.index for client in clients]].sum((0, 2)))
            for site, clients in cohort.sites.items()
        },
    }
    clients, examples = len(cohort.clients), int(beats.sum())
    if cohort.modality == "image":
        return {"clients": clients, "images": examples, **counts}
    if cohort.modality == "array":
        return {"clients": clients, "examples": examples, **counts}
    return {"clients": clients, "beats": examples, **counts}


def _site_summary(cohort: Cohort, clients: Sequence[Client], per_class: NDArray[np.int64]) -> SiteSummary:
    first, stop = np.searchsorted(cohort.client, [clients[0].index, clients[-1].index + 1])
    return {
        "clients": len(clients),
        "examples": int((~cohort.other_lead[first:stop]).sum()),
        "classes": {name: int(n) for name, n in zip(cohort.classes, per_class, strict=True)},
        "leads": lead_counts(cohort, clients),
    }


def lead_counts(cohort: Cohort, clients: Sequence[Client]) -> dict[str, int]:
    """Return how many clients have each lead, by its usual name, most frequent first; {} of images."""
    records = of_first_lead(cohort.meta.get("records", ()))
    lead_of = {r["name"]: usual_name(str(r["lead"])) for r in records if "lead" in r}
    counts = Counter(
        lead for client in clients for lead in {lead_of[name] for name in client.records if name in lead_of}
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def other_leads(cohort: Cohort, rows: NDArray[np.int64] | None = None) -> OtherLeads:
    """Count the training examples of other leads among some rows, all by default, and those of each lead."""
    counts: Counter[str] = Counter()
    if cohort.other_lead.any():
        records = cohort.meta["records"]
        examples = cohort.other_lead if rows is None else rows[cohort.other_lead[rows]]
        per_record = np.bincount(cohort.record[examples], minlength=len(records))
        for record, number in zip(records, per_record.tolist(), strict=True):
            counts[usual_name(str(record.get("lead")))] += number
    return {"examples": counts.total(), "leads": {lead: number for lead, number in counts.most_common() if number}}


def other_leads_line(of_others: OtherLeads) -> str:
    """Return ``36,738 training examples of 3 other leads: V1 (34,032), ...``, or ""."""
    examples, leads = of_others["examples"], of_others["leads"]
    if not examples:
        return ""
    names = listed([f"{lead} ({number:,})" for lead, number in leads.items()], 12)
    return f"{count_of(examples, 'training example')} of {count_of(len(leads), 'other lead')}: {names}"


def leads_line(cohort: Cohort, clients: Sequence[Client]) -> str:
    """Return one line on clients' leads of different names, ``MLII (45 patients), ECG1 (52)``; "" with one name.

    Where the patients of a site are one client, ``MLII (2 clients)``.
    """
    what = "client" if any("patients" in entry for entry in cohort.meta["clients"]) else "patient"
    leads = lead_counts(cohort, clients)
    names = [f"{lead} ({count_of(n, what) if i == 0 else n})" for i, (lead, n) in enumerate(leads.items())]
    return listed(names, 12) if len(names) > 1 else ""


def class_rows(cohort: Cohort) -> list[ClassRow]:
    """Return a row for each class, in order of the classes."""
    rows = []
    for i, name in enumerate(cohort.classes):
        mine = (cohort.label == i) & ~cohort.other_lead
        train, valid, test = (int((cohort.split[mine] == part).sum()) for part in range(3))
        owners = {int(client) for client in cohort.client[mine]} - {NOBODY}
        rows.append(ClassRow(name, int(mine.sum()), train, valid, test, len(owners)))
    return rows


def provenance(cohort: Cohort) -> dict[str, object]:
    """Return what of its recordings or images did not come into a cohort, and whether it is made up; JSON-ready."""
    meta = cohort.meta
    if cohort.modality != "ecg":
        return {name: meta[name] for name in ("partition", "left_over", "source")}
    counted = exclusions(cohort)
    anonymised = {"anonymised": meta["anonymised"]} if "anonymised" in meta else {}
    return {
        "without_beats": meta["without_beats"],
        "left_out": dict(counted["beats"].symbols),
        "excluded": {kind: kind_exclusions.as_json() for kind, kind_exclusions in counted.items()},
        "warnings": [kind_exclusions.warning for kind_exclusions in counted.values() if kind_exclusions.warning],
        "synthetic": bool(meta.get("synthetic")),
        **anonymised,
    }


def exclusions(cohort: Cohort) -> dict[str, Exclusions]:
    """Count what of a cohort's beats, annotations and recordings was read, used and excluded, by reason.

    Returns:
        ``beats``; ``annotations`` where peaks were detected; ``other_leads`` where these give training examples;
        ``recordings``. None but for ECG.
    """
    meta = cohort.meta
    if cohort.modality != "ecg":
        return {}
    records: list[dict[str, Any]] = of_first_lead(meta["records"])
    by_kind: dict[str, list[Exclusions]] = {"beats": []}
    for record in records:
        no_annotation = _count(record.get("peaks_without_annotation"))
        reasons = {"other_class": sum(record.get("left_out", {}).values()), "no_annotation": no_annotation}
        used = _count(record.get("beats"))
        for kind, entry in record.get(
            "excluded", {"beats": {"read": used + sum(reasons.values()), "used": used, "excluded": reasons}}
        ).items():
            symbols = record.get("left_out", {}) if kind == "beats" else {}
            by_kind.setdefault(kind, []).append(Exclusions(kind, entry["read"], entry["excluded"], symbols))
    summed = {kind: Exclusions.summed(parts, kind[:-1]) for kind, parts in by_kind.items()}
    others = [record for record in meta["records"] if FIRST_LEAD in record and "beats" in record.get("excluded", {})]
    if others:
        counted = [(record["excluded"]["beats"], record.get("left_out", {})) for record in others]
        parts = [Exclusions("beat", beats["read"], beats["excluded"], symbols) for beats, symbols in counted]
        summed["other_leads"] = Exclusions.summed(parts, "other-lead beat")
    skipped = meta.get("unusable")
    unusable = _count(skipped.get("count")) if isinstance(skipped, dict) else 0
    no_lead = _count(meta.get("without_lead_count", len(meta.get("without_lead", ()))))
    no_beats = len(records) - sum(len(client.records) for client in cohort.clients)
    copies = _count(meta.get("copies_count"))
    total = len(records) + unusable + no_lead + copies
    not_used = Counter(str(r["not_used"]) for r in records if r.get("not_used") in NOT_USED)
    excluded = {"unusable": unusable, "no_lead": no_lead, "copies": copies, **not_used}
    excluded["no_beats"] = no_beats - not_used.total()
    return {**summed, "recordings": Exclusions("recording", total, excluded)}


def _count(value: object) -> int:
    """Return a whole number of a JSON file, 0 for anything else."""
    return value if type(value) is int and value >= 0 else 0
