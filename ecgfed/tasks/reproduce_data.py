"""Where the data of a paper's table lie, and the cohorts made of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.from_arrays import cohort_from_arrays
from ecgfed.domain.cohort.partition import LIMIT_STREAM, NOBODY, partition
from ecgfed.papers.table import Protocol, Setting
from ecgfed.tasks.prepare_databases import prepare_mitbih
from ecgfed.tasks.prepare_images import prepare_cifar10
from ecgfed.tasks.progress import ProgressReporter
from ecgfed.tasks.read_images import read_images


@dataclass(frozen=True)
class DataSource:
    """One data set.

    Attributes:
        title: its name.
        folder: its place in the folder of all data; "" for data that this version cannot read.
        fetch: how to get it, or why it cannot be read.
    """

    title: str
    folder: str
    fetch: str


DATA = {
    "mitbih": DataSource("MIT-BIH", "mitdb", "the records of physionet.org/content/mitdb/1.0.0"),
    "cifar10": DataSource("CIFAR-10", "cifar10", "cifar-10-binary.tar.gz of www.cs.toronto.edu/~kriz/cifar.html"),
    "cifar100": DataSource("CIFAR-100", "cifar100", "cifar-100-binary.tar.gz of www.cs.toronto.edu/~kriz/cifar.html"),
    "mnist": DataSource("MNIST", "mnist", "its four .gz files as published"),
    "fashion-mnist": DataSource(
        "Fashion-MNIST", "fashion-mnist", "the four .gz files of github.com/zalandoresearch/fashion-mnist"
    ),
    "emnist": DataSource(
        "EMNIST by writer",
        "",
        "NIST's files by class do not name writers, and files that do (leaf.cmu.edu) are not read by this version",
    ),
}


def locate(data: str, source: Path) -> Path | None:
    """Return the place of a data set: ``SOURCE/FOLDER``, or ``SOURCE`` itself if that is its name; None if missing."""
    folder = DATA[data].folder
    place = source if source.name == folder else source / folder
    return place if folder and place.is_dir() else None


def missing_line(data: str, source: Path) -> str:
    """Return one sentence: which data are missing, and how to get them."""
    one = DATA[data]
    if not one.folder:
        return f"{one.title} cannot be run: {one.fetch}"
    return f"{one.title} is missing: {source / one.folder} does not exist; put {one.fetch} there"


def prepared_cohort(
    setting: Setting,
    protocol: Protocol,
    seed: int,
    *,
    source: Path,
    folder: Path,
    valid_share: float,
    progress: ProgressReporter,
) -> Cohort:
    """Return the cohort of a setting, created unless ``folder`` has it.

    Args:
        setting: data set and partition.
        protocol: at the scale that is run.
        seed: of the partition; of MIT-BIH, of the split.
        source: as ``locate`` returns it.
        folder: of all cohorts.
        valid_share: share of a client's training images for validation; MIT-BIH keeps its own split.
        progress: receives progress, notes and warnings.

    Raises:
        EcgfedError: the data cannot be used.
    """
    share = "" if setting.data == "mitbih" else f"-valid{valid_share:g}"
    amount = "" if protocol.examples is None else f"-{protocol.examples}"
    out = folder / f"{setting.key}{amount}{share}-s{seed}"
    if (out / "cohort.json").is_file():
        return open_cohort(out)
    folder.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = dict(setting.partition)
    if setting.data == "mitbih":
        return prepare_mitbih(source, out, seed=seed, progress=progress, **options)
    if setting.data == "cifar10":
        kind, limit = options.pop("kind"), protocol.examples
        return prepare_cifar10(
            source, out, partition=kind, seed=seed, limit=limit, valid_share=valid_share, progress=progress, **options
        )
    images = read_images(setting.data, source, progress=progress)
    keep = _drawn_rows(images.train, len(images.label), protocol.examples, seed)
    client = np.full(len(images.label), NOBODY, np.int64)
    train = keep[keep < images.train]
    client[train] = partition(images.label[train], seed=seed, **options)
    return cohort_from_arrays(
        images.images[keep],
        images.label[keep],
        client[keep],
        images.split[keep],
        images.classes,
        out,
        seed=seed,
        valid_share=valid_share,
    )


def _drawn_rows(train: int, total: int, limit: int | None, seed: int) -> NDArray[np.int64]:
    """Return the rows that are used, increasing: all, or ``limit`` training and a fifth as many test examples."""
    if limit is None:
        return np.arange(total)
    rng = np.random.default_rng([seed, LIMIT_STREAM])
    return np.sort(
        np.concatenate([rng.permutation(train)[:limit], train + rng.permutation(total - train)[: limit // 5]])
    )
