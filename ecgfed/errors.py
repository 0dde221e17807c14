"""The one error hierarchy: everything a user can cause, said in one line.

The command line prints ``str(error)`` after ``ecgfed: `` and exits with code 2; it never shows a traceback
for these. Anything else that escapes is a defect of ours.
"""


class EcgfedError(Exception):
    """Bad input or a bad environment, described in one line.

    Args:
        where: the file, folder, option or record that is at fault.
        found: what was found there.
        expected: what was expected instead, or ``""`` where ``found`` says it all.
        action: what the user can do, or ``""``.
    """

    def __init__(self, where: object, found: str, expected: str = "", action: str = "") -> None:
        self.where, self.found, self.expected, self.action = str(where), found, expected, action
        line = f"{where}: {found}"
        if expected:
            line += f"; expected {expected}"
        if action:
            line += f"; {action}"
        super().__init__(" ".join(line.split()))

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


class BundleError(EcgfedError):
    """A bundle that cannot be written, or is not what its manifest says."""


class StorageError(EcgfedError):
    """A file that could not be written or read; what was there before is still there."""


class MissingExtraError(EcgfedError):
    """A package that one of ecgfed's extras installs is not here (``ecgfed.extras``)."""
