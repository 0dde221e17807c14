"""Announced R peaks of the C sources beside Python's: the same beats, ids and times, and the final beats unchanged."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcu_sources import HERE, SANITIZED, build, peaks_of
from mcu_sources import lines_of as lines_of_stdin
from numpy.typing import NDArray

from ecgfed.domain.beats.announced import Announcements
from ecgfed.domain.beats.stream import PARTS, STEP_S
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.signal.qrs import QrsDetector
from ecgfed.domain.signal.qrs_early import EarlyPeaks

pytest_plugins = ("mcu_fixtures",)
pytestmark = pytest.mark.mcu
Signal = NDArray[np.float64]
#: What is reported, its id, R peak and the samples that had come.
Report = tuple[str, int, int, int]
KINDS = ("final", "announced", "added", "moved", "withdrawn")
PART = round(STEP_S * 360) // PARTS


@pytest.fixture(scope="module")
def early(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(sources, tmp_path_factory.mktemp("early") / "early", "gcc", *SANITIZED, main=HERE / "early_main.c")


def pythons(signal_mv: Signal) -> list[Report]:
    """Return what Python's detector and announcements report of one lead at 360 Hz."""
    detector, known = QrsDetector(360.0), Announcements(360.0)
    peaks, found = EarlyPeaks(detector), []
    for at in range(0, len(signal_mv) + 1, PART):
        part = signal_mv[at : at + PART]
        ended = len(part) < PART
        decided = detector.push(part).tolist() + (detector.finish().tolist() if ended else [])
        events = [event for peak in decided for event in known.decide(peak)]
        events += known.expire(at + len(part), ended=ended)
        events += [event for peak in peaks.look() for event in known.announce(peak)]
        found += [(event.change, event.beat, event.sample, at + len(part)) for event in events]
    return found


def c_reports(program: Path, signal_mv: Signal, chunk: int = 97) -> list[Report]:
    rows = [list(map(int, words)) for words in lines_of_stdin(program, signal_mv, chunk) if words[0] != "memory"]
    return [(KINDS[kind], beat, sample, now) for kind, beat, sample, now in rows]


def compare(program: Path, signal_mv: Signal) -> list[Report]:
    """Compare all reports with Python's, and the final beats with the detector's; return them."""
    signal_mv = signal_mv.astype(np.float32).astype(np.float64)
    found = c_reports(program, signal_mv)
    events = []
    for kind, beat, sample, now in found:
        if kind == "final":
            continue
        # what the detector decides is reported at once, in Python after the part
        rounded = now if kind in ("announced", "withdrawn") else min(-(-now // PART) * PART, len(signal_mv))
        events.append((kind, beat, sample, rounded))
    assert events == pythons(signal_mv)
    final = {beat: sample for kind, beat, sample, _ in found if kind == "final"}
    assert list(final.values()) == peaks_of(signal_mv).tolist()
    shown: dict[int, int] = {}
    for kind, beat, sample, _ in events:
        assert (beat in shown) == (kind in ("moved", "withdrawn"))
        shown[beat] = sample
        if kind == "withdrawn":
            del shown[beat]
    assert shown == final
    return found


def a_minute() -> Signal:
    return synthetic_signal("NNNVNANNLN" * 8, seed=3)[0]


def spoiled(signal_mv: Signal) -> Signal:
    """Add noise, a gap, a bridged one, a flat line and movement."""
    signal_mv, random = signal_mv.copy(), np.random.default_rng(5)
    signal_mv += random.normal(0, 0.05, len(signal_mv))
    signal_mv[20 * 360 : 28 * 360] += random.normal(0, 0.4, 8 * 360)
    signal_mv[30 * 360 : 33 * 360] = np.nan
    signal_mv[36 * 360 + 5 : 36 * 360 + 16] = np.nan
    signal_mv[45 * 360 : 50 * 360] = 0.1
    return signal_mv


def test_synthetic_beats_are_announced_as_in_python(early: Path) -> None:
    found = compare(early, a_minute())
    late = [now - sample for kind, _, sample, now in found if kind == "announced"]
    assert len(late) > 70
    assert np.median(late) < 0.4 * 360
    assert max(late) <= 360


def test_among_noise_gaps_and_flat_lines_too(early: Path) -> None:
    assert "withdrawn" in {kind for kind, *_ in compare(early, spoiled(a_minute()))}


@pytest.mark.parametrize("signal_mv", [np.empty(0), np.full(5000, np.nan), np.zeros(5000), a_minute()[:700]])
def test_what_is_hardly_a_recording(early: Path, signal_mv: Signal) -> None:
    compare(early, signal_mv)


@pytest.mark.parametrize("chunk", [1, 4096])
def test_chunks_do_not_matter(early: Path, chunk: int) -> None:
    signal_mv = spoiled(a_minute())[: 40 * 360]
    assert c_reports(early, signal_mv, chunk) == c_reports(early, signal_mv)


def test_renumbering_does_not_matter(sources: Path, early: Path, tmp_path: Path) -> None:
    often = build(sources, tmp_path / "often", "gcc", *SANITIZED, "-DECGFED_RENUMBER=36", main=HERE / "early_main.c")
    signal_mv = np.concatenate([synthetic_signal("NNNVNANNLN" * 8, seed=seed)[0] for seed in range(3)])
    assert c_reports(often, signal_mv) == c_reports(early, signal_mv)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), noise_mv=st.sampled_from([0.02, 0.2, 1.0]))
def test_any_signal_is_announced_as_in_python(early: Path, seed: int, noise_mv: float) -> None:
    random = np.random.default_rng(seed)
    beats = "".join(random.choice(list("NVAL"), random.integers(8, 30)))
    signal_mv, _ = synthetic_signal(beats, seed=seed % 1000, noise_mv=noise_mv, rr_s=float(random.uniform(0.25, 2.0)))
    compare(early, signal_mv)


@pytest.mark.mitdb
@pytest.mark.parametrize(("record", "start_s", "noisy"), [("100", 0, False), ("208", 300, False), ("203", 60, True)])
def test_a_real_record_is_announced_as_in_python(
    early: Path, mitdb: Path, record: str, start_s: int, noisy: bool
) -> None:
    signal_mv = np.asarray(read_recording(mitdb / record, ("MLII",)).signal_mv, np.float64)
    signal_mv = signal_mv[start_s * 360 :][: 180 * 360]
    found = compare(early, spoiled(signal_mv) if noisy else signal_mv)
    assert sum(kind == "announced" for kind, *_ in found) > 150
