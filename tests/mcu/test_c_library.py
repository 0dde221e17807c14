"""The archive for Arduino, PlatformIO and Zephyr: installed into clean folders, and compiled as each of them does."""

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from mcu_sources import CORTEX_M4, HERE, STRICT, run_in_qemu, tool
from support import Said, assert_refused

from ecgfed.exports.mcu.golden import BEATS
from ecgfed.tasks.export_mcu import export_mcu

pytest_plugins = ("mcu_fixtures",)
Run = Callable[..., Said]
BOARD = HERE / "qemu"
#: How Arduino's cores for ARM and Zephyr compile: GNU C, in which GCC fuses multiplications and additions by default.
GNU = ("-std=gnu11", "-Os", "-ffunction-sections", "-fdata-sections", *CORTEX_M4)

WARNINGS = tuple(flag for flag in STRICT if flag.startswith("-W"))


@pytest.fixture(scope="module")
def archive(mcu_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("library") / "ecgfed.zip"
    made = export_mcu(mcu_run, out, int8_loss=1.0)
    with zipfile.ZipFile(out) as file:
        assert sorted(file.namelist()) == list(made.files)
    return out


@pytest.fixture(scope="module")
def installed(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive unpacked where a tool keeps its libraries."""
    folder = tmp_path_factory.mktemp("libraries")
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    (library,) = folder.iterdir()
    assert library.name == "ecgfed"
    return library


def test_the_sources_are_those_of_a_folder(installed: Path, sources: Path) -> None:
    for file in (installed / "src").iterdir():
        assert file.read_bytes() == (sources / file.name).read_bytes()
    left = {file.name for file in sources.iterdir()} - {file.name for file in (installed / "src").iterdir()}
    assert (installed / "model.img").read_bytes() == (sources / "model.img").read_bytes()
    assert left == {
        *("golden_test.c", "example_main.c", "example_flash.c", "example.txt", "Makefile", "MISRA.md", "README.md"),
        "model.img",
    }


def test_arduino_reads_its_properties(installed: Path) -> None:
    """The library specification 1.5: required fields, a version of three numbers, a known category."""
    lines = (installed / "library.properties").read_text("utf-8").splitlines()
    fields = dict(line.split("=", 1) for line in lines)
    needed = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert needed <= set(fields)
    assert all(fields[name] for name in needed)
    assert all(part.isdigit() for part in fields["version"].split("."))
    assert len(fields["version"].split(".")) == 3
    assert fields["category"] == "Signal Input/Output"
    assert (installed / "src" / fields["includes"]).is_file()
    assert [path.stem for path in (installed / "examples").rglob("*.ino")] == ["Recording"]


def test_platformio_reads_its_manifest(installed: Path) -> None:
    entries = json.loads((installed / "library.json").read_text("utf-8"))
    assert entries["name"] == "ecgfed"
    assert (installed / "src" / entries["headers"]).is_file()
    assert "-ffp-contract=off" in entries["build"]["flags"]


def test_zephyr_reads_its_module(installed: Path) -> None:
    yaml = pytest.importorskip("yaml")
    module = yaml.safe_load((installed / "zephyr" / "module.yml").read_text("utf-8"))
    assert (installed / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert (installed / module["build"]["kconfig"]).is_file()
    listed = (installed / "zephyr" / "CMakeLists.txt").read_text("utf-8")
    compiled = {path.name for path in (installed / "src").glob("*.c")}
    assert {name for name in compiled if f"/{name}" in listed} == compiled
    kconfig = (installed / "zephyr" / "Kconfig").read_text("utf-8")
    assert "config ECGFED\n" in kconfig
    assert "config ECGFED_SELF_TEST\n" in kconfig


@pytest.mark.mcu
def test_an_arduino_sketch_prints_the_beats(installed: Path, tmp_path: Path) -> None:
    """As the IDE builds: every file of src, and the sketch as C++ behind Arduino.h (here a stand-in of ten lines)."""
    objects = _compiled(sorted((installed / "src").glob("*.c")), tmp_path, installed / "src")
    sketch = tmp_path / "sketch.cpp"
    sketch.write_text('#include "Arduino.h"\n' + next(installed.rglob("*.ino")).read_text("utf-8"), "utf-8")
    flags = [
        *GNU[1:],
        "-std=gnu++17",
        "-fno-exceptions",
        "-fno-rtti",
        f"-I{installed / 'src'}",
        f"-I{HERE / 'arduino'}",
    ]
    sketch_object = tmp_path / "sketch.o"
    compiler = tool("arm-none-eabi-g++")
    subprocess.run([compiler, *flags, f"-I{BOARD}", "-c", "-o", sketch_object, sketch], check=True)
    arduino = tmp_path / "arduino.o"
    command = [compiler, *flags, f"-I{BOARD}", "-c", "-o", arduino, HERE / "arduino" / "main.cpp"]
    subprocess.run(command, check=True)
    rows = _run([*objects, sketch_object, arduino], tmp_path).splitlines()
    assert [float(row.split(",")[0]) for row in rows] == pytest.approx([at for at, _ in BEATS], abs=0.02)


def _compiled(files: list[Path], folder: Path, include: Path) -> list[Path]:
    compiler = tool("arm-none-eabi-gcc")
    objects = []
    for file in files:
        objects.append(folder / f"{file.stem}.o")
        command = [compiler, *GNU, *WARNINGS, f"-I{include}", "-c", "-o", objects[-1], file]
        subprocess.run(command, check=True)
    return objects


def _run(objects: list[Path], folder: Path) -> str:
    return run_in_qemu([BOARD / "board.c", *objects], folder / "program.elf", f"-I{BOARD}")


@pytest.mark.mcu
def test_gnu_c_does_not_fuse(installed: Path, tmp_path: Path) -> None:
    """A fused multiply-add would round once where Python rounds twice."""
    for file in _compiled(sorted((installed / "src").glob("*.c")), tmp_path, installed / "src"):
        listed = subprocess.run(
            [tool("arm-none-eabi-objdump"), "-d", file], capture_output=True, text=True, check=True
        ).stdout
        assert not [line for line in listed.splitlines() if any(word in line for word in ("vfma", "vfms", "vfnm"))]


@pytest.mark.mcu
def test_fast_math_is_refused(installed: Path) -> None:
    command = [tool("gcc"), "-ffast-math", "-c", "-o", "/dev/null", installed / "src" / "ecgfed.c"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "-ffast-math" in done.stderr


ZEPHYR = """cmake_minimum_required(VERSION 3.20)
project(app C)
# Zephyr's functions as far as a module of plain C uses them.
set(CONFIG_ECGFED {on})
set(CONFIG_ECGFED_SELF_TEST {on})
macro(zephyr_library)
  add_library(module STATIC)
endmacro()
macro(zephyr_library_sources)
  target_sources(module PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_library_sources_ifdef feature)
  if(${{feature}})
    target_sources(module PRIVATE ${{ARGN}})
  endif()
endmacro()
macro(zephyr_include_directories)
  include_directories(${{ARGN}})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(module PRIVATE ${{ARGN}})
endmacro()
add_subdirectory({module} module)
"""


@pytest.mark.mcu
@pytest.mark.parametrize("on", ["y", ""])
def test_zephyr_builds_the_module(installed: Path, tmp_path: Path, on: str) -> None:
    """CMake with the cross compiler; Zephyr itself is not to be had here."""
    compiler = tool("arm-none-eabi-gcc")
    text = ZEPHYR.format(on=f'"{on}"', module=(installed / "zephyr").as_posix())
    (tmp_path / "CMakeLists.txt").write_text(text, "utf-8")
    flags = " ".join((*CORTEX_M4, "-std=gnu17", "-Wall", "-Wextra", "-Werror"))
    options = [f"-DCMAKE_C_COMPILER={compiler}", "-DCMAKE_SYSTEM_NAME=Generic", f"-DCMAKE_C_FLAGS={flags}"]
    options += ["-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    build = tmp_path / "build"
    subprocess.run([tool("cmake"), "-S", tmp_path, "-B", build, *options], check=True, capture_output=True)
    subprocess.run([tool("cmake"), "--build", build], check=True, capture_output=True)
    made = list(build.rglob("libmodule.a"))
    assert len(made) == (1 if on else 0)
    if made:
        names = subprocess.run([tool("arm-none-eabi-nm"), made[0]], capture_output=True, text=True, check=True).stdout
        assert " T ecgfed_push\n" in names
        assert " T ecgfed_golden\n" in names


def test_an_archive_that_exists_stays(mcu_run: Path, ecgfed: Run, tmp_path: Path) -> None:
    out = tmp_path / "mine.zip"
    out.write_bytes(b"mine")
    assert_refused(ecgfed("export", mcu_run, "--target", "mcu", "--out", out), "mine.zip", "--overwrite")
    assert out.read_bytes() == b"mine"
