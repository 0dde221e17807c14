"""Signed bundles: with keys of ours and of openssl's, and both check what the other signed."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import Command, assert_refused, copied, exported, snapshot, traced_once  # noqa: F401

from ecgfed.base.errors import BundleError, MissingExtraError, OptionError
from ecgfed.core.runs.run import open_run
from ecgfed.device import open_bundle
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.packing import replacing_bundle
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.keys import KeyPair, key_of, new_key
from ecgfed.tasks.predict import predict

OLD = Path(__file__).parent.parent / "data" / "version-0.1"
RECORD = OLD / "recording" / "demo01"
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


def _openssl(*arguments: object) -> bytes:
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=True).stdout


def _sign(bundle: Path, pair: KeyPair) -> None:
    for name, data in Signer(pair.private).files((bundle / "manifest.json").read_bytes()).items():
        (bundle / name).write_bytes(data)


@pytest.fixture
def pair(tmp_path: Path) -> KeyPair:
    return new_key(tmp_path / "mine")


@pytest.fixture
def signed(local_run: Path, tmp_path: Path, pair: KeyPair) -> Path:
    bundle = copied(exported(local_run), tmp_path / "bundle")
    _sign(bundle, pair)
    return bundle


def test_a_new_key_is_its_owners_alone_and_never_written_over(tmp_path: Path) -> None:
    pair = new_key(tmp_path / "mine")
    assert (pair.private, pair.public) == (tmp_path / "mine.pem", tmp_path / "mine.pub.pem")
    assert pair.private.stat().st_mode & 0o777 == 0o600
    assert key_of(pair.private) == key_of(pair.public) == pair.key
    before = snapshot(tmp_path)
    for again in ("mine", "mine.pem"):
        with pytest.raises(OptionError, match="exists"):
            new_key(tmp_path / again)
    pair.private.unlink()
    with pytest.raises(OptionError, match=r"mine\.pub\.pem exists"):
        new_key(tmp_path / "mine")
    assert snapshot(tmp_path) == {name: data for name, data in before.items() if name != "mine.pem"}
    assert new_key(tmp_path / "other").key != pair.key


def test_a_wide_umask_does_not_open_a_private_key(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert new_key(tmp_path / "mine").private.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_one_of_several_keys_is_enough(signed: Path, pair: KeyPair, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other")
    assert open_bundle(signed, trusted=[other.public, pair.public]).signature
    with pytest.raises(BundleError, match=rf"is signed by {pair.key}; expected {other.key}, of trusted"):
        open_bundle(signed, trusted=[other.public])


def test_a_signed_bundle_says_who_signed_it_in_every_form(signed: Path, pair: KeyPair, tmp_path: Path) -> None:
    packed, other = tmp_path / "b.zip", new_key(tmp_path / "other")
    with replacing_bundle(packed) as folder:
        shutil.copytree(signed, folder, dirs_exist_ok=True)
    for bundle in (signed, packed):
        for trusted in (None, pair.public):
            found = open_bundle(bundle, trusted=trusted).signature
            assert found is not None
            assert found.as_json() == {"key": pair.key, "verified": True, "trusted": trusted is not None}
        with pytest.raises(BundleError, match=rf"is signed by {pair.key}"):
            open_bundle(bundle, trusted=other.public)
    (signed / "manifest.sig").write_bytes(b"\0" * 64)
    with replacing_bundle(packed, overwrite=True) as folder:
        shutil.copytree(signed, folder, dirs_exist_ok=True)
    with pytest.raises(BundleError, match=r"b\.zip/manifest\.sig: is not the manifest's signature"):
        open_bundle(packed)


def test_an_unsigned_bundle_is_refused_where_one_asks_for_a_key(local_run: Path, pair: KeyPair) -> None:
    assert open_bundle(exported(local_run)).signature is None
    with pytest.raises(BundleError, match="is not signed; expected a bundle signed by a key of trusted"):
        open_bundle(exported(local_run), trusted=pair.public)


@pytest.mark.parametrize("trust", [True, False])
def test_any_change_of_a_signed_manifest_is_refused(signed: Path, pair: KeyPair, trust: bool) -> None:
    """A blank is enough: its digest is in order, the signature is of the bytes."""
    with (signed / "manifest.json").open("a") as stream:
        stream.write(" ")
    with pytest.raises(BundleError, match=r"manifest\.sig: is not the manifest's signature"):
        open_bundle(signed, trusted=pair.public if trust else None)


@pytest.mark.parametrize("name", ["manifest.sig", "manifest.pub.pem"])
@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"x" * 65])
def test_a_signature_that_is_none_is_refused(signed: Path, name: str, data: bytes) -> None:
    (signed / name).write_bytes(data)
    with pytest.raises(BundleError, match=rf"{name}: "):
        open_bundle(signed)


def test_a_stranger_who_signs_anew_is_found_by_those_who_ask(signed: Path, pair: KeyPair, tmp_path: Path) -> None:
    stranger = new_key(tmp_path / "stranger")
    _sign(signed, stranger)
    opened = open_bundle(signed).signature
    assert opened is not None
    assert opened.key == stranger.key
    with pytest.raises(BundleError, match=f"is signed by {stranger.key}"):
        open_bundle(signed, trusted=pair.public)


def test_a_changed_file_of_a_signed_bundle_is_refused(signed: Path, pair: KeyPair) -> None:
    shutil.copy(signed / "patients" / "p2.onnx", signed / "patients" / "p1.onnx")
    with pytest.raises(BundleError, match=r"p1\.onnx: was changed"):
        open_bundle(signed, trusted=pair.public)


def test_a_link_as_signature_is_refused(signed: Path, tmp_path: Path) -> None:
    shutil.move(signed / "manifest.sig", tmp_path / "outside")
    (signed / "manifest.sig").symlink_to(tmp_path / "outside")
    with pytest.raises(BundleError, match="is a link out of its folder"):
        open_bundle(signed)


@needs_openssl
def test_openssl_checks_what_we_signed(signed: Path, pair: KeyPair, tmp_path: Path) -> None:
    files = ("-in", signed / "manifest.json", "-sigfile", signed / "manifest.sig")
    for public in (pair.public, signed / "manifest.pub.pem"):
        assert b"Verified Successfully" in _openssl("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", *files)
    der = _openssl("pkey", "-pubin", "-in", pair.public, "-outform", "DER")
    assert pair.key == f"SHA256:{hashlib.sha256(der).hexdigest()}"


@needs_openssl
def test_a_key_and_a_signature_of_openssls(local_run: Path, tmp_path: Path) -> None:
    bundle, key, public = copied(exported(local_run), tmp_path / "bundle"), tmp_path / "k.pem", tmp_path / "k.pub.pem"
    _openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    _openssl("pkey", "-in", key, "-pubout", "-out", public)
    manifest, target = bundle / "manifest.json", bundle / "manifest.sig"
    _openssl("pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", manifest, "-out", target)
    shutil.copy(public, bundle / "manifest.pub.pem")
    assert target.read_bytes() == Signer(key).files(manifest.read_bytes())["manifest.sig"]
    signature = open_bundle(bundle, trusted=public).signature
    assert signature is not None
    assert signature.trusted


@needs_openssl
def test_keys_of_another_kind_are_refused(tmp_path: Path, signed: Path) -> None:
    locked, rsa, rsa_public = tmp_path / "locked.pem", tmp_path / "rsa.pem", tmp_path / "rsa.pub.pem"
    _openssl("genpkey", "-algorithm", "ed25519", "-aes-256-cbc", "-pass", "pass:secret", "-out", locked)
    _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", rsa)
    _openssl("pkey", "-in", rsa, "-pubout", "-out", rsa_public)
    with pytest.raises(OptionError, match="is locked by a passphrase"):
        Signer(locked)
    with pytest.raises(OptionError, match="is a key of another kind"):
        Signer(rsa)
    with pytest.raises(OptionError, match="is a key of another kind"):
        open_bundle(signed, trusted=rsa_public)


def test_files_that_are_no_keys_are_refused(tmp_path: Path, signed: Path, pair: KeyPair) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_bytes(b"junk")
    for file, match in ((junk, "holds no private key"), (pair.public, "is a public key"), (tmp_path, "regular file")):
        with pytest.raises(OptionError, match=match):
            Signer(file)
    for file, match in (
        (junk, "holds no public key"),
        (pair.private, "is a private key"),
        (tmp_path / "x", "not exist"),
    ):
        with pytest.raises(OptionError, match=match):
            open_bundle(signed, trusted=file)
    with pytest.raises(OptionError, match="names no key"):
        open_bundle(signed, trusted=[])


def test_without_the_package_a_signature_is_told_and_not_believed(
    signed: Path, pair: KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base install: it predicts, says whose key is claimed, and refuses only where one asks for trust."""
    monkeypatch.setattr("ecgfed.base.extras.find_spec", lambda name: None)
    found = open_bundle(signed).signature
    assert found is not None
    assert found.as_json() == {"key": pair.key, "verified": False, "trusted": False}
    with pytest.raises(MissingExtraError, match=r"cryptography: .* pip install 'ecgfed\[sign\]'"):
        open_bundle(signed, trusted=pair.public)
    with pytest.raises(MissingExtraError, match=r"ecgfed\[sign\]"):
        Signer(pair.private)


