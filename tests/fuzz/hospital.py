"""Mutations that know hospital formats: SCP-ECG, ISHNE, DICOM, HL7 aECG; and SCP's checksums made true again."""

import re
import struct
from pathlib import Path
from random import Random

import hospital_files

from .plain import EXTREMES, NAMES, Mutation, encoded, put

_WORDS = (0, 1, 2, 255, 256, 0x7FFF, 0x8000, 0xFFFF)
_LONGS = (0, 1, 521, 522, 523, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
#: ISHNE's numbers before the samples: offset, bytes.
_ISHNE = {"text size": (10, 4), "samples": (14, 4), "text offset": (18, 4), "data offset": (22, 4), "version": (26, 2),
          "sex": (128, 2), "birth year": (136, 2), "month": (140, 2), "hour": (150, 2), "leads": (156, 2),
          "lead code": (158, 2), "second code": (160, 2), "resolution": (206, 2), "second resolution": (208, 2),
          "pacemaker": (230, 2), "fs": (272, 2)}  # fmt: skip


def ishne_header(path: Path, rng: Random) -> str:
    """Write something else into a number of the fixed block, its checksum made true."""
    data = bytearray(path.read_bytes())
    name = rng.choice(sorted(_ISHNE))
    at, size = _ISHNE[name]
    value = rng.choice(_WORDS if size == 2 else _LONGS)
    data[at : at + size] = value.to_bytes(size, "little")
    seal = rng.random() < 0.7
    if seal:
        data[8:10] = struct.pack("<H", hospital_files.crc_ccitt(bytes(data[10:522])))
    put(path, bytes(data))
    return f"{name} became {value}{', sealed' if seal else ''}"


def sealed_scp(data: bytes) -> bytes:
    """Return a record of SCP-ECG, the checksum of each section that section 0 names and of the whole made true."""
    raw = bytearray(data)
    if len(raw) < 32:
        return data
    size = struct.unpack_from("<I", raw, 10)[0]
    spans = [(6, size)]
    for at in range(22, min(6 + size, len(raw)) - 9, 10):
        _, length, index = struct.unpack_from("<HII", raw, at)
        spans.append((index - 1, length))
    for start, length in spans:
        if start >= 6 and 16 <= length <= len(raw) - start:
            crc = hospital_files.crc_ccitt(bytes(raw[start + 2 : start + length]))
            raw[start : start + 2] = struct.pack("<H", crc)
    raw[:2] = struct.pack("<H", hospital_files.crc_ccitt(bytes(raw[2:])))
    return bytes(raw)


def scp_numbers(path: Path, rng: Random) -> str:
    """Write something else into a number of a section's head or first fields."""
    data = bytearray(path.read_bytes())
    starts = [22 + 10 * number for number in range(12)]
    for at in starts[1:]:
        _, length, index = struct.unpack_from("<HII", data, at)
        starts += [index - 1 + offset for offset in (2, 4, 16, 17, 18, 20, 21, 22, 26)] if length else []
    at, size = rng.choice(starts), rng.choice((1, 2, 4))
    value = rng.choice((0, 1, 255)) if size == 1 else rng.choice(_WORDS if size == 2 else _LONGS)
    data[at : at + size] = value.to_bytes(size, "little")
    put(path, bytes(data))
    return f"{size} bytes at byte {at} became {value}"


def dicom_element(path: Path, rng: Random) -> str:
    """Write something else into an element of a list: its length, or its value."""
    data = bytearray(path.read_bytes())
    tags = [b"\x3a\x00\x05\x00", b"\x3a\x00\x10\x00", b"\x3a\x00\x1a\x00", b"\x3a\x00\x00\x02", b"\x3a\x00\x10\x02",
            b"\x3a\x00\x11\x02", b"\x3a\x00\x12\x02", b"\x3a\x00\x13\x02", b"\x3a\x00\x08\x02", b"\x00\x54\x00\x01",
            b"\x00\x54\x04\x10", b"\x00\x54\x06\x10", b"\x00\x54\x10\x10", b"\x02\x00\x10\x00", b"\x02\x00\x00\x00",
            b"\x08\x00\x16\x00", b"\x10\x00\x30\x00", b"\x10\x00\x10\x00", b"\xfe\xff\x00\xe0"]  # fmt: skip
    places = [match.start() for tag in tags for match in re.finditer(re.escape(tag), bytes(data))]
    at = rng.choice(places)
    kind = rng.choice(("length", "value", "kind", "text"))
    if kind == "length":
        data[at + 6 : at + 8] = struct.pack("<H", rng.choice(_WORDS))
    elif kind == "value":
        data[at + 8 : at + 12] = struct.pack("<I", rng.choice(_LONGS))
    elif kind == "kind":
        data[at + 4 : at + 6] = rng.choice((b"SQ", b"UN", b"OW", b"DS", b"IS", b"FD", b"AT", b"??", b"\0\0", b"UC"))
    else:
        new = encoded(rng.choice((*EXTREMES, *NAMES)))[:64]
        new += b" " * (len(new) % 2)
        data[at + 6 : at + 8 + int.from_bytes(data[at + 6 : at + 8], "little")] = struct.pack("<H", len(new)) + new
    put(path, bytes(data))
    return f"{kind} of the element at byte {at}"


def xml(path: Path, rng: Random) -> str:
    """Declare a document type, go deep, repeat, or write something else into an attribute."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    kind = rng.choice(("entity", "external", "deep", "attribute", "attribute", "drop", "twice", "encoding"))
    tags = list(re.finditer(r"<(\w+)[^<>]*/>", text))
    match = rng.choice(tags) if tags else re.search(r"^", text)
    assert match is not None
    if kind in ("entity", "external"):
        body = '"&b;&b;"' if kind == "entity" else 'SYSTEM "file:///etc/passwd"'
        text = text.replace("<AnnotatedECG", f'<!DOCTYPE a [<!ENTITY b "x"><!ENTITY a {body}>]><AnnotatedECG', 1)
        text = text.replace("Anna", "&a;", 1)
    elif kind == "deep":
        text = text[: match.start()] + "<component>" * rng.choice((10, 100, 100_000)) + text[match.start() :]
    elif kind == "attribute":
        found = list(re.finditer(r'"([^"<>]*)"', text))
        one = rng.choice(found)
        new = rng.choice((*EXTREMES, *NAMES)).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        text = text[: one.start(1)] + new + text[one.end(1) :]
    elif kind == "drop":
        text = text[: match.start()] + text[match.end() :]
    elif kind == "twice":
        text = text[: match.start()] + match[0] * rng.choice((2, 1000)) + text[match.end() :]
    else:
        text = text.replace("UTF-8", rng.choice(("UTF-16", "latin-1", "cp037", "x", "utf-7", "rot13", "idna")), 1)
    put(path, text.encode("utf-8", "surrogatepass"))
    return f"{kind} at character {match.start()}"


ISHNE: list[tuple[float, Mutation]] = [(18, ishne_header)]
SCP: list[tuple[float, Mutation]] = [(18, scp_numbers)]
DICOM: list[tuple[float, Mutation]] = [(18, dicom_element)]
XML: list[tuple[float, Mutation]] = [(18, xml)]
