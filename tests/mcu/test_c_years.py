"""C sources that run for years: counters at their overflows, 400 days, numbers that stay small, the counter block."""

import struct
from pathlib import Path

import numpy as np
import pytest
from mcu_sources import HERE, SANITIZED, build, lines_of, peaks_of, run_c
from numpy.typing import NDArray
from test_c_stream import a_minute

pytest_plugins = ("mcu_fixtures",)
pytestmark = pytest.mark.mcu
FAST = ("-O3", "-fsanitize=undefined", "-fno-sanitize-recover=all")
DAY_S = 86_400
#: Whole turns of the 36 s whose levels are kept; 200 Hz samples of so many seconds and some 40 more are 2^31.
NEARLY_124_DAYS_S = (2**31 // 200 // 36 - 1) * 36
#: Seconds after which a counter of 32 bits would overflow: samples at 360 Hz, signed and not, at 200 Hz likewise, five
#: times those at 360 Hz (fifths, in which the detector resamples), and seconds themselves.
OVERFLOWS_S = {f"2^{bits} / {rate}": 2**bits // rate for bits in (31, 32) for rate in (360, 200, 1800, 1)}
#: The counter block's layout: header, counts, then one count for each class.
COUNTS = (
    *("samples", "missing", "saturated", "flat", "stretches", "beats", "no_logits", "no_signal", "uncertain", "far"),
    *("padded", "last_beat"),
)


def counts_of(block: bytes) -> dict[str, int]:
    """Read a counter block as docs/microcontroller.md has it; "labels" is the sum of all classes."""
    version, size, classes, _ = struct.unpack_from("<4H", block)
    assert (version, size) == (1, len(block))
    values = struct.unpack_from(f"<{len(COUNTS) + classes}Q", block, 8)
    assert size == 8 + 8 * len(values)
    return {**dict(zip(COUNTS, values, strict=False)), "labels": sum(values[len(COUNTS) :])}


@pytest.fixture(scope="module")
def two_minutes() -> NDArray[np.float64]:
    return np.concatenate([a_minute(3), a_minute(4)])


@pytest.fixture(scope="module")
def long(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(sources, tmp_path_factory.mktemp("long") / "long", "gcc", *SANITIZED, main=HERE / "long_main.c")


@pytest.mark.parametrize("seconds", [36 * 100, NEARLY_124_DAYS_S])
def test_a_stretch_goes_on_where_the_detector_counts_it_alone(
    long: Path, two_minutes: NDArray[np.float64], seconds: int
) -> None:
    """Counted at 200 Hz, 32 bits last 124.27 days: 2^31 / 200 / 86,400. The signal ends after that moment."""
    assert seconds == 3600 or (seconds + len(two_minutes) // 360) * 200 > 2**31
    later_than(long, two_minutes, seconds, seconds)


@pytest.mark.parametrize("seconds", [400 * DAY_S, 10_000 * DAY_S, *OVERFLOWS_S.values()])
def test_a_stretch_of_any_length_goes_on(long: Path, two_minutes: NDArray[np.float64], seconds: int) -> None:
    """What renumbering leaves after so long; each overflow comes in the middle of the signal."""
    later_than(long, two_minutes, seconds - (0 if seconds % DAY_S == 0 else 45), 0)


def later_than(long: Path, signal_mv: NDArray[np.float64], seconds: int, counted: int, offset_uv: int = 0) -> None:
    """Check that a stretch that seems longer by so many seconds from second 30 on has the same beats."""
    whole, later = (lines_of(long, signal_mv, *more) for more in ((), (30 * 360, seconds, counted, offset_uv)))
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


def test_no_number_of_32_bits_grows_with_time(sources: Path, tmp_path: Path, two_minutes: NDArray[np.float64]) -> None:
    """Beats, then an hour's quarter of noise without any: where numbers begin anew every 36 s, none passes 72 s."""
    bounds = build(sources, tmp_path / "bounds", "gcc", *FAST, "-DECGFED_RENUMBER=36", main=HERE / "bounds_main.c")
    noise_mv = np.random.default_rng(2).uniform(-0.03, 0.03, 900 * 360)
    signal_mv = np.concatenate([two_minutes, noise_mv, two_minutes, noise_mv])
    rows = [(name, int(value)) for name, value in lines_of(bounds, signal_mv)]
    half, whole = dict(rows[: len(rows) // 2]), dict(rows[len(rows) // 2 :])
    assert whole == half
    assert whole["count"] < (2 * 36 + 4) * 200
    assert max(whole.values()) == whole["count"]


@pytest.mark.parametrize("offset_uv", [6_000_000, -6_000_000, 3_000])
def test_steps_that_gaps_leave_out_do_not_add_up(long: Path, two_minutes: NDArray[np.float64], offset_uv: int) -> None:
    """Sums of 151 samples run over int32 beyond 14.2 V; here 6 V more come every 10 s."""
    later_than(long, two_minutes, 400 * DAY_S, 0, offset_uv)


@pytest.mark.parametrize("pushed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_400_days_with_a_minute_every_40(sources: Path, tmp_path: Path, *, pushed: bool) -> None:
    """1.2e10 missing samples; where they are not pushed one by one, they are counted."""
    years = build(sources, tmp_path / "years", "gcc", *FAST, main=HERE / "years_main.c")
    signal_mv = a_minute(6)
    samples, each = len(signal_mv), 40 * DAY_S * 360
    *beats, (_, block) = lines_of(years, signal_mv, 10, each - samples, int(pushed))
    at = np.array([int(beat[1]) for beat in beats]).reshape(10, -1)
    labels = np.array([beat[2] for beat in beats]).reshape(10, -1)
    assert (at - each * np.arange(1, 11)[:, None] + samples).tolist() == [peaks_of(signal_mv).tolist()] * 10
    assert (labels[1:] == labels[1]).all()  # the first minute has no beat before it
    counts = counts_of(bytes.fromhex(block))
    assert counts["samples"] == 400 * DAY_S * 360
    assert counts["missing"] == 10 * (each - samples)
    assert counts["stretches"] == 10
    assert counts["last_beat"] == at[-1, -1]
    assert counts["beats"] == len(beats) == counts["labels"] + counts["no_signal"] + counts["no_logits"]


def test_the_counters_count_what_was_answered(sources: Path, tmp_path: Path) -> None:
    years = build(sources, tmp_path / "years", "gcc", *SANITIZED, main=HERE / "years_main.c")
    driver = build(sources, tmp_path / "driver", "gcc", *SANITIZED)
    signal_mv = a_minute(6)
    signal_mv[4000:4020] = signal_mv[9000] = np.nan
    signal_mv[6000:6010] = 2000.0
    signal_mv[12000:14000] = signal_mv[12000]
    *_, (_, block) = lines_of(years, signal_mv, 1, 0, 1)
    counts, found = counts_of(bytes.fromhex(block)), run_c(driver, signal_mv, tmp_path)
    classified = found.unclassified == 0
    assert counts == {
        "samples": len(signal_mv),
        "missing": 21,
        "saturated": 10,
        "flat": counts["flat"],
        "stretches": 2,
        "beats": len(found.sample),
        "no_logits": 0,
        "no_signal": (~classified).sum(),
        "uncertain": (found.uncertain & classified).sum(),
        "far": (found.far & classified).sum(),
        "padded": found.padded.sum(),
        "last_beat": found.sample[-1],
        "labels": classified.sum(),
    }
    assert 2000 - 1080 - 180 <= counts["flat"] <= 2000 - 1080
    labels = struct.unpack_from(f"<{len(found.classes)}Q", bytes.fromhex(block), 8 + 8 * len(COUNTS))
    assert list(labels) == np.bincount(found.label[classified], minlength=len(found.classes)).tolist()
