"""Cohorts that were prepared one by one, joined into one federation of several sites (docs/decisions/0076)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed import __version__
from ecgfed.base.errors import CohortError, OptionError, param
from ecgfed.base.files import replacing_folder
from ecgfed.base.safe_io import check_name
from ecgfed.base.text import count_of
from ecgfed.domain.beats.labels import BUILT_IN, LabelMap
from ecgfed.domain.cohort.arrays import DIGEST
from ecgfed.domain.cohort.clients import of_first_lead
from ecgfed.domain.cohort.cohort import UNLABELLED, Client, Cohort
from ecgfed.domain.cohort.databases import DATABASES
from ecgfed.domain.cohort.writer import CohortWriter

#: Rows that are copied at once.
_BLOCK = 8192
#: What all have to agree on: beats of another length, filter or version are another input.
_SAME = ("modality", "fs_hz", "window_samples", "r_index", "rr_version", "rr_features", "units", "filter", "normalised")
#: Whose beats one client's are: a patient's, or those of all patients of a site.
CLIENTS = ("patient", "site")
#: What a site's entry in ``cohort.json`` takes over from its cohort.
_OF_SITE = (
    "kind",
    "classes",
    "leads",
    "train_leads",
    "split",
    "seed",
    "peaks",
    "detector",
    "mains_hz",
    "rr_version",
    "fingerprint",
    DIGEST,
)


@dataclass(frozen=True)
class _Member:
    """A cohort as part of a joined one.

    Attributes:
        site: name of its site; "" for a cohort that has sites of its own, which stay.
        cohort: it.
        new_class: (classes,) its class numbers in the joined cohort.
        by_site: whether the patients of a site are one client.
    """

    site: str
    cohort: Cohort
    new_class: NDArray[np.int16]
    by_site: bool

    def is_merged(self, client: Client) -> bool:
        """Return whether a client becomes part of its site's: not one that is held out, or has no labelled beats."""
        return self.by_site and not client.holdout and not client.record_label

    @property
    def groups(self) -> list[list[Client]]:
        """Its clients by client of the joined cohort."""
        groups: dict[tuple[str, int], list[Client]] = {}
        for client in self.cohort.clients:
            groups.setdefault((client.site, -1 if self.is_merged(client) else client.index), []).append(client)
        return list(groups.values())


def site_names(cohorts: Sequence[Cohort]) -> list[str]:
    """Return a name for the site of each cohort: its database, or its folder where another one has that name."""
    kinds = [str(cohort.meta["kind"]) for cohort in cohorts]
    return [
        kind if kind in DATABASES and kinds.count(kind) == 1 else cohort.path.resolve().name
        for kind, cohort in zip(kinds, cohorts, strict=True)
    ]


