"""The figures of ``benchmarks/calibration/README.md``."""

from typing import Any

from figures.figures import Figures, Way, figures

PAGE, OWN, NEW = "benchmarks/calibration/README.md", "calibration/results.json", "calibration/new_patients.json"
SUMMARY = (
    "ece_before_mean",
    "ece_before_max",
    "ece_after_mean",
    "ece_after_max",
    "accuracy",
    "accuracy_worst",
    "coverage",
    "coverage_worst",
    "kept_accuracy",
    "kept_accuracy_worst",
)
CELLS = "{3} ({3}) | {3} ({3}) | {3} ({3}) | {3} ({3}) | {3} ({3}) | {0} of {0} |"


def summary(model: str) -> tuple[Way, ...]:
    """A row of models."""
    last = ("patients_with_the_accuracy", "patients")
    return tuple(("summary", model, name) for name in (*SUMMARY, *last))


def asked(number: int) -> tuple[Way, ...]:
    """A row of stated accuracies."""
    names = ("coverage", "coverage_worst", "kept_accuracy", "kept_accuracy_worst", "patients_with_the_accuracy")
    return tuple(("by_accuracy", number, name) for name in names)


def not_beats(what: str) -> tuple[Way, ...]:
    """A row of what is no beat."""
    return tuple(("not_beats", {"what": what}, name) for name in ("beats", "auroc", "far", "uncertain"))


def risk(number: int) -> tuple[Way, ...]:
    """A row of risk and coverage."""
    return (("risk_coverage", number, "error"),)


NOT_BEATS = {
    "white noise": "white noise",
    "pink noise": "pink noise",
    "sine": "sine",
    "square wave": "square wave",
    "spikes on a flat line": "spikes on a flat line",
    "MLII upside down": "MLII upside down",
    "V1": "lead V1",
    "V2": "lead V2",
    "V5": "lead V5",
}
TABLES: dict[str, tuple[Way, ...]] = {
    f"| own | {CELLS}": summary("own model"),
    f"| global | {CELLS}": summary("global model"),
    **{
        f"| {text} | {{3}} ({{3}}) | {{4}} ({{3}}) | {{0}} |": asked(number)
        for number, text in enumerate(("95%", "98%", "99%", "99.5%"))
    },
    **{f"| {share}% | {{4}} |": risk(number) for number, share in enumerate((100, 99, 98, 95, 90, 80))},
    **{f"| {text} | {{0}} | {{3}} | {{0%}} | {{0%}} |": not_beats(what) for text, what in NOT_BEATS.items()},
}


def _far_of_107(results: Any) -> float:
    return float(results["new_patients"]["107"]["far"])


CALIBRATION: list[Figures] = [
    *figures(PAGE, OWN, TABLES),
    *figures(
        PAGE,
        NEW,
        {
            f"| trained on, global model | {CELLS}": summary("global model"),
            f"| new | {CELLS}": summary("global model, new patients"),
            "{0%} are far": (_far_of_107,),
        },
    ),
]
