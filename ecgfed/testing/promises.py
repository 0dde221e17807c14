"""What every check shares: promises tried one after the other, the first broken one said in a plain sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ecgfed.text import count_of

Trial = TypeVar("Trial")


class LeftOut(Exception):  # noqa: N818 -- no error: a promise that cannot be tried here, and why
    """Raised by a promise that cannot be tried here."""


@dataclass(frozen=True)
class Promise(Generic[Trial]):
    """Something that a method or a detector promises.

    Attributes:
        text: what, in a few words.
        keep: raises AssertionError where it is broken, LeftOut where it cannot be tried.
    """

    text: str
    keep: Callable[[Trial], None]


@dataclass(frozen=True)
class CheckReport:
    """What was checked.

    Attributes:
        subject: name of the method or detector.
        kept: the promises it keeps.
        left_out: promises that could not be tried here, and why.
    """

    subject: str
    kept: tuple[str, ...]
    left_out: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.subject} keeps {count_of(len(self.kept), 'promise')}:", *(f"  {text}" for text in self.kept)]
        return "\n".join([*lines, *(f"  left out: {text} ({why})" for text, why in self.left_out.items())])


def expect(kept: object, sentence: str) -> None:
    """Raise AssertionError with a sentence unless a promise is kept; unlike ``assert``, with ``python -O`` too."""
    if not kept:
        raise AssertionError(sentence)


def try_promises(subject: str, promises: Sequence[Promise[Trial]], trial: Trial) -> CheckReport:
    """Try promises in order.

    Raises:
        AssertionError: the first that is broken, in one sentence that names the subject.
    """
    kept, left_out = [], {}
    for promise in promises:
        try:
            promise.keep(trial)
        except LeftOut as why:
            left_out[promise.text] = str(why)
        except AssertionError as broken:
            raise AssertionError(f"{subject}: {broken} (promise: {promise.text})") from broken
        except Exception as problem:
            told = f"{type(problem).__name__}: {problem}"
            raise AssertionError(f"{subject}: fails with {told} (promise: {promise.text})") from problem
        else:
            kept.append(promise.text)
    return CheckReport(subject, tuple(kept), left_out)
