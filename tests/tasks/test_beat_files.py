"""Numbers of a beat's line: rounded all at once, as Python rounds them one by one; what is no number is refused."""

import numpy as np
import pytest

from ecgfed.tasks.beat_files import beats_as_json, rounded


def test_rounding_is_pythons() -> None:
    rng = np.random.default_rng(0)
    for values in (
        rng.random(50_000),
        rng.random(50_000).astype(np.float32),
        np.arange(50_000) / 360.0,
        np.arange(50_000) / 257.0,
        (rng.integers(0, 20_000, 20_000) + 0.5) / 1e4,  # middles between two decimals, as far as a double is one
        np.arange(20_000) / 2e4,
        rng.random(1000) * 1e7,
        np.empty(0),
    ):
        assert rounded(values) == [round(value, 4) for value in values.astype(np.float64).tolist()]


def test_what_is_no_number_is_refused() -> None:
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"{wrong} is not finite"):
            b"".join(beats_as_json({}, [{"sample": [1, 2], "time_s": [0.5, wrong]}]))
