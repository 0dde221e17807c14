"""Whose images are whose: counts by hand, nothing used twice, the same from the same seed; and the cohort of them."""

from pathlib import Path

import cifar_source as cs
import numpy as np
import pytest
from refusals import refuses
from support import resealed

from ecgfed.base.errors import CohortError, OptionError
from ecgfed.domain.cohort.cifar import CifarOptions, build_cifar_cohort
from ecgfed.domain.cohort.cohort import NOBODY, open_cohort
from ecgfed.domain.cohort.pack import pack_cohort
from ecgfed.domain.cohort.partition import (
    LEAST_EXAMPLES,
    dirichlet_counts,
    drawn_counts,
    imbalanced_stock,
    long_tailed_counts,
)
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.domain.cohort.summary import summarise


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_long_tail_by_hand() -> None:
    # rho 1: sizes 2/3 and 1/3; tau 0.5 of two classes: shares 2/3 and 1/3; 100 images of each class.
    # Opposite orders ask for 4/9 + 1/9 of one class and 2/9 + 2/9 of the other: a total of 100 / (5/9) = 180.
    # The same order asks for 6/9 and 3/9: a total of 150.
    seen = set()
    for seed in range(30):
        first, second = long_tailed_counts(np.array([100, 100]), 2, 1.0, 0.5, rng(seed))
        if first.argmax() != second.argmax():
            assert sorted(first) == [40, 80]
            assert sorted(second) == [20, 40]
        else:
            assert sorted(first) == [33, 66]
            assert sorted(second) == [16, 33]
        seen.add(first.argmax() == second.argmax())
    assert seen == {True, False}


def test_the_papers_long_tail_has_its_sizes_and_shares() -> None:
    counts = long_tailed_counts(np.full(10, 5000), 50, 0.7, 0.5, rng(0))
    sizes = counts.sum(1)
    ranks = np.arange(1, 51)
    np.testing.assert_allclose(sizes / sizes[0], ranks**-0.7, atol=10 / sizes[0])
    shares = np.sort(counts, axis=1)[:, ::-1] / sizes[:, None]
    # 512/1023, 256/1023, ... are the ten terms of 1/2, 1/4, ... that sum to 1
    np.testing.assert_allclose(shares[0], 2.0 ** np.arange(9, -1, -1) / 1023, atol=1e-3)
    np.testing.assert_allclose(shares[-1], 2.0 ** np.arange(9, -1, -1) / 1023, atol=2e-2)
    assert counts.sum(0).max() <= 5000
    assert counts.sum() > 0.85 * 50_000  # what 200 seeds gave at least is 0.865
    assert len({tuple(np.argsort(-row)[:3]) for row in counts}) > 20


def test_tau_0_and_1() -> None:
    assert ((long_tailed_counts(np.full(10, 50), 7, 0.0, 0.0, rng(1)) > 0).sum(1) == 1).all()
    assert (long_tailed_counts(np.full(10, 50), 5, 0.0, 1.0, rng(1)) == 10).all()


def test_a_dirichlet_deals_every_image_and_its_concentration_decides() -> None:
    stock = np.array([300, 200, 100])
    counts = dirichlet_counts(stock, 4, 0.5, rng(2))
    np.testing.assert_array_equal(counts.sum(0), stock)
    assert counts.sum(1).min() >= LEAST_EXAMPLES
    even = dirichlet_counts(stock, 4, 1e6, rng(2))
    np.testing.assert_allclose(even, np.array([[75, 50, 25]] * 4), atol=2)
    # Dir(alpha): a share of one of M clients has mean 1/M and variance (M - 1) / (M^2 (M alpha + 1))
    shares = np.concatenate([dirichlet_counts(np.full(10, 5000), 20, 0.3, rng(s)) / 5000 for s in range(30)])
    assert shares.mean() == pytest.approx(1 / 20)
    assert shares.var() == pytest.approx(19 / (400 * 7), rel=0.1)


def test_a_dirichlet_that_starves_clients_is_refused() -> None:
    with refuses(OptionError, "invalid-value", "alpha"):
        dirichlet_counts(np.full(10, 10), 11, 0.01, rng(0))


def test_class_imbalance_and_test_draws_by_hand() -> None:
    np.testing.assert_array_equal(imbalanced_stock(np.full(3, 100), 100.0), [100, 10, 1])
    np.testing.assert_array_equal(imbalanced_stock(np.full(3, 100), 1.0), [100, 100, 100])
    np.testing.assert_array_equal(drawn_counts(np.array([6, 3, 1]), np.full(3, 10)), [10, 5, 2])
    np.testing.assert_array_equal(drawn_counts(np.array([0, 7, 0]), np.full(3, 10)), [0, 10, 0])
    np.testing.assert_array_equal(drawn_counts(np.array([1, 1, 1]), np.array([10, 4, 10])), [4, 4, 4])


