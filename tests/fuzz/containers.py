"""Mutations that know NumPy's files, zip archives of them, and safetensors."""

import io
import json
import struct
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np

from .documents import change
from .plain import NAMES, Mutation, encoded, flip_bits, put

_TYPES = ("|O", "<f8", ">f4", "<f4", "<f2", "<c8", "<i8", ">i2", "<u8", "|b1", "|S4", "<U9", "<M8[ns]", "<m8[D]",
          "|V16",
          "", "x", "<f16", "[('a', '<f4')]", "|S0", "<U1000000000")  # fmt: skip
_SHAPES = ("()", "(0,)", "(-1,)", "(1,)", "(10000000000,)", "(4611686018427387904, 4)", "(" + "9" * 5000 + ",)",
           "(1.5,)",
           "(True,)", "'x'", "None", "(1,) * 9", "(" + "1, " * 70 + ")", "(2, 3)", "(300000000,)", "((1,),)",
           "(" * 2000 + ")" * 2000, "{}", "(0, 9223372036854775807)")  # fmt: skip


def npy_header(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Return an ``.npy`` file with another head: type, shape, order, version, length, words that are none."""
    length = int.from_bytes(data[8:10], "little")
    head, body = data[10 : 10 + length].decode("latin-1"), data[10 + length :]
    kind = rng.choice(
        ("type", "type", "shape", "shape", "near", "near", "order", "version", "length", "words", "values")
    )
    if kind == "values":
        return _values(data, rng)
    what = ""
    if kind in ("type", "order", "near", "shape"):
        fields = dict(zip(("descr", "order", "shape"), _fields(head), strict=True))
        if kind == "type":
            what = fields["descr"] = rng.choice(_TYPES)
            what = fields["descr"] = what if what.startswith("[") else repr(what)
        elif kind == "order":
            what = fields["order"] = rng.choice(("True", "1", "None", "'x'"))
        elif kind == "shape":
            what = fields["shape"] = rng.choice(_SHAPES)
        else:  # a shape that asks for a little more or less than there is
            count = int(fields["shape"].strip("()").split(",")[0] or 1)
            what = f"({max(0, count + rng.choice((-1, 1, -count // 2, count)))},"
            fields["shape"] = what + fields["shape"].partition(",")[2] if "," in fields["shape"] else what + ")"
        head = f"{{'descr': {fields['descr']}, 'fortran_order': {fields['order']}, 'shape': {fields['shape']}, }}"
    elif kind == "words":
        what = rng.choice(
            ("", "{", "[]", "{'descr': '<f4'}", "__import__('os')", "{'a': 1}" * 900, "(" * 5000, "\0", "{**{}}")
        )
        head = what
    head = head.rstrip().ljust(max(117, len(head))) + "\n"
    version, size = data[6:8], struct.pack("<H", min(65535, len(head)))
    if kind == "version":
        version = rng.choice((b"\x02\0", b"\x03\0", b"\0\0", b"\xff\xff", b"\x01\x01"))
    if kind == "length":
        size = rng.choice((b"\0\0", b"\xff\xff", b"\x01\0"))
    return data[:6] + version + size + encoded(head) + body, f"head: {kind} {what[:30]}"


def _fields(head: str) -> tuple[str, str, str]:
    value = eval(head, {"__builtins__": {}})  # our own, as it was written
    return repr(value["descr"]), repr(value["fortran_order"]), repr(value["shape"])


def _values(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Return the array with a few values no such array holds."""
    array = np.load(io.BytesIO(data), allow_pickle=False).copy()
    flat = array.reshape(-1)
    if not flat.size or flat.dtype.kind not in "fiu":
        return data + b"\0", "a byte appended"
    if flat.dtype.kind == "f":
        new = rng.choice((np.nan, np.inf, -np.inf, 1e30, -0.0, 1e-40, float(np.finfo(flat.dtype).max)))
    else:
        limits = np.iinfo(flat.dtype)
        new = rng.choice((int(limits.min), int(limits.max), 0, 1, 2, 3))
    count = rng.choice((1, 5, flat.size))
    places = [rng.randrange(flat.size) for _ in range(count)] if count < flat.size else slice(None)
    flat[places] = new
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue(), f"{count} values became {new}"


def npy(path: Path, rng: Random) -> str:
    data = path.read_bytes()
    if data[:6] != b"\x93NUMPY":
        return flip_bits(path, rng)
    data, what = npy_header(data, rng)
    put(path, data)
    return what


@lru_cache(maxsize=2)
def _zeros(size: int) -> bytes:
    """Deflated zeros, block after block of the same: four million bytes stand for four thousand million."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (size >> 20) + zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def bomb(size: int) -> bytes:
    """Return a zip archive of one small member's size that unpacks to ``size`` zeros behind a true npy head."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (size // 4,)})
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(head.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH) + _zeros(size)


def _with_bomb(members: dict[str, bytes], victim: str) -> bytes:
    """Return an archive, one member of which is a bomb; written by hand, since zipfile compresses what it is given."""
    size, out, entries = 4 << 30, io.BytesIO(), []
    for name, data in members.items():
        packed = bomb(size) if name == victim else zlib.compress(data, 1)[2:-4]
        whole = (1 << 32) - 2 if name == victim else len(data)
        common = struct.pack("<HHHHHIII", 20, 0, 8, 0, 33, zlib.crc32(data), len(packed), whole)
        common += struct.pack("<HH", len(name.encode()), 0)
        entries.append((common, name.encode(), out.tell()))
        out.write(b"PK\x03\x04" + common + name.encode() + packed)
    begin = out.tell()
    for common, text, offset in entries:
        out.write(b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, offset) + text)
    end = out.tell()
    out.write(b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), end - begin, begin, 0))
    return out.getvalue()


