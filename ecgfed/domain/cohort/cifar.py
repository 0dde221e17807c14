"""CIFAR-10 as a federation: whose images are whose (two partitions), and the cohort made of them.

``longtail``: client sizes fall as rank^-rho, class shares within a client geometrically by tau, after Chou et al.
(GRP-FED, section 4.1; what it leaves open is decided in docs/decisions/0015). ``dirichlet``: Chen and Chao (Fed-RoD,
section 5) after Hsu et al. 2019, with the class-imbalanced option of their appendix D.5 after Cao et al. 2019.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ecgfed import __version__
from ecgfed.base.errors import OptionError, param
from ecgfed.base.files import replacing_folder
from ecgfed.base.text import count_of
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.cohort.cifar_files import CLASSES, IMAGE_SHAPE, CifarImages
from ecgfed.domain.cohort.cohort import NOBODY
from ecgfed.domain.cohort.split import TEST, split_beats
from ecgfed.domain.cohort.writer import CohortWriter

Partition = Literal["longtail", "dirichlet"]
#: partition -> clients in the paper that has it
PARTITIONS: dict[str, int] = {"longtail": 50, "dirichlet": 20}
#: A Dirichlet partition in which a client has fewer images is drawn again, this many times.
LEAST_IMAGES, DRAWS = 10, 1000
#: Official test images for each image to train on.
TEST_RATIO = 5
#: Streams of random numbers: what is drawn for one does not change another.
_LIMIT, _PARTITION, _DEAL, _VALID, _TEST = range(5)


@dataclass(frozen=True)
class CifarOptions:
    """How images become a cohort; every field is an option of ``ecgfed prepare cifar10``.

    Attributes:
        partition: ``longtail`` or ``dirichlet``.
        clients: how many; None for the paper's (50, 20).
        rho: of ``longtail``: client sizes fall as rank^-rho.
        tau: of ``longtail``: each class of a client has tau times the images of the one before.
        alpha: of ``dirichlet``: the concentration; less is more different clients.
        imbalance: of ``dirichlet``: images of the most frequent class for one of the rarest, before dealing (1: as is).
        valid_share: of a client's images, stratified by class, that it does not train on.
        limit: images to take of the 50,000, and a fifth of that of the 10,000, the same number of each class.
        seed: decides everything that is drawn.
    """

    partition: str = "longtail"
    clients: int | None = None
    rho: float = 0.7
    tau: float = 0.5
    alpha: float = 0.3
    imbalance: float = 1.0
    valid_share: float = 0.1
    limit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.partition not in PARTITIONS:
            known = f"one of {', '.join(PARTITIONS)}"
            raise OptionError("partition", f"{self.partition!r}", known, code="unknown-choice")
        if self.clients is not None and self.clients < 1:
            raise OptionError("clients", f"{self.clients}", "1 or more")
        if self.limit is not None and self.limit < len(CLASSES):
            raise OptionError("limit", f"{self.limit}", f"{len(CLASSES)} or more")
        for option, value, low, high in (
            ("rho", self.rho, 0.0, 10.0),
            ("tau", self.tau, 0.0, 1.0),
            ("alpha", self.alpha, 1e-3, 1e6),
            ("imbalance", self.imbalance, 1.0, 1e4),
            ("valid_share", self.valid_share, 0.0, 0.5),
        ):
            if not low <= value <= high:
                raise OptionError(option, f"{value}", f"{low:g} to {high:g}")

    @property
    def client_count(self) -> int:
        """How many clients."""
        return PARTITIONS[self.partition] if self.clients is None else self.clients


def long_tailed_counts(
    stock: NDArray[np.int64], clients: int, rho: float, tau: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Images of each client and class, (clients, classes): sizes by rank^-rho, shares 1, tau, tau^2, ... rounded down.

    Which class is a client's first, second, ... is drawn, the largest client first, each place with chances as what is
    left of the classes: so shares are exactly geometric and still nearly all images find a client (evenly drawn orders
    leave about a third over). Sizes are scaled until the class that is asked for most just suffices.

    Args:
        stock: (classes,) images there are.
        clients: how many.
        rho, tau: see above.
        rng: draws the orders.
    """
    sizes = np.arange(1, clients + 1, dtype=np.float64) ** -rho
    shares = tau ** np.arange(len(stock), dtype=np.float64)  # 0^0 = 1: tau 0 gives one class a client
    sizes, shares = sizes / sizes.sum(), shares / shares.sum()
    requested = np.zeros((clients, len(stock)))
    remaining = stock / stock.sum()
    for i in range(clients):
        chance = np.maximum(remaining, 1e-9)
        order = rng.choice(len(stock), size=len(stock), replace=False, p=chance / chance.sum())
        requested[i, order] = sizes[i] * shares
        remaining = remaining - requested[i]
    with np.errstate(divide="ignore"):
        total = np.min(stock / requested.sum(0))
    return np.asarray(np.floor(requested * total + 1e-9), dtype=np.int64)  # a whole number stays one


