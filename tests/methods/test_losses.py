"""Balanced risks by hand and by their identities; FedABC's binary risk by hand."""

import math

import pytest
import tiny
import torch
import torch.nn.functional as F

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.fedabc import FedAbc, FedAbcSettings, binary_loss
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.losses import LossSettings, batch_loss
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import Inputs

LOGITS = [1.0, -0.5, 2.0]
COUNTS = [8, 2, 0]


def _risk(label: int, weight: list[float] | None = None, **settings: object) -> float:
    rows = None if weight is None else torch.tensor(weight)
    batch = Batch(Inputs(torch.zeros(1, 1, 4), weight=rows), torch.tensor([label]), torch.tensor(COUNTS))
    logits = torch.tensor([LOGITS], dtype=torch.float64)
    return float(batch_loss(logits, batch, LossSettings(**settings)))  # type: ignore[arg-type]


def _ce(logits: list[float], label: int) -> float:
    return -logits[label] + math.log(sum(math.exp(g) for g in logits))


def test_cross_entropy_and_inverse_reweighting_by_hand() -> None:
    assert _risk(1) == pytest.approx(_ce(LOGITS, 1))
    assert _risk(1, risk="ir") == pytest.approx(10 / (2 * 2) * _ce(LOGITS, 1))
    assert _risk(0, risk="ir") == pytest.approx(10 / (2 * 8) * _ce(LOGITS, 0))
    # the mean weight over the client's beats is 1
    assert pytest.approx(1.0) == (8 * 10 / 16 + 2 * 10 / 4) / 10


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_label_smoothing_by_hand(share: float) -> None:
    """(1 - share) of the cross-entropy of the label, and share of the mean cross-entropy of all classes."""
    every = [_ce(LOGITS, label) for label in range(3)]
    for label in range(3):
        expected = (1 - share) * every[label] + share * sum(every) / 3
        assert _risk(label, label_smoothing=share) == pytest.approx(expected)
    assert _risk(1, label_smoothing=0.0) == pytest.approx(every[1])
    logits, weight = torch.tensor([LOGITS, [math.inf] * 3]), torch.tensor([1.0, 0.0])  # padding may be infinite
    batch = Batch(Inputs(torch.zeros(2, 1, 4), weight=weight), torch.tensor([2, 0]))
    expected = (1 - share) * every[2] + share * sum(every) / 3
    assert float(batch_loss(logits, batch, LossSettings(label_smoothing=share))) == pytest.approx(expected)


@pytest.mark.parametrize("risk", ["ir", "bsm", "ldam"])
def test_label_smoothing_is_of_cross_entropy_alone(risk: str) -> None:
    with pytest.raises(OptionError, match=r"^settings label_smoothing: 0\.1 with risk"):
        make_settings(LossSettings, {"risk": risk, "label_smoothing": 0.1})
    with pytest.raises(OptionError):
        make_settings(FedAbcSettings, {"label_smoothing": 0.1})


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_balanced_softmax_by_hand_takes_absent_classes_out(gamma: float) -> None:
    a, b = 8**gamma * math.exp(1.0), 2**gamma * math.exp(-0.5)
    assert _risk(1, risk="bsm", gamma=gamma) == pytest.approx(-math.log(b / (a + b)))


def test_ldam_by_hand() -> None:
    assert _risk(1, risk="ldam", gamma=0.7) == pytest.approx(_ce([1.0, -0.5 - 0.7 * 2**-0.25, 2.0], 1))


def test_cdt_by_hand() -> None:
    assert _risk(1, risk="cdt", gamma=0.3) == pytest.approx(_ce([1.0, 0.25**0.3 * -0.5, 0.0], 1))


@pytest.mark.parametrize("name", ["ldam", "cdt", "bsm"])
def test_gamma_zero_is_cross_entropy(name: str) -> None:
    logits, label = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    batch = Batch(Inputs(torch.zeros(5, 1, 4)), label, torch.tensor([5, 4, 3]))
    assert float(batch_loss(logits, batch, LossSettings(risk=name, gamma=0.0))) == pytest.approx(
        float(F.cross_entropy(logits, label))
    )


