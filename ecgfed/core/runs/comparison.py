"""What a comparison of runs holds, JSON-ready; without torch."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ecgfed.core.runs.intervals import Interval

#: The scores compared, by their names in ``scores.json``.
SCORES = ("T_g", "T_p", "T_r", "T_l")
#: The parts of a run that hold settings.
PARTS = ("settings", "plan", "net")
#: The model used for a patient: the personal or the global one.
MODELS = ("personal", "global")


#: Keys of the JSON form that differ from the attribute names.
_JSON_KEYS = {
    "finished_rounds": "rounds_done",
    "same_cohort": "one_cohort",
    "specific_settings": "own",
    "model": "answer",
}


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison, or a folder of seeds.

    Attributes:
        run: its folder, as passed.
        seeds: number of runs.
        method: its method.
        finished_rounds: finished rounds; minimum over seeds.
        rounds: planned rounds.
        passes: over the training beats, or None if the history lacks them.
        scored_round: the evaluated round, or None; minimum over seeds.
        protocol: global model of a method without one, or None.
        scores: macro-F1 by name (``SCORES``), or None if the run was not evaluated on the split.
        worst_tenth: for each of ``MODELS``, mean macro-F1 of the worst tenth of patients (at least one).
        spread: names as in ``scores`` and ``worst_tenth``, and ``SITE MODEL`` -> sample standard deviation over seeds;
            empty for one run.
        notes: remarks on the scores, each with a command that helps.
        sites: of a joined cohort: site -> for each of ``MODELS``, macro-F1 as of ``Evaluation.sites``.
        intervals: 95% confidence intervals of ``scores`` over patients, and seeds where there are several.
        differences: T_g, T_p, T_r and T_l less the first run's, as low and high of the interval; both on the same
            drawn patients, at a level such that all intervals of the comparison hold together (Bonferroni).
    """

    run: str
    seeds: int
    method: str
    finished_rounds: int
    rounds: int
    passes: float | None
    scored_round: int | None
    protocol: str | None
    scores: dict[str, float | None] | None
    worst_tenth: dict[str, float] | None
    spread: dict[str, float]
    notes: tuple[str, ...]
    sites: dict[str, dict[str, float | None]]
    intervals: dict[str, Interval]
    differences: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparedClass:
    """F1 of the global model on one class for each run in order, None if a run has no value.

    ``beats`` is None if the runs were not scored on the same beats.
    """

    name: str
    beats: int | None
    f1: tuple[float | None, ...]


@dataclass(frozen=True)
class ComparedPatients:
    """Patients' scores with one run compared to the first.

    Attributes:
        run: index of the run in the comparison, 1 or more.
        model: one of ``MODELS``.
        better: patients whose macro-F1 is higher than with the first run.
        same: patients whose macro-F1 is the same.
        worse: patients whose macro-F1 is lower.
        mean: mean difference over patients.
        largest_gain: patient and difference, or None.
        largest_loss: patient and difference, or None.
        interval: 95% confidence interval of the mean difference over patients, and seeds where there are several.
        p_value: of no mean difference, by exchanging the two runs' scores of patients at random; None with one patient.
        corrected_p: the same corrected for all rows of the comparison (Holm).
    """

    run: int
    model: str
    better: int
    same: int
    worse: int
    mean: float
    largest_gain: tuple[str, float] | None
    largest_loss: tuple[str, float] | None
    interval: Interval | None = None
    p_value: float | None = None
    corrected_p: float | None = None


@dataclass(frozen=True)
class PairedPatients:
    """Every patient's macro-F1 with the first run and with another one.

    Attributes:
        run: index of the other run in the comparison, 1 or more.
        model: one of ``MODELS``.
        scores: patient, score with the first run, score with the other, for patients in both.
    """

    run: int
    model: str
    scores: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class RunComparison:
    """Comparison of runs.

    Attributes:
        split: ``valid`` or ``test``.
        leave_out: beats excluded from scoring, ``nothing`` or ``poor-quality``.
        same_cohort: whether all were trained on the same cohort.
        runs: in the order passed.
        differing: part of the run (``settings``, ``plan``, ``net``) -> setting that all runs have and that differs ->
            value of each run.
        specific_settings: for each run, the settings that another run lacks.
        classes: scores per class of evaluated runs, without classes that no run saw or predicted.
        patients: for each evaluated run after the first, if that was evaluated too.
    """

    split: str
    leave_out: str
    same_cohort: bool
    runs: tuple[ComparedRun, ...]
    differing: dict[str, dict[str, tuple[Any, ...]]]
    specific_settings: tuple[dict[str, Any], ...]
    classes: tuple[ComparedClass, ...]
    patients: tuple[ComparedPatients, ...]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; some keys have older names than the attributes."""
        return asdict(self, dict_factory=lambda items: {_JSON_KEYS.get(key, key): value for key, value in items})
