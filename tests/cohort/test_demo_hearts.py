"""The synthetic patients' hearts: what a detector and a ruler find in the records, as in those of real ones."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from demo_records import CLASSES, FS_HZ, NAMES, Record
from scipy import signal as dsp

from ecgfed.domain.cohort.demo import write_demo_records
from ecgfed.domain.cohort.sources import Source
from ecgfed.domain.signal.detectors import OURS, detect_r_peaks


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return write_demo_records(tmp_path_factory.mktemp("demo") / "records")


@pytest.fixture(scope="module")
def demo(sources: list[Source]) -> dict[str, Record]:
    return {source.id: Record(source.records[0]) for source in sources}


@pytest.mark.parametrize("name", NAMES)
def test_the_heart_rate_is_plausible_and_varies(demo: dict[str, Record], name: str) -> None:
    rr_s = demo[name].basic_rr_s()
    assert 55 <= 60 / rr_s.mean() <= 95
    assert 0.01 < rr_s.std() < 0.08
    assert 0.005 < np.sqrt((np.diff(rr_s) ** 2).mean()) < 0.1
    assert demo[name].rr_s.min() > 0.3
    assert demo[name].rr_s.max() < 2.5


def test_the_tachogram_has_mayer_and_respiratory_waves(demo: dict[str, Record]) -> None:
    record = demo["demo05"]  # nothing but sinus beats
    times = np.arange(2, 358, 0.25)
    rr_s = np.interp(times, record.sample[1:] / FS_HZ, record.rr_s)
    hz, power = dsp.welch(rr_s, fs=4, nperseg=480)

    def density(low: float, high: float) -> float:
        return float(power[(hz >= low) & (hz <= high)].mean())

    between = density(0.14, 0.17)
    assert density(0.08, 0.12) > 5 * between
    assert max(density(at, at + 0.04) for at in np.arange(0.18, 0.30, 0.02)) > 5 * between
    assert density(0.36, 0.5) < between * 2


@pytest.mark.parametrize("name", [name for name, (_, premature) in zip(NAMES, CLASSES, strict=True) if premature])
def test_premature_beats_are_early_and_a_pause_follows(demo: dict[str, Record], name: str) -> None:
    record = demo[name]
    usual = float(np.median(record.basic_rr_s()))
    premature = np.flatnonzero(record.symbol != record.basic)
    assert (np.diff(premature) > 1).all()
    assert premature[0] > 2
    for at, symbol in ((at, record.symbol[at]) for at in premature if at < len(record.rr_s)):
        before, after = record.rr_s[at - 1] / usual, record.rr_s[at] / usual
        assert before < 0.9
        assert after > (1.12 if symbol == "V" else 0.95)
    for symbol in set(record.symbol[premature].tolist()):
        which = premature[(record.symbol[premature] == symbol) & (premature < len(record.rr_s))]
        both = np.median(record.rr_s[which - 1] + record.rr_s[which]) / usual
        after = np.median(record.rr_s[which]) / usual
        if symbol == "V":  # the sinus node goes on: fully compensated
            assert both == pytest.approx(2, abs=0.05)
        else:  # it starts anew: a pause, but a shorter one
            assert after > 1.05
            assert both < 1.95


#: The share of detected beats that are beats, where it is less: ours takes some waves in the pauses behind the
#: ventricular beats of ``demo12`` for beats (96.7% in two minutes; a weakness, decision 0030).
LEAST_RIGHT = {(OURS, "demo12"): 0.96}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("detector", ["xqrs", OURS])
def test_a_detector_finds_the_beats(
    demo: dict[str, Record], tmp_path: Path, name: str, seed: int, detector: str
) -> None:
    """The realism check: wfdb's xqrs, which was made for real recordings; two minutes, or all six of other seeds.

    And ours, which is used where no other is asked for.
    """
    seconds = 120 if seed == 0 else 360
    record = demo[name]
    if seed:
        sources = write_demo_records(tmp_path / "r", seed=seed, patients=NAMES.index(name) + 1)
        record = Record(sources[-1].records[0])
    found = detect_r_peaks(record.mv[: seconds * FS_HZ, 0], FS_HZ, detector=detector)
    true = record.sample[record.sample < seconds * FS_HZ]
    near = np.abs(found[:, None] - true) <= 0.150 * FS_HZ
    assert near.any(axis=0).mean() >= 0.98
    assert near.any(axis=1).mean() >= LEAST_RIGHT.get((detector, name), 0.98)
    assert near.sum(axis=1).max() == 1


def test_ventricular_paced_and_blocked_beats_are_wider_than_normal_ones(demo: dict[str, Record]) -> None:
    width = {
        symbol: [record.qrs_width_s(symbol) for record in demo.values() if (record.symbol == symbol).sum() > 5]
        for symbol in "NALRV/"
    }
    narrow = [record.qrs_width_s("N") for record in demo.values() if record.basic == "N"]
    assert min(narrow) > 0.045
    assert max(narrow) < 0.09
    for symbol in "LRV/":
        assert min(width[symbol]) > max(narrow)
        assert np.mean(width[symbol]) > 1.25 * np.mean(narrow)
    for record in demo.values():
        if record.basic == "N" and "V" in record.symbol:
            assert record.qrs_width_s("V") > 1.3 * record.qrs_width_s("N")


@pytest.mark.parametrize("name", NAMES)
def test_the_t_wave_of_a_wide_beat_goes_against_its_qrs(demo: dict[str, Record], name: str) -> None:
    record = demo[name]
    for symbol in set(record.symbol.tolist()) & set("LV/N"):
        times, beat = record.mean_beat(symbol)
        r_mv = beat[np.abs(times).argmin(), 0]
        late = beat[(times > 0.2) & (times < 0.4), 0]
        t_mv = late[np.abs(late - beat[-1, 0]).argmax()] - beat[-1, 0]
        assert (r_mv * t_mv > 0) == (symbol == "N")


def test_bundle_branch_blocks_show_in_v1(demo: dict[str, Record]) -> None:
    """Right: V1 ends upwards, after MLII's R; left: V1 goes down, late; normal: rS with its nadir beside R."""
    for record in demo.values():
        times, beat = record.mean_beat(record.basic)
        near = np.abs(times) < 0.1
        peak_s = float(times[near][beat[near, 1].argmax()])
        if record.basic == "R":
            assert 0.03 < peak_s < 0.08
            assert beat[near, 1].max() > 0.4
        if record.basic in "LN":
            assert beat[near, 1].min() < -0.4
            assert beat[near, 1].max() < 0.4


