"""Access to a bundle's files, in a folder or a zip file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ecgfed.base.errors import BundleError
from ecgfed.base.safe_io import check_links, read_bounded
from ecgfed.exports.device.zip_file import ZipFile, read_directory

#: Suffix of a bundle in one file.
ZIP = ".zip"


class Container(Protocol):
    """The files of one bundle, by name."""

    @property
    def path(self) -> Path:
        """The folder or the zip file."""

    def holds(self, name: str) -> bool:
        """Return whether a file or link of this name exists."""

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return a file's bytes; raises BundleError if it is missing or longer than ``max_bytes``."""

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names without a file."""


class Folder:
    """A bundle's folder; links that lead out of it are rejected on reading."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def holds(self, name: str) -> bool:
        """See ``Container``."""
        return (self.path / name).exists() or (self.path / name).is_symlink()

    def read(self, name: str, max_bytes: int) -> bytes:
        """See ``Container``."""
        parts = Path(name).parts
        check_links(self.path, [str(Path(*parts[: i + 1])) for i in range(len(parts))], BundleError)
        return read_bounded(self.path / name, max_bytes, BundleError)

    def missing(self, names: Iterable[str]) -> list[str]:
        """See ``Container``."""
        return [name for name in names if not (self.path / name).is_file()]


class Zip:
    """A bundle in a zip file; the directory is validated once, before any file is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip: ZipFile = read_directory(path)

    def holds(self, name: str) -> bool:
        """See ``Container``."""
        return name in self._zip.entries

    def read(self, name: str, max_bytes: int) -> bytes:
        """See ``Container``."""
        return self._zip.read(name, max_bytes)

    def missing(self, names: Iterable[str]) -> list[str]:
        """See ``Container``."""
        return [name for name in names if name not in self._zip.entries]


def container_of(path: Path) -> Container:
    """Return the files of a bundle.

    Raises:
        BundleError: the path is missing, or neither a folder nor a zip file as written by export.
    """
    if path.is_dir():
        return Folder(path)
    if path.suffix.casefold() == ZIP and path.exists():
        return Zip(path)
    raise BundleError(path, "is not a folder", "a bundle", "make one with 'ecgfed export'")
