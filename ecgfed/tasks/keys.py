"""``keys``: create keys for signing bundles, in the file format of openssl."""

import os
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import EcgfedError, OptionError, StorageError
from ecgfed.exports.device.signatures import generate, key_of

__all__ = ["KeyPair", "key_of", "new_key"]


@dataclass(frozen=True)
class KeyPair:
    """A new key pair.

    Attributes:
        private: file of the private key, readable by its owner only.
        public: file of the public key.
        key: fingerprint, ``SHA256:`` and 64 hexadecimal digits.
    """

    private: Path
    public: Path
    key: str


def new_key(name: Path | str) -> KeyPair:
    """Create a key pair: ``NAME.pem`` (private, readable by its owner only) and ``NAME.pub.pem``.

    Raises:
        OptionError: one of the files exists; keys are never overwritten.
        StorageError: a file cannot be written; neither file remains.
        MissingExtraError: cryptography is not installed.
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
    """Create a new file and sync it to disk: a lost private key cannot be recovered."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise OptionError("NAME", f"{path} exists", "a new name", "keys are never overwritten", code="exists") from None
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
