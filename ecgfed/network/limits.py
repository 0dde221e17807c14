"""A site's options and its limits on the server's runs.

Each run adds a folder at the site and each round a line. The server chooses both, so these limits protect the site's
disk.
"""

from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.network.config import SiteOptions
from ecgfed.network.errors import SiteError

#: Runs that a site stores, and rounds of one run: more than a federation needs in months.
MAX_RUNS, MAX_ROUNDS = 20, 10_000


#: Keeps every value in the site's folder.
DEFAULT_OPTIONS = SiteOptions()


@dataclass(frozen=True)
class Limits:
    """A site's limits.

    Attributes:
        runs: number of run folders the site stores; further runs are refused.
        rounds: number of rounds in one run's plan.
    """

    runs: int = MAX_RUNS
    rounds: int = MAX_ROUNDS

    def updated(self, options: SiteOptions) -> "Limits":
        """Return these limits with the operator's changes; raises OptionError for an invalid value."""
        runs, rounds = options.max_runs, options.max_rounds
        return Limits(self.runs if runs is None else runs, self.rounds if rounds is None else rounds)

    def __post_init__(self) -> None:
        if self.runs is None or self.rounds is None:  # a damaged site.json
            raise OptionError("max_runs" if self.runs is None else "max_rounds", "None", "a whole number")
        SiteOptions(max_runs=self.runs, max_rounds=self.rounds)  # checks them

    def check_room(self, runs: Path, folder: Path) -> None:
        """Refuse a run that would exceed the number of runs; raises SiteError.

        Args:
            runs: the folder of all runs.
            folder: the new run's folder in it.
        """
        existing = [path for path in runs.glob("*") if path.is_dir() and path != folder] if runs.is_dir() else []
        if len(existing) >= self.runs:
            expected = f"fewer than {self.runs} before another run starts (this site's limit)"
            action = "remove runs you no longer need ('ecgfed federate status' lists them), or raise the limit"
            raise SiteError("limit", runs, f"holds {len(existing)} runs", expected, action)

    def check_rounds(self, rounds: int) -> None:
        """Refuse a run of more rounds than this site takes part in; raises SiteError."""
        if rounds > self.rounds:
            reason, expected = f"has {rounds:,} rounds", f"at most {self.rounds:,} (this site's limit)"
            raise SiteError("limit", "the server's run", reason, expected, "raise the limit, or shorten the run")
