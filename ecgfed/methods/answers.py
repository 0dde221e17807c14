"""What a trained method answers with: a chain of parts, or an ensemble of chains."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ecgfed.nets.layers import Params


@dataclass(frozen=True)
class Part:
    """One graph of a chain.

    Attributes:
        role: what it computes, a key of the net's ``roles``: ``model``, ``extractor`` or ``head``.
        params: its parameters, running statistics included.
        shared: whether every patient uses this very part (shipped once) or it is one patient's own.
    """

    role: str
    params: Params
    shared: bool

    @property
    def identity(self) -> tuple[int, ...]:
        """Parts of the very same tensors share it, while they are held."""
        return tuple(id(value) for value in self.params.values())


@dataclass(frozen=True)
class Chain:
    """Parts applied one after the other, the first to the net's inputs, the last giving logits."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Ensemble:
    """The mean of the members' class probabilities (Liang et al. 2020, LG-FedAvg, section 3)."""

    members: tuple[Chain, ...]


Answer = Chain | Ensemble


def together(personal: Sequence[Chain], protocol: str) -> Answer:
    """Return one answer of personal models that have no global one.

    Args:
        personal: the patients' chains, all of the same parts.
        protocol: ``ensemble`` (mean of probabilities, as GRP-FED's comparison asks for) or ``average`` (unweighted mean
            of weights, as Fed-RoD's does).
    """
    if protocol != "average":
        return Ensemble(tuple(personal))
    parts = []
    for same in zip(*(chain.parts for chain in personal), strict=True):
        values = {n: torch.stack([part.params[n] for part in same]).mean(0) for n in same[0].params}
        parts.append(Part(same[0].role, values, shared=True))
    return Chain(tuple(parts))
