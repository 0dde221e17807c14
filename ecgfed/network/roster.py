"""The federation's sites in order, their patient counts, and the patients' numbers in the federation.

Patients are numbered through the sites in order: the federation equals the concatenation of the sites' cohorts, each in
the order its site chose, and every seed, weight and choice of participants is the same as for that single cohort.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgfed.base.errors import StorageError, param, spelled
from ecgfed.base.files import read_json, write_json
from ecgfed.base.text import count_of
from ecgfed.core.federation.data import TrainingData
from ecgfed.network.errors import NetworkError
from ecgfed.network.programs import ROSTER

FILE_NAME = ROSTER


@dataclass(frozen=True)
class SiteEntry:
    """A registered site.

    Attributes:
        node: Flower's node id, derived from the site's key.
        name: name of its key file, for messages.
        patients: number of patients in its cohort, including held-out patients.
        clients: positions of the participating patients.
        train_examples: training examples of each participating patient: beats, and those of other leads.
        version: the site's version of ecgfed; this and the following are ``PROVENANCE_UP`` of its registration.
    """

    node: int
    name: str
    patients: int
    clients: tuple[int, ...]
    train_examples: tuple[int, ...]
    version: str = ""
    leads: tuple[str, ...] = ()
    recorded_hz: tuple[float, ...] = ()
    databases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Roster:
    """The federation's sites.

    Attributes:
        sites: the sites in order.
        modality: ``ecg`` or ``image``.
        classes: class names.
        rr_version: version of the sites' RR features.
    """

    sites: tuple[SiteEntry, ...]
    modality: str
    classes: tuple[str, ...]
    rr_version: int

    @property
    def first_numbers(self) -> tuple[int, ...]:
        """The number of each site's first patient."""
        return tuple(sum(site.patients for site in self.sites[:position]) for position in range(len(self.sites)))

    def site_of(self, client: int) -> int:
        """Return the index of the site that has a patient."""
        return max(position for position, first in enumerate(self.first_numbers) if first <= client)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything the training depends on: numbers and counts, but not the sites' identities."""
        counts = [[site.patients, site.clients, site.train_examples] for site in self.sites]
        text = json.dumps([counts, self.modality, self.classes, self.rr_version])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def clients(self) -> int:
        """Number of participating patients of all sites."""
        return sum(len(site.clients) for site in self.sites)

    def shares(self) -> list[float]:
        """Return each site's share of all training beats: its weight in a mean over beats."""
        beats = [sum(site.train_examples) for site in self.sites]
        return [count / max(1, sum(beats)) for count in beats]

    def describe(self) -> str:
        """Return a summary of the sites: patients, training examples and share of all of them."""
        return ", ".join(
            f"{site.name}: {len(site.clients)} with {count_of(sum(site.train_examples), 'example')}, {100 * share:.0f}%"
            for site, share in zip(self.sites, self.shares(), strict=True)
        )

    def warnings(self) -> list[str]:
        """Return warnings about sites that report more beats than all other sites together."""
        return [
            f"site {site.name} reports more beats than all other sites together ({100 * share:.1f}%), which gives it "
            "this weight in the aggregate: if the count is wrong, stop, and exclude the site or lower "
            f"{spelled(param('max_beats'))}"
            for site, share in zip(self.sites, self.shares(), strict=True)
            if share > 0.5 and len(self.sites) > 2
        ]

    def with_nodes(self, names: Mapping[int, str]) -> "Roster":
        """Return the roster with Flower's current node ids; a site without a key gets an unused id.

        Args:
            names: node -> name of the key file, for every registered key.

        Raises:
            NetworkError: a key belongs to no site of this federation.
        """
        known = {site.node for site in self.sites}
        if names.keys() <= known:
            nodes = {site.name: site.node for site in self.sites if site.node in names}
        else:  # Flower's database was lost, or a key was replaced
            nodes = {name: node for node, name in names.items()}
        strangers = sorted(nodes.keys() - {site.name for site in self.sites})
        if strangers or len(nodes) != len(names):
            reason = f"include {', '.join(strangers) or 'a site twice'}"
            raise NetworkError("the keys", reason, "those of the sites that started the run", "see roster.json")
        sites = (replace(site, node=nodes.get(site.name, -1 - position)) for position, site in enumerate(self.sites))
        return replace(self, sites=tuple(sites))

    def completed(self, registrations: Mapping[int, Mapping[str, Any]]) -> "Roster":
        """Return the roster with what sites state of themselves since protocol 3, if it was begun with protocol 2.

        Args:
            registrations: node -> its registration.
        """
        sites = tuple(
            site
            if site.version or site.node not in registrations
            else _entry({**asdict(site), **registrations[site.node]})
            for site in self.sites
        )
        return replace(self, sites=sites)

    def matches(self, node: int, registration: Mapping[str, Any]) -> bool:
        """Return whether a site's registration equals the one at the start of the run."""
        (site,) = (entry for entry in self.sites if entry.node == node)
        counts = (registration["patients"], tuple(registration["clients"]), tuple(registration["train_examples"]))
        features = (registration["modality"], tuple(registration["classes"]), registration["rr_version"])
        recorded = (site.patients, site.clients, site.train_examples)
        return counts == recorded and features == (self.modality, self.classes, self.rr_version)

    def data(self) -> "RosterData":
        """Return the clients' numbers and beat counts as training data without beats."""
        examples = {
            first + position: count
            for first, site in zip(self.first_numbers, self.sites, strict=True)
            for position, count in zip(site.clients, site.train_examples, strict=True)
        }
        if not examples:
            raise NetworkError("the sites", "have no patient with a training beat", "at least one")
        # a view of a single zero with the length of the client's beats
        rows = {number: np.broadcast_to(np.zeros(1, np.int64), count) for number, count in examples.items()}
        return RosterData(
            clients=np.array(sorted(rows), dtype=np.int64),
            rows=rows,
            examples=np.zeros((0, 1, 1), np.float32),
            rr=None,
            label=np.zeros(0, np.int64),
            classes=len(self.classes),
            ids={number: f"number {number}" for number in rows},
        )


