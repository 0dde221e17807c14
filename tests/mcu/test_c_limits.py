"""What the C sources make of an inference that fails, and of stretches longer than 32 bits count."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from mcu_sources import HERE, SANITIZED, build, peaks_of, run_c
from numpy.typing import NDArray
from test_c_stream import a_minute

from ecgfed.exports.device.classifier import Classifier

pytest_plugins = ("mcu_fixtures",)
pytestmark = pytest.mark.mcu
#: Whole turns of the 36 s whose levels are kept; 200 Hz samples of so many seconds and some 40 more are 2^31.
NEARLY_124_DAYS_S = (2**31 // 200 // 36 - 1) * 36


def lines_of(program: Path, signal_mv: NDArray[np.floating], *arguments: object) -> list[list[str]]:
    """Run a program on a signal (samples,) in mV; the words of each line that it prints."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, input=signal_mv.astype(np.float32).tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return [line.split() for line in done.stdout.decode().splitlines()]


@pytest.fixture(scope="module")
def failing(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("inference") / "inference"
    return build(sources, out, "gcc", *SANITIZED, main=HERE / "inference_main.c")


@pytest.mark.parametrize("mode", [1, 2, 3, 4, 5], ids=["nan", "inf", "minus inf", "one less", "nothing"])
def test_logits_that_are_not_finite_leave_a_beat_unclassified(
    failing: Path, int8_classifier: Classifier, mode: int
) -> None:
    """No class is right, so none is answered: its number is one past the last class, and it is never certain."""
    signal_mv = a_minute()[:9000]
    beats = lines_of(failing, signal_mv, mode)
    assert [int(beat[0]) for beat in beats] == peaks_of(signal_mv).tolist()
    assert len(beats) > 20
    unclassified = [str(len(int8_classifier.classes)), "unclassified", "0", "1", "0"]
    assert {tuple(beat[1:]) for beat in beats} == {tuple(unclassified)}


@pytest.mark.parametrize("mode", [0, 6], ids=["usual", "extreme"])
def test_finite_logits_are_answered(failing: Path, int8_classifier: Classifier, mode: int) -> None:
    beats = lines_of(failing, a_minute()[:9000], mode)
    assert {beat[2] for beat in beats} == {int8_classifier.classes[-1]}
    assert all(float(beat[5]) == pytest.approx(1.0, abs=1e-6) for beat in beats)


@pytest.fixture(scope="module")
def two_minutes() -> NDArray[np.float64]:
    return np.concatenate([a_minute(3), a_minute(4)])


@pytest.mark.parametrize("seconds", [36 * 100, NEARLY_124_DAYS_S])
def test_a_stretch_of_124_days_goes_on(
    sources: Path, tmp_path: Path, two_minutes: NDArray[np.float64], seconds: int
) -> None:
    """Counted at 200 Hz, 32 bits last 124.27 days: 2^31 / 200 / 86,400. The signal ends after that moment."""
    first = 30 * 360
    assert seconds == 3600 or (seconds + len(two_minutes) // 360) * 200 > 2**31
    long = build(sources, tmp_path / "long", "gcc", *SANITIZED, main=HERE / "long_main.c")
    whole, later = (lines_of(long, two_minutes, *more) for more in ((), (first, seconds)))
    assert [label for _, label in later] == [label for _, label in whole]
    moved = [int(at) - int(before) for (at, _), (before, _) in zip(later, whole, strict=True)]
    assert moved == sorted(moved)
    assert set(moved) == {0, seconds * 360}
    assert sum(map(bool, moved)) > 100


def test_numbers_that_begin_anew_change_nothing(
    sources: Path, tmp_path: Path, two_minutes: NDArray[np.float64]
) -> None:
    """Every 36 s instead of every 18 minutes; with a gap of 50 s, whose candidates before it are long ago."""
    often = build(sources, tmp_path / "often", "gcc", *SANITIZED, "-DECGFED_RENUMBER=36")
    signal_mv = np.concatenate([two_minutes, np.zeros(50 * 360), two_minutes, two_minutes])
    assert run_c(often, signal_mv, tmp_path, full=False).sample.tolist() == peaks_of(signal_mv).tolist()


def test_numbers_that_begin_anew_after_18_minutes(
    sources: Path, tmp_path: Path, two_minutes: NDArray[np.float64]
) -> None:
    quick = build(sources, tmp_path / "quick", "gcc", "-O2", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    signal_mv = np.tile(two_minutes, 1 + 60 * 40 * 360 // len(two_minutes))
    assert len(signal_mv) > 2 * 18 * 60 * 360
    assert run_c(quick, signal_mv, tmp_path, full=False).sample.tolist() == peaks_of(signal_mv).tolist()