@pytest.mark.parametrize("name", ["ce", "ir", "ldam", "cdt", "bsm"])
def test_rows_that_only_fill_up_change_neither_value_nor_gradient(name: str) -> None:
    """Such a row has class 0, which this client may not have: its balanced risk is infinite."""
    logits = torch.randn(3, 3, requires_grad=True)
    counts = torch.tensor([0, 6, 2])
    full = Batch(Inputs(torch.zeros(3, 1, 4), weight=torch.tensor([1.0, 1.0, 0.0])), torch.tensor([1, 2, 0]), counts)
    short = Batch(Inputs(torch.zeros(2, 1, 4)), torch.tensor([1, 2]), counts)
    settings = LossSettings(risk=name, gamma=0.5)
    a, b = batch_loss(logits, full, settings), batch_loss(logits[:2], short, settings)
    assert float(a.detach()) == pytest.approx(float(b.detach()))
    grads = [torch.autograd.grad(value, logits)[0] for value in (a, b)]
    torch.testing.assert_close(grads[0], grads[1])


def test_any_method_takes_a_balanced_risk_and_moves_otherwise() -> None:
    plain, balanced = (tiny.pair(tiny.run(FedAvg, risk=name).server["model"]) for name in ("ce", "bsm"))
    assert abs(plain - balanced).max() > 1e-3
    with pytest.raises(OptionError, match="risk"):
        LossSettings(risk="hinge")


def test_fedabc_by_hand() -> None:
    settings = FedAbcSettings()
    sigmoid = [1 / (1 + math.exp(-g)) for g in LOGITS]  # .731, .378, .881
    found = float(
        binary_loss(torch.tensor([LOGITS], dtype=torch.float64), torch.tensor([1]), torch.tensor(COUNTS), settings)[0]
    )
    # class 0 present, negative, .731 > .2; class 1 positive, .378 < .85; class 2 absent, negative, .881 > .3
    expected = (
        -(sigmoid[0] ** 2) * math.log(1 - sigmoid[0])
        - (1 - sigmoid[1]) ** 2 * math.log(sigmoid[1])
        - sigmoid[2] ** 2 * math.log(1 - sigmoid[2])
    )
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("logit", "label", "counts", "used"),
    [
        (3.0, 1, [1, 1], False),  # a positive that is sure (.953 > .85)
        (1.0, 1, [1, 1], True),
        (-1.0, 0, [1, 1], True),  # a negative of a present class at .269 > .2
        (-1.0, 0, [1, 0], False),  # of an absent class: .269 < .3
        (-0.5, 0, [1, 0], True),  # .378 > .3
        (-2.0, 0, [1, 1], False),  # .119 < .2
    ],
)
def test_fedabc_leaves_easy_beats_out(logit: float, label: int, counts: list[int], used: bool) -> None:
    # the other class is far off and easy: a sure positive, or a sure negative
    logits = torch.tensor([[9.0 if label == 0 else -9.0, logit]], requires_grad=True)
    value = binary_loss(logits, torch.tensor([label]), torch.tensor(counts), FedAbcSettings()).sum()
    (gradient,) = torch.autograd.grad(value, logits)
    assert bool(gradient[0, 1] != 0) == used
    assert float(gradient[0, 0]) == 0


def test_fedabcs_personal_model_is_the_one_after_local_training() -> None:
    state = tiny.run(FedAbc)
    assert tiny.pair(state.client_states[0]["model"]) != pytest.approx(tiny.pair(state.server["model"]))
    mean = 0.4 * tiny.pair(state.client_states[0]["model"]) + 0.6 * tiny.pair(state.client_states[1]["model"])
    assert tiny.pair(state.server["model"]) == pytest.approx(mean, abs=1e-12)
    with pytest.raises(OptionError, match="risk"):
        FedAbcSettings(risk="bsm")
