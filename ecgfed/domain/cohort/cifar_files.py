"""Reading CIFAR-10 and CIFAR-100 (Krizhevsky, Learning multiple layers of features from tiny images, 2009).

CIFAR-10 in two layouts, each unpacked or in its official archive: binary (rows of a label byte and 3,072 pixel bytes)
and Python (pickles, which are read by an unpickler that admits uint8 arrays and plain containers, and nothing else).
CIFAR-100 in the binary one, whose rows begin with two label bytes, coarse and fine.
An archive is read member by member by name, never extracted. https://www.cs.toronto.edu/~kriz/cifar.html
"""

import contextlib
import hashlib
import io
import pickle
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError, OptionError, param
from ecgfed.base.files import create_folder, md5
from ecgfed.domain.cohort.download import ByteProgress, fetch
from ecgfed.domain.cohort.labelled_images import CIFAR100_COARSE, CIFAR100_FINE, LabelledImages

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGE_SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
#: images of a file
ROWS = 10_000
TRAIN_FILES, TEST_FILE = tuple(f"data_batch_{i}" for i in range(1, 6)), "test_batch"
HOME_PAGE = "https://www.cs.toronto.edu/~kriz/"
BINARY_ARCHIVE, PYTHON_ARCHIVE = "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"
BINARY_ARCHIVE_100 = "cifar-100-binary.tar.gz"
#: MD5 of the archives, from CIFAR-10's home page.
ARCHIVE_MD5 = {
    BINARY_ARCHIVE: "c32a1d4ab5d03f1284b67883e8d87530",
    PYTHON_ARCHIVE: "c58f30108f718f92721af3b95e74349a",
    BINARY_ARCHIVE_100: "03b5dce01913d631647c71ecec9e9cb8",
}
#: MD5 of the Python batches, as torchvision checks them (torchvision/datasets/cifar.py); nobody publishes those of the
#: binary batches.
PYTHON_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
#: No published file is longer; a longer one is not read into memory.
LARGEST_BYTES = 256 << 20


@dataclass(frozen=True)
class CifarLayout:
    """One way the files are published."""

    name: str
    folder: str
    suffix: str
    archive: str
    files: tuple[str, ...] = (*TRAIN_FILES, TEST_FILE)


LAYOUTS = (
    CifarLayout("binary", "cifar-10-batches-bin", ".bin", BINARY_ARCHIVE),
    CifarLayout("python", "cifar-10-batches-py", "", PYTHON_ARCHIVE),
)
LAYOUTS_100 = (CifarLayout("binary", "cifar-100-binary", ".bin", BINARY_ARCHIVE_100, ("train", "test")),)


def download_cifar10(folder: Path, *, base_url: str = HOME_PAGE, on_progress: ByteProgress | None = None) -> Path:
    """Fetch the binary archive (162 MB) into ``folder`` unless it is there, and return its path.

    Raises:
        StorageError: no connection, another MD5 than the published one, or a disk that refuses to write.
    """
    create_folder(folder)
    target = folder / BINARY_ARCHIVE
    digest = ARCHIVE_MD5[BINARY_ARCHIVE]
    if not target.is_file() or md5(target) != digest:
        fetch(base_url.rstrip("/") + "/" + BINARY_ARCHIVE, target, digest, kind="MD5", on_progress=on_progress)
    return target


def read_cifar10(source: Path, on_progress: Callable[[str, int, int], None] | None = None) -> LabelledImages:
    """Read all 60,000 images.

    Args:
        source: a folder with the batches or an archive in it, a folder that holds ``cifar-10-batches-bin`` or
            ``cifar-10-batches-py``, or an archive.
        on_progress: called after each file with its name, the number done and the number of all.

    Raises:
        OptionError: no such file or folder.
        CohortError: nothing of CIFAR-10 in it, or a file that is missing, of another size, or no batch.
    """
    layout, where = _find(source, LAYOUTS, "CIFAR-10")
    batch = _python_batch if layout.name == "python" else _binary_batch
    return _read(layout, where, lambda name, member, data: batch(member, data), CLASSES, on_progress)


def read_cifar100(
    source: Path, on_progress: Callable[[str, int, int], None] | None = None, *, coarse: bool = False
) -> LabelledImages:
    """Read all 60,000 images of CIFAR-100, of the binary layout.

    Args:
        source: as for ``read_cifar10``; the folder is called ``cifar-100-binary``.
        on_progress: as there.
        coarse: the 20 superclasses in place of the 100 classes.

    Raises:
        OptionError, CohortError: as ``read_cifar10``.
    """
    layout, where = _find(source, LAYOUTS_100, "CIFAR-100")
    classes = CIFAR100_COARSE if coarse else CIFAR100_FINE

    def batch(name: str, member: str, data: bytes) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        rows = ROWS * (len(TRAIN_FILES) if name == layout.files[0] else 1)
        labels, pixels = _binary_rows(member, data, rows, 2)
        for column, names in enumerate((CIFAR100_COARSE, CIFAR100_FINE)):
            _checked(member, labels[:, column], pixels, len(names))
        return labels[:, 0 if coarse else 1], pixels

    return _read(layout, where, batch, classes, on_progress)


