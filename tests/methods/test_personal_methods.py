"""Ditto, FedPer, FedRep, LG-FedAvg, pFedMe and per-FedAvg by hand on two clients of two parameters."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from ecgfed.core.methods.ditto import Ditto
from ecgfed.core.methods.fedper import FedPer
from ecgfed.core.methods.fedrep import FedRep, FedRepSettings
from ecgfed.core.methods.lg_fedavg import LgFedAvg, LgFedAvgSettings
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.models import Ensemble, Pipeline
from ecgfed.core.methods.per_fedavg import PerFedAvg
from ecgfed.core.methods.pfedme import PFedMe, PFedMeSettings
from ecgfed.core.nets.layers import is_buffer
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

ETA, STEPS, ROUNDS = 0.3, 2, 2
SHARES = (2 / 5, 3 / 5)


def test_ditto_by_hand() -> None:
    lam, eta_p, w, v = 0.6, 0.2, tiny.START, [tiny.START, tiny.START]
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x = w
            for _ in range(STEPS):
                x = x - ETA * tiny.grad(x, i)
                v[i] = v[i] - eta_p * (tiny.grad(v[i], i) + lam * (v[i] - w))
            ends.append(x)
        w = SHARES[0] * ends[0] + SHARES[1] * ends[1]
    state = tiny.run(Ditto, lam=lam, personal_lr=eta_p)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-12)
    for i in (0, 1):
        assert tiny.pair(state.client_states[i]["model"]) == pytest.approx(v[i], abs=1e-12)


def test_fedper_by_hand() -> None:
    w, b = tiny.START[0], [tiny.START[1]] * 2
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x = np.array([w, b[i]])
            for _ in range(STEPS):
                x = x - ETA * tiny.grad(x, i)
            ends.append(x[0])
            b[i] = x[1]
        w = SHARES[0] * ends[0] + SHARES[1] * ends[1]
    state = tiny.run(FedPer)
    assert tiny.pair(state.server["extractor"]) == pytest.approx([w], abs=1e-12)
    assert [float(state.client_states[i]["head"]["head.b"]) for i in (0, 1)] == pytest.approx(b, abs=1e-12)


def test_fedrep_by_hand() -> None:
    plan, w, b = replace(tiny.PLAN, local_steps=3), tiny.START[0], [tiny.START[1]] * 2
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x = np.array([w, b[i]])
            for t in range(3):  # 2/3 of three steps: the head twice, then the body
                x = x - ETA * tiny.grad(x, i) * ([0, 1] if t < 2 else [1, 0])
            ends.append(x[0])
            b[i] = x[1]
        w = SHARES[0] * ends[0] + SHARES[1] * ends[1]
    state = tiny.run(FedRep, plan, head_share=2 / 3)
    assert tiny.pair(state.server["extractor"]) == pytest.approx([w], abs=1e-12)
    assert [float(state.client_states[i]["head"]["head.b"]) for i in (0, 1)] == pytest.approx(b, abs=1e-12)


def test_fedreps_frozen_body_keeps_its_normalisation_statistics() -> None:
    from ecgfed.core.methods.base import Batch, ClientInfo
    from ecgfed.core.nets.net import Inputs

    net = ResNet1d(NetSpec(3, width=0.35, norm="batch"))
    method = FedRep(net, FedRepSettings(head_share=0.5, momentum=0.9, lr=0.1))
    initial = net.initial(0)
    info = ClientInfo(0, 1, 16, torch.ones(3), 4)
    state = method.init_round(
        method.server_message(method.server_start(initial), 0), method.client_start(initial), info
    )
    torch.manual_seed(0)
    for t in range(4):
        before = dict(state["model"])
        state, _ = method.step(state, [Batch(Inputs(torch.randn(8, 1, 256)), torch.randint(0, 3, (8,)))], t)
        changed = {name for name, value in state["model"].items() if not torch.equal(value, before[name])}
        frozen = "extractor" if t < 2 else "head"
        assert not any(name.startswith(frozen) for name in changed)
        assert any(is_buffer(name) for name in changed) == (t >= 2)


def test_fedrep_with_one_step_moves_both() -> None:
    state = tiny.run(FedRep, replace(tiny.PLAN, local_steps=1))
    assert float(state.client_states[0]["head"]["head.b"]) != tiny.START[1]
    assert float(state.server["extractor"]["extractor.w"]) != tiny.START[0]


def test_lg_fedavg_by_hand_with_and_without_a_warm_start() -> None:
    for warm in (0.0, 0.5):
        w, b = [tiny.START[0]] * 2, tiny.START[1]
        for r in range(ROUNDS):
            ends = []
            for i in (0, 1):
                x = np.array([w[i], b])
                for _ in range(STEPS):
                    x = x - ETA * tiny.grad(x, i)
                ends.append(x)
            if r / ROUNDS < warm:  # FedAvg, by data share
                mean = SHARES[0] * ends[0] + SHARES[1] * ends[1]
                w, b = [mean[0]] * 2, mean[1]
            else:  # heads only, unweighted
                w, b = [x[0] for x in ends], (ends[0][1] + ends[1][1]) / 2
        state = tiny.run(LgFedAvg, warm_start=warm)
        assert float(state.server["model"]["head.b"]) == pytest.approx(b, abs=1e-12)
        found = [float(state.client_states[i]["extractor"]["extractor.w"]) for i in (0, 1)]
        assert found == pytest.approx(w, abs=1e-12)
        assert found[0] != found[1]  # extractors stay apart


def test_methods_without_a_global_model_answer_together() -> None:
    for kind, settings in ((LgFedAvg, LgFedAvgSettings(warm_start=0)), (FedPer, SgdSettings())):
        method = kind(tiny.TinyNet(), settings)  # type: ignore[arg-type]
        state = tiny.run(kind, **({"warm_start": 0} if kind is LgFedAvg else {}))
        kept = [state.client_states[0], state.client_states[1]]
        ensemble = method.global_model(state.server, kept, "ensemble")
        assert isinstance(ensemble, Ensemble)
        assert len(ensemble.members) == 2
        average = method.global_model(state.server, kept, "average")
        assert isinstance(average, Pipeline)
        own = [method.personal_model(state.server, k).stages for k in kept]
        for j, part in enumerate(average.stages):
            for name, value in part.params.items():
                assert float(value) == pytest.approx(
                    (float(own[0][j].params[name]) + float(own[1][j].params[name])) / 2
                )


def test_the_average_of_lg_fedavg_has_the_servers_extractor_for_a_patient_who_never_took_part() -> None:
    method = LgFedAvg(tiny.TinyNet(), LgFedAvgSettings(warm_start=0))  # type: ignore[arg-type]
    state = tiny.run(LgFedAvg, warm_start=0)
    average = method.global_model(state.server, [state.client_states[0], {}], "average")
    assert isinstance(average, Pipeline)
    (whole,) = average.stages
    extractors = float(state.client_states[0]["extractor"]["extractor.w"]), tiny.START[0]
    assert float(whole.params["extractor.w"]) == pytest.approx(sum(extractors) / 2)
    assert float(whole.params["head.b"]) == pytest.approx(float(state.server["model"]["head.b"]))


def test_pfedme_by_hand() -> None:
    lam, inner, eta_p, beta, w = 2.0, 3, 0.1, 0.7, tiny.START
    thetas = [w, w]
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x = theta = w
            for _ in range(STEPS):
                for _ in range(inner):
                    theta = theta - eta_p * (tiny.grad(theta, i) + lam * (theta - x))
                x = x - ETA * lam * (x - theta)
            ends.append(x)
            thetas[i] = theta
        w = (1 - beta) * w + beta * (ends[0] + ends[1]) / 2
    state = tiny.run(PFedMe, lam=lam, inner_steps=inner, personal_lr=eta_p, beta=beta)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-12)
    assert w != pytest.approx(tiny.START, abs=1e-3)  # the global model moves
    method = PFedMe(tiny.TinyNet(), PFedMeSettings())  # type: ignore[arg-type]
    for i in (0, 1):
        personal = method.personal_model(state.server, state.client_states[i]).stages[0].params
        assert tiny.pair(personal) == pytest.approx(thetas[i], abs=1e-12)  # theta, not w


@pytest.mark.parametrize("form", ["fo", "hf"])
def test_per_fedavg_by_hand(form: str) -> None:
    alpha, w, personal = 0.2, tiny.START, [tiny.START, tiny.START]
    for _ in range(ROUNDS):
        ends = []
        for i in (0, 1):
            x = w
            for t in range(STEPS):  # every batch holds all points, so D, D', D'' are the same points
                inner = x - alpha * tiny.grad(x, i)
                personal[i] = inner if t == 0 else personal[i]
                outer = tiny.grad(inner, i)
                if form == "hf":
                    outer = outer - alpha * tiny.hessian(x, i) @ outer
                x = x - ETA * outer
            ends.append(x)
        w = (ends[0] + ends[1]) / 2
    state = tiny.run(PerFedAvg, alpha=alpha, form=form, delta=1e-4)
    assert tiny.pair(state.server["model"]) == pytest.approx(w, abs=1e-7)
    for i in (0, 1):
        assert tiny.pair(state.client_states[i]["personal"]) == pytest.approx(personal[i], abs=1e-7)


def test_per_fedavg_draws_independent_batches() -> None:
    from ecgfed.core.federation.data import local_rows
    from ecgfed.core.federation.plan import TrainPlan

    plan = TrainPlan(rounds=1, local_epochs=None, local_steps=1, batch_size=1)
    ((first, second),) = local_rows(tiny.data(), plan, 1, 0, 2)
    assert first.tolist() != second.tolist()
