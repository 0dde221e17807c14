"""A user's own functions of a training, and their record in ``run.json``."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError, RunError, param
from ecgfed.base.options import Options, option
from ecgfed.core.federation.own_functions import Augmentation, LrSchedule, RoundFunctions, Sampler
from ecgfed.core.federation.train import Callback, RoundOutcome

#: Key in ``run.json`` of the functions that a run needs again: parameter -> name of the function.
OWN_FUNCTIONS = "own_functions"
#: Functions that determine the result.
DECISIVE = ("sampler", "augmentation", "lr_schedule")
#: One of them, or none.
OwnFunction = Sampler | Augmentation | LrSchedule | None
RecordCallback = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class OwnFunctions(Options):
    """Functions of one's own that take part in a training (``ecgfed.core.federation.own_functions``)."""

    callbacks: Sequence[RecordCallback | Callback] | None = option(
        None,
        "Functions that are called after every round with its record, a dict; or objects of Callback.",
        hidden=True,
    )
    sampler: Sampler | None = option(  # noqa: RUF009
        None, "Chooses the participants of a round: a function of RoundInfo that returns client numbers.", hidden=True
    )
    augmentation: Augmentation | None = option(  # noqa: RUF009
        None,
        "Varies training examples: a function of examples (B, ...) and a generator that returns as many.",
        hidden=True,
    )
    lr_schedule: LrSchedule | None = option(  # noqa: RUF009
        None, "Function of round and rounds that returns the factor of the clients' learning rates.", hidden=True
    )

    def check_together(self) -> None:
        """Refuse what cannot be called."""
        super().check_together()
        if isinstance(self.callbacks, str) or not isinstance(self.callbacks, Sequence | None):
            raise OptionError("callbacks", f"{self.callbacks!r:.100}", "a list of functions")
        for function in self.callbacks or ():
            if not (callable(function) or isinstance(function, Callback)):
                raise OptionError("callbacks", f"{function!r:.100}", "a function, or an object of Callback")
        for name in DECISIVE:
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise OptionError(name, f"{function!r:.100}", "a function")

    def names(self) -> dict[str, str]:
        """Return the name of each function that determines the result, by parameter."""
        functions = {name: getattr(self, name) for name in DECISIVE}
        return {
            name: str(getattr(function, "__qualname__", type(function).__qualname__))
            for name, function in functions.items()
            if function is not None
        }

    def check_resumed(self, run: Path, meta: Mapping[str, Any]) -> None:
        """Refuse to continue a run with other functions than it was begun with, by their names; raises RunError."""
        stored, passed = meta.get(OWN_FUNCTIONS, {}), self.names()
        for name in DECISIVE:
            before, now = stored.get(name), passed.get(name)
            if before == now:
                continue
            if now is None:
                problem, action = f"{name} {before!s:.100}", f"pass {param(name)} again, from Python"
            elif before is None:
                problem, action = f"no {name}, not {now}", f"leave {param(name)} out"
            else:
                problem, action = f"{name} {before!s:.100}, not {now}", f"pass the {name} it was begun with"
            problem = f"was begun with {problem}"
            raise RunError(run, problem, action=action, parameter=name, code="contradiction")

    def of_rounds(self, history: Sequence[Mapping[str, Any]]) -> RoundFunctions:
        """Return the functions that the training loop calls.

        Args:
            history: the records of the finished rounds.
        """
        losses: dict[int, float] = {}
        for record in history if self.sampler is not None else ():
            losses.update(zip(record["clients"], record["losses"]["loss"], strict=True))
        return RoundFunctions(self.sampler, self.lr_schedule, losses)

    def as_callbacks(self) -> list[Callback]:
        """Return the callbacks as objects of the training loop."""
        return [one if isinstance(one, Callback) else _PassRecord(one) for one in self.callbacks or ()]


class _PassRecord(Callback):
    """Passes a copy of each round's record to a function."""

    def __init__(self, function: RecordCallback) -> None:
        self.function = function

    def on_round(self, outcome: RoundOutcome) -> None:
        """Call the function; what it raises ends the session, whose finished rounds are saved."""
        self.function(copy.deepcopy(outcome.record))
