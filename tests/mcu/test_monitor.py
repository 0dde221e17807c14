"""The monitor in C beside Python: quality, pacing and drift of real records, and the block of counts."""

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from mcu_sources import HERE, MONITOR, SANITIZED, STRICT, build, tool
from numpy.typing import NDArray
from spoiled_signals import spoiled
from test_c_stream import a_minute
from test_c_years import counts_of

from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY, window_spans
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal import quality
from ecgfed.domain.signal.pacing import CLEAR_SCORE, beat_scores
from ecgfed.domain.signal.quality import Reason
from ecgfed.domain.signal.spans import Spans
from ecgfed.domain.signal.stream_quality import QualityStream, Samples
from ecgfed.exports.device.drift import REASONS, Drift
from ecgfed.exports.mcu.monitor import monitor_header

pytest_plugins = ("mcu_fixtures",)
pytestmark = pytest.mark.mcu
C = Path(__file__).parents[2] / "ecgfed" / "exports" / "mcu" / "c"
#: The converter of MIT-BIH; C is told 5.115 mV, beyond which the lower one lies too.
RAILS_MV = (-5.12, 5.115)
#: Bits of the counter block: reasons of drift, in their order.
BITS = {reason: 1 << number for number, reason in enumerate(REASONS)}


@pytest.fixture(scope="module")
def quality_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of quality and pacing alone, which need no model."""
    folder = tmp_path_factory.mktemp("quality")
    (folder / "ecgfed_monitor_taps.h").write_text(monitor_header(), "utf-8")
    files = [HERE / "quality_main.c", *(C / f"ecgfed_{name}.c" for name in ("quality", "quality_blocks", "pacing"))]
    command = [tool("gcc"), *STRICT, *SANITIZED, f"-I{folder}", f"-I{C}", "-o", folder / "quality", *files, "-lm"]
    subprocess.run(command, check=True)
    return folder / "quality"


@pytest.fixture(scope="module")
def monitored(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("monitor") / "monitor"
    return build(sources, out, "gcc", *SANITIZED, main=HERE / "monitor_main.c", more_sources=MONITOR)


def output_of(program: Path, signal_mv: NDArray[np.floating], *arguments: object) -> list[list[str]]:
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, input=signal_mv.astype(np.float32).tobytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return [line.split() for line in done.stdout.decode().splitlines()]


def pythons_quality(signal_mv: NDArray[np.float64], rails_mv: tuple[float, ...]) -> dict[Reason, Spans]:
    """Return what Python's stream finds of a whole lead."""
    samples = Samples()
    stream = QualityStream(samples, 360.0, rails_mv)
    samples.append(signal_mv)
    stream.look(ended=True)
    return {reason: stream.spans([reason]) for reason in Reason}


def reasons_at(signal_mv: NDArray[np.float64], rails_mv: tuple[float, ...]) -> NDArray[np.int64]:
    """Return the bits of every sample, (samples,), by Python."""
    bits = np.zeros(len(signal_mv), np.int64)
    for number, spans in enumerate(pythons_quality(signal_mv, rails_mv).values()):
        bits |= spans.mask(0, len(signal_mv)).astype(np.int64) << number
    return bits


def c_reasons_at(program: Path, signal_mv: NDArray[np.float64], rail_mv: float) -> NDArray[np.int64]:
    """Return the same by C."""
    bits = np.zeros(len(signal_mv), np.int64)
    for start, stop, reasons in output_of(program, signal_mv, rail_mv):
        bits[int(start) : int(stop)] = int(reasons)
    return bits


def recording_of(signal_mv: NDArray[np.float64]) -> Recording:
    return Recording("r", Path("r"), "MLII", ("MLII",), 360.0, signal_mv[None], ())


def mlii(mitdb: Path, record: str) -> NDArray[np.float64]:
    return np.asarray(read_recording(mitdb / record, ("MLII",)).signal_mv, np.float64)


