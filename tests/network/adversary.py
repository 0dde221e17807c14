"""A server that asks for one bit of a patient at a time, and what it may learn by the theory of its noise."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import RecordDict
from grid import bytes_of
from scipy.stats import binom, norm

from ecgfed.core.methods.base import Tree
from ecgfed.network import client_app, messages
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_run import RoundRequest

#: A guess that is right so often by chance alone is called a leak once in a million suites.
LEVEL = 1e-6


@dataclass(frozen=True)
class Seen:
    """What a server sees of an answer.

    Attributes:
        refused: the code of a refusal, "" for an answer.
        bytes: the answer's size on the wire.
        waited_s: how long it took, s.
        loss: the mean of its losses.
        length: the length of its weights.
    """

    refused: str
    bytes: int
    waited_s: float
    loss: float
    length: float


def ask(site: Path, order: RunSpec, client: int, model: Tree, waited: Callable[[], float] = lambda: 0.0) -> Seen:
    """Ask a site to train one patient on a model, as the message that a server would send."""
    request = RoundRequest(order, 1, (client,), 0, [{"model": model}])
    reply = client_app.handle(site, messages.round_request(request), client_app._round)
    refused = str(reply.config_records["say"].get("refused", ""))
    if refused:
        return Seen(refused, len(bytes_of(reply)), waited(), 0.0, 0.0)
    leaves = [array.numpy() for array in reply.array_records["up"].values()]
    length = math.sqrt(sum(float(np.square(leaf.astype(np.float64)).sum()) for leaf in leaves))
    losses: Any = reply.metric_records["reports"]["loss"]
    return Seen("", len(bytes_of(reply)), waited(), float(np.mean(losses)), length)


def order_of(sent: Sequence[tuple[str, int, RecordDict]], node: int, **plan: Any) -> RunSpec:
    """Return the order of a run that was begun, with another plan and under another name."""
    text = next(str(content["say"]["order"]) for kind, at, content in sent if (kind, at) == ("train", node))
    order = RunSpec.from_text(text)
    return replace(order, run="ab" * 32, plan={**order.plan, **plan})


def right(seen: Sequence[Seen], truth: Sequence[bool], spread: float) -> dict[str, int]:
    """Return how many bits each way of reading the answers gets right, where the training failed for a true bit.

    Args:
        spread: where the lengths of answers with and without an update lie apart.
    """
    usual = int(np.median([one.bytes for one in seen]))
    ways: dict[str, Callable[[Seen], bool]] = {
        "kind": lambda one: bool(one.refused),
        "size": lambda one: one.bytes != usual,
        "time": lambda one: one.waited_s > float(np.median([other.waited_s for other in seen])),
        "loss": lambda one: one.loss > float(np.median([other.loss for other in seen])),
        "length": lambda one: one.length < spread,
    }
    found = {}
    for name, way in ways.items():
        count = sum(way(one) == bit for one, bit in zip(seen, truth, strict=True))
        found[name] = max(count, len(truth) - count)  # whichever way round
    return found


def mu_of(noise: float, charges: float) -> float:
    """Return mu of answers that cost so many charges of 1 / z^2."""
    return math.sqrt(charges) / noise


def most_right(questions: int, mu: float) -> int:
    """Return how many of so many bits an optimal reader of a Gaussian mechanism may get right (Dong et al., 2022)."""
    # either way round of a guess is looked at
    return int(binom.ppf(1 - LEVEL / 2, questions, norm.cdf(mu / 2)))


def bits(questions: int, count: int) -> float:
    """Return the information in so many right guesses, bits."""
    p = min(max(count / questions, 1e-12), 1 - 1e-12)
    return questions * (1 + p * math.log2(p) + (1 - p) * math.log2(1 - p))


def check(found: dict[str, int], questions: int, noise: float, charges: float, epsilon: float) -> None:
    """Fail where a way of reading the answers gets more than the theory allows for what was charged."""
    most = most_right(questions, mu_of(noise, charges))
    for name, count in found.items():
        got = bits(questions, count)
        assert count <= most, (
            f"{name}: {count} of {questions} bits right ({got:.1f} bits for epsilon {epsilon:.3g}); at most {most}"
        )


def labels_model(model: Tree, label: int) -> Tree:
    """Return weights whose loss is infinite on beats of one class and on no others, with a learning rate of nothing.

    Every beat has the same features and logits: 2e38 for all classes but one, which has -2e38.
    """
    out = {path: torch.zeros_like(leaf) for path, leaf in model.items()}
    last = max(path for path in model if path.endswith(".norm1.bias"))
    out[last] += 1e3
    out["head.hidden.weight"] += 1e17
    features, hidden = model["head.hidden.weight"].shape[1], model["head.hidden.weight"].shape[0]
    out["head.out.weight"] += 2e38 / (hidden * features * 1e20)
    out["head.out.weight"][label] *= -1
    return out


def scaled_model(model: Tree, by: float) -> Tree:
    """Return weights of a net without normalisation whose activations are ``by`` times as large in every layer."""
    return {path: leaf * by for path, leaf in model.items()}
