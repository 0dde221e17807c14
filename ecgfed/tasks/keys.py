"""``keys``: keys to sign bundles with. openssl makes and reads the same files."""

import os
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import EcgfedError, OptionError, StorageError
from ecgfed.exports.device.signatures import generate, key_of

__all__ = ["KeyPair", "key_of", "new_key"]


@dataclass(frozen=True)
class KeyPair:
    """A new key.

    Attributes:
        private: the file to sign with, readable by its owner alone.
        public: the file to give away.
        key: the fingerprint, ``SHA256:`` and 64 hexadecimal digits.
    """

    private: Path
    public: Path
    key: str


def new_key(name: Path | str) -> KeyPair:
    """Make a key: ``NAME.pem`` (private, readable by its owner alone) and ``NAME.pub.pem``.

    Raises:
        OptionError: one of the files is there already; a key is never written over.
        StorageError: the disk refuses; nothing is left.
        MissingExtraError: the package for it is not installed.
    """
    stem = Path(name)
    stem = stem.with_name(stem.name.removesuffix(".pem")) if stem.name.endswith(".pem") else stem
    if not stem.name:
        raise OptionError("NAME", f"{str(name)!r}", "the name of a new key")
    private, public = (stem.with_name(f"{stem.name}{end}") for end in (".pem", ".pub.pem"))
    secret, open_half, key = generate()
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, open_half, 0o644)
    except EcgfedError:
        private.unlink(missing_ok=True)
        raise
    return KeyPair(private, public, key)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that is not there yet, and sync it: a private key that was lost cannot be made again."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise OptionError("NAME", f"{path} is there already", "a new name", "a key is never written over") from None
    except OSError as problem:
        raise StorageError(path, f"could not be written ({problem.strerror})", action="choose another place") from None
    try:
        with os.fdopen(opened, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as problem:
        path.unlink(missing_ok=True)
        raise StorageError(path, f"could not be written ({problem.strerror})", action="free space") from None
