"""The content of a run's page before it is rendered: numbers and text, without file paths."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.core.scores import ClassScores, SiteScores
from ecgfed.reports.charts import Panel


@dataclass(frozen=True)
class ScoredPatient:
    """Scores of one patient, macro-F1 on the patient's own beats; None where the evaluation lacks them.

    Attributes:
        client: the patient's id.
        beats: scored beats.
        classes: number of classes among them.
        global_f1: of the global model.
        personal_f1: of the personal model.
        everybody_f1: of the personal model on all patients' beats.
        worst: among the tenth of patients with the lowest ``personal_f1``.
        alternative_f1: of alternative personal models, in order of ``Scored.alternatives``.
        site: of a joined cohort; else "".
    """

    client: str
    beats: int | None
    classes: int | None
    global_f1: float
    personal_f1: float
    everybody_f1: float | None
    worst: bool
    alternative_f1: tuple[float | None, ...] = ()
    site: str = ""

    @property
    def gain(self) -> float:
        """``personal_f1`` minus ``global_f1``."""
        return self.personal_f1 - self.global_f1


@dataclass(frozen=True)
class Scored:
    """One evaluation.

    Attributes:
        title: ``test, personal answer gated``.
        split: ``test`` or ``valid``.
        personal: how the personal models were derived; ``""`` where not recorded.
        round: the evaluated round.
        beats: number of scored beats; None where not recorded.
        scores: T_g, T_p, T_r, T_l, T_p_global by name, macro-F1 over true and predicted classes.
        scores_truth: the same over true classes only.
        more: names and values beside the four scenarios.
        classes: scores of the global model per class.
        patients: by gain, the largest first.
        alternatives: names of alternative personal models, scored on the same beats.
        confusion: (classes, classes), rows truth: the global model on all patients' beats.
        confusion_personal: the same of each personal model on its patient's beats.
        sites: of a joined cohort, the site with the lowest ``personal_f1`` first.
        site_classes: classes that occur or are predicted at a site.
    """

    title: str
    split: str
    personal: str
    round: int
    beats: int | None
    scores: dict[str, float]
    scores_truth: dict[str, float]
    more: tuple[tuple[str, str], ...]
    classes: tuple[ClassScores, ...]
    patients: tuple[ScoredPatient, ...]
    alternatives: tuple[str, ...]
    confusion: NDArray[np.int64] | None
    confusion_personal: NDArray[np.int64] | None
    sites: tuple[SiteScores, ...] = ()
    site_classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mixes:
    """Examples of each client.

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
class CommunicationCost:
    """Bytes of parameters sent between clients and server.

    Attributes:
        rows: (rounds, bytes to a client, bytes from a client).
        down: total over clients and rounds; None where the history lacks the participating clients.
        up: likewise.
        approximate: the measured rounds differ, so that the totals are approximate.
    """

    rows: tuple[tuple[str, int, int], ...]
    down: int | None
    up: int | None
    approximate: bool


@dataclass(frozen=True)
class RunParts:
    """The content of a run's page.

    Attributes:
        run: its folder's name.
        method: its method.
        header: names and values of the header.
        intended_use: what the run is for.
        notes: (code, sentence).
        what: ``beats``, ``images`` or ``examples``.
        classes: names of the classes.
        scored: every evaluation; sections on one evaluation show the first.
        panels: learning curves.
        mixes: examples of each client, or why they are unknown.
        sent: bytes sent, or why they are unknown.
        seconds: names and values of training time.
        settings: (title, names and values).
    """

    run: str
    method: str
    header: tuple[tuple[str, str], ...]
    intended_use: str
    notes: tuple[tuple[str, str], ...]
    what: str
    classes: tuple[str, ...]
    scored: tuple[Scored, ...]
    panels: tuple[Panel, ...]
    mixes: Mixes | str
    sent: CommunicationCost | str
    seconds: tuple[tuple[str, str | None], ...]
    settings: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