def join_cohorts(
    sites: Sequence[tuple[str, Cohort]], out: Path, *, clients: str = "patient", overwrite: bool = False
) -> list[str]:
    """Write a cohort with the clients of several; memory holds some thousand beats at a time.

    Args:
        sites: name of the site and its cohort, in order. A cohort that was joined itself brings its own sites.
        out: folder to make.
        clients: a key of ``CLIENTS``. With ``site`` the patients of a site who take part in training are one client,
            called as the site; held-out and unlabelled ones stay apart, and one cohort is enough.
        overwrite: replace ``out`` where it exists.

    Returns:
        Notes: classes that were mapped, ids that were prefixed.

    Raises:
        OptionError: fewer than two cohorts, two sites of one name, a site's name that no client's id can begin with,
            or ``out`` exists.
        CohortError: cohorts that differ in what all have to agree on, whose classes cannot be mapped onto AAMI's, or
            that share a recording.
        StorageError: the disk refuses.
    """
    cohorts = [cohort for _, cohort in sites]
    if clients not in CLIENTS:
        raise OptionError("clients", f"{clients!r:.60}", f"one of {', '.join(CLIENTS)}", code="unknown-choice")
    if len(cohorts) < (2 if clients == "patient" else 1):
        raise OptionError("cohorts", count_of(len(cohorts), "cohort"), "two or more", code="missing")
    for cohort in cohorts:
        _check_same(cohorts[0], cohort)
    _check_recordings(cohorts)
    labels = _common_labels(cohorts)
    members = [
        _Member("" if cohort.sites else name, cohort, _mapping(cohort, labels), clients == "site")
        for name, cohort in sites
    ]
    names = [name for member in members for name in (member.cohort.sites or [member.site])]
    if repeated := sorted({name for name in names if [n.casefold() for n in names].count(name.casefold()) > 1}):
        problem = f"two sites are called {repeated[0]}"
        raise OptionError("cohorts", problem, "a name of its own for each", f"name them with {param('site')}")
    notes = [note for name, cohort in sites if (note := _mapping_note(name, cohort, labels))]
    ids, patients, records = (_unique(texts) for texts in _names(members))
    for name in (every := [name for part in ids for name in part]):  # a site's name may not be one of a file
        check_name(name, "client", "cohorts", OptionError)
    if len({name.casefold() for name in every}) < len(every):
        problem = "a client's id is the name of a site and another client's id"
        raise OptionError("cohorts", problem, "ids that differ", f"name the sites with {param('site')}")
    old = [name for part in next(_names(members)) for _, name in part]
    renamed = sum(new != name for new, name in zip(every, old, strict=True))
    if renamed:
        notes.append(f"{count_of(renamed, 'client')} prefixed with the name of the site, since ids were there twice.")
    with (
        replacing_folder(out, overwrite=overwrite) as folder,
        CohortWriter(folder, rr_version=cohorts[0].rr_version) as writer,
    ):
        counts = _copy(members, writer, len(labels.classes))
        writer.finish(_meta(members, labels, counts, (ids, patients, records)))
    return notes


def _check_same(first: Cohort, other: Cohort) -> None:
    """Raise CohortError where beats of two cohorts are not the same kind of input."""
    if first.modality != "ecg":
        raise CohortError(first.path, "holds images", "a cohort of ECG beats")
    for name in _SAME:
        mine, others = first.meta.get(name), other.meta.get(name)
        if mine != others:
            problem = f"has {name} {others!r:.80}, and {first.path} has {mine!r:.80}"
            raise CohortError(other.path, problem, "the same for all sites", "prepare one of them again")


def _check_recordings(cohorts: Sequence[Cohort]) -> None:
    """Raise CohortError for a recording that two cohorts have: its patient would be at two sites."""
    first_by_digest: dict[str, tuple[Cohort, str]] = {}
    for cohort in cohorts:
        for record in cohort.meta["records"]:
            for file, digest in record.get("sha256", {}).items():
                first, name = first_by_digest.setdefault(digest, (cohort, record["name"]))
                if first is not cohort and not file.endswith(".hea"):
                    problem = f"recording {record['name']} is recording {name} of {first.path} too ({file})"
                    action = "leave it out of one of them"
                    raise CohortError(cohort.path, problem, "no patient at two sites", action)


def _common_labels(cohorts: Sequence[Cohort]) -> LabelMap:
    """Return the label map of the joined cohort: the one of all, or else AAMI's; raises CohortError."""
    first = cohorts[0].labels
    if all((c.labels.classes, c.labels.symbols) == (first.classes, first.symbols) for c in cohorts):
        return first
    names = [cohort.labels.name for cohort in cohorts]
    candidates = sorted((BUILT_IN["aami5"], BUILT_IN["aami5-bxb"]), key=lambda labels: labels.name not in names)
    problems = []
    for labels in candidates:
        try:
            for cohort in cohorts:
                _mapping(cohort, labels)
        except CohortError as problem:
            problems.append(problem)
        else:
            return labels
    raise problems[0]


def _mapping(cohort: Cohort, labels: LabelMap) -> NDArray[np.int16]:
    """Return the number in ``labels`` of each class, by the symbols of both; raises CohortError."""
    if cohort.classes == labels.classes and cohort.labels.symbols == labels.symbols:
        return np.arange(len(labels.classes), dtype=np.int16)
    numbers = []
    for name in cohort.classes:
        symbols = [symbol for symbol, owner in cohort.labels.symbols.items() if owner == name]
        targets = {labels.symbols.get(symbol, "none") for symbol in symbols}
        if len(targets) != 1 or "none" in targets:
            problem = f"class {name} ({' '.join(symbols)}) is {' and '.join(sorted(targets))} in {labels.name}"
            expected = "one class, since the cohorts have different ones"
            raise CohortError(cohort.path, problem, expected, f"prepare all with the same {param('classes')}")
        numbers.append(labels.classes.index(targets.pop()))
    return np.array(numbers, np.int16)


