"""Where a bundle's files lie: in a folder, or in one zip file; nothing else of the runtime knows the difference."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ecgfed.device.zip_file import ZipFile, read_directory
from ecgfed.errors import BundleError
from ecgfed.safe_io import check_links, read_bounded

#: The ending of a bundle in one file.
ZIP = ".zip"


class Container(Protocol):
    """The files of one bundle, by name."""

    @property
    def path(self) -> Path:
        """The folder or the zip file."""

    def holds(self, name: str) -> bool:
        """Say whether there is a file, or a link, of this name."""

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes; raises BundleError where there is none, or it is longer than ``most``."""

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return which of some names are no file's."""


class Folder:
    """A bundle's folder; links out of it are refused when they are read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def holds(self, name: str) -> bool:
        """See ``Container``."""
        return (self.path / name).exists() or (self.path / name).is_symlink()

    def read(self, name: str, most: int) -> bytes:
        """See ``Container``."""
        parts = Path(name).parts
        check_links(self.path, [str(Path(*parts[: i + 1])) for i in range(len(parts))], BundleError)
        return read_bounded(self.path / name, most, BundleError)

    def missing(self, names: Iterable[str]) -> list[str]:
        """See ``Container``."""
        return [name for name in names if not (self.path / name).is_file()]


class Zip:
    """A bundle in one file; its directory is read and judged once, before any of its files is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip: ZipFile = read_directory(path)

    def holds(self, name: str) -> bool:
        """See ``Container``."""
        return name in self._zip.entries

    def read(self, name: str, most: int) -> bytes:
        """See ``Container``."""
        return self._zip.read(name, most)

    def missing(self, names: Iterable[str]) -> list[str]:
        """See ``Container``."""
        return [name for name in names if name not in self._zip.entries]


def container_of(path: Path) -> Container:
    """Return the files of a bundle.

    Raises:
        BundleError: there is nothing, or something that is neither a folder nor a zip file of the kind export writes.
    """
    if path.is_dir():
        return Folder(path)
    if path.suffix.casefold() == ZIP and path.exists():
        return Zip(path)
    raise BundleError(path, "is not a folder", "a bundle", "make one with 'ecgfed export'")
