"""A bundle in one zip file: the same bundle; and what a stranger's zip can do, which is nothing."""

import contextlib
import io
import json
import os
import shutil
import stat
import struct
import subprocess
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import Command, assert_refused, copied, exported

from ecgfed.base.errors import BundleError, OptionError
from ecgfed.device import check_golden, open_bundle
from ecgfed.device import zip_file as module
from ecgfed.exports.bundles.packing import packed, replacing_bundle

RECORD = Path(__file__).parent.parent / "data" / "version-0.1" / "recording" / "demo01"


def zipped(folder: Path, out: Path) -> Path:
    """Pack a bundle's folder as export does."""
    with replacing_bundle(out, overwrite=True) as inside:
        shutil.copytree(folder, inside, dirs_exist_ok=True)
    return out


@pytest.fixture
def bundle(fedavg_run: Path, tmp_path: Path) -> Path:
    return zipped(exported(fedavg_run), tmp_path / "bundle.zip")


def rewritten(path: Path, change: Callable[[dict[str, bytes]], object], **how: int) -> Path:
    """Unpack, change, and pack again with Python's own zipfile."""
    with zipfile.ZipFile(path) as old:
        files = {name: old.read(name) for name in old.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w", **how) as new:  # type: ignore[call-overload]
        for name, data in files.items():
            new.writestr(name, data)
    return path


def test_it_is_the_same_bundle(bundle: Path, fedavg_run: Path) -> None:
    folder, packed_ = open_bundle(exported(fedavg_run)), open_bundle(bundle)
    assert packed_.manifest == folder.manifest
    windows = np.random.default_rng(0).normal(0, 0.3, (5, 1, 256)).astype(np.float32)
    rr = np.zeros((5, 16), np.float32)
    for patient in (None, "p3"):
        one, other = (found.classifier(patient).logits(windows, rr) for found in (folder, packed_))
        np.testing.assert_array_equal(one, other)
    assert check_golden(packed_).agrees


def test_its_bytes_are_the_same_each_time_and_others_read_it(bundle: Path, fedavg_run: Path, tmp_path: Path) -> None:
    folder = exported(fedavg_run)
    moved = copied(folder, tmp_path / "moved")
    for file in moved.rglob("*"):
        os.utime(file, (10**9, 10**9))
        file.chmod(0o700)
    assert zipped(moved, tmp_path / "again.zip").read_bytes() == bundle.read_bytes()
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "manifest.json"
        archive.extractall(tmp_path / "out")
    for file in (path for path in folder.rglob("*") if path.is_file()):
        assert (tmp_path / "out" / file.relative_to(folder)).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_of_pythons_own_opens(bundle: Path, method: int) -> None:
    assert open_bundle(rewritten(bundle, lambda files: None, compression=method)).classifier("p1")


@pytest.mark.skipif(shutil.which("zip") is None, reason="needs Info-ZIP's zip")
def test_a_zip_of_info_zip_opens(fedavg_run: Path, tmp_path: Path) -> None:
    """With entries for folders, extra fields, and sizes behind the data."""
    subprocess.run(["zip", "-qr", str(tmp_path / "b.zip"), "."], cwd=exported(fedavg_run), check=True)
    assert open_bundle(tmp_path / "b.zip").classifier("p1")


def test_a_zip_of_the_folder_itself_says_how_to_pack(bundle: Path) -> None:
    def nest(files: dict[str, bytes]) -> None:
        for name in list(files):
            files[f"bundle/{name}"] = files.pop(name)

    with pytest.raises(BundleError, match=r"holds no manifest\.json; expected a bundle; pack the files inside bundle"):
        open_bundle(rewritten(bundle, nest))


def _add(name: str, data: bytes = b"x") -> Callable[[dict[str, bytes]], object]:
    return lambda files: files.update({name: data})


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "a/../../b", "C:/x", "a//b", "./a", "a\x1b[2Jb", "a\\..\\b", "patients/../../x"]
)
def test_names_that_lead_elsewhere_are_refused(bundle: Path, name: str) -> None:
    before = sorted(bundle.parent.rglob("*"))
    with pytest.raises(BundleError, match=r"bundle\.zip: holds .*no path inside a bundle") as caught:
        open_bundle(rewritten(bundle, _add(name)))
    assert "\n" not in caught.value.line
    assert sorted(bundle.parent.rglob("*")) == before


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused(bundle: Path) -> None:
    with zipfile.ZipFile(bundle, "a") as archive:
        archive.writestr("global.onnx", b"another")
    with pytest.raises(BundleError, match=r"holds 'global\.onnx' twice"):
        open_bundle(bundle)


