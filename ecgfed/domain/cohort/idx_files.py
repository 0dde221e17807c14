"""Reading MNIST, Fashion-MNIST and EMNIST as published: IDX files, compressed with gzip or not.

An IDX file begins with two zero bytes, 8 for bytes and the number of axes; then the length of each axis, four bytes,
most significant first; then the values, the last axis fastest (LeCun, Cortes and Burges). What a header claims is
compared with what is there before room is made for it. EMNIST (Cohen et al. 2017, https://www.nist.gov/itl/products-
and-services/emnist-dataset) stores its images transposed; here they are upright.
"""

import gzip
import hashlib
import math
import string
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError, OptionError, param
from ecgfed.domain.cohort.labelled_images import FASHION, LabelledImages

#: Side of every image.
SIDE = 28
#: More bytes than the largest of the files holds, EMNIST's 697,932 images of all classes.
LARGEST_BYTES = 1 << 30
_DIGITS = tuple(string.digits)
#: EMNIST merges the capital and small letters that look alike.
_MERGED = (*string.digits, *string.ascii_uppercase, *"abdefghnqrt")


@dataclass(frozen=True)
class IdxLayout:
    """One data set's four files.

    Attributes:
        train: beginning of the names of the training files.
        test: of those of the test files.
        classes: names of the classes.
        first_label: label of the first class in the files.
        transposed: whether images are stored column by column.
        md5: MD5 of the files as published, training images, training labels, test images, test labels; () if of the
            archive alone. As torchvision checks them (torchvision/datasets/mnist.py).
        counts: images of the published files, to train on and to test.
    """

    train: str
    test: str
    classes: tuple[str, ...]
    first_label: int = 0
    transposed: bool = False
    md5: tuple[str, ...] = ()
    counts: tuple[int, int] = (60_000, 10_000)


def _emnist(name: str, classes: tuple[str, ...], counts: tuple[int, int], first_label: int = 0) -> IdxLayout:
    return IdxLayout(f"emnist-{name}-train", f"emnist-{name}-test", classes, first_label, True, (), counts)


