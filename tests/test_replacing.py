"""Writing whole or not at all, and errors that are one line."""

import hashlib
import json
import pickle
from pathlib import Path

import pytest

from ecgfed.base import errors, files
from ecgfed.base.errors import EcgfedError, OptionError, RecordError, StorageError


def half_written(path: Path, error: Exception) -> None:
    with files.replacing_file(path) as partial:
        partial.write_bytes(b"half")
        raise error


def half_made(path: Path) -> None:
    with files.replacing_folder(path, overwrite=True, markers=("a",)) as partial:
        (partial / "b").write_text("2")
        raise KeyError("stop")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "one µV")
    files.write_text(path, "two µV")
    assert path.read_bytes() == "two µV".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stop"):
        half_written(path, RuntimeError("stop"))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_refuses_is_a_storage_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(StorageError) as caught:
        half_written(path, OSError(28, "No space left on device"))
    assert caught.value.line.startswith(f"{path}: could not be written (No space left on device)")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(StorageError, match="could not be written"):
        files.write_bytes(tmp_path / "none" / "a.bin", b"x")


def test_json_is_utf8_and_never_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"unit": "µV", "n": [1, 2.5]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"unit": "µV", "n": [1, 2.5]}
    assert files.read_json(path, RecordError) == {"unit": "µV", "n": [1, 2.5]}
    with pytest.raises(ValueError, match="JSON compliant"):
        files.write_json(path, {"score": float("nan")})
    assert files.read_json(path, RecordError) == {"unit": "µV", "n": [1, 2.5]}


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe"])
def test_json_that_cannot_be_read_is_the_callers_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        files.read_json(path, RecordError)
    assert caught.value.line.startswith(f"{path}: ")


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with files.replacing_folder(path) as partial:
        (partial / "a").write_text("1")
        assert not path.exists()
    assert [entry.name for entry in path.iterdir()] == ["a"]
    with pytest.raises(KeyError, match="stop"):
        half_made(path)
    with files.replacing_folder(path, overwrite=True, markers=("a",)) as partial:
        (partial / "c").write_text("3")
        assert (path / "a").exists()
    assert [entry.name for entry in path.iterdir()] == ["c"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    """A slip of the finger in ``--out`` costs nobody a folder of their own, ``--overwrite`` or not."""
    (tmp_path / "thesis" / "data").mkdir(parents=True)
    (tmp_path / "thesis" / "chapter.tex").write_text("mine")
    with (
        pytest.raises(
            OptionError, match=r"thesis contains chapter\.tex, data, which ecgfed did not write.* nothing was removed"
        ),
        files.replacing_folder(tmp_path / "thesis", overwrite=True),
    ):
        pytest.fail("must not come this far")
    assert sorted(path.name for path in (tmp_path / "thesis").iterdir()) == ["chapter.tex", "data"]


def test_an_empty_folder_may_be_filled_and_a_taken_one_not(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    with files.replacing_folder(path) as partial:
        (partial / "a").write_text("1")
    with pytest.raises(OptionError, match=r"to: .*out is not empty"), files.replacing_folder(path, option="to"):
        pytest.fail("must not come this far")
    with pytest.raises(OptionError, match="is a file"), files.replacing_folder(path / "a", overwrite=True):
        pytest.fail("must not come this far")
    assert (path / "a").read_text() == "1"


def test_lines_are_appended_and_hashes_are_hashlibs(tmp_path: Path) -> None:
    path = tmp_path / "log"
    files.append_line(path, "one")
    files.append_line(path, "two")
    assert path.read_text() == "one\ntwo\n"
    assert files.sha256(path) == hashlib.sha256(b"one\ntwo\n").hexdigest()
    with pytest.raises(StorageError):
        files.append_line(tmp_path, "x")


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EcgfedError)]
)
def test_errors_are_one_line_and_travel_between_processes(kind: type[EcgfedError]) -> None:
    error = kind("a\nfile", "found\n  this", "that", "do so")
    assert str(error) == "a file: found this; expected that; do so"
    home = pickle.loads(pickle.dumps(error))
    assert type(home) is kind
    assert str(home) == str(error)
    assert str(kind("x", "is gone")) == "x: is gone"


def test_recordings_of_one_s_own_are_never_replaced(tmp_path: Path) -> None:
    """``--records`` of ``prepare demo``, and ``--out`` of everything else, beside somebody's own ``.hea`` files."""
    import ecgfed

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "100.hea").write_text("100 2 360 650000\n")
    for kept in ({"records": tmp_path / "mine"}, {"out": tmp_path / "mine"}):
        where = {"out": tmp_path / "cohort", **kept}
        with pytest.raises(OptionError, match=r"mine contains 100\.hea, which ecgfed did not write"):
            ecgfed.prepare_demo(patients=1, minutes=1, overwrite=True, **where)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["100.hea"]
