"""MNIST, Fashion-MNIST, EMNIST and CIFAR-100 from small files in their layouts, written byte by byte."""

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

import ecgfed
from ecgfed.base.errors import CohortError, OptionError
from ecgfed.domain.cohort import cifar_files, idx_files

TRAIN, TEST = 12, 5
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(values: np.ndarray) -> bytes:
    """An IDX file of bytes: 0 0 8 axes, each length with the most significant byte first, the values."""
    header = bytes([0, 0, 8, values.ndim]) + b"".join(length.to_bytes(4, "big") for length in values.shape)
    return header + bytes(int(value) for value in values.flat)


def drawn(classes: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (TRAIN + TEST, 28, 28)), rng.permutation(np.arange(TRAIN + TEST) % classes)


def write(folder: Path, prefixes: tuple[str, str] = ("train", "t10k"), first: int = 0, *, packed: bool = True) -> Path:
    images, label = drawn()
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, part in zip(prefixes, (slice(0, TRAIN), slice(TRAIN, None)), strict=True):
        for name, values in (("images-idx3", images[part]), ("labels-idx1", label[part] + first)):
            data = idx(values)
            file = folder / f"{prefix}-{name}-ubyte{'.gz' if packed else ''}"
            file.write_bytes(gzip.compress(data) if packed else data)
    return folder


def read(name: str, source: Path) -> ecgfed.LabelledImages:
    with pytest.warns(ecgfed.EcgfedWarning):  # they are not the published files
        return ecgfed.read_images(name, source)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("packed", [True, False])
def test_images_and_labels_of_idx_files(tmp_path: Path, name: str, packed: bool) -> None:
    images, label = drawn()
    data = read(name, write(tmp_path, packed=packed))
    np.testing.assert_array_equal(data.images, images[:, None])
    np.testing.assert_array_equal(data.label, label)
    assert (data.train, len(data.classes), data.metadata["official"]) == (TRAIN, 10, False)
    assert data.split.tolist() == [0] * TRAIN + [2] * TEST


def test_emnist_is_upright_and_its_letters_begin_with_1(tmp_path: Path) -> None:
    images, label = drawn()
    write(tmp_path / "gzip", ("emnist-letters-train", "emnist-letters-test"), first=1)
    data = read("emnist-letters", tmp_path)
    np.testing.assert_array_equal(data.images[:, 0], images.swapaxes(1, 2))
    np.testing.assert_array_equal(data.label, label)
    assert data.classes[:2] == ("A", "B")
    for prefix in ("emnist-byclass", "emnist-balanced"):
        write(tmp_path, (f"{prefix}-train", f"{prefix}-test"))
    assert (len(read("emnist-byclass", tmp_path).classes), len(read("emnist-balanced", tmp_path).classes)) == (62, 47)


