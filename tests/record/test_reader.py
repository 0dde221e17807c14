"""The front door: which format a path is, which file is its annotation, and WFDB records written from any of them."""

from pathlib import Path

import numpy as np
import pytest
import wfdb
from record_files import END, edf_annotation, edf_bytes, mark, write_212
from refusals import refuses

from ecgfed.base.errors import EcgfedError, RecordError
from ecgfed.domain.record.reader import (
    annotation_file,
    format_of,
    read_annotation,
    read_comments,
    read_recording,
    record_path,
)
from ecgfed.domain.record.recording import Annotation, ReadOptions, Recording
from ecgfed.domain.record.wfdb_files import read_annotation as read_atr
from ecgfed.domain.record.wfdb_files import read_recording as read_wfdb
from ecgfed.domain.record.wfdb_writer import choose_gain, record_bytes, record_name

RAMP = [list(range(0, 2000, 2)), list(range(2000, 0, -2))]
MARKS = mark("N", 100) + mark("V", 300) + mark("N", 310) + END


def says(path: Path, annotator: str = "atr", **how: object) -> tuple[str, str | None]:
    with pytest.raises(EcgfedError) as caught:
        read_annotation(read_recording(path, ("MLII",), **how), annotator)  # type: ignore[arg-type]
    return caught.value.code, caught.value.parameter


@pytest.mark.parametrize(
    ("name", "kind", "base"),
    [
        ("208", "wfdb", "208"),
        ("208.hea", "wfdb", "208"),
        ("208.dat", "wfdb", "208"),
        ("208.edf", "edf", "208"),
        ("208.EDF", "edf", "208"),
        ("208.csv", "csv", "208"),
        ("208.tsv", "csv", "208"),
        ("208.txt", "csv", "208"),
        ("208.npy", "numpy", "208"),
        ("208.npz", "numpy", "208"),
        ("a.b", "wfdb", "a.b"),
        ("a.b.csv", "csv", "a.b"),
    ],
)
def test_the_suffix_says_the_format(name: str, kind: str, base: str) -> None:
    assert format_of(name) == kind
    assert record_path(Path("d") / name) == Path("d") / base


def test_one_signal_in_every_format(tmp_path: Path) -> None:
    """The same millivolts through WFDB, EDF, CSV and NumPy."""
    expected = (np.array(RAMP) - 1024) / 200
    write_212(tmp_path, "r", RAMP)
    rows = [[(np.array(RAMP[c]) - 1024)[200 * r : 200 * r + 200] for r in range(5)] for c in (0, 1)]
    (tmp_path / "r.edf").write_bytes(edf_bytes(rows, duration="0.5", physical=("-5", "5")))
    table = "\n".join(f"{a},{b}" for a, b in expected.T)
    (tmp_path / "r.csv").write_text(f"MLII (mV),V1 (mV)\n{table}\n")
    np.save(tmp_path / "r.npy", np.array(RAMP, dtype=np.int16))
    how = {
        "r.hea": ReadOptions(),
        "r.edf": ReadOptions(),
        "r.csv": ReadOptions(fs_hz=400),
        "r.npy": ReadOptions(fs_hz=400, units="200(1024)/mV", columns=("MLII", "V1")),
    }
    for name, options in how.items():
        read = read_recording(tmp_path / name, ("V1",), every_lead=True, how=options)
        assert (read.name, read.lead, read.leads) == ("r", "V1", ("MLII", "V1"))
        np.testing.assert_allclose(read.signals_mv, expected, atol=1e-12)
        assert read_recording(tmp_path / name, (), how=options).lead == "MLII"


def test_what_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    for name in ("r.edf", "r.csv", "r.npy", "r.npz", "r"):
        (tmp_path / name).mkdir()
        with refuses(EcgfedError, "invalid-record"):
            read_recording(tmp_path / name, ("MLII",))
        with refuses(EcgfedError, "invalid-record"):
            read_recording(tmp_path / ("x" * 300 + Path(name).suffix), ("MLII",))


def test_comments_alone(tmp_path: Path) -> None:
    write_212(tmp_path, "r", RAMP, comments=["patient: Ann"])
    (tmp_path / "r.edf").write_bytes(edf_bytes([[[0] * 200]], patient="Bob"))
    (tmp_path / "r.csv").write_text("# patient: Cem\nMLII\n1\n")
    np.save(tmp_path / "r.npy", np.zeros(10))
    assert [read_comments(tmp_path / name)[:1] for name in ("r", "r.edf", "r.csv", "r.npy")] == [
        ("patient: Ann",),
        ("patient: Bob",),
        ("patient: Cem",),
        (),
    ]


