"""What a stream announces is put right until it is what the stream says finally, by ids that stay."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.device import Classifier, QrsDetector, StreamBeat, StreamClassifier, open_bundle
from ecgfed.domain.beats.announced import CLASS_S, Announcements, PeakEvent
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.stream import BeatStream
from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.signal.qrs import DELAY_S
from ecgfed.domain.signal.qrs_early import AT_MOST_S, HOPELESS, EarlyPeaks, _Scores, _Wave
from ecgfed.domain.signal.qrs_rhythm import Likely
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.exports.device.stream import ANNOUNCE_STEP_S

#: Beats are mostly announced within so many seconds.
MOSTLY_S = 0.35


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return open_bundle(shipped_model()).classifier()


def pushed(stream: StreamClassifier, signals: NDArray[np.float64], size: int) -> list[StreamBeat]:
    found = []
    for at in range(0, signals.shape[1], size):
        found += stream.push(signals[:, at : at + size])
    return found + stream.finish()


def spoiled(fs_hz: float) -> NDArray[np.float64]:
    """Two leads with a spike, noise, a gap, a lead that comes off and a pause."""
    one, r_samples = synthetic_signal("NNVNNANN" * 10, fs_hz=fs_hz, seed=5)
    signals = np.stack([one, -0.6 * one])
    rng = np.random.default_rng(5)

    def part(second: float, seconds: float) -> slice:
        return slice(round(second * fs_hz), round((second + seconds) * fs_hz))

    spike = int(r_samples[20]) + round(0.4 * fs_hz)
    signals[:, spike : spike + round(0.03 * fs_hz)] += 8.0
    signals[:, part(25, 6)] += rng.normal(0, 0.5, signals[:, part(25, 6)].shape)
    signals[:, part(35, 3)] = np.nan
    signals[0, part(42, 5)] = 0.0
    signals[:, part(50, 3)] = signals[:, part(50, 3)][:, :1]
    return signals


def bits(found: Sequence[StreamBeat], *stages: str) -> list[tuple[object, ...]]:
    return [
        (b.sample, b.beat, b.stage, b.label, b.flags, b.override, b.late_s, b.probabilities.tobytes())
        for b in found
        if not stages or b.stage in stages
    ]


@pytest.mark.parametrize("fs_hz", [128.0, 257.3, 360.0])
def test_a_monitor_that_follows_the_reports_has_the_final_beats(classifier: Classifier, fs_hz: float) -> None:
    """And the final ones are, to the last bit, those of a stream that reports nothing else."""
    signals = spoiled(fs_hz)
    found = pushed(StreamClassifier(classifier, fs_hz, leads=2, early=True), signals, 1000)
    shown: dict[int, tuple[int, int]] = {}
    final: dict[int, tuple[int, int]] = {}
    for beat in found:
        assert beat.beat not in final
        if beat.stage in ("announced", "added"):
            assert beat.beat not in shown
            shown[beat.beat] = beat.sample, -1
        elif beat.stage == "moved":
            assert shown[beat.beat][0] != beat.sample
            shown[beat.beat] = beat.sample, shown[beat.beat][1]
        elif beat.stage == "withdrawn":
            del shown[beat.beat]
        elif beat.stage == "early":
            assert shown[beat.beat][0] == beat.sample
            assert beat.override or shown[beat.beat][1] != beat.label
            shown[beat.beat] = beat.sample, beat.label
        else:
            assert shown.pop(beat.beat)[0] == beat.sample
            final[beat.beat] = beat.sample, beat.label
    assert not shown
    assert {"announced", "withdrawn", "early", "final"} <= {beat.stage for beat in found}
    quiet = pushed(StreamClassifier(classifier, fs_hz, leads=2), signals, 777)
    assert [one[:1] + one[3:] for one in bits(found, "final")] == [one[:1] + one[3:] for one in bits(quiet)]


@pytest.mark.parametrize("size", [7, 4001])
def test_how_samples_come_changes_no_report(classifier: Classifier, size: int) -> None:
    signals = spoiled(250.0)[:, : round(45 * 250.0)]
    once = pushed(StreamClassifier(classifier, 250.0, leads=2, early=True), signals, 10**9)
    again = pushed(StreamClassifier(classifier, 250.0, leads=2, early=True), signals, size)
    assert bits(once) == bits(again)


def test_of_a_clear_signal_everything_is_announced_at_once(classifier: Classifier) -> None:
    signal, _ = synthetic_signal("NNNNVNNA" * 8, seed=3)
    found = pushed(StreamClassifier(classifier, FS_HZ, early=True), signal[None], 18)
    final = {beat.beat: beat.sample for beat in found if beat.stage == "final"}
    announced = {beat.beat: beat for beat in found if beat.stage == "announced"}
    early: dict[int, StreamBeat] = {}
    for beat in found:
        if beat.stage == "early":
            early.setdefault(beat.beat, beat)
    settled = [beat for beat, sample in final.items() if 5.0 < sample / FS_HZ < len(signal) / FS_HZ - 3.0]
    assert len(settled) > 40
    assert all(announced[beat].sample == final[beat] for beat in settled)
    late_s = [announced[beat].late_s for beat in settled]
    assert max(late_s) <= AT_MOST_S
    assert np.median(late_s) <= MOSTLY_S
    class_s = [early[beat].late_s for beat in settled]
    assert max(class_s) <= CLASS_S
    for before, after in pairwise(settled):  # with the next beat, unless its own window was not complete
        interval_s = (final[after] - final[before]) / FS_HZ
        assert early[before].late_s == pytest.approx(interval_s + announced[after].late_s) or early[before].late_s < 0.9


def test_a_pause_does_not_hold_back_a_class(classifier: Classifier) -> None:
    signal, r_samples = synthetic_signal("N" * 30, seed=3)
    at = int(r_samples[-8]) + round(0.5 * FS_HZ)
    pause = np.full(round(4 * FS_HZ), signal[at]) + np.random.default_rng(0).normal(0, 0.01, round(4 * FS_HZ))
    signals = np.concatenate([signal[:at], pause, signal[at:]])[None]
    found = pushed(StreamClassifier(classifier, FS_HZ, early=True), signals, 18)
    before = max(beat.sample for beat in found if beat.stage == "final" and beat.sample < at)
    first = next(beat for beat in found if beat.stage == "early" and beat.sample == before)
    assert CLASS_S - ANNOUNCE_STEP_S < first.late_s <= CLASS_S


def test_peaks_are_announced_where_the_detector_puts_them() -> None:
    signal, _ = synthetic_signal("NVNNA" * 12, fs_hz=500.0, seed=8)
    detector = QrsDetector(500.0)
    early, announced, decided = EarlyPeaks(detector), [], []
    for at in range(0, len(signal), 25):
        decided += detector.push(signal[at : at + 25]).tolist()
        announced += early.look()
    decided += detector.finish().tolist()
    inside = [peak for peak in decided if 5.0 < peak / 500.0 < len(signal) / 500.0 - 1.0]
    assert inside == [peak for peak in announced if inside[0] <= peak <= inside[-1]]


def test_a_vote_against_a_beat_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single leads are less sure than all together at first, and outvote them."""
    judged = EarlyPeaks._judged

    def outvoted(self: EarlyPeaks, scores: _Scores, wave: _Wave, *, is_last: bool) -> tuple[float, Likely] | None:
        found = judged(self, scores, wave, is_last=is_last)
        return found and (found[0] if wave.looks else HOPELESS - 1.0, found[1])

    monkeypatch.setattr(EarlyPeaks, "_judged", outvoted)
    signal, _ = synthetic_signal("NVNNA" * 8, seed=8)
    detector = QrsDetector(FS_HZ)
    early, announced, decided = EarlyPeaks(detector), [], []
    for at in range(0, len(signal), 18):
        decided += detector.push(signal[at : at + 18]).tolist()
        announced += early.look()
    inside = [peak for peak in decided if peak > 5.0 * FS_HZ]
    assert len(inside) > 20
    assert set(inside) <= set(announced)


