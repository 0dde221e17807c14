"""MOON against a plain loop over clients, steps and beats."""

import small
import torch

from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.moon import Moon

MU, TAU = 0.8, 0.4


def test_moon_is_a_plain_loop() -> None:
    with small.doubled():
        _, state = small.run(Moon, mu=MU, temperature=TAU)
        net, data = small.net(), small.federation()
        w = net.initial(small.PLAN.seed)
        previous = [w] * len(small.LABELS)
        for _ in range(small.ROUNDS):
            for client in range(len(small.LABELS)):
                batch = data.batch(data.rows[client])
                z_glob, z_prev = net.extract(w, batch.inputs), net.extract(previous[client], batch.inputs)

                def objective(model: small.Model, batch=batch, z_glob=z_glob, z_prev=z_prev) -> torch.Tensor:  # type: ignore[no-untyped-def]
                    z, total = net.extract(model, batch.inputs), torch.zeros(())
                    for j, label in enumerate(batch.label.tolist()):
                        logits = net.classify(model, z[j : j + 1])[0]
                        near = (z[j] @ z_glob[j] / (z[j].norm() * z_glob[j].norm()) / TAU).exp()
                        far = (z[j] @ z_prev[j] / (z[j].norm() * z_prev[j].norm()) / TAU).exp()
                        total = total + logits.logsumexp(0) - logits[label] - MU * (near / (near + far)).log()
                    return total / len(batch.label)

                model = w
                for _ in range(small.STEPS):
                    gradient = small.gradient_of(objective, model)
                    model = {name: value - small.LR * gradient[name] for name, value in model.items()}
                previous[client] = model
            w = small.mean_of(previous)
        small.assert_equal(state.server["model"], w)
        for client, model in enumerate(previous):
            small.assert_equal(state.client_states[client]["model"], model)


def test_without_the_contrastive_loss_it_is_fedavg() -> None:
    with small.doubled():
        (_, moon), (_, avg) = small.run(Moon, mu=0.0), small.run(FedAvg)
        small.assert_equal(moon.server["model"], avg.server["model"])
