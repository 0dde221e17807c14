"""Dividing labelled examples among clients: the partitions of the federated learning literature.

``iid``: clients of equal size and the same mix of classes, drawn at random (McMahan et al. 2017, section 3).
``dirichlet``: Hsu et al. 2019, as in Fed-RoD (section 5) and FedABC, with the class-imbalanced option of Fed-RoD's
appendix D.5 after Cao et al. 2019. ``longtail``: client sizes fall as rank^-rho, class shares within a client
geometrically by tau, after Chou et al. (GRP-FED, section 4.1; what it leaves open is decided in docs/decisions/0015).
``shards``: examples sorted by class and cut into shards of equal size, a few for each client (McMahan et al. 2017, the
"pathological" partition).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecgfed.base.errors import OptionError, param
from ecgfed.base.text import count_of
from ecgfed.domain.cohort.array_like import as_column

#: partition -> default number of clients: those of the papers, GRP-FED, Fed-RoD and McMahan et al.
PARTITIONS: dict[str, int] = {"longtail": 50, "dirichlet": 20, "shards": 100, "iid": 20}
#: partition -> the options that apply to it alone
PARTITION_OPTIONS: dict[str, tuple[str, ...]] = {
    "longtail": ("rho", "tau"),
    "dirichlet": ("alpha", "imbalance"),
    "shards": ("shards",),
    "iid": (),
}
#: A Dirichlet partition in which a client has fewer examples is drawn again, this many times.
LEAST_EXAMPLES, DRAWS = 10, 1000
#: Client number of an example that no client has.
NOBODY = -1
#: Streams of random numbers of a cohort of images: what is drawn for one does not change another.
LIMIT_STREAM, PARTITION_STREAM, DEAL_STREAM, VALID_STREAM, TEST_STREAM = range(5)


@dataclass(frozen=True)
class PartitionOptions:
    """How examples are divided among clients.

    Attributes:
        partition: a key of ``PARTITIONS``.
        clients: number of clients; None for that of ``PARTITIONS``.
        rho: of ``longtail``: client sizes fall as rank^-rho.
        tau: of ``longtail``: each class of a client has tau times the examples of the one before.
        alpha: of ``dirichlet``: the concentration; less is more different clients.
        imbalance: of ``dirichlet``: examples of the most frequent class for one of the rarest, before dealing (1: as
            is).
        shards: of ``shards``: shards of each client, and so its number of classes, roughly.
        seed: decides everything that is drawn.
    """

    partition: str = "longtail"
    clients: int | None = None
    rho: float = 0.7
    tau: float = 0.5
    alpha: float = 0.3
    imbalance: float = 1.0
    shards: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.partition not in PARTITIONS:
            known = f"one of {', '.join(PARTITIONS)}"
            raise OptionError("partition", f"{self.partition!r}", known, code="unknown-choice")
        for option, number in (("clients", self.clients), ("seed", self.seed), ("shards", self.shards)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int | np.integer)):
                raise OptionError(option, f"{number!r:.60}", "a whole number")
        if self.clients is not None and self.clients < 1:
            raise OptionError("clients", f"{self.clients}", "1 or more")
        for option, value, low, high in (
            ("rho", self.rho, 0.0, 10.0),
            ("tau", self.tau, 0.0, 1.0),
            ("alpha", self.alpha, 1e-3, 1e6),
            ("imbalance", self.imbalance, 1.0, 1e4),
            ("shards", self.shards, 1, 1e6),
            ("seed", self.seed, 0, 2**63 - 1),
        ):
            if not isinstance(value, int | float | np.number) or not low <= value <= high:
                raise OptionError(option, f"{value!r:.60}", f"{low:g} to {high:g}")

    @property
    def client_count(self) -> int:
        """Number of clients."""
        return PARTITIONS[self.partition] if self.clients is None else self.clients


def check_applies(partition: str, values: dict[str, float | None]) -> None:
    """Raise OptionError for an option of another partition; ``values`` are options by name, None if not passed."""
    for other, names in PARTITION_OPTIONS.items():
        for name in names:
            if partition in PARTITIONS and other != partition and values.get(name) is not None:
                allowed = f"{param('partition')} {other}"
                action = f"leave {param(name)} out"
                raise OptionError(name, f"given for {partition}", allowed, action, code="conflict")


def partition(
    y: ArrayLike,
    kind: str = "dirichlet",
    *,
    clients: int | None = None,
    alpha: float | None = None,
    imbalance: float | None = None,
    rho: float | None = None,
    tau: float | None = None,
    shards: int | None = None,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Divide labelled examples among clients.

    Args:
        y: (N,) labels, numbers or texts.
        kind: ``iid``, ``dirichlet`` (Fed-RoD, FedABC), ``longtail`` (GRP-FED) or ``shards`` (McMahan et al. 2017).
        clients: number of clients; default 20, of ``longtail`` 50, of ``shards`` 100.
        alpha: ``dirichlet``: concentration; lower makes clients differ more; default 0.3.
        imbalance: ``dirichlet``: examples of the most frequent class for one of the rarest; default 1, as they are.
        rho: ``longtail``: client sizes fall as rank^-rho; default 0.7.
        tau: ``longtail``: a client's class shares fall by this factor; default 0.5.
        shards: ``shards``: shards of each client, and so its classes, roughly; default 2.
        seed: seed of all random choices.

    Returns:
        (N,) int64 client numbers from 0, and -1 for examples that no client has: ``longtail``, ``shards`` and an
        ``imbalance`` cannot use all of them.

    Raises:
        OptionError: an unknown kind, an option of another kind, or more clients than there are examples for.

    Examples:
        >>> import ecgfed, numpy as np
        >>> client = ecgfed.partition(np.arange(1000) % 10, "dirichlet", alpha=0.3, clients=5, seed=0)
        >>> np.bincount(client).sum()
        np.int64(1000)
    """
    passed = {"alpha": alpha, "imbalance": imbalance, "rho": rho, "tau": tau, "shards": shards}
    check_applies(kind, passed)
    chosen = {name: value for name, value in passed.items() if value is not None}
    options = PartitionOptions(kind, clients, seed=seed, **chosen)  # type: ignore[arg-type]
    return divided(np.unique(as_column(y, "y"), return_inverse=True)[1], options)


