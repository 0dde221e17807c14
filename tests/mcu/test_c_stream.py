"""The C sources beside Python, stage by stage: peaks, windows, RR features, answers; whatever comes in."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcu_sources import build, peaks_of, run_c, same_as_python
from numpy.typing import NDArray
from spoiled_signals import beats_and_none

from ecgfed.exports.device.classifier import Classifier

pytest_plugins = ("mcu_fixtures",)
pytestmark = pytest.mark.mcu
NAN = float("nan")


def a_minute(seed: int = 3) -> NDArray[np.float64]:
    signal_mv, _ = synthetic_signal("NNNVNANNLN" * 8, seed=seed)
    return np.rint(signal_mv * 200) / 200


def test_every_stage_is_pythons(program: Path, int8_classifier: Classifier, tmp_path: Path) -> None:
    signal_mv = a_minute()
    said = same_as_python(run_c(program, signal_mv, tmp_path), signal_mv, int8_classifier)
    assert len(said.label) == 80
    assert len(np.unique(said.label)) > 1


def test_classes_have_their_names(program: Path, int8_classifier: Classifier, tmp_path: Path) -> None:
    assert run_c(program, a_minute()[:3000], tmp_path).classes == int8_classifier.classes


@pytest.mark.parametrize("chunk", [1, 7, 359, 4096])
def test_chunks_do_not_matter(program: Path, tmp_path: Path, chunk: int) -> None:
    signal_mv = a_minute()
    signal_mv[7000:7100] = NAN
    assert run_c(program, signal_mv, tmp_path, chunk=chunk).text == run_c(program, signal_mv, tmp_path).text


def test_missing_samples_are_bridged_or_part_the_lead(
    program: Path, int8_classifier: Classifier, tmp_path: Path
) -> None:
    signal_mv = a_minute()
    for start, count in ((2000, 1), (4000, 14), (6000, 15), (9000, 400), (12000, 5000), (len(signal_mv) - 10, 10)):
        signal_mv[start : start + count] = NAN
    same_as_python(run_c(program, signal_mv, tmp_path), signal_mv, int8_classifier, apart_mv=5e-4)


def test_a_lead_at_the_rail_and_a_flat_one(program: Path, int8_classifier: Classifier, tmp_path: Path) -> None:
    signal_mv = a_minute()
    signal_mv[5000:7000], signal_mv[9000:9300], signal_mv[15000:] = 5.12, -5.12, 0.0
    same_as_python(run_c(program, signal_mv, tmp_path, rail_mv=5.12), signal_mv, int8_classifier)


@pytest.mark.parametrize("lead", [0, 1])
def test_noise_and_flat_lines_hold_no_beats(
    program: Path, int8_classifier: Classifier, tmp_path: Path, lead: int
) -> None:
    """45 s of 10 microvolt noise, 20 s of 0 mV, 8 s at the rail; in the second lead also movement, and no samples."""
    signal_mv = beats_and_none(360.0)[0][lead]
    same_as_python(run_c(program, signal_mv, tmp_path), signal_mv, int8_classifier, apart_mv=5e-4)


@pytest.mark.parametrize("more", [1, 14, 15, 16, 200])
@pytest.mark.parametrize("missing", [0, 10, 15])
def test_a_line_that_is_flat_for_a_little_longer_than_it_may(
    program: Path, int8_classifier: Classifier, tmp_path: Path, more: int, missing: int
) -> None:
    """Flat from sample 4,140 on, where a part begins: for six parts it is no flat line yet, then some samples are."""
    signal_mv = a_minute()
    signal_mv[4140 : 4140 + 6 * 180 + more] = signal_mv[4139]
    signal_mv[4140 + 6 * 180 + more :][:missing] = NAN
    same_as_python(run_c(program, signal_mv, tmp_path), signal_mv, int8_classifier, apart_mv=5e-4)


@pytest.mark.parametrize(
    "signal_mv",
    [
        np.empty(0),
        np.full(5000, NAN),
        np.zeros(1),
        np.zeros(5000),
        np.array([1.0, NAN, 2.0]),
        np.concatenate([np.full(20, NAN), np.ones(300)]),
        a_minute()[:400],
        a_minute()[:900],
        a_minute()[:1500],
        np.tile([1e30, -1e30, float("inf"), 900.0, -float("inf")], 200),  # more would run over int32 in Python
        np.tile([1000.0, -1000.0], 2000),
    ],
    ids=["empty", "missing", "one", "zeros", "three", "late", "second", "two", "four", "huge", "swinging"],
)
def test_what_is_hardly_a_recording(program: Path, tmp_path: Path, signal_mv: NDArray[np.float64]) -> None:
    assert run_c(program, signal_mv, tmp_path).sample.tolist() == peaks_of(signal_mv).tolist()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), gaps=st.integers(0, 8), noise_mv=st.sampled_from([0.02, 0.2, 1.0]))
@example(seed=16936475, gaps=0, noise_mv=1.0)  # waves 0.18 s apart in two decided blocks
def test_any_signal_has_pythons_peaks(program: Path, tmp_path: Path, seed: int, gaps: int, noise_mv: float) -> None:
    random = np.random.default_rng(seed)
    beats = "".join(random.choice(list("NVAL"), random.integers(3, 30)))
    signal_mv, _ = synthetic_signal(beats, seed=seed % 1000, noise_mv=noise_mv, rr_s=float(random.uniform(0.25, 2.0)))
    signal_mv = np.rint(signal_mv * 200) / 200
    for _ in range(gaps):
        at = int(random.integers(0, len(signal_mv)))
        part = signal_mv[at : at + int(random.choice([1, 5, 14, 15, 16, 300, 1100, 2000]))]
        line = random.choice([NAN, 0.0, 5.12]) + random.choice([0.0, 0.005, 0.01]) * random.standard_normal(len(part))
        part[:] = np.rint(line * 1000) / 1000
    assert run_c(program, signal_mv, tmp_path, full=False).sample.tolist() == peaks_of(signal_mv).tolist()


@pytest.mark.slow  # 2**31 samples, one by one
def test_sample_numbers_beyond_int32(sources: Path, tmp_path: Path) -> None:
    quick = build(sources, tmp_path / "quick", "gcc", "-O3", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    first = 2**31 + 12345  # missing samples before the recording, 69 days
    here, later = (run_c(quick, a_minute()[:9000], tmp_path, first=count) for count in (0, first))
    assert (later.sample - first).tolist() == here.sample.tolist()
    assert later.rr_s.tolist() == here.rr_s.tolist()
    assert later.label.tolist() == here.label.tolist()


@pytest.mark.slow
def test_the_last_half_hour_of_a_day_is_as_its_second(sources: Path, tmp_path: Path) -> None:
    quick = build(sources, tmp_path / "quick", "gcc", "-O2", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    minutes = np.concatenate([a_minute(seed) for seed in range(30)])[: 1800 * 360]  # whole seconds at 360 and 200 Hz
    found = run_c(quick, np.tile(minutes, 49), tmp_path, full=False, chunk=4096)
    second, last = (found.sample // len(minutes) == copy for copy in (1, 47))
    assert (found.sample[last] - 46 * len(minutes)).tolist() == found.sample[second].tolist()
    assert found.label[last].tolist() == found.label[second].tolist()
    assert found.probability[last].tolist() == found.probability[second].tolist()
