"""``export --delta``, ``delta show`` and ``delta apply`` of bundles: the same bytes as a full export, or one line."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Said, assert_refused, snapshot

from ecgfed.exports.device.delta import HEADER_BYTES, make_delta, tag_of
from ecgfed.exports.device.delta import Kind as DeltaKind
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.export import export
from ecgfed.tasks.keys import KeyPair, new_key

pytest.importorskip("cryptography")
Run = Callable[..., Said]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return new_key(tmp_path_factory.mktemp("keys") / "clinic")


@pytest.fixture(scope="module")
def base(fedavg_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the device has: thresholds for an accuracy of 0.9, not signed."""
    out = tmp_path_factory.mktemp("base") / "base.zip"
    export(fedavg_run, out, accuracy=0.9)
    return out


@pytest.fixture(scope="module")
def full(fedavg_run: Path, keys: KeyPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newer bundle, exported in full."""
    out = tmp_path_factory.mktemp("full") / "full.zip"
    export(fedavg_run, out, sign=keys.private)
    return out


@pytest.fixture(scope="module")
def delta(base: Path, full: Path, keys: KeyPair) -> Path:
    """For patient p1's device w17, counter 8."""
    tags = {"device": tag_of("w17"), "patient": tag_of("p1")}
    out = full.parent / "p1.delta"
    before, after = base.read_bytes(), full.read_bytes()
    out.write_bytes(make_delta(before, after, kind=DeltaKind.BUNDLE, counter=8, signer=Signer(keys.private), **tags))
    return out


def apply_line(delta: Path, base: Path, keys: KeyPair, out: Path) -> list[object]:
    own = ("--patient", "p1", "--device", "w17", "--last-counter", 7)
    return ["delta", "apply", delta, "--base", base, "--trusted", keys.public, *own, "--out", out]


def test_applied_it_is_the_full_export(
    base: Path, full: Path, delta: Path, keys: KeyPair, ecgfed: Run, tmp_path: Path
) -> None:
    for name in ("new.zip", "new"):
        said = ecgfed(*apply_line(delta, base, keys, tmp_path / name))
        assert said.code == 0, said.err
    assert (tmp_path / "new.zip").read_bytes() == full.read_bytes()
    said = ecgfed(*apply_line(delta, base, keys, tmp_path / "new.zip"))
    assert_refused(said, "new.zip", "--overwrite")
    back = tmp_path / "back.delta"
    line = ("export", tmp_path / "new", "--sign", keys.private, "--counter", 9, "--out", back)
    assert ecgfed(*line, "--delta", full).code == 0  # the folder holds the same files
    shown = json.loads(ecgfed("delta", "show", back, "--json").out)
    assert shown["base"] == shown["result"]
    assert shown["new_bytes"] == 0


def test_the_command_exports_the_run_and_writes_the_delta(
    fedavg_run: Path, base: Path, full: Path, delta: Path, keys: KeyPair, ecgfed: Run, tmp_path: Path
) -> None:
    out = tmp_path / "made.delta"
    line = ("export", fedavg_run, "--delta", base, "--sign", keys.private, "--counter", 8, "--out", out)
    said = ecgfed(*line, "--patient", "p1", "--device", "w17")
    assert said.code == 0, said.err
    assert out.read_bytes() == delta.read_bytes()
    assert len(delta.read_bytes()) < len(full.read_bytes()) / 2  # weights are copied
    assert_refused(ecgfed(*line), "made.delta", "--overwrite")
    assert_refused(ecgfed(*line, "--overwrite", "--patient", "p9"), "p9", "p1, p2, p3, p4")
    assert out.read_bytes() == delta.read_bytes()


def test_what_is_shown(base: Path, full: Path, delta: Path, keys: KeyPair, ecgfed: Run) -> None:
    shown = json.loads(ecgfed("delta", "show", delta, "--json", "--trusted", keys.public).out)
    assert (shown["target"], shown["counter"], shown["bytes"]) == ("bundle", 8, delta.stat().st_size)
    for name, file in (("base", base), ("result", full)):
        data = file.read_bytes()
        assert shown[name] == {"bytes": len(data), "sha512": hashlib.sha512(data).hexdigest()}
    assert shown["patient"] == hashlib.sha512(b"p1").hexdigest()[:64]
    assert shown["signature"] == {"key": keys.key, "verified": True, "trusted": True}
    said = ecgfed("delta", "show", delta)
    assert keys.key in said.out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--patient", "p2"), ("one patient", "p2", "--patient")),
        (("--device", "w18"), ("one device", "w18", "--device")),
        (("--last-counter", 8), ("counter 8", "not above 8")),
        (("--last-counter", -1), ("--last-counter",)),
    ],
)
def test_what_it_is_not_applied_to(
    base: Path,
    delta: Path,
    keys: KeyPair,
    ecgfed: Run,
    tmp_path: Path,
    more: tuple[object, ...],
    words: tuple[str, ...],
) -> None:
    said = ecgfed(*apply_line(delta, base, keys, tmp_path / "new"), *more)
    assert_refused(said, *words)
    assert not list(tmp_path.iterdir())


