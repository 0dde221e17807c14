"""``export --target mcu``: what it writes, that compilers take it, and what it refuses in one line."""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from mcu_sources import CORTEX_M4, HERE, MONITOR, SANITIZED, SOURCES, STRICT, build, run_in_qemu, tool
from support import Said, assert_refused, snapshot

import ecgfed.tasks.export_mcu as export_module
from ecgfed.base.errors import OptionError
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.mcu.c_text import c_array, c_comment, c_float, c_string
from ecgfed.exports.mcu.golden import BEATS, Golden
from ecgfed.exports.mcu.writer import SOURCES as WRITTEN
from ecgfed.tasks.export_mcu import export_mcu

pytest_plugins = ("mcu_fixtures",)
Run = Callable[..., Said]
ROOT = Path(__file__).parents[2]


@pytest.mark.mcu
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("more", [("-O2",), ("-Os",), ("-O3", "-march=native"), SANITIZED], ids=" ".join)
def test_the_self_test_passes(sources: Path, tmp_path: Path, compiler: str, more: tuple[str, ...]) -> None:
    program = build(sources, tmp_path / "golden", compiler, *more, main=sources / "golden_test.c", tests=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "golden: 0 beats differ\n", "")


@pytest.mark.mcu
def test_the_self_test_notices(sources: Path, tmp_path: Path) -> None:
    for old, new in (("ecgfed_golden_label[14] = {\n    ", "ecgfed_golden_label[14] = {\n    9 + "),):
        changed = tmp_path / "changed"
        changed.mkdir()
        for file in sources.iterdir():
            data = file.read_bytes()
            if file.name == "golden.h":
                assert old.encode() in data
                data = data.replace(old.encode(), new.encode())
            (changed / file.name).write_bytes(data)
        program = build(changed, tmp_path / "golden", "gcc", main=changed / "golden_test.c", tests=True)
        assert subprocess.run([str(program)], capture_output=True, check=False).returncode == 1


@pytest.mark.mcu
def test_make_builds_and_the_example_reads_lines(sources: Path, tmp_path: Path) -> None:
    tool("gcc")
    folder = tmp_path / "firmware"
    folder.mkdir()
    for name, data in snapshot(sources).items():
        (folder / name).write_bytes(data)
    subprocess.run([tool("make"), "-s", "test"], cwd=folder, check=True, capture_output=True)
    lines = (folder / "example.txt").read_text("ascii")
    done = subprocess.run([str(folder / "example")], input=lines, capture_output=True, text=True, check=True)
    head, *beats = done.stdout.splitlines()
    assert head == "seconds,class,probability,uncertain"
    assert [float(one.split(",")[0]) for one in beats] == pytest.approx([at for at, _ in BEATS], abs=0.02)


@pytest.mark.mcu
def test_on_a_cortex_m4(sources: Path, tmp_path: Path) -> None:
    board = HERE / "qemu"
    files = [board / "main.c", board / "board.c", *(sources / name for name in (*SOURCES, "ecgfed_golden.c"))]
    printed = run_in_qemu(files, tmp_path / "golden.elf", f"-I{sources}", f"-I{board}")
    said = dict(line.rsplit(" ", 1) for line in printed.splitlines())
    assert said["wrong"] == "0"
    assert int(said["stack"]) < 4096
    assert int(said["state"]) < 40_000


@pytest.mark.mcu
def test_a_recording_in_flash_is_printed_beat_by_beat(sources: Path, tmp_path: Path) -> None:
    """The example without files, heap and printf, on the emulated Cortex-M4 beside the same on this machine."""
    board, include = HERE / "qemu", f"-I{sources}"
    files = [sources / "example_flash.c", *(sources / name for name in SOURCES)]
    printed = run_in_qemu([board / "board.c", *files], tmp_path / "flash.elf", include, f"-I{board}")
    host = tmp_path / "board.c"
    host.write_text(
        "#include <stdio.h>\nvoid print(const char *text);\nvoid print(const char *text) { fputs(text, stdout); }\n"
    )
    command = [tool("gcc"), *STRICT, include, "-o", tmp_path / "flash", host, *files, "-lm"]
    subprocess.run(command, check=True)
    here = subprocess.run([tmp_path / "flash"], capture_output=True, text=True, check=True).stdout
    assert printed == here
    *rows, last = printed.splitlines()
    assert [int(row.split(",")[0]) / 1000 for row in rows] == pytest.approx([at for at, _ in BEATS], abs=0.02)
    assert last.startswith(f"{len(BEATS)} beats, 0 unclassified, ")


