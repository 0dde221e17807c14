"""Running medians against a limit."""

import numpy as np
import pytest
from scipy.ndimage import rank_filter

from ecgfed.domain.signal.medians import median_above


@pytest.mark.parametrize("width", [1, 2, 5, 40])
@pytest.mark.parametrize("count", [41, 9000])
def test_median_above_says_where_the_median_filter_is(width: int, count: int) -> None:
    rng = np.random.default_rng(width)
    values, limit = rng.integers(0, 9, count).astype(float), rng.integers(0, 9, count).astype(float)
    limit[5] = np.nan
    median = rank_filter(values, width // 2, width, mode="reflect")
    assert np.array_equal(median_above(values, width, limit), median > limit)