def _read(
    layout: CifarLayout,
    where: Path,
    batch: Callable[[str, str, bytes], tuple[NDArray[Any], NDArray[np.uint8]]],
    classes: tuple[str, ...],
    on_progress: Callable[[str, int, int], None] | None,
) -> LabelledImages:
    """Read all files of a layout, of which the last is the test's, by ``batch(name, name for errors, bytes)``."""
    images, labels, digests = [], [], {}
    for number, (name, member, data) in enumerate(_contents(layout, where, layout.files), start=1):
        label, pixels = batch(name, member, data)
        images.append(pixels.reshape(-1, *IMAGE_SHAPE))
        labels.append(label.astype(np.int64))
        digests[name + layout.suffix] = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if on_progress:
            on_progress(name, number, len(layout.files))
    metadata, warning = _provenance(layout, where, digests)
    train = sum(len(part) for part in labels[:-1])
    return LabelledImages(np.concatenate(images), np.concatenate(labels), train, metadata, warning, classes)


def _find(source: Path, layouts: tuple[CifarLayout, ...], what: str) -> tuple[CifarLayout, Path]:
    """Return the layout, and the folder of the batches or the archive."""
    if source.is_file():
        return _layout_of_archive(source, layouts, what), source
    if not source.is_dir():
        action = f"or pass {param('download=True')}" if layouts is LAYOUTS else ""
        raise OptionError("source", f"{source} does not exist", f"a folder with {what}", action)
    for layout in layouts:
        for folder in (source, source / layout.folder):
            if (folder / (layout.files[0] + layout.suffix)).is_file():
                return layout, folder
    for layout in layouts:
        if (source / layout.archive).is_file():
            return layout, source / layout.archive
    expected = f"{', '.join(layout.folder for layout in layouts)} or an archive of it"
    raise CohortError(source, f"holds no {what}", expected, f"check {param('source')}")


def _layout_of_archive(file: Path, layouts: tuple[CifarLayout, ...], what: str) -> CifarLayout:
    with _archive(file) as archive:
        for member in archive:
            for layout in layouts:
                if member.name.split("/")[-1] == layout.files[0] + layout.suffix:
                    return layout
    expected = " or ".join(layout.archive for layout in layouts)
    raise CohortError(file, f"holds no {what} batch", expected, f"check {param('source')}")


