"""EC57 scoring against what WFDB's bxb and epicmp said of 400 random pairs (``tests/data/ec57/make.py``).

100 to 1000 Hz, 25 to 500/min, beats twice and in crowds, ties, flutter and shutdown begun, ended and not, noise.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.core.evaluation.ec57 import BeatComparison, compare
from ecgfed.domain.record.recording import Annotation

PAIRS = Path(__file__).parents[1] / "data/ec57/pairs.npz"
COUNT = 400


@cache
def recorded() -> dict[str, NDArray[np.float64]]:
    with np.load(PAIRS) as file:
        return {name: file[name] for name in file.files}


def annotation(pair: int, which: int) -> Annotation:
    """The reference (0) or the test (1) of a pair."""
    rows = recorded()["marks"]
    mine = rows[(rows[:, 0] == pair) & (rows[:, 1] == which)]
    symbols = np.array([chr(code) for code in mine[:, 3]], dtype=np.str_)
    return Annotation(mine[:, 2].astype(np.int64), symbols, subtype=mine[:, 4].astype(np.int64))


@cache
def ours(pair: int) -> BeatComparison:
    fs_hz, samples = recorded()["fs_and_samples"][pair]
    return compare(
        annotation(pair, 0), annotation(pair, 1), float(fs_hz), samples=int(samples), mapping="aami5-bxb"
    )  # fmt: skip


@pytest.mark.parametrize("first", range(0, COUNT, 50))
def test_the_confusion_matrix_is_bxbs(first: int) -> None:
    for pair in range(first, first + 50):
        np.testing.assert_array_equal(ours(pair).counts, recorded()["counts"][pair], err_msg=f"pair {pair}")


def test_the_rr_error_is_bxbs() -> None:
    """It prints two decimals, and milliseconds of the frequency rounded to a whole number."""
    for pair in range(COUNT):
        fs_hz = recorded()["fs_and_samples"][pair, 0]
        error = ours(pair).rr_rms_ms
        found = np.nan if error is None else error * fs_hz / int(fs_hz + 0.5)
        np.testing.assert_allclose(
            found, recorded()["rr_error_ms_and_shutdown_s"][pair, 0], rtol=0, atol=0.00501, err_msg=f"pair {pair}"
        )


def test_the_time_shut_down_is_bxbs_to_the_second() -> None:
    told = recorded()["rr_error_ms_and_shutdown_s"][:, 1]
    found = np.array([ours(pair).shutdown_s for pair in range(COUNT)])
    assert (np.abs(found - told) < 0.6).all()
    assert (found > 0).sum() > 100


def test_flutter_is_scored_as_epicmp_does() -> None:
    for pair, told in enumerate(recorded()["flutter"]):
        fs_hz, flutter = recorded()["fs_and_samples"][pair, 0], ours(pair).flutter
        shared = flutter.shared_s * fs_hz
        by_episode = [[flutter.detected, flutter.episodes], [flutter.right, flutter.called]]
        by_duration = [[shared, flutter.duration_s * fs_hz], [shared, flutter.called_s * fs_hz]]
        np.testing.assert_allclose(by_episode + by_duration, told, atol=1e-3, err_msg=f"pair {pair}")


def test_the_pairs_hold_what_they_are_for() -> None:
    """Were they tame, the tests above would prove little."""
    fs_hz, samples = recorded()["fs_and_samples"].T
    assert len(fs_hz) == COUNT
    assert (fs_hz.min(), fs_hz.max()) == (100, 1000)
    assert ((0.15 * fs_hz) % 1 >= 0.5).sum() > 100  # the window truncated would be another one
    assert (fs_hz != fs_hz.astype(int)).sum() > 10
    assert (samples > 300 * fs_hz).all()
    cells = recorded()["counts"].sum(axis=0)
    assert (cells[:5] > 0).all()  # every class matched with every other, missed, and missed in shutdown
    assert (cells[5:, :5] > 0).all()
    assert (recorded()["flutter"][:, :2, 1].sum(axis=0) > 50).all()
    symbols = {chr(code) for code in recorded()["marks"][:, 3]}
    assert symbols > set("NLRBAaJSnejVrEFQ/f?[]~!+|")
