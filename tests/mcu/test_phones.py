"""The examples for phones: the exported C behind Java, Kotlin and Swift, on a real record beside Python."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from mcu_sources import HERE, MONITOR, SOURCES, STRICT, build, peaks_of, tool, windows_of
from numpy.typing import NDArray
from test_monitor import monitor_counts, watch

from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.signal.quality import Reason
from ecgfed.exports.device.classifier import Classifier

pytest_plugins = ("mcu_fixtures",)
pytestmark = [pytest.mark.mcu, pytest.mark.phones]
EXAMPLES = Path(__file__).parents[2] / "examples" / "phones"
NATIVE = EXAMPLES / "EcgfedNative.java"


def java_tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: 'make phones' brings it on Debian")
    return found


def jdk() -> Path:
    """Return the folder of the Java development kit that runs here."""
    command = [java_tool("java"), "-XshowSettings:properties", "-version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    home = Path(next(line.split(" = ")[1] for line in shown.splitlines() if "java.home" in line))
    if not (home / "include" / "jni.h").is_file():
        pytest.skip(f"{home} has no jni.h: 'make phones' brings one on Debian")
    return home


@pytest.fixture(scope="module")
def library(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``libecgfed.so``: exported sources, the example's and its JNI functions, any warning an error."""
    folder, include = tmp_path_factory.mktemp("phone"), jdk() / "include"
    c = [EXAMPLES / "ecgfed_phone.c", EXAMPLES / "ecgfed_jni.c", *(sources / name for name in (*SOURCES, *MONITOR))]
    flags = ["-shared", "-fPIC", "-O1", f"-I{include}", f"-I{include / 'linux'}", f"-I{sources}", f"-I{EXAMPLES}"]
    subprocess.run([tool("gcc"), *STRICT, *flags, "-o", folder / "libecgfed.so", *c, "-lm"], check=True)
    return folder


@pytest.fixture(scope="module")
def signal_mv(mitdb: Path) -> NDArray[np.float64]:
    """Five minutes of a record, with a gap and noise."""
    signal = np.asarray(read_recording(mitdb / "208", ("MLII",)).signal_mv, np.float64)[: 300 * 360].copy()
    signal[40_000:40_400] = np.nan
    signal[60_000:64_000] += np.round(0.3 * np.random.default_rng(0).standard_normal(4000), 3)
    return signal


def run_java(library: Path, classes: str, *arguments: str, data: bytes) -> list[str]:
    options = [f"-Djava.library.path={library}", "-Xcheck:jni", "-cp", classes]
    command = [java_tool("java"), *options, *arguments]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    lines = done.stdout.decode().splitlines()
    assert not any("WARNING" in line for line in lines)  # of -Xcheck:jni
    return lines


@pytest.mark.mitdb
def test_java_gives_pythons_labels(
    library: Path, sources: Path, int8_classifier: Classifier, signal_mv: NDArray[np.float64], tmp_path: Path
) -> None:
    command = [java_tool("javac"), "-Xlint:all", "-Werror", "-d", tmp_path, NATIVE, HERE / "PhoneMain.java"]
    subprocess.run(command, check=True)
    data = signal_mv.astype(np.float32).tobytes()
    *lines, counters = run_java(library, str(tmp_path), "org.ecgfed.PhoneMain", "90", data=data)
    names = [line.split()[0] for line in lines]
    rows = np.array([line.split()[1:] for line in lines], np.float64)
    classified, watched = rows[rows[:, 1] == 0], rows[rows[:, 1] == 1]
    peaks = peaks_of(signal_mv)
    np.testing.assert_array_equal(classified[:, 0], peaks)
    np.testing.assert_array_equal(watched[:, [0, 2, 4, 5, 6]], classified[:, [0, 2, 4, 5, 6]])
    python = int8_classifier.classify(windows_of(signal_mv, peaks))
    with_class = classified[:, 6] == 0
    np.testing.assert_array_equal(classified[with_class, 2], python.label[with_class])
    assert with_class.sum() > 400
    words = (*int8_classifier.classes, "unclassified")
    assert names == [words[int(label)] for label in rows[:, 2]]
    program = build(sources, tmp_path / "monitor", "gcc", "-O1", main=HERE / "monitor_main.c", more_sources=MONITOR)
    plain = watch(program, signal_mv, 5.115)
    assert [[int(row[0]), int(row[7])] for row in watched] == [[int(row[0]), int(row[5])] for row in plain.watched]
    assert bytes.fromhex(counters.removeprefix("counters ")) == plain.block
    assert monitor_counts(plain.block)["monitor_noise"] > 10


