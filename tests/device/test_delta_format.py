"""The delta of docs/updates.md, read by the page's table alone, and its lines in C."""

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from mcu_sources import STRICT, tool

from ecgfed.exports.device.delta import ANY, Kind, applied, make_delta, read_delta, tag_of
from ecgfed.exports.device.signatures import Signer

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "updates.md").read_text("utf-8")
#: RFC 8032, section 7.1, test 1.
SECRET = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
BASE = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,"


def block(language: str) -> str:
    """The page's one block of a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def example() -> bytes:
    """The bytes of the page's example."""
    lines = [line.split() for line in block("hex").splitlines()]
    data = b"".join(bytes.fromhex("".join(words)) for _, *words in lines)
    assert [int(at, 16) for at, *_ in lines] == list(range(0, len(data), 16))
    return data


def fields(data: bytes) -> dict[str, bytes]:
    """Cut a header by the first table of the page's section on the file."""
    table = PAGE.partition("## The file")[2].partition("The payload is")[0]
    rows = re.findall(r"^\| (\d+) \|(?: (\d+))? \| ([^|]*) \|$", table, re.MULTILINE)
    ends = [int(at) for at, _, _ in rows][1:]
    assert [int(at) + int(size) for at, size, _ in rows[:-1]] == ends
    return {name.partition(":")[0]: data[int(at) : int(at) + int(size)] for at, size, name in rows[:-1]}


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def test_the_example_is_what_the_table_says() -> None:
    data = example()
    header, payload = fields(data), data[392:]
    result = BASE[:40] + b"NEW!" + BASE[44:]
    assert header["magic"] == b"ECGFEDUP"
    names = ("version of the format", "kind of image", "size of the header, signature included", "counter")
    assert [number(header[name]) for name in names] == [1, 2, 392, 1]
    assert (number(header["size of the base"]), number(header["size of the result"])) == (64, 64)
    assert number(header["size of the payload"]) == len(payload) == 28
    assert header["device"] == bytes(32)
    assert header["patient"] == hashlib.sha512(b"p1").digest()[:32]
    for name, content in (("base", BASE), ("result", result), ("payload", payload)):
        assert header[f"SHA-512 of the {name}"] == hashlib.sha512(content).digest()
    assert header["the signer's Ed25519 public key"].hex() == PUBLIC
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(PUBLIC))
    key.verify(header["Ed25519 signature (RFC 8032) of bytes 0..327"], data[:328])
    made, at = b"", 0
    for _ in range(number(header["number of instructions"])):
        start, copied, new = (number(payload[at + i : at + i + 4]) for i in (0, 4, 8))
        made += BASE[start : start + copied] + payload[at + 12 : at + 12 + new]
        at += 12 + new
    assert (made, at) == (result, len(payload))
    assert data[0x188:0x194] == payload[:12]


def test_ecgfed_writes_and_reads_the_example(tmp_path: Path) -> None:
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SECRET))
    (tmp_path / "key.pem").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    result = BASE[:40] + b"NEW!" + BASE[44:]
    tags = {"device": ANY, "patient": tag_of("p1")}
    made = make_delta(BASE, result, kind=Kind.MCU, counter=1, signer=Signer(tmp_path / "key.pem"), **tags)
    assert made == example()
    (tmp_path / "example.delta").write_bytes(made)
    delta = read_delta(tmp_path / "example.delta")
    assert delta.check().verified
    assert applied(delta, BASE, tmp_path) == result


@pytest.mark.mcu
def test_the_lines_on_the_page_compile(tmp_path: Path) -> None:
    c = ROOT / "ecgfed" / "exports" / "mcu" / "c"
    (tmp_path / "model.h").write_text(
        "#define ECGFED_MAX_CLASSES 2\n#define ECGFED_FLOATS_FIRST 1\n#define ECGFED_FLOATS_SECOND 1\n"
        "#define ECGFED_BYTES 1\n"
    )
    (tmp_path / "lines.c").write_text(block("c"))
    flags = [*STRICT, f"-I{c}", f"-I{tmp_path}", "-fsyntax-only"]
    subprocess.run([tool("gcc"), *flags, str(tmp_path / "lines.c")], check=True)