def foreign_names(sources: Path, names: Sequence[str], folder: Path) -> set[str]:
    """Return what objects of some sources need that is not theirs, as compiled for a Cortex-M4."""
    found = set()
    for name in names:
        out = folder / f"{name}.o"
        subprocess.run([tool("arm-none-eabi-gcc"), *STRICT, *CORTEX_M4, "-c", "-o", out, sources / name], check=True)
        listed = subprocess.run([tool("arm-none-eabi-nm"), "-u", out], capture_output=True, text=True, check=True)
        found |= {line.split()[-1] for line in listed.stdout.splitlines()}
    return {name for name in found if not name.startswith("ecgfed_")}


@pytest.mark.mcu
def test_the_monitor_allocates_nothing(sources: Path, tmp_path: Path) -> None:
    """Doubles in drift alone, once for each beat."""
    others = [name for name in MONITOR if name != "ecgfed_drift.c"]
    functions = {"memcpy", "memmove", "memset", "expf", "logf", "lrintf", "sqrtf", "__aeabi_uldivmod"}
    assert foreign_names(sources, others, tmp_path) <= functions
    drift = foreign_names(sources, ["ecgfed_drift.c"], tmp_path)
    assert {name for name in drift if not name.startswith("__aeabi_")} <= {"memcpy", "memset", "lrint", "sqrt"}


@pytest.mark.mcu
def test_no_double_and_no_allocation(sources: Path, tmp_path: Path) -> None:
    outside = foreign_names(sources, SOURCES, tmp_path)
    assert not {name for name in outside if name.startswith(("__aeabi_d", "__aeabi_f2d"))}
    assert outside <= {
        *("memcpy", "memmove", "memset", "expf", "frexpf", "logf", "lrintf", "sqrtf"),
        *("__aeabi_ldivmod", "__aeabi_l2f"),
    }


def test_what_is_written(sources: Path) -> None:
    made = {
        *(
            "ecgfed_qrs_weights.h",
            "ecgfed_taps.h",
            "ecgfed_early_marks.h",
            "ecgfed_rate_taps.h",
            "ecgfed_monitor_taps.h",
        ),
        *("model.h", "golden.h", "example.txt"),
    }
    assert set(snapshot(sources)) == {*WRITTEN, *made, "README.md", "model.img"}
    assert "the global model" in (sources / "README.md").read_text("utf-8")


def test_the_same_run_gives_the_same_bytes(mcu_run: Path, sources: Path, tmp_path: Path) -> None:
    again = export_mcu(mcu_run, tmp_path / "again", int8_loss=1.0)
    assert snapshot(again.path) == snapshot(sources)


