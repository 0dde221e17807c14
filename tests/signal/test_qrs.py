"""Our QRS detector: where the beats were put, whatever the sampling frequency, the faults or the chunks."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from record_files import r_waves
from scipy.signal import resample_poly

from ecgfed.device import DELAY_S, QrsDetector, detect_qrs
from ecgfed.domain.record.wfdb_files import read_annotation, read_recording
from ecgfed.domain.signal import qrs_features, qrs_net, qrs_resample, qrs_rhythm, qrs_signal
from ecgfed.domain.signal.products import product

FS_HZ = 360.0


def two_leads(seconds: float = 60.0, fs_hz: float = FS_HZ, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return signals (2, samples) in mV, the second lead smaller and inverted, and the R times (s)."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(0.8 + 0.05 * rng.standard_normal(int(seconds / 0.8) - 1))
    lead = r_waves(fs_hz, times.tolist(), seconds)
    signals = np.stack([lead, -0.5 * lead])
    return signals + 0.02 * rng.standard_normal(signals.shape), times


def assert_found(peaks: np.ndarray, times: np.ndarray, fs_hz: float = FS_HZ, within_s: float = 0.02) -> None:
    """Each beat once, none else, each on its place."""
    assert len(peaks) == len(times)
    assert np.abs(peaks / fs_hz - times).max() <= within_s


def in_chunks(signals: np.ndarray, fs_hz: float, sizes: list[int], lead: int = 0) -> tuple[np.ndarray, float]:
    """Feed a stream chunk by chunk; return the peaks and the longest wait for one (s)."""
    detector, found, at, waited = QrsDetector(fs_hz, len(signals), lead=lead), [], 0, 0.0
    for size in sizes:
        new = detector.push(signals[:, at : at + size])
        if len(new):
            waited = max(waited, (at - new[0]) / fs_hz)  # the samples before this chunk did not suffice
        at += size
        found.append(new)
    return np.concatenate([*found, detector.finish()]), waited


@pytest.mark.parametrize("fs_hz", [100.0, 128.0, 250.0, 360.0, 500.0, 1000.0, 257.3])
def test_every_beat_is_found_once_on_its_peak_at_any_sampling_frequency(fs_hz: float) -> None:
    signals, times = two_leads(fs_hz=fs_hz)
    peaks = detect_qrs(signals, fs_hz)
    assert_found(peaks, times, fs_hz, within_s=1.5 / fs_hz + 0.004)
    assert peaks.dtype == np.int64
    assert_found(detect_qrs(signals[0], fs_hz), times, fs_hz, within_s=1.5 / fs_hz + 0.004)


@pytest.mark.parametrize("seed", range(6))
def test_any_chunks_give_the_same_peaks_within_the_stated_delay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fs_hz = [360.0, 250.0, 128.0, 500.0, 257.3, 1000.0][seed]
    signals, _ = two_leads(fs_hz=fs_hz, seed=seed)
    signals += 0.2 * rng.random() * rng.standard_normal(signals.shape)
    signals[:, int(20 * fs_hz) : int((20 + rng.random()) * fs_hz)] = np.nan  # a gap
    signals[:, int(30 * fs_hz) : int(30.02 * fs_hz)] = np.nan  # a few samples
    signals[0, int(40 * fs_hz) : int(50 * fs_hz)] = np.nan  # one lead
    whole = detect_qrs(signals, fs_hz)
    assert len(whole) > 50
    sizes = rng.integers(1, [3, 40, 500, 3000, 20, 20_000][seed], size=signals.shape[1]).tolist()
    pieces, waited = in_chunks(signals, fs_hz, sizes)
    np.testing.assert_array_equal(pieces, whole)
    assert waited <= DELAY_S


def test_a_finished_stream_begins_anew() -> None:
    signals, _ = two_leads(20.0)
    detector = QrsDetector(FS_HZ, 2)
    first = np.concatenate([detector.push(signals), detector.finish()])
    again = np.concatenate([detector.push(signals), detector.finish()])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, detect_qrs(signals, FS_HZ))


def test_what_lies_before_a_gap_does_not_change_what_is_found_after_it() -> None:
    signals, _ = two_leads()
    gap = slice(round(20 * FS_HZ), round(23 * FS_HZ))
    signals[:, gap] = np.nan
    louder = signals.copy()
    louder[:, : gap.start] *= 7
    after = detect_qrs(signals[:, gap.stop :], FS_HZ) + gap.stop
    for whole in (signals, louder):
        peaks = detect_qrs(whole, FS_HZ)
        np.testing.assert_array_equal(peaks[peaks >= gap.stop], after)


def test_a_few_missing_samples_cost_no_beat() -> None:
    signals, times = two_leads()
    for at in np.random.default_rng(0).integers(0, signals.shape[1] - 5, 40):
        signals[:, at : at + 4] = np.nan
    assert_found(detect_qrs(signals, FS_HZ), times, within_s=0.04)


@pytest.mark.parametrize("bad", ["nan", "flat", "rail", "noise"])
@pytest.mark.parametrize("lead", [0, 1])
def test_one_bad_lead_beside_a_good_one(bad: str, lead: int) -> None:
    signals, times = two_leads()
    part = slice(round(15 * FS_HZ), round(45 * FS_HZ))
    rng = np.random.default_rng(1)
    signals[lead, part] = {
        "nan": np.nan,
        "flat": 0.3,
        "rail": 5.12,
        "noise": 0.5 * rng.standard_normal(part.stop - part.start),
    }[bad]
    peaks = detect_qrs(signals, FS_HZ)
    missed = sum(np.abs(peaks / FS_HZ - at).min() > 0.1 for at in times)
    extra = sum(np.abs(times - at / FS_HZ).min() > 0.1 for at in peaks)
    allowed = 4 if bad == "noise" else 1  # of 37 beats in that half minute
    assert missed <= allowed
    assert extra <= allowed


def test_leads_with_a_skew_of_40_ms_give_each_beat_once() -> None:
    signals, times = two_leads()
    skewed = np.stack([signals[0], np.roll(signals[1], round(0.04 * FS_HZ))])
    assert_found(detect_qrs(skewed, FS_HZ), times)


def test_an_inverted_recording_has_its_peaks_at_the_same_places() -> None:
    signals, times = two_leads()
    assert_found(detect_qrs(-signals, FS_HZ), times)
    assert_found(detect_qrs(signals, FS_HZ, lead=1), times)


@pytest.mark.parametrize("height_mv", [50.0, -1e6])
def test_one_huge_spike_costs_at_most_the_beats_beside_it(height_mv: float) -> None:
    signals, times = two_leads()
    signals[:, round(30 * FS_HZ)] = height_mv
    peaks = detect_qrs(signals, FS_HZ)
    clear = times[np.abs(times - 30) > 1.5]
    assert all(np.abs(peaks / FS_HZ - at).min() < 0.02 for at in clear)
    assert len(peaks) <= len(times) + 2


@pytest.mark.parametrize(
    "signal",
    [np.zeros(3600), np.full(3600, 5.12), np.full(3600, np.nan), np.empty(0), np.ones(1), np.linspace(0, 0.5, 3600)],
    ids=["zero", "rail", "no samples", "empty", "one sample", "a drift"],
)
def test_where_nothing_beats_nothing_is_found(signal: np.ndarray) -> None:
    assert len(detect_qrs(signal, FS_HZ)) == 0


@pytest.mark.parametrize("seconds", [0.2, 0.5, 1.0, 2.0, 3.5])
def test_short_input_is_no_error(seconds: float) -> None:
    signals, _ = two_leads(60.0)
    peaks = detect_qrs(signals[:, : round(seconds * FS_HZ)], FS_HZ)
    assert len(peaks) <= seconds / 0.6 + 1


def test_an_amplitude_that_falls_to_a_fifth_is_followed() -> None:
    signals, times = two_leads(80.0)
    signals[:, round(40 * FS_HZ) :] *= 0.2
    peaks = detect_qrs(signals, FS_HZ) / FS_HZ
    assert all(np.abs(peaks - at).min() < 0.03 for at in times if at < 39 or at > 50)


def test_hum_of_the_mains_changes_nothing() -> None:
    signals, times = two_leads()
    t = np.arange(signals.shape[1]) / FS_HZ
    for mains_hz in (50, 60):
        assert_found(detect_qrs(signals + 0.3 * np.sin(2 * np.pi * mains_hz * t), FS_HZ), times)


def test_wide_and_narrow_beats_of_the_synthetic_patients() -> None:
    signal, r_samples = synthetic_signal("NNNVNNAN" * 12, seed=3)
    peaks = detect_qrs(signal, FS_HZ)
    assert sum(np.abs(peaks - at).min() < 0.15 * FS_HZ for at in r_samples) >= len(r_samples) - 2
    assert len(peaks) <= len(r_samples) + 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: QrsDetector(99.0), "100 Hz or more"),
        (lambda: QrsDetector(float("nan")), "100 Hz or more"),
        (lambda: QrsDetector(360.0, 2, lead=2), "expected 0 to 1"),
        (lambda: QrsDetector(360.0, 2).push(np.zeros((3, 100))), r"expected \(2, samples\)"),
    ],
)
def test_what_cannot_be_is_said(wrong, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=words):
        wrong()


@pytest.mark.parametrize("fs_hz", [100.0, 128.0, 200.0, 250.0, 257.3, 360.0, 500.0, 1000.0])
def test_resampling_is_the_mean_of_what_lies_in_each_window(fs_hz: float) -> None:
    """In fractions, sample by sample; a part of the stream gives the same as all of it."""
    signal = np.random.default_rng(0).integers(-3000, 3000, (1, 3000)).astype(np.int32)
    count = qrs_resample.resampled_count(3000, fs_hz, ended=True)
    whole = qrs_resample.resample(signal, 0, 0, count, fs_hz, 3000)[0]
    step = Fraction(str(fs_hz)) / 200
    for k in [*range(12), *range(count // 2, count // 2 + 12), *range(count - 6, count)]:
        low = max(k * step + Fraction(1, 2) - max(step, Fraction(1)) / 2, Fraction(0))
        high = min(k * step + Fraction(1, 2) + max(step, Fraction(1)) / 2, Fraction(3000))
        inside = range(int(low), min(int(high) + 1, 3000))
        total = sum(int(signal[0, i]) * (min(high, i + 1) - max(low, i)) for i in inside)
        assert abs(total / (high - low) - int(whole[k])) <= Fraction(500001, 1000000)
    for start in (1, 7, count // 3):
        part = qrs_resample.resample(signal, 0, start, count - 40, fs_hz, None)[0]
        np.testing.assert_array_equal(part, whole[start : count - 40])
        one = qrs_resample.resample(signal, 0, start, start + 1, fs_hz, None)[0]
        np.testing.assert_array_equal(one, whole[start : start + 1])


def test_filters_by_hand() -> None:
    """The envelope is the mean over 17 slopes of a 12-fold smoothed signal; a ramp of 1 has slope 6."""
    ramp = np.arange(1000)[None, :]
    made = qrs_signal.traces(ramp, 0)
    np.testing.assert_allclose(made.envelope, 6.0)
    np.testing.assert_allclose(made.shape, -0.5)  # the smoothing is centred half a sample before the baseline
    np.testing.assert_array_equal(made.smooth, 3 * ramp[:, made.start : 1000 - made.start])


def test_the_logarithm_is_exact_at_powers_of_two_and_close_between() -> None:
    ratio = np.array([0.25, 0.5, 1.0, 2.0, 64.0])
    np.testing.assert_array_equal(qrs_features.logarithm(ratio), [-2, -1, 0, 1, 6])
    between = np.linspace(0.01, 50, 1000)
    assert np.abs(qrs_features.logarithm(between) - np.log2(between)).max() < 0.09


def test_the_networks_sums_are_exact() -> None:
    """Batches of one give the bits of a batch of all, and whole numbers below 2^24 whatever the features are."""
    rng = np.random.default_rng(0)
    features = np.rint(rng.uniform(-512, 512, (2, 50, qrs_features.LEAD_FEATURES))).astype(np.float32)
    counted = rng.random((2, 50)) < 0.7
    counted[0] |= ~counted.any(axis=0)
    together, mixed = qrs_net.first_look(features, counted)
    apart = [qrs_net.first_look(features[:, i : i + 1], counted[:, i : i + 1])[0][0] for i in range(50)]
    np.testing.assert_array_equal(together, apart)
    assert (mixed == np.rint(mixed)).all()
    swapped, _ = qrs_net.first_look(features[::-1], counted[::-1])
    np.testing.assert_array_equal(swapped, together)  # which lead comes first does not matter
    rhythm = np.rint(rng.uniform(-512, 512, (50, qrs_rhythm.RHYTHM_FEATURES))).astype(np.float32)
    apart = [qrs_net.second_look(rhythm[i : i + 1])[0] for i in range(50)]
    np.testing.assert_array_equal(qrs_net.second_look(rhythm), apart)


@pytest.mark.parametrize("layer", ["lead", "mix", "first", "around", "tie", "beat", "place", "near", "pick"])
def test_no_sum_can_reach_what_float32_rounds(layer: str) -> None:
    """The largest inputs times the shipped weights: features end at 4 and activations at 8, in units of 1/128."""
    weights = qrs_net._weights()
    largest = 4 * 128 if layer in ("lead", "place") else 8 * 128
    most = np.abs(weights[layer].astype(np.float64)).sum(axis=0) * largest
    assert (most + np.abs(weights[f"{layer}_bias"])).max() < 2**24


def test_likeness_and_distance_of_neighbours_by_hand() -> None:
    """Three candidates a second apart: the third is twice the first and of its form, the second is turned over."""
    form = np.zeros((1, 3, 21), np.float32)
    form[0, :, 10] = [100, -100, 200]
    likely = qrs_rhythm.Likely(
        at=np.array([1000, 1200, 1400]),
        score=np.array([2.0, -1.0, 4.0], np.float32),
        mixed=np.zeros((3, qrs_rhythm.MIXED), np.float32),
        envelope=np.array([[50.0, 50.0, 100.0]], np.float32),
        counted=np.ones((1, 3), np.bool_),
        form=form,
        ratio=np.zeros((3, qrs_rhythm.LEVELS), np.float32),
        lead=np.zeros(3, np.int64),
        size=np.array([50.0, 50.0, 100.0], np.float32),
    )
    seen = qrs_rhythm.rhythm_features(likely, np.array([2]))[0] / 128
    neighbours = seen[: 5 * qrs_rhythm.NEIGHBOURS].reshape(-1, 5)
    np.testing.assert_array_equal(neighbours[0], [1, -0.25, 1, -0.5, -1])  # the second: 2^1 times 0.5 s away, half
    np.testing.assert_array_equal(neighbours[1], [1, 0.5, 2, -0.5, 1])  # the first
    beats = neighbours[qrs_rhythm.BEFORE + qrs_rhythm.AFTER :]
    np.testing.assert_array_equal(beats[0], neighbours[1])  # the last likely beat: the second scores below 0
    assert not beats[1:].any()
    assert not neighbours[2 : qrs_rhythm.BEFORE + qrs_rhythm.AFTER].any()


@pytest.mark.mitdb
@pytest.mark.parametrize("fs_hz", [128.0, 250.0, 500.0, 1000.0])
def test_a_real_recording_at_other_sampling_frequencies(mitdb: Path, fs_hz: float) -> None:
    """Five minutes of record 119 (DS1; a fifth of its beats ventricular), resampled."""
    recording = read_recording(mitdb / "119", ("MLII",), every_lead=True)
    beats = read_annotation(mitdb / "119").beats().sample
    beats = beats[beats < 299 * 360] / 360  # the record is cut at 300 s, in the middle of a beat
    signals = resample_poly(recording.signals_mv[:, : 300 * 360], int(fs_hz * 10), 3600, axis=1)
    peaks = detect_qrs(signals, fs_hz) / fs_hz
    peaks = peaks[peaks < 299]
    assert all(np.abs(peaks - at).min() < 0.1 for at in beats)
    assert len(peaks) == len(beats)


@pytest.mark.parametrize("rows", [0, 1, 20, 21, 22, 500])
def test_products_in_parts_are_the_products(rows: int) -> None:
    """In whole numbers, which float32 holds."""
    rng = np.random.default_rng(rows)
    left, right = rng.integers(-512, 512, (rows, 110)), rng.integers(-40, 40, (110, 56))
    products = product(left.astype(np.float32), right.astype(np.float32))
    assert products.dtype == np.float32
    np.testing.assert_array_equal(products, left @ right)
