"""A stream's final answers are what the whole recording gives, however its samples come."""

import itertools
import tracemalloc
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from spoiled_signals import rails_by_median

from ecgfed.base.errors import BundleError, RecordError
from ecgfed.device import Classifier, StreamBeat, StreamClassifier, open_bundle
from ecgfed.domain.beats.context_stream import LOOK_AHEAD
from ecgfed.domain.beats.extract import Windows, without_qrs
from ecgfed.domain.beats.path import BeatOptions, RecordingBeats, cut_beats
from ecgfed.domain.beats.patient_beat import BLOCK
from ecgfed.domain.beats.stream import BeatStream
from ecgfed.domain.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.chunked_quality import quality_of
from ecgfed.domain.signal.filters import LENGTH_S
from ecgfed.domain.signal.peaks import find_peaks
from ecgfed.exports.device.predictions import Predictions
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.exports.device.stream import LATENCY

Signals = NDArray[np.float64]

#: A window differs from the whole recording's by the rounding of the filter's sums; a probability by what that makes.
WITHIN = 1e-5


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    """The model in the package: it takes RR features that look ahead."""
    return open_bundle(shipped_model()).classifier()


def signals_of(fs_hz: float, beats: int, seed: int) -> Signals:
    """Two leads with all that can befall them: gaps, lead-off, flat, spikes, noise, a baseline that jumps."""
    rng = np.random.default_rng(seed)
    one, _ = synthetic_signal("NNVNNANN" * (beats // 8), fs_hz=fs_hz, seed=seed)
    signals = np.stack([one, -0.6 * one])
    for _ in range(int(rng.integers(0, 9))):
        kind, leads = int(rng.integers(0, 7)), rng.choice([slice(0, 1), slice(1, 2), slice(0, 2)])
        at = int(rng.integers(0, signals.shape[1]))
        many = int(fs_hz * rng.choice([0.01, 0.05, 0.3, 1.2, 4.0, 9.0, 12.0, 35.0])) + 1
        part = signals[leads, at : at + many]
        if kind <= 1:
            part[:] = np.nan
        elif kind == 2:
            part[:] = rng.normal()
        elif kind == 3:
            part[:] = 9.0
        elif kind == 4:
            part[:, : round(0.03 * fs_hz) + 1] += 20 * rng.choice([-1, 1])
        elif kind == 5:
            part += rng.normal(0, 0.3, part.shape)
        else:
            part += rng.normal() * 3
    return signals


def recorded(signals: Signals, fs_hz: float) -> Recording:
    return Recording("x", Path("x"), "a", ("a", "b")[: len(signals)], fs_hz, signals, ())


def whole_of(signals: Signals, fs_hz: float, rr_version: int) -> RecordingBeats:
    """The whole recording without the three rules that compare a beat with all others, which no stream has."""
    recording = recorded(signals, fs_hz)
    quality = quality_of(recording, "a")
    peaks = find_peaks(recording, quality)  # noise at the ends among them
    beats = RecordingBeats(recording, quality, None, peaks, detected=True, rr_version=rr_version)
    beats.__dict__.update(min_qrs_mv=0.0, pulses=np.zeros(len(peaks), np.bool_))
    return beats


def limits(lead: NDArray[np.float64]) -> tuple[float, ...]:
    """The lead's own extremes, as ``predict`` takes them for the converter's."""
    return rails_by_median(lead)


def streamed(stream: StreamClassifier, signals: Signals, sizes: list[int]) -> list[StreamBeat]:
    """All that a stream says of a recording that comes in pieces of these sizes, again and again."""
    found, at, number = [], 0, 0
    while at < signals.shape[1]:
        size = sizes[number % len(sizes)]
        found += stream.push(signals[:, at : at + size])
        at, number = at + size, number + 1
    return found + stream.finish()


def check_same(found: list[StreamBeat], beats: RecordingBeats, classifier: Classifier) -> None:
    """Compare final answers with those of the whole recording."""
    final = [one for one in found if one.stage == "final"]
    expected = classifier.classify(beats.windows)
    assert [one.sample for one in final] == beats.r_samples.tolist()
    assert [one.label for one in final] == expected.label.tolist()
    assert [one.flags for one in final] == expected.flags.tolist()
    assert [one.out_of_distribution for one in final] == expected.out_of_distribution.tolist()
    assert [one.override for one in final] == expected.override.tolist()
    for one, probability in zip(final, expected.probability, strict=True):
        np.testing.assert_allclose(one.probabilities, probability, atol=WITHIN, rtol=0)


def same(one: list[StreamBeat], other: list[StreamBeat]) -> bool:
    """Whether two streams said the very same, to the last bit."""

    def bits(beats: list[StreamBeat]) -> list[tuple[object, ...]]:
        return [
            (*astuple(replace(b, probabilities=np.empty(0)))[:5], b.probabilities.tobytes(), b.stage, b.late_s)
            for b in beats
        ]

    return repr(bits(one)) == repr(bits(other))


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    fs_hz=st.sampled_from([100.0, 128.0, 250.0, 257.3, 360.0, 500.0, 1000 / 3]),
    seed=st.integers(0, 2**16),
    beats=st.sampled_from([8, 48, 160]),
    leads=st.integers(1, 2),
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=4),
)
@example(fs_hz=250.0, seed=240, beats=160, leads=2, sizes=[40_000])  # a beat that the first lead does not show
def test_any_chunking_gives_the_whole_recordings_answers(
    classifier: Classifier, fs_hz: float, seed: int, beats: int, leads: int, sizes: list[int]
) -> None:
    signals = signals_of(fs_hz, beats, seed)[:leads]
    try:
        whole = whole_of(signals, fs_hz, classifier.rr)
    except RecordError:  # no beat: then a stream has none either
        whole = None
    if sum(sizes) < 40 * len(sizes):  # a million calls test no more than some thousands
        signals = signals[:, : round(12 * fs_hz)]
        whole = None
    found = streamed(StreamClassifier(classifier, fs_hz, leads=leads, rails_mv=limits(signals[0])), signals, sizes)
    if whole is not None:
        check_same(found, whole, classifier)
    again = streamed(StreamClassifier(classifier, fs_hz, leads=leads, rails_mv=limits(signals[0])), signals, [10**9])
    assert same(found, again)


