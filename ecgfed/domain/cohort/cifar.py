"""CIFAR-10 as a federation: the cohort made of its images, divided among clients by ``partition``."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed import __version__
from ecgfed.base.errors import OptionError
from ecgfed.base.files import replacing_folder
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.cohort.cifar_files import CLASSES, IMAGE_SHAPE
from ecgfed.domain.cohort.cohort import NOBODY
from ecgfed.domain.cohort.deal import append_clients
from ecgfed.domain.cohort.labelled_images import LabelledImages
from ecgfed.domain.cohort.partition import LIMIT_STREAM, PARTITION_OPTIONS, Dealer, PartitionOptions, divided
from ecgfed.domain.cohort.split import TEST, TRAIN
from ecgfed.domain.cohort.writer import CohortWriter

#: Official test images for each image to train on.
TEST_RATIO = 5


@dataclass(frozen=True)
class CifarOptions(PartitionOptions):
    """How images become a cohort: options of ``ecgfed prepare cifar10``, beside those of ``PartitionOptions``.

    Attributes:
        valid_share: of a client's images, stratified by class, that it does not train on.
        limit: images to take of the 50,000, and a fifth of that of the 10,000, the same number of each class.
    """

    valid_share: float = 0.1
    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None and self.limit < len(CLASSES):
            raise OptionError("limit", f"{self.limit}", f"{len(CLASSES)} or more")
        if not 0.0 <= self.valid_share <= 0.5:
            raise OptionError("valid_share", f"{self.valid_share}", "0 to 0.5")


def _rng(options: CifarOptions, *stream: int) -> np.random.Generator:
    return np.random.default_rng([options.seed, *stream])


def _balanced(
    rows: NDArray[np.int64], data: LabelledImages, limit: int | None, rng: np.random.Generator
) -> NDArray[Any]:
    """At most ``limit`` rows, the same number of each class as far as there are; in order."""
    if limit is None or limit >= len(rows):
        return rows
    dealer = Dealer(rows, data.label, rng, len(CLASSES))
    each = np.full(len(CLASSES), limit // len(CLASSES)) + (np.arange(len(CLASSES)) < limit % len(CLASSES))
    return dealer.deal(np.minimum(each, dealer.stock))


def build_cifar_cohort(
    data: LabelledImages,
    out: Path,
    options: CifarOptions,
    *,
    overwrite: bool = False,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Divide the images among clients and write the cohort folder ``out``.

    Args:
        data: the images.
        out: folder to make.
        options: how.
        overwrite: replace ``out`` where it exists.
        on_progress: called after each client with its id, the number done and the number of all.

    Raises:
        OptionError: more clients than there are images for; see also ``replacing_folder``.
        StorageError: see ``replacing_folder``.
    """
    rows = _balanced(np.arange(data.train), data, options.limit, _rng(options, LIMIT_STREAM, 0))
    few = None if options.limit is None else max(len(CLASSES), math.ceil(options.limit / TEST_RATIO))
    pool = _balanced(np.arange(data.train, len(data.label)), data, few, _rng(options, LIMIT_STREAM, 1))
    client = np.full(len(data.label), NOBODY, np.int64)
    client[rows] = divided(data.label[rows], options)
    split, sample = np.full(len(data.label), TRAIN, np.uint8), np.arange(len(data.label))
    split[pool], sample[pool] = TEST, pool - data.train
    width = len(str(options.client_count))
    ids = [f"client-{i + 1:0{width}d}" for i in range(options.client_count)]
    with replacing_folder(out, overwrite=overwrite) as folder, CohortWriter(folder, "image") as writer:
        clients, counts = append_clients(
            writer,
            data.images,
            data.label,
            client,
            split,
            sample,
            ids,
            len(CLASSES),
            seed=options.seed,
            valid_share=options.valid_share,
            on_progress=on_progress,
        )
        writer.finish(_meta(data, options, clients, counts, len(rows)))


def _meta(
    data: LabelledImages,
    options: CifarOptions,
    clients: list[dict[str, Any]],
    counts: NDArray[np.int64],
    available: int,
) -> dict[str, Any]:
    """Everything ``cohort.json`` says beside the counts."""
    chosen = {**asdict(options), "clients": options.client_count}
    seed = chosen.pop("seed")
    unused = [name for kind, names in PARTITION_OPTIONS.items() if kind != options.partition for name in names]
    return {
        "kind": "cifar10",
        "tool_version": __version__,
        "classes": list(CLASSES),
        "label_map": LabelMap("cifar10", CLASSES, {}).as_json(),
        "image_shape": list(IMAGE_SHAPE),
        "units": "RGB, 0 to 255",
        "normalised": False,
        "split": "official",
        "seed": seed,
        "partition": {name: value for name, value in chosen.items() if name not in unused},
        "class_counts": dict(zip(CLASSES, counts.sum(0).tolist(), strict=True)),
        "left_over": available - int(counts.sum()),
        "holdout": [],
        "clients": clients,
        "source": data.metadata,
    }