def csv_recording(folder: Path) -> tuple[Path, ReadOptions]:
    (folder / "r.csv").write_text("MLII\n" + "\n".join(map(str, np.sin(np.arange(1000)))))
    return folder / "r.csv", ReadOptions(fs_hz=500, units="mV")


def test_an_annotation_lies_beside_its_recording(tmp_path: Path) -> None:
    path, how = csv_recording(tmp_path)
    recording = read_recording(path, ("MLII",), how=how)
    for name in ("r.atr", "r.csv.atr"):
        (tmp_path / name).write_bytes(MARKS)
        assert annotation_file(path) == tmp_path / name
        read = read_annotation(recording)
        assert (read.sample.tolist(), "".join(read.symbol)) == ([100, 400, 710], "NVN")
        (tmp_path / name).unlink()
    (tmp_path / "r.atr.csv").write_text("sample,symbol\n100,N\n400,V\n")
    assert read_annotation(recording).sample.tolist() == [100, 400]
    (tmp_path / "r.twice.csv").write_text("sample,symbol,symbol\n100,N,V\n400,V,N\n")
    with refuses(RecordError, "invalid-record"):
        read_annotation(recording, "twice.csv")
    (tmp_path / "r.beats.csv").write_text("time_s;symbol;note\n1,5;V;\n0,25;N;\n0,2;+;(AFIB\n")
    read = read_annotation(recording, "beats.csv")
    assert (read.sample.tolist(), "".join(read.symbol), read.note) == ([100, 125, 750], "+NV", ("(AFIB", "", ""))
    assert read_annotation(recording, "beats").sample.tolist() == [100, 125, 750]
    (tmp_path / "r.atr").write_bytes(MARKS)
    assert says(path, how=how) == ("invalid-record", None)


def test_an_annotation_beside_an_edf_comes_before_the_one_inside(tmp_path: Path) -> None:
    marks = [edf_annotation(0) + edf_annotation(0.5, "V")]
    path = tmp_path / "r.edf"
    path.write_bytes(edf_bytes([[list(range(200))]], reserved="EDF+C", annotations=marks))
    recording = read_recording(path, ("MLII",))
    assert read_annotation(recording).symbol.tolist() == ["V"]
    (tmp_path / "r.edf.atr").write_bytes(mark("N", 10) + END)
    assert read_annotation(recording).symbol.tolist() == ["N"]
    assert read_annotation(recording, "edf").symbol.tolist() == ["V"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "sample,label\n1,N\n", "symbol\nN\n", "time_s,symbol\ninf,N\n", 'sample,symbol\n1,"N\n'),
        *(f"sample,symbol\n{rows}\n" for rows in ("1,N\nx,N", "1.5,N", ",N", "1e300,N", "1,N\n2", "1,PVC", "1,\0")),
        *("sample,symbol\n5000,N\n", "sample,symbol\n-1,N\n"),
    ],
)
def test_an_annotation_table_that_will_not_do(tmp_path: Path, text: str) -> None:
    path, how = csv_recording(tmp_path)
    (tmp_path / "r.atr.csv").write_text(text)
    assert says(path, how=how) == ("invalid-record", None)


@pytest.mark.parametrize(("interval", "rate"), [(40, "750"), (2400, "12.5")])
def test_beats_at_a_rate_no_heart_has_mean_a_wrong_sampling_frequency(tmp_path: Path, interval: int, rate: str) -> None:
    path = tmp_path / "r.npy"
    np.save(path, np.sin(np.arange(20_000)))
    marks = "\n".join(f"{interval * i},N" for i in range(8))
    (tmp_path / "r.atr.csv").write_text(f"sample,symbol\n{marks}\n")
    with pytest.raises(RecordError, match=f"median heart rate {rate} a minute"):
        read_annotation(read_recording(path, how=ReadOptions(fs_hz=500, units="mV", columns=("MLII",))))


@pytest.mark.parametrize(
    ("values", "gain", "zero"),
    [
        ([-5.12, 5.115], 5000, 0),
        ([0.0, 0.0], 100_000, 0),
        ([], 100_000, 0),
        ([-32.767, 0], 1000, 0),
        ([-32.768, 0], 500, 0),
        ([299.0, 301.0], 20_000, -6_000_000),
        ([-300.0, 300.0], 100, 0),
        ([1e-9], 100_000, 0),
        ([40_000.0, -1.0], 0.5, 0),
    ],
)
def test_the_gain_is_the_finest_of_1_2_5_that_fits(values: list[float], gain: float, zero: int) -> None:
    got = choose_gain(np.array([*values, np.nan]))
    assert got == (pytest.approx(gain), zero)
    steps = np.rint(np.array(values) * got[0]) + got[1]
    assert np.abs(steps).max(initial=0) <= 32767


