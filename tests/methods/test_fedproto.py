"""FedProto against a plain loop over clients, classes and beats."""

from dataclasses import replace

import small
import torch

from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.federation.communication_audit import audit_communication
from ecgfed.core.federation.communication_log import record_communication
from ecgfed.core.methods.communication import Sent
from ecgfed.core.methods.fedproto import FedProto
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.models import Ensemble

LAM, CLASSES = 0.6, 3


def test_fedproto_is_a_plain_loop() -> None:
    with small.doubled():
        method, state = small.run(FedProto, lam=LAM)
        net, data = small.net(), small.federation()
        models = [net.initial(small.PLAN.seed)] * len(small.LABELS)
        shared: dict[int, torch.Tensor] = {}
        for _ in range(small.ROUNDS):
            sums, counts = dict.fromkeys(range(CLASSES), 0.0), dict.fromkeys(range(CLASSES), 0)
            for client in range(len(models)):
                batch = data.batch(data.rows[client])

                def objective(model: small.Model, batch=batch, shared=shared) -> torch.Tensor:  # type: ignore[no-untyped-def]
                    total = torch.zeros(())
                    for f, label in zip(net.extract(model, batch.inputs), batch.label.tolist(), strict=True):
                        logits = net.classify(model, f[None])[0]
                        total = total + logits.logsumexp(0) - logits[label]
                        if label in shared:
                            total = total + LAM * sum((f[d] - shared[label][d]) ** 2 for d in range(len(f))) / len(f)
                    return total / len(batch.label)

                model = models[client]
                for _ in range(small.STEPS):
                    gradient = small.gradient_of(objective, model)
                    model = {name: value - small.LR * gradient[name] for name, value in model.items()}
                models[client] = model
                for f, label in zip(net.extract(model, batch.inputs), batch.label.tolist(), strict=True):
                    sums[label] = sums[label] + f
                    counts[label] += 1
            shared = {label: sums[label] / counts[label] for label in range(CLASSES) if counts[label]}
        for label, prototype in shared.items():
            torch.testing.assert_close(state.server["prototypes"][label], prototype, rtol=1e-8, atol=1e-10)
        for client, model in enumerate(models):
            small.assert_equal(state.client_states[client]["model"], model)
        # the model's answer is the nearest prototype
        inputs = data.batch(data.rows[1]).inputs
        found = chain_logits(net, method.personal_model(state.server, state.client_states[1]), inputs).argmax(1)
        expected = [
            min(shared, key=lambda label, f=f: float(((f - shared[label]) ** 2).sum()))  # type: ignore[misc]
            for f in net.extract(models[1], inputs)
        ]
        assert found.tolist() == expected


def test_without_the_prototypes_it_is_local_training() -> None:
    with small.doubled():
        (_, proto), (_, local) = small.run(FedProto, lam=0.0), small.run(Local)
        for client in range(len(small.LABELS)):
            small.assert_equal(proto.client_states[client]["model"], local.client_states[client]["model"])


def test_a_class_that_no_participant_has_keeps_its_prototype_and_one_of_nobody_is_never_answered() -> None:
    labels = ([0] * 6, [1] * 6)
    with small.doubled():
        method, state = small.run(FedProto, labels=labels)
        before = state.server["prototypes"].clone()
        assert state.server["beats"].tolist() == [6, 6, 0]
        from ecgfed.core.methods.interface import Returned

        only = {"prototypes": before[None] + 1, "beats": torch.tensor([[4.0, 0.0, 0.0]])}
        after = method.aggregate(state.server, Returned(only, {}, torch.ones(1), torch.zeros(1)))
        torch.testing.assert_close(after["prototypes"], torch.stack([before[0] + 1, before[1], before[2]]))
        assert after["beats"].tolist() == [4, 6, 0]
        own = method.personal_model(state.server, state.client_states[0])
        data = small.federation()
        assert chain_logits(small.net(), own, data.batch(data.rows[2]).inputs)[:, 2].max() < -1000


def test_the_ensemble_has_the_clients_own_heads() -> None:
    method, state = small.run(FedProto, data=small.single())
    ensemble = method.global_model(state.server, [state.client_states[c] for c in range(3)], "ensemble")
    assert isinstance(ensemble, Ensemble)
    assert [[stage.role for stage in member.stages] for member in ensemble.members] == [["model"]] * 3
    assert set(method.alternative_models(state.server, state.client_states[0])) == {"head"}


def test_the_audit_knows_what_prototypes_look_like() -> None:
    method = FedProto(small.net(), FedProto.settings_type())
    log = record_communication(method, small.single(), small.PLAN)
    assert audit_communication(log) == []
    spec = replace(method.communication, up=(Sent("prototypes", "x", "numbers"), method.communication.up[1]))
    method.communication = spec  # type: ignore[misc]
    assert audit_communication(log) == ["prototypes (x) is not of the form 'numbers' that its card says"]
