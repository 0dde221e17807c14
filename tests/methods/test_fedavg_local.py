"""FedAvg and Local against plain gradient descent written out with autograd."""

import numpy as np
import torch
import torch.nn.functional as F

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.fedavg import FedAvg, FedAvgUniform
from ecgfed.core.methods.local import Local
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.models import Ensemble, Pipeline
from ecgfed.core.methods.server_sgd import PlainMeanSettings
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

NET = ResNet1d(NetSpec(3, width=0.35))


def federation(sizes: tuple[int, ...] = (6, 18), seed: int = 0) -> TrainingData:
    """Clients with random windows."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    edges = np.cumsum((0, *sizes))
    return TrainingData(
        clients=np.arange(len(sizes)),
        rows={i: np.arange(edges[i], edges[i + 1]) for i in range(len(sizes))},
        examples=rng.standard_normal((total, 1, 256)).astype(np.float32),
        rr=None,
        label=rng.integers(0, 3, total),
        classes=3,
    )


def f64(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def run(method: Method, data: TrainingData, plan: TrainPlan, workers: int = 2):  # type: ignore[no-untyped-def]
    with ThreadEngine(data, plan, workers) as engine:
        return train(method, data, plan, engine, initial_state(method, plan))


def descend(
    params: dict[str, torch.Tensor], data: TrainingData, rows: np.ndarray, lr: float
) -> dict[str, torch.Tensor]:
    """One step of gradient descent on the mean loss of some rows, straight from autograd."""
    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    logits = NET.logits(leaves, Inputs(torch.from_numpy(data.examples[rows])), {})
    F.cross_entropy(logits, torch.from_numpy(data.label[rows])).backward()  # type: ignore[no-untyped-call]
    return {name: (leaf - lr * leaf.grad).detach() for name, leaf in leaves.items()}  # type: ignore[operator]


def test_one_full_batch_step_of_fedavg_is_gradient_descent_on_the_pool() -> None:
    data, plan = federation(), TrainPlan(rounds=1, local_epochs=1, batch_size=64)
    state = run(FedAvg(NET, PlainMeanSettings(0.1, 0.0)), data, plan)
    pooled = descend(NET.initial(0), data, np.arange(24), 0.1)
    for name, value in pooled.items():
        torch.testing.assert_close(state.server["model"][name], value, atol=1e-6, rtol=1e-5)


def test_uniform_weights_are_the_plain_mean_of_the_clients() -> None:
    data, plan = federation(), TrainPlan(rounds=1, local_epochs=1, batch_size=64)
    state = run(FedAvgUniform(NET, PlainMeanSettings(0.1, 0.0)), data, plan)
    each = [descend(NET.initial(0), data, data.rows[i], 0.1) for i in (0, 1)]
    for name in each[0]:
        mean = (each[0][name] + each[1][name]) / 2
        torch.testing.assert_close(state.server["model"][name], mean, atol=1e-6, rtol=1e-5)


def test_local_rounds_leave_no_trace() -> None:
    data = federation((40, 17))
    settings = SgdSettings(0.05, 0.9)
    many = run(Local(NET, settings), data, TrainPlan(rounds=6, local_epochs=None, local_steps=1, batch_size=8))
    once = run(Local(NET, settings), data, TrainPlan(rounds=1, local_epochs=None, local_steps=6, batch_size=8))
    for client in (0, 1):
        for name, value in many.client_states[client]["model"].items():
            assert torch.equal(value, once.client_states[client]["model"][name])


def test_local_clients_do_not_learn_of_each_other() -> None:
    both, alone = federation((40, 17)), federation((40, 17))
    only = TrainingData(np.array([0]), {0: alone.rows[0]}, alone.examples, None, alone.label, 3)
    plan = TrainPlan(rounds=2, local_epochs=1, batch_size=8)
    method = Local(NET, SgdSettings(0.05))
    a, b = run(method, both, plan).client_states[0]["model"], run(method, only, plan).client_states[0]["model"]
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_answers() -> None:
    data, plan = federation(), TrainPlan(rounds=1, local_epochs=1, batch_size=8)
    local = Local(NET, SgdSettings(0.1))
    state = run(local, data, plan)
    kept = [state.client_states[0], state.client_states[1]]
    ensemble, average = (local.global_model(state.server, kept, how) for how in ("ensemble", "average"))
    assert isinstance(ensemble, Ensemble)
    assert [member.stages[0].params for member in ensemble.members] == [k["model"] for k in kept]
    assert isinstance(average, Pipeline)
    bias = average.stages[0].params["head.out.bias"]
    torch.testing.assert_close(bias, (kept[0]["model"]["head.out.bias"] + kept[1]["model"]["head.out.bias"]) / 2)
    assert not local.personal_model(state.server, kept[1]).stages[0].shared
    fedavg = FedAvg(NET, PlainMeanSettings())
    server = fedavg.server_start(NET.initial(0))
    assert fedavg.personal_model(server, {}).stages == fedavg.global_model(server, (), "ensemble").stages  # type: ignore[union-attr]
