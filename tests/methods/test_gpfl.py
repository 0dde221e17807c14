"""GPFL against a plain loop over clients, steps and beats."""

import small
import torch

from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.methods.gpfl import Gpfl

LAM, MU, CLASSES = 0.3, 0.05, 3


def normal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    mean = x.sum() / len(x)
    return (x - mean) / (((x - mean) ** 2).sum() / len(x) + 1e-5).sqrt() * weight + bias


def valve(m: small.Model, f: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    gamma, beta = (
        normal(
            (m[f"valve.{name}.weight"] @ u + m[f"valve.{name}.bias"]).clamp_min(0),
            m[f"valve.{name}_norm.weight"],
            m[f"valve.{name}_norm.bias"],
        )
        for name in ("gamma", "beta")
    )
    return ((gamma + 1) * f + beta).clamp_min(0)


def test_gpfl_is_a_plain_loop() -> None:
    with small.doubled():
        method, state = small.run(Gpfl, lam=LAM, mu=MU)
        net, data, initial = small.net(), small.federation(), small.net().initial(small.PLAN.seed)
        start = method.server_start(initial)
        shared = {**start["extractor"], **start["valve"], **start["embeddings"]}
        heads = [{name: value for name, value in initial.items() if name.startswith("head")}] * len(small.LABELS)
        mixes = [torch.tensor([labels.count(c) / len(labels) for c in range(CLASSES)]) for labels in small.LABELS]
        for _ in range(small.ROUNDS):
            e = shared["class.weight"]
            ends = []
            for client in range(len(heads)):
                batch = data.batch(data.rows[client])
                g, p = sum(e) / CLASSES, sum(a * row for a, row in zip(mixes[client], e, strict=True))

                def objective(m: small.Model, batch=batch, e=e, g=g, p=p) -> torch.Tensor:  # type: ignore[no-untyped-def]
                    total = torch.zeros(())
                    for f, label in zip(net.extract(m, batch.inputs), batch.label.tolist(), strict=True):
                        logits = net.classify(m, valve(m, f, p)[None])[0]
                        of_g = valve(m, f, g)
                        cosine = torch.stack([of_g @ row / (of_g.norm() * row.norm()) for row in m["class.weight"]])
                        total = total + logits.logsumexp(0) - logits[label] + cosine.logsumexp(0) - cosine[label]
                        total = total + LAM * ((of_g - e[label]) ** 2).sum().sqrt()
                    decayed = [value for name, value in m.items() if name.startswith(("valve", "class"))]
                    return total / len(batch.label) + MU / 2 * sum((value**2).sum() for value in decayed)

                model = {**shared, **heads[client]}
                for _ in range(small.STEPS):
                    gradient = small.gradient_of(objective, model)
                    model = {name: value - small.LR * gradient[name] for name, value in model.items()}
                heads[client] = {name: model[name] for name in heads[client]}
                ends.append({name: model[name] for name in shared})
            shared = small.mean_of(ends)
        found = {**state.server["extractor"], **state.server["valve"], **state.server["embeddings"]}
        small.assert_equal(found, shared)
        batch = data.batch(data.rows[1])
        p = sum(a * row for a, row in zip(mixes[1], shared["class.weight"], strict=True))
        whole = {**shared, **heads[1]}
        expected = torch.stack(
            [net.classify(whole, valve(whole, f, p)[None])[0] for f in net.extract(whole, batch.inputs)]
        )
        own = method.personal_model(state.server, state.client_states[1])
        torch.testing.assert_close(torch.as_tensor(chain_logits(net, own, batch.inputs)), expected)


def test_embeddings_start_standard_normal_and_shares_stay_with_the_client() -> None:
    method = Gpfl(small.net(), Gpfl.settings_type())
    e = method.server_start(small.net().initial(0))["embeddings"]["class.weight"]
    assert 0.7 < float(e.std()) < 1.3
    assert "shares" not in {entry.name for entry in (*method.communication.up, *method.communication.down)}
