"""What a site bounds of the runs that a server may have with it: how many, and of how many rounds.

Each run leaves a folder at a site, and each round a line. A server chooses both, so a site's disk is held by these.
"""

from dataclasses import dataclass
from pathlib import Path

from ecgfed.errors import OptionError
from ecgfed.network.errors import SiteError

#: Runs that a site keeps, and rounds of one: more than a federation of months has.
MOST_RUNS, MOST_ROUNDS = 20, 10_000
_HIGHEST = 1_000_000


@dataclass(frozen=True)
class Limits:
    """A site's bounds.

    Attributes:
        runs: run folders that the site keeps; a further run is refused.
        rounds: of one run's plan.
    """

    runs: int = MOST_RUNS
    rounds: int = MOST_ROUNDS

    def __post_init__(self) -> None:
        for option, value in (("--most-runs", self.runs), ("--most-rounds", self.rounds)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _HIGHEST:
                raise OptionError(option, f"{value!r:.40}", f"a whole number, 1 to {_HIGHEST:,}")

    def check_room(self, runs: Path, folder: Path) -> None:
        """Refuse a run that would be one too many; raises SiteError.

        Args:
            runs: the folder of the runs.
            folder: the new run's, in it.
        """
        there = [path for path in runs.glob("*") if path.is_dir() and path != folder] if runs.is_dir() else []
        if len(there) >= self.runs:
            raise SiteError(
                "limit",
                runs,
                f"holds {len(there)} runs",
                f"fewer than {self.runs} before another one begins, this site's --most-runs",
                "remove those you no longer need ('ecgfed federate status' lists them), or raise it",
            )

    def check_rounds(self, rounds: int) -> None:
        """Refuse a run of more rounds than this site takes part in; raises SiteError."""
        if rounds > self.rounds:
            expected = f"at most {self.rounds:,}, this site's --most-rounds"
            raise SiteError(
                "limit", "the server's run", f"has {rounds:,} rounds", expected, "raise it, or a shorter run"
            )
