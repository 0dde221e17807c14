"""Ed25519 signatures of bundles and deltas: keys in PEM, as openssl reads and writes them.

What is signed are the bytes of ``manifest.json``, which holds the SHA-256 of every other file. The signature is
detached, 64 bytes in ``manifest.sig``, and the signer's public key lies beside it in ``manifest.pub.pem``: it says who
claims to have signed, and is trusted only where it is one of the keys the user named. Of a delta
(``ecgfed.exports.device.delta``) the header is signed, which holds the public key.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecgfed.base.errors import BundleError, EcgfedError, OptionError, param
from ecgfed.base.extras import is_installed, require
from ecgfed.base.safe_io import read_bounded
from ecgfed.exports.device.container import Container

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE, PUBLIC_KEY = "manifest.sig", "manifest.pub.pem"
SIGNATURE_BYTES = 64
#: A PEM file of one Ed25519 key has 119 bytes, and a person may write a note above it.
MOST_KEY_BYTES = 1 << 16
PACKAGE = "cryptography"


@dataclass(frozen=True)
class Signature:
    """Who signed a bundle.

    Attributes:
        key: the fingerprint of the signer's public key, ``SHA256:`` and 64 hexadecimal digits.
        verified: whether the signature was checked and holds; False where the package for it is not installed.
        trusted: whether the key is one of those the user named.
    """

    key: str
    verified: bool
    trusted: bool

    def as_json(self) -> dict[str, Any]:
        """Return it for ``RECORD.json``."""
        return {"key": self.key, "verified": self.verified, "trusted": self.trusted}


class Signer:
    """A private key that signs; raises OptionError for a file that holds none."""

    def __init__(self, path: Path | str) -> None:
        require(PACKAGE, "signing")
        self._key = _private_key(Path(path))

    def files(self, manifest: bytes) -> dict[str, bytes]:
        """Return the files that sign a manifest: the signature and the public key, by name."""
        return {SIGNATURE: self.sign(manifest), PUBLIC_KEY: _public_pem(self._key.public_key())}

    @property
    def public_key(self) -> bytes:
        """The public key, 32 bytes (RFC 8032)."""
        return bytes(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return a message's signature, 64 bytes."""
        return bytes(self._key.sign(message))


def fingerprint(key: "Ed25519PublicKey") -> str:
    """Return ``SHA256:`` and the digest of a public key's DER (SubjectPublicKeyInfo)."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"SHA256:{hashlib.sha256(der).hexdigest()}"


def _public_pem(key: "Ed25519PublicKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def _private_key(path: Path, parameter: str = "sign") -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    option = f"{param(parameter)} {path}" if parameter else str(path)
    expected = "an Ed25519 private key in PEM (PKCS 8), without a passphrase"
    action = "make one with 'ecgfed keys new NAME'"
    data = read_bounded(path, MOST_KEY_BYTES, OptionError, option)
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError:
        raise OptionError(option, "is locked by a passphrase", expected, action) from None
    except Exception:  # the package raises ValueError and kinds of its own
        problem = "is a public key" if b"PUBLIC KEY" in data else "holds no private key"
        raise OptionError(option, problem, expected, action) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise OptionError(option, f"is a key of another kind ({type(key).__name__})", expected, action)
    return key


def read_public_key(data: bytes, where: object, error: type[EcgfedError]) -> "Ed25519PublicKey":
    """Read an Ed25519 public key from PEM (SubjectPublicKeyInfo); raises ``error`` with one line."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    expected = "an Ed25519 public key in PEM"
    if b"PRIVATE KEY" in data:
        raise error(where, "is a private key", expected, "name its .pub.pem, and keep the private one to yourself")
    try:
        key = load_pem_public_key(data)
    except Exception:  # the package raises ValueError and kinds of its own
        raise error(where, "holds no public key", expected) from None
    if not isinstance(key, Ed25519PublicKey):
        raise error(where, f"is a key of another kind ({type(key).__name__})", expected)
    return key


def trusted_keys(paths: Path | str | Sequence[Path | str]) -> tuple["Ed25519PublicKey", ...]:
    """Read the public keys a user trusts, one file or several; raises OptionError, MissingExtraError."""
    require(PACKAGE, "checking a signature")
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    if not files:
        raise OptionError("trusted", "names no key", "one or more public keys", code="missing")
    keys = []
    for file in files:
        option = f"{param('trusted')} {file}"
        keys.append(read_public_key(read_bounded(Path(file), MOST_KEY_BYTES, OptionError, option), option, OptionError))
    return tuple(keys)