LAYOUTS = {
    "mnist": IdxLayout(
        "train",
        "t10k",
        _DIGITS,
        md5=(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    "fashion-mnist": IdxLayout(
        "train",
        "t10k",
        FASHION,
        md5=(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "emnist-digits": _emnist("digits", _DIGITS, (240_000, 40_000)),
    "emnist-letters": _emnist("letters", tuple(string.ascii_uppercase), (124_800, 20_800), 1),
    "emnist-balanced": _emnist("balanced", _MERGED, (112_800, 18_800)),
    "emnist-bymerge": _emnist("bymerge", _MERGED, (697_932, 116_323)),
    "emnist-byclass": _emnist("byclass", tuple(string.digits + string.ascii_letters.swapcase()), (697_932, 116_323)),
    "emnist-mnist": _emnist("mnist", _DIGITS, (60_000, 10_000)),
}


def read_idx_images(name: str, source: Path) -> LabelledImages:
    """Read the four files of a data set.

    Args:
        name: a key of ``LAYOUTS``.
        source: the folder of the files, as published (``.gz``) or unpacked, or the one that holds ``gzip`` or ``raw``.

    Raises:
        OptionError: no such folder.
        CohortError: a file that is missing, no IDX file, of another shape than these, damaged or too short.
    """
    layout = LAYOUTS[name]
    if not source.is_dir():
        raise OptionError("source", f"{source} does not exist", f"a folder with the files of {name}")
    images, labels, digests = [], [], dict[str, str]()
    for part in (layout.train, layout.test):
        pixels, file = _read(source, f"{part}-images-idx3-ubyte", (None, SIDE, SIDE), digests)
        stored, label_file = _read(source, f"{part}-labels-idx1-ubyte", (None,), digests)
        if len(stored) != len(pixels):
            raise CohortError(label_file, f"holds {len(stored):,} labels", f"{len(pixels):,}, as {file.name}", _AGAIN)
        label = stored.astype(np.int64) - layout.first_label
        if not 0 <= label.min() <= label.max() < len(layout.classes):
            wrong = int((label.max() if label.min() >= 0 else label.min()) + layout.first_label)
            last = layout.first_label + len(layout.classes) - 1
            raise CohortError(label_file, f"holds label {wrong}", f"{layout.first_label} to {last}", _AGAIN)
        images.append(pixels.transpose(0, 2, 1) if layout.transposed else pixels)
        labels.append(label)
    official, warning = _provenance(name, source, digests, (len(labels[0]), len(labels[1])))
    metadata = {"layout": "idx", "md5": digests, "official": official}
    pixels = np.concatenate(images)[:, None]
    return LabelledImages(pixels, np.concatenate(labels), len(labels[0]), metadata, warning, layout.classes)


_AGAIN = "fetch it again"


def _read(
    source: Path, name: str, shape: tuple[int | None, ...], digests: dict[str, str]
) -> tuple[NDArray[np.uint8], Path]:
    """Return the values of an IDX file, and its path; raises CohortError."""
    folders, names = (source, source / "gzip", source / "raw"), (f"{name}.gz", name)
    file = next((path for folder in folders for path in map(folder.joinpath, names) if path.is_file()), None)
    if file is None:
        raise CohortError(source, f"holds no {name}.gz", "the four files as published", f"check {param('source')}")
    length = 4 * (1 + len(shape))
    try:
        data = file.read_bytes() if file.stat().st_size <= LARGEST_BYTES else b""
        digests[file.name] = hashlib.md5(data, usedforsecurity=False).hexdigest()
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            header = stream.read(length)
            dims = struct.unpack(f">{len(shape)}I", header[4:]) if len(header) == length else ()
            if header[:4] != bytes((0, 0, 8, len(shape))):
                problem = f"begins with {header[:4].hex(' ') or 'nothing'}"
                expected = f"{bytes((0, 0, 8, len(shape))).hex(' ')}, IDX of bytes with {len(shape)} axes"
                raise CohortError(file, problem, expected, _AGAIN)
            if not dims or not dims[0] or any(b not in (a, None) for a, b in zip(dims, shape, strict=True)):
                expected = " x ".join("N" if size is None else str(size) for size in shape)
                raise CohortError(file, f"is of shape {' x '.join(map(str, dims)) or 'unknown'}", expected, _AGAIN)
            size = math.prod(dims)
            if size > LARGEST_BYTES:
                raise CohortError(file, f"claims {size:,} bytes", f"at most {LARGEST_BYTES:,}", _AGAIN)
            values = stream.read(size + 1)
    except (OSError, EOFError, zlib.error) as problem:  # BadGzipFile is an OSError
        raise CohortError(file, f"cannot be read ({problem})", "the file as published", _AGAIN) from problem
    if len(values) != size:
        actual = "more" if len(values) > size else f"{len(values):,}"
        raise CohortError(file, f"holds {actual} bytes of values", f"{size:,}, as its header says", _AGAIN)
    return np.frombuffer(values, np.uint8).reshape(dims), file


def _provenance(name: str, source: Path, digests: dict[str, str], counts: tuple[int, int]) -> tuple[bool | None, str]:
    """Return whether the files are the published ones (None if nobody can say), and a warning or ``""``."""
    layout, may_differ = LAYOUTS[name], "the images may differ from the published ones, say so beside a result"
    if counts != layout.counts:
        expected = " and ".join(f"{count:,}" for count in layout.counts)
        return False, f"{source}: holds {counts[0]:,} and {counts[1]:,} images, {name} has {expected}; {may_differ}"
    if not layout.md5 or not all(file.endswith(".gz") for file in digests):
        published = "of the archive" if not layout.md5 else "of the compressed files"
        return None, f"{source}: cannot be compared with the official files: MD5 is published {published} only"
    wrong = [file for (file, digest), known in zip(digests.items(), layout.md5, strict=True) if digest != known]
    if not wrong:
        return True, ""
    return False, f"{source}: MD5 of {', '.join(wrong)} is not the official one; {may_differ}"