def test_files_with_the_published_digests_are_official(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    digests = tuple(hashlib.md5((tmp_path / f"{name}.gz").read_bytes()).hexdigest() for name in FILES)
    layout = replace(idx_files.LAYOUTS["mnist"], md5=digests, counts=(TRAIN, TEST))
    monkeypatch.setitem(idx_files.LAYOUTS, "mnist", layout)
    assert ecgfed.read_images("mnist", tmp_path).metadata["official"] is True
    monkeypatch.setitem(idx_files.LAYOUTS, "mnist", replace(layout, md5=("0" * 32, *digests[1:])))
    assert read("mnist", tmp_path).metadata["official"] is False


def spoiled(data: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "no IDX": b"\x89PNG" + data[4:],
        "labels in place of images": bytes([0, 0, 8, 1]) + data[4:],
        "numbers of four bytes": bytes([0, 0, 12, 3]) + data[4:],
        "cut off": data[:-1],
        "cut off in the header": data[:10],
        "more than it says": data + b"\0",
        "images of 27 pixels": data[:12] + struct.pack(">I", 27) + data[16:],
        "none": data[:4] + struct.pack(">I", 0) + data[8:16],
        "claims gigabytes": data[:4] + struct.pack(">I", 2**31) + data[8:],
    }


@pytest.mark.parametrize("fault", list(spoiled(b"")))
@pytest.mark.parametrize("packed", [True, False])
def test_a_spoiled_file_is_refused(tmp_path: Path, fault: str, packed: bool) -> None:
    file = write(tmp_path, packed=packed) / (FILES[0] + ".gz" * packed)
    data = gzip.decompress(file.read_bytes()) if packed else file.read_bytes()
    wrong = spoiled(data)[fault]
    file.write_bytes(gzip.compress(wrong) if packed else wrong)
    with pytest.raises(CohortError) as caught:
        ecgfed.read_images("mnist", tmp_path)
    assert FILES[0] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_archive_and_labels_that_do_not_fit(tmp_path: Path) -> None:
    file = write(tmp_path) / f"{FILES[0]}.gz"
    whole = file.read_bytes()
    for data in (whole[: len(whole) // 2], b"no gzip", whole[:200] + bytes(50) + whole[250:]):
        file.write_bytes(data)
        with refuses(CohortError, "invalid-cohort"):
            ecgfed.read_images("mnist", tmp_path)
    file.write_bytes(whole)
    for label in (np.full(TRAIN, 10), np.zeros(TRAIN - 1)):
        (tmp_path / f"{FILES[1]}.gz").write_bytes(gzip.compress(idx(label)))
        with refuses(CohortError, "invalid-cohort"):
            ecgfed.read_images("mnist", tmp_path)
    (tmp_path / f"{FILES[1]}.gz").unlink()
    with refuses(CohortError, "invalid-cohort", "source"):
        ecgfed.read_images("mnist", tmp_path)


def test_names_and_folders_that_are_none(tmp_path: Path) -> None:
    with refuses(OptionError, "invalid-value", "name"):
        ecgfed.read_images("mnits", tmp_path)
    with refuses(OptionError, "invalid-value", "source"):
        ecgfed.read_images("mnist", tmp_path / "nowhere")
    with refuses(OptionError, "invalid-value", "source"):
        ecgfed.read_images("cifar100", tmp_path / "nowhere")


@pytest.fixture
def cifar100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, np.ndarray]:
    """A folder with 5 x 4 rows to train on and 4 to test: coarse label, fine label, red, green and blue bytes."""
    monkeypatch.setattr(cifar_files, "ROWS", 4)
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.integers(0, 20, (24, 1)), rng.integers(0, 100, (24, 1)), rng.integers(0, 256, (24, 3072))], axis=1
    )
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(bytes(rows[:20].ravel().tolist()))
    (folder / "test.bin").write_bytes(bytes(rows[20:].ravel().tolist()))
    return folder, rows


def test_cifar100_has_two_labels_an_image(cifar100: tuple[Path, np.ndarray]) -> None:
    folder, rows = cifar100
    fine, coarse = read("cifar100", folder.parent), read("cifar100-coarse", folder)
    np.testing.assert_array_equal(fine.images.reshape(24, -1), rows[:, 2:])
    np.testing.assert_array_equal(fine.label, rows[:, 1])
    np.testing.assert_array_equal(coarse.label, rows[:, 0])
    assert (fine.train, len(fine.classes), len(coarse.classes)) == (20, 100, 20)
    assert (fine.classes[0], fine.classes[99], coarse.classes[19]) == ("apple", "worm", "vehicles_2")


def test_spoiled_files_of_cifar100_are_refused(cifar100: tuple[Path, np.ndarray]) -> None:
    folder, _ = cifar100
    whole = (folder / "train.bin").read_bytes()
    for data in (whole[:-1], whole[:3074], b"", bytes([20]) + whole[1:], whole[:1] + bytes([100]) + whole[2:]):
        (folder / "train.bin").write_bytes(data)
        with refuses(CohortError, "invalid-cohort"):
            ecgfed.read_images("cifar100", folder)
    (folder / "train.bin").unlink()
    with refuses(CohortError, "invalid-cohort", "source"):
        ecgfed.read_images("cifar100", folder)
