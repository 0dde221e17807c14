"""What a server does about a site that is away, slow, or sends what cannot be used.

Without ``--min-sites`` every site counts: the server waits for one that is away, and ends where one refuses. With
it a round goes on without some, and what is aggregated is what one machine would aggregate had their patients not taken
part in that round.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ecgfed.errors import OptionError, StorageError
from ecgfed.files import read_json, write_json
from ecgfed.methods.base import Requirements
from ecgfed.network.errors import NetworkError
from ecgfed.text import count_of

FILE_NAME = "policy.json"
#: What a site may claim: training beats of a patient (ten days of a heart), which weigh it against the others, and
#: patients, which take the server's memory.
MOST_BEATS, MOST_PATIENTS = 1_000_000, 10_000
_HIGHEST = {"--most-beats": 1 << 40, "--most-patients": 1 << 20}
#: How long a round waits where ``--min-sites`` is given and ``--wait`` is not, s.
WAIT_S = 300.0
_LONGEST_S = 7 * 86_400.0


@dataclass(frozen=True)
class Policy:
    """How many sites a round needs, and how long it waits for the others.

    Attributes:
        min_sites: sites that have to answer in a round; None is all. A round that asks fewer sites needs all of those.
        wait_s: how long the others are waited for, from the moment the round was sent; None is 300 s with
            ``min_sites``, and without an end where every site counts.
        most_beats: training beats that a site may claim for one patient.
        most_patients: patients that a site may claim.
    """

    min_sites: int | None = None
    wait_s: float | None = None
    most_beats: int = MOST_BEATS
    most_patients: int = MOST_PATIENTS

    def __post_init__(self) -> None:
        for option, value in (("--most-beats", self.most_beats), ("--most-patients", self.most_patients)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _HIGHEST[option]:
                raise OptionError(option, f"{value!r:.40}", f"a whole number, 1 to {_HIGHEST[option]:,}")
        if self.min_sites is not None and self.min_sites < 1:
            raise OptionError("--min-sites", f"{self.min_sites}", "1 or more")
        if self.wait_s is not None and not 0 <= self.wait_s <= _LONGEST_S:
            raise OptionError("--wait", f"{self.wait_s!r}", f"0 to {_LONGEST_S:.0f} seconds")
        if self.wait_s is not None and self.min_sites is None:
            raise OptionError("--wait", "was given alone", "--min-sites, the sites that are enough", "add --min-sites")

    def check(self, sites: int, needs: Requirements) -> None:
        """Refuse what the federation or the method does not allow; raises OptionError.

        Args:
            sites: of the federation.
            needs: the method's.
        """
        if self.min_sites is None:
            return
        if self.min_sites > sites:
            raise OptionError("--min-sites", f"{self.min_sites}", f"at most {sites}, the sites there are")
        if self.min_sites < sites and needs.all_clients:
            raise OptionError(
                "--min-sites",
                f"{self.min_sites} of {sites}",
                "all sites: this method is defined for rounds that everybody takes part in",
                "leave it out",
            )

    def check_claim(self, hello: Mapping[str, Any]) -> None:
        """Refuse what a site says of itself where it claims more than is believed; raises NetworkError.

        Args:
            hello: what it says, checked for its types.
        """
        action = "a higher bound where that is true"
        if hello["patients"] > self.most_patients:
            found, expected = (
                f"claims {count_of(hello['patients'], 'patient')}",
                f"at most {self.most_patients:,}, --most-patients",
            )
            raise NetworkError("a site's hello", found, expected, action)
        most = max(hello["train_examples"], default=0)
        if most > self.most_beats:
            found, expected = (
                f"claims {most:,} training beats of a patient",
                f"at most {self.most_beats:,}, --most-beats",
            )
            raise NetworkError("a site's hello", found, expected, action)

    @property
    def longest_s(self) -> float:
        """How long a round waits for sites it can do without."""
        if self.min_sites is None:
            return math.inf
        return WAIT_S if self.wait_s is None else self.wait_s

    def needed(self, asked: int) -> int:
        """Return how many of the sites that are asked have to answer."""
        return asked if self.min_sites is None else min(self.min_sites, asked)


#: Every site counts.
EVERY_SITE = Policy()


def write_policy(folder: Path, policy: Policy) -> None:
    """Write down what a server was started with; raises StorageError."""
    write_json(folder / FILE_NAME, asdict(policy))


def read_policy(folder: Path) -> Policy:
    """Read what a server was started with; every site counts where nothing is there. Raises StorageError."""
    file = folder / FILE_NAME
    if not file.is_file():
        return EVERY_SITE
    value = read_json(file, StorageError)
    try:
        least, wait = value["min_sites"], value["wait_s"]
        beats, patients = value.get("most_beats", MOST_BEATS), value.get("most_patients", MOST_PATIENTS)
        return Policy(None if least is None else int(least), None if wait is None else float(wait), beats, patients)
    except (KeyError, TypeError, ValueError, AttributeError, OptionError) as problem:
        raise StorageError(file, f"lacks {problem!s:.100}", "a policy", "start the server again") from problem
