"""The published images: their counts, and the two partitions of all 60,000."""

from pathlib import Path

import numpy as np
import pytest

from ecgfed.core.nets.images import PIXEL_MEAN, PIXEL_STD
from ecgfed.domain.cohort.cifar import CifarOptions, build_cifar_cohort
from ecgfed.domain.cohort.cifar_files import read_cifar10
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.labelled_images import LabelledImages
from ecgfed.domain.cohort.split import TEST

pytestmark = pytest.mark.cifar10


@pytest.fixture(scope="module")
def data(cifar10: Path) -> LabelledImages:
    return read_cifar10(cifar10)


def test_the_published_counts(data: LabelledImages) -> None:
    assert data.images.shape == (60_000, 3, 32, 32)
    assert data.train == 50_000
    np.testing.assert_array_equal(np.bincount(data.label[:50_000]), np.full(10, 5_000))
    np.testing.assert_array_equal(np.bincount(data.label[50_000:]), np.full(10, 1_000))
    # the first labels of data_batch_1 (frog, truck, truck, deer, ...) and of test_batch (cat, ship, ship, ...)
    assert data.label[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.label[50_000:50_010].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]


def test_the_nets_normalisation_is_the_training_images(data: LabelledImages) -> None:
    pixels = data.images[: data.train].transpose(1, 0, 2, 3).reshape(3, -1)
    for channel in range(3):
        values = pixels[channel].astype(np.float32) / 255
        assert values.mean(dtype=np.float64) == pytest.approx(PIXEL_MEAN[channel], abs=1e-4)
        assert values.std(dtype=np.float64) == pytest.approx(PIXEL_STD[channel], abs=1e-4)


@pytest.mark.parametrize(("partition", "clients"), [("longtail", 50), ("dirichlet", 20)])
def test_a_partition_of_all_images(data: LabelledImages, tmp_path: Path, partition: str, clients: int) -> None:
    build_cifar_cohort(data, tmp_path / "c", CifarOptions(partition))
    cohort = open_cohort(tmp_path / "c")
    assert len(cohort.clients) == clients
    assert len(cohort.pool(TEST)) == 10_000
    np.testing.assert_array_equal(cohort.examples[:10_000], data.images[50_000:])
    used = 50_000 - cohort.meta["left_over"]
    assert used == 50_000 if partition == "dirichlet" else used > 43_000
    sizes = [client["images"] for client in cohort.meta["clients"]]
    assert sum(sizes) == used
    if partition == "longtail":
        assert sizes[0] / sizes[-1] == pytest.approx(50**0.7, rel=0.02)
