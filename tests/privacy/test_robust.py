"""Robust means against NumPy, SciPy and arithmetic by hand."""

import numpy as np
import pytest
import torch
from scipy.stats import trim_mean

from ecgfed.base.errors import OptionError
from ecgfed.core.privacy.robust import Aggregation, lengths, median, norm_bounded, trimmed_mean

DRAW = np.random.default_rng(4)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 11])
def test_the_median_is_numpy_s(m: int) -> None:
    values = DRAW.normal(size=(m, 3, 4))
    assert median(torch.from_numpy(values)).numpy() == pytest.approx(np.median(values, axis=0), abs=1e-15)


@pytest.mark.parametrize(("m", "share"), [(10, 0.1), (10, 0.2), (10, 0.3), (46, 0.2), (5, 0.45)])
def test_the_trimmed_mean_is_scipy_s(m: int, share: float) -> None:
    values = DRAW.normal(size=(m, 7))
    assert trimmed_mean(torch.from_numpy(values), share).numpy() == pytest.approx(trim_mean(values, share), abs=1e-14)


def test_of_few_clients_one_is_trimmed_on_each_side_where_any_is_left() -> None:
    assert float(trimmed_mean(torch.tensor([1.0, 2.0, 900.0]), 0.1)) == 2.0
    assert float(trimmed_mean(torch.tensor([1.0, 3.0]), 0.4)) == 2.0
    assert float(trimmed_mean(torch.tensor([7.0]), 0.4)) == 7.0


def test_long_changes_are_shortened_and_short_ones_keep_their_bits() -> None:
    changes = {"a": torch.tensor([[3.0, 0.0], [0.3, 0.1], [30.0, 0.0]]), "b": torch.tensor([[4.0], [0.2], [40.0]])}
    assert lengths(changes).tolist() == pytest.approx([5.0, 0.14**0.5, 50.0])
    bounded = norm_bounded(changes, 5.0)
    assert torch.equal(bounded["a"][:2], changes["a"][:2])
    assert bounded["a"][2].tolist() == pytest.approx([3.0, 0.0])
    assert bounded["b"][2].tolist() == pytest.approx([4.0])
    by_median = norm_bounded(changes, 0)  # the median of the three norms is 5
    assert all(torch.equal(bounded[name], by_median[name]) for name in changes)
    nothing = {"a": torch.zeros(3, 2)}
    assert torch.equal(norm_bounded(nothing, 0)["a"], nothing["a"])


def test_every_client_gets_the_robust_change() -> None:
    changes = {"a": torch.tensor([[1.0], [2.0], [100.0]])}
    assert Aggregation.parse("median")(changes)["a"].tolist() == [[2.0]] * 3
    assert Aggregation.parse("trimmed-mean:0.34")(changes)["a"].tolist() == [[2.0]] * 3
    assert Aggregation.parse("mean")(changes) is changes


@pytest.mark.parametrize(
    "text",
    ["", "Median", "median:2", "mean:1", "trimmed-mean:0", "trimmed-mean:0.5", "trimmed-mean:x", "norm-bound:-1",
     "norm-bound:nan", "norm-bound:inf", "krum", None, 3],
)  # fmt: skip
def test_other_words_are_refused(text: object) -> None:
    with pytest.raises(OptionError, match="aggregation"):
        Aggregation.parse(text)
