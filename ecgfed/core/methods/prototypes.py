"""Prototypes: the mean features of each class, and local training with features aligned to them.

FedProto and FedPAC share this. Trees have them as ``prototypes`` (classes, features) and ``beats`` (classes,) float64,
the number of beats behind each; a class with 0 beats has no prototype.
"""

import torch
from torch import Tensor

from ecgfed.core.methods.communication import Sent
from ecgfed.core.methods.interface import Batch, LocalBeats, Tree, row_mean
from ecgfed.core.methods.local_sgd import SgdSettings, gradients
from ecgfed.core.methods.losses import batch_loss, is_label
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net

#: Entries of a communication spec.
PROTOTYPES_DOWN = (
    Sent("prototypes", "mean features of each class", "prototypes"),
    Sent("beats", "how many beats they are of", "numbers"),
)
PROTOTYPES_UP = (
    Sent("prototypes", "its mean features of each class", "prototypes"),
    Sent("beats", "how many beats of each class it has", "numbers"),
)


def no_prototypes(net: Net, initial: Params) -> Tree:
    """Return ``prototypes`` and ``beats`` of zeros, with the dtype and on the device of the model ``initial``."""
    like, classes = next(iter(initial.values())), net.spec.classes
    beats = like.new_zeros(classes, dtype=torch.float64)
    return {"prototypes": like.new_zeros(classes, net.features), "beats": beats}


def feature_statistics(net: Net, model: Params, beats: LocalBeats) -> tuple[Tensor, Tensor, Tensor]:
    """Return the statistics of a client's features by class.

    Args:
        net: its extractor is used.
        model: parameters.
        beats: the client's.

    Returns:
        Means (classes, features), 0 without beats; numbers of beats (classes,); sums of squared lengths (classes,); all
        float64.
    """
    like = next(iter(model.values()))
    total = like.new_zeros(net.spec.classes, net.features, dtype=torch.float64)
    count, square = (like.new_zeros(net.spec.classes, dtype=torch.float64) for _ in range(2))
    with torch.no_grad():
        for batch in beats.batches():
            of_class = is_label(batch.label, net.spec.classes).double().T
            features = net.extract(model, batch.inputs).double()
            total += of_class @ features
            count += of_class.sum(1)
            square += of_class @ features.square().sum(1)
    return total / count.clamp_min(1)[:, None], count, square


def aligned_gradients(
    net: Net, state: Tree, batch: Batch, settings: SgdSettings, lam: float
) -> tuple[Params, Tensor, Params]:
    """Differentiate the batch's loss plus ``lam`` times the squared distance of its features to their prototypes.

    The distance is averaged over features and beats; beats of a class without a prototype have none.

    Args:
        net: the net.
        state: ``model``, ``prototypes`` and ``beats``.
        batch: the beats.
        settings: of the loss.
        lam: weight of the distance (lambda).

    Returns:
        As ``gradients``; the loss includes the distance.
    """
    known = (state["beats"] > 0)[batch.label]

    def objective(params: Params) -> tuple[Tensor, Params]:
        stats: Params = {}
        features = net.extract(params, batch.inputs, stats)
        supervised = batch_loss(net.classify(params, features), batch, settings)
        square = (features - state["prototypes"][batch.label]).square().mean(1)
        return supervised + lam * row_mean(torch.where(known, square, 0.0), batch.weight), stats

    return gradients(objective, state["model"])


def combined_prototypes(server: Tree, returned: Tree) -> Tree:
    """Return the means over clients by numbers of beats; a class that no participant has keeps its prototype.

    Args:
        server: ``prototypes`` (classes, features) and ``beats`` (classes,) so far.
        returned: the participants', stacked: (m, classes, features) and (m, classes).
    """
    prototypes, beats = returned["prototypes"], returned["beats"]
    total = beats.sum(0)
    weights = (beats / total.clamp_min(1)).to(prototypes.dtype)  # |D_ij| / sum_k |D_kj|, (m, classes)
    mean, present = (weights[:, :, None] * prototypes).sum(0), total > 0
    return {
        "prototypes": torch.where(present[:, None], mean, server["prototypes"]),
        "beats": torch.where(present, total, server["beats"]),
    }
