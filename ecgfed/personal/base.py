"""What a personal answer is made of, and what it gives: the patient's own beats in, a chain of parts out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.methods.answers import Chain
from ecgfed.methods.base import Batch
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Inputs, Net

#: A class that the patient has never had gets this much less than its best logit, so that it is not answered.
NEVER = 1e4
#: Beats that go through a net at once.
BATCH = 512


@dataclass(frozen=True)
class OwnBeats:
    """One patient's labelled beats.

    Attributes:
        train: those to learn from.
        valid: those to choose on, or None.
        everyone: (classes,) training beats of all patients together, each class's share; for ``prior`` alone.
        seed: of the run, and the patient's number: for whatever is drawn.
    """

    train: Batch
    valid: Batch | None
    everyone: Tensor
    seed: tuple[int, int] = (0, 0)

    @property
    def classes(self) -> int:
        """Number of classes of the federation."""
        return len(self.everyone)

    @property
    def counts(self) -> Tensor:
        """Training beats of each class, (classes,) int64."""
        return torch.bincount(self.train.label, minlength=self.classes)

    @property
    def known(self) -> Tensor:
        """(classes,) bool: what the patient has beats of, to learn from or to choose on."""
        known = self.counts > 0
        return known if self.valid is None else known | (torch.bincount(self.valid.label, minlength=self.classes) > 0)


class Personal(ABC):
    """A way to make one patient's answer from the global model; found by its file being in ``ecgfed/personal``."""

    name: ClassVar[str] = ""
    title: ClassVar[str]
    reference: ClassVar[str] = ""

    @abstractmethod
    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Return the patient's answer.

        Args:
            net: the net's functions.
            model: the global model, ``extractor.*`` and ``head.*``, float32; its tensors are shared, never copied or
                changed.
            own: the patient's beats, one training beat at least.

        Returns:
            Parts that make logits (B, classes) of a batch, one after the other. What is the global model's own is
            marked as shared, and so is stored once.
        """


def by_parts(batch: Batch) -> list[Inputs]:
    """Return a batch's inputs in parts that go through a net at once."""
    inputs = batch.inputs
    parts = []
    for start in range(0, len(batch.label), BATCH):
        some = slice(start, start + BATCH)
        parts.append(Inputs(inputs.examples[some], None if inputs.rr is None else inputs.rr[some]))
    return parts


def features_of(net: Net, model: Params, batch: Batch) -> Tensor:
    """The frozen extractor's features (beats, features)."""
    with torch.inference_mode():
        return torch.cat([net.extract(model, part) for part in by_parts(batch)])


def descriptions_of(net: Net, model: Params, batch: Batch) -> Tensor:
    """Features and shape (beats, described)."""
    with torch.inference_mode():
        return torch.cat([net.describe(model, part) for part in by_parts(batch)])
