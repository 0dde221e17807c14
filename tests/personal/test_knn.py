"""kNN-Per against a plain loop over beats and neighbours."""

import numpy as np
import pytest
import torch
from module_nets import as_net
from test_answers import CLASSES, MODEL, NET, OTHERS, OWN, beats, global_logits, logits
from torch import nn

from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.methods.base import Batch
from ecgfed.core.nets.neighbours import nearest
from ecgfed.core.nets.net import Inputs
from ecgfed.core.nets.parts import head_of
from ecgfed.core.personal.base import PatientBeats
from ecgfed.core.personal.registry import personal_models

KNN = personal_models()["knn"]


def features(batch: Batch) -> np.ndarray:
    with torch.inference_mode():
        return NET.extract(MODEL, batch.inputs).double().numpy()


def by_hand(asked: Batch, own: Batch, share: float, k: int = 10) -> np.ndarray:
    """Probabilities (B, classes) of the mixture."""
    z, label = features(own), own.label.numpy()
    answers = []
    for f, others in zip(features(asked), global_logits(asked).double().softmax(1).numpy(), strict=True):
        distance = [float(np.sum((f - each) ** 2)) / len(f) for each in z]
        chosen = sorted(range(len(z)), key=distance.__getitem__)[:k]
        votes = np.zeros(CLASSES)
        for i in chosen:
            votes[label[i]] += np.exp(-distance[i])
        answers.append(share * votes / votes.sum() + (1 - share) * others)
    return np.array(answers)


@pytest.mark.parametrize("own", [OWN.train, beats(7, 3)], ids=["90 beats", "fewer beats than neighbours"])
def test_knn_per_by_hand(own: Batch) -> None:
    chain = KNN.fit(NET, MODEL, PatientBeats(own, None, OWN.everyone))
    found = logits(chain, OTHERS).exp().numpy() - 1e-3
    assert found == pytest.approx(by_hand(OTHERS, own, 0.5), abs=1e-5)


def test_lambda_has_most_correct_validation_beats() -> None:
    assert OWN.valid is not None
    label = OWN.valid.label.numpy()
    correct = [(by_hand(OWN.valid, OWN.train, i / 10).argmax(1) == label).sum() for i in range(11)]
    share = float(KNN.fit(NET, MODEL, OWN).stages[1].params["own.share"])
    assert share == pytest.approx(int(np.argmax(correct)) / 10)
    assert share > 0


def test_a_datastore_has_room_for_512_beats_drawn_by_the_seed() -> None:
    many = beats(600, 4)
    kept = [
        KNN.fit(NET, MODEL, PatientBeats(many, None, OWN.everyone, seed)).stages[1].params for seed in ((0, 1), (0, 2))
    ]
    assert all(float(params["own.weight"].sum()) == 512 for params in kept)
    assert not torch.equal(kept[0]["own.kept"], kept[1]["own.kept"])
    every = {tuple(row) for row in np.round(features(many), 4)}
    assert {tuple(row) for row in np.round(kept[0]["own.kept"].double().numpy(), 4)} <= every
    assert set(head_of(MODEL)) <= set(kept[0])


def test_the_nearest_are_those_of_sorting_and_equal_ones_count_together() -> None:
    distance = torch.tensor([[3.0, 1.0, 2.0, 2.0, 5.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 7.0]])
    assert nearest(distance, 1).tolist() == [[0, 0, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0]]
    assert nearest(distance, 3).tolist() == [[0, 1, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0]]
    random = torch.rand(50, 40, generator=torch.Generator().manual_seed(0))
    expected = torch.zeros(50, 40).scatter(1, random.argsort(1)[:, :10], 1.0)
    assert torch.equal(nearest(random, 10), expected)


def test_features_as_large_as_an_unused_place() -> None:
    """A linear model's features are its examples; two of class 0 are nearer to each other than to the rest."""
    net = as_net(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 4)))
    level = torch.tensor([1000.0, 1000.0, 1003.0])
    own = Batch(Inputs(level[:, None, None, None].expand(-1, 1, 6, 6)), torch.tensor([0, 0, 1]))
    chain = KNN.fit(net, net.initial(0), PatientBeats(own, None, torch.full((4,), 0.25)))
    asked = Inputs(torch.full((1, 1, 6, 6), 1001.0))
    votes = np.array([2 * np.exp(-1.0), np.exp(-4.0), 0, 0])
    others = net.logits(net.initial(0), asked).softmax(1).numpy()[0]
    found = chain_logits(net, chain, asked).exp().numpy()[0] - 1e-3
    assert found == pytest.approx(0.5 * votes / votes.sum() + 0.5 * others, abs=1e-5)
