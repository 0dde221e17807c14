"""Running medians, and products in one thread."""

import numpy as np
import pytest
from scipy.ndimage import rank_filter

from ecgfed.domain.signal.medians import median_above
from ecgfed.domain.signal.products import product


@pytest.mark.parametrize("width", [1, 2, 5, 40])
@pytest.mark.parametrize("count", [41, 9000])
def test_median_above_says_where_the_median_filter_is(width: int, count: int) -> None:
    rng = np.random.default_rng(width)
    values, limit = rng.integers(0, 9, count).astype(float), rng.integers(0, 9, count).astype(float)
    limit[5] = np.nan
    median = rank_filter(values, width // 2, width, mode="reflect")
    assert np.array_equal(median_above(values, width, limit), median > limit)


@pytest.mark.parametrize("rows", [0, 1, 37, 500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_by_parts_is_the_product(rows: int, dtype: type) -> None:
    rng = np.random.default_rng(rows)
    values, weights = rng.integers(-9, 9, (rows, 91)).astype(dtype), rng.integers(-9, 9, (91, 61)).astype(dtype)
    assert np.array_equal(product(values, weights), values @ weights)
