"""CIFAR-10 in small: sources of either layout as they are published, written byte by byte, and cohorts of images."""

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.cohort.cifar import CifarOptions, build_cifar_cohort
from ecgfed.domain.cohort.cifar_files import CLASSES
from ecgfed.domain.cohort.labelled_images import LabelledImages

#: images of each of the six files, six of a class
ROWS = 60


def draw_images(count: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (count, 3, 32, 32) whose class shows in brightness and colour, and labels in a drawn order."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(count) % 10)
    images = rng.integers(0, 60, (count, 3, 32, 32)) + 15 * label[:, None, None, None]
    images[np.arange(count), label % 3] += 40
    return images.astype(np.uint8), label


def published(seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Six files' images and labels: five to train on, one to test."""
    return draw_images(6 * ROWS, seed)


def names(suffix: str) -> list[str]:
    return [*(f"data_batch_{i}{suffix}" for i in range(1, 6)), f"test_batch{suffix}"]


def write_binary(folder: Path, seed: int = 0) -> Path:
    """A label byte, then 1,024 red, green and blue bytes, an image after the other."""
    images, label = published(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names(".bin")):
        rows = b""
        for k in range(i * ROWS, (i + 1) * ROWS):
            rows += bytes([label[k]]) + images[k, 0].tobytes() + images[k, 1].tobytes() + images[k, 2].tobytes()
        (folder / name).write_bytes(rows)
    return folder


def python2_pickle(pixels: NDArray[np.uint8], label: NDArray[np.int64]) -> bytes:
    """What Python 2's cPickle wrote, opcode by opcode: byte strings as keys, ``numpy.core``, protocol 2."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    minus = b"J\xff\xff\xff\xff"
    kind = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN" + 2 * minus + b"K\x00tb"
    shape = b"".join(b"M" + n.to_bytes(2, "little") for n in pixels.shape) + b"\x86"
    raw = pixels.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R(K\x01"
    array += shape + kind + b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([int(value)]) for value in label) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + numbers + b"u."


def write_python(folder: Path, seed: int = 0, protocol: int | None = None) -> Path:
    """Pickled batches: as Python 2 wrote the published ones, or as this Python does in a protocol."""
    images, label = published(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names("")):
        part = slice(i * ROWS, (i + 1) * ROWS)
        pixels = images[part].reshape(ROWS, -1)
        if protocol is None:
            data = python2_pickle(pixels, label[part])
        else:
            data = pickle.dumps({"data": pixels, "labels": [int(value) for value in label[part]]}, protocol)
        (folder / name).write_bytes(data)
    return folder


def write_archive(folder: Path, file: Path, inside: str) -> Path:
    """The files of a folder as ``inside/NAME`` in a tar.gz, beside a member that wants out of the folder."""
    with tarfile.open(file, "w:gz") as archive:
        escape = tarfile.TarInfo("../../escaped.bin")
        escape.size = 3
        archive.addfile(escape, io.BytesIO(b"bad"))
        for path in sorted(folder.iterdir()):
            archive.add(path, f"{inside}/{path.name}")
    return file


def small_images(train: int = 200, test: int = 60, seed: int = 0) -> LabelledImages:
    """What ``read_cifar10`` returns, in small."""
    images, label = draw_images(train + test, seed)
    return LabelledImages(images, label, train, {"layout": "drawn"}, "", CLASSES)


def small_cohort(out: Path, **options: object) -> Path:
    """A cohort of five clients by default."""
    chosen = {"clients": 5, "seed": 1, **options}
    build_cifar_cohort(small_images(), out, CifarOptions(**chosen))  # type: ignore[arg-type]
    return out


assert len(CLASSES) == 10
