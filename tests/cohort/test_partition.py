"""Partitions of somebody's own labels: sizes and classes by hand, nothing twice, the same from the same seed."""

import cifar_source as cs
import numpy as np
import pytest
from refusals import refuses

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.domain.cohort.cifar import CifarOptions
from ecgfed.domain.cohort.partition import divided

LABEL = np.random.default_rng(0).permutation(np.repeat(np.arange(5), [200, 150, 100, 100, 50]))


def table(client: np.ndarray, label: np.ndarray = LABEL) -> np.ndarray:
    """Examples of each client and class."""
    rows = np.zeros((client.max() + 1, label.max() + 1), np.int64)
    np.add.at(rows, (client[client >= 0], label[client >= 0]), 1)
    return rows


def test_iid_clients_have_one_size_and_the_mix_of_all() -> None:
    client = ecgfed.partition(LABEL, "iid", clients=7, seed=1)
    sizes = np.bincount(client)
    assert sizes.sum() == 600
    assert sizes.max() - sizes.min() <= 1
    # each class of a client is hypergeometric: five standard deviations of the binomial bound it
    share = np.bincount(LABEL) / 600
    limit = 5 * np.sqrt(share * (1 - share) * 600 / 7)
    assert (np.abs(table(client) - share * 600 / 7) < limit).all()


def test_shards_are_cut_from_the_labels_in_order() -> None:
    # 600 examples, 2 x 15 shards of 20: each class is a multiple of 10, so a shard has one class or, at an edge, two
    client = ecgfed.partition(LABEL, "shards", clients=15, shards=2, seed=0)
    assert (np.bincount(client) == 40).all()
    assert ((table(client) > 0).sum(1) <= 3).all()
    assert (table(ecgfed.partition(LABEL, "shards", clients=12, shards=1)) > 0).sum(1).max() == 1  # shards of 50
    # what does not fill a shard is left over
    assert (ecgfed.partition(LABEL, "shards", clients=7, shards=2) == -1).sum() == 600 - 7 * 2 * 42


def test_dirichlet_and_the_long_tail_are_those_of_cifar10() -> None:
    images = cs.small_images()
    label = images.label[: images.train]
    for kind, options in (("dirichlet", {"alpha": 0.5}), ("longtail", {"rho": 0.2, "tau": 0.6})):
        own = ecgfed.partition(label, kind, clients=5, seed=3, **options)  # type: ignore[arg-type]
        published = divided(label, CifarOptions(kind, 5, seed=3, **options))  # type: ignore[arg-type]
        np.testing.assert_array_equal(own, published)
        np.testing.assert_array_equal(images.partition(kind, clients=5, seed=3, **options)[: images.train], own)
        assert (own == -1).any() == (kind == "longtail")


def test_the_imbalance_of_a_dirichlet_thins_the_later_classes() -> None:
    label = np.repeat(np.arange(4), 200)
    used = ecgfed.partition(label, "dirichlet", clients=3, alpha=5, imbalance=8) >= 0
    np.testing.assert_array_equal(np.bincount(label[used]), [200, 100, 50, 25])


def test_the_seed_decides_and_names_of_classes_do_not() -> None:
    for kind in ("iid", "dirichlet", "longtail", "shards"):
        first = ecgfed.partition(LABEL, kind, clients=5, seed=2)
        np.testing.assert_array_equal(first, ecgfed.partition(LABEL, kind, clients=5, seed=2))
        np.testing.assert_array_equal(first, ecgfed.partition(np.array(list("abcde"))[LABEL], kind, clients=5, seed=2))
        assert (first != ecgfed.partition(LABEL, kind, clients=5, seed=3)).any()


@pytest.mark.parametrize(
    ("kind", "options", "code", "parameter"),
    [
        ("even", {}, "unknown-choice", "partition"),
        ("iid", {"alpha": 0.3}, "conflict", "alpha"),
        ("dirichlet", {"alpha": 0}, "invalid-value", "alpha"),
        ("dirichlet", {"alpha": 0.01, "clients": 50}, "invalid-value", "alpha"),
        ("shards", {"clients": 601}, "invalid-value", "clients"),
        ("longtail", {"clients": 500}, "invalid-value", "clients"),
        ("iid", {"clients": 0}, "invalid-value", "clients"),
    ],
)
def test_what_cannot_be_divided_is_refused(kind: str, options: dict[str, float], code: str, parameter: str) -> None:
    with refuses(OptionError, code, parameter):
        ecgfed.partition(LABEL, kind, **options)  # type: ignore[arg-type]


def test_labels_of_two_axes_are_refused() -> None:
    with refuses(OptionError, "invalid-value", "y"):
        ecgfed.partition(LABEL[:, None])
