"""Exceptions for invalid input and environment problems, each with a one-line message, a code and a parameter.

A message names parameters by ``param("leads")``. In Python they are spelled as parameters, ``leads``; the command line
spells them as its options, ``--lead`` (``spelling``), prints ``str(error)`` after ``ecgfed: `` and exits with code 2,
without a traceback. Any other exception is a bug in ecgfed.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from ecgfed.base.deprecation import renamed_fields

#: Maximum length in the message, characters, of the reason and of what else a file may name.
_LONGEST, _LONGEST_NAME = 400, 700
#: Around a parameter in a message: noncharacters, which Unicode reserves for use inside a program.
_BEGIN, _END = "\ufdd0", "\ufdd1"
_MARKED = re.compile(f"{_BEGIN}(?P<name>[^{_BEGIN}{_END}=]*)(?:=(?P<value>[^{_BEGIN}{_END}]*))?{_END}")

#: Code -> the kind of problem. ``SiteError`` has codes of its own (``ecgfed.network.errors.REASONS``).
CODES = {
    "invalid": "Some other problem of the input.",
    "invalid-value": "A parameter's value is out of range, or has the wrong type or form.",
    "unknown-choice": "A value is not one of the known names.",
    "conflict": "Parameters exclude one another, or one does not apply to the rest of the call.",
    "missing": "A parameter is missing, possibly because another parameter needs it.",
    "exists": "The output exists and would be replaced.",
    "code-not-loaded": "A user's own code was not passed, has changed or fails.",
    "invalid-record": "A recording, its header or its annotation is damaged or violates its format.",
    "unknown-lead": "A recording has none of the leads, or several with one name.",
    "not-stated": "A file does not state what is needed: sampling frequency, units, names of columns.",
    "contradiction": "A file contradicts a parameter.",
    "no-beats": "There are no beats to process.",
    "invalid-cohort": "A cohort cannot be built, opened or trained on.",
    "unusable-recordings": "Several recordings of a folder cannot be used.",
    "invalid-run": "A training run cannot be opened, resumed or evaluated.",
    "unfinished": "A run has no finished round yet.",
    "diverged": "The loss or the parameters of a training run are no longer finite.",
    "invalid-bundle": "A bundle cannot be written, or does not match its manifest.",
    "unknown-patient": "A run or bundle has no such patient.",
    "untrusted": "A bundle is not signed by a trusted key.",
    "storage": "A file could not be read or written; existing files are unchanged.",
    "locked": "Another process uses the folder.",
    "missing-extra": "A package of one of ecgfed's extras is not installed.",
    "network": "A federation cannot continue because of a site, a certificate or a port.",
}


def param(name: str) -> str:
    """Mark a parameter in a message: ``leads``, or with its value ``overwrite=True``, ``class_mix=FILE``."""
    return f"{_BEGIN}{name}{_END}"


def _in_python(name: str, value: str) -> str:
    """Spell a parameter as in a call."""
    return f"{name}={value}" if value else name


_speller: Callable[[str, str], str] = _in_python


def spelled(text: str) -> str:
    """Return a message with its marked parameters as the user writes them: in a call, or on the command line."""
    return _MARKED.sub(lambda match: _speller(match["name"], match["value"] or ""), text)


@contextmanager
def spelling(speller: Callable[[str, str], str]) -> Iterator[None]:
    """Spell parameters by ``speller(name, value)`` until the block ends; for programs that have options instead."""
    global _speller
    before, _speller = _speller, speller
    try:
        yield
    finally:
        _speller = before


def _without_middle(text: str) -> str:
    """Return text, its middle cut out if it is longer than ``_LONGEST_NAME``: both ends of a path are informative."""
    half = (_LONGEST_NAME - 3) // 2
    return text if len(text) <= _LONGEST_NAME else f"{text[:half]}...{text[-half:]}"


@renamed_fields("0.3", "0.5", found="reason")
class EcgfedError(Exception):
    """Invalid input or an environment problem, described in one line: ``str(error)``.

    Args:
        where: the file, folder, parameter or record with the problem.
        reason: what is wrong with it.
        expected: what was expected, or ``""`` if ``reason`` is sufficient.
        action: what the user can do, or ``""``.
        code: the kind of problem, a key of ``CODES``; by default that of the class.
        parameter: the parameter with the problem; by default the one in ``where``, else the first one in ``action``.

    Attributes:
        code: the kind of problem.
        parameter: the parameter in Python with the problem, or that solves it; None if there is none.
        parts: ``where``, ``reason``, ``expected`` and ``action``, to raise them as another error.
    """

    default_code: ClassVar[str] = "invalid"
    names_parameter: ClassVar[bool] = False

    def __init__(
        self,
        where: object,
        reason: str,
        expected: str = "",
        action: str = "",
        *,
        code: str | None = None,
        parameter: str | None = None,
    ) -> None:
        if len(reason) > _LONGEST:  # a library may quote all of a damaged file
            reason = f"{reason[: _LONGEST - 3]}..."
        if self.names_parameter and isinstance(where, str) and where.isidentifier() and where.islower():
            where = param(where)
        self.parts = (_without_middle(str(where)), reason, _without_middle(expected), action)
        named = _MARKED.match(self.parts[0]) or _MARKED.search(action)
        self.code = code or self.default_code
        self.parameter = parameter or (named["name"] if named else None)
        super().__init__(*map(spelled, self.parts))

    @property
    def where(self) -> str:
        """The file, folder, parameter or record with the problem."""
        return spelled(self.parts[0])

    @property
    def reason(self) -> str:
        """What is wrong with it."""
        return spelled(self.parts[1])

    @property
    def expected(self) -> str:
        """What was expected, or ``""``."""
        return spelled(self.parts[2])

    @property
    def action(self) -> str:
        """What the user can do, or ``""``."""
        return spelled(self.parts[3])

    @property
    def line(self) -> str:
        """The message, ``str(error)``."""
        return str(self)

    @property
    def marked(self) -> str:
        """The message with its parameters marked, to quote it in another error."""
        where, reason, expected, action = self.parts
        line = f"{where}: {reason}{f'; expected {expected}' if expected else ''}{f'; {action}' if action else ''}"
        return " ".join(line.split())

    def as_json(self) -> dict[str, str]:
        """Return the message as ``problem``, with ``code`` and, if there is one, ``parameter``."""
        return {"problem": str(self), "code": self.code, **({"parameter": self.parameter} if self.parameter else {})}

    def __str__(self) -> str:
        """Return the message in one line, with parameters as the user writes them."""
        return spelled(self.marked)

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling, for errors raised in worker processes: attributes too."""
        return type(self), self.parts, vars(self)


class OptionError(EcgfedError):
    """Invalid value of a parameter; ``where`` may be its name alone."""

    default_code, names_parameter = "invalid-value", True


class RecordError(EcgfedError):
    """A recording, its header or its annotation is invalid or not supported."""

    default_code = "invalid-record"


class CohortError(EcgfedError):
    """A cohort cannot be built, opened or trained on."""

    default_code = "invalid-cohort"


class RunError(EcgfedError):
    """A training run cannot be opened, resumed or evaluated."""

    default_code = "invalid-run"


class DivergedError(RunError):
    """The loss or the parameters of a training run are no longer finite."""

    default_code = "diverged"


class BundleError(EcgfedError):
    """A bundle cannot be written, or does not match its manifest."""

    default_code = "invalid-bundle"


class StorageError(EcgfedError):
    """A file could not be read or written; existing files are unchanged."""

    default_code = "storage"


class MissingExtraError(EcgfedError):
    """A package of one of ecgfed's extras is not installed (``ecgfed.base.extras``)."""

    default_code = "missing-extra"
