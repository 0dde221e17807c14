"""Distillation against scikit-learn's logistic regression on a linear net, and at its two limits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from ecgfed.core.methods.base import Batch
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.personal import distilled
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.distilled import Distilled
from ecgfed.core.personal.finetune import Stopping, fine_tune

CLASSES, EVERYONE = 3, torch.full((3,), 1 / 3)


class LinearNet:
    """Softmax regression on the first two samples of a window."""

    def logits(self, params: Params, inputs: Inputs, stats: Params | None = None) -> torch.Tensor:
        return inputs.examples[:, 0, :2] @ params["head.weight"].T + params["head.bias"]


def test_a_linear_student_is_logistic_regression_on_labels_and_the_teachers_probabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each other beat is one of every class, weighted by the teacher's probability times K over their number. Of fewer
    beats than a batch every step sees all, so SGD converges to the minimum.
    """
    monkeypatch.setattr(distilled, "STEPS", 600)
    monkeypatch.setattr(distilled, "LR", 0.1)
    monkeypatch.setattr(distilled, "OTHERS_WEIGHT", 12.0)
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(30, 2)) + np.array([1.0, 0.0]), rng.normal(size=(25, 2))
    label = np.where(x[:, 0] + rng.normal(0, 1, 30) > 1, 1, 0)  # no beat of class 2
    teacher = {"head.weight": torch.tensor(rng.normal(size=(CLASSES, 2))), "head.bias": torch.tensor([0.5, 0.0, -0.5])}
    teacher = {name: value.float() for name, value in teacher.items()}

    def inputs(points: np.ndarray) -> Inputs:
        return Inputs(torch.tensor(points, dtype=torch.float32)[:, None])

    own = PatientBeats(Batch(inputs(x), torch.from_numpy(label)), None, EVERYONE, unlabelled=inputs(z))
    (stage,) = Distilled().fit(LinearNet(), teacher, own).stages  # type: ignore[arg-type]

    exponents = np.exp(z @ teacher["head.weight"].numpy().T + teacher["head.bias"].numpy())
    taught = exponents / exponents.sum(1, keepdims=True)
    reference = LogisticRegression(C=np.inf, tol=1e-9, max_iter=5000)
    points = np.concatenate([x, np.repeat(z, CLASSES, axis=0)])
    classes = np.concatenate([label, np.tile(np.arange(CLASSES), len(z))])
    reference.fit(points, classes, sample_weight=np.concatenate([np.ones(30), 12.0 / 25 * taught.ravel()]))
    grid = rng.normal(size=(200, 2)) * 2
    student = LinearNet().logits(stage.params, inputs(grid)).softmax(1).numpy()
    assert student == pytest.approx(reference.predict_proba(grid), abs=2e-3)


NET = ResNet1d(NetSpec(CLASSES, width=0.35, rr=True, rr_version=2))
MODEL = NET.initial(3)


def random_inputs(count: int, seed: int) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    return Inputs(torch.randn(count, 1, 256, generator=generator), torch.randn(count, 16, generator=generator))


OWN = PatientBeats(
    Batch(random_inputs(100, 0), torch.arange(100) % 2), None, EVERYONE, (0, 4), unlabelled=random_inputs(80, 1)
)


def logits(params: Params) -> torch.Tensor:
    with torch.inference_mode():
        return NET.logits(params, random_inputs(50, 2))


def fitted(own: PatientBeats) -> torch.Tensor:
    (stage,) = Distilled().fit(NET, MODEL, own).stages
    return logits(stage.params)


def test_without_weight_on_other_beats_it_is_fine_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distilled, "STEPS", 30)
    monkeypatch.setattr(distilled, "OTHERS_WEIGHT", 0.0)
    plain = logits(fine_tune(NET, MODEL, OWN, Stopping(distilled.LR, 30, 30), dict))
    assert not torch.allclose(plain, logits(MODEL), atol=0.1)
    torch.testing.assert_close(fitted(OWN), plain, rtol=0, atol=1e-3)


def test_with_all_weight_on_other_beats_it_is_the_global_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distilled, "STEPS", 30)
    monkeypatch.setattr(distilled, "OTHERS_WEIGHT", 1e9)
    torch.testing.assert_close(fitted(OWN), logits(MODEL), rtol=0, atol=1e-3)


def test_without_other_beats_the_global_model_teaches_on_the_labelled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distilled, "STEPS", 10)
    labelled = OWN.train.inputs
    assert torch.equal(fitted(replace(OWN, unlabelled=None)), fitted(replace(OWN, unlabelled=labelled)))
    assert not torch.equal(fitted(replace(OWN, unlabelled=None)), fitted(OWN))
