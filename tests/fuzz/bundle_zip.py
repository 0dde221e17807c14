"""Mutations of a bundle in one zip file: a member changed, and the archive closed again with true checksums."""

import io
import json
import struct
import zipfile
from pathlib import Path, PurePosixPath
from random import Random

from .containers import zip_sizes
from .documents import change
from .plain import NAMES, Mutation, put

_UNIX = 3  # the system of an entry whose upper attributes are a file's mode
_LINK, _PIPE = 0o120777 << 16, 0o010644 << 16


def _member(data: bytes, name: str, rng: Random) -> tuple[bytes, str]:
    """Return a member with one thing changed."""
    if PurePosixPath(name).suffix == ".json":
        return change(json.loads(data), rng)
    place = rng.randrange(len(data))
    new = rng.choice(
        (data[:place], data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :], b"")
    )
    return new, f"{len(new):,} bytes, changed at {place}"


def member(path: Path, rng: Random) -> str:
    """Change one member or the list of members, and close the archive again."""
    with zipfile.ZipFile(path) as opened:
        entries = [(entry, opened.read(entry)) for entry in opened.infolist()]
    victim = rng.randrange(len(entries))
    kind = rng.choice(("member", "member", "member", "manifest", "drop", "rename", "twice", "swap", "add", "link",
                       "pipe", "method", "folder", "comment"))  # fmt: skip
    if kind == "manifest":
        victim = next(i for i, (entry, _) in enumerate(entries) if entry.filename == "manifest.json")
    named = [(zipfile.ZipInfo(entry.filename), data) for entry, data in entries]
    entry, data = named[victim]
    what, compression, comment = "", zipfile.ZIP_DEFLATED, b""
    if kind in ("member", "manifest"):
        data, what = _member(data, entry.filename, rng)
        named[victim] = (entry, data)
    elif kind == "drop":
        del named[victim]
    elif kind == "rename":
        what = rng.choice([new for new in NAMES if new and "\0" not in new and "\ud800" not in new])
        named[victim] = (zipfile.ZipInfo(what), data)
    elif kind == "twice":
        named.append((zipfile.ZipInfo(entry.filename), _member(data, entry.filename, rng)[0]))
    elif kind == "swap":  # two members under one another's names, such as two patients' models
        other = rng.randrange(len(named))
        named[victim], named[other] = (entry, named[other][1]), (named[other][0], data)
        what = named[other][0].filename
    elif kind == "add":
        what = rng.choice(("../../../fuzzed", "/fuzzed-absolute", "patients/../../x", "patients/new.onnx", "evil.py"))
        named.append((zipfile.ZipInfo(what), data))
    elif kind in ("link", "pipe"):
        entry.create_system, entry.external_attr = _UNIX, _LINK if kind == "link" else _PIPE
        named[victim] = (entry, b"../../../bait/r.dat")
    elif kind == "folder":
        named.append((zipfile.ZipInfo(entry.filename + "/"), b""))
    elif kind == "comment":
        comment = struct.pack("<Q", 0x06054B50) * 4
    else:
        compression = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    out = io.BytesIO()
    import warnings

    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as made:
        warnings.simplefilter("ignore")  # of a name that is there twice
        made.comment = comment
        for info, content in named:
            made.writestr(info, content, compression)
    put(path, out.getvalue())
    return f"{entry.filename}: {kind} {what[:60]}"


BUNDLE: list[tuple[float, Mutation]] = [(20, member), (5, zip_sizes)]
