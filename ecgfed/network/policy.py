"""How a server handles sites that are offline, slow, or send invalid replies.

Without ``--min-sites`` every site is required: the server waits for offline sites and stops if a site refuses. With
``--min-sites`` a round continues without some sites, and the aggregate is the same as on one machine where their
patients did not take part in that round.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError, StorageError, param
from ecgfed.base.files import read_json, write_json
from ecgfed.base.text import count_of
from ecgfed.core.methods.base import Requirements
from ecgfed.network.config import FEWEST_SUMMED, MAX_BEATS, MAX_CHANGE, MAX_PATIENTS, PolicyOptions
from ecgfed.network.errors import NetworkError

FILE_NAME = "policy.json"
#: Default of ``--wait`` with ``--min-sites``, s.
WAIT_S = 300.0


@dataclass(frozen=True)
class Policy(PolicyOptions):
    """How many sites a round needs, and how long it waits for the others.

    Attributes:
        min_sites: sites that must reply in a round; None requires all. A round with fewer sites needs all of those.
        wait_s: how long to wait for the other sites after the round was sent, s; None is 300 s with ``min_sites`` and
            no limit without it.
        max_beats: largest number of training beats a site may report for one patient.
        max_patients: largest number of patients a site may report.
        max_change: how many times as long as what was sent, and as the other sites' updates, an update may be.
        without: names of sites that take no part any more.
    """

    def check(self, sites: int, needs: Requirements, *, secure: bool = False) -> None:
        """Check the policy against the federation and the method; raises OptionError.

        Args:
            sites: number of sites in the federation.
            secure: whether it uses secure aggregation.
        """
        if secure and sites - len(self.without) < FEWEST_SUMMED:
            expected = f"{FEWEST_SUMMED} sites or more to remain with {param('secure_aggregation')}"
            raise OptionError("without", f"{len(self.without)} of {sites} sites", expected, code="conflict")
        if self.without and needs.all_clients:
            expected = "all sites, because every client takes part in each round of this method"
            raise OptionError("without", ", ".join(self.without), expected, "begin in a new folder", code="conflict")
        if len(self.without) >= sites:
            raise OptionError("without", f"{len(self.without)} of {sites} sites", "fewer")
        if self.min_sites is None:
            return
        if self.min_sites > sites:
            raise OptionError("min_sites", f"{self.min_sites}", f"at most {sites}, the number of sites")
        if secure and self.min_sites < (least := sites // 2 + 1):
            expected = (
                f"{least} or more of {sites} sites with {param('secure_aggregation')}, which reveals no smaller sum"
            )
            raise OptionError("min_sites", f"{self.min_sites}", expected, code="conflict")
        if self.min_sites < sites and needs.all_clients:
            expected = "all sites, because every client takes part in each round of this method"
            action = f"omit {param('min_sites')}"
            raise OptionError("min_sites", f"{self.min_sites} of {sites}", expected, action, code="conflict")

    def check_claim(self, registration: Mapping[str, Any]) -> None:
        """Reject a site whose reported counts exceed the limits; raises NetworkError.

        Args:
            registration: the site's registration, already checked for types.
        """
        patients, beats = registration["patients"], max(registration["train_examples"], default=0)
        for name, claimed, reason in (
            ("max_patients", patients, f"claims {count_of(patients, 'patient')}"),
            ("max_beats", beats, f"claims {beats:,} training beats of a patient"),
        ):
            if claimed > (limit := getattr(self, name)):
                expected, action = f"at most {limit:,}, {param(name)}", "raise the limit if the count is correct"
                raise NetworkError("a site's registration", reason, expected, action)

    @property
    def timeout_s(self) -> float:
        """How long a round waits for sites beyond ``min_sites``, s."""
        if self.min_sites is None:
            return math.inf
        return WAIT_S if self.wait_s is None else self.wait_s

    def needed(self, requested: int) -> int:
        """Return how many of the requested sites must reply."""
        return requested if self.min_sites is None else min(self.min_sites, requested)


#: Every site is required.
ALL_SITES = Policy()


def write_policy(folder: Path, policy: Policy) -> None:
    """Store the policy a server was started with; raises StorageError."""
    limits = {"most_beats": policy.max_beats, "most_patients": policy.max_patients, "most_change": policy.max_change}
    document = {"min_sites": policy.min_sites, "wait_s": policy.wait_s, **limits, "without": list(policy.without)}
    write_json(folder / FILE_NAME, document)


def read_policy(folder: Path) -> Policy:
    """Read the policy a server was started with, ``ALL_SITES`` if there is none; raises StorageError."""
    file = folder / FILE_NAME
    if not file.is_file():
        return ALL_SITES
    value = read_json(file, StorageError)
    try:
        min_sites, wait = value["min_sites"], value["wait_s"]
        beats, patients = value.get("most_beats", MAX_BEATS), value.get("most_patients", MAX_PATIENTS)
        wait_s = None if wait is None else float(wait)
        change, without = float(value.get("most_change", MAX_CHANGE)), tuple(map(str, value.get("without", ())))
        return Policy(None if min_sites is None else int(min_sites), wait_s, beats, patients, change, without)
    except (KeyError, TypeError, ValueError, AttributeError, OptionError) as problem:
        raise StorageError(file, f"lacks {problem!s:.100}", "a policy", "start the server again") from problem