def divided(label: NDArray[np.int64], options: PartitionOptions) -> NDArray[np.int64]:
    """Return the client number of each example (N,), ``NOBODY`` without one, for class numbers ``label`` (N,)."""
    rng, count = np.random.default_rng([options.seed, PARTITION_STREAM]), options.client_count
    dealer = Dealer(np.arange(len(label)), label, np.random.default_rng([options.seed, DEAL_STREAM]))
    client = np.full(len(label), NOBODY, np.int64)
    if options.partition in ("iid", "shards"):
        each = options.shards if options.partition == "shards" else 1
        size = len(label) // (count * each)
        if not size:
            raise _too_many(count, f"all of {count_of(len(label), 'example')}", "shards" if each > 1 else "")
        if options.partition == "iid":
            client[rng.permutation(len(label))] = np.arange(len(label)) % count
            return client
        by_class = np.concatenate(dealer.rows)
        for place, shard in enumerate(rng.permutation(count * each).tolist()):
            client[by_class[shard * size : (shard + 1) * size]] = place // each
        return client
    if options.partition == "dirichlet":
        counts = dirichlet_counts(imbalanced_stock(dealer.stock, options.imbalance), count, options.alpha, rng)
    else:
        counts = long_tailed_counts(dealer.stock, count, options.rho, options.tau, rng)
        if not counts.sum(1).all():
            empty = int((counts.sum(1) == 0).sum())
            raise _too_many(count, f"{empty} without any of {count_of(len(label), 'example')}", "rho")
    for number, wanted in enumerate(counts):
        client[dealer.deal(wanted)] = number
    return client


