"""What a cohort is made of: clients with their recordings, and how these become beats."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError
from ecgfed.domain.beats.labels import BUILT_IN, LabelMap
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.split import SPLIT_KINDS, SplitKind
from ecgfed.domain.record.reader import record_path

#: Which leads of a recording give training examples: the first alone, or all.
TRAIN_LEADS = ("first", "all")


@dataclass(frozen=True)
class PrepareOptions:
    """How recordings become a cohort.

    Attributes:
        beats: how each recording's beats are found.
        labels: which symbols are which class.
        split: ``random`` or ``chronological``.
        holdout: client ids kept out of training.
        seed: decides the random split.
        anonymous: ``cohort.json`` says nothing of the files the recordings lay in, and what left with them.
        unlabelled: the recordings have no annotation; their beats are detected, and labelled ``UNLABELLED``.
        train_leads: ``first``, or ``all``: the other leads of a recording give further training examples.
    """

    beats: BeatOptions = field(default_factory=lambda: BeatOptions(("MLII",), "annotated"))
    labels: LabelMap = field(default_factory=lambda: BUILT_IN["mitbih12"])
    split: SplitKind = "random"
    holdout: tuple[str, ...] = ()
    seed: int = 0
    anonymous: bool = False
    unlabelled: bool = False
    train_leads: str = "first"

    def __post_init__(self) -> None:
        if self.split not in SPLIT_KINDS:
            raise OptionError("split", f"{self.split!r}", f"one of {', '.join(SPLIT_KINDS)}", code="unknown-choice")
        if self.train_leads not in TRAIN_LEADS:
            expected = f"one of {', '.join(TRAIN_LEADS)}"
            raise OptionError("train_leads", f"{self.train_leads!r}", expected, code="unknown-choice")


@dataclass(frozen=True)
class Source:
    """One client and where its recordings lie.

    Attributes:
        id: client id, used in file names.
        patient: the patient's name.
        records: paths of the recordings, WFDB records without suffix, in order of time where that is known.
        names: what the cohort calls them; their own names where there are none.
        was: the id before the client got a new one (``anonymous.renumbered``).
        record_label: label of its recordings, where no beat of theirs is labelled; else "".
        excluded_classes: classes that do not occur in them, as that label says.
    """

    id: str
    patient: str
    records: tuple[Path, ...]
    names: tuple[str, ...] = ()
    was: str = ""
    record_label: str = ""
    excluded_classes: tuple[str, ...] = ()

    @property
    def called(self) -> tuple[str, ...]:
        """What the cohort calls each recording."""
        return self.names or tuple(record_path(path).name for path in self.records)


def weak_labels(clients: Sequence[Source]) -> dict[str, Any]:
    """Return what ``cohort.json`` says of clients whose recordings alone have a label."""
    if not clients:
        return {}
    return {
        "record_labels": {client.id: client.record_label for client in clients},
        "excluded_classes": {client.id: list(client.excluded_classes) for client in clients},
    }
