"""The gate: what a stranger's file may be, measured in bytes, values, depth and names before it is believed."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ecgfed.base.errors import CohortError, EcgfedError
from ecgfed.base.files import read_json
from ecgfed.base.safe_io import (
    check_columns,
    check_expansion,
    check_links,
    check_name,
    name_problem,
    open_regular,
    parse_json,
    parse_toml,
    path_problem,
    read_bounded,
)


@pytest.mark.parametrize(
    "name", ["100", "201+202", "demo01", "a b", "Müller", "x.y", "-", "p" * 200, "심전도", "con1x"]
)
def test_names_that_can_be_a_files(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", "C:x", "x\0y", "x\ny", "\x1b[31m", "x\u202ey"),
        *(".hidden", "x.", "x ", " x", "nul", "CON", "com1.txt", "LPT².x", "conin$", "nul .x", "p" * 201, "é" * 101),
        *("\ud800", "a*b", 7, None, ["x"]),
    ],
)
def test_names_that_cannot(name: object, tmp_path: Path) -> None:
    assert name_problem(name)
    with pytest.raises(CohortError, match="a valid file name") as caught:
        check_name(name, "client", tmp_path, CohortError)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../x.dat", "/etc/passwd", "a/../../x", "a//b", "C:\\x", "..\\x", "x\0", "\\\\host\\x"]
)
def test_paths_that_lead_out_of_a_folder(name: str) -> None:
    assert path_problem(name)


@pytest.mark.parametrize(
    "name", ["100.dat", "A0001.mat", "sub/100.dat", "3000003_0001", "p000020-2183-04-28-17-47", "~"]
)
def test_paths_that_stay(name: str) -> None:
    assert path_problem(name) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 40 + "]" * 40, "deeper than 32"),
        ("[" * 100_000 + "]" * 100_000, "deeper than 32"),
        ('{"a":' * 40 + "1" + "}" * 40, "deeper than 32"),
        ("1" * 5000, "an integer of 5000 digits"),
        ("-" + "1" * 20, "an integer of 21 digits"),
        ("[" + "1," * 8_000_001 + "1]", "more than 8,000,000 values"),
    ],
)
def test_json_that_is_too_much(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(text)


def test_json_that_is_not() -> None:
    assert parse_json("[" * 32 + "]" * 32)
    assert parse_json('{"seed": 9223372036854775807, "x": -1.5e3, "t": [true, null]}') == {
        "seed": 2**63 - 1,
        "x": -1500.0,
        "t": [True, None],
    }


@pytest.mark.parametrize(
    "text", ["a." * 500 + "b = 1", "x = " + "[" * 50 + "]" * 50, "x = " + "9" * 5000, "x" * (300 << 10)]
)
def test_toml_that_is_too_much(text: str) -> None:
    with pytest.raises(ValueError, match=r"deeper|digits|at most"):
        parse_toml(text.encode())


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A pipe that nobody writes to and a device that never ends would be waited for for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(tmp_path / name)
        with pytest.raises(CohortError, match=f"{name}: cannot be read \\(it is not a regular file\\)"):
            read_json(tmp_path / name, CohortError)
    with pytest.raises(CohortError, match="does not exist"):
        read_bounded(tmp_path / "none", 10, CohortError)
    (tmp_path / "long").write_bytes(b"x" * 11)
    with pytest.raises(CohortError, match="has 11 bytes; expected at most 10"):
        read_bounded(tmp_path / "long", 10, CohortError)


def test_a_document_of_the_largest_size_takes_less_than_two_gigabytes(tmp_path: Path) -> None:
    """The dearest JSON there is: as many empty objects as are let through."""
    file = tmp_path / "big.json"
    file.write_text("[" + ",".join(["{}"] * 3_900_000) + "]")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    code = f"from ecgfed.base.safe_io import parse_json; print(len(parse_json(open({str(file)!r}, 'rb').read())))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.stdout == "3900000\n", done.stderr[-300:]


def test_links_out_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (tmp_path / "other").write_text("x")
    (folder / "inside").write_text("x")
    (folder / "within").symlink_to("inside")
    (folder / "out").symlink_to("../other")
    (tmp_path / "linked").symlink_to(folder)
    check_links(folder, ["inside", "within", "none"], CohortError)
    check_links(tmp_path / "linked", ["within"], CohortError)  # a person's own link to the whole folder
    with pytest.raises(CohortError, match="is a link out of its folder"):
        check_links(folder, ["inside", "out"], CohortError)


def test_what_a_compressed_file_may_claim() -> None:
    check_expansion(8_388_608, 0, "x", CohortError)
    check_expansion(8_388_608 + 3200, 100, "x", CohortError)
    with pytest.raises(EcgfedError, match="claims 8,388,609 numbers in 0 bytes"):
        check_expansion(8_388_609, 0, "x", CohortError)


def test_json_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"a": 10**30}))
    with pytest.raises(CohortError, match=r"x\.json: cannot be read as JSON \(an integer of 31 digits\)"):
        read_json(tmp_path / "x.json", CohortError)


@pytest.mark.parametrize(
    "text", ['{"fs": 360, "fs": 250}', '{"a": [{"b": 1, "c": 2, "b": 1}]}', '{"a": 1, "\\u0061": 2}', '{"": 1, "": 1}']
)
def test_a_name_that_stands_twice_in_one_object_is_no_json(text: str, tmp_path: Path) -> None:
    """Python takes the last one, other readers the first: what a stranger's file says would depend on who reads it."""
    json.loads(text)  # it is JSON by the letter
    with pytest.raises(ValueError, match="stands twice"):
        parse_json(text)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(CohortError, match="stands twice"):
        read_json(tmp_path / "x.json", CohortError)


def test_the_same_name_in_two_objects_is_json() -> None:
    assert parse_json('[{"a": 1, "b": {"a": 2}}, {"a": 3}]') == [{"a": 1, "b": {"a": 2}}, {"a": 3}]


@pytest.mark.parametrize("number", ["0x" + "f" * 100_000, "0b" + "1" * 100_000, "1" * 4000, "-" + "9" * 21])
def test_a_whole_number_without_end_is_no_toml(number: str) -> None:
    """Python does not write one of more than 4,300 digits, in an error's line neither; tomllib reads it in any base."""
    with pytest.raises(ValueError, match="digits"):
        parse_toml(f"a = [{{b = {number}}}]".encode())
    assert parse_toml(b"seed = 9223372036854775807\nx = 0xff") == {"seed": 2**63 - 1, "x": 255}


def test_a_column_that_is_read_stands_once() -> None:
    check_columns(["sample", "label", "", "", "mine", "mine"], ("sample", "label"), "x.csv", CohortError)
    with pytest.raises(CohortError, match="2 columns 'label'"):
        check_columns(["label", "sample", " Label "], ("sample", "label"), "x.csv", CohortError)
