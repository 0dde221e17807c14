"""Fine-tuning of the global model on the patient's beats, with early stopping on the validation beats.

``finetune`` trains the full net; ``probe`` first trains the head on frozen features, then the full net (Kumar et al.,
ICLR 2022: a randomly initialised head would distort good features).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.local_sgd import SgdSettings, gradients, sgd_step, zeros_like
from ecgfed.core.methods.losses import batch_loss
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.core.personal.base import PatientBeats, Personal, chunked

BATCH_SIZE = 64


@dataclass(frozen=True)
class Stopping:
    """Learning rate and early stopping.

    Attributes:
        lr: learning rate.
        steps: maximum number of steps.
        every: steps between two evaluations on the validation beats.
    """

    lr: float = 0.01
    steps: int = 300
    every: int = 25


def batches(beats: PatientBeats, steps: int) -> Iterator[Batch]:
    """Yield shuffled batches of the patient's training beats, epoch after epoch, determined by the seed."""
    rng, count = np.random.default_rng([*beats.seed, 7]), len(beats.train.label)
    order = rng.permutation(count)
    for _ in range(steps):
        if len(order) < min(BATCH_SIZE, count):
            order = np.concatenate([order, rng.permutation(count)])
        rows, order = torch.from_numpy(order[:BATCH_SIZE]), order[BATCH_SIZE:]
        inputs = beats.train.inputs
        rr = None if inputs.rr is None else inputs.rr[rows]
        yield replace(beats.train, inputs=Inputs(inputs.examples[rows], rr), label=beats.train.label[rows])


def loss_on(net: Net, model: Params, batch: Batch) -> float:
    """Mean cross-entropy of a model on all beats of a batch."""
    with torch.inference_mode():
        logits = torch.cat([net.logits(model, inputs) for inputs in chunked(batch)])
        return float(F.cross_entropy(logits, batch.label))


def fine_tune(
    net: Net, model: Params, beats: PatientBeats, stopping: Stopping, part: Callable[[Params], Params]
) -> Params:
    """Train a part of the model by SGD; return the best model on the validation beats, the initial one included.

    Without validation beats the training beats are used.

    Args:
        model: the initial model.
        stopping: learning rate and early stopping.
        part: maps a model to the entries that are trained.
    """
    settings, evaluation = SgdSettings(lr=stopping.lr), beats.train if beats.valid is None else beats.valid
    best, best_loss = model, loss_on(net, model, evaluation)
    moving = part(model)
    velocity = zeros_like(moving)
    for number, batch in enumerate(batches(beats, stopping.steps), start=1):

        def objective(params: Params, fixed: Params = model, batch: Batch = batch) -> tuple[Tensor, Params]:
            stats: Params = {}
            return batch_loss(net.logits({**fixed, **params}, batch.inputs, stats), batch, settings), stats

        grads, _, stats = gradients(objective, moving)
        trained_stats = {name: value for name, value in stats.items() if name in moving}
        moving, velocity = sgd_step(moving, grads, velocity, trained_stats, settings)
        if number % stopping.every == 0:
            loss = loss_on(net, {**model, **moving}, evaluation)
            if loss < best_loss:
                best, best_loss = {**model, **moving}, loss
    return best


class FineTune(Personal):
    """Fine-tuning of the full net."""

    name: ClassVar[str] = "finetune"
    title: ClassVar[str] = "global model trained on, stopped early"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fine-tune the full net; return one personal stage ``model`` (see ``Personal.fit``)."""
        return Pipeline((Stage("model", fine_tune(net, model, beats, Stopping(), dict), shared=False),))


class Probe(Personal):
    """The head first, then the full net."""

    name: ClassVar[str] = "probe"
    title: ClassVar[str] = "head trained on, then the whole net"
    reference: ClassVar[str] = "Kumar et al., ICLR 2022"

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fine-tune the head, then the full net; return one personal stage ``model`` (see ``Personal.fit``)."""
        probed = fine_tune(net, model, beats, Stopping(lr=0.05), head_of)
        if probed is model:  # no improvement: drop entries that are neither extractor nor head
            probed = {**extractor_of(model), **head_of(model)}
        return Pipeline((Stage("model", fine_tune(net, probed, beats, Stopping(), dict), shared=False),))
