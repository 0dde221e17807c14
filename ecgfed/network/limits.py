"""A site's options and its limits on the server's runs and questions.

Each run adds a folder at the site and each round a line, and every answer for other weights tells more of the same
beats. The server chooses all of these, so the site bounds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.network.config import SiteOptions
from ecgfed.network.errors import SiteError

#: Defaults: more than a federation needs in months.
MAX_RUNS, MAX_ROUNDS = 20, 10_000
MAX_QUESTIONS, MAX_SCORES, MAX_STEPS, MAX_SECONDS, MIN_BATCH = 10, 1_000, 10_000, 3_600, 8
#: Most beats of a step times the width of the net, in channels of the default: 4 GB of memory at most.
MAX_STEP = 4096
#: Keeps every value in the site's folder.
DEFAULT_OPTIONS = SiteOptions()
#: Field -> the option that sets it, and its name in ``site.json``.
FIELDS = {
    "runs": ("max_runs", "most_runs"),
    "rounds": ("max_rounds", "most_rounds"),
    "questions": ("max_questions", "most_questions"),
    "scores": ("max_scores", "most_scores"),
    "steps": ("max_steps", "most_steps"),
    "seconds": ("max_seconds", "most_seconds"),
    "batch": ("min_batch", "least_batch"),
}


@dataclass(frozen=True)
class Limits:
    """A site's limits.

    Attributes:
        runs: number of run folders the site stores; further runs are refused.
        rounds: number of rounds in one run's plan.
        questions: how often the site trains a round; the reply to a repeated question is stored, and counts once.
        scores: how often the site scores a run's models between rounds.
        steps: local steps of one patient in a round.
        seconds: how long the site trains for one reply, s.
        batch: smallest batch size.
    """

    runs: int = MAX_RUNS
    rounds: int = MAX_ROUNDS
    questions: int = MAX_QUESTIONS
    scores: int = MAX_SCORES
    steps: int = MAX_STEPS
    seconds: int = MAX_SECONDS
    batch: int = MIN_BATCH

    def updated(self, options: SiteOptions) -> "Limits":
        """Return these limits with the operator's changes; raises OptionError for an invalid value."""
        new = {field: getattr(options, option) for field, (option, _) in FIELDS.items()}
        return replace(self, **{field: value for field, value in new.items() if value is not None})

    def __post_init__(self) -> None:
        values = {option: getattr(self, field) for field, (option, _) in FIELDS.items()}
        for option, value in values.items():
            if value is None:  # a damaged site.json
                raise OptionError(option, "None", "a whole number")
        SiteOptions(**values)  # checks them

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Limits":
        """Read the limits from ``site.json``; those of later versions have their defaults."""
        return cls(**{field: document[name] for field, (_, name) in FIELDS.items() if name in document})

    def as_json(self) -> dict[str, int]:
        """Return the limits for ``site.json``."""
        return {name: getattr(self, field) for field, (_, name) in FIELDS.items()}

    def check_work(self, plan: TrainPlan, steps: int, beats: int, width: float) -> None:
        """Refuse a round of too many steps, or too small or too large ones.

        Args:
            plan: the run's training plan.
            steps: batches of the patient who has most.
            beats: training beats of the patient who has most.
            width: of the net.

        Raises:
            SiteError: naming the limit.
        """
        if steps > self.steps:
            expected = f"at most {self.steps:,} (this site's limit)"
            raise SiteError("bound", "the server's round", f"trains {steps:,} steps of a patient", expected)
        if plan.batch_size < self.batch:
            expected = f"at least {self.batch} (this site's limit)"
            raise SiteError("bound", "the server's run", f"has batches of {plan.batch_size}", expected)
        if min(plan.batch_size, beats) * width > MAX_STEP:
            reason = f"has steps of {min(plan.batch_size, beats):,} beats with a net {width:g} times as wide"
            raise SiteError("bound", "the server's run", reason, f"a product of at most {MAX_STEP:,}")

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
