"""What a federation states about its sites' data, in a site's registration and in every model that it trains."""

from collections.abc import Mapping, Sequence
from typing import Any

from ecgfed import __version__
from ecgfed.core.federation.data import TrainingData
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.databases import DATABASES
from ecgfed.domain.record.lead_names import is_impersonal
from ecgfed.exports.device.federation import MAX_NAME, MAX_NAMES, OTHER_LEAD, OWN, SYNTHETIC, Federation, SiteSource
from ecgfed.network.config import NAMES
from ecgfed.network.errors import SiteError
from ecgfed.network.run_spec import RunSpec

#: Fields of a site's registration -> description.
PROVENANCE_UP = {
    "version": "the site's version of ecgfed",
    "leads": "names of its recordings' leads; a name that is none of a lead becomes 'other'",
    "recorded_hz": "sampling rates of its recordings",
    "databases": "published databases of its recordings, with their versions, or 'own recordings'",
}


def provenance_of(cohort: Cohort) -> dict[str, Any]:
    """Return ``PROVENANCE_UP`` of a site's cohort; names that may be a person's are not in it."""
    took_part = {name for client in cohort.federation for name in client.records}
    records = [record for record in cohort.meta.get("records", ()) if record["name"] in took_part]
    leads = {str(record["lead"]) if is_impersonal(str(record["lead"])) else OTHER_LEAD for record in records}
    kinds = dict.fromkeys(str(part["kind"]) for part in cohort.meta.get("sites") or [cohort.meta])
    return {
        "version": __version__,
        "leads": sorted(leads)[:MAX_NAMES],
        "recorded_hz": sorted({float(record["fs_hz"]) for record in records})[:MAX_NAMES],
        "databases": list(dict.fromkeys(map(_database, kinds))),
    }


def _database(kind: str) -> str:
    if kind in DATABASES:
        return f"{DATABASES[kind].title} {DATABASES[kind].version}"
    return SYNTHETIC if kind == "demo" else OWN


def provenance_problem(fields: Mapping[str, Any]) -> str:
    """Return what is wrong with ``PROVENANCE_UP`` of a registration, "" if nothing is."""
    try:
        SiteSource.from_json({"name": "site", "patients": 0, "training_examples": 0, **fields})
    except (KeyError, TypeError, ValueError) as problem:
        return f"has no valid provenance ({problem!s:.{MAX_NAME}})"
    return ""


def sources_of(sites: Sequence[Any], site_names: str) -> tuple[SiteSource, ...]:
    """Return the sites as every model states them.

    Args:
        sites: the roster's entries.
        site_names: ``names`` for the names of the key files, else ``site 1`` and so on.
    """
    return tuple(
        SiteSource(
            site.name if site_names == NAMES else f"site {number}",
            len(site.clients),
            sum(site.train_examples),
            site.leads,
            site.recorded_hz,
            site.databases,
            site.version,
        )
        for number, site in enumerate(sites, 1)
    )


def federation_of(run_spec: RunSpec, data: TrainingData) -> Federation:
    """Return the federation of a run specification; raises SiteError if it misstates this site.

    Args:
        data: this site's training data.
    """
    federation = Federation.from_json({"run": run_spec.run, "sites": run_spec.sites, "site": run_spec.site})
    own = next((source for source in federation.sites if source.name == federation.site), None)
    expected = len(data.clients), int(data.train_examples.sum())
    if own is None or (own.patients, own.training_examples) != expected:
        reason = "states other patients or training examples of this site than it has"
        raise SiteError("request", "the server's order", reason, f"{expected[0]} and {expected[1]}")
    return federation


def version_difference(server: str) -> str:
    """Return a warning if the server has another version of ecgfed than this site, "" if not."""
    if server == __version__:
        return ""
    return f"the server has ecgfed {server:.40}, this site {__version__}: install the same version at all ends"
