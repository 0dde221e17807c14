"""A user's own functions in the rounds: client sampler, augmentation, learning-rate schedule.

Each is a pure function whose randomness comes from the generator or the numbers that it receives. Then the same seed
gives the same bits, and a resumed run ends like an uninterrupted one; the functions have to be passed again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.base import Batch, Method

#: Settings that a schedule multiplies, where a method has them: the learning rates of clients.
CLIENT_RATES = ("lr", "local_lr", "personal_lr")


@dataclass(frozen=True)
class RoundInfo:
    """A round before its clients are chosen.

    Attributes:
        round: its number, from 1 on.
        rounds: planned rounds of the run.
        clients: (M,) int64 client numbers, increasing.
        ids: (M,) their ids.
        train_examples: (M,) int64 training beats of each in an epoch.
        losses: (M,) float64 mean training loss of each in the last round it took part in; NaN before.
        clients_per_round: as planned; M if no number was.
        random: generator of this round, determined by the run's seed and the round.
    """

    round: int
    rounds: int
    clients: NDArray[np.int64]
    ids: tuple[str, ...]
    train_examples: NDArray[np.int64]
    losses: NDArray[np.float64]
    clients_per_round: int
    random: np.random.Generator


#: Returns the numbers of the round's participants, each once, at least one.
Sampler = Callable[[RoundInfo], Sequence[int] | NDArray[np.integer]]
#: Examples (B, ...) of a batch and a generator -> varied examples of the same shape and dtype.
Augmentation = Callable[[NDArray[np.generic], np.random.Generator], NDArray[np.generic]]
#: Round, from 1 on, and planned rounds -> the factor of the clients' learning rates.
LrSchedule = Callable[[int, int], float]


@dataclass(frozen=True)
class ExponentialDecay:
    """A learning-rate schedule: a factor from each round to the next, 1 in the first.

    Attributes:
        factor: such as 0.99.
    """

    factor: float

    def __call__(self, number: int, rounds: int) -> float:
        """Return the factor of round ``number``, from 1 on."""
        return self.factor ** (number - 1)


@dataclass(frozen=True)
class RoundFunctions:
    """A user's functions that the training loop calls.

    Attributes:
        sampler: chooses the participants; None: all, or m at random.
        lr_schedule: multiplies the clients' learning rates; None: they are constant.
        last_losses: client number -> mean loss of its last round, of the rounds before this session.
    """

    sampler: Sampler | None = None
    lr_schedule: LrSchedule | None = None
    last_losses: dict[int, float] = field(default_factory=dict)


def sampled(sampler: Sampler, info: RoundInfo) -> NDArray[np.int64]:
    """Return the participants that a sampler chooses, in increasing order.

    Raises:
        OptionError: they are not numbers of clients, one is named twice, or there is none.
    """
    chosen = np.asarray(sampler(info))
    known = chosen.ndim == 1 and np.issubdtype(chosen.dtype, np.integer) and np.isin(chosen, info.clients).all()
    if not known or not len(chosen) or len(np.unique(chosen)) < len(chosen):
        expected = "some of RoundInfo.clients, each once"
        raise OptionError("sampler", f"returned {chosen.tolist()!s:.100} in round {info.round}", expected)
    return np.sort(chosen).astype(np.int64)


def scheduled(method: Method, schedule: LrSchedule, number: int, rounds: int) -> Method:
    """Return the method with the learning rates of a round.

    Raises:
        OptionError: the factor is no finite number above 0, or the method has no such learning rate.
    """
    factor = schedule(number, rounds)
    try:
        valid = not isinstance(factor, bool) and 0 < float(factor) < float("inf")
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise OptionError("lr_schedule", f"returned {factor!r:.100} in round {number}", "a number above 0")
    rates = {name: getattr(method.settings, name) for name in CLIENT_RATES if hasattr(method.settings, name)}
    if not rates:
        expected = f"one of {', '.join(CLIENT_RATES)}"
        raise OptionError("lr_schedule", f"{method.name} has no setting to multiply", expected, code="conflict")
    scaled = {name: rate * float(factor) for name, rate in rates.items()}
    return type(method)(method.net, replace(method.settings, **scaled))


def augmented(batch: Batch, augmentation: Augmentation, random: np.random.Generator) -> Batch:
    """Return a batch with its examples varied by a user's function; RR features are unchanged.

    Raises:
        OptionError: it returned another shape or dtype, or a value that is not finite.
    """
    before = batch.inputs.examples.numpy()
    after = np.asarray(augmentation(before, random))
    if after.shape != before.shape or after.dtype != before.dtype:
        expected = f"{before.dtype} of shape {before.shape}, as it received"
        raise OptionError("augmentation", f"returned {after.dtype} of shape {after.shape}", expected)
    if not np.isfinite(after).all():
        raise OptionError("augmentation", "returned a value that is not finite", "finite numbers")
    examples = torch.from_numpy(np.ascontiguousarray(after))
    return replace(batch, inputs=replace(batch.inputs, examples=examples))
