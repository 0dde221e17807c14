"""Interface of personal models: the patient's labelled beats in, a pipeline of stages out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs, Net

#: Subtracted from the logits of classes without beats, so that they are never predicted.
NEVER = 1e4
#: Beats per forward pass.
BATCH = 512


@dataclass(frozen=True)
class PatientBeats:
    """One patient's labelled beats.

    Attributes:
        train: training beats.
        valid: validation beats, or None.
        everyone: (classes,) class shares of the training beats of all patients; used by ``prior`` only.
        seed: the run's seed and the patient's number, for random choices.
        unlabelled: the recording's beats without a label, or None; used by models with ``uses_unlabelled`` only.
    """

    train: Batch
    valid: Batch | None
    everyone: Tensor
    seed: tuple[int, int] = (0, 0)
    unlabelled: Inputs | None = None

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
        """(classes,) bool: classes of which the patient has training or validation beats."""
        known = self.counts > 0
        return known if self.valid is None else known | (torch.bincount(self.valid.label, minlength=self.classes) > 0)


class Personal(ABC):
    """A way to fit one patient's model from the global one; every file in ``ecgfed/core/personal`` is searched for
    them."""

    name: ClassVar[str] = ""
    title: ClassVar[str]
    reference: ClassVar[str] = ""
    #: Whether it also learns from beats without a label, if there are any.
    uses_unlabelled: ClassVar[bool] = False

    @abstractmethod
    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Return the patient's model.

        Args:
            net: the net's functions.
            model: the global model, ``extractor.*`` and ``head.*``, float32; its tensors are shared, never copied or
                changed.
            beats: the patient's beats, at least one of them for training.

        Returns:
            Stages that compute logits (B, classes) of a batch. Stages of the global model are marked as shared, and
            stored once.
        """


def chunked(batch: Batch) -> list[Inputs]:
    """Split a batch's inputs into chunks of ``BATCH`` rows."""
    inputs = batch.inputs
    chunks = []
    for start in range(0, len(batch.label), BATCH):
        rows = slice(start, start + BATCH)
        chunks.append(Inputs(inputs.examples[rows], None if inputs.rr is None else inputs.rr[rows]))
    return chunks


def features_of(net: Net, model: Params, batch: Batch) -> Tensor:
    """Return the frozen extractor's features (beats, features)."""
    with torch.inference_mode():
        return torch.cat([net.extract(model, inputs) for inputs in chunked(batch)])


def descriptions_of(net: Net, model: Params, batch: Batch) -> Tensor:
    """Return features and shape (beats, described)."""
    with torch.inference_mode():
        return torch.cat([net.describe(model, inputs) for inputs in chunked(batch)])