def _mapping_note(site: str, cohort: Cohort, labels: LabelMap) -> str:
    """Return what became of a cohort's classes, and of beats that only the joined cohort has a class for; else ""."""
    if (cohort.classes, cohort.labels.symbols) == (labels.classes, labels.symbols):
        return ""
    targets: dict[str, list[str]] = {}
    for name, number in zip(cohort.classes, _mapping(cohort, labels), strict=True):
        targets.setdefault(labels.classes[number], []).append(name)
    mapped = ", ".join(f"{' '.join(names)} to {target}" for target, names in targets.items())
    missing = Counter[str]()
    for record in of_first_lead(cohort.meta["records"]):
        missing.update({s: n for s, n in record.get("left_out", {}).items() if s in labels.symbols})
    symbols = ", ".join(f"{count} {symbol}" for symbol, count in missing.most_common())
    without = f"; without its {symbols}, which {cohort.labels.name} has no class for" if missing else ""
    return f"Classes of {site} mapped onto {labels.name}: {mapped}{without}."


def _names(members: Sequence[_Member]) -> Iterator[list[list[tuple[str, str]]]]:
    """Yield (site, name) of the clients, of their patients and of the recordings, each by member."""
    for name in ("id", "patient"):
        yield [
            [
                (site, site if member.is_merged(group[0]) else getattr(group[0], name))
                for group in member.groups
                for site in [_site(member, group[0])]
            ]
            for member in members
        ]
    site_of = [
        {name: _site(member, client) for client in member.cohort.clients for name in client.records}
        for member in members
    ]
    yield [
        [(sites.get(record["name"], member.site), record["name"]) for record in member.cohort.meta["records"]]
        for member, sites in zip(members, site_of, strict=True)
    ]


def _site(member: _Member, client: Client) -> str:
    return member.site or client.site


def _unique(names: list[list[tuple[str, str]]]) -> list[list[str]]:
    """Return the names, those with the site before them that more than one member has, whatever their case."""
    count = Counter(folded for part in names for folded in {name.casefold() for _, name in part})
    return [[f"{site}-{name}" if count[name.casefold()] > 1 else name for site, name in part] for part in names]


def _copy(members: Sequence[_Member], writer: CohortWriter, classes: int) -> NDArray[np.int64]:
    """Copy the beats of all members; return how many each class has, (classes,)."""
    counts, number, records = np.zeros(classes, np.int64), 0, 0
    for member in members:
        cohort = member.cohort
        for group in member.groups:
            for client in group:
                first, end = np.searchsorted(cohort.client, [client.index, client.index + 1])
                for start in range(first, end, _BLOCK):
                    block = slice(start, min(start + _BLOCK, end))
                    rows = {name: np.asarray(array[block]) for name, array in cohort.arrays.items()}
                    label = np.where(rows["label"] == UNLABELLED, UNLABELLED, member.new_class[rows["label"]])
                    beats = (label != UNLABELLED) & ~cohort.other_lead[block]
                    counts += np.bincount(label[beats], minlength=classes)
                    owner = np.full(len(label), number, np.int32)
                    writer.append(**{**rows, "label": label, "client": owner, "record": rows["record"] + records})
            number += 1
        records += len(cohort.meta["records"])
    return counts


