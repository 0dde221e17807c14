"""The global model trained on by the patient alone, stopped where its validation beats say so.

``finetune`` trains the whole net; ``probe`` first trains the head on frozen features, then the whole net (Kumar et al.,
ICLR 2022: a head drawn anew would tear good features apart).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.methods.answers import Chain, Part
from ecgfed.methods.base import Batch
from ecgfed.methods.local_sgd import SgdSettings, gradients, sgd_step, zeros_like
from ecgfed.methods.risks import risk
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Inputs, Net
from ecgfed.nets.parts import extractor_of, head_of
from ecgfed.personal.base import OwnBeats, Personal, by_parts

BATCH_SIZE = 64


@dataclass(frozen=True)
class Stopping:
    """How long is trained, and how often the validation beats are asked.

    Attributes:
        lr: learning rate.
        steps: at most.
        every: steps between two looks at the validation beats.
    """

    lr: float = 0.01
    steps: int = 300
    every: int = 25


def batches(own: OwnBeats, steps: int) -> Iterator[Batch]:
    """Yield shuffled batches of the patient's training beats, epoch after epoch; the same for the same seed."""
    rng, count = np.random.default_rng([*own.seed, 7]), len(own.train.label)
    order = rng.permutation(count)
    for _ in range(steps):
        if len(order) < min(BATCH_SIZE, count):
            order = np.concatenate([order, rng.permutation(count)])
        rows, order = torch.from_numpy(order[:BATCH_SIZE]), order[BATCH_SIZE:]
        inputs = own.train.inputs
        rr = None if inputs.rr is None else inputs.rr[rows]
        yield replace(own.train, inputs=Inputs(inputs.examples[rows], rr), label=own.train.label[rows])


def loss_on(net: Net, model: Params, batch: Batch) -> float:
    """Mean cross-entropy of a model on all beats of a batch."""
    with torch.inference_mode():
        logits = torch.cat([net.logits(model, part) for part in by_parts(batch)])
        return float(F.cross_entropy(logits, batch.label))


def train_on(net: Net, model: Params, own: OwnBeats, how: Stopping, part: Callable[[Params], Params]) -> Params:
    """Train a part of the model by SGD; return the model that was best on the validation beats, the first included.

    Without validation beats the training beats are asked.

    Args:
        net: the net.
        model: where to begin.
        own: the patient's beats.
        how: learning rate and length.
        part: takes the model and returns the entries that are trained.
    """
    settings, asked = SgdSettings(lr=how.lr), own.train if own.valid is None else own.valid
    best, least = model, loss_on(net, model, asked)
    moving = part(model)
    velocity = zeros_like(moving)
    for number, batch in enumerate(batches(own, how.steps), start=1):

        def local_risk(params: Params, fixed: Params = model, batch: Batch = batch) -> tuple[Tensor, Params]:
            stats: Params = {}
            return risk(net.logits({**fixed, **params}, batch.inputs, stats), batch, settings), stats

        grads, _, stats = gradients(local_risk, moving)
        kept_stats = {name: value for name, value in stats.items() if name in moving}
        moving, velocity = sgd_step(moving, grads, velocity, kept_stats, settings)
        if number % how.every == 0:
            found = loss_on(net, {**model, **moving}, asked)
            if found < least:
                best, least = {**model, **moving}, found
    return best


class FineTune(Personal):
    """The whole net, trained on."""

    name: ClassVar[str] = "finetune"
    title: ClassVar[str] = "global model trained on, stopped early"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Train the whole net on; returns one part ``model`` of the patient's own (see ``Personal.fit``)."""
        return Chain((Part("model", train_on(net, model, own, Stopping(), dict), shared=False),))


class Probe(Personal):
    """First the head, then the whole net."""

    name: ClassVar[str] = "probe"
    title: ClassVar[str] = "head trained on, then the whole net"
    reference: ClassVar[str] = "Kumar et al., ICLR 2022"

    def fit(self, net: Net, model: Params, own: OwnBeats) -> Chain:
        """Train the head on, then the whole net; returns one part ``model`` of the patient's own (``Personal.fit``)."""
        probed = train_on(net, model, own, Stopping(lr=0.05), head_of)
        if probed is model:  # the head did not get better: nor is there one of its own to go on with
            probed = {**extractor_of(model), **head_of(model)}
        return Chain((Part("model", train_on(net, probed, own, Stopping(), dict), shared=False),))