class RosterData(TrainingData):
    """Training data with only the clients' numbers and beat counts."""

    def class_counts(self, client: int) -> torch.Tensor:
        """Return zeros: the server does not know the patients' classes; each site counts its own."""
        return torch.zeros(self.classes, dtype=torch.int64)


def build_roster(names: Mapping[int, str], registrations: Sequence[tuple[int, Mapping[str, Any]]]) -> Roster:
    """Build the roster from the sites' registrations.

    Args:
        names: node -> name, in the order of the sites.
        registrations: node and registration of each site.

    Raises:
        NetworkError: the sites' cohorts are incompatible.
    """
    by_node = dict(registrations)
    first = by_node[next(iter(names))]
    for node, name in names.items():
        for what in ("modality", "classes", "rr_version"):
            if by_node[node][what] != first[what]:
                reason = f"has {what} {by_node[node][what]!s:.100}"
                expected = f"{first[what]!s:.100}, as at the first site"
                raise NetworkError(f"site {name}", reason, expected, "prepare the cohorts with the same options")
    sites = [{"node": node, "name": name, **by_node[node]} for node, name in names.items()]
    return _roster({**first, "sites": sites})


def _roster(value: Mapping[str, Any]) -> Roster:
    sites = tuple(map(_entry, value["sites"]))
    return Roster(sites, str(value["modality"]), tuple(map(str, value["classes"])), int(value["rr_version"]))


def _entry(value: Mapping[str, Any]) -> SiteEntry:
    return SiteEntry(
        int(value["node"]),
        str(value["name"]),
        int(value["patients"]),
        tuple(int(position) for position in value["clients"]),
        tuple(int(count) for count in value["train_examples"]),
        str(value.get("version", "")),
        tuple(map(str, value.get("leads", ()))),
        tuple(map(float, value.get("recorded_hz", ()))),
        tuple(map(str, value.get("databases", ()))),
    )


def write_roster(folder: Path, roster: Roster) -> None:
    """Write the roster into the server's folder; raises StorageError."""
    write_json(folder / FILE_NAME, asdict(roster))


def read_roster(folder: Path) -> Roster | None:
    """Read the roster, None if there is none yet; raises StorageError if it is damaged."""
    file = folder / FILE_NAME
    if not file.is_file():
        return None
    value = read_json(file, StorageError)
    try:
        return _roster(value)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise StorageError(file, f"lacks {problem!s:.100}", "the sites of the federation", "restore it") from problem
