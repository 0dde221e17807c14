r"""Sums over clients in place of what each of them sends, for methods whose server needs nothing else.

A client's change :math:`\Delta_i` of an entry (``ecgfed.core.federation.updates``) counts with the weight that the
entry's mean gives it (``Sent.mean``): :math:`w_i = n_i / N`, its share of the federation's N training examples, or
1 / M for M clients. Of the participants P the server learns :math:`s = \sum_{i \in P} w_i \Delta_i` and gives every one
of them the change :math:`s / \sum_{i \in P} w_i`. The method's own weighted mean of these is that mean again, so
``aggregate`` stays as it is.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.core.config import SERVER, ModelConfig
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten, stack, unflatten
from ecgfed.core.federation.updates import WEIGHTS, updates_of
from ecgfed.core.methods.base import Method, Tree
from ecgfed.core.methods.communication import BEATS, EQUAL, CommunicationSpec, Mean
from ecgfed.core.privacy.robust import MEAN, same_for_all

#: Structure of what a client sends: path -> dtype and shape (``TensorSchema.leaves``).
Leaves = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


def check_sums(method: str, card: CommunicationSpec, plan: TrainPlan | ModelConfig) -> None:
    """Refuse a method, settings or options for which the server needs more than sums over clients.

    Args:
        method: its name.
        card: its communication spec with the settings.
        plan: aggregation, privacy and participants.

    Raises:
        OptionError: naming what the server needs.
    """
    each = card.needs_each
    if each is not None or not card.up:
        reason = "which sends no weights" if each is None else f"whose server needs of each client: {each.what}"
        expected = "a method whose server needs only sums"
        raise OptionError(
            "method", f"{method}, {reason}", expected, "'ecgfed methods NAME' says which", code="conflict"
        )
    if plan.aggregation != MEAN:
        expected = "mean, since a sum does not show the updates that are to be compared"
        raise OptionError("aggregation", plan.aggregation, expected, code="conflict")
    if plan.clips and plan.dp_at == SERVER:
        expected = "patient or site, since the server cannot shorten updates that it does not see"
        raise OptionError("dp_at", plan.dp_at, expected, code="conflict")
    if plan.clients_per_round is not None:
        expected = "all of them, since a round with the patients of one site would show its sum"
        action = f"leave {param('clients_per_round')} out"
        raise OptionError("clients_per_round", f"{plan.clients_per_round}", expected, action, code="conflict")


def client_weights(examples: Sequence[int], total: int, clients: int) -> dict[Mean, Tensor]:
    """Return the weights of some clients for either mean, (m,) float64.

    Args:
        examples: their training examples.
        total: training examples of the federation.
        clients: clients of the federation.
    """
    counts = torch.tensor(list(examples), dtype=torch.float64)
    return {BEATS: counts / total, EQUAL: torch.full_like(counts, 1.0 / clients)}


def summed(
    method: Method, sent: Sequence[Tree], returned: Sequence[Tree], weights: Mapping[Mean, Tensor]
) -> dict[str, Tensor]:
    """Return the weighted sum of the clients' changes by path, float64.

    Args:
        sent: the tree sent to each client.
        returned: the tree that each sends.
        weights: their ``client_weights``.

    Raises:
        OptionError: a leaf is no weight, so that its sum says nothing.
    """
    means = _means(method)
    tree = stack(list(returned))
    updates = updates_of(method, sent, tree)
    if others := sorted(set(flatten(tree)) - set(updates.change)):
        raise OptionError("method", f"{method.name}, which sends {others[0]:.100}", "weights alone", code="conflict")
    return {
        path: torch.tensordot(weights[means[updates.entry[path]]], change.double(), dims=1)
        for path, change in updates.change.items()
    }


def shared_out(
    method: Method, sent: Sequence[Tree], sums: Mapping[str, Tensor], weights: Mapping[Mean, Tensor], leaves: Leaves
) -> list[Tree]:
    """Return a tree for each participant that changes by the participants' mean.

    Args:
        sent: the tree sent to each participant.
        sums: ``summed`` over all of them.
        weights: their ``client_weights``.
        leaves: structure of a reply.
    """
    means, m = _means(method), len(sent)
    tree = unflatten({path: torch.zeros(m, *shape, dtype=dtype) for path, (dtype, shape) in leaves.items()})
    updates = updates_of(method, sent, tree)
    totals = {mean: weight.sum() for mean, weight in weights.items()}
    change = {path: same_for_all(sums[path] / totals[means[updates.entry[path]]], m) for path in updates.change}
    moved = flatten(updates.apply_to(tree, change))
    return [unflatten({path: leaf[index] for path, leaf in moved.items()}) for index in range(m)]


def _means(method: Method) -> dict[str, Mean]:
    card = method.communication.with_settings(method.settings)
    return {entry.name: entry.mean for entry in card.up if entry.form in WEIGHTS}