def archive(path: Path, rng: Random) -> str:
    """Change a member of an archive of arrays and close the archive again, checksums and all."""
    with zipfile.ZipFile(path) as opened:
        members = {entry.filename: opened.read(entry) for entry in opened.infolist()}
    victim = rng.choice(sorted(members))
    kind = rng.choice(
        ("member", "member", "member", "meta", "drop", "rename", "twice", "method", "bomb", "add", "plain")
    )
    compression, names, what = zipfile.ZIP_DEFLATED, list(members.items()), ""
    if kind == "bomb":
        put(path, _with_bomb(members, victim))
        return f"{victim}: unpacks to 4 GB"
    if kind == "meta" and "cohort.npy" in members:
        victim, array = "cohort.npy", np.load(io.BytesIO(members["cohort.npy"]))
        data, what = change(json.loads(array.tobytes()), rng)
        out = io.BytesIO()
        np.save(out, np.frombuffer(data, np.uint8))
        names = [(name, out.getvalue() if name == victim else data) for name, data in names]
    elif kind == "drop":
        names = [pair for pair in names if pair[0] != victim]
    elif kind == "rename":
        what = rng.choice([new for new in NAMES if new and "\0" not in new and "\ud800" not in new])
        names = [(what if name == victim else name, data) for name, data in names]
    elif kind == "twice":
        names.append((victim, npy_header(members[victim], rng)[0]))
    elif kind == "add":
        names.append(("../../../fuzzed", b"x"))
    elif kind in ("method", "plain"):
        compression = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    else:
        data, what = npy_header(members[victim], rng)
        names = [(name, data if name == victim else old) for name, old in names]
    out = io.BytesIO()
    with _quietly(), zipfile.ZipFile(out, "w", compression) as made:
        for name, data in names:
            made.writestr(name, data)
    put(path, out.getvalue())
    return f"{victim}: {kind} {what[:60]}"


class _quietly:  # noqa: N801
    """zipfile warns of a name that is there twice."""

    def __enter__(self) -> None:
        import warnings

        self.caught = warnings.catch_warnings()
        self.caught.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *exit_: object) -> None:
        self.caught.__exit__(None, None, None)


def zip_sizes(path: Path, rng: Random) -> str:
    """Write another number into an archive's directory or a member's head, where the format keeps sizes and places."""
    data = bytearray(path.read_bytes())
    marks = {
        b"PK\x03\x04": (4, 6, 8, 14, 18, 22, 26),
        b"PK\x01\x02": (8, 10, 16, 20, 24, 28, 42),
        b"PK\x05\x06": (8, 10, 12, 16),
    }
    mark = rng.choice(sorted(marks))
    found = [i for i in range(len(data)) if data.startswith(mark, i)]
    place = rng.choice(found) + rng.choice(marks[mark])
    new = rng.choice((0, 1, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, 0xFFFFFFFE))
    width = 2 if new <= 0xFFFF else 4
    data[place : place + width] = new.to_bytes(width, "little")
    put(path, bytes(data))
    return f"{new:#x} at byte {place}, behind {mark[2:]!r}"


def safetensors(path: Path, rng: Random) -> str:
    """Change the head of a safetensors file: its length, offsets, shapes, types, names."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    kind = rng.choice(("length", "document", "document", "offsets", "shape", "values", "names"))
    what, size = "", None
    if kind == "length":
        size = rng.choice((0, 1, 7, length - 1, length + 8, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1))
        text, what = data[8 : 8 + length], str(size)
    elif kind == "document":
        text, what = change(head, rng)
    elif kind == "values":
        floats = np.frombuffer(body, np.uint8).copy()
        place = rng.randrange(len(floats) // 4)
        floats[4 * place : 4 * place + 4] = np.frombuffer(
            np.float32(rng.choice((np.nan, np.inf, 1e38))).tobytes(), np.uint8
        )
        text, body, what = data[8 : 8 + length], floats.tobytes(), f"value {place}"
    else:
        name = rng.choice(sorted(head))
        if kind == "offsets":
            head[name]["data_offsets"] = rng.choice(([0, 1 << 40], [0, 0], [8, 4], [-1, 4], [0, 2**64]))
        elif kind == "shape":
            head[name]["shape"] = rng.choice(([1 << 40], [0], [-1], [2**32, 2**32], [1] * 300, []))
        else:
            head[rng.choice(NAMES)] = head.pop(name)
        text, what = encoded(json.dumps(head)), name
    put(path, (len(text) if size is None else size).to_bytes(8, "little") + text + body)
    return f"{kind} {what[:60]}"


def sizes_at_random(path: Path, rng: Random) -> str:
    """Write an extreme whole number somewhere, as a format might hold it."""
    data = bytearray(path.read_bytes())
    place, width = rng.randrange(max(1, len(data))), rng.choice((2, 4, 8))
    value = rng.choice((0, 1, (1 << 8 * width) - 1, (1 << 8 * width - 1) - 1, 1 << 8 * width - 1))
    data[place : place + width] = value.to_bytes(width, rng.choice(("little", "big")))
    put(path, bytes(data))
    return f"{value:#x} in {width} bytes at byte {place}"


NPY: list[tuple[float, Mutation]] = [(18, npy)]
ZIP: list[tuple[float, Mutation]] = [(18, archive), (6, zip_sizes)]
SAFETENSORS: list[tuple[float, Mutation]] = [(14, safetensors)]
GRAPH: list[tuple[float, Mutation]] = [(6, sizes_at_random)]
