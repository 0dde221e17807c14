"""FedALA against a plain loop, with the gradient by the mixed parameters."""

import numpy as np
import pytest
import small
import torch
import torch.nn.functional as F

from ecgfed.core.methods.fedala import FedAla
from ecgfed.core.methods.fedavg import FedAvg

ETA, PASSES = 0.7, 12
LAST = ("head.hidden", "head.out")


def weights_after(
    net: object, received: small.Model, own: small.Model, w: small.Model, batches: list, first: bool, threshold: float
) -> small.Model:
    losses: list[float] = []
    while True:
        for batch in batches:
            mixed = {**received, **{n: own[n] + (received[n] - own[n]) * w[n] for n in w}}
            loss = lambda m, b=batch: F.cross_entropy(net.logits(m, b.inputs), b.label)  # type: ignore[attr-defined] # noqa: E731
            gradient = small.gradient_of(loss, mixed)
            value = float(loss(mixed))
            w = {n: torch.clip(w[n] - ETA * gradient[n] * (received[n] - own[n]), 0, 1) for n in w}
        losses.append(value)
        if not first or len(losses) == PASSES or (len(losses) > 10 and np.std(losses[-10:]) < threshold):  # converged
            return w


@pytest.mark.parametrize(("layers", "threshold"), [(1, 0.0), (2, 0.1)])
def test_fedala_is_a_plain_loop(layers: int, threshold: float) -> None:
    with small.doubled():
        # all beats in one batch, so that their order, drawn by the method, does not matter
        settings = {"layers": layers, "ala_share": 1.0, "ala_lr": ETA, "passes": PASSES, "threshold": threshold}
        method, state = small.run(FedAla, **settings)
        net, data = small.net(), small.federation()
        w = net.initial(small.PLAN.seed)
        own = [w] * len(small.LABELS)
        names = [name for name in w if name.rpartition(".")[0] in LAST[-layers:]]
        mix = [{name: torch.ones_like(w[name]) for name in names} for _ in own]
        for number in range(small.ROUNDS):
            for client in range(len(own)):
                batch, model = data.batch(data.rows[client]), dict(w)
                if number > 0:
                    mix[client] = weights_after(net, w, own[client], mix[client], [batch], number == 1, threshold)
                    model |= {n: own[client][n] + (w[n] - own[client][n]) * mix[client][n] for n in names}
                for _ in range(small.STEPS):
                    loss = lambda m, b=batch: F.cross_entropy(net.logits(m, b.inputs), b.label)  # noqa: E731
                    gradient = small.gradient_of(loss, model)
                    model = {name: value - small.LR * gradient[name] for name, value in model.items()}
                own[client] = model
            w = small.mean_of(own)
        small.assert_equal(state.server["model"], w)
        for client, model in enumerate(own):
            small.assert_equal(state.client_states[client]["weights"], mix[client])
            (stage,) = method.personal_model(state.server, state.client_states[client]).stages
            small.assert_equal(stage.params, model)
        assert any(bool((value < 1).any()) for value in mix[0].values())


def test_weights_that_never_learn_are_fedavgs() -> None:
    with small.doubled():
        (_, ala), (_, avg) = small.run(FedAla, ala_lr=0.0), small.run(FedAvg)
        small.assert_equal(ala.server["model"], avg.server["model"])


def test_a_share_of_the_beats_is_drawn_anew_in_each_round() -> None:
    from ecgfed.core.federation.client_round import ClientWork, local_beats
    from ecgfed.core.methods.interface import ClientInfo

    with small.doubled():
        method, data = small.run(FedAla)[0], small.federation()
    drawn = []
    for number in (2, 3):
        info = ClientInfo(0, number, 12, data.class_counts(0), 2, seed=4)
        beats = local_beats(data, ClientWork(info, {}, {}, 0))
        info = ClientInfo(0, number, 12, data.class_counts(0), 2, seed=4, training=beats)
        drawn.append(torch.cat([batch.inputs.examples for batch in method._beats(info)]))
    assert [len(each) for each in drawn] == [10, 10]  # 80% of 12
    assert not torch.equal(*drawn)