def test_a_patients_own_model(mcu_run: Path, ecgfed: Run, tmp_path: Path) -> None:
    out = tmp_path / "p1"
    command = ("export", mcu_run, "--target", "mcu", "--patient", "p1", "--int8", "--int8-loss", 1, "--out", out)
    said = ecgfed(*command)
    assert said.code == 0, said.err
    assert "patient p1" in (out / "model.h").read_text("utf-8")
    assert "make -C" in said.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "dsp"), ("--target", "bundle, mcu")),
        (("--patient", "p1"), ("--patient", "--target mcu")),
        (("--target", "mcu", "--patient", "p9"), ("p9", "p1, p2, p3, p4")),
        (("--target", "mcu", "--global-only"), ("--global-only", "leave --global-only out")),
        (("--target", "mcu", "--sign", "key.pem"), ("--sign",)),
        (("--target", "mcu", "--accuracy", "2"), ("--accuracy",)),
        (("--target", "mcu", "--fs", "257"), ("--fs", "125, 250 or 500")),
        (("--fs", "250"), ("--fs", "--target mcu")),
        (("--target", "mcu", "--batch", "4"), ("--batch", "leave --batch out")),
        (("--target", "mcu", "--tflite"), ("--tflite", "leave --tflite out")),
        (("--target", "mcu", "--patient", "p1", "--personal", "kernel"), ("describer, kernel", "--personal")),
        (("--target", "mcu", "--patient", "p1", "--personal", "gated"), ("describer, gated", "--personal")),
    ],
)
def test_what_is_refused(
    mcu_run: Path, ecgfed: Run, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = ecgfed("export", mcu_run, *options, "--out", tmp_path / "out")
    assert_refused(said, *words)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("which", "version"), [("fedavg_run", 2), ("context_run", 3)])
def test_rr_features_that_look_ahead_are_refused(
    which: str, version: int, request: pytest.FixtureRequest, ecgfed: Run, tmp_path: Path
) -> None:
    said = ecgfed("export", request.getfixturevalue(which), "--target", "mcu", "--out", tmp_path / "out")
    assert_refused(said, f"RR features of version {version}", "--rr-version 4 or 1", "--no-rr")
    assert not (tmp_path / "out").exists()


def test_an_ensemble_is_refused(local_run: Path, ecgfed: Run, tmp_path: Path) -> None:
    said = ecgfed("export", local_run, "--target", "mcu", "--out", tmp_path / "out")
    assert_refused(said, "an ensemble of 4 nets", "--patient ID")


