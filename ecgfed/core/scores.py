"""Scores of an evaluation by class and by site, as runs store them and as pages show them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClassScores:
    """Scores of the global model on one class.

    Attributes:
        name: of the class.
        beats: annotated as this class.
        predicted: beats that the model calls this class, rightly or wrongly.
        sensitivity: share of ``beats`` that the model calls this class, 0 to 1; None where its denominator is 0.
        positive_predictivity: share of ``predicted`` that are of this class, likewise.
        f1: their harmonic mean, likewise.
    """

    name: str
    beats: int
    predicted: int
    sensitivity: float | None
    positive_predictivity: float | None
    f1: float | None


@dataclass(frozen=True)
class SiteScores:
    """Scores at one site; see ``core.evaluation.scenarios.site_rows``.

    Attributes:
        site: its name.
        patients: with scored beats.
        beats: scored.
        global_f1: macro-F1 of the global model on the site's beats, 0 to 1; None where undefined, as all that follow.
        personal_f1: mean over its patients of their models' macro-F1.
        worst_patient: with the lowest of these; "" for none.
        worst_f1: that macro-F1.
        classes: class -> F1 of the global model on the site's beats.
    """

    site: str
    patients: int
    beats: int
    global_f1: float | None
    personal_f1: float | None
    worst_patient: str
    worst_f1: float | None
    classes: dict[str, float | None]
