"""Dropout of attention weights: torch's own arithmetic with the mask that the batch decides; runs repeat and resume."""

from pathlib import Path

import numpy as np
import pytest
import torch
from module_nets import CLASSES, as_net
from torch import nn

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.core.nets.dropout import SeededAttention, dropout_key, seeded
from ecgfed.core.nets.net import Inputs


class Words(nn.Module):
    """A transformer on tokens, with torch's default dropout of 0.1."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(16, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.words(x)).mean(1))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("key_width", [8, 6])
@pytest.mark.parametrize("masked", [True, False])
def test_the_output_is_torchs_with_the_same_mask(
    batch_first: bool, key_width: int, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    plain = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=batch_first, kdim=key_width, vdim=key_width)
    ours = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=batch_first, kdim=key_width, vdim=key_width)
    ours.load_state_dict(plain.state_dict())
    ours = seeded(ours, 3)  # type: ignore[assignment]
    assert isinstance(ours, SeededAttention)
    query, key = torch.randn(4, 5, 8), torch.randn(4, 5, key_width)
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)[: 5 if batch_first else 4, : 5 if batch_first else 4]
    how = {"attn_mask": mask, "average_attn_weights": False} if masked else {}
    drop = ours.drop
    with dropout_key(Inputs(torch.randn(4, 3))):
        monkeypatch.setattr("torch.nn.functional.dropout", lambda weights, p: drop(weights))
        expected, weights = plain(query, key, key, **how)
        monkeypatch.undo()
        output, of_ours = ours(query, key, key, **how)
        assert ours(query, key, key, need_weights=False, **how)[1] is None
        single = ours(query[0], key[0], key[0])[0]
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(of_ours, weights)
    assert single.shape == (5, 8)
    torch.testing.assert_close(ours.eval()(query, key, key)[0], plain.eval()(query, key, key)[0])
    assert not torch.allclose(output, ours(query, key, key, **how)[0])


@pytest.mark.parametrize("engine", ["threads", "batched"])
def test_a_transformer_with_default_dropout_resumes_to_the_same_bits(engine: str, tmp_path: Path) -> None:
    tokens, y = np.random.default_rng(0).integers(0, 20, (120, 6)), np.arange(120) % CLASSES
    cohort = ecgfed.cohort_from_arrays(tokens, y, np.arange(120) % 3)
    how = {"net": Words, "method": "fedavg", "local_steps": 2, "engine": engine}
    whole = ecgfed.train(cohort, tmp_path / "whole", rounds=3, **how)  # type: ignore[arg-type]
    ecgfed.train(cohort, tmp_path / "parts", rounds=1, **how)  # type: ignore[arg-type]
    resumed = ecgfed.train(cohort, tmp_path / "parts", rounds=3, resume=True, **how)  # type: ignore[arg-type]
    one, two = whole.state().server["model"], resumed.state().server["model"]
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_both_engines_draw_the_same_masks() -> None:
    net = as_net(Words, (6,), "int64")
    params = net.initial(0)
    some = torch.arange(24).reshape(4, 6) % 20
    alone = net.logits(params, Inputs(some), {})
    stacked = torch.func.vmap(lambda values, x: net.logits(values, Inputs(x), {}), in_dims=(0, 0))(
        {name: torch.stack([value, value]) for name, value in params.items()}, torch.stack([some, some.flip(0)])
    )
    torch.testing.assert_close(stacked[0], alone)
    assert not torch.allclose(alone, net.logits(params, Inputs(some)))


def test_other_layers_that_draw_are_named() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.GRU(6, 8, 2, batch_first=True, dropout=0.3), nn.Linear(8, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(x[:, 0])[0][:, -1])

    with pytest.raises(OptionError) as caught:
        as_net(Recurrent)
    assert (caught.value.parameter, "cells (GRU)" in caught.value.action) == ("net", True)
