"""FedPAC against a plain loop over clients, classes and beats; its combinations against scipy's SLSQP."""

import numpy as np
import small
import torch
from scipy.optimize import minimize

from ecgfed.core.methods.fedpac import FedPac, combination

LAM, CLASSES = 0.6, 3


def quadratic(alpha: np.ndarray, h: np.ndarray, v: np.ndarray, client: int) -> float:
    bias = sum(a * (h[client] - other) for a, other in zip(alpha, h, strict=True))
    return float(np.sum(alpha**2 * v) + np.sum(bias**2))


def best(h: np.ndarray, v: np.ndarray, client: int) -> np.ndarray:
    m = len(v)
    found = minimize(
        quadratic,
        np.full(m, 1 / m),
        (h, v, client),
        method="SLSQP",
        bounds=[(0, 1)] * m,
        constraints={"type": "eq", "fun": lambda alpha: alpha.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return np.asarray(found.x)


def test_combinations_minimise_the_objective_over_the_simplex() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        m = int(draw.integers(2, 7))
        h, v = draw.normal(size=(m, 5)), draw.uniform(0.01, 2, m)
        for client in range(m):
            alpha = combination(h, v, client)
            assert alpha.min() >= 0
            assert abs(alpha.sum() - 1) < 1e-12
            assert quadratic(alpha, h, v, client) <= quadratic(best(h, v, client), h, v, client) + 1e-9


def test_fedpac_is_a_plain_loop() -> None:
    with small.doubled():
        method, state = small.run(FedPac, lam=LAM, head_share=0.5)  # of two steps, the first trains the head
        net, data, initial = small.net(), small.federation(), small.net().initial(small.PLAN.seed)
        body = {name: value for name, value in initial.items() if name.startswith("extractor")}
        heads = [{name: value for name, value in initial.items() if name.startswith("head")}] * len(small.LABELS)
        shared: dict[int, torch.Tensor] = {}
        for _ in range(small.ROUNDS):
            ends, trained, hs, vs = [], [], [], []
            sums, counts = dict.fromkeys(range(CLASSES), 0.0), dict.fromkeys(range(CLASSES), 0)
            for client, labels in enumerate(small.LABELS):
                batch, model = data.batch(data.rows[client]), {**body, **heads[client]}
                f, n = net.extract(model, batch.inputs).numpy(), len(labels)
                h, v = np.zeros((CLASSES, f.shape[1])), 0.0
                for k in set(labels):
                    own, share = f[np.array(labels) == k], labels.count(k) / n
                    h[k] = share * own.mean(0)
                    v += share * np.trace(own.T @ own / len(own)) - share**2 * float(own.mean(0) @ own.mean(0))
                hs.append(h.ravel())
                vs.append(v / n)

                def objective(model: small.Model, batch=batch, shared=shared) -> torch.Tensor:  # type: ignore[no-untyped-def]
                    total = torch.zeros(())
                    for f, label in zip(net.extract(model, batch.inputs), batch.label.tolist(), strict=True):
                        logits = net.classify(model, f[None])[0]
                        total = total + logits.logsumexp(0) - logits[label]
                        if label in shared:
                            total = total + LAM * ((f - shared[label]) ** 2).sum() / len(f)
                    return total / len(batch.label)

                for part in ("head", "extractor"):
                    gradient = small.gradient_of(objective, model)
                    model = {n: w - small.LR * gradient[n] * n.startswith(part) for n, w in model.items()}
                ends.append({name: model[name] for name in body})
                trained.append({name: model[name] for name in heads[client]})
                for f, label in zip(net.extract(model, batch.inputs), batch.label.tolist(), strict=True):
                    sums[label] = sums[label] + f
                    counts[label] += 1
            body = small.mean_of(ends)
            shared = {label: sums[label] / counts[label] for label in range(CLASSES)}
            alphas = [best(np.array(hs), np.array(vs), client) for client in range(len(heads))]
            heads = [small.mean_of(trained, alpha.tolist()) for alpha in alphas]
        for name, value in body.items():
            torch.testing.assert_close(state.server["extractor"][name], value, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(state.server["prototypes"], torch.stack([shared[c] for c in range(CLASSES)]))
        for client, head in enumerate(heads):
            for name, value in head.items():  # SLSQP's own tolerance
                torch.testing.assert_close(state.server["heads"][str(client)][name], value, rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(
                    state.client_states[client]["head"][name], trained[client][name], rtol=1e-5, atol=1e-6
                )
        own = method.personal_model(state.server, state.client_states[1])
        assert [stage.role for stage in own.stages] == ["extractor", "head"]
