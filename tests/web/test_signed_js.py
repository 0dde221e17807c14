"""Signed bundles in JavaScript: Python's keys and signatures, in Node and in Chromium."""

import base64
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from models_in_js import WHERE, in_models, signature
from node_runtime import Refused
from support import copied, exported

from ecgfed.exports.bundles.packing import replacing_bundle
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.keys import KeyPair, new_key

pytestmark = pytest.mark.browser


@pytest.fixture
def pair(tmp_path: Path) -> KeyPair:
    return new_key(tmp_path / "mine")


def sign(bundle: Path, pair: KeyPair) -> Path:
    for name, data in Signer(pair.private).files((bundle / "manifest.json").read_bytes()).items():
        (bundle / name).write_bytes(data)
    return bundle


@pytest.fixture
def signed(local_run: Path, tmp_path: Path, pair: KeyPair) -> Path:
    return sign(copied(exported(local_run), tmp_path / "bundle"), pair)


def changed(bundle: Path, to: Path, name: str, data: bytes) -> Path:
    (copied(bundle, to) / name).write_bytes(data)
    return to


@pytest.mark.parametrize("where", WHERE)
def test_who_signed_is_said_and_who_did_not_is_refused(
    where: str, signed: Path, pair: KeyPair, local_run: Path, tmp_path: Path
) -> None:
    other, unsigned = new_key(tmp_path / "other"), exported(local_run)
    mine, theirs = (key.public.read_text() for key in (pair, other))
    jobs = [
        signature(signed, [theirs, mine]),
        signature(signed, [theirs]),
        signature(unsigned, [mine]),
        signature(unsigned),
    ]
    trusted, stranger, refused, free = in_models(where, *jobs)
    assert trusted == {"key": pair.key, "verified": True, "trusted": True}
    assert isinstance(stranger, Refused)
    assert f"is signed by {pair.key}; expected {other.key}, of trusted" in stranger.line
    assert isinstance(refused, Refused)
    assert "is not signed; expected a bundle signed by a key of trusted" in refused.line
    assert free is None


def test_a_signature_is_checked_where_nobody_asks(signed: Path, pair: KeyPair, tmp_path: Path) -> None:
    packed = tmp_path / "b.zip"
    with replacing_bundle(packed) as folder:
        shutil.copytree(signed, folder, dirs_exist_ok=True)
    found = in_models("node", signature(signed), signature(packed), signature(packed, [pair.public.read_text()]))
    assert found[:2] == [{"key": pair.key, "verified": True, "trusted": False}] * 2
    assert found[2]["trusted"] is True


def spoilt(signed: Path, folder: Path) -> dict[str, Path]:
    """Return signed bundles that must not open, and what is said of each."""
    pem = (signed / "manifest.pub.pem").read_bytes()
    manifest = (signed / "manifest.json").read_bytes()
    rsa = base64.encodebytes(b"0" * 44)
    names = iter(f"{number}" for number in range(99))

    def made(name: str, data: bytes) -> Path:
        return changed(signed, folder / next(names), name, data)

    return {
        "manifest.sig: is not the manifest's signature": made("manifest.json", manifest + b" "),
        "is not the manifest's signature; expected that of the key": made("manifest.sig", b"\0" * 64),
        "manifest.sig: is not the": made("manifest.sig", b""),
        "sig: is not the manifest's signature": made("manifest.sig", b"x" * 65),
        "manifest.pub.pem: holds no public key": made("manifest.pub.pem", b"x"),
        "manifest.pub.pem: is a key of another kind": made(
            "manifest.pub.pem", b"-----BEGIN PUBLIC KEY-----\n" + rsa + b"-----END PUBLIC KEY-----\n"
        ),
        "manifest.pub.pem: is a private key": made("manifest.pub.pem", pem.replace(b"PUBLIC", b"PRIVATE")),
        "manifest.pub.pem: has": made("manifest.pub.pem", pem + b" " * (1 << 16)),
    }


def test_a_signature_that_does_not_hold_is_refused_in_one_line(signed: Path, tmp_path: Path) -> None:
    made = spoilt(signed, tmp_path / "spoilt")
    missing = copied(signed, tmp_path / "missing")
    (missing / "manifest.pub.pem").unlink()
    made["manifest.pub.pem: does not exist"] = missing
    for said, one in zip(made, in_models("node", *map(signature, made.values())), strict=True):
        assert isinstance(one, Refused), said
        assert said in one.line
        assert "\n" not in one.line


def test_keys_that_are_none_are_refused_in_one_line(signed: Path, pair: KeyPair) -> None:
    asked: list[tuple[Any, str]] = [
        ([], "trusted: names no key"),
        (["x"], "trusted: holds no public key"),
        ([pair.private.read_text()], "trusted: is a private key"),
    ]
    found = in_models("node", *(signature(signed, keys) for keys, _ in asked))
    for (_, said), one in zip(asked, found, strict=True):
        assert isinstance(one, Refused)
        assert said in one.line


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_what_openssl_signed_holds(local_run: Path, tmp_path: Path) -> None:
    bundle, key = copied(exported(local_run), tmp_path / "bundle"), tmp_path / "key.pem"
    for command in (
        ["genpkey", "-algorithm", "ed25519", "-out", key],
        ["pkey", "-in", key, "-pubout", "-out", bundle / "manifest.pub.pem"],
        ["pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", bundle / "manifest.json", "-out", bundle / "manifest.sig"],
    ):
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    (found,) = in_models("node", signature(bundle, [(bundle / "manifest.pub.pem").read_text()]))
    assert found["verified"]
    assert found["trusted"]