def test_an_early_class_has_the_interval_that_follows() -> None:
    """Also once the detector has decided, which it does on a beat before it does on the next one."""
    signal, _ = synthetic_signal("NNNNVNNA" * 8, seed=3)
    stream = BeatStream(FS_HZ, 1, 0, 3, (), early=True, announce=True)
    cuts = [stream.look(signal[None, at : at + 90]).early for at in range(0, len(signal) - 89, 90)]
    is_void = np.concatenate([cut.windows.rr_s[:, RR_NAMES[3].index("void_next")] for cut in cuts])
    assert len(is_void) > 50
    assert not is_void.any()


def test_another_value_of_early_is_refused(classifier: Classifier) -> None:
    with pytest.raises(OptionError, match="early: 'soon'"):
        StreamClassifier(classifier, FS_HZ, early="soon")  # type: ignore[arg-type]


def test_a_peak_that_the_detector_has_elsewhere_keeps_its_id() -> None:
    known = Announcements(100.0)
    assert known.announce(1000) == [PeakEvent("announced", 0, 1000)]
    assert known.announce(1010) == []  # it is the same beat
    assert known.announce(1100) == [PeakEvent("announced", 1, 1100)]
    assert known.decide(1004) == [PeakEvent("moved", 0, 1004)]
    assert known.decide(1100) == []
    assert known.decide(1200) == [PeakEvent("added", 2, 1200)]
    assert known.announce(1300) == [PeakEvent("announced", 3, 1300)]
    assert known.expire(1300 + round(DELAY_S * 100) - 1) == []
    assert known.expire(1300 + round(DELAY_S * 100)) == [PeakEvent("withdrawn", 3, 1300)]
    assert known.remove(1004) == 0
    assert known.announce(1400) == [PeakEvent("announced", 4, 1400)]  # no id comes back