def test_another_base_and_another_key(
    base: Path, full: Path, delta: Path, keys: KeyPair, ecgfed: Run, tmp_path: Path
) -> None:
    other = new_key(tmp_path / "other")
    out = tmp_path / "new"
    assert_refused(ecgfed(*apply_line(delta, full, keys, out)), "full.zip", "SHA-512")
    assert_refused(ecgfed(*apply_line(delta, base, other, out)), keys.key, other.key)
    assert_refused(ecgfed(*apply_line(delta, tmp_path, keys, out)), "manifest.json or model.img")
    assert not out.exists()


@pytest.mark.parametrize("at", [0, 7, 8, 10, 12, 16, 24, 28, 32, 36, 40, 104, 168, 232, 300, 327, 328, 391, 392, 450])
def test_a_changed_byte_is_noticed(
    base: Path, delta: Path, keys: KeyPair, ecgfed: Run, tmp_path: Path, at: int
) -> None:
    data = bytearray(delta.read_bytes())
    data[at] ^= 1
    (tmp_path / "bad.delta").write_bytes(data)
    assert_refused(ecgfed("delta", "show", tmp_path / "bad.delta"), "bad.delta")
    assert_refused(ecgfed(*apply_line(tmp_path / "bad.delta", base, keys, tmp_path / "new")), "bad.delta")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.delta"]


@pytest.mark.parametrize("size", [0, 7, 8, 100, HEADER_BYTES - 1, HEADER_BYTES, -1])
def test_a_part_of_it_is_noticed(delta: Path, ecgfed: Run, tmp_path: Path, size: int) -> None:
    (tmp_path / "bad.delta").write_bytes(delta.read_bytes()[:size])
    assert_refused(ecgfed("delta", "show", tmp_path / "bad.delta"), "bad.delta")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--counter", 1), ("--sign", "--delta")),
        (("--sign", "KEY"), ("--counter", "--delta")),
        (("--sign", "KEY", "--counter", 0), ("--counter", "1 to")),
        (("--sign", "KEY", "--counter", 1, "--target", "mcu"), ("--target bundle", "C sources")),
        (("--sign", "KEY", "--counter", 1, "--fs", 250), ("--fs", "--target mcu")),
    ],
)
def test_options_that_do_not_go_together(
    fedavg_run: Path,
    base: Path,
    keys: KeyPair,
    ecgfed: Run,
    tmp_path: Path,
    options: tuple[object, ...],
    words: list[str],
) -> None:
    typed = [keys.private if one == "KEY" else one for one in options]
    assert_refused(ecgfed("export", fedavg_run, "--delta", base, *typed, "--out", tmp_path / "out"), *words)
    assert not list(tmp_path.iterdir())


def test_an_exported_bundle_takes_no_options_of_an_export(
    base: Path, full: Path, keys: KeyPair, ecgfed: Run, tmp_path: Path
) -> None:
    line = ("export", full, "--delta", base, "--sign", keys.private, "--counter", 1, "--out", tmp_path / "out")
    assert_refused(ecgfed(*line, "--accuracy", 0.9), "--accuracy", "exported before")
    assert not list(tmp_path.iterdir())


def test_options_of_a_delta_without_one(fedavg_run: Path, ecgfed: Run, tmp_path: Path) -> None:
    for option, value in (("--counter", 1), ("--device", "w17")):
        said = ecgfed("export", fedavg_run, option, value, "--out", tmp_path / "out")
        assert_refused(said, option, "--delta")
    assert snapshot(tmp_path) == {}