def _too_many(clients: int, left: str, smaller: str) -> OptionError:
    action = f"or take a smaller {param(smaller)}" if smaller else ""
    return OptionError("clients", f"{clients} leave {left}", "fewer clients", action)


def long_tailed_counts(
    stock: NDArray[np.int64], clients: int, rho: float, tau: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Examples of each client and class, (clients, classes): sizes by rank^-rho, shares 1, tau, ... rounded down.

    Which class is a client's first, second, ... is drawn, the largest client first, each place with chances as what is
    left of the classes: so shares are exactly geometric and still nearly all examples find a client (evenly drawn
    orders leave about a third over). Sizes are scaled until the class that is asked for most just suffices.

    Args:
        stock: (classes,) examples there are.
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
    """Examples of each client and class, (clients, classes): q_c ~ Dir(alpha) over the clients deals those of class c.

    Every example finds a client. Drawn again while a client has fewer than ``LEAST_EXAMPLES``.

    Raises:
        OptionError: that never happened.
    """
    for _ in range(DRAWS):
        q = rng.dirichlet(np.full(clients, alpha), size=len(stock))  # (classes, clients)
        edges = np.floor(np.cumsum(q, axis=1) * stock[:, None] + 0.5).astype(np.int64)
        edges[:, -1] = stock
        counts = np.diff(edges, axis=1, prepend=0).T
        if counts.sum(1).min() >= LEAST_EXAMPLES:
            return counts
    few = f"fewer than {LEAST_EXAMPLES} of {int(stock.sum()):,} examples"
    problem = f"{alpha:g} leaves a client {few} in each of {DRAWS} draws"
    action = f"or take fewer {param('clients')}, or more examples"
    raise OptionError("alpha", problem, "a larger one", action)


def imbalanced_stock(stock: NDArray[np.int64], imbalance: float) -> NDArray[np.int64]:
    """Examples of each class when they decay exponentially from first to last, (classes,); Cao et al. 2019."""
    decay: NDArray[np.float64] = imbalance ** -(np.arange(len(stock)) / max(1, len(stock) - 1))
    return np.asarray(np.floor(stock * decay), dtype=np.int64)


def drawn_counts(mix: NDArray[np.int64], stock: NDArray[np.int64]) -> NDArray[np.int64]:
    """Test examples of each class for a client's mix, (classes,): as many as there are without taking one twice.

    In proportion to ``mix`` (classes,) and rounded to the nearest, never more than ``stock`` (classes,). A class
    that is not in stock does not limit the others.
    """
    there = (mix > 0) & (stock > 0)
    times = (stock[there] / mix[there]).min() if there.any() else 0.0
    return np.asarray(np.minimum(np.floor(mix * times + 0.5), stock), dtype=np.int64)


class Dealer:
    """Rows of each class in a drawn order, dealt from the front.

    Args:
        rows: rows to deal.
        label: class number of each row of the data.
        rng: draws the order.
        classes: number of classes; default one more than the largest number.
    """

    def __init__(
        self, rows: NDArray[np.int64], label: NDArray[np.integer], rng: np.random.Generator, classes: int | None = None
    ) -> None:
        count = int(label.max(initial=0)) + 1 if classes is None else classes
        self.rows = [rng.permutation(rows[label[rows] == c]) for c in range(count)]
        self.dealt = np.zeros(count, dtype=np.int64)

    @property
    def stock(self) -> NDArray[np.int64]:
        """Rows of each class, (classes,)."""
        return np.array([len(rows) for rows in self.rows], dtype=np.int64)

    def deal(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Take so many of each class, (n,) increasing."""
        parts = [rows[at : at + n] for rows, at, n in zip(self.rows, self.dealt, counts, strict=True)]
        self.dealt = self.dealt + counts
        return np.sort(np.concatenate(parts))
