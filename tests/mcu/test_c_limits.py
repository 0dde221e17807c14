"""What the C sources make of an inference that fails, and of samples that show nothing of the heart."""

from pathlib import Path

import numpy as np
import pytest
from mcu_sources import HERE, SANITIZED, build, lines_of, peaks_of, run_c
from numpy.typing import NDArray
from test_c_stream import a_minute

from ecgfed.domain.beats.extract import without_signal
from ecgfed.domain.signal.quality import Reason, first_look, runs
from ecgfed.domain.signal.spans import Spans
from ecgfed.exports.device.classifier import Classifier

pytest_plugins = ("mcu_fixtures",)
pytestmark = pytest.mark.mcu


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
    unclassified = [str(len(int8_classifier.classes)), "unclassified", "0", "1", "0", "1"]
    assert {tuple(beat[1:]) for beat in beats} == {tuple(unclassified)}


@pytest.mark.parametrize("mode", [0, 6], ids=["usual", "extreme"])
def test_finite_logits_are_answered(failing: Path, int8_classifier: Classifier, mode: int) -> None:
    beats = lines_of(failing, a_minute()[:9000], mode)
    assert {beat[2] for beat in beats} == {int8_classifier.classes[-1]}
    assert all(float(beat[5]) == pytest.approx(1.0, abs=1e-6) for beat in beats)
    assert {beat[6] for beat in beats} == {"0"}


def test_inputs_that_are_not_finite_have_no_logits(failing: Path) -> None:
    """Places: first and 200th sample of the window, and an RR feature; values: 0.5, NaN, inf, -inf, 3e38."""
    rows = np.array(lines_of(failing, np.empty(0), 7), np.float64).reshape(3, 5, -1)
    far, logits = rows[:, :, 0], rows[:, :, 1:]
    assert np.isfinite(logits[:, 0]).all()
    assert np.isnan(logits[:, 1:4]).all()
    assert np.isnan(logits[:2, 4]).all()  # its square runs over
    assert (far[:2, 1:] == 1).all()


def signal_with_losses(seed: int) -> NDArray[np.float64]:
    """Beats with bridged gaps, flat lines and rails (5 mV) of every length from a beat's wave to seconds."""
    random = np.random.default_rng(seed)
    signal_mv = np.clip(a_minute(seed), -4.9, 4.9)
    for at in range(1500, len(signal_mv) - 1500, 900):
        kind, long = random.choice(["gap", "flat", "rail", "none"]), int(random.choice([8, 30, 107, 108, 200, 400]))
        part = signal_mv[at : at + (min(long, 14) if kind == "gap" else long)]
        if kind != "none":
            part[:] = {"gap": np.nan, "flat": part[0], "rail": 5.0}[str(kind)]
    return signal_mv


@pytest.mark.parametrize("seed", range(6))
def test_beats_without_signal_are_unclassified_as_in_python(program: Path, tmp_path: Path, seed: int) -> None:
    signal_mv = signal_with_losses(seed)
    found = run_c(program, signal_mv, tmp_path, rail_mv=5.0)
    look = first_look(signal_mv, 360.0, (-5.0, 5.0))
    lost = Spans.merged(edge for mask in look.masks.values() for edge in runs(mask))
    window_mv = found.window_mv.astype(np.float32)[:, None]
    wanted = without_signal(window_mv, 360.0, found.sample, lost, rail=Spans.merged(runs(look.masks[Reason.RAIL])))
    assert found.unclassified.tolist() == np.where(wanted, 2, 0).tolist()
    assert found.uncertain[wanted].all()
    assert (found.label[wanted] == len(found.classes)).all()
    assert not found.probabilities[wanted].any()


def test_a_gap_leaves_nothing_of_a_beat(program: Path, tmp_path: Path) -> None:
    """A stretch that begins or ends in a QRS: half of it, and most of the window, was not recorded."""
    signal_mv = a_minute()
    peaks = peaks_of(signal_mv)
    for peak in peaks[[20, 40]]:
        signal_mv[peak + 3 : peak + 3 + 400] = np.nan
    found = run_c(program, signal_mv, tmp_path)
    assert set(peaks[[20, 40]]) <= set(found.sample[found.unclassified == 2])
    assert (found.unclassified == 0).sum() > 60
