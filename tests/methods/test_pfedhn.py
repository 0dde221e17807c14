"""pFedHN against a plain loop over clients, with the hypernetwork's gradients by autograd of an inner product."""

import small
import torch
import torch.nn.functional as F

from ecgfed.core.methods.local_sgd import zeros_like
from ecgfed.core.methods.pfedhn import PFedHn

ALPHA, RHO, DECAY, LAYERS = 0.02, 0.6, 0.01, 2


def hyper(phi: small.Model, v: torch.Tensor) -> torch.Tensor:
    x = phi["hyper.0.weight"] @ v + phi["hyper.0.bias"]
    for number in range(1, LAYERS + 1):
        x = phi[f"hyper.{number}.weight"] @ x.clamp_min(0) + phi[f"hyper.{number}.bias"]
    return phi["hyper.out.weight"] @ x + phi["hyper.out.bias"]  # as in the authors' code, no ReLU before it


def test_pfedhn_is_a_plain_loop() -> None:
    settings = {"hyper_lr": ALPHA, "hyper_momentum": RHO, "hyper_decay": DECAY, "hidden_layers": LAYERS}
    settings |= {"hidden": 6, "embedding": 4, "weight_decay": 0.0}
    with small.doubled():
        method, state = small.run(PFedHn, **settings)
        net, data, initial = small.net(), small.federation(), small.net().initial(small.PLAN.seed)
        start = method.server_start(initial)
        phi = start["hyper"]
        velocity = {name: torch.zeros_like(value) for name, value in phi.items()}
        v = [method._embedding(start, client) for client in range(len(small.LABELS))]  # type: ignore[attr-defined]
        names = sorted(initial)

        def as_model(flat: torch.Tensor) -> small.Model:
            model, at = {}, 0
            for name in names:
                size = initial[name].numel()
                model[name] = flat[at : at + size].reshape(initial[name].shape)
                at += size
            return model

        for _ in range(small.ROUNDS):
            total = {name: torch.zeros_like(value) for name, value in phi.items()}
            moved = []
            for client in range(len(v)):
                batch = data.batch(data.rows[client])
                theta = as_model(hyper(phi, v[client]))
                model = theta
                for _ in range(small.STEPS):
                    loss = lambda m, b=batch: F.cross_entropy(net.logits(m, b.inputs), b.label)  # noqa: E731
                    gradient = small.gradient_of(loss, model)
                    model = {name: value - small.LR * gradient[name] for name, value in model.items()}
                change = torch.cat([(model[name] - theta[name]).flatten() for name in names])  # Delta theta
                both = small.gradient_of(
                    lambda at, c=change: (hyper({n: w for n, w in at.items() if n != "v"}, at["v"]) * c).sum(),
                    {**phi, "v": v[client]},
                )
                total = {name: value + both[name] / len(v) for name, value in total.items()}
                moved.append(v[client] + ALPHA * (both["v"] - DECAY * v[client]))
            velocity = {name: RHO * velocity[name] - total[name] + DECAY * phi[name] for name in phi}
            phi, v = {name: value - ALPHA * velocity[name] for name, value in phi.items()}, moved
        small.assert_equal(state.server["hyper"], phi)
        for client, embedding in enumerate(v):
            torch.testing.assert_close(state.server["embeddings"][client], embedding, rtol=1e-8, atol=1e-10)
            (stage,) = method.personal_model(state.server, state.client_states[client]).stages
            small.assert_equal({name: stage.params[name] for name in names}, as_model(hyper(phi, embedding)))


def test_the_first_models_are_near_the_nets_initial_one() -> None:
    method = PFedHn(small.net(), PFedHn.settings_type())
    initial = small.net().initial(3)
    made = method.server_message(method.server_start(initial), 1)["model"]
    assert made.keys() == initial.keys()
    far = sum(float((made[name] - initial[name]).square().sum()) for name in initial) ** 0.5
    long = sum(float(value.square().sum()) for value in initial.values()) ** 0.5
    assert 0 < far < 0.3 * long
    assert zeros_like(made).keys() == made.keys()


def test_statistics_of_batch_norm_are_the_mean_and_not_made() -> None:
    method, state = small.run(PFedHn, norm="batch", data=small.single())
    names = [name for name in state.client_states[0]["model"] if "running" in name]
    for name in names:
        own = torch.stack([state.client_states[client]["model"][name] for client in range(3)])
        weights = torch.tensor(small.SHARES, dtype=own.dtype)
        torch.testing.assert_close(state.server["statistics"][name], torch.tensordot(weights, own, 1))
    assert len(names) == 10
    assert not set(names) & set(method.shapes)  # type: ignore[attr-defined]


def test_a_new_patients_model_is_its_trained_one() -> None:
    method, state = small.run(PFedHn, data=small.single())
    trained = {"model": state.client_states[0]["model"], "number": torch.tensor(77)}
    (stage,) = method.personal_model(state.server, trained).stages
    assert stage.params is trained["model"]


def test_a_client_that_never_took_part_has_nobodys_model() -> None:
    method, state = small.run(PFedHn, data=small.single(), hidden_layers=LAYERS)
    (stage,) = method.personal_model(state.server, {}).stages
    made = hyper(state.server["hyper"], state.server["embeddings"].mean(0))
    names = sorted(small.net().initial(0))
    torch.testing.assert_close(torch.cat([stage.params[name].flatten() for name in names]), made)
    for client_state in state.client_states.values():
        (own,) = method.personal_model(state.server, client_state).stages
        assert not all(torch.equal(own.params[name], stage.params[name]) for name in names)
