"""The federation that trained a model: its run, its sites and their recordings (``federation`` of run and manifest)."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ecgfed.base.text import count_of

#: Key in ``run.json`` and in a manifest.
FEDERATION = "federation"
#: Longest name of a site, lead, database or version, in characters, and most entries of a list of them.
MAX_NAME, MAX_NAMES = 200, 64
#: Recordings of no published database, made-up ones, and a lead whose name is none of a lead.
OWN, SYNTHETIC, OTHER_LEAD = "own recordings", "synthetic recordings", "other"
_RUN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class SiteSource:
    """What a model was trained on at one site.

    Attributes:
        name: the site's name, or ``site 1`` and so on.
        patients: number of participating patients.
        training_examples: their training examples.
        leads: leads of the recordings.
        recorded_hz: sampling rates of the recordings, Hz.
        databases: published databases with their versions; ``own recordings``, or that they are synthetic.
        version: the site's version of ecgfed.
    """

    name: str
    patients: int
    training_examples: int
    leads: tuple[str, ...] = ()
    recorded_hz: tuple[float, ...] = ()
    databases: tuple[str, ...] = ()
    version: str = ""

    def __post_init__(self) -> None:
        counts = (self.patients, self.training_examples)
        texts = (self.name, self.version, *self.leads, *self.databases)
        if not all(type(count) is int and 0 <= count < 1 << 50 for count in counts):
            raise ValueError("counts of a site")
        if not all(isinstance(text, str) and len(text) <= MAX_NAME and text.isprintable() for text in texts):
            raise ValueError("printable names of a site, its leads and databases")
        if max(map(len, (self.leads, self.recorded_hz, self.databases))) > MAX_NAMES:
            raise ValueError(f"at most {MAX_NAMES} leads, sampling rates and databases of a site")
        if not all(type(rate) in (int, float) and math.isfinite(rate) and 0 < rate < 1e6 for rate in self.recorded_hz):
            raise ValueError("sampling rates of a site")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SiteSource":
        """Read one; raises KeyError, TypeError, ValueError."""
        leads, rates, databases = (value[name] for name in ("leads", "recorded_hz", "databases"))
        if not all(isinstance(part, list | tuple) for part in (leads, rates, databases)):
            raise TypeError("leads, sampling rates and databases of a site as lists")
        counts = value["patients"], value["training_examples"]
        return cls(value["name"], *counts, tuple(leads), tuple(rates), tuple(databases), value["version"])


@dataclass(frozen=True)
class Federation:
    """The federation that trained a model.

    Attributes:
        run: SHA-256 of the run's definition, the same at all sites.
        sites: the sites in order.
        site: name of the site to whose patients the run or bundle belongs; "" at the server.
    """

    run: str
    sites: tuple[SiteSource, ...]
    site: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.run, str) or not _RUN.fullmatch(self.run):
            raise ValueError("the SHA-256 of a federation's run")
        names = [source.name for source in self.sites]
        if not names or len(set(names)) != len(names) or (self.site and self.site not in names):
            raise ValueError("a federation's sites, each once")

    @property
    def patients(self) -> int:
        """Participating patients of all sites."""
        return sum(source.patients for source in self.sites)

    @property
    def training_examples(self) -> int:
        """Training examples of all sites."""
        return sum(source.training_examples for source in self.sites)

    def describe(self) -> str:
        """Return a summary: sites, patients, training examples."""
        patients, examples = count_of(self.patients, "patient"), count_of(self.training_examples, "training example")
        return f"{count_of(len(self.sites), 'site')}, {patients}, {examples}"

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        sites = [{key: list(v) if isinstance(v, tuple) else v for key, v in asdict(one).items()} for one in self.sites]
        return {"run": self.run, "sites": sites, **({"site": self.site} if self.site else {})}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Federation":
        """Read one; raises KeyError, TypeError, ValueError."""
        if not isinstance(value, Mapping) or not isinstance(value["sites"], list | tuple):
            raise TypeError("a federation with its sites")
        return cls(value["run"], tuple(map(SiteSource.from_json, value["sites"])), value.get("site", ""))


def federation_in(document: Mapping[str, Any]) -> Federation | None:
    """Return the federation in a ``run.json`` or manifest, None if there is none; raises as ``from_json``."""
    return Federation.from_json(document[FEDERATION]) if FEDERATION in document else None


def differences(sites: Sequence[SiteSource]) -> list[str]:
    """Return a sentence for each difference between sites that a person should know of: versions and leads."""
    lines = []
    for what, values in (
        ("versions of ecgfed", [(source.version or "unknown",) for source in sites]),
        ("leads", [source.leads for source in sites]),
    ):
        if len(set(map(frozenset, values))) > 1:
            each = "; ".join(
                f"{source.name} {', '.join(value) or 'unknown'}" for source, value in zip(sites, values, strict=True)
            )
            lines.append(f"the sites have different {what}: {each}")
    return lines
