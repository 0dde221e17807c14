"""CIFAR-10's two layouts: read as published, compared with the published digests, and nothing run that a file names."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cifar_source as cs
import numpy as np
import pytest
from refusals import refuses

from ecgfed.base.errors import CohortError, OptionError
from ecgfed.domain.cohort import cifar_files
from ecgfed.domain.cohort.cifar_files import read_cifar10
from ecgfed.domain.cohort.labelled_images import LabelledImages


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar_files, "ROWS", cs.ROWS)


def _same(source: Path) -> LabelledImages:
    images, label = cs.published()
    found = read_cifar10(source)
    np.testing.assert_array_equal(found.images, images)
    np.testing.assert_array_equal(found.label, label)
    assert found.images.dtype == np.uint8
    assert found.train == 5 * cs.ROWS
    return found


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-bin"])
def test_the_binary_layout_in_the_folder_or_below_it(tmp_path: Path, inside: str) -> None:
    cs.write_binary(tmp_path / inside)
    found = _same(tmp_path)
    assert found.metadata["official"] is None
    assert "cannot be compared" in found.warning
    assert set(found.metadata["md5"]) == set(cs.names(".bin"))


@pytest.mark.parametrize("protocol", [None, 0, 1, 2, 3, 4, 5])
def test_the_python_layout_of_python_2_and_of_every_protocol(tmp_path: Path, protocol: int | None) -> None:
    cs.write_python(tmp_path / "cifar-10-batches-py", protocol=protocol)
    found = _same(tmp_path)
    assert found.metadata["official"] is False
    assert "data_batch_1" in found.warning
    assert "is not the official one" in found.warning


def test_official_digests_need_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cs.write_python(tmp_path)
    digests = {name: cifar_files.md5(folder / name) for name in cs.names("")}
    monkeypatch.setattr(cifar_files, "PYTHON_MD5", digests)
    assert _same(folder).metadata["official"] is True
    assert read_cifar10(folder).warning == ""
    shutil.copy(folder / "data_batch_1", folder / "data_batch_2")
    assert "MD5 of data_batch_2 is not" in read_cifar10(folder).warning


@pytest.mark.parametrize(("kind", "archive"), [("bin", "cifar-10-binary.tar.gz"), ("py", "cifar-10-python.tar.gz")])
def test_an_archive_is_read_without_being_extracted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, archive: str
) -> None:
    write = cs.write_binary if kind == "bin" else cs.write_python
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = cs.write_archive(write(tmp_path / "files"), tmp_path / "a" / "b" / archive, f"cifar-10-batches-{kind}")
    shutil.rmtree(tmp_path / "files")
    before = sorted(tmp_path.rglob("*"))
    found = _same(file)
    assert found.metadata["official"] is False
    assert f"is not the official {cifar_files.ARCHIVE_MD5[archive]}" in found.warning
    monkeypatch.setitem(cifar_files.ARCHIVE_MD5, archive, cifar_files.md5(file))
    assert _same(file.parent).metadata["official"] is True  # found in its folder, too
    assert sorted(tmp_path.rglob("*")) == before


class _Evil:
    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.made = (call, arguments)

    def __reduce__(self) -> Any:
        return self.made


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (lambda trace: _Evil(os.system, f"touch {trace}"), "system is not allowed"),
        (lambda trace: _Evil(exec, f"open({str(trace)!r}, 'w')"), ".exec is not allowed"),
        (lambda trace: _Evil(np.load, str(trace)), "is not allowed"),
        (lambda trace: {"data": np.array([_Evil(os.system, f"touch {trace}")], object)}, "not allowed"),
        (lambda trace: {"data": np.zeros((cs.ROWS, 3072)), "labels": []}, "'f8' is not allowed"),
        (lambda trace: {"data": np.zeros((cs.ROWS, 3071), np.uint8), "labels": []}, "shape (60, 3071)"),
        (lambda trace: {"data": np.zeros((cs.ROWS, 3072), np.uint8), "labels": [0.5] * cs.ROWS}, "no list of labels"),
        (lambda trace: {"data": np.zeros((cs.ROWS, 3072), np.uint8), "labels": [10] * cs.ROWS}, "holds label 10"),
        (lambda trace: {"data": np.zeros((cs.ROWS, 3072), np.uint8), "labels": [-1] * cs.ROWS}, "holds label -1"),
        (lambda trace: {"data": np.zeros((cs.ROWS, 3072), np.uint8), "labels": [2**70] * cs.ROWS}, "holds label"),
        (lambda trace: [1, 2], "holds a list"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 5])
def test_a_pickle_that_is_no_batch_is_refused_and_runs_nothing(
    tmp_path: Path, content: Callable[[Path], Any], told: str, protocol: int
) -> None:
    folder = cs.write_python(tmp_path / "cifar-10-batches-py")
    trace = tmp_path / "ran"
    (folder / "data_batch_3").write_bytes(pickle.dumps(content(trace), protocol))
    with pytest.raises(CohortError) as error:
        read_cifar10(tmp_path)
    assert "data_batch_3" in error.value.line
    assert told in error.value.line
    assert not trace.exists()


def test_a_pickle_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    folder = cs.write_python(tmp_path)
    whole = (folder / "test_batch").read_bytes()
    for damaged in (whole[:1000], b"", b"no pickle", whole.replace(b"M\x00\x0c", b"M\xff\xff"), whole[:-40]):
        (folder / "test_batch").write_bytes(damaged)
        with refuses(CohortError, "invalid-cohort"):
            read_cifar10(tmp_path)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"", lambda b: b[: 3073 * 59]])
def test_a_binary_file_of_another_length_is_refused(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    file = cs.write_binary(tmp_path) / "data_batch_4.bin"
    file.write_bytes(change(file.read_bytes()))
    with refuses(CohortError, "invalid-cohort"):
        read_cifar10(tmp_path)


def test_a_label_past_9_is_refused(tmp_path: Path) -> None:
    file = cs.write_binary(tmp_path) / "test_batch.bin"
    data = bytearray(file.read_bytes())
    data[3073 * 7] = 10
    file.write_bytes(bytes(data))
    with refuses(CohortError, "invalid-cohort"):
        read_cifar10(tmp_path)


def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses(OptionError, "invalid-value", "source"):
        read_cifar10(tmp_path / "nowhere")
    with refuses(CohortError, "invalid-cohort", "source"):
        read_cifar10(tmp_path)
    cs.write_binary(tmp_path)
    (tmp_path / "data_batch_2.bin").unlink()
    with refuses(CohortError, "invalid-cohort"):
        read_cifar10(tmp_path)
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b nothing")
    with refuses(CohortError, "invalid-cohort"):
        read_cifar10(tmp_path / "x.tar.gz")
    archive = cs.write_archive(tmp_path, tmp_path.parent / "short.tar.gz", "d")
    with refuses(CohortError, "invalid-cohort"):
        read_cifar10(archive)
    monkeypatch.setattr(cifar_files, "LARGEST_BYTES", 1000)
    with refuses(CohortError, "invalid-cohort"):
        read_cifar10(tmp_path)