def test_a_folder_that_is_taken_stays(mcu_run: Path, ecgfed: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.c").write_text("mine")
    assert_refused(ecgfed("export", mcu_run, "--target", "mcu", "--out", tmp_path), "--overwrite")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.c"]


def test_a_folder_with_files_of_its_owner_is_not_written_over(mcu_run: Path, ecgfed: Run, tmp_path: Path) -> None:
    own, out = tmp_path / "project", tmp_path / "firmware"
    own.mkdir()
    (own / "main.c").write_text("mine")
    command = ("export", mcu_run, "--target", "mcu", "--overwrite", "--out")
    assert_refused(ecgfed(*command, own), "main.c", "which ecgfed did not write")
    export_mcu(mcu_run, out)
    (out / "main.o").write_text("built")
    assert ecgfed(*command, out).code == 0  # an export and what make built beside it
    (out / "app.c").write_text("mine")
    assert_refused(ecgfed(*command, out), "app.c", "move your own files")
    assert (own / "main.c").read_text() == (out / "app.c").read_text() == "mine"


def test_a_file_that_comes_during_the_work_is_not_written_over(
    mcu_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export_mcu(mcu_run, tmp_path / "firmware").path
    before = snapshot(out)
    right = export_module.make_golden

    def meanwhile(classifier: Classifier) -> Golden:
        (out / "app.c").write_text("mine")
        return right(classifier)

    monkeypatch.setattr(export_module, "make_golden", meanwhile)
    with pytest.raises(OptionError, match=r"app\.c, which ecgfed did not write"):
        export_mcu(mcu_run, out, overwrite=True)
    assert snapshot(out) == {**before, "app.c": b"mine"}


@pytest.mark.mcu
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_program_in_another_language_links(sources: Path, tmp_path: Path, compiler: str) -> None:
    """Arduino and TensorFlow Lite Micro are C++; the sources themselves are compiled as C."""
    program = tmp_path / "main.cpp"
    program.write_text(
        '#include "ecgfed.h"\n#include "ecgfed_rate.h"\n#include "ecgfed_golden.h"\n'
        "static ecgfed_state state;\n"
        "int main() { return ecgfed_class_names[0][0] == 0 ? 2 : ecgfed_golden(&state); }\n",
        "utf-8",
    )
    strict = [flag for flag in STRICT if not flag.startswith("-std")]
    subprocess.run(
        [tool(compiler), "-c", *strict, f"-I{sources}", "-o", str(tmp_path / "main.o"), str(program)], check=True
    )
    objects = [str(tmp_path / "main.o")]
    for name in (*SOURCES, "ecgfed_golden.c"):
        objects.append(str(tmp_path / f"{name}.o"))
        subprocess.run([tool("gcc"), "-c", *STRICT, f"-I{sources}", "-o", objects[-1], str(sources / name)], check=True)
    subprocess.run([tool("gcc"), "-o", str(tmp_path / "main"), *objects, "-lm"], check=True)
    assert subprocess.run([str(tmp_path / "main")], check=False).returncode == 0


HOSTILE = ['"; int x; "', "*/ int x; /*", "a\\", "??/", "%s%n", "new\nline", "é漢", "\x00nul", "1\\0012", "//", "‮rtl"]


@pytest.mark.mcu
def test_names_of_strangers_stay_words(tmp_path: Path) -> None:
    listed = ", ".join(c_string(text) for text in HOSTILE)
    comments = "\n".join(f"/* {c_comment(text)} */" for text in HOSTILE)
    main = tmp_path / "main.c"
    main.write_text(
        f"#include <stdio.h>\n{comments}\nstatic const char *const all[] = {{{listed}}};\n"
        f"int main(void) {{ for (int i = 0; i < {len(HOSTILE)}; i++) {{ puts(all[i]); }} return 0; }}\n",
        "ascii",
    )
    subprocess.run([tool("gcc"), *STRICT, "-trigraphs", "-o", tmp_path / "main", main], check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout
    wanted = "".join(f"{text}\n" for text in HOSTILE).replace("\x00", "?").encode()
    assert said == wanted


@pytest.mark.mcu
@pytest.mark.parametrize("number", [0, 1], ids=["stream", "monitor"])
def test_the_lines_on_the_page_compile(sources: Path, tmp_path: Path, number: int) -> None:
    page = (ROOT / "docs" / "microcontroller.md").read_text("utf-8")
    blocks = re.findall(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    first, *rest = blocks[number].splitlines()
    state = "" if "ecgfed_state state" in first else "static ecgfed_state state;\n"
    main = tmp_path / "main.c"
    main.write_text(
        f'#include "ecgfed_monitor.h"\n{state}{first}\n'
        "static int beats;\n"
        "void on_watched(void *user, const ecgfed_watched_beat *beat);\n"
        "void on_watched(void *user, const ecgfed_watched_beat *beat) { (void)user; (void)beat; }\n"
        "static void on_beat(void *user, const ecgfed_beat *beat) { (void)user; (void)beat; beats += 1; }\n"
        "int main(void) {\n    static const float samples_mv[512];\n    const size_t count = 512;\n"
        + "\n".join(rest)
        + "\n    return beats;\n}\n"
    )
    program = build(sources, tmp_path / "lines", "gcc", main=main, more_sources=MONITOR)
    assert subprocess.run([str(program)], check=False).returncode == 0


def test_numbers_are_read_back() -> None:
    values = np.array([0, 1, -1.5, 1e-30, 3.4e38, 1 / 3, np.nextafter(np.float32(1), np.float32(2))], np.float32)
    assert np.array([np.float32(c_float(value).rstrip("f")) for value in values.tolist()]).tolist() == values.tolist()
    with pytest.raises(ValueError, match="not a finite"):
        c_float(float("nan"))
    with pytest.raises(ValueError, match="float64"):
        c_array("name", np.zeros(3))
    with pytest.raises(ValueError, match="0 values"):
        c_array("name", np.zeros(0, np.int8))


@pytest.mark.mcu
def test_ci_has_every_tool() -> None:
    if not os.environ.get("ECGFED_MCU"):
        pytest.skip("ECGFED_MCU is not set: the tools of 'make mcu' need not be here")
    for name in ("gcc", "clang", "make", "arm-none-eabi-gcc", "qemu-system-arm", "cmake", "cppcheck"):
        tool(name)
