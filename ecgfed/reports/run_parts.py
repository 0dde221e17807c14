"""What a run's page holds, before it is a page: plain numbers and words, nothing of the folders behind it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.reports.charts import Panel


@dataclass(frozen=True)
class ScoredClass:
    """The global answer on one class; a share is None where there is nothing to divide by."""

    name: str
    beats: int
    predicted: int
    sensitivity: float | None
    positive_predictivity: float | None
    f1: float | None


@dataclass(frozen=True)
class ScoredPatient:
    """How one patient is served, macro-F1 on the patient's own beats; None is what the evaluation does not say.

    Attributes:
        client: the patient's id.
        beats: scored beats.
        classes: classes among them.
        global_f1: the global answer.
        personal_f1: the patient's own answer.
        everybody_f1: the patient's own answer on everybody's beats.
        worst: among the tenth of patients that their own answer serves worst.
        others: with other personal answers, in order of ``Scored.others``.
    """

    client: str
    beats: int | None
    classes: int | None
    global_f1: float
    personal_f1: float
    everybody_f1: float | None
    worst: bool
    others: tuple[float | None, ...] = ()

    @property
    def gain(self) -> float:
        """What the patient's own answer adds to the global one."""
        return self.personal_f1 - self.global_f1


@dataclass(frozen=True)
class Scored:
    """One evaluation.

    Attributes:
        title: ``test, personal answer gated``.
        split: ``test`` or ``valid``.
        personal: how the personal answers were made; ``""`` where nobody says.
        round: that was scored.
        beats: scored; None where nobody says.
        scores: T_g, T_p, T_r, T_l, T_p_global by name, macro-F1 over classes in truth or prediction.
        scores_truth: the same over classes in truth.
        more: names and values beside the four scenarios.
        classes: the global answer, per class.
        patients: by gain, the largest first.
        others: names of other personal answers that were scored on the same beats.
        confusion: (classes, classes), rows truth: the global answer on everybody's beats.
        confusion_personal: the same of each patient's own answer on that patient's beats.
    """

    title: str
    split: str
    personal: str
    round: int
    beats: int | None
    scores: dict[str, float]
    scores_truth: dict[str, float]
    more: tuple[tuple[str, str], ...]
    classes: tuple[ScoredClass, ...]
    patients: tuple[ScoredPatient, ...]
    others: tuple[str, ...]
    confusion: NDArray[np.int64] | None
    confusion_personal: NDArray[np.int64] | None


@dataclass(frozen=True)
class Mixes:
    """What clients have.

    Attributes:
        clients: their ids.
        counts: (clients, classes) training beats.
        valid: (clients,) validation beats.
        test: (clients,) test beats.
    """

    clients: tuple[str, ...]
    counts: NDArray[np.int64]
    valid: NDArray[np.int64]
    test: NDArray[np.int64]


@dataclass(frozen=True)
class Sent:
    """Bytes of parameters that travel.

    Attributes:
        rows: (when, bytes down to a client, bytes up from it).
        down: of all clients and rounds together; None where the history does not name who took part.
        up: likewise.
        about: that the measured rounds are not all alike, so that the sums are approximate.
    """

    rows: tuple[tuple[str, int, int], ...]
    down: int | None
    up: int | None
    about: bool


@dataclass(frozen=True)
class RunParts:
    """What a run's page holds.

    Attributes:
        run: its folder's name.
        method: its method.
        about: names and values of the header.
        intended_use: what the run is for.
        notes: (code, sentence), what to keep in mind.
        what: ``beats`` or ``images``.
        classes: names of the classes.
        scored: every evaluation; what follows shows the first.
        panels: learning curves.
        mixes: what clients have, or why nobody can tell.
        sent: what travelled, or why nobody can tell.
        seconds: names and values about time.
        settings: (title, names and values).
    """

    run: str
    method: str
    about: tuple[tuple[str, str], ...]
    intended_use: str
    notes: tuple[tuple[str, str], ...]
    what: str
    classes: tuple[str, ...]
    scored: tuple[Scored, ...]
    panels: tuple[Panel, ...]
    mixes: Mixes | str
    sent: Sent | str
    seconds: tuple[tuple[str, str | None], ...]
    settings: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
