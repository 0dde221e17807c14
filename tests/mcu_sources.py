"""C sources of a small trained model, compiled and run on this machine, beside Python's own path."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.beats.extract import Windows
from ecgfed.domain.beats.windows import rr_features
from ecgfed.domain.signal.qrs import BRIDGE_S, QrsDetector
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.predictions import Predictions

HERE = Path(__file__).parent / "mcu"
#: What the sources have to stand.
STRICT = (
    *("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"),
    *("-Wconversion", "-Wsign-conversion", "-Wdouble-promotion"),
)
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SOURCES = (
    *("ecgfed.c", "ecgfed_context.c", "ecgfed_counters.c", "ecgfed_signal.c"),
    *("ecgfed_early.c", "ecgfed_qrs.c", "ecgfed_qrs_net.c", "ecgfed_net.c", "ecgfed_rate.c"),
)
#: Those of the monitor, which a firmware may leave out.
MONITOR = ("ecgfed_monitor.c", "ecgfed_drift.c", "ecgfed_pacing.c", "ecgfed_quality.c", "ecgfed_quality_blocks.c")
CORTEX_M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-Os")


def tool(name: str) -> str:
    """Return where a program is; skip the test where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(
            f"{name} is not installed: 'make mcu' brings it on Debian (set ECGFED_MCU=1 where it has to be there)"
        )
    return found


def build(
    folder: Path,
    out: Path,
    compiler: str,
    *more: str,
    main: Path | None = None,
    tests: bool = False,
    more_sources: Sequence[str] = (),
) -> Path:
    """Compile the sources of a folder with a main program; any warning is an error."""
    main = main or HERE / "driver.c"
    sources = [folder / name for name in (*SOURCES, *more_sources, *(("ecgfed_golden.c",) if tests else ()))]
    command = [tool(compiler), *STRICT, *more, f"-I{folder}", "-o", str(out), str(main), *map(str, sources), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[:4000]}"
    assert not done.stderr
    return out