def check_signature(
    files: Container, manifest: bytes, trusted: Path | str | Sequence[Path | str] | None = None
) -> Signature | None:
    """Check who signed a bundle.

    Args:
        files: the bundle's.
        manifest: the bytes of its manifest, as they were read.
        trusted: the public keys' files that the user trusts; None: any key, and no signature too.

    Returns:
        The signature, or None for a bundle that is not signed.

    Raises:
        BundleError: a signature that does not hold; with ``trusted``, none, or that of another key.
        OptionError: a trusted key that cannot be read.
        MissingExtraError: with ``trusted``, where the package for it is not installed.
    """
    keys = None if trusted is None else trusted_keys(trusted)
    folder = files.path
    if not files.holds(SIGNATURE):
        if keys is not None:
            problem = "is not signed"
            raise BundleError(folder, problem, f"a bundle signed by a key of {param('trusted')}", code="untrusted")
        return None
    signature, pem = files.read(SIGNATURE, SIGNATURE_BYTES), files.read(PUBLIC_KEY, MOST_KEY_BYTES)
    if not is_installed(PACKAGE):  # the base install: say who claims it, and that nobody checked
        match = re.search(rb"-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----", pem)
        try:
            der = base64.b64decode(b"".join(match[1].split()) if match else b"", validate=True)
        except ValueError:
            der = b""
        return Signature(
            (f"SHA256:{hashlib.sha256(der).hexdigest()}" if der else "unreadable"), verified=False, trusted=False
        )
    problem, expected = "is not the manifest's signature", "that of the key in manifest.pub.pem"
    invalid = BundleError(folder / SIGNATURE, problem, expected, "ask for the bundle again")
    return _verified(read_public_key(pem, folder / PUBLIC_KEY, BundleError), signature, manifest, keys, folder, invalid)


def check_message(
    path: Path, message: bytes, signature: bytes, public_key: bytes, trusted: Path | str | Sequence[Path | str] | None
) -> Signature:
    """Check the signature of a message that names its signer's public key (32 bytes), as a delta's header does.

    Raises:
        BundleError: the signature does not hold; with ``trusted``, it is that of another key.
        OptionError: a trusted key that cannot be read.
        MissingExtraError: the package for it is not installed.
    """
    require(PACKAGE, "checking a signature")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    keys = None if trusted is None else trusted_keys(trusted)
    invalid = BundleError(path, "has a signature that does not hold", "that of the key it names", "ask for it again")
    return _verified(Ed25519PublicKey.from_public_bytes(public_key), signature, message, keys, path, invalid)


def _verified(
    signer: "Ed25519PublicKey",
    signature: bytes,
    message: bytes,
    keys: Sequence["Ed25519PublicKey"] | None,
    where: Path,
    invalid: BundleError,
) -> Signature:
    """Return the signature if it holds (else raise ``invalid``) and, with ``keys``, is by one of them."""
    from cryptography.exceptions import InvalidSignature

    try:
        signer.verify(signature, message)
    except InvalidSignature:
        raise invalid from None
    name = fingerprint(signer)
    known = [fingerprint(key) for key in keys or ()]
    if keys is not None and name not in known:
        actual = f"is signed by {name}"
        raise BundleError(where, actual, f"{' or '.join(known)}, of {param('trusted')}", code="untrusted")
    return Signature(name, verified=True, trusted=keys is not None)


def generate() -> tuple[bytes, bytes, str]:
    """Make a key; return its private and its public half in PEM, and the fingerprint."""
    require(PACKAGE, "making a key")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret, _public_pem(key.public_key()), fingerprint(key.public_key())


def key_of(path: Path | str) -> str:
    """Return the fingerprint of a public key, or of a private key's public half; raises OptionError."""
    require(PACKAGE, "reading a key")
    data = read_bounded(Path(path), MOST_KEY_BYTES, OptionError, path)
    if b"PRIVATE KEY" in data:
        return fingerprint(_private_key(Path(path), "").public_key())
    return fingerprint(read_public_key(data, path, OptionError))
