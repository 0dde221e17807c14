"""The points of beats: against scikit-learn's components, and intervals worked by hand."""

import numpy as np
from sklearn.decomposition import PCA

from ecgfed.domain.labels.likeness import ANSWER, CONTEXT, LEAST_SHARE, RHYTHM, SHAPE, points_of

RNG = np.random.default_rng(1)


def some_windows(beats: int = 50) -> np.ndarray:
    shapes = RNG.normal(size=(3, 256))
    return (shapes[RNG.integers(3, size=beats)] * 2 + RNG.normal(size=(beats, 256)) * 0.3 + 5).astype(np.float32)


def made(windows: list[np.ndarray], interval_s: np.ndarray, prior: np.ndarray, block: int = 1000):  # type: ignore[no-untyped-def]
    def of(lead: np.ndarray):  # type: ignore[no-untyped-def]
        return lambda: [lead[i : i + block] for i in range(0, len(lead), block)]

    context = np.arange(16.0 * len(interval_s)).reshape(-1, 16)
    return points_of([of(lead) for lead in windows], interval_s, context, prior), context


def test_shapes_are_the_components_of_normalised_windows() -> None:
    windows = some_windows()
    points, _ = made([windows], np.full(50, 0.8), np.full((50, 5), 0.2))
    normal = (windows - windows.mean(1, keepdims=True)) / (windows.std(1, keepdims=True) * 16)
    theirs = PCA(16, svd_solver="full").fit_transform(normal.astype(np.float64))
    ours = points.at[:, points.parts["shape"]] / SHAPE
    assert ours.shape == (50, 16)
    np.testing.assert_allclose(np.abs(ours[:, :3]), np.abs(theirs[:, :3]), atol=1e-6)


def test_blocks_and_both_leads_make_no_difference() -> None:
    windows, other = some_windows(), some_windows()
    whole, _ = made([windows, other, windows], np.full(50, 0.8), np.full((50, 5), 0.2))
    parts, _ = made([windows, other], np.full(50, 0.8), np.full((50, 5), 0.2), block=7)
    assert whole.at.shape[1] == 5 + 2 * 16 + 3 + 16  # a third lead is not looked at
    np.testing.assert_allclose(np.abs(whole.at), np.abs(parts.at), atol=1e-9)


def test_intervals_are_logarithms_over_the_usual_one() -> None:
    interval = np.full(9, 1.0)
    interval[[0, 6]] = np.nan
    interval[3] = 0.5
    points, _ = made([some_windows(9)], interval, np.full((9, 5), 0.2))
    rhythm = points.at[:, points.parts["rhythm"]] / RHYTHM
    np.testing.assert_allclose(rhythm[3], [np.log(0.5), 0.0, np.log(2.0)])
    np.testing.assert_allclose(rhythm[2], [0.0, np.log(0.5), np.log(0.5)])
    np.testing.assert_allclose(rhythm[6], [0.0, 0.0, 0.0])  # void before: nothing to compare the one after with
    np.testing.assert_allclose(rhythm[5], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(rhythm[8], [0.0, 0.0, 0.0])  # nobody knows what comes after the last beat


def test_answers_have_a_floor_and_the_context_its_weight() -> None:
    prior = np.array([[1.0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]])
    points, context = made([some_windows(2)], np.full(2, 0.8), prior)
    np.testing.assert_allclose(points.prior[0], [1.0, *[LEAST_SHARE] * 4])
    np.testing.assert_allclose(points.at[1, points.parts["answers"]], ANSWER * np.log(points.prior[1]), atol=1e-7)
    np.testing.assert_allclose(points.at[:, points.parts["context"]], CONTEXT * context, atol=1e-7)


def test_flat_windows_have_no_shape() -> None:
    points, _ = made([np.zeros((4, 256), np.float32)], np.full(4, 0.8), np.full((4, 5), 0.2))
    assert np.isfinite(points.at).all()
    assert not points.at[:, points.parts["shape"]].any()
