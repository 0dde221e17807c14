"""Recordings that cannot be used, gathered: a person mends ten files in one go, not in ten."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ecgfed.base.errors import CohortError, EcgfedError, param
from ecgfed.base.text import count_of


class UnusableError(CohortError):
    """Several recordings that cannot be used.

    Args:
        folder: where they lie.
        problems: recording, as it is called in the folder, and what is wrong with it, in order.
        total: of how many recordings.
    """

    default_code = "unusable-recordings"

    def __init__(self, folder: object, problems: Sequence[tuple[str, str]], total: int) -> None:
        self.problems, self.total = tuple(problems), total
        share = f"{len(self.problems)} of {count_of(total, 'recording')}"
        problem = f"{share} cannot be used, the first is {self.problems[0][1]}"
        super().__init__(folder, problem, "", f"mend them, or go on without them with {param('skip_unusable=True')}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip home from a worker process."""
        return type(self), (self.parts[0], self.problems, self.total)


class Problems:
    """Which recordings of a folder cannot be used, and why.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors: dict[Path, EcgfedError] = {}

    def __len__(self) -> int:
        return len(self.errors)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield each recording, as it is called in the folder, and what is wrong with it."""
        for record, error in sorted(self.errors.items()):
            yield self.name_of(record), error_line(error, self.folder)

    def name_of(self, record: Path) -> str:
        """Return what a recording is called in the folder."""
        return record.relative_to(self.folder).as_posix() if record.is_relative_to(self.folder) else record.name

    def add(self, record: Path, error: EcgfedError) -> None:
        """Note one."""
        self.errors[record] = error

    def refuse(self, total: int) -> None:
        """Raise what there is: a single problem as its own line, several as one ``UnusableError``."""
        if len(self.errors) == 1:
            raise next(iter(self.errors.values()))
        if self.errors:
            raise UnusableError(self.folder, list(self), total)


def error_line(error: EcgfedError, folder: Path) -> str:
    """Return an error's line without the way to the folder, so that a table has room for it."""
    return error.line.replace(f"{folder}/", "")
