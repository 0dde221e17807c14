"""WFDB headers by the grammar of header(5): what it allows is read, anything else is one line with line and value."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import wfdb
from record_files import edit, write_212
from refusals import refuses

from ecgfed.base.errors import EcgfedError, RecordError
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.domain.record.wfdb_grammar import read_lines
from ecgfed.domain.record.wfdb_header import segment_names

RAMP = [list(range(1000, 1400, 2)), list(range(1500, 1300, -1))]
SUM = sum(RAMP[0])


def fails(record: Path) -> tuple[str, str | None]:
    with pytest.raises(RecordError) as caught:
        read_recording(record, every_lead=True)
    return caught.value.code, caught.value.parameter


def first_line(tmp_path: Path, new: str) -> Path:
    """A record whose first signal line, line 2 of the file, is another."""
    record = write_212(tmp_path, "r", RAMP)
    edit(record.with_suffix(".hea"), f"r.dat 212 200(1024)/mV 12 1024 1000 {SUM % 65536} 0 MLII", new)
    return record


@pytest.mark.parametrize(
    "gain",
    [
        *("2OO", "nan", "inf", "-inf", "0x10", "200,5", "1e-300", "1e300", "1e999", "200(1024", "200)1024(", "200/"),
        *("200()/mV", "200(10.5)/mV", "200(x)/mV", "--200", "2_00", "\u0662\u0660\u0660", "200mV", "(1024)", "1e", "."),
    ],
)
def test_a_gain_that_is_none_is_refused_with_line_and_value(tmp_path: Path, gain: str) -> None:
    assert fails(write_212(tmp_path, "r", RAMP, gain=gain)) == ("invalid-record", None)


@pytest.mark.parametrize(
    ("gain", "steps", "baseline", "unit"),
    [
        ("200(1024)/mV", 200, 1024, "mV"),
        ("200", 200, 1024, "mV"),
        ("200.0(0)/mV", 200, 0, "mV"),
        ("1000.0(-125)/uV", 1000, -125, "uV"),
        ("2e2/mV", 200, 1024, "mV"),
        (".5(+3)/uV", 0.5, 3, "uV"),
        ("-200/mV", -200, 1024, "mV"),
        ("0", 200, 1024, "mV"),
        ("0/uV", 200, 1024, "uV"),
        ("0.002/nV", 0.002, 1024, "nV"),
        ("360./V", 360, 1024, "V"),
    ],
)
def test_every_gain_the_format_has_is_read(tmp_path: Path, gain: str, steps: float, baseline: int, unit: str) -> None:
    record = write_212(tmp_path, "r", RAMP, gain=gain)
    line = read_lines(record.with_suffix(".hea")).lines[0]
    assert (line.gain, line.baseline, line.unit) == (steps, baseline, unit)
    per_mv = {"mV": 1, "uV": 1e-3, "nV": 1e-6, "V": 1e3}[unit]
    np.testing.assert_allclose(
        read_recording(record, "MLII").signal_mv, (np.array(RAMP[0]) - baseline) / steps * per_mv, rtol=1e-12
    )


@pytest.mark.parametrize(
    "new",
    [
        *(f"r.dat {fmt} 200(1024)/mV 12 1024 0 0 0 MLII" for fmt in ("21Z", "13", "212x0", "212:-3", "212+-8")),
        *(
            f"r.dat 212 200(1024)/mV {numbers} MLII"
            for numbers in ("12.5 1024 0 0 0", "12 1O24 0 0 0", "12 1024 x 0 0", "12 1024 0 0x1f 0", "12 1024 0 0 no")
        ),
        *(f"{file} 200(1024)/mV 12 1024 0 0 0 MLII" for file in ("../r.dat 212", "/etc/passwd 8", "a/../../r.dat 212")),
        *("r.dat", f"r.dat 212 200(1024)/mV 12 {'9' * 5000} 0 0 0 MLII"),
    ],
)
def test_a_signal_line_that_will_not_do(tmp_path: Path, new: str) -> None:
    assert fails(first_line(tmp_path, new)) == ("invalid-record", None)


@pytest.mark.parametrize(
    "new",
    [
        *("r two 360 200", "r -2 360 200", "r 2 36O 200", "r 2 0x168 200", "r 2 3_60 200", "r 2 360/x 200"),
        *("r 2 360 2e2", "r 2 360 -1", "r/x 2 360 200", "r 3 360 200", "r 1 360 200", "r 2 360 99999999999"),
    ],
)
def test_a_record_line_that_will_not_do(tmp_path: Path, new: str) -> None:
    record = write_212(tmp_path, "r", RAMP)
    edit(record.with_suffix(".hea"), "r 2 360 200", new)
    assert fails(record) == ("invalid-record", None)


@pytest.mark.parametrize(
    "record_line",
    [
        *("r 2 360 200", "r\t2  360\t200", "r 2 360/360 200", "r 2 360/360(0) 200", "r 2 360.0/24.5(-3.5) 200"),
        *("r 2 360", "r 2 360 200 12:00:00", "r 2 360 200 0:00:00.125 1/1/2000", "r 2 360 200 12-May-2020 12:33:59"),
        *("# a comment first\nr 2 360 200", "r 2 360. 200"),
    ],
)
def test_record_lines_of_published_databases_are_read(tmp_path: Path, record_line: str) -> None:
    """PhysioNet's challenge of 2020 writes the date first, and as no grammar has it; nothing here depends on it."""
    record = write_212(tmp_path, "r", RAMP, comments=("a comment", "# more"))
    edit(record.with_suffix(".hea"), "r 2 360 200", record_line)
    read = read_recording(record, "V1")
    assert read.fs_hz == 360
    np.testing.assert_allclose(read.signal_mv, (np.array(RAMP[1]) - 1024) / 200)


