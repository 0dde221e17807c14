"""Write a bundle as a zip file: files are stored uncompressed, and the bytes are reproducible."""

import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ecgfed.base.errors import BundleError, OptionError, param
from ecgfed.base.files import check_new_folder, replacing_folder, write_together
from ecgfed.exports.device.container import ZIP
from ecgfed.exports.device.manifest import MANIFEST
from ecgfed.exports.device.zip_file import MOST_BYTES, MOST_FILES

_LOCAL, _ENTRY, _END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")
#: Version 2.0 of the format, created on Unix; UTF-8 names; stored; 1 January 1980, the earliest date in a zip; a plain
#: file with mode 0644.
_VERSION, _UNIX, _UTF8, _STORED, _DAY, _MODE = 20, 3 << 8, 1 << 11, 0, 0x21, 0o100644


def is_zip(out: Path) -> bool:
    """Return whether a bundle of this name is a zip file."""
    return out.suffix.casefold() == ZIP


def check_new_bundle(out: Path, *, overwrite: bool = False) -> None:
    """Raise OptionError if a folder or zip file already exists."""
    if not is_zip(out):
        check_new_folder(out, overwrite=overwrite)
    elif out.is_dir():
        raise OptionError("out", f"{out} is a folder", "a zip file to create", "choose another name")
    elif out.exists() and not overwrite:
        action = f"choose another, or pass {param('overwrite=True')}"
        raise OptionError("out", f"{out} exists", "a new file", action, code="exists")


@contextmanager
def replacing_bundle(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a folder for a bundle's files; it is moved to ``out`` or packed into it if the block succeeds.

    Args:
        out: a folder, or a file that ends in ``.zip``.
        overwrite: replace an existing ``out``.

    Raises:
        OptionError: ``out`` exists.
        StorageError: writing failed; nothing was changed.
        BundleError: too large for a zip file.
    """
    if not is_zip(out):
        with replacing_folder(out, overwrite=overwrite) as folder:
            yield folder
        return
    check_new_bundle(out, overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="ecgfed-") as scratch:
        folder = Path(scratch) / "bundle"
        folder.mkdir()
        yield folder
        names = in_order(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        total = sum((folder / name).stat().st_size for name in names)
        if len(names) >= min(MOST_FILES, 0xFFFF) or total > MOST_BYTES // 2:
            raise BundleError(out, f"would hold {len(names):,} files of {total:,} bytes", "less", "export to a folder")
        check_new_bundle(out, overwrite=overwrite)
        write_together({out: packed(names, lambda name: (folder / name).read_bytes())})


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of files as they follow one another in a zip file: the manifest first, for streaming readers."""
    return sorted(names, key=lambda name: (name != MANIFEST, name))


def packed(names: Iterable[str], read: Callable[[str], bytes]) -> Iterator[bytes]:
    """Yield the bytes of a zip file with these files, each as ``read`` returns it."""
    directory, at, count = b"", 0, 0
    for name in names:
        data, written = read(name), name.encode()
        same = (_VERSION, _UTF8, _STORED, 0, _DAY, zlib.crc32(data), len(data), len(data), len(written), 0)
        head = _LOCAL.pack(b"PK\x03\x04", *same) + written
        directory += _ENTRY.pack(b"PK\x01\x02", _UNIX | _VERSION, *same, 0, 0, 0, _MODE << 16, at) + written
        yield head
        yield data
        at, count = at + len(head) + len(data), count + 1
    yield directory
    yield _END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), at, 0)