def dirichlet_counts(
    stock: NDArray[np.int64], clients: int, alpha: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Images of each client and class, (clients, classes): q_c ~ Dir(alpha) over the clients deals class c's images.

    Every image finds a client. Drawn again while a client has fewer than ``LEAST_IMAGES``.

    Raises:
        OptionError: that never happened.
    """
    for _ in range(DRAWS):
        q = rng.dirichlet(np.full(clients, alpha), size=len(stock))  # (classes, clients)
        edges = np.floor(np.cumsum(q, axis=1) * stock[:, None] + 0.5).astype(np.int64)
        edges[:, -1] = stock
        counts = np.diff(edges, axis=1, prepend=0).T
        if counts.sum(1).min() >= LEAST_IMAGES:
            return counts
    few = f"fewer than {LEAST_IMAGES} of {int(stock.sum()):,} images"
    problem = f"{alpha:g} leaves a client {few} in each of {DRAWS} draws"
    action = f"or take fewer {param('clients')} or a larger {param('limit')}"
    raise OptionError("alpha", problem, "a larger one", action)


def imbalanced_stock(stock: NDArray[np.int64], imbalance: float) -> NDArray[np.int64]:
    """Images of each class when they decay exponentially from the first to the last, (classes,); Cao et al. 2019."""
    decay: NDArray[np.float64] = imbalance ** -(np.arange(len(stock)) / (len(stock) - 1))
    return np.asarray(np.floor(stock * decay), dtype=np.int64)


def drawn_counts(mix: NDArray[np.int64], stock: NDArray[np.int64]) -> NDArray[np.int64]:
    """Test images of each class for a client's mix, (classes,): as many as there are without taking one twice.

    In proportion to ``mix`` (classes,) and rounded to the nearest, never more than ``stock`` (classes,).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(mix > 0, stock / mix, np.inf).min()
    return np.asarray(np.minimum(np.floor(mix * times + 0.5), stock), dtype=np.int64)


class _Dealer:
    """Rows of each class in a drawn order, dealt from the front."""

    def __init__(self, rows: NDArray[np.int64], label: NDArray[np.int64], rng: np.random.Generator) -> None:
        self.rows = [rng.permutation(rows[label[rows] == c]) for c in range(len(CLASSES))]
        self.dealt = np.zeros(len(CLASSES), dtype=np.int64)

    @property
    def stock(self) -> NDArray[np.int64]:
        return np.array([len(rows) for rows in self.rows], dtype=np.int64)

    def deal(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take so many of each class, (n,) increasing."""
        parts = [rows[at : at + n] for rows, at, n in zip(self.rows, self.dealt, counts, strict=True)]
        self.dealt = self.dealt + counts
        return np.sort(np.concatenate(parts))


def _rng(options: CifarOptions, *stream: int) -> np.random.Generator:
    return np.random.default_rng([options.seed, *stream])


def _balanced(rows: NDArray[np.int64], data: CifarImages, limit: int | None, rng: np.random.Generator) -> NDArray[Any]:
    """At most ``limit`` rows, the same number of each class as far as there are; in order."""
    if limit is None or limit >= len(rows):
        return rows
    dealer = _Dealer(rows, data.label, rng)
    each = np.full(len(CLASSES), limit // len(CLASSES)) + (np.arange(len(CLASSES)) < limit % len(CLASSES))
    return dealer.deal(np.minimum(each, dealer.stock))


def build_cifar_cohort(
    data: CifarImages,
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
    rows = _balanced(np.arange(data.train), data, options.limit, _rng(options, _LIMIT, 0))
    few = None if options.limit is None else max(len(CLASSES), math.ceil(options.limit / TEST_RATIO))
    pool = _balanced(np.arange(data.train, len(data.label)), data, few, _rng(options, _LIMIT, 1))
    dealer = _Dealer(rows, data.label, _rng(options, _DEAL))
    counts = _counts(dealer.stock, options)
    images_of_client = [dealer.deal(mine) for mine in counts]
    with replacing_folder(out, overwrite=overwrite) as folder, CohortWriter(folder, "image") as writer:
        pool_label, no_client, test = data.label[pool], np.full(len(pool), NOBODY), np.full(len(pool), TEST)
        sample = pool - data.train
        writer.append(images=data.images[pool], label=pool_label, client=no_client, sample=sample, split=test)
        clients: list[dict[str, Any]] = []
        for i, images in enumerate(images_of_client):
            seed = int(_rng(options, _VALID, i).integers(2**63))
            split = split_beats(data.label[images], "random", seed, test_share=0.0, valid_share=options.valid_share)
            client = np.full(len(images), i)
            writer.append(
                images=data.images[images], label=data.label[images], client=client, sample=images, split=split
            )
            name = f"client-{i + 1:0{len(str(options.client_count))}d}"
            clients.append({"id": name, "patient": name, "records": [], "holdout": False, "images": len(images)})
        stock = np.bincount(pool_label, minlength=len(CLASSES))
        for i, mix in enumerate(counts):
            drawn = _Dealer(np.arange(len(pool)), pool_label, _rng(options, _TEST, i)).deal(drawn_counts(mix, stock))
            writer.draw(test_client=np.full(len(drawn), i), test_row=drawn)
            if on_progress:
                on_progress(clients[i]["id"], i + 1, len(clients))
        writer.finish(_meta(data, options, clients, counts, len(rows)))


def _counts(stock: NDArray[np.int64], options: CifarOptions) -> NDArray[np.int64]:
    """Images of each client and class, (clients, classes)."""
    rng, clients = _rng(options, _PARTITION), options.client_count
    if options.partition == "dirichlet":
        return dirichlet_counts(imbalanced_stock(stock, options.imbalance), clients, options.alpha, rng)
    counts = long_tailed_counts(stock, clients, options.rho, options.tau, rng)
    if not counts.sum(1).all():
        empty = int((counts.sum(1) == 0).sum())
        problem = f"{clients} leave {empty} without any of {count_of(int(stock.sum()), 'image')}"
        action = f"or take a smaller {param('rho')} or a larger {param('limit')}"
        raise OptionError("clients", problem, "fewer clients", action)
    return counts


def _meta(
    data: CifarImages, options: CifarOptions, clients: list[dict[str, Any]], counts: NDArray[np.int64], available: int
) -> dict[str, Any]:
    """Everything ``cohort.json`` says beside the counts."""
    chosen = {**asdict(options), "clients": options.client_count}
    seed = chosen.pop("seed")
    unused = ("alpha", "imbalance") if options.partition == "longtail" else ("rho", "tau")
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