@pytest.mark.parametrize("name", ["demo03", "demo08", "demo04", "demo10"])
def test_a_premature_atrial_beat_has_another_p_and_the_usual_qrs(demo: dict[str, Record], name: str) -> None:
    times, usual = demo[name].mean_beat(demo[name].basic)
    _, early = demo[name].mean_beat("A")
    qrs, p = np.abs(times) < 0.04, (times > -0.2) & (times < -0.1)
    for channel in (0, 1):
        assert np.corrcoef(usual[qrs, channel], early[qrs, channel])[0, 1] > 0.99
    shape = [np.diff(beat[p], axis=0) for beat in (usual, early)]
    assert np.abs(shape[0] - shape[1]).max() > 0.004  # mV a sample: another slope


def test_a_pacing_spike_stands_before_every_paced_beat_and_no_other(demo: dict[str, Record]) -> None:
    record = demo["demo06"]
    jump = np.abs(np.diff(record.mv[:, 0], prepend=record.mv[0, 0]))
    before = [jump[at - 36 : at - 14].max() for at in record.sample]
    paced = record.symbol == "/"
    assert min(np.array(before)[paced]) > 0.35
    assert max(np.array(before)[~paced]) < 0.25
    spikes = np.flatnonzero(jump > 0.35)  # mV from one sample to the next: no QRS is as steep
    assert 1 + (np.diff(spikes) > 0.1 * FS_HZ).sum() == paced.sum()


@pytest.mark.parametrize("name", NAMES)
def test_there_is_noise_of_every_kind(demo: dict[str, Record], name: str) -> None:
    mv = demo[name].mv[:, 0]
    hz, power = dsp.welch(mv, fs=FS_HZ, nperseg=FS_HZ * 60)

    def rms_mv(low: float, high: float) -> float:
        return float(np.sqrt(power[(hz >= low) & (hz <= high)].sum() * hz[1]))

    assert 0.02 < rms_mv(0.05, 0.5) < 0.4  # wander
    assert 0.003 < rms_mv(70, 120) < 0.03  # muscle
    mains = max(rms_mv(at - 0.1, at + 0.1) for at in (50, 60))
    assert mains > 2 * rms_mv(54.9, 55.1)
    assert mains < 0.02


def test_hearts_differ(demo: dict[str, Record]) -> None:
    """Beats of one class of two patients differ by more than those of one patient do."""
    beats = {}
    for name, record in demo.items():
        if record.basic == "N":
            _, beat = record.mean_beat("N")
            beats[name] = beat
    for one, other in pairwise(beats):
        assert np.abs(beats[one] - beats[other]).max() > 0.08
