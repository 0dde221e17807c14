"""The synthetic patients' records: what is written, that it stays the same, and what of it goes into a cohort."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from demo_records import FS_HZ, NAMES, Record
from refusals import refuses
from scipy import signal as dsp

from ecgfed.base.errors import OptionError
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.demo import write_demo_records
from ecgfed.domain.cohort.sources import PrepareOptions, Source
from ecgfed.domain.record.wfdb_files import read_annotation, read_recording

#: Millivolt in both leads, three samples after the R wave of beat 100.
FROZEN_MV = [
    *((0.73, -0.34), (1.395, -1.045), (0.765, -0.51), (0.915, -0.155), (0.985, -0.535), (-2.065, -1.16)),
    *((-1.605, 0.61), (0.89, -1.0), (1.535, -1.025), (0.995, -0.465), (0.545, -0.505), (0.91, -0.35)),
]


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
    "options",
    [
        *({"patients": 0}, {"patients": -3}, {"patients": 1001}, {"seed": -1}),
        *({"minutes": minutes} for minutes in (0.0, -1.0, float("nan"), float("inf"))),
    ],
)
def test_numbers_that_will_not_do(tmp_path: Path, options: dict[str, float]) -> None:
    with refuses(OptionError, "invalid-value", next(iter(options))):
        write_demo_records(tmp_path / "records", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_taken_stays_as_it_is_unless_told(tmp_path: Path) -> None:
    taken = tmp_path / "records"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    with refuses(OptionError, "exists", "records"):
        write_demo_records(taken, patients=1, minutes=0.5)
    assert contents(taken) == {"mine.txt": b"mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["records"]
    with pytest.raises(OptionError, match=r"mine\.txt, which ecgfed did not write"):
        write_demo_records(taken, patients=1, minutes=0.5, overwrite=True)
    assert contents(taken) == {"mine.txt": b"mine"}
    (taken / "mine.txt").rename(taken / "demo02.hea")
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
        write_demo_records(tmp_path / "records", patients=3, minutes=0.5, on_progress=stop)
    assert said == [("demo01", 1, 3), ("demo02", 2, 3)]
    assert list(tmp_path.iterdir()) == []