def test_links_and_devices_are_refused(bundle: Path) -> None:
    for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR):
        other = bundle.with_name("other.zip")
        shutil.copy(bundle, other)
        with zipfile.ZipFile(other, "a") as archive:
            info = zipfile.ZipInfo("extra")
            info.create_system, info.external_attr = 3, (kind | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
        with pytest.raises(BundleError, match="which is a link or a device; expected plain files"):
            open_bundle(other)


def _flag(data: bytearray, name: bytes, bit: int) -> None:
    """Set a flag of an entry, in the directory and before the data."""
    for mark, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        start = -1
        while (start := data.find(mark, start + 1)) >= 0:
            size = 46 if mark == b"PK\x01\x02" else 30
            if data[start + size : start + size + len(name)] == name:
                (flags,) = struct.unpack_from("<H", data, start + at)
                struct.pack_into("<H", data, start + at, flags | bit)


@pytest.mark.parametrize("bit", [1 << 0, 1 << 5, 1 << 6, 1 << 13])
def test_encrypted_files_are_refused(bundle: Path, bit: int) -> None:
    data = bytearray(bundle.read_bytes())
    _flag(data, b"global.onnx", bit)
    bundle.write_bytes(data)
    with pytest.raises(BundleError, match=r"'global\.onnx' encrypted, or packed in a way of its own"):
        open_bundle(bundle)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(bundle: Path, method: int) -> None:
    with pytest.raises(BundleError, match=r"packed by method|in a way of its own"):
        open_bundle(rewritten(bundle, lambda files: None, compression=method))


def _directory(data: bytes) -> tuple[int, int, int]:
    """Place of the record at the end, of the directory, and its size."""
    end = data.rfind(b"PK\x05\x06")
    size, at = struct.unpack_from("<2L", data, end + 12)
    return end, at, size


def test_a_bomb_is_refused_before_memory_is_taken(bundle: Path) -> None:
    """Ten megabytes of zeros deflate to ten kilobytes: more is claimed than a graph may have, or than was packed."""
    rewritten(bundle, _add("zeros", bytes(10 << 20)), compression=zipfile.ZIP_DEFLATED)
    assert open_bundle(bundle)  # nobody asks for it
    data = bytearray(bundle.read_bytes())
    _, at, _ = _directory(data)
    entry = data.find(b"zeros", at) - 46
    for size, match in ((3 << 30, "claims .* in"), (0xFFFFFFFF, "claims .* in")):
        struct.pack_into("<L", data, entry + 24, size)
        bundle.write_bytes(data)
        tracemalloc.start()
        with pytest.raises(BundleError, match=match):
            open_bundle(bundle)
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert taken < 4 << 20


def test_a_file_that_unpacks_to_more_than_it_says_is_refused(bundle: Path) -> None:
    rewritten(bundle, lambda files: None, compression=zipfile.ZIP_DEFLATED)
    data = bytearray(bundle.read_bytes())
    _, at, _ = _directory(data)
    entry = data.find(b"golden.json", at) - 46
    (size,) = struct.unpack_from("<L", data, entry + 24)
    struct.pack_into("<L", data, entry + 24, size - 9)
    bundle.write_bytes(data)
    with pytest.raises(BundleError, match="unpacks to another size than the archive says"):
        open_bundle(bundle)


def test_files_that_lie_in_one_another_are_refused(bundle: Path) -> None:
    """Fifield's bomb: many names for the same few bytes."""
    data = bytearray(bundle.read_bytes())
    end, at, size = _directory(data)
    first = bytes(data[at : data.find(b"PK\x01\x02", at + 4)])
    again = bytearray(first)
    name = first[46 : 46 + struct.unpack_from("<H", first, 28)[0]]
    again[46 : 46 + len(name)] = b"n" * len(name)
    data[end:end] = again
    end += len(again)
    count = struct.unpack_from("<H", data, end + 8)[0] + 1
    struct.pack_into("<2HL", data, end + 8, count, count, size + len(again))
    bundle.write_bytes(data)
    with pytest.raises(BundleError, match="inside another file; expected files side by side"):
        open_bundle(bundle)


@pytest.mark.parametrize("keep", [0, 10, 1000, -1, -30])
def test_a_cut_zip_is_refused(bundle: Path, keep: int) -> None:
    bundle.write_bytes(bundle.read_bytes()[:keep])
    with pytest.raises(BundleError, match=r"bundle\.zip: is (no zip file|a zip file with other data)") as caught:
        open_bundle(bundle)
    assert "\n" not in caught.value.line


def test_data_before_or_behind_the_archive_is_refused(bundle: Path) -> None:
    data = bundle.read_bytes()
    for spoilt in (b"#!/bin/sh\n" + data, data + b"more", data[:-22] + b"gap" + data[-22:]):
        bundle.write_bytes(spoilt)
        with pytest.raises(BundleError, match="other data before, inside or behind it"):
            open_bundle(bundle)


def test_claims_of_the_directory_are_weighed(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    with pytest.raises(BundleError, match=r"claims \d+ files in .*at most 3"):
        open_bundle(bundle)
    monkeypatch.setattr(module, "MOST_FILES", 100)
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(BundleError, match="at most 1,000"):
        open_bundle(bundle)


def test_a_64_bit_archive_is_refused(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive, archive.open("manifest.json", "w", force_zip64=True) as inside:
        inside.write(b"{}")
    (tmp_path / "b.zip").write_bytes(held.getvalue())
    with pytest.raises(BundleError):
        open_bundle(tmp_path / "b.zip")


def test_any_byte_that_is_changed_is_refused_or_changes_nothing(bundle: Path) -> None:
    """Wherever a bit flips, what opens is the bundle it was."""
    whole, draw = bundle.read_bytes(), np.random.default_rng(3)
    said = open_bundle(bundle).manifest
    _, at, _ = _directory(whole)
    places = [*draw.integers(0, len(whole), 40).tolist(), *draw.integers(at, len(whole), 160).tolist()]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << int(draw.integers(0, 8))
        bundle.write_bytes(data)
        with contextlib.suppress(BundleError):
            assert open_bundle(bundle).manifest == said


def test_a_changed_file_in_it_is_refused(bundle: Path) -> None:
    rewritten(bundle, lambda files: files.update({"global.onnx": files["global.onnx"][:-1] + b"\0"}))
    with pytest.raises(BundleError, match=r"bundle\.zip/global\.onnx: was changed .*SHA-256"):
        open_bundle(bundle)


def test_a_missing_file_in_it_is_refused(bundle: Path) -> None:
    with pytest.raises(BundleError, match=r"bundle\.zip/golden\.json: does not exist"):
        open_bundle(rewritten(bundle, lambda files: files.pop("golden.json")))


def test_what_is_no_zip_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_text("no zip at all")
    with pytest.raises(BundleError, match=r"b\.zip: is no zip file"):
        open_bundle(tmp_path / "b.zip")
    with pytest.raises(BundleError, match="is not a folder; expected a bundle"):
        open_bundle(tmp_path / "none.zip")
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(BundleError, match=r"pipe\.zip"):
        open_bundle(tmp_path / "pipe.zip")


def test_the_commands_take_it(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "b.zip"
    said = ecgfed("export", fedavg_run, "--out", out, "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["patients"] == 4
    assert zipped(exported(fedavg_run), tmp_path / "same.zip").read_bytes() == out.read_bytes()
    assert_refused(ecgfed("export", fedavg_run, "--out", out), "b.zip exists", "--overwrite")
    for name, bundle in (("zip", out), ("folder", exported(fedavg_run))):
        said = ecgfed("predict", bundle, RECORD, "--patient", "p2", "--out", tmp_path / name)
        assert said.code == 0, said.err
    one, other = ((tmp_path / name / "demo01.csv").read_bytes() for name in ("zip", "folder"))
    assert one == other
    said = ecgfed("report", RECORD, "--bundle", out, "--out", tmp_path / "page.html")
    assert said.code == 0, said.err
    assert_refused(ecgfed("predict", out, "--out", tmp_path / "none"), "is a bundle")


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "b.zip").mkdir()
    with pytest.raises(OptionError, match="is a folder"), replacing_bundle(tmp_path / "b.zip", overwrite=True):
        pytest.fail("nothing is begun")


def test_nothing_is_left_where_the_work_fails(bundle: Path, tmp_path: Path) -> None:
    def fail() -> None:
        with replacing_bundle(bundle, overwrite=True) as folder:
            (folder / "manifest.json").write_text("{}")
            raise ZeroDivisionError

    before = bundle.read_bytes()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert bundle.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.zip"]


def test_packing_is_written_down() -> None:
    """An archive of one file, by hand: APPNOTE.TXT 4.3."""
    name, crc = b"a", 0xD8932AAC
    same = struct.pack("<5H3L2H", 20, 1 << 11, 0, 0, 0x21, crc, 2, 2, 1, 0)
    local = b"PK\x03\x04" + same + name + b"hi"
    entry = b"PK\x01\x02" + struct.pack("<H", 0x0314) + same + struct.pack("<3H2L", 0, 0, 0, 0o100644 << 16, 0) + name
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 1, 1, len(entry), len(local), 0)
    assert b"".join(packed(["a"], lambda _: b"hi")) == local + entry + end