@pytest.mark.parametrize(
    ("line", "lead"),
    [
        (f"r.dat 212 200(1024)/mV 12 1024 1000 {SUM % 65536} 0 MLII, second of two", "MLII, second of two"),
        (f"r.dat 212 200(1024)/mV 12 1024 1000 {SUM % 65536 - 65536} 0 MLII", "MLII"),
        (f"r.dat 212x1:0+0 200(1024)/mV 12 1024 1000 {SUM % 65536} 0 MLII", "MLII"),
    ],
)
def test_odd_signal_lines_that_are_legal(tmp_path: Path, line: str, lead: str) -> None:
    record = first_line(tmp_path, line)
    read = read_recording(record, lead)
    np.testing.assert_allclose(read.signal_mv, (np.array(RAMP[0]) - 1024) / 200)


@pytest.mark.parametrize(
    ("old", "new"), [("r 2 360 200", "r 2 3.6e2 200"), ("r.dat", "sub/r.dat"), ("r.dat", "r\u00fc.dat")]
)
def test_what_the_format_allows_and_wfdb_misreads_is_read(tmp_path: Path, old: str, new: str) -> None:
    record = write_212(tmp_path, "r", RAMP)
    (tmp_path / "sub").mkdir()
    for copy in ("r\u00fc.dat", "sub/r.dat"):
        shutil.copyfile(tmp_path / "r.dat", tmp_path / copy)
    text = record.with_suffix(".hea").read_text()
    record.with_suffix(".hea").write_text(text.replace(old, new))
    read = read_recording(record, "V1")
    assert read.fs_hz == 360
    np.testing.assert_allclose(read.signal_mv, (np.array(RAMP[1]) - 1024) / 200)


