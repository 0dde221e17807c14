"""The synthetic patients: what wfdb, a detector and a ruler find in them, read as any other recording."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import wfdb
from numpy.typing import NDArray
from scipy import signal as dsp

from ecgfed.cohort.build import PrepareOptions, Source, build_cohort
from ecgfed.cohort.cohort import open_cohort
from ecgfed.cohort.demo import write_demo_records
from ecgfed.errors import OptionError
from ecgfed.record.wfdb_files import read_annotation, read_recording
from ecgfed.signal.detectors import detect_r_peaks

FS_HZ = 360
NAMES = [f"demo{n:02d}" for n in range(1, 13)]
#: The classes each of the twelve has, and of which most of its beats are.
CLASSES = [
    ("N", "V"),
    ("L", "V"),
    ("N", "A"),
    ("R", "AV"),
    ("N", ""),
    ("/", "V"),
    ("N", "V"),
    ("N", "AV"),
    ("L", "V"),
    ("R", "AV"),
    ("N", "AV"),
    ("N", "V"),
]
#: Millivolt in both leads, three samples after the R wave of beat 100.
FROZEN_MV = [
    (0.73, -0.34),
    (1.395, -1.045),
    (0.765, -0.51),
    (0.915, -0.155),
    (0.985, -0.535),
    (-2.065, -1.16),
    (-1.605, 0.61),
    (0.89, -1.0),
    (1.535, -1.025),
    (0.995, -0.465),
    (0.545, -0.505),
    (0.91, -0.35),
]
Floats = NDArray[np.float64]


class Record:
    """One record as the wfdb package reads it."""

    def __init__(self, path: Path) -> None:
        read = wfdb.rdrecord(str(path))
        marks = wfdb.rdann(str(path), "atr")
        self.header, self.mv = read, np.asarray(read.p_signal)
        self.sample, self.symbol = np.asarray(marks.sample), np.asarray(marks.symbol)
        self.rr_s = np.diff(self.sample) / FS_HZ
        self.basic = Counter(self.symbol.tolist()).most_common(1)[0][0]

    def basic_rr_s(self) -> Floats:
        """Intervals between two basic beats, neither of them after a premature one."""
        plain = self.symbol == self.basic
        keep = plain[1:-1] & plain[2:] & plain[:-2]
        return np.asarray(self.rr_s[1:][keep])

    def mean_beat(self, symbol: str, before_s: float = 0.3, after_s: float = 0.5) -> tuple[Floats, Floats]:
        """Times from the R wave (s) and the mean beat (samples, 2) mV, 0 at its median from 120 to 90 ms before.

        Beats that a premature one follows are left out: it would stand in the window.
        """
        steps = np.arange(-round(before_s * FS_HZ), round(after_s * FS_HZ))
        inside = (self.sample + steps[0] >= 0) & (self.sample + steps[-1] < len(self.mv))
        alone = np.append(self.symbol[1:] == self.basic, True)
        beats = self.mv[self.sample[(self.symbol == symbol) & inside & alone][:, None] + steps]
        level = np.median(beats[:, (steps > -0.12 * FS_HZ) & (steps < -0.09 * FS_HZ)], axis=1, keepdims=True)
        return steps / FS_HZ, (beats - level).mean(axis=0)

    def qrs_width_s(self, symbol: str) -> float:
        """From the first to the last moment within 90 ms of R at which a lead passes an eighth of its deflection."""
        times, beat = self.mean_beat(symbol)
        near = np.abs(times) < 0.09
        size = np.abs(beat[near]) / np.abs(beat[near]).max(axis=0)
        return float(np.ptp(times[near][(size > 1 / 8).any(axis=1)]))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return write_demo_records(tmp_path_factory.mktemp("demo") / "records")


@pytest.fixture(scope="module")
def demo(sources: list[Source]) -> dict[str, Record]:
    return {source.id: Record(source.records[0]) for source in sources}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    kept = {}
    for name, seed, patients in (("one", 0, 3), ("again", 0, 3), ("more", 0, 5), ("other", 1, 3)):
        write_demo_records(tmp_path / name, seed=seed, patients=patients, minutes=0.5)
        kept[name] = contents(tmp_path / name)
    assert sorted(kept["one"]) == [f"demo0{n}.{kind}" for n in (1, 2, 3) for kind in ("atr", "dat", "hea")]
    assert kept["again"] == kept["one"]
    assert {name: kept["more"][name] for name in kept["one"]} == kept["one"]
    assert all(kept["other"][name] != data for name, data in kept["one"].items())


def test_what_is_returned_names_the_clients(sources: list[Source]) -> None:
    assert [source.id for source in sources] == NAMES
    assert all(source.patient == source.id and len(source.records) == 1 for source in sources)
    assert all(source.records[0].with_suffix(".hea").is_file() for source in sources)


def test_it_is_frozen(demo: dict[str, Record]) -> None:
    """Seed 0 as it was when the generator was frozen; whoever changes it counts up GENERATOR and says so."""
    counts = {name: dict(Counter(record.symbol.tolist())) for name, record in demo.items()}
    assert counts == {
        "demo01": {"N": 378, "V": 51},
        "demo02": {"L": 501, "V": 44},
        "demo03": {"N": 445, "A": 70},
        "demo04": {"R": 321, "A": 37, "V": 19},
        "demo05": {"N": 447},
        "demo06": {"/": 450, "V": 50},
        "demo07": {"N": 311, "V": 88},
        "demo08": {"N": 343, "A": 31, "V": 15},
        "demo09": {"L": 409, "V": 72},
        "demo10": {"R": 429, "A": 30, "V": 45},
        "demo11": {"N": 361, "V": 23, "A": 8},
        "demo12": {"N": 369, "V": 158},
    }
    mv = [record.mv[record.sample[100] + 3].round(3).tolist() for record in demo.values()]
    assert mv == pytest.approx(np.array(FROZEN_MV), abs=0.006)  # a step of the recorder, where another machine rounds


def test_every_patient_has_its_own_mixture_of_classes(demo: dict[str, Record]) -> None:
    for record, (basic, premature) in zip(demo.values(), CLASSES, strict=True):
        counts = Counter(record.symbol.tolist())
        assert set(counts) == {basic, *premature}
        assert record.basic == basic
        assert min(counts.values()) >= 8
    total = Counter(symbol for record in demo.values() for symbol in record.symbol.tolist())
    assert 4_800 < sum(total.values()) < 6_000
    assert min(total.values()) > 150
    assert sum(len(set(record.symbol.tolist())) == 1 for record in demo.values()) == 1


def test_the_thirteenth_has_the_first_ones_mixture_and_a_heart_of_its_own(tmp_path: Path) -> None:
    sources = write_demo_records(tmp_path / "records", patients=13, minutes=0.5)
    first, last = Record(sources[0].records[0]), Record(sources[12].records[0])
    assert set(last.symbol.tolist()) == set(first.symbol.tolist()) == {"N", "V"}
    assert not np.array_equal(first.mv, last.mv)


@pytest.mark.parametrize("name", NAMES)
def test_the_header_is_that_of_mitbih_and_says_what_this_is(demo: dict[str, Record], name: str) -> None:
    header = demo[name].header
    assert (header.fs, header.sig_len, header.n_sig) == (FS_HZ, 6 * 60 * FS_HZ, 2)
    assert header.sig_name == ["MLII", "V1"]
    assert (header.fmt, header.adc_gain, header.units) == (["212"] * 2, [200.0] * 2, ["mV"] * 2)
    assert (header.baseline, header.adc_zero, header.adc_res) == ([1024] * 2, [1024] * 2, [11] * 2)
    assert header.comments[0] == "synthetic, made by ecgfed prepare demo, seed 0"
    assert "never that a method is good" in header.comments[1]
    assert np.abs(demo[name].mv).max() < 5.12
    steps = (demo[name].mv * 200).round(6)
    assert np.array_equal(steps, steps.round())


@pytest.mark.parametrize("name", NAMES)
def test_the_projects_reader_reads_what_wfdb_reads(sources: list[Source], demo: dict[str, Record], name: str) -> None:
    path = sources[NAMES.index(name)].records[0]
    for channel, lead in enumerate(("MLII", "V1")):  # checks the length and each lead's checksum, too
        np.testing.assert_allclose(read_recording(path, (lead,)).signal_mv, demo[name].mv[:, channel], atol=1e-9)
    marks = read_annotation(path, samples=6 * 60 * FS_HZ)
    assert np.array_equal(marks.sample, demo[name].sample)
    assert np.array_equal(marks.symbol, demo[name].symbol)
    assert (np.diff(marks.sample) > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_annotation_stands_on_the_extremum_of_its_qrs(demo: dict[str, Record], name: str) -> None:
    record = demo[name]
    band = dsp.butter(2, (0.7, 45), "bandpass", fs=FS_HZ, output="sos")
    size = np.abs(dsp.sosfiltfilt(band, record.mv[:, 0]))
    steps = np.arange(-25, 26)
    offset_ms = (size[record.sample[:, None] + steps].argmax(axis=1) - 25) / FS_HZ * 1e3
    assert np.abs(offset_ms).max() <= 10


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_a_detector_finds_the_beats(demo: dict[str, Record], tmp_path: Path, name: str, seed: int) -> None:
    """The realism check: wfdb's xqrs, which was made for real recordings; two minutes, or all six of other seeds."""
    seconds = 120 if seed == 0 else 360
    record = demo[name]
    if seed:
        sources = write_demo_records(tmp_path / "r", seed=seed, patients=NAMES.index(name) + 1)
        record = Record(sources[-1].records[0])
    found = detect_r_peaks(record.mv[: seconds * FS_HZ, 0], FS_HZ)
    true = record.sample[record.sample < seconds * FS_HZ]
    near = np.abs(found[:, None] - true) <= 0.150 * FS_HZ
    assert near.any(axis=0).mean() >= 0.98
    assert near.any(axis=1).mean() >= 0.98
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


