"""A cohort as one small file, to travel to a machine that takes no gigabytes.

Beats are rounded to whole microvolts and stored as int16, so they differ from the cohort's by at most 0.5 microvolt
(the recorder's own step on MIT-BIH is 5 microvolt); everything else is exact. What comes out is a cohort of its own,
with its own fingerprint, that names the one it came from.
"""

import contextlib
import json
import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError, EcgfedError, param
from ecgfed.base.files import replacing_file, replacing_folder
from ecgfed.base.safe_io import MAX_JSON_BYTES, check_expansion, open_regular, parse_json
from ecgfed.domain.cohort.arrays import DIGEST, check_document, npy_header
from ecgfed.domain.cohort.cohort import SCHEMA_VERSION, open_cohort
from ecgfed.domain.cohort.layout import ARRAYS, Layout, layout_of, rr_version_of
from ecgfed.domain.cohort.writer import CohortWriter

_META = "cohort"
_LIMIT_UV = 32767
_AGAIN = f"pack it again with {param('pack=True')}"
_BYTES: tuple[str, tuple[int, ...]] = ("uint8", ())
#: Rows that are unpacked at once.
_BLOCK = 8192


def pack_cohort(cohort_path: Path, file: Path) -> int:
    """Write a cohort into one compressed ``.npz`` file and return its size in bytes.

    Raises:
        CohortError: no cohort, or a beat beyond +-32.767 mV, which int16 microvolts cannot hold.
        StorageError: the disk refuses; what was at ``file`` is still there.
    """
    cohort = open_cohort(cohort_path)
    microvolt = np.rint(cohort.beats * np.float32(1000))
    if np.abs(microvolt).max() > _LIMIT_UV:
        raise CohortError(cohort_path, "a beat exceeds 32.767 mV", "an ECG's range", "check the record's gain")
    arrays: dict[str, Any] = {name: np.asarray(getattr(cohort, name)) for name in ARRAYS}
    arrays["beats"] = microvolt.astype(np.int16)
    arrays[_META] = np.frombuffer(json.dumps(cohort.meta).encode(), dtype=np.uint8)
    with replacing_file(file) as partial, partial.open("wb") as stream:
        np.savez_compressed(stream, **arrays)
    return file.stat().st_size


def unpack_cohort(file: Path, out: Path, *, overwrite: bool = False) -> None:
    """Make a cohort folder from a packed file; what the pack claims is weighed before room is made for it.

    Raises:
        CohortError: no packed cohort, one of another schema version, or one that would be no cohort of ours: a name
            that cannot be a file's, arrays of another type or length, or that are not the ones it says (SHA-256).
        OptionError, StorageError: see ``replacing_folder``.
    """
    try:
        with open_regular(file) as stream, zipfile.ZipFile(stream) as archive, contextlib.ExitStack() as stack:
            meta = _meta(archive, file)
            layout = layout_of("ecg", rr_version_of(meta))
            packed = {name: stack.enter_context(_Packed(archive, name, file, layout)) for name in layout}
            rows = {array.rows for array in packed.values()}
            if len(rows) != 1:
                raise CohortError(file, f"its arrays have {sorted(rows)} rows", "as many in each", _AGAIN)
            with replacing_folder(out, overwrite=overwrite) as folder:
                _unpack(meta, packed, rows.pop(), folder, file)
    except FileNotFoundError:
        raise CohortError(file, "does not exist", action="check the path") from None
    except EcgfedError:
        raise
    # zipfile raises BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError, struct.error and others
    except Exception as problem:
        raise CohortError(file, f"is no packed cohort ({problem!s:.160})", action=_AGAIN) from problem


def _meta(archive: zipfile.ZipFile, file: Path) -> dict[str, Any]:
    """Return the ``cohort.json`` of a pack, bounded; raises CohortError, ValueError."""
    with _Packed(archive, _META, file) as packed:
        if packed.rows > MAX_JSON_BYTES:
            raise CohortError(file, f"its cohort.json has {packed.rows:,} bytes", f"at most {MAX_JSON_BYTES:,}", _AGAIN)
        meta = parse_json(packed.read(packed.rows).tobytes())
    version = meta.get("schema_version") if isinstance(meta, dict) else None
    if version != SCHEMA_VERSION:
        action = "pack it again with this ecgfed"
        raise CohortError(file, f"schema version {version!s:.40}", f"{SCHEMA_VERSION}", action)
    if not isinstance(meta.get("fingerprint"), str):
        raise CohortError(file, "is no packed cohort (it has no fingerprint)", action=_AGAIN)
    return dict(meta)


class _Packed:
    """One array of a pack, of ``rows`` rows, read block by block; a context manager."""

    def __init__(self, archive: zipfile.ZipFile, name: str, file: Path, layout: Layout = ARRAYS) -> None:
        entry = archive.getinfo(f"{name}.npy")
        kind, tail = _BYTES if name == _META else layout[name]
        self.dtype = np.dtype("int16" if name == "beats" else kind)
        self.stream = cast(BinaryIO, archive.open(entry))
        shape, fortran, dtype = npy_header(self.stream)
        if dtype != self.dtype or shape[1:] != tail or not shape or fortran:
            raise CohortError(file, f"{name} is {dtype} {shape}", f"{self.dtype} {('rows', *tail)}", _AGAIN)
        self.rows, self.tail = shape[0], tail
        numbers = math.prod(shape)
        expected_bytes, stored_bytes = numbers * dtype.itemsize, entry.file_size - self.stream.tell()
        if expected_bytes != stored_bytes:
            raise CohortError(file, f"{name} holds {stored_bytes:,} bytes of numbers", f"{expected_bytes:,}", _AGAIN)
        # labels and the like are the same over thousands of rows; the beats, which no signal of that length is, decide
        if name in ("beats", _META):
            check_expansion(numbers, entry.compress_size, f"{file}: {name}", CohortError)

    def __enter__(self) -> "_Packed":
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def read(self, rows: int) -> NDArray[Any]:
        """Return the next rows; raises ValueError where they are not there."""
        size = rows * math.prod(self.tail) * self.dtype.itemsize
        data = self.stream.read(size)
        if len(data) != size:
            raise ValueError("it ends early")
        return np.frombuffer(data, self.dtype).reshape(rows, *self.tail)


def _unpack(meta: dict[str, Any], packed: dict[str, _Packed], rows: int, folder: Path, file: Path) -> None:
    """Write the cohort and open it, so that what cannot be opened is never there; raises CohortError."""
    metadata = {name: value for name, value in meta.items() if name not in ("beats", "sha256", "fingerprint", DIGEST)}
    with CohortWriter(folder, rr_version=rr_version_of(meta)) as writer:
        for start in range(0, rows, _BLOCK):
            part = {name: member.read(min(_BLOCK, rows - start)) for name, member in packed.items()}
            writer.append(**{**part, "beats": part["beats"].astype(np.float32) / np.float32(1000)})
        writer.finish({**metadata, "unpacked_from": meta["fingerprint"]})
    stated = meta.get("sha256")
    for name, array in writer.arrays.items():  # the beats were rounded, the others are what they were
        if name != "beats" and isinstance(stated, dict) and stated.get(name) != array.digest.hexdigest():
            raise CohortError(file, f"{name} is not the array that was packed (SHA-256 differs)", action=_AGAIN)
    try:
        open_cohort(folder)
    except CohortError as problem:
        where = f"{file}: {Path(problem.where).name}"
        raise CohortError(where, *problem.parts[1:3], _AGAIN) from problem
    check_document(file, meta)
