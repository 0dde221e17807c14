"""What a site's operator asks for, and what a site bounds of the runs that a server may have with it.

Each run leaves a folder at a site, and each round a line. A server chooses both, so a site's disk is held by these.
"""

from dataclasses import dataclass
from pathlib import Path

from ecgfed.errors import OptionError
from ecgfed.network.errors import SiteError

#: Runs that a site keeps, and rounds of one: more than a federation of months has.
MAX_RUNS, MAX_ROUNDS = 20, 10_000
_UPPER_BOUND = 1_000_000


@dataclass(frozen=True)
class SiteOptions:
    """What an operator asks of a site at a start; None leaves what the site's folder says.

    Attributes:
        numbers: ``shuffled``, so that a patient's number says nothing of its place in the cohort, or ``cohort``; in a
            new folder ``shuffled``.
        max_epsilon: what all runs together may tell of one patient (``ecgfed.network.budget``); in a new folder, any.
        max_runs: how many runs the site keeps, as in ``Limits``.
        max_rounds: of one run, as there.
    """

    numbers: str | None = None
    max_epsilon: float | None = None
    max_runs: int | None = None
    max_rounds: int | None = None


#: Nothing is asked for.
DEFAULT_OPTIONS = SiteOptions()


@dataclass(frozen=True)
class Limits:
    """A site's bounds.

    Attributes:
        runs: run folders that the site keeps; a further run is refused.
        rounds: of one run's plan.
    """

    runs: int = MAX_RUNS
    rounds: int = MAX_ROUNDS

    def updated(self, options: SiteOptions) -> "Limits":
        """Return these bounds with those that were asked for; raises OptionError where one cannot be."""
        runs, rounds = options.max_runs, options.max_rounds
        return Limits(self.runs if runs is None else runs, self.rounds if rounds is None else rounds)

    def __post_init__(self) -> None:
        for option, value in (("--most-runs", self.runs), ("--most-rounds", self.rounds)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _UPPER_BOUND:
                raise OptionError(option, f"{value!r:.40}", f"a whole number, 1 to {_UPPER_BOUND:,}")

    def check_room(self, runs: Path, folder: Path) -> None:
        """Refuse a run that would be one too many; raises SiteError.

        Args:
            runs: the folder of the runs.
            folder: the new run's, in it.
        """
        existing = [path for path in runs.glob("*") if path.is_dir() and path != folder] if runs.is_dir() else []
        if len(existing) >= self.runs:
            raise SiteError(
                "limit",
                runs,
                f"holds {len(existing)} runs",
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