@pytest.mark.parametrize("samples", [1, 17, 700, 4320, 5041, 20_000])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_fault_is_found_where_python_finds_it(quality_program: Path, samples: int, seed: int) -> None:
    """Whatever the length, from one sample on; the spoiled recording holds every reason but hum."""
    signal_mv = np.round(np.clip(spoiled(360.0, seed)[0], -16.0, 16.0), 3)[-samples:]
    np.testing.assert_array_equal(
        c_reasons_at(quality_program, signal_mv, 6.0), reasons_at(signal_mv, (-6.0, 6.0)), strict=True
    )


def test_hum_alone_is_noise(quality_program: Path) -> None:
    signal_mv = np.round(a_minute(), 3)
    signal_mv[7200:14400] = np.round(0.3 * np.sin(2 * np.pi * 50 * np.arange(7200) / 360), 3)
    found = c_reasons_at(quality_program, signal_mv, 0.0)
    np.testing.assert_array_equal(found, reasons_at(signal_mv, ()))
    assert (found[9000:12000] == 16).all()


@pytest.mark.mitdb
@pytest.mark.parametrize("seed", range(4))
def test_faults_anywhere_in_a_real_record_are_pythons(
    quality_program: Path, mitdb: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Forty faults of any length up to 10 s; 10 microvolt are flat in C, and in float64 sometimes 1e-17 mV more."""
    monkeypatch.setattr(quality, "FLAT_MV", quality.FLAT_MV + 1e-9)
    random, signal_mv = np.random.default_rng(seed), mlii(mitdb, "100")[: 300 * 360].copy()
    for _ in range(40):
        at, samples = int(random.integers(0, len(signal_mv) - 4000)), int(random.choice([5, 30, 200, 400, 1000, 2500]))
        part = signal_mv[at : at + samples]
        part[:] = {
            "gap": np.full(samples, np.nan),
            "flat": np.full(samples, part[0]),
            "rail": np.full(samples, 5.115),
            "spike": part + np.where(np.arange(samples) < 9, 20.0, 0.0),
            "noise": part + random.normal(0, 0.15, samples),
            "hum": 0.3 * np.sin(2 * np.pi * 50 * np.arange(samples) / 360),
            "jump": part + 2.0,
        }[str(random.choice(["gap", "flat", "rail", "spike", "noise", "hum", "jump"]))]
    signal_mv = np.clip(np.round(signal_mv, 3), -5.115, 5.115)
    found = c_reasons_at(quality_program, signal_mv, 5.115)
    np.testing.assert_array_equal(found, reasons_at(signal_mv, (-5.115, 5.115)))
    assert len(set(found.tolist())) >= 4


@pytest.mark.mitdb
@pytest.mark.parametrize("record", ["108", "116", "203"])
def test_a_real_records_quality_is_pythons(quality_program: Path, mitdb: Path, record: str) -> None:
    signal_mv = mlii(mitdb, record)
    found = c_reasons_at(quality_program, signal_mv, 5.115)
    np.testing.assert_array_equal(found, reasons_at(signal_mv, RAILS_MV))
    assert (found > 0).sum() > 1000


@pytest.mark.mitdb
@pytest.mark.parametrize(("record", "paced"), [("107", True), ("217", True), ("208", False)])
def test_a_real_records_pacing_is_pythons(quality_program: Path, mitdb: Path, record: str, paced: bool) -> None:
    signal_mv = mlii(mitdb, record)[:200_000]
    peaks = np.arange(400, len(signal_mv) - 400, 97)  # anywhere: on beats, beside them and between
    scores = beat_scores(recording_of(signal_mv), peaks)
    lines = output_of(quality_program, signal_mv, 0, "pacing", *peaks.tolist())
    found = np.array([float(line[0]) for line in lines])
    np.testing.assert_allclose(np.where(found < 0, np.nan, found), scores, rtol=0, atol=1e-4)
    assert ((found > CLEAR_SCORE).sum() > 50) == paced


@dataclass(frozen=True)
class Watched:
    """What a monitored run printed."""

    beats: list[list[str]]
    watched: list[list[str]]
    changes: list[tuple[int, int]]
    block: bytes


def watch(program: Path, signal_mv: NDArray[np.floating], *arguments: object) -> Watched:
    lines = output_of(program, signal_mv, *arguments)
    by_letter = {letter: [line[1:] for line in lines if line[0] == letter] for letter in "bwqc"}
    changes = [(int(at), int(bits)) for at, bits in by_letter["q"]]
    return Watched(by_letter["b"], by_letter["w"], changes, bytes.fromhex(by_letter["c"][0][0]))


def monitor_counts(block: bytes) -> dict[str, int]:
    """Read both blocks as docs/microcontroller.md has them."""
    size = struct.unpack_from("<2H", block)[1]
    counters, rest = counts_of(block[:size]), block[size:]
    version, length, active, paced = struct.unpack_from("<4H", rest)
    assert (version, length) == (1, len(rest))
    pacing = ("pacing_assessed", "clearly_paced", "paced_runs")
    names = ("watched", "poor", *map(str, Reason), *pacing, *(f"began_{reason}" for reason in REASONS))
    values = struct.unpack_from(f"<{len(names)}Q", rest, 8)
    mine = dict(zip((f"monitor_{name}" for name in names), values, strict=True))
    return {**counters, **mine, "active": active, "paced": paced}


def spoiled_half(signal_mv: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """Return a record whose second half is changed."""
    half, random = len(signal_mv) // 2, np.random.default_rng(0)
    changed = signal_mv.copy()
    changed[half:] = {
        "none": changed[half:],
        "gain": 2.0 * changed[half:],
        "upside down": -changed[half:],
        "noise": np.round(changed[half:] + 0.3 * random.standard_normal(len(changed) - half), 3),
        "off": 0.0 * changed[half:],
    }[kind]
    return changed


def assert_as_python(found: Watched, signal_mv: NDArray[np.float64], classes: int) -> list[str]:
    """Compare quality, pacing and drift with Python's, given the beats that C classified; return what has changed."""
    assert [line[:5] for line in found.watched] == [line[:5] for line in found.beats]
    peaks = np.array([int(line[0]) for line in found.watched])
    label, uncertain, far, unclassified, reasons = np.array([[int(x) for x in line[1:6]] for line in found.watched]).T
    paced, values = (np.array([line[part] for line in found.watched], float) for part in (6, slice(9, None)))
    spans = pythons_quality(signal_mv, RAILS_MV)
    overlaps = [one.overlap(*window_spans(360.0, peaks)).astype(np.int64) << i for i, one in enumerate(spans.values())]
    np.testing.assert_array_equal(reasons, np.sum(overlaps, axis=0))
    scores = beat_scores(recording_of(signal_mv), peaks)
    np.testing.assert_allclose(np.where(paced < 0, np.nan, paced), scores, rtol=0, atol=1e-4)
    drift, changed = Drift(classes), set[str]()
    for number, beat in enumerate(found.beats):
        window_mv = np.array(beat[5:], np.float32)
        poor = FLAG_POOR_QUALITY if reasons[number] or unclassified[number] else 0
        drift.add(peaks[number] / 360, label[number], bool(uncertain[number]), bool(far[number]), poor, window_mv)
        active = int(found.watched[number][8]) & ~BITS["silence"]
        assert active == sum(BITS[reason] for reason in drift.reasons)
        np.testing.assert_allclose(values[number], [drift.values[name] for name in list(REASONS)[:-1]], atol=1e-12)
        changed.update(drift.reasons)
    assert_counts(found, reasons, paced, [event.reason for event in drift.events if event.began])
    return sorted(changed)


def assert_counts(found: Watched, reasons: NDArray[np.int64], paced: NDArray[np.float64], began: Sequence[str]) -> None:
    counts = monitor_counts(found.block)
    assert counts["beats"] == counts["monitor_watched"] == len(reasons)
    assert counts["monitor_poor"] == (reasons > 0).sum()
    assert [counts[f"monitor_{reason}"] for reason in Reason] == [(reasons >> i & 1).sum() for i in range(6)]
    assert counts["monitor_pacing_assessed"] == (paced >= 0).sum()
    clear = (paced > CLEAR_SCORE).sum()
    assert counts["monitor_clearly_paced"] == clear
    assert counts["paced"] == (clear > 0.3 * (paced >= 0).sum())
    of_beats = list(REASONS)[:-1]
    assert [counts[f"monitor_began_{name}"] for name in of_beats] == [began.count(name) for name in of_beats]


@pytest.mark.mitdb
@pytest.mark.parametrize(
    ("kind", "changes"), [("none", set()), ("gain", {"size"}), ("upside down", {"classes"}), ("noise", {"poor"})]
)
def test_a_real_records_changes_are_pythons(monitored: Path, mitdb: Path, kind: str, changes: set[str]) -> None:
    signal_mv = spoiled_half(mlii(mitdb, "103")[: 360 * 60 * 16], kind)
    classes = struct.unpack_from("<3H", watch(monitored, signal_mv[:3600], 5.115).block)[2]
    found = watch(monitored, signal_mv, 5.115)
    changed = assert_as_python(found, signal_mv, classes)
    assert changes <= set(changed)
    assert bool(changed) == bool(changes)
    assert max(int(line[7]) for line in found.watched[:-20]) <= 13 * 360  # announced, and then judged, in so long


@pytest.mark.mitdb
def test_a_paced_record_says_so(monitored: Path, mitdb: Path) -> None:
    found = watch(monitored, mlii(mitdb, "217")[: 360 * 120], 5.115)
    counts = monitor_counts(found.block)
    assert counts["paced"] == 1
    assert counts["monitor_paced_runs"] > 0


@pytest.mark.mitdb
@pytest.mark.parametrize("chunk", [1, 360])
def test_silence_begins_a_minute_after_the_last_peak_could_have_come(monitored: Path, mitdb: Path, chunk: int) -> None:
    """Looked at every 90 samples: more than 60 s, less the 6 s within which a peak is known."""
    signal_mv = spoiled_half(mlii(mitdb, "103")[: 360 * 180], "off")
    found = watch(monitored, signal_mv, 5.115, chunk)
    last = int(found.beats[-1][0])
    begins = next(at for at in range(0, len(signal_mv), 90) if at - last - 6 * 360 > 60 * 360) + 1
    assert found.changes == [(-(-begins // chunk) * chunk, BITS["silence"])]
    assert monitor_counts(found.block)["monitor_began_silence"] == 1


def test_pieces_of_any_length_give_the_same(monitored: Path) -> None:
    signal_mv = np.round(spoiled(360.0, 3)[0], 3)[:15_000]
    whole, single = (watch(monitored, signal_mv, 6.0, chunk) for chunk in (4096, 1))
    assert [line[:7] for line in whole.watched] == [line[:7] for line in single.watched]
    assert whole.block == single.block


def test_a_beat_that_waits_for_the_next_one_keeps_its_quality(monitored: Path) -> None:
    """A standstill of 40 s with noise over the last beat before it: judged long before the next beat comes."""
    signal_mv = np.round(a_minute(), 3)
    random = np.random.default_rng(1)
    signal_mv[6800:8000] += np.round(0.3 * random.standard_normal(1200), 3)
    rest = signal_mv[7900] + np.round(0.15 * np.sin(2 * np.pi * 0.25 * np.arange(40 * 360) / 360), 3)
    paused = np.concatenate([signal_mv[:7900], rest, signal_mv[7900:]])
    found = watch(monitored, paused, 0)
    spans = pythons_quality(paused, ())
    peaks = np.array([int(line[0]) for line in found.watched])
    overlaps = [one.overlap(*window_spans(360.0, peaks)).astype(np.int64) << i for i, one in enumerate(spans.values())]
    np.testing.assert_array_equal([int(line[5]) for line in found.watched], np.sum(overlaps, axis=0))
    assert max(np.diff(peaks)) > 20 * 360
