"""The one error hierarchy: everything a user can cause, said in one line.

The command line prints ``error.line`` after ``ecgfed: `` and exits with code 2; it never shows a traceback
for these. In Python ``str(error)`` is the same line with parameters in place of options. Anything else that escapes
is a defect of ours.
"""

import re

#: Characters of what was found that are shown.
_LONGEST = 400

#: Parameters of the verbs that are not the option's own name, and options that stand for a value.
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
#: A command to copy stays as it is; else an option, what stands before it and the word for its value.
_OPTION = re.compile(
    r"(?P<command>\becgfed [a-z][^;']*)"
    r"|(?P<pass>\b(?:pass|or) )?(?<![\w./-])--(?P<name>[a-z][a-z-]*)\b(?: (?P<value>[A-Z]{2,}))?"
)


def in_python(line: str) -> str:
    """Return a line about options as one about parameters: ``leads`` for ``--lead``, ``resume=True`` for a flag.

    Args:
        line: what the command line says. A whole command in it (``ecgfed train ...``) stays a command.
    """

    def parameter(found: re.Match[str]) -> str:
        """Return what stands in place of an option with its value; a command to copy as it is."""
        if found["command"]:
            return found["command"]
        name = _PARAMETERS.get(found["name"], found["name"].replace("-", "_"))
        value = f"={found['value']}" if found["value"] else ""
        if found["pass"] and found["name"] in _FLAGS:
            value = "=True"
        return f"{found['pass'] or ''}{name}{value}"

    return _OPTION.sub(parameter, line)


class EcgfedError(Exception):
    """Bad input or a bad environment, described in one line.

    Args:
        where: the file, folder, option or record that is at fault.
        found: what was found there.
        expected: what was expected instead, or ``""`` where ``found`` says it all.
        action: what the user can do, or ``""``.
    """

    def __init__(self, where: object, found: str, expected: str = "", action: str = "") -> None:
        if len(found) > _LONGEST:  # a library may quote all of a damaged file
            found = f"{found[: _LONGEST - 3]}..."
        self.where, self.found, self.expected, self.action = str(where), found, expected, action
        line = f"{where}: {found}"
        if expected:
            line += f"; expected {expected}"
        if action:
            line += f"; {action}"
        super().__init__(" ".join(line.split()))

    @property
    def line(self) -> str:
        """What the command line says."""
        return str(self.args[0])

    def __str__(self) -> str:
        """Return the line with parameters of Python in place of options."""
        return in_python(self.line)

    def __reduce__(self) -> tuple[type, tuple[str, str, str, str]]:
        """Survive the trip home from a worker process."""
        return type(self), (self.where, self.found, self.expected, self.action)


class OptionError(EcgfedError):
    """An option or argument that cannot be used as given."""


class RecordError(EcgfedError):
    """A recording, its header or its annotation that cannot be used."""


class CohortError(EcgfedError):
    """A cohort that cannot be built, opened or trained on."""


class RunError(EcgfedError):
    """A training run that cannot be opened, resumed or evaluated."""


class DivergedError(RunError):
    """A training whose loss or whose parameters are no longer finite."""


class BundleError(EcgfedError):
    """A bundle that cannot be written, or is not what its manifest says."""


class StorageError(EcgfedError):
    """A file that could not be written or read; what was there before is still there."""


class MissingExtraError(EcgfedError):
    """A package that one of ecgfed's extras installs is not here (``ecgfed.extras``)."""
