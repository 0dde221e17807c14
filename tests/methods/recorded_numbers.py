"""Losses and answers of a small run of each registered method, as recorded in ``recorded.json``.

    python tests/methods/recorded_numbers.py NAME ...     record these methods, anew where they are there
    python tests/methods/recorded_numbers.py --all        record all; the diff is to be explained

What a method's own test follows by hand on two numbers, this holds on a real net, so that no change goes unseen.
In double precision: in single, GRP-FED makes 3e-4 of a difference of 1e-7 in the first parameters, and so of another
machine's or version's order of adding up.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.models import Model, Pipeline
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.tasks.reproduce_run import open_settings
from ecgfed.testing.federation import CLASSES, synthetic_federation

FILE = Path(__file__).with_name("recorded.json")
#: Relative. Other machines and versions of torch add up in another order, which makes less than 1e-11 of these numbers.
TOLERANCE = 1e-6
LABELS = ([0] * 14 + [1] * 6, [1] * 9 + [2] * 3, [0, 2] * 8)


class _Losses(Callback):
    def __init__(self) -> None:
        self.rounds: list[float] = []

    def on_round(self, outcome: RoundOutcome) -> None:
        self.rounds.append(outcome.record["loss_mean"])


def numbers_of(kind: type[Method]) -> dict[str, Any]:
    """Train five rounds from a seed; return each round's mean loss and how large each answer's logits are."""
    torch.set_default_dtype(torch.float64)
    try:
        return _numbers_of(kind)
    finally:
        torch.set_default_dtype(torch.float32)


def settings_of(kind: type[Method]) -> dict[str, Any]:
    """Plain averaging where the method's defaults share a server step: these numbers are older than that step."""
    if kind.name in ("grp-fed", "fed-gate"):
        return {}
    return {"lr": 5e-3, **open_settings(kind.name)}


def _numbers_of(kind: type[Method]) -> dict[str, Any]:
    watch, data = _Losses(), synthetic_federation(LABELS)
    data = replace(data, examples=data.examples.astype(np.float64))  # type: ignore[arg-type]
    method = kind(ResNet1d(NetSpec(CLASSES, width=0.35)), make_settings(kind.settings_type, settings_of(kind)))
    steps = 1 if method.requirements.single_step else 3
    plan = TrainPlan(rounds=5, local_epochs=None, local_steps=steps, batch_size=8, seed=4)
    with ThreadEngine(data, plan, 1) as engine:
        state = train(method, data, plan, engine, initial_state(method, plan), [watch])
    inputs, kept = (
        data.batch(np.arange(len(data.label))).inputs,
        [state.client_states[client] for client in range(len(LABELS))],
    )

    def size(answer: Model) -> float:
        """Mean magnitude of the mean logits of an answer's members on every beat."""
        chains = [answer] if isinstance(answer, Pipeline) else list(answer.members)
        return torch.stack([chain_logits(method.net, chain, inputs) for chain in chains]).mean(0).abs().mean().item()

    return {
        "losses": watch.rounds,
        "global": size(method.global_model(state.server, kept, "ensemble")),
        "personal": [size(method.personal_model(state.server, own)) for own in kept],
    }


def recorded() -> dict[str, Any]:
    """Return what is recorded, by method."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def main() -> None:
    """Record some methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="registered methods")
    parser.add_argument("--all", action="store_true", help="every registered method")
    given = parser.parse_args()
    names = list(methods()) if given.all else given.names
    unknown = sorted(set(names) - set(methods()))
    if unknown or not names:
        parser.error(f"no method {', '.join(unknown)}; one of {', '.join(methods())}" if unknown else "name a method")
    found = {**recorded(), **{name: numbers_of(methods()[name]) for name in names}}
    gone = [name for name in found if name not in methods()]
    FILE.write_text(json.dumps({name: found[name] for name in sorted(found) if name not in gone}, indent=1) + "\n")
    print(f"recorded {', '.join(names)} in {FILE}")


if __name__ == "__main__":
    main()
