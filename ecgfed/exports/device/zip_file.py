"""Strict zip reader for untrusted files: the directory is validated before any contents are read.

Only what a bundle needs is accepted: plain files, stored or deflated, unique, not overlapping, with declared sizes.
Encrypted, split and 64-bit archives, links, paths outside the bundle, overlapping files (zip bombs) and oversized
archives are rejected with a one-line error. APPNOTE.TXT 6.3.10, sections 4.3.7 to 4.3.16.
"""

import os
import stat
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from ecgfed.base.errors import BundleError
from ecgfed.base.safe_io import open_regular, path_problem

#: Limits for the number of files, bytes of a bundle, and bytes of the directory (10,000 patients take 1 GB).
MOST_FILES, MOST_BYTES, MOST_DIRECTORY = 100_000, 4 << 30, 32 << 20
#: Maximum compression ratio of deflate (RFC 1951); a higher one indicates a zip bomb.
MOST_RATIO = 1032
STORED, DEFLATED = 0, 8
_END, _ENTRY, _LOCAL = struct.Struct("<4s4H2LH"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
#: Accepted flags of an entry: compression level, sizes after the data, UTF-8 name.
_FLAGS = 0b0000_1000_0000_1110
_AGAIN = "pack it again, or ask for the bundle's folder"


@dataclass(frozen=True)
class Entry:
    """One file of the archive: offset of its header, compression method, sizes and CRC-32."""

    name: str
    at: int
    method: int
    packed: int
    size: int
    crc: int


@dataclass(frozen=True)
class ZipFile:
    """A zip file with a validated directory.

    Attributes:
        path: the file.
        entries: its files by name.
    """

    path: Path
    entries: dict[str, Entry]

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return a file's bytes; raises BundleError if it is missing, longer than ``max_bytes``, or damaged."""
        where = self.path / name
        if name not in self.entries:
            raise BundleError(where, "does not exist", action="check the path")
        entry = self.entries[name]
        if entry.size > max_bytes:
            actual = f"has {entry.size:,} bytes"
            raise BundleError(where, actual, f"at most {max_bytes:,}", "check that it is the right file")
        try:
            with open_regular(self.path) as stream:
                stream.seek(entry.at)
                head = stream.read(_LOCAL.size)
                if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
                    _refuse(self.path, f"does not hold {entry.name!r:.100} where its directory says", "a zip file")
                fields = _LOCAL.unpack(head)
                flags, method, name_bytes, extra = fields[2], fields[3], fields[9], fields[10]
                if stream.read(name_bytes) != entry.name.encode() or method != entry.method or flags & ~_FLAGS:
                    _refuse(self.path, f"says two things of {entry.name!r:.100}", "one and the same")
                stream.seek(extra, os.SEEK_CUR)
                packed = stream.read(entry.packed)
                if len(packed) != entry.packed:
                    _refuse(self.path, f"does not hold all of {entry.name!r:.100}", "a whole zip file")
        except OSError as problem:
            raise BundleError(self.path, f"cannot be read ({problem.strerror or problem})", "a file") from problem
        data = packed if entry.method == STORED else _inflated(where, packed, entry.size)
        if len(data) != entry.size or zlib.crc32(data) != entry.crc:
            raise BundleError(where, "is damaged (its CRC-32 is not the archive's)", action="ask for the bundle again")
        return data


def read_directory(path: Path) -> ZipFile:
    """Read and validate a zip file's directory; raises BundleError."""
    try:
        with open_regular(path) as stream:
            length = os.fstat(stream.fileno()).st_size
            if length > MOST_BYTES:
                raise BundleError(path, f"has {length:,} bytes", f"at most {MOST_BYTES:,}", "check that it is a bundle")
            count, size, at = _end(stream, path, length)
            stream.seek(at)
            entries = _entries(path, stream.read(size), count)
    except OSError as problem:
        raise BundleError(path, f"cannot be read ({problem.strerror or problem})", "a zip file") from problem
    _check_overlaps(path, entries, at)
    return ZipFile(path, {entry.name: entry for entry in entries})


def _refuse(path: Path, problem: str, expected: str = "", action: str = _AGAIN) -> NoReturn:
    raise BundleError(path, problem, expected, action)


def _end(stream: BinaryIO, path: Path, length: int) -> tuple[int, int, int]:
    """Return the entry count, size and offset of the directory, from the end record."""
    tail = min(length, _END.size + 0xFFFF)
    stream.seek(length - tail)
    data = stream.read(tail)
    at = data.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(data):
        _refuse(path, "is no zip file, or not all of it", "a bundle")
    _, disk, first_disk, disk_entries, count, size, start, comment = _END.unpack_from(data, at)
    end = length - tail + at
    if 0xFFFF in (disk, first_disk, disk_entries, count) or 0xFFFFFFFF in (size, start):
        _refuse(path, "is a zip file of the 64-bit kind", "the plain kind")
    if disk or first_disk or disk_entries != count:
        _refuse(path, "is one of several parts of a zip file", "a whole one")
    if at + _END.size + comment != len(data) or start + size != end:
        _refuse(path, "is a zip file with other data before, inside or behind it", "a zip file alone")
    if count > MOST_FILES or size > MOST_DIRECTORY:
        _refuse(path, f"claims {count:,} files in {size:,} bytes", f"at most {MOST_FILES:,} in {MOST_DIRECTORY:,}")
    return count, size, start


def _entries(path: Path, data: bytes, count: int) -> list[Entry]:
    """Read the directory, entry by entry."""
    entries: list[Entry] = []
    names: set[str] = set()
    total = at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(data) or data[at : at + 4] != b"PK\x01\x02":
            _refuse(path, "has a damaged directory", "a zip file")
        fields = _ENTRY.unpack_from(data, at)
        flags, method, crc, packed, size = fields[3], fields[4], *fields[7:10]
        name_bytes, extra, comment, attributes, start = *fields[10:13], fields[15], fields[16]
        raw = data[at + _ENTRY.size : at + _ENTRY.size + name_bytes]
        at += _ENTRY.size + name_bytes + extra + comment
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            _refuse(path, f"holds a name that is not UTF-8 ({raw!r:.100})")
        if "\\" in name or path_problem(name[:-1] if name.endswith("/") else name) or "." in name.split("/"):
            _refuse(path, f"holds {name!r:.100}, which is no path inside a bundle")
        if stat.S_IFMT(attributes >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            _refuse(path, f"holds {name!r:.100}, which is a link or a device", "plain files")
        if name in names:
            _refuse(path, f"holds {name!r:.100} twice", "each file once")
        names.add(name)
        if name.endswith("/"):
            if size or packed:
                _refuse(path, f"holds a folder {name!r:.100} with contents of its own")
            continue
        if flags & ~_FLAGS:
            _refuse(path, f"holds {name!r:.100} encrypted, or packed in a way of its own", "stored or deflated files")
        if method not in (STORED, DEFLATED) or (method == STORED and packed != size):
            _refuse(path, f"holds {name!r:.100} packed by method {method}", "stored or deflated files")
        total += size
        if size > MOST_RATIO * packed + 64 or total > MOST_BYTES:
            _refuse(path, f"claims {size:,} bytes of {name!r:.100} in {packed:,}", "no more than was packed")
        entries.append(Entry(name, start, method, packed, size, crc))
    if at != len(data):
        _refuse(path, "has a damaged directory", "a zip file")
    return entries


def _check_overlaps(path: Path, entries: list[Entry], directory: int) -> None:
    """Reject files that overlap each other or the directory, as in a zip bomb."""
    reached = 0
    for entry in sorted(entries, key=lambda item: item.at):
        stop = entry.at + _LOCAL.size + len(entry.name.encode()) + entry.packed
        if entry.at < reached or stop > directory:
            _refuse(path, f"holds {entry.name!r:.100} inside another file", "files side by side")
        reached = stop


def _inflated(where: Path, packed: bytes, size: int) -> bytes:
    """Decompress to exactly the declared size."""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = unpacker.decompress(packed, size + 1)
    except zlib.error as problem:
        raise BundleError(where, f"cannot be unpacked ({problem})", action=_AGAIN) from None
    if len(data) != size or not unpacker.eof or unpacker.unused_data:
        raise BundleError(where, "unpacks to another size than the archive says", f"{size:,} bytes", _AGAIN)
    return data