@pytest.mark.mitdb
def test_kotlin_gives_what_java_gives(library: Path, signal_mv: NDArray[np.float64], tmp_path: Path) -> None:
    kotlin = java_tool("kotlinc")
    command = [kotlin, NATIVE, EXAMPLES / "Ecgfed.kt", EXAMPLES / "Main.kt", "-d", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run([java_tool("javac"), "-d", tmp_path, NATIVE, HERE / "PhoneMain.java"], check=True)
    runtime = next(Path(kotlin).resolve().parents[1].rglob("kotlin-stdlib.jar"), None)
    runtime = runtime or Path("/usr/share/java/kotlin-stdlib.jar")
    text = "".join(f"{value:.3f}\n" for value in signal_mv).encode()
    *beats, counters = run_java(library, f"{tmp_path}:{runtime}", "org.ecgfed.MainKt", data=text)
    data = signal_mv.astype(np.float32).tobytes()
    *lines, plain = run_java(library, str(tmp_path), "org.ecgfed.PhoneMain", "360", data=data)
    assert counters == plain.removeprefix("counters ")
    reasons = [str(reason) for reason in Reason]
    for beat, line in zip(beats, lines, strict=True):
        name, sample, watched, _, _, uncertain, far, _, bits, paced = line.split()
        poor = "+".join(word for i, word in enumerate(reasons) if int(float(bits)) >> i & 1)
        words = [str(int(float(sample))), "true" if float(watched) else "false", name]
        flags = ["true" if float(flag) else "false" for flag in (uncertain, far)]
        assert beat.split(",")[:6] == [*words, *flags, poor]
        assert (beat.split(",")[6] == "null") == (float(paced) < 0)


def test_cmake_builds_the_library(sources: Path, tmp_path: Path) -> None:
    """As the page has it: everything in one folder ``c``."""
    home = jdk()
    copy_sources(sources, tmp_path / "c")
    shutil.copy(EXAMPLES / "CMakeLists.txt", tmp_path)
    shutil.copy(EXAMPLES / "ecgfed_jni.c", tmp_path / "c")
    configure = [tool("cmake"), "-S", tmp_path, "-B", tmp_path / "build", f"-DJAVA_HOME={home}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run([tool("cmake"), "--build", tmp_path / "build"], check=True, capture_output=True)
    assert (tmp_path / "build" / "libecgfed.so").stat().st_size > 50_000


def copy_sources(sources: Path, folder: Path) -> None:
    """Copy what the page says: ``cp firmware/ecgfed*.c firmware/*.h``, and the example's own C."""
    folder.mkdir()
    for file in (*sources.glob("ecgfed*.c"), *sources.glob("*.h"), *EXAMPLES.glob("ecgfed_phone.*")):
        shutil.copy(file, folder)


def test_the_module_of_swift_compiles(sources: Path, tmp_path: Path) -> None:
    """Swift's compiler imports C by clang: the same module map, from Objective-C."""
    copy_sources(sources, tmp_path / "c")
    shutil.copy(EXAMPLES / "module.modulemap", tmp_path / "c")
    program = tmp_path / "uses.m"
    program.write_text(
        "@import CEcgfed;\nint main(void) { ecgfed_phone_beat beat; ecgfed_phone *phone = ecgfed_phone_create(0);\n"
        "return ecgfed_phone_next(phone, &beat); }\n",
        "utf-8",
    )
    command = [tool("clang"), "-fmodules", f"-fmodules-cache-path={tmp_path / 'cache'}", f"-I{tmp_path / 'c'}"]
    subprocess.run([*command, "-Werror", "-fsyntax-only", program], check=True)


def test_swift_calls_what_the_header_has() -> None:
    """No Swift compiler can be had here: at least every C name of the example is in the header."""
    header = (EXAMPLES / "ecgfed_phone.h").read_text("utf-8")
    swift = (EXAMPLES / "Ecgfed.swift").read_text("utf-8")
    used = {word for word in swift.replace("(", " ").replace(")", " ").split() if word.startswith("ecgfed_")}
    assert used >= {"ecgfed_phone_create", "ecgfed_phone_push", "ecgfed_phone_next"}
    assert all(f"{name}(" in header or f"{name};" in header for name in used)
