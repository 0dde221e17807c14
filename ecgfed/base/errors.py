"""Exceptions for invalid input and environment problems, each with a one-line message.

The command line prints ``error.line`` after ``ecgfed: `` and exits with code 2, without a traceback. In Python
``str(error)`` is the same line with parameter names in place of options. Any other exception is a bug in ecgfed.
"""

import re

from ecgfed.base.deprecation import renamed_fields

#: Maximum length in the message, characters, of the reason and of what else a file may name.
_LONGEST, _LONGEST_NAME = 400, 700

#: Options whose Python parameter has another name, or that stand for a parameter and a value.
_PARAMETERS = {
    "lead": "leads",
    "mains": "mains_hz",
    "fs": "fs_hz",
    "global": "protocol",
    "set": "settings",
    "no-rr": "rr=False",
    "no-local-models": "local=False",
    **{f"most-{name}": f"max_{name}" for name in ("beats", "patients", "epsilon", "runs", "rounds")},
}
_FLAGS = ("overwrite", "resume", "download")
#: Matches a whole command, which stays unchanged, or an option with the word before it and its metavariable.
_OPTION = re.compile(
    r"(?P<command>\becgfed [a-z][^;']*)"
    r"|(?P<pass>\b(?:pass|or) )?(?<![\w./-])--(?P<name>[a-z][a-z-]*)\b(?: (?P<value>[A-Z]{2,}))?"
)


def in_python(line: str) -> str:
    """Replace the options in a message by Python parameters: ``leads`` for ``--lead``, ``resume=True`` for a flag.

    Args:
        line: the command line's message. Whole commands in it (``ecgfed train ...``) stay unchanged.
    """

    def parameter(match: re.Match[str]) -> str:
        """Return the replacement of an option with its value, or an unchanged command."""
        if match["command"]:
            return match["command"]
        name = _PARAMETERS.get(match["name"], match["name"].replace("-", "_"))
        value = f"={match['value']}" if match["value"] else ""
        if match["pass"] and match["name"] in _FLAGS:
            value = "=True"
        return f"{match['pass'] or ''}{name}{value}"

    return _OPTION.sub(parameter, line)


def _without_middle(text: str) -> str:
    """Return text, its middle cut out if it is longer than ``_LONGEST_NAME``: both ends of a path are informative."""
    half = (_LONGEST_NAME - 3) // 2
    return text if len(text) <= _LONGEST_NAME else f"{text[:half]}...{text[-half:]}"


@renamed_fields("0.3", "0.5", found="reason")
class EcgfedError(Exception):
    """Invalid input or an environment problem, described in one line.

    Args:
        where: the file, folder, option or record with the problem.
        reason: what is wrong with it.
        expected: what was expected, or ``""`` if ``reason`` is sufficient.
        action: what the user can do, or ``""``.
    """

    def __init__(self, where: object, reason: str, expected: str = "", action: str = "") -> None:
        if len(reason) > _LONGEST:  # a library may quote all of a damaged file
            reason = f"{reason[: _LONGEST - 3]}..."
        where, expected = _without_middle(str(where)), _without_middle(expected)
        self.where, self.reason, self.expected, self.action = where, reason, expected, action
        line = f"{where}: {reason}"
        if expected:
            line += f"; expected {expected}"
        if action:
            line += f"; {action}"
        super().__init__(" ".join(line.split()))

    @property
    def line(self) -> str:
        """The command line's message."""
        return str(self.args[0])

    def __str__(self) -> str:
        """Return the message with Python parameters in place of options."""
        return in_python(self.line)

    def __reduce__(self) -> tuple[type, tuple[str, str, str, str]]:
        """Support pickling, for errors raised in worker processes."""
        return type(self), (self.where, self.reason, self.expected, self.action)


class OptionError(EcgfedError):
    """Invalid option or argument."""


class RecordError(EcgfedError):
    """A recording, its header or its annotation is invalid or not supported."""


class CohortError(EcgfedError):
    """A cohort cannot be built, opened or trained on."""


class RunError(EcgfedError):
    """A training run cannot be opened, resumed or evaluated."""


class DivergedError(RunError):
    """The loss or the parameters of a training run are no longer finite."""


class BundleError(EcgfedError):
    """A bundle cannot be written, or does not match its manifest."""


class StorageError(EcgfedError):
    """A file could not be read or written; existing files are unchanged."""


class MissingExtraError(EcgfedError):
    """A package of one of ecgfed's extras is not installed (``ecgfed.base.extras``)."""
