"""The server's certificates and the sites' keys in Flower's formats: X.509 for TLS, OpenSSH keys for the nodes."""

import contextlib
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.locks import locked
from ecgfed.base.safe_io import read_bounded
from ecgfed.network.private import write_private

#: Validity of the certificates: long enough for a federation's run, with time to renew.
DAYS = 825
#: How long to wait for another process that is creating them.
LOCK_S = 30.0
CA, CERTIFICATE, KEY = "ca.crt", "server.crt", "server.key"
_MAX_BYTES = 1 << 16


def make_certificates(folder: Path, names: Sequence[str]) -> None:
    """Create a private certificate authority and the server's certificate and key, unless they exist.

    The authority's key is discarded, so no second certificate that sites would trust can be issued.

    Args:
        folder: the target folder; ``ca.crt`` goes to the sites, the other files stay here.
        names: host names and addresses by which sites reach the server; localhost is added.

    Raises:
        LockedError: another process is creating them and does not finish in time.
        StorageError: the folder cannot be written to.
    """
    if _all_exist(folder):  # a running server holds the lock
        return
    with locked(folder, wait_s=LOCK_S):  # of two simultaneous first starts, the second uses the first's certificates
        if not _all_exist(folder):
            _create(folder, names)


def _all_exist(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (CA, CERTIFICATE, KEY))


def _create(folder: Path, names: Sequence[str]) -> None:
    authority, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    now = datetime.now(UTC) - timedelta(hours=1)  # clocks of two hospitals differ
    issuer, subject = _name("ecgfed federation"), _name(names[0] if names else "localhost")
    builder = x509.CertificateBuilder().not_valid_before(now).not_valid_after(now + timedelta(days=DAYS))
    ca = (
        builder.subject_name(issuer)
        .issuer_name(issuer)
        .public_key(authority.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA384())
    )
    alternatives = list(dict.fromkeys([*names, "localhost", "127.0.0.1", "::1"]))
    server = (
        builder.subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in alternatives]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA384())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(folder / KEY, private)
    write_private(folder / CERTIFICATE, server.public_bytes(pem), mode=0o644)
    write_private(folder / CA, ca.public_bytes(pem), mode=0o644)


def check_names(folder: Path, names: Sequence[str], option: str = "name") -> None:
    """Reject a server certificate that sites would reject: a name is missing, or it has expired; raises OptionError.

    Args:
        folder: as in ``make_certificates``.
        names: the required host names and addresses.
        option: the command-line option they were given with.
    """
    file, action = folder / CERTIFICATE, f"remove {folder}, and send the new {CA} to every site"
    try:
        certificate = x509.load_pem_x509_certificate(read_bounded(file, _MAX_BYTES, StorageError))
        alternatives = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (OSError, ValueError, x509.ExtensionNotFound) as problem:
        raise StorageError(file, f"is not a server certificate ({problem!s:.100})", action=action) from problem
    for name in names:
        if _alternative(name) not in alternatives:
            known = ", ".join(str(alternative.value) for alternative in alternatives)
            raise OptionError(option, f"{name}", f"one of {known:.200}, which {file} has", action)
    if certificate.not_valid_after_utc < datetime.now(UTC):
        raise StorageError(file, f"has expired on {certificate.not_valid_after_utc:%Y-%m-%d}", action=action)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as problem:
        raise OptionError("name", f"{name!r:.100}", "a host name or an address") from problem


def make_site_key(path: Path) -> Path:
    """Create a site's key pair, unless it exists: ``path`` is private, ``path.pub`` is for the server's operator.

    Returns:
        The public key's file.

    Raises:
        OptionError: the private key cannot be used, or the public key does not belong to it.
        StorageError: the folder cannot be written to.
    """
    public = path.with_name(path.name + ".pub")
    if path.is_file():
        key = read_site_key(path)
    else:
        key = ec.generate_private_key(ec.SECP384R1())
        private_format = serialization.PrivateFormat.OpenSSH
        write_private(path, key.private_bytes(serialization.Encoding.PEM, private_format, serialization.NoEncryption()))
    text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    if not public.is_file():
        write_private(public, text + b"\n", mode=0o644)
    elif read_bounded(public, _MAX_BYTES, StorageError).split()[:2] != text.split()[:2]:  # a comment may follow
        reason = f"{public} is not the public half of {path}"
        action = f"remove {public.name}, and send the new one to the server"
        raise OptionError("key", reason, "both of one pair", action)
    return public


def read_site_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a site's private key; raises OptionError if the file is not one."""
    try:
        key = serialization.load_ssh_private_key(read_bounded(path, _MAX_BYTES, StorageError), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as problem:
        reason = f"{path} is not a private key ({problem!s:.100})"
        raise OptionError("key", reason, "OpenSSH, ECDSA, no password") from problem
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        action = "make one with ecgfed federate site"
        raise OptionError("key", f"{path} is a {type(key).__name__}", "an ECDSA key", action)
    return key


def signed(private: Path, data: bytes) -> tuple[bytes, bytes]:
    """Sign with a site's key, ECDSA with SHA-256; returns the signature and the public key (OpenSSH, one line).

    Raises:
        OptionError: the file is not a site's private key.
    """
    key = read_site_key(private)
    text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return key.sign(data, ec.ECDSA(hashes.SHA256())), text + b"\n"


def is_signed(public: Path, signature: bytes, data: bytes) -> bool:
    """Return whether a signature of ``signed`` fits; raises OptionError if the file is not a site's public key."""
    check_public_key(public)
    key = serialization.load_ssh_public_key(read_bounded(public, _MAX_BYTES, StorageError))
    try:
        key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def check_public_key(path: Path) -> None:
    """Reject a file that is not a site's public key; raises OptionError."""
    try:
        key = serialization.load_ssh_public_key(read_bounded(path, _MAX_BYTES, StorageError))
    except (OSError, ValueError, UnsupportedAlgorithm) as problem:
        raise OptionError("keys", f"{path} is not a public key ({problem!s:.100})", "a site's key.pub") from problem
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise OptionError("keys", f"{path} is a {type(key).__name__}", "an ECDSA key, as a site makes it")


def check_certificate(path: Path) -> None:
    """Reject a CA file that cannot verify a server: not a certificate, not an authority's, or expired.

    Raises:
        OptionError: naming the file and what is wrong with it.
    """
    try:
        certificate = x509.load_pem_x509_certificate(read_bounded(path, _MAX_BYTES, StorageError))
    except (OSError, ValueError) as problem:
        raise OptionError("ca", f"{path} is not a certificate ({problem!s:.100})", "the server's ca.crt") from problem
    with contextlib.suppress(x509.ExtensionNotFound, ValueError):
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            reason = f"{path} is the certificate of one server"
            raise OptionError("ca", reason, "its authority's, tls/ca.crt", "ask for that file")
    if certificate.not_valid_after_utc < datetime.now(UTC):
        expired = f"{path} has expired on {certificate.not_valid_after_utc:%Y-%m-%d}"
        raise OptionError("ca", expired, "a valid certificate", f"ask for the server's current {CA}")