def recording(signals: np.ndarray, *, leads: tuple[str, ...] = ("MLII", "V1"), fs: float = 360.0) -> Recording:
    return Recording("r", Path("r.csv"), leads[0], leads, fs, signals, ("69 M", "two\nlines", "sch\u00f6n"))


@pytest.mark.parametrize("fs", [360.0, 128.5, 1000 / 3, 249.99999])
def test_what_is_written_is_read_by_wfdb(tmp_path: Path, fs: float) -> None:
    """By wfdb itself: names, millivolts to half a step, gaps, marks, notes, comments, checksums."""
    rng = np.random.default_rng(3)
    signals = rng.standard_normal((2, 4000)) * [[3.0], [0.02]] + [[0], [150.0]]
    signals[0, 100:200] = np.nan
    marks = Annotation(np.array([5, 700, 3999]), np.array(["+", "N", "V"]), ("(AFIB", "", "odd one"))
    files, written = record_bytes(recording(signals, fs=fs), "r", marks)
    assert set(files) == {"hea", "dat", "atr"}
    for suffix, data in files.items():
        (tmp_path / f"r.{suffix}").write_bytes(data)
    back, notes = wfdb.rdrecord(str(tmp_path / "r")), wfdb.rdann(str(tmp_path / "r"), "atr")
    assert (back.sig_name, back.units, back.fs, back.fmt) == (["MLII", "V1"], ["mV", "mV"], fs, ["16", "16"])
    assert back.comments == ["69 M", "two lines", "sch?n"]
    assert [one.gain for one in written] == back.adc_gain
    assert [one.gaps for one in written] == [100, 0]
    for lead, one in enumerate(written):
        error = np.abs(back.p_signal[:, lead] - signals[lead])
        assert np.array_equal(np.isnan(error), np.isnan(signals[lead]))
        assert np.nanmax(error) <= 0.5 / one.gain + 1e-9
        assert one.max_error_mv == pytest.approx(np.nanmax(error), abs=1e-9)
        assert one.step_uv == pytest.approx(1000 / one.gain)
    digital = wfdb.rdrecord(str(tmp_path / "r"), physical=False)
    assert [int(s) % 65536 for s in digital.d_signal.sum(axis=0)] == [c % 65536 for c in digital.checksum]
    assert (notes.sample.tolist(), notes.symbol, notes.fs) == ([5, 700, 3999], ["+", "N", "V"], fs)
    assert read_atr(tmp_path / "r").note == marks.note


def test_an_annotation_without_marks_is_written_and_read(tmp_path: Path) -> None:
    empty = Annotation(np.array([], dtype=np.int64), np.array([], dtype=np.str_))
    files, _ = record_bytes(recording(np.zeros((2, 10))), "r", empty)
    (tmp_path / "r.atr").write_bytes(files["atr"])
    assert len(read_atr(tmp_path / "r").sample) == 0
    assert set(record_bytes(recording(np.zeros((2, 10))), "r")[0]) == {"hea", "dat"}


def test_names_that_wfdb_has_no_letters_for(tmp_path: Path) -> None:
    leads = ("Ableitung \u2161", "II", "II", " a\tb ", "")
    files, written = record_bytes(recording(np.zeros((5, 10)), leads=leads), "r")
    assert [one.name for one in written] == ["Ableitung ?", "II", "II (2)", "a b", "lead"]
    for suffix, data in files.items():
        (tmp_path / f"r.{suffix}").write_bytes(data)
    assert wfdb.rdrecord(str(tmp_path / "r")).sig_name == [one.name for one in written]
    assert [record_name(name) for name in ("a b.c", "208", "\u5fc3", "")] == ["a_b_c", "208", "_", "record"]
    assert [record_name(name) for name in ("nul", "COM1", "console")] == ["nul_", "COM1_", "console"]


@pytest.mark.mitdb
def test_the_48_records_are_written_without_loss(mitdb: Path, tmp_path: Path) -> None:
    """200 steps a millivolt become 2000 and more: every sample and every mark is the same."""
    for name in sorted(path.stem for path in mitdb.glob("???.hea")):
        source = read_recording(mitdb / name, (), every_lead=True)
        marks = read_annotation(source)
        files, written = record_bytes(source, name, marks)
        assert max(one.max_error_mv for one in written) < 1e-9
        for suffix, data in files.items():
            (tmp_path / f"{name}.{suffix}").write_bytes(data)
        back = read_wfdb(tmp_path / name, (), every_lead=True)
        np.testing.assert_allclose(back.signals_mv, source.signals_mv, atol=1e-9, rtol=0)
        assert back.comments == source.comments
        again = read_atr(tmp_path / name)
        assert again.sample.tolist() == marks.sample.tolist()
        assert (again.symbol.tolist(), again.note) == (marks.symbol.tolist(), marks.note)