@pytest.mark.parametrize("partition", ["longtail", "dirichlet"])
def test_the_cohort_holds_every_image_once_and_draws_from_the_common_pool(tmp_path: Path, partition: str) -> None:
    data = cs.small_images()
    options = CifarOptions(partition, clients=5, alpha=1.0, seed=3)
    build_cifar_cohort(data, tmp_path / "c", options)
    cohort = open_cohort(tmp_path / "c")
    assert cohort.modality == "image"
    pool = cohort.pool(TEST)
    np.testing.assert_array_equal(cohort.client[pool], NOBODY)
    np.testing.assert_array_equal(cohort.examples[pool], data.images[200:])
    assert sorted(cohort.sample[pool]) == list(range(60))
    stock = np.bincount(data.label[200:], minlength=10)
    owned = np.flatnonzero(cohort.client != NOBODY)
    assert len(set(cohort.sample[owned])) == len(owned)
    np.testing.assert_array_equal(cohort.examples[owned], data.images[cohort.sample[owned]])
    np.testing.assert_array_equal(cohort.label[owned], data.label[cohort.sample[owned]])
    assert len(owned) + cohort.meta["left_over"] == 200
    for client in cohort.clients:
        rows = cohort.rows(client, TEST)
        assert (np.diff(rows) > 0).all()
        assert set(rows) <= set(pool)
        own = np.concatenate([cohort.rows(client, TRAIN), cohort.rows(client, VALID)])
        assert (cohort.client[own] == client.index).all()
        mix = np.bincount(cohort.label[own], minlength=10)
        assert len(own) == cohort.meta["clients"][client.index]["images"]
        np.testing.assert_array_equal(cohort.class_counts(client, TEST), drawn_counts(mix, stock))
    summary = summarise(cohort)
    assert summary["images"] == 60 + len(owned)
    assert summary["splits"]["test"] == 60
    assert summary["no_test"] == []


def test_the_same_seed_gives_the_same_cohort_and_the_valid_share_moves_nothing_else(tmp_path: Path) -> None:
    def made(name: str, **options: object) -> object:
        return open_cohort(cs.small_cohort(tmp_path / name, **options))

    one, same, other, all_train = made("a"), made("b"), made("c", seed=2), made("d", valid_share=0.0)
    assert one.fingerprint == same.fingerprint != other.fingerprint  # type: ignore[attr-defined]
    np.testing.assert_array_equal(one.sample, all_train.sample)  # type: ignore[attr-defined]
    assert not (all_train.split == VALID).any()  # type: ignore[attr-defined]
    assert (one.split == VALID).any()  # type: ignore[attr-defined]


def test_a_limit_takes_the_same_number_of_each_class(tmp_path: Path) -> None:
    cohort = open_cohort(cs.small_cohort(tmp_path / "c", partition="dirichlet", alpha=1e6, limit=105, clients=2))
    owned = cohort.client != NOBODY
    assert sorted(np.bincount(cohort.label[owned])) == [10] * 5 + [11] * 5
    assert sorted(np.bincount(cohort.label[~owned])) == [2] * 9 + [3]  # 21 of 60 test images
    assert (cohort.sample[owned] < 200).all()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"partition": "even"}, "partition"),
        ({"clients": 0}, "clients"),
        ({"rho": -1.0}, "rho"),
        ({"tau": 1.5}, "tau"),
        ({"alpha": 0.0}, "alpha"),
        ({"imbalance": 0.5}, "imbalance"),
        ({"valid_share": 0.9}, "valid_share"),
        ({"limit": 9}, "limit"),
        ({"alpha": float("nan")}, "alpha"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], named: str) -> None:
    with pytest.raises(OptionError, match=f"^{named}: "):
        CifarOptions(**options)  # type: ignore[arg-type]


def test_more_clients_than_images(tmp_path: Path) -> None:
    with refuses(OptionError, "invalid-value", "clients"):
        cs.small_cohort(tmp_path / "c", clients=150)
    assert not (tmp_path / "c").exists()


def test_a_cohort_of_images_has_no_beats_and_is_not_packed(tmp_path: Path) -> None:
    cohort = open_cohort(cs.small_cohort(tmp_path / "c"))
    for name in ("beats", "rr", "record", "flags"):
        with refuses(CohortError, "invalid-cohort"):
            getattr(cohort, name)
    with refuses(CohortError, "invalid-cohort"):
        pack_cohort(tmp_path / "c", tmp_path / "packed.npz")
    assert not (tmp_path / "packed.npz").exists()


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("test_row", lambda a: a + 1000, "names no rows of the test pool"),
        ("test_row", lambda a: a[::-1].copy(), "names no rows of the test pool"),
        ("test_client", lambda a: a - 1, "names no rows of the test pool"),
        ("split", lambda a: np.zeros_like(a), "has the test pool in another split"),
        ("images", lambda a: a[:, :1].copy(), r"expected uint8 \(\d+, 3, 32, 32\)"),
        ("client", lambda a: a - 1, "is not ordered by client"),
    ],
)
def test_a_changed_cohort_of_images_is_refused(tmp_path: Path, name: str, change: object, told: str) -> None:
    path = cs.small_cohort(tmp_path / "c")
    np.save(path / f"{name}.npy", change(np.load(path / f"{name}.npy")))  # type: ignore[operator]
    resealed(path)
    with pytest.raises(CohortError, match=told):
        open_cohort(path)