@contextlib.contextmanager
def _archive(file: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(file, "r:*") as archive:
            yield archive
    except (tarfile.TarError, EOFError, zlib.error, OSError) as problem:
        raise CohortError(file, f"cannot be read as an archive ({problem})", action="fetch it again") from problem


def _contents(layout: CifarLayout, where: Path, names: tuple[str, ...]) -> Iterator[tuple[str, str, bytes]]:
    """Yield each file's name, what to call it in an error, and its bytes."""
    if where.is_dir():
        for name in names:
            file = where / (name + layout.suffix)
            try:
                _check_size(str(file), file.stat().st_size)
                yield name, str(file), file.read_bytes()
            except OSError as problem:
                raise CohortError(file, f"cannot be read ({problem.strerror})", action="fetch it again") from problem
        return
    with _archive(where) as archive:
        members = {member.name.split("/")[-1]: member for member in archive.getmembers() if member.isreg()}
        for name in names:
            source = f"{where}: {name}{layout.suffix}"
            member = members.get(name + layout.suffix)
            if member is None:
                raise CohortError(source, "is not in the archive", action="fetch it again")
            _check_size(source, member.size)
            stream = archive.extractfile(member)
            yield name, source, b"" if stream is None else stream.read()


def _check_size(source: str, size: int) -> None:
    if size > LARGEST_BYTES:
        raise CohortError(source, f"is {size:,} bytes long", f"at most {LARGEST_BYTES:,}", "fetch it again")


def _binary_batch(source: str, data: bytes) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Labels (rows,) and pixels (rows, 3072) of a file of the binary layout."""
    labels, pixels = _binary_rows(source, data, ROWS, 1)
    return _checked(source, labels[:, 0], pixels)


def _binary_rows(source: str, data: bytes, rows: int, labels: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Labels (rows, labels) and pixels (rows, 3072) of a file of so many rows."""
    expected = rows * (labels + PIXELS)
    if len(data) != expected:
        problem, layout = f"is {len(data):,} bytes long", f"{rows:,} rows of {labels} + {PIXELS:,} bytes"
        raise CohortError(source, problem, f"{expected:,}: {layout}", "fetch it again")
    table = np.frombuffer(data, dtype=np.uint8).reshape(rows, labels + PIXELS)
    return table[:, :labels], table[:, labels:]


def _checked(
    source: str, label: NDArray[Any], pixels: NDArray[Any], classes: int = len(CLASSES)
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    if label.min() < 0 or label.max() >= classes:
        wrong = int(label.max() if label.max() >= classes else label.min())
        raise CohortError(source, f"holds label {wrong}", f"0 to {classes - 1}", "fetch it again")
    return label, pixels


#: What unpickling a damaged file raises.
_UNREADABLE: tuple[type[Exception], ...] = (pickle.UnpicklingError, struct.error, EOFError, ImportError, LookupError)
_UNREADABLE += (AttributeError, TypeError, ValueError, OverflowError, MemoryError, RecursionError)


def _python_batch(source: str, data: bytes) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Labels (rows,) and pixels (rows, 3072) of a pickled batch."""
    try:
        batch = _NumbersOnly(io.BytesIO(data), encoding="bytes").load()
    except _UNREADABLE as problem:
        raise CohortError(source, f"is no pickled batch of numbers ({problem})", action="fetch it again") from problem
    if not isinstance(batch, dict):
        raise CohortError(source, f"holds a {type(batch).__name__}", "a dictionary", "fetch it again")
    fields = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    data_field, label = fields.get("data"), fields.get("labels")
    pixels = data_field.values if isinstance(data_field, _Array) else None
    if pixels is None or pixels.shape != (ROWS, PIXELS):
        content = type(data_field).__name__ if pixels is None else f"shape {pixels.shape}"
        raise CohortError(source, f"holds data of {content}", f"uint8 {(ROWS, PIXELS)}", "fetch it again")
    if not isinstance(label, list) or len(label) != ROWS or not all(type(value) is int for value in label):
        raise CohortError(source, "holds no list of labels", f"{ROWS:,} whole numbers", "fetch it again")
    return _checked(source, np.array(label, dtype=object), pixels)


class _Uint8:
    """Stands where a pickle wants ``numpy.dtype``; no state of it reaches numpy."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {code!r} is not allowed, only uint8")

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like: an unsigned byte has none."""


class _Array:
    """Stands where a pickle wants an array; ``values`` holds it once its state was read."""

    values: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        """(version, shape, type, Fortran order, bytes), as ``numpy.ndarray.__reduce__`` writes it."""
        _, shape, kind, fortran, raw = state
        self.values = _array_of_buffer(raw, kind, shape, "F" if fortran else "C").values


def _array_of_buffer(buffer: Any, kind: Any, shape: Any, order: str) -> _Array:
    """An array of protocol 5, out of the bytes in the file."""
    if not isinstance(buffer, bytes | bytearray) or not isinstance(kind, _Uint8) or order not in ("C", "F"):
        raise pickle.UnpicklingError("an array of something else than bytes")
    array = _Array()
    array.values = np.frombuffer(buffer, dtype=np.uint8).reshape(shape, order="F" if order == "F" else "C")
    return array


def _array_to_fill(kind: Any, *_: Any) -> _Array:
    if kind is not _Array:
        raise pickle.UnpicklingError(f"an array of type {kind!r} is not allowed")
    return _Array()


def _latin1(text: str, encoding: str) -> bytes:
    """Stand in for ``_codecs.encode``, by which protocols 0 to 2 write bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not allowed")
    return text.encode("latin1")


#: What a pickled array of bytes is made by -> what stands in for it. ``numpy.core`` is numpy before version 2.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _array_to_fill,
    ("numpy.core.numeric", "_frombuffer"): _array_of_buffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Uint8,
    ("_codecs", "encode"): _latin1,
}


class _NumbersOnly(pickle.Unpickler):
    """Reads uint8 arrays and plain containers, calls nothing that a file names; everything else is refused by name."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of one of the few names that a pickled array needs."""
        key = (module.replace("numpy._core.", "numpy.core."), name)
        if key not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return _ALLOWED[key]


def _provenance(layout: CifarLayout, where: Path, digests: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Compare with the published MD5: what to write into ``cohort.json``, and what to warn of."""
    if where.is_file():
        digest, official = md5(where), ARCHIVE_MD5[layout.archive]
        metadata = {"layout": layout.name, "archive": where.name, "md5": {where.name: digest, **digests}}
        if digest == official:
            return {**metadata, "official": True}, ""
        return {**metadata, "official": False}, f"{where}: MD5 {digest} is not the official {official}{_MAY_DIFFER}"
    metadata = {"layout": layout.name, "md5": digests}
    if layout.name == "binary":
        return {**metadata, "official": None}, (
            f"{where}: cannot be compared with the official files, whose MD5 is published for the archive "
            f"{layout.archive} only{_MAY_DIFFER}"
        )
    wrong = [name for name, digest in digests.items() if digest != PYTHON_MD5[name]]
    if not wrong:
        return {**metadata, "official": True}, ""
    return {**metadata, "official": False}, f"{where}: MD5 of {', '.join(wrong)} is not the official one{_MAY_DIFFER}"


_MAY_DIFFER = "; the images may differ from the published ones, say so beside a result"
