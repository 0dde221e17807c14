r"""Fine-tuning in which the global model labels the beats that nobody labelled.

The patient's model learns from the labelled beats and from the global model's probabilities on the recording's other
beats, as a student from its teacher (Hinton, Vinyals and Dean, arXiv 1503.02531, at temperature 1). So it does not
forget classes without a label (Li and Hoiem, Learning without Forgetting, TPAMI 40:2935-2947, 2018).

With :math:`n` labelled beats :math:`(x_i, y_i)`, :math:`m` other beats :math:`z_j`, the student's probabilities
:math:`p` and the teacher's :math:`q`, it minimises

.. math::
    \frac{1}{n + K} \Big( \sum_i -\log p_{y_i}(x_i) + \frac{K}{m} \sum_j \sum_c -q_c(z_j) \log p_c(z_j) \Big)

All other beats together weigh as much as :math:`K` labelled ones. :math:`K = 0` is plain fine-tuning; for large
:math:`K` the student is the global model, where the second sum has its minimum.
"""

from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.local_sgd import SgdSettings, gradients, sgd_step, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.core.personal.base import PatientBeats, Personal, chunked
from ecgfed.core.personal.finetune import batches

#: Learning rate and number of steps.
LR, STEPS = 0.01, 150
#: K: number of labelled beats that all others together weigh as much as.
OTHERS_WEIGHT = 300.0


class Distilled(Personal):
    """Fine-tuned on the labelled beats, taught by the global model on the others."""

    name: ClassVar[str] = "distilled"
    title: ClassVar[str] = "global model trained on, which it teaches on beats without a label"
    reference: ClassVar[str] = "Hinton et al., arXiv 1503.02531; Li and Hoiem, TPAMI 2018"
    uses_unlabelled: ClassVar[bool] = True

    def fit(self, net: Net, model: Params, beats: PatientBeats) -> Pipeline:
        """Fine-tune the full net; return one personal stage ``model`` (see ``Personal.fit``).

        Without beats without a label, the global model teaches on the labelled ones, as in Learning without Forgetting.
        """
        inputs = beats.train.inputs if beats.unlabelled is None else beats.unlabelled
        others = Batch(inputs, torch.arange(len(inputs.examples)))
        taught = teacher_probabilities(net, model, others)
        count, settings = len(beats.train.label), SgdSettings(lr=LR)
        student, velocity = dict(model), zeros_like(model)
        drawn = zip(batches(beats, STEPS), batches(replace(beats, train=others), STEPS), strict=True)
        for labelled, unlabelled in drawn:

            def objective(
                params: Params, labelled: Batch = labelled, unlabelled: Batch = unlabelled
            ) -> tuple[Tensor, Params]:
                stats: Params = {}
                logits = net.logits(params, _joined(labelled.inputs, unlabelled.inputs), stats)
                hard = F.cross_entropy(logits[: len(labelled.label)], labelled.label)
                soft = F.cross_entropy(logits[len(labelled.label) :], taught[unlabelled.label])
                return (count * hard + OTHERS_WEIGHT * soft) / (count + OTHERS_WEIGHT), stats

            grads, _, stats = gradients(objective, student)
            student, velocity = sgd_step(student, grads, velocity, stats, settings)
        return Pipeline((Stage("model", student, shared=False),))


def teacher_probabilities(net: Net, model: Params, batch: Batch) -> Tensor:
    """Return the global model's probabilities (beats, classes)."""
    with torch.inference_mode():
        probabilities = torch.cat([net.logits(model, inputs) for inputs in chunked(batch)]).softmax(1)
    return probabilities.clone()  # no tensor of inference mode: autograd saves it


def _joined(first: Inputs, second: Inputs) -> Inputs:
    """Return the rows of both: one pass through the net is faster than two, and BatchNorm sees all rows."""
    rr = None if first.rr is None or second.rr is None else torch.cat([first.rr, second.rr])
    return Inputs(torch.cat([first.examples, second.examples]), rr)