def test_a_stream_differs_in_beats_that_the_lead_does_not_show(classifier: Classifier) -> None:
    """``Q`` in the whole recording, by the height of all its QRS complexes; docs/stream.md states this limit."""
    signals = signals_of(250.0, 160, 240)
    beats = cut_beats(recorded(signals, 250.0), BeatOptions(("a",), rr_version=classifier.rr))
    found = streamed(StreamClassifier(classifier, 250.0, leads=2, rails_mv=limits(signals[0])), signals, [10**9])
    other = np.array([one.override for one in found]) != classifier.classify(beats.windows).override
    assert other.tolist() == without_qrs(beats.windows.window_mv, beats.min_qrs_mv).tolist()
    assert other.sum() == 1


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    fs_hz=st.sampled_from([100.0, 200.0, 257.3, 360.0, 1000 / 3]),
    seed=st.integers(0, 2**16),
    beats=st.sampled_from([8, 80, 240]),
    version=st.sampled_from([1, 2, 3, 4]),
    early=st.booleans(),
)
def test_windows_and_features_are_the_whole_recordings(
    fs_hz: float, seed: int, beats: int, version: int, early: bool
) -> None:
    """What a net sees, of every version of the RR features; the model in the package takes one of them."""
    signals = signals_of(fs_hz, beats, seed)
    try:
        whole = whole_of(signals, fs_hz, version)
    except RecordError:
        return
    stream = BeatStream(fs_hz, 2, 0, version, limits(signals[0]), early=early)
    steps = range(0, signals.shape[1] // stream.step * stream.step, stream.step)
    told = [stream.look(signals[:, at : at + stream.step]) for at in steps]
    told.append(stream.look(signals[:, len(steps) * stream.step :], ended=True))
    assert np.array_equal(np.concatenate([one.final.sample for one in told]), whole.r_samples)
    for name, within in (("window_mv", WITHIN), ("rr_s", WITHIN), ("flags", 0)):
        found = np.concatenate([getattr(one.final.windows, name) for one in told])
        np.testing.assert_allclose(found, getattr(whole.windows, name), atol=within, rtol=0)


def test_final_answers_come_with_their_features_and_early_ones_within_seconds(classifier: Classifier) -> None:
    """RR features wait for as many beats as their version needs; early answers for the window and the next beat."""
    ahead = LOOK_AHEAD[classifier.rr]
    signal, _ = synthetic_signal("N" * 240, seed=3)
    found = streamed(StreamClassifier(classifier, FS_HZ, early="decided"), signal[None], [7])
    early, final = ([one for one in found if one.stage == stage] for stage in ("early", "final"))
    assert len(final) > 235
    told = {one.sample for one in early}
    assert {one.sample for one in final[: -ahead // 4]} <= told  # those at the end are told finally at once
    late_s = [one.late_s for one in early]
    assert min(late_s) >= (WINDOW_SAMPLES - R_INDEX) / FS_HZ + LENGTH_S / 2
    assert max(late_s) <= LATENCY["early_at_most_s"]
    following = {one.sample: other for one, other in zip(final, final[ahead:], strict=False)}
    waited = [
        one.late_s - (following[one.sample].sample - one.sample) / FS_HZ for one in final if one.sample in following
    ]
    assert len(waited) > 100
    rr_s = float(np.diff([one.sample for one in final]).max()) / FS_HZ
    assert max(waited) <= LATENCY["final_after_last_needed_beat_s"] + 2 * BLOCK * rr_s


def test_what_is_told_early_and_is_a_spike_is_withdrawn(classifier: Classifier) -> None:
    """Or never told: the height of the beats, against which a spike is one, is known seconds later."""
    signal, r_samples = synthetic_signal("N" * 60, seed=1)
    at = int(r_samples[30]) + round(0.4 * FS_HZ)
    signal[at : at + 12] += 8.0
    found = streamed(StreamClassifier(classifier, FS_HZ, early=True), signal[None], [500])
    final = [one for one in found if one.stage == "final"]
    check_same(found, whole_of(signal[None], FS_HZ, classifier.rr), classifier)
    told = {one.sample for one in found if one.stage == "early"}
    gone = {one.sample for one in found if one.stage == "withdrawn"}
    assert gone == told - {one.sample for one in final}


def test_a_clock_that_jumps_ahead_is_a_gap_and_back_is_refused(classifier: Classifier) -> None:
    signal, _ = synthetic_signal("N" * 40, seed=2)
    half, lost = len(signal) // 2, round(20 * FS_HZ)
    stream = StreamClassifier(classifier, FS_HZ)
    found = stream.push(signal[:half], at_sample=0)
    found += stream.push(signal[half:], at_sample=half + lost)
    with pytest.raises(RecordError, match=rf"at_sample: is 7, and {len(signal) + lost:,} samples have come"):
        stream.push(signal[:9], at_sample=7)
    with pytest.raises(RecordError, match="0 to 7 days"):
        stream.push(signal[:9], at_sample=10**12)
    with pytest.raises(RecordError, match="a whole number"):
        stream.push(signal[:9], at_sample=len(signal) + lost + 0.5)  # type: ignore[arg-type]
    with pytest.raises(RecordError, match="gap: of -1 samples"):
        stream.gap(-1)
    found += stream.finish()
    whole = np.concatenate([signal[:half], np.full(lost, np.nan), signal[half:]])
    check_same(found, whole_of(whole[None], FS_HZ, classifier.rr), classifier)


def test_a_day_without_electrodes_passes_in_seconds_and_changes_nothing(classifier: Classifier) -> None:
    signal, _ = synthetic_signal("N" * 24, seed=4)
    day = round(86_400 * FS_HZ)
    stream = StreamClassifier(classifier, FS_HZ)
    found = stream.push(signal) + stream.gap(day)
    assert "silence" in stream.drift.reasons
    assert not stream.drift.label_again
    found += stream.push(signal) + stream.finish()
    assert stream.sample_count == 0
    samples = np.array([one.sample for one in found])
    before = samples[samples < len(signal)]
    assert len(before) > 20
    alone = streamed(StreamClassifier(classifier, FS_HZ), signal[None], [10**9])
    assert [one.sample for one in alone] == before.tolist()
    assert abs(len(samples) - 2 * len(before)) <= 1
    assert samples[len(before)] >= len(signal) + day


@pytest.mark.parametrize("size", [90, 7000])
def test_a_model_that_fails_once_costs_its_own_beats_and_no_numbers(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    signal, _ = synthetic_signal("NNNNV" * 30, fs_hz=360.0, seed=6)
    whole = streamed(StreamClassifier(classifier, 360.0), signal[None], [size])
    right, calls = classifier.classify, itertools.count()

    def once(windows: Windows) -> Predictions:
        if next(calls) == 1:
            raise BundleError("model.onnx", "failed")
        return right(windows)

    monkeypatch.setattr(classifier, "classify", once)
    stream, found, failed = StreamClassifier(classifier, 360.0), [], 0
    for at in range(0, len(signal), size):
        try:
            found += stream.push(signal[at : at + size])
        except BundleError:
            failed += 1
    found += stream.finish()
    assert failed == 1
    assert 0 < len(whole) - len(found) < 50
    expected = {one.sample: one for one in whole}
    assert same(found, [expected[one.sample] for one in found])
    assert found[-1].sample == whole[-1].sample


def test_the_next_recording_begins_anew(classifier: Classifier) -> None:
    signal, _ = synthetic_signal("NNVN" * 8, seed=6)
    stream = StreamClassifier(classifier, FS_HZ, early=True)
    once = streamed(stream, signal[None], [3000])
    assert once
    assert same(once, streamed(stream, signal[None], [777]))
    assert StreamClassifier(classifier, FS_HZ).finish() == []


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((2, 9)), r"samples: shape \(2, 9\); expected \(samples,\) of one lead"),
        (np.zeros((1, 1, 9)), "samples: shape"),
        (np.zeros(9, np.int16), "samples: values of type int16; expected millivolt"),
    ],
)
def test_other_shapes_and_whole_numbers_are_refused_and_nothing_is_lost(
    classifier: Classifier, samples: NDArray[np.generic], message: str
) -> None:
    stream = StreamClassifier(classifier, FS_HZ)
    stream.push(np.zeros(100))
    with pytest.raises(RecordError, match=message):
        stream.push(samples)
    assert stream.sample_count == 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fs_hz": 50.0}, "fs_hz"),
        ({"fs_hz": 90.0}, "fs_hz"),
        ({"fs_hz": float("nan")}, "fs_hz"),
        ({"fs_hz": 360.0, "lead": 1}, "lead: is 1 of 1"),
        ({"fs_hz": 360.0, "leads": 0}, "lead: is 0 of 0"),
        ({"fs_hz": 360.0, "lead": -1}, "lead: is -1 of 1"),
        ({"fs_hz": 360.0, "leads": 1.0}, "lead: is 0 of 1.0"),
    ],
)
def test_what_no_stream_can_be_made_of_is_refused(
    classifier: Classifier, options: dict[str, object], message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        StreamClassifier(classifier, **options)  # type: ignore[arg-type]


def test_memory_does_not_grow_with_the_recording() -> None:
    """What is kept is of the last minute, but for the 1,200 beats that RR features of versions 2 and 3 stand on.

    A day with the model in the package is in benchmarks/stream.
    """
    signal, _ = synthetic_signal("NNNVNANN" * 12, fs_hz=100.0, seed=7)
    stream, most = BeatStream(100.0, 1, 0, 1, (), early=False), []
    signal = signal[: len(signal) // stream.step * stream.step]
    tracemalloc.start()
    try:
        for _ in range(3):
            tracemalloc.reset_peak()
            for at in range(0, len(signal), stream.step):
                stream.look(signal[None, at : at + stream.step])
            most.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert most[2] < 1.1 * most[1]


@pytest.mark.slow
@pytest.mark.mitdb
@pytest.mark.parametrize("name", ["106", "116", "208"])
def test_real_records(mitdb: Path, classifier: Classifier, name: str) -> None:
    """116 is at the rail three times."""
    recording = read_recording(mitdb / name, ("MLII",), every_lead=True)
    lead = recording.leads.index(recording.lead)
    rails_mv = limits(recording.signals_mv[lead])
    stream = StreamClassifier(classifier, recording.fs_hz, leads=2, lead=lead, rails_mv=rails_mv)
    found = streamed(stream, recording.signals_mv, [3601, 17])
    check_same(found, cut_beats(recording, BeatOptions(("MLII",), rr_version=classifier.rr)), classifier)