def _meta(
    members: Sequence[_Member],
    labels: LabelMap,
    counts: NDArray[np.int64],
    names: tuple[list[list[str]], list[list[str]], list[list[str]]],
) -> dict[str, Any]:
    """Return what ``cohort.json`` says beside the counts; ``names``: of clients, patients and recordings by member."""
    metas = [member.cohort.meta for member in members]
    clients: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    record_labels: dict[str, str] = {}
    excluded: dict[str, list[str]] = {}
    for member, ids, patients, recordings in zip(members, *names, strict=True):
        old = [record["name"] for record in member.cohort.meta["records"]]
        new = dict(zip(old, recordings, strict=True))
        records += [{**r, "name": new[r["name"]]} for r in member.cohort.meta["records"]]
        for group, name, patient in zip(member.groups, ids, patients, strict=True):
            client, entries = group[0], [member.cohort.meta["clients"][one.index] for one in group]
            of_client = {"id": name, "patient": patient, "records": [new[r] for one in group for r in one.records]}
            beats = {"patients": sum(entry.get("patients", 1) for entry in entries)}
            beats["beats"] = sum(entry["beats"] for entry in entries)
            merged = beats if member.is_merged(client) else {}
            clients.append({**entries[0], **of_client, **merged, "site": _site(member, client)})
            if client.record_label:
                record_labels[name] = client.record_label
                excluded[name] = _excluded(member, client, labels)
    weak = {"record_labels": record_labels, "excluded_classes": excluded} if record_labels else {}
    usual, removed = _usual(members), Counter[str]()
    for meta in metas:
        removed.update(meta.get("anonymised", {}).get("removed", {}))
    synthetic = [str(meta["synthetic"]) for meta in metas if meta.get("synthetic")]
    left_out = ("without_beats", "without_lead", "copies")
    return {
        **{name: metas[0].get(name) for name in _SAME},
        "kind": "joined",
        "tool_version": __version__,
        "classes": list(labels.classes),
        "label_map": labels.as_json(),
        "leads": list(dict.fromkeys(lead for member in members for lead in member.cohort.leads)),
        "split": " and ".join(dict.fromkeys(str(meta["split"]) for meta in metas)),
        **({"train_leads": "all"} if any(meta.get("train_leads") == "all" for meta in metas) else {}),
        **{name: usual[name] for name in ("peaks", "detector", "mains_hz", "seed", "reading") if name in usual},
        "holdout": [client["id"] for client in clients if client["holdout"]],
        "class_counts": {name: int(n) for name, n in zip(labels.classes, counts, strict=True)},
        "clients": clients,
        "records": records,
        **{key: [entry for meta in metas for entry in meta.get(key, ())] for key in left_out},
        **{name: sum(int(meta.get(name, 0)) for meta in metas) for name in ("without_lead_count", "copies_count")},
        **_unusable(metas),
        **weak,
        **({"anonymised": {"removed": dict(removed)}} if removed else {}),
        **({"synthetic": "; ".join(dict.fromkeys(synthetic))} if synthetic else {}),
        "sites": [entry for member in members for entry in _entries(member)],
    }


def _usual(members: Sequence[_Member]) -> Mapping[str, Any]:
    """Return whose ``cohort.json`` says how to read a new patient: a labelled site, one of detected peaks first."""
    metas = [member.cohort.meta for member in members if member.cohort.federation] or [members[0].cohort.meta]
    return next((meta for meta in metas if meta["peaks"] == "detected"), metas[0])


def _unusable(metas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = [meta["unusable"] for meta in metas if isinstance(meta.get("unusable"), dict)]
    if not parts:
        return {}
    count, names = sum(part["count"] for part in parts), [name for part in parts for name in part["recordings"]]
    return {"unusable": {"count": count, "recordings": names}}


def _excluded(member: _Member, client: Client, labels: LabelMap) -> list[str]:
    """Return the joined classes all of whose classes here are excluded in a client's recording."""
    absent = member.cohort.excluded_classes[client.index]
    present = set(member.new_class[~absent].tolist())
    return [labels.classes[number] for number in sorted(set(member.new_class[absent].tolist()) - present)]


def _entries(member: _Member) -> list[dict[str, Any]]:
    """Return the entries of ``sites`` of one member: one, or those it was joined of."""
    meta = member.cohort.meta
    if member.cohort.sites:
        return list(meta["sites"])
    fs_hz = sorted({float(record["fs_hz"]) for record in meta["records"]})
    about = {name: meta.get(name) for name in _OF_SITE if name in meta}
    database = {"database": meta["database"]} if "database" in meta else {}
    return [{"name": member.site, "clients": len(member.groups), "recorded_hz": fs_hz, **about, **database}]