def run_in_qemu(files: Sequence[Path], out: Path, *flags: str) -> str:
    """Link files for a Cortex-M4 with the board of ``qemu``, and run the program there; return what it prints."""
    compiler, emulator, board = tool("arm-none-eabi-gcc"), tool("qemu-system-arm"), HERE / "qemu"
    strict = [one for one in STRICT if one != "-pedantic"]  # the board's assembler is no ISO C
    link = [
        "-nostartfiles",
        f"-T{board / 'link.ld'}",
        "-ffunction-sections",
        "-Wl,--gc-sections",
        "-lm",
        "-lc",
        "-lgcc",
    ]
    subprocess.run([compiler, *strict, *CORTEX_M4, *flags, "-o", out, *files, *link], check=True)
    machine = ["-M", "mps2-an386", "-icount", "shift=0", "-nographic"]
    command = [emulator, *machine, "-semihosting-config", "enable=on,target=native", "-kernel", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[:4000] + done.stdout[:4000]
    return done.stderr + done.stdout


def lines_of(program: Path, signal_mv: NDArray[np.floating], *arguments: object) -> list[list[str]]:
    """Run a program on a signal (samples,) in mV; the words of each line that it prints."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, input=signal_mv.astype(np.float32).tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return [line.split() for line in done.stdout.decode().splitlines()]


@dataclass(frozen=True, eq=False)
class Beats:
    """What the C sources said of a recording, beat by beat; rows as the driver prints them."""

    sample: NDArray[np.int64]
    label: NDArray[np.int64]
    probability: NDArray[np.float64]
    uncertain: NDArray[np.bool_]
    far: NDArray[np.bool_]
    padded: NDArray[np.bool_]
    unclassified: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    rr_s: NDArray[np.float64]
    window_mv: NDArray[np.float64]
    classes: tuple[str, ...]
    text: str


def run_c(
    program: Path,
    signal_mv: NDArray[np.floating],
    folder: Path,
    *,
    chunk: int = 360,
    full: bool = True,
    first: int = 0,
    rail_mv: float = 0.0,
) -> Beats:
    """Run the driver on a signal (samples,) in mV; ``first`` missing samples come before it.

    ``rail_mv`` is the converter's limit in mV, 0 for none.
    """
    file = folder / "signal.f32"
    np.asarray(signal_mv, np.float32).tofile(file)
    command = [str(program), str(file), str(chunk), str(int(full)), str(first), str(rail_mv)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    *lines, classes, _ = done.stdout.splitlines()
    names = tuple(classes.split(" ")[1:])
    count = len(names)
    rows = np.array([line.split() for line in lines], np.float64).reshape(len(lines), -1 if lines else 7)
    flags = rows[:, 3:6] != 0
    parts = np.split(rows[:, 7:], [count, rows.shape[1] - 7 - 256], axis=1) if full else [np.empty((len(rows), 0))] * 3
    whole = rows[:, [0, 1, 6]].astype(np.int64)
    return Beats(whole[:, 0], whole[:, 1], rows[:, 2], *flags.T, whole[:, 2], *parts, names, done.stdout)


def stretches(signal_mv: NDArray[np.floating]) -> list[tuple[int, int]]:
    """Return where C begins and ends a stretch: between runs of more missing samples than are bridged."""
    missing, most = ~np.isfinite(signal_mv), round(BRIDGE_S * 360)
    edges = np.flatnonzero(np.diff(missing.astype(np.int8), prepend=0, append=0))
    gaps = [(a, b) for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]
    found, start = [], None
    for at in range(len(signal_mv)):
        in_gap = next(((a, b) for a, b in gaps if a <= at < b), None) if missing[at] else None
        if in_gap is None:
            start = at if start is None else start
        elif start is not None and in_gap[1] - in_gap[0] > most:
            found.append((start, in_gap[0]))
            start = None
    if start is not None:
        found.append((start, int(np.flatnonzero(~missing)[-1]) + 1))
    return found


def peaks_of(signal_mv: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return Python's R peaks of one lead at 360 Hz."""
    detector = QrsDetector(360.0)
    return np.concatenate([detector.push(signal_mv), detector.finish()])


def windows_of(signal_mv: NDArray[np.floating], peaks: NDArray[np.int64]) -> Windows:
    """Return Python's windows, each stretch a recording of its own, and RR features of all beats."""
    parts = []
    for start, stop in stretches(signal_mv):
        inside = peaks[(peaks >= start) & (peaks < stop)]
        if len(inside):
            parts.append(windows_around(signal_mv[start:stop], 360.0, inside - start, rr_version=1))
    window = np.concatenate([part.window_mv for part in parts]) if parts else np.empty((0, 1, 256), np.float32)
    flags = np.concatenate([part.flags for part in parts]) if parts else np.empty(0, np.uint8)
    no_signal = np.concatenate([part.no_signal for part in parts]) if parts else np.empty(0, np.bool_)
    return Windows(window, rr_features(peaks / 360.0), flags, no_signal)


def same_as_python(
    found: Beats, signal_mv: NDArray[np.floating], classifier: Classifier, *, apart_mv: float = 2e-5
) -> Predictions:
    """Compare every stage with Python's, and return what Python's int8 graphs say.

    Bridged samples are whole and a half microvolts in C: windows across them are ``apart_mv``.
    """
    peaks = peaks_of(signal_mv)
    assert found.sample.tolist() == peaks.tolist()
    windows = windows_of(signal_mv, peaks)
    np.testing.assert_allclose(found.window_mv, windows.window_mv[:, 0], rtol=0, atol=apart_mv)
    np.testing.assert_allclose(found.rr_s, windows.rr_s, rtol=0, atol=2e-6)
    assert (found.padded == (windows.flags & 1).astype(bool)).all()
    said = classifier.classify(windows)
    classified = found.unclassified == 0
    assert (found.label[~classified] == len(classifier.classes)).all()
    if classified.any():
        assert (found.label == said.label)[classified].mean() >= 0.995
        assert np.abs(found.probabilities - said.probability)[classified].max() < 0.05
    if len(peaks):
        whole = ~found.padded  # beside a gap C has no samples, which Python bridges
        assert (found.unclassified == np.where(windows.no_signal, 2, 0))[whole].all()
        assert (found.uncertain == said.low_confidence).mean() >= 0.98
    return said