def test_an_unsigned_bundle_opens_without_loading_the_package(local_run: Path) -> None:
    code = "import sys\nfrom ecgfed.device import open_bundle\nopen_bundle(sys.argv[1])\n"
    code += "print('cryptography' in sys.modules)"
    command = [sys.executable, "-c", code, str(exported(local_run))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "False"


@pytest.mark.usefixtures("traced_once")
def test_export_signs_and_predict_asks(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    said = ecgfed("keys", "new", tmp_path / "mine", "--json")
    assert said.code == 0, said.err
    key = json.loads(said.out)["key"]
    assert re.fullmatch(r"SHA256:[0-9a-f]{64}", key)
    assert ecgfed("keys", "show", tmp_path / "mine.pub.pem").out.split() == [key]
    bundle = tmp_path / "bundle"
    said = ecgfed("export", fedavg_run, "--out", bundle, "--sign", tmp_path / "mine.pem", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["signature"]["key"] == key
    command = ("predict", bundle, records / "p1", "--out")
    said = ecgfed(*command, tmp_path / "a", "--trusted", tmp_path / "mine.pub.pem")
    assert said.code == 0, said.err
    assert f"Bundle signed by {key}, and trusted." in " ".join((said.out + said.err).split())
    told = json.loads((tmp_path / "a" / "p1.json").read_text())
    assert told["signature"] == {"key": key, "verified": True, "trusted": True}
    new_key(tmp_path / "other")
    refused = ecgfed(*command, tmp_path / "b", "--trusted", tmp_path / "other.pub.pem")
    assert_refused(refused, "is signed by", "--trusted")
    both = ("--trusted", tmp_path / "other.pub.pem", "--trusted", tmp_path / "mine.pub.pem")
    assert ecgfed(*command, tmp_path / "c", *both).code == 0
    (bundle / "manifest.sig").unlink()
    assert_refused(ecgfed(*command, tmp_path / "b", "--trusted", tmp_path / "mine.pub.pem"), "is not signed")
    assert ecgfed(*command, tmp_path / "d").code == 0
    assert json.loads((tmp_path / "d" / "p1.json").read_text())["signature"] is None
    assert not (tmp_path / "b").exists()


def test_a_key_that_is_none_is_refused_before_the_work(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    said = ecgfed("export", fedavg_run, "--out", tmp_path / "bundle", "--sign", tmp_path / "none.pem")
    assert_refused(said, "--sign", "does not exist")
    assert list(tmp_path.iterdir()) == []


def test_python_asks_of_an_opened_bundle_too(signed: Path, pair: KeyPair, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other")
    opened = open_bundle(signed)
    with pytest.raises(BundleError, match=r"of trusted"):
        predict(opened, RECORD, peaks="annotated", trusted=other.public)
    found = predict(opened, RECORD, peaks="annotated", trusted=pair.public)
    assert found.metadata["signature"]["trusted"] is True


@pytest.mark.usefixtures("traced_once")
def test_a_signed_export_is_the_same_every_time(fedavg_run: Path, tmp_path: Path, pair: KeyPair) -> None:
    run = open_run(fedavg_run)
    for name in ("one", "two"):
        export_bundle(run, run.cohort(), run.state(), tmp_path / name, signer=Signer(pair.private))
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")
    assert {"manifest.sig", "manifest.pub.pem"} <= set(snapshot(tmp_path / "one"))
    assert len(snapshot(tmp_path / "one")["manifest.sig"]) == 64


def test_a_personal_bundle_is_signed_too(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    assert ecgfed("keys", "new", tmp_path / "mine").code == 0
    made = ("personalize", fedavg_run, "--record", records / "p1", "--minutes", 0.5, "--patient", "new")
    said = ecgfed(*made, "--out", tmp_path / "bundle", "--sign", tmp_path / "mine.pem", "--quiet")
    assert said.code == 0, said.err
    trusted = open_bundle(tmp_path / "bundle", trusted=tmp_path / "mine.pub.pem")
    assert trusted.signature is not None
    assert trusted.signature.verified
    said = ecgfed(*made, "--out", tmp_path / "other", "--sign", tmp_path / "none.pem")
    assert (said.code, (tmp_path / "other").exists()) == (2, False)
