"""Runner of the checks of a plug-in: one after the other, the first failure reported in one sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.text import count_of

Subject = TypeVar("Subject")


class SkipCheck(Exception):  # noqa: N818 -- not an error: the reason why a check cannot run here
    """Raised by a check that cannot run in this environment."""


@dataclass(frozen=True)
class PluginCheck(Generic[Subject]):
    """One property that every method or every detector must have.

    Attributes:
        text: the property, in a few words.
        run: raises AssertionError if the subject violates it, SkipCheck if it cannot be checked here.
    """

    text: str
    run: Callable[[Subject], None]


@renamed_fields(since="0.3", removed="0.5", kept="passed", left_out="skipped")
@dataclass(frozen=True)
class CheckReport:
    """Results of the checks.

    Attributes:
        subject: name of the method or detector.
        passed: texts of the checks that passed.
        skipped: text of each check that could not run -> reason.
    """

    subject: str
    passed: tuple[str, ...]
    skipped: dict[str, str]

    def __str__(self) -> str:
        heading = f"{self.subject} passes {count_of(len(self.passed), 'check')}:"
        skipped = (f"  skipped: {text} ({reason})" for text, reason in self.skipped.items())
        return "\n".join([heading, *(f"  {text}" for text in self.passed), *skipped])


def expect(condition: object, sentence: str) -> None:
    """Raise AssertionError with a sentence unless a condition holds; unlike ``assert``, also with ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


def run_checks(name: str, checks: Sequence[PluginCheck[Subject]], subject: Subject) -> CheckReport:
    """Run checks in order.

    Raises:
        AssertionError: the first check failed; the message is one sentence with the subject's name.
    """
    passed, skipped = [], {}
    for check in checks:
        try:
            check.run(subject)
        except SkipCheck as reason:
            skipped[check.text] = str(reason)
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure} (check: {check.text})") from failure
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"
            raise AssertionError(f"{name}: fails with {text} (check: {check.text})") from problem
        else:
            passed.append(check.text)
    return CheckReport(name, tuple(passed), skipped)
