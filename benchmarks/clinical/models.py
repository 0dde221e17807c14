"""The federated models of the clinical benchmark: each trained by the recipe for patients who take no part."""

import argparse
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import BY_LOSS, DS1, DS2, UNSEEN, prepared, trained

import ecgfed
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.partway import Partway
from ecgfed.domain.beats.extract import Windows

METHOD, PASSES, FOLDS = "fed-gate", 20.0, 5
#: 107 and 217 are paced, 102 and 104 have no MLII; 201 and 202 are one person.
EVERYBODY = (*DS1, *DS2, "107", "217")
#: The 20 records of the 100 series that are not paced: what five-minute protocols learn a common model from (Hu 1997).
HUNDRED = tuple(name for name in EVERYBODY if name.startswith("1") and name != "107")
#: The 24 of the 200 series that are not paced: what they are tested on.
TWO_HUNDRED = tuple(name for name in EVERYBODY if name.startswith("2") and name != "217")


def patients(name: str) -> tuple[str, ...]:
    """Return the records that a model learns from: ``ds1``, ``hundred``, or ``fold0`` to ``fold4`` of DS1."""
    if name == "ds1":
        return DS1
    if name == "hundred":
        return HUNDRED
    return tuple(one for one in DS1 if one not in DS1[int(name.removeprefix("fold")) :: FOLDS])


def fold_of(record: str) -> str:
    """Return the model of DS1's others that has not seen a record of DS1."""
    return f"fold{DS1.index(record) % FOLDS}"


@dataclass(frozen=True)
class Model:
    """A trained model: its run and its bundle.

    Attributes:
        run: the run.
        bundle: the global answer alone.
    """

    run: ecgfed.Run
    bundle: ecgfed.Bundle

    @cached_property
    def params(self) -> Params:
        """The global model's parameters."""
        answer = self.run.method.global_model(self.run.state().server, (), "ensemble")
        assert isinstance(answer, Pipeline)
        return {name: value for part in answer.stages for name, value in part.params.items()}

    @single_torch_thread()
    def personal(
        self, windows: Windows, learn: NDArray[np.int64], label: NDArray[np.int64], answer: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the classes (answered,) that a personal model gives some beats.

        Args:
            windows: all beats of the recording.
            learn: numbers of the beats it is made from.
            label: (learned,) their classes.
            answer: numbers of the beats to answer.
        """
        net, classes = self.run.net, len(self.bundle.classes)
        batch = Batch(self._inputs(windows, learn), torch.from_numpy(label))
        own = PatientBeats(batch, None, torch.full((classes,), 1 / classes), (0, 0))
        (part,) = Partway().fit(net, self.params, own).stages
        with torch.inference_mode():
            found: NDArray[np.int64] = net.logits(part.params, self._inputs(windows, answer)).argmax(1).numpy()
        return found

    @staticmethod
    def _inputs(windows: Windows, beats: NDArray[np.int64]) -> Inputs:
        return Inputs(torch.from_numpy(windows.window_mv[beats]), torch.from_numpy(windows.rr_s[beats]))


def model(given: argparse.Namespace, name: str) -> Model:
    """Train a model, or go on with it, and export its global answer."""
    work, keep = given.work / name, patients(name)
    held_out = [one for one in EVERYBODY if one not in keep]
    cohort = prepared(given.source, work, by="record", classes="aami5", holdout=held_out)
    run = trained(
        cohort, work / "run", method=METHOD, settings=BY_LOSS, **{**UNSEEN, "passes": PASSES}, workers=given.workers
    )
    return Model(run, ecgfed.export(run, work / "bundle", global_only=True, overwrite=True))
