"""Personal answers from a global model: each against its formula, or scikit-learn."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from ecgfed.base.errors import OptionError
from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.parts import extractor_of, head_of
from ecgfed.core.nets.personal_head import gated_logits, kernel_logits, squared_distances
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.personal import gated, kernel
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.finetune import Stopping, batches, fine_tune, loss_on
from ecgfed.core.personal.registry import personal_by_name, personal_models
from ecgfed.core.personal.softmax_fit import fit_softmax

pytestmark = pytest.mark.usefixtures("quick_finetuning")
CLASSES, HAS = 5, (0, 2, 3)
NET = ResNet1d(NetSpec(CLASSES, width=0.35, rr=True, rr_version=2))
MODEL = NET.initial(3)


def beats(count: int, seed: int, has: tuple[int, ...] = HAS) -> Batch:
    """Beats whose classes differ in shape and in RR features."""
    rng = np.random.default_rng(seed)
    label = np.array([has[i % len(has)] for i in range(count)])
    time = np.linspace(0, 1, 256)
    window = np.stack([np.sin(2 * np.pi * (2 + c) * time) for c in label]) + rng.normal(0, 0.3, (count, 256))
    rr = rng.normal(0, 0.5, (count, 16)) + label[:, None] * 0.1
    inputs = Inputs(torch.tensor(window[:, None], dtype=torch.float32), torch.tensor(rr, dtype=torch.float32))
    return Batch(inputs, torch.from_numpy(label))


OWN = PatientBeats(beats(90, 0), beats(30, 1), torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1]), (0, 4))
OTHERS = beats(40, 2, (1, 4))


def logits(chain: Pipeline, batch: Batch) -> Tensor:
    with torch.inference_mode():
        return chain_logits(NET, chain, batch.inputs)


def global_logits(batch: Batch) -> Tensor:
    with torch.inference_mode():
        return NET.logits(MODEL, batch.inputs)


@pytest.mark.parametrize("name", list(personal_models()))
def test_an_answer_shares_what_it_can_and_gives_the_same_bits_again(name: str) -> None:
    before = {key: value.clone() for key, value in MODEL.items()}
    first, again = (personal_models()[name].fit(NET, MODEL, OWN) for _ in range(2))
    assert torch.equal(logits(first, OWN.train), logits(again, OWN.train))
    assert torch.isfinite(logits(first, OTHERS)).all()
    for part in first.stages:
        if part.shared:
            assert all(value is MODEL[key] for key, value in part.params.items())
    assert all(torch.equal(MODEL[key], value) for key, value in before.items())
    shapes = [{key: value.shape for key, value in part.params.items()} for part in first.stages]
    few = PatientBeats(beats(2, 5, (3,)), None, OWN.everyone)  # two beats of one class: the same graph, no error
    other = personal_models()[name].fit(NET, MODEL, few)
    assert [{key: value.shape for key, value in part.params.items()} for part in other.stages] == shapes
    assert torch.isfinite(logits(other, OWN.train)).all()


def test_masked_answers_with_the_patients_classes_only() -> None:
    chain = personal_models()["masked"].fit(NET, MODEL, OWN)
    found, plain = logits(chain, OTHERS), global_logits(OTHERS)
    torch.testing.assert_close(found[:, list(HAS)], plain[:, list(HAS)])
    assert set(found.argmax(1).tolist()) <= set(HAS)


def test_prior_moves_the_class_shares_by_bayes() -> None:
    """p_m(c|x) = p(c|x) P_m(c)/P(c), normalised; 30 beats of each class it has, one added to all five."""
    found = logits(personal_models()["prior"].fit(NET, MODEL, OWN), OTHERS).softmax(1)
    ratio = torch.tensor([31, 1, 31, 31, 1]) / 95 / OWN.everyone
    expected = global_logits(OTHERS).softmax(1) * ratio
    torch.testing.assert_close(found, expected / expected.sum(1, keepdim=True))


def test_a_class_that_nobody_has_is_left_where_it_is() -> None:
    none_of_1 = PatientBeats(OWN.train, None, torch.tensor([0.6, 0.0, 0.2, 0.1, 0.1]))
    found = logits(personal_models()["prior"].fit(NET, MODEL, none_of_1), OTHERS) - global_logits(OTHERS)
    assert found[:, 1].abs().max() < 1e-5


@pytest.mark.parametrize("evenness", [0.0, 0.5, 1.0])
def test_the_logistic_fit_is_scikit_learns(evenness: float) -> None:
    rng = np.random.default_rng(0)
    label = np.repeat([0, 2, 3], [60, 25, 8])
    x = rng.normal(size=(len(label), 6)) + label[:, None] * 0.5
    ridge = 1e-2
    weight, bias = fit_softmax(torch.tensor(x), torch.from_numpy(label), 5, ridge=ridge, evenness=evenness)
    counts = np.bincount(label)
    each = counts[label] ** -evenness
    theirs = LogisticRegression(C=1 / ridge, tol=1e-10, max_iter=5000)
    theirs.fit(x, label, sample_weight=each / each.sum())
    found = F.linear(torch.tensor(x), weight.double(), bias.double()).softmax(1).numpy()
    assert found[:, [0, 2, 3]] == pytest.approx(theirs.predict_proba(x), abs=2e-4)
    assert (found[:, [1, 4]] == 0).all()


def test_head_is_logistic_regression_on_the_features_as_they_come() -> None:
    chain = personal_models()["head"].fit(NET, MODEL, OWN)
    assert [part.role for part in chain.stages] == ["extractor", "linear"]
    accuracy = (logits(chain, OWN.train).argmax(1) == OWN.train.label).float().mean()
    assert accuracy > 0.9


def test_points_far_apart_on_a_line() -> None:
    line = torch.tensor([[0.0], [1.0], [4.0], [5.0], [9.0]])  # mean 3.8
    assert kernel.farthest_first(line, 4).tolist() == [
        2,
        4,
        0,
        1,
    ]  # 4, then 9 (5 off), 0 (4 off), 1 and 5 tie: the first


def test_kept_beats_by_the_root_of_a_class() -> None:
    label = torch.tensor([0] * 100 + [1] * 4 + [2])
    points = torch.randn(105, 3, generator=torch.Generator().manual_seed(0))
    chosen = label[kernel.select_centres(points, label, limit=13)]
    # roots 10, 2, 1 of 13: ten, two (its quota), and all one of the last
    assert torch.bincount(chosen).tolist() == [10, 2, 1]


def test_the_kernel_machine_by_hand() -> None:
    chain = personal_models()["kernel"].fit(NET, MODEL, OWN)
    params = chain.stages[1].params
    with torch.inference_mode():
        described = NET.describe(chain.stages[0].params, OWN.train.inputs)
    x = ((described - params["own.shift"]) * params["own.scale"]).double().numpy()
    kept = params["own.kept"].double().numpy()
    real = np.abs(kept).max(1) < 100
    square = ((x[:, None] - kept[real][None]) ** 2).sum(2)
    expected = np.exp(-square) @ params["own.weight"].double().numpy()[:, real].T + params["own.bias"].double().numpy()
    found = kernel_logits(params, described).numpy()
    assert found[:, list(HAS)] == pytest.approx(expected[:, list(HAS)], abs=2e-3)
    assert (found.argmax(1) == OWN.train.label.numpy()).mean() > 0.98
    assert not params["own.weight"][:, ~torch.from_numpy(real)].any()
    # e^(-d^2 / 2 sigma^2): the variances add up to a half
    assert x.var(0).sum() == pytest.approx(0.5, rel=1e-3)


def test_shape_is_the_standardised_window_in_steps_of_four() -> None:
    window = OWN.train.inputs.examples[:3, 0].double().numpy()
    centred = window - window.mean(1, keepdims=True)
    expected = (centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-4)).reshape(3, 64, 4).mean(2)
    assert NET.shape(OWN.train.inputs)[:3].numpy() == pytest.approx(expected, abs=1e-5)
    assert NET.described == NET.features + 64


def test_the_gate_by_hand() -> None:
    chain = personal_models()["gated"].fit(NET, MODEL, OWN)
    params = chain.stages[1].params
    batch = Batch(Inputs(torch.cat([OWN.train.inputs.examples, OTHERS.inputs.examples]),
                         torch.cat([OWN.train.inputs.rr, OTHERS.inputs.rr])), torch.zeros(130))  # type: ignore[list-item]  # fmt: skip
    with torch.inference_mode():
        described = NET.describe(chain.stages[0].params, batch.inputs)
        others = NET.classify(head_of(MODEL), described[:, : NET.features])
    own = (kernel_logits(params, described) + 0.25 * others).softmax(1).double().numpy()
    g = (others - params["gate.reserve"]).double().numpy()
    d2 = squared_distances(params, described).amin(1).double().numpy()
    far = np.log(np.sqrt(np.maximum(d2 / float(params["gate.reach"]), 0.0625)))
    against = g.max(1) - (own * g).sum(1)
    s = 1 / (1 + np.exp(-(3.0 * far + 1.0 * against - 5.0)))[:, None]
    of_g = np.exp(g - g.max(1, keepdims=True))
    expected = (1 - s) * own + s * of_g / of_g.sum(1, keepdims=True)
    found = logits(chain, batch)
    assert found.exp().numpy() == pytest.approx(expected + 1e-3, abs=1e-4)
    assert found.exp().sum(1).numpy() == pytest.approx(np.full(130, 1 + CLASSES * 1e-3), abs=1e-4)


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 100])
def test_the_bits_of_a_distance_do_not_depend_on_the_rows_beside_it(rows: int) -> None:
    draw = torch.Generator().manual_seed(rows)
    described, shift, scale = (torch.randn(size, 128, generator=draw) for size in (rows, 1, 1))
    params = {"own.shift": shift[0], "own.scale": scale[0], "own.kept": torch.randn(128, 128, generator=draw)}
    difference = ((described - shift) * scale)[:, None] - params["own.kept"]
    assert torch.equal(squared_distances(params, described), (difference * difference).sum(2))


def test_reach_and_reserve_by_hand() -> None:
    assert gated.reach(torch.tensor([1.0, 2.0, torch.inf, 3.0])) == pytest.approx(2.9)  # 95% between 2 and 3
    assert gated.reach(torch.tensor([torch.inf])) == pytest.approx(0.05)
    known = torch.tensor([True, False, False])
    logits_ = torch.tensor([[2.0, 1.0, 5.0], [4.0, 4.5, 0.0]])  # class 1 exceeds by .5 at most, class 2 by 3
    assert gated.reserve(logits_, known).tolist() == pytest.approx([0.0, 0.5 + 0.5, 3.0 + 0.5])


def test_near_its_own_beats_the_kernel_machine_answers_far_from_them_the_global_model() -> None:
    chain = personal_models()["gated"].fit(NET, MODEL, OWN)
    params, others = chain.stages[1].params, torch.tensor([[0.0, 30.0, 0.0, 0.0, 0.0]]).repeat(2, 1)
    kept = params["own.kept"][:1] / params["own.scale"] + params["own.shift"]
    there = torch.cat([kept, kept + 100.0])
    quiet = {
        **params,
        "gate.reserve": torch.zeros(CLASSES),
        "gate.trust": torch.zeros(1),
        "gate.backing": torch.zeros(1),
    }
    near, far = gated_logits(quiet, there, others).argmax(1).tolist()
    assert near in HAS
    assert far == 1


def test_finetuning_is_no_worse_on_validation_than_where_it_began() -> None:
    assert OWN.valid is not None
    tuned = fine_tune(NET, MODEL, OWN, Stopping(steps=50, every=10), dict)
    assert loss_on(NET, tuned, OWN.valid) < loss_on(NET, MODEL, OWN.valid)
    headed = fine_tune(NET, MODEL, OWN, Stopping(steps=50, every=10), head_of)
    assert all(headed[name] is MODEL[name] for name in extractor_of(MODEL))
    wild = fine_tune(NET, MODEL, OWN, Stopping(lr=100.0, steps=20, every=5), dict)
    assert loss_on(NET, wild, OWN.valid) <= loss_on(NET, MODEL, OWN.valid)
    none = fine_tune(NET, MODEL, OWN, Stopping(steps=0), dict)
    assert none is MODEL


def test_batches_go_through_all_beats_epoch_after_epoch() -> None:
    numbered = Batch(Inputs(torch.arange(90.0)[:, None, None]), torch.arange(90))
    own = PatientBeats(numbered, None, OWN.everyone, (1, 2))
    drawn = torch.cat([batch.label for batch in batches(own, 45)])
    assert len(drawn) == 45 * 64
    assert torch.bincount(drawn).min() == 2880 // 90  # 32 epochs, all of every one
    assert math.isclose(float(torch.bincount(drawn).max()), 32)


def test_names_are_found_and_others_refused_with_the_nearest() -> None:
    assert personal_by_name("method") is None
    assert personal_by_name("GATED") is personal_models()["gated"]
    with pytest.raises(OptionError, match=r"^personal: .*did you mean finetune"):
        personal_by_name("finetun")


def test_where_the_gate_is_nearly_open_single_precision_is_enough() -> None:
    """What is left of the kernel machine's answer is no difference: log(p + 1e-3) would show how that is rounded."""
    params = personal_models()["gated"].fit(NET, MODEL, OWN).stages[1].params
    with torch.inference_mode():
        described = NET.describe(extractor_of(MODEL), OWN.train.inputs).repeat(20, 1)
    others = torch.zeros(len(described), CLASSES)
    others[:, 1] = torch.linspace(4, 16, len(described))  # more and more for a class it has never had
    exact = gated_logits({name: value.double() for name, value in params.items()}, described.double(), others.double())
    assert set(exact.argmax(1).tolist()) == {0, 1, 2, 3}
    assert (gated_logits(params, described, others).double() - exact).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["kernel", "gated"])
def test_of_a_single_beat_rounding_does_not_decide(name: str) -> None:
    """One beat has no variance to be measured in: a net's last bits, other on a device, must not become a distance."""
    own = PatientBeats(beats(1, 0), None, OWN.everyone, (0, 4))
    answer = personal_models()[name].fit(NET, MODEL, own)
    batch, inputs = own.train, own.train.inputs
    assert inputs.rr is not None
    moved = Batch(Inputs(inputs.examples * (1 + 1e-6), inputs.rr * (1 + 1e-6)), batch.label)
    torch.testing.assert_close(logits(answer, moved), logits(answer, batch), rtol=0, atol=1e-3)
    assert logits(answer, batch).argmax(1).tolist() == batch.label.tolist()