@pytest.mark.parametrize("fmt", ["8", "16", "24", "32", "61", "80", "160", "212", "310", "311", "508", "516", "524"])
@pytest.mark.parametrize("more", ["", "+24", "x2", ":3", "x2:3+24"])
def test_every_format_passes_the_grammar(tmp_path: Path, fmt: str, more: str) -> None:
    (tmp_path / "A0001.hea").write_text(f"A0001 1 500 7500\nA0001.mat {fmt}{more} 1000/mV 16 0 28 -1716 0 I\n")
    line = read_lines(tmp_path / "A0001.hea").lines[0]
    assert line.fmt == int(fmt)
    assert line.offset == (24 if "+" in more else 0)
    assert (line.samples_per_frame, line.skew) == (2 if "x" in more else 1, 3 if ":" in more else 0)


@pytest.mark.mitdb
def test_every_header_of_mitbih_says_what_wfdb_reads(mitdb: Path) -> None:
    headers = sorted(mitdb.glob("*.hea"))
    assert len(headers) == 48
    for path in headers:
        said, read = read_lines(path), wfdb.rdheader(str(path.with_suffix("")))
        assert (said.fs_hz, said.samples, said.signals) == (read.fs, read.sig_len, read.n_sig)
        assert [line.gain for line in said.lines] == read.adc_gain
        assert [line.baseline for line in said.lines] == read.baseline
        assert [line.checksum for line in said.lines] == read.checksum
        assert [line.description for line in said.lines] == read.sig_name


@pytest.mark.parametrize("segment", ["../s1", "/tmp/s1", "a//s1"])
def test_a_segment_outside_the_folder_is_refused(tmp_path: Path, segment: str) -> None:
    write_212(tmp_path, "s1", RAMP)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.hea").write_text(f"m/1 2 360 200\n{segment} 200\n")
    assert fails(tmp_path / "in" / "m") == ("invalid-record", None)


def test_a_gap_of_gigabytes_is_weighed_first(tmp_path: Path) -> None:
    write_212(tmp_path, "s1", RAMP)
    (tmp_path / "m.hea").write_text("m/2 2 360 500000200\ns1 200\n~ 500000000\n")
    assert fails(tmp_path / "m") == ("invalid-record", None)
    (tmp_path / "m.hea").write_text("m/2 2 360 1000200\ns1 200\n~ 1000000\n")
    assert read_recording(tmp_path / "m").signals_mv.shape == (1, 1000200)


def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    """Pipes in the place of each file of a recording, and devices behind links."""
    record = write_212(tmp_path / "a", "r", RAMP)
    for file in ("r.hea", "r.dat"):
        folder = tmp_path / f"b-{file}"
        shutil.copytree(record.parent, folder)
        (folder / file).unlink()
        os.mkfifo(folder / file)
        assert fails(folder / "r") == ("invalid-record", None)
    os.mkfifo(tmp_path / "other.hea")
    assert segment_names(tmp_path / "other.hea") == ()
    for suffix in ("csv", "npy", "npz", "edf"):
        os.mkfifo(tmp_path / f"pipe.{suffix}")
        (tmp_path / f"zero.{suffix}").symlink_to("/dev/zero")
        for name in ("pipe", "zero"):
            with refuses(RecordError, "invalid-record"):
                read_recording(tmp_path / f"{name}.{suffix}", how=ReadOptions(360, "mV", ("a",)))


def test_a_table_of_two_million_columns_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(",".join(["x"] * 2_000_000) + "\n" + ",".join(["1"] * 2_000_000) + "\n")
    with refuses(RecordError, "invalid-record"):
        read_recording(tmp_path / "wide.csv", how=ReadOptions(360, "mV"))


@pytest.mark.parametrize("fs_hz", [0, -360, float("nan"), float("inf"), 1e12, True])
def test_windows_at_a_frequency_no_ecg_has(fs_hz: float) -> None:
    with refuses(EcgfedError, "invalid-record"):
        windows_around(np.zeros(5000), fs_hz, np.array([1000, 2000]))


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8", "bool", "complex64"])
def test_steps_of_an_amplifier_are_not_taken_for_millivolt(dtype: str) -> None:
    with refuses(RecordError, "invalid-record"):
        windows_around(np.zeros(5000, dtype), 360, np.array([1000, 2000]))