def test_a_cohort_made_of_them_holds_every_annotated_beat(
    sources: list[Source], demo: dict[str, Record], tmp_path: Path
) -> None:
    build_cohort(sources, tmp_path / "cohort", PrepareOptions(), kind="demo", workers=1)
    cohort = open_cohort(tmp_path / "cohort")
    assert cohort.meta["kind"] == "demo"
    assert [client.id for client in cohort.clients] == NAMES
    for client, record in zip(cohort.clients, demo.values(), strict=True):
        mine = cohort.client == client.index
        assert np.array_equal(cohort.sample[mine], record.sample)
        assert [cohort.classes[label] for label in cohort.label[mine]] == record.symbol.tolist()
        assert (cohort.flags[mine] & 2 > 0).mean() < 0.05  # bursts of muscle noise over small beats
        qrs = np.abs(cohort.beats[mine][:, 0, 82:119])
        assert np.abs(qrs.argmax(axis=1) - 18).max() <= 4  # sample 100 of the window, within 10 ms
        for symbol in set(record.symbol.tolist()):
            splits = cohort.split[mine][record.symbol == symbol]
            assert set(splits.tolist()) == {0, 1, 2}
    assert np.isfinite(cohort.beats).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"patients": 0}, ("--patients: 0", "1 to")),
        ({"patients": -3}, ("--patients: -3",)),
        ({"patients": 1001}, ("--patients: 1001",)),
        ({"minutes": 0.0}, ("--minutes: 0", "0.5 to 60")),
        ({"minutes": -1.0}, ("--minutes: -1",)),
        ({"minutes": float("nan")}, ("--minutes: nan",)),
        ({"minutes": float("inf")}, ("--minutes: inf",)),
        ({"seed": -1}, ("--seed: -1", "0 or more")),
    ],
)
def test_numbers_that_will_not_do(tmp_path: Path, options: dict[str, float], words: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as caught:
        write_demo_records(tmp_path / "records", **options)  # type: ignore[arg-type]
    assert all(word in caught.value.line for word in words)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_taken_stays_as_it_is_unless_told(tmp_path: Path) -> None:
    taken = tmp_path / "records"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    with pytest.raises(OptionError, match=r"records: .*is not empty.*overwrite"):
        write_demo_records(taken, patients=1, minutes=0.5)
    assert contents(taken) == {"mine.txt": b"mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["records"]
    write_demo_records(taken, patients=1, minutes=0.5, overwrite=True)
    assert sorted(contents(taken)) == ["demo01.atr", "demo01.dat", "demo01.hea"]
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


def test_a_stop_in_the_middle_leaves_nothing_and_progress_counts(tmp_path: Path) -> None:
    said: list[tuple[str, int, int]] = []

    def stop(name: str, done: int, total: int) -> None:
        said.append((name, done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_demo_records(tmp_path / "records", patients=3, minutes=0.5, progress=stop)
    assert said == [("demo01", 1, 3), ("demo02", 2, 3)]
    assert list(tmp_path.iterdir()) == []
