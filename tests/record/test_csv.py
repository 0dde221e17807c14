"""Recordings as text tables: leads by name, fs from the times, units as stated, gaps as NaN, or one line."""

import csv
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecgfed.base.errors import EcgfedError
from ecgfed.domain.record.annotations import read_csv_annotation
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import ReadOptions

N = 500
MLII = np.round(np.sin(np.arange(N) / 7), 4)
V1 = np.round(np.cos(np.arange(N) / 9), 4)
PLAIN = ReadOptions(fs_hz=250, units="mV")


def table(separator: str = ",", *, names: str | None = "time,MLII,V1", fs: float = 250, decimal: str = ".") -> str:
    rows = [f"{i / fs:.6f}{separator}{a}{separator}{b}" for i, (a, b) in enumerate(zip(MLII, V1, strict=True))]
    text = "\n".join(rows)
    text = text.replace(".", decimal)
    return (names.replace(",", separator) + "\n" if names else "") + text + "\n"


def write(folder: Path, text: str | bytes, name: str = "r.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def fails(
    path: Path, how: ReadOptions = PLAIN, *, leads: tuple[str, ...] = ("MLII",), every: bool = False
) -> tuple[str, str | None]:
    with pytest.raises(EcgfedError) as caught:
        read_recording(path, leads, how=how, every_lead=every)
    return caught.value.code, caught.value.parameter


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.txt"])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", "."), ("\t", "."), (";", ","), ("\t", ",")])
def test_separators_and_the_decimal_comma(tmp_path: Path, separator: str, decimal: str, name: str) -> None:
    path = write(tmp_path, table(separator, decimal=decimal), name)
    read = read_recording(path, ("V1",), every_lead=True, how=ReadOptions(units="mV"))
    np.testing.assert_array_equal(read.signals_mv, [MLII, V1])
    assert (read.name, read.lead, read.leads, read.fs_hz) == ("r", "V1", ("MLII", "V1"), 250.0)
    assert read.files == (path,)


def test_what_numpy_and_pandas_write_is_read(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "n.txt", np.stack([MLII, V1], axis=1), header="two leads")
    how = ReadOptions(fs_hz=360, units="mV", columns=("MLII", "V1"))
    read = read_recording(tmp_path / "n.txt", ("V1",), every_lead=True, how=how)
    np.testing.assert_array_equal(read.signals_mv, [MLII, V1])
    assert read.comments == ("two leads",)
    pd.DataFrame({"MLII": MLII, "V1": V1}).to_csv(tmp_path / "p.csv")
    np.testing.assert_array_equal(read_recording(tmp_path / "p.csv", ("V1",), how=PLAIN).signal_mv, V1)
    pd.DataFrame({0: MLII, 1: V1}).to_csv(tmp_path / "q.csv")
    assert fails(tmp_path / "q.csv") == ("unknown-lead", "leads")
    np.testing.assert_array_equal(read_recording(tmp_path / "q.csv", ("0",), how=PLAIN).signal_mv, MLII)


@given(
    numbers=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=50), form=st.sampled_from(["{!r}", "{:.9e}", "{:+g}"])
)
def test_numbers_are_read_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[float], form: str
) -> None:
    """Python's own reading of a number is the reference: it rounds correctly."""
    written = [form.format(number) for number in numbers]
    path = write(tmp_path_factory.mktemp("exact"), "MLII\n" + "\n".join(written))
    np.testing.assert_array_equal(read_recording(path, ("MLII",), how=PLAIN).signal_mv, list(map(float, written)))


def test_a_table_longer_than_what_is_taken_apart_at_once(tmp_path: Path) -> None:
    """Every row stays in its place, and a gap and a text deep inside are found."""
    rows = [f"{i % 1000 / 8};{-i % 777 / 8}" for i in range(70_000)]
    rows[69_000] = "-;5"
    path = write(tmp_path, "I;II\n" + "\n".join(rows))
    read = read_recording(path, ("I",), every_lead=True, how=PLAIN)
    at = np.arange(70_000)
    assert np.flatnonzero(np.isnan(read.signals_mv[0])).tolist() == [69_000]
    np.testing.assert_array_equal(np.delete(read.signals_mv[0], 69_000), np.delete(at % 1000 / 8, 69_000))
    np.testing.assert_array_equal(np.delete(read.signals_mv[1], 69_000), np.delete(-at % 777 / 8, 69_000))
    rows[69_500] = "1;x"
    assert fails(write(tmp_path, "I;II\n" + "\n".join(rows)), every=True, leads=("I",)) == ("invalid-record", None)


def test_what_physionet_writes_is_read(tmp_path: Path) -> None:
    """PhysioNet's viewer writes quoted names, a line of units, and clock times of a millisecond."""
    rows = [
        f"'{i // 21600}:{i / 360 % 60:06.3f}',{a:.3f},{b:.3f}" for i, (a, b) in enumerate(zip(MLII, V1, strict=True))
    ]
    text = "'Elapsed time','MLII','V1'\n'hh:mm:ss.mmm','mV','mV'\n" + "\n".join(rows) + "\n"
    read = read_recording(write(tmp_path, text), ("MLII",), every_lead=True)
    assert read.fs_hz == 360.0
    np.testing.assert_allclose(read.signals_mv, [MLII, V1], atol=5.1e-4)


@pytest.mark.parametrize("row", ["{:7d}  {: 8.4f}   {: 8.4f}", "{:7d}\t{: 8.4f}\t{: 8.4f} ", "  {},\t{} , {}  "])
def test_blanks_around_numbers_are_passed_over(tmp_path: Path, row: str) -> None:
    text = "\n".join(row.format(i, a, b) for i, (a, b) in enumerate(zip(MLII, V1, strict=True)))
    how = ReadOptions(fs_hz=250, units="mV", columns=("sample", "MLII", "V1"))
    if "\t" in row and "," in row:
        assert fails(write(tmp_path, text), how) == ("contradiction", "columns")  # two separators at once
        text = text.replace("\t", " ")
    read = read_recording(write(tmp_path, text), ("MLII",), every_lead=True, how=how)
    np.testing.assert_array_equal(read.signals_mv, [MLII, V1])


def test_steps_of_an_adc_are_scaled_as_said(tmp_path: Path) -> None:
    """MIT-BIH as CSV elsewhere: sample numbers and steps of 5 microvolt on a zero of 1024."""
    path = write(tmp_path, "'sample #','MLII','V1'\n0,995,1011\n1,1024,1011\n2,1224,1011\n")
    assert fails(path, ReadOptions(units="mV")) == ("not-stated", "fs_hz")
    read = read_recording(path, ("MLII",), how=ReadOptions(fs_hz=360, units="200(1024)/mV"))
    np.testing.assert_allclose(read.signal_mv, [-0.145, 0, 1.0], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "millivolt"),
    [
        ("MLII (mV)", 1.0),
        ("MLII [uV]", 1e-3),
        ("MLII/\u00b5V", 1e-3),
        ("MLII_uV", 1e-3),
        ("MLII_mV", 1.0),
        ("MLII(V)", 1e3),
        ('"MLII (mV)"', 1.0),
    ],
)
def test_a_unit_beside_a_name_is_believed(tmp_path: Path, name: str, millivolt: float) -> None:
    path = write(tmp_path, table(names=f"time,{name},V1"))
    read = read_recording(path, ("MLII",))
    np.testing.assert_allclose(read.signal_mv, MLII * millivolt, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "factor"), [("time", 1), ("Time (s)", 1), ("time_ms", 1e3), ("t [ms]", 1e3), ("seconds", 1), ("t/us", 1e6)]
)
def test_a_column_of_times_is_recognised(tmp_path: Path, name: str, factor: float) -> None:
    rows = "\n".join(f"{i / 500 * factor:.9g},{v}" for i, v in enumerate(MLII))
    assert (
        read_recording(write(tmp_path, f"{name},MLII\n{rows}\n"), ("MLII",), how=ReadOptions(units="mV")).fs_hz == 500
    )


@pytest.mark.parametrize(("fs", "digits"), [(360, 3), (360, 4), (257, 3), (128.5, 6), (1000, 3), (500.25, 6)])
def test_the_sampling_frequency_is_right_however_times_are_rounded(tmp_path: Path, fs: float, digits: int) -> None:
    rows = "\n".join(f"{3.2 + i / fs:.{digits}f},{v}" for i, v in enumerate(np.tile(MLII, 8)))
    read = read_recording(write(tmp_path, f"time,MLII\n{rows}\n"), ("MLII",), how=ReadOptions(units="mV"))
    assert read.fs_hz == pytest.approx(fs, rel=1e-6)


@pytest.mark.parametrize("cell", ["", " ", "NaN", "nan", "NA", "null", "-"])
def test_an_empty_cell_is_a_gap(tmp_path: Path, cell: str) -> None:
    lines = table().splitlines()
    lines[11] = f"{10 / 250:.6f},{cell},{V1[10]}"
    read = read_recording(write(tmp_path, "\n".join(lines)), ("MLII",), every_lead=True, how=PLAIN)
    assert np.isnan(read.signals_mv).nonzero() == ([0], [10])
    np.testing.assert_array_equal(np.delete(read.signals_mv[0], 10), np.delete(MLII, 10))


def test_comments_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    text = "# patient: Ann\n% made by hand\n\n" + table() + "\n# the end\n"
    read = read_recording(write(tmp_path, "\ufeff" + text), ("MLII",), how=PLAIN)
    assert read.comments == ("patient: Ann", "made by hand", "the end")
    assert len(read.signal_mv) == N


def test_columns_replace_a_header_and_pass_over_what_is_not_named(tmp_path: Path) -> None:
    how = ReadOptions(units="mV", columns=("time", "", "II"))
    for names in ("a,b,c", None):
        read = read_recording(write(tmp_path, table(names=names)), ("II",), every_lead=True, how=how)
        assert (read.leads, read.fs_hz) == (("II",), 250.0)
        np.testing.assert_array_equal(read.signal_mv, V1)


def test_other_columns_may_hold_anything_when_one_lead_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, table().replace(",0.", ",x0."))
    assert fails(path, every=True) == ("invalid-record", None)
    path = write(tmp_path, "MLII,RESP (l),label\n" + "\n".join(f"{v},1.0,N" for v in MLII))
    np.testing.assert_array_equal(read_recording(path, ("MLII",), how=PLAIN).signal_mv, MLII)
    path = write(tmp_path, "MLII,RESP (l)\n" + "\n".join(f"{v},1.0" for v in MLII))
    read = read_recording(path, ("MLII",), how=PLAIN, every_lead=True)
    assert (read.leads, read.skipped) == (("MLII",), ("RESP: no voltage",))


@pytest.mark.parametrize("fs", [0, 50, 1e9, float("nan")])
def test_an_implausible_sampling_frequency(tmp_path: Path, fs: float) -> None:
    path = write(tmp_path, "MLII\n1\n2\n")
    assert fails(path, ReadOptions(units="mV", fs_hz=fs)) == ("invalid-record", "fs_hz")
    rows = "\n".join(f"{i * 0.02:.2f},{v}" for i, v in enumerate(MLII))
    assert fails(write(tmp_path, f"time,MLII\n{rows}"), ReadOptions(units="mV")) == ("invalid-record", None)


@pytest.mark.parametrize(
    ("line", "to", "missing"),
    [
        *((7, f"0.02,{cells}", slice(0)) for cells in ("abc,1", "1_000,1", "0x1F,1", "1", "1,2,3", "inf,2")),
        *((7, row, slice(0)) for row in ("soon,1,2", ",1,2", "0.02,1,2\x000")),
        (7, "0.024,1,2", slice(6, 26)),
        (300, "0.02,1,2", slice(0)),
    ],
)
def test_a_row_that_will_not_do_is_named(tmp_path: Path, line: int, to: str, missing: slice) -> None:
    lines = table().splitlines()
    lines[line - 1] = to
    del lines[missing]
    assert fails(write(tmp_path, "\n".join(lines))) == ("invalid-record", None)


def test_sample_numbers_must_count_on(tmp_path: Path) -> None:
    rows = [f"{i},{v}" for i, v in enumerate(MLII)]
    assert read_recording(write(tmp_path, "sample,MLII\n" + "\n".join(rows)), ("MLII",), how=PLAIN).fs_hz == 250
    del rows[50]
    assert fails(write(tmp_path, "sample,MLII\n" + "\n".join(rows))) == ("invalid-record", None)


def without(*lines: int) -> str:
    return "\n".join(line for at, line in enumerate(table().splitlines()) if at not in lines)


@pytest.mark.parametrize(
    ("text", "how", "expected"),
    [
        (table(), ReadOptions(), ("not-stated", "units")),
        (table(), ReadOptions(units="mV", fs_hz=500), ("contradiction", "fs_hz")),
        (table(), ReadOptions(units="mmHg"), ("invalid-value", "units")),
        (table(), ReadOptions(units="mV", columns=("a", "b")), ("contradiction", "columns")),
        (table(names="time,MLII (mV),V1"), ReadOptions(units="uV"), ("contradiction", "units")),
        (table(names="time,MLII (mmHg),V1"), PLAIN, ("invalid-record", None)),
        (table(names=None), PLAIN, ("not-stated", "columns")),
        ("MLII,V1\n1,2\n", ReadOptions(units="mV"), ("not-stated", "fs_hz")),
        (table(names="time,I,V1"), PLAIN, ("unknown-lead", "leads")),
        (table(names="time,MLII,MLII"), PLAIN, ("unknown-lead", "leads")),
        (table(names="time,seconds,MLII"), PLAIN, ("invalid-record", "columns")),
        (table(names="time (Sekunden),MLII,V1"), PLAIN, ("invalid-record", "columns")),
        ("time,sample\n0,1\n1,2\n", PLAIN, ("invalid-record", None)),
        (without(*range(100, 110)), PLAIN, ("invalid-record", None)),  # times that jump
        ("\n# nothing\n", PLAIN, ("invalid-record", None)),
        ("time,MLII\n", PLAIN, ("invalid-record", None)),
        (bytes(range(256)) * 4, PLAIN, ("invalid-record", None)),
        ("MLII\n1\n2\n\n3\n", PLAIN, ("invalid-record", None)),
        ('MLII (mV),"V1 (mV)"\n1,2\n1,"2\n', ReadOptions(250), ("invalid-record", None)),  # a quote is not closed
        ('Name,"Mr X"\nRecorded Date,2020\nDevice,"Watch4,4"\n\n-60.1\n', ReadOptions(), ("invalid-record", None)),
        ("MLII\n" + "\n".join(f"{v * 1000:.1f}" for v in MLII), ReadOptions(250, "V"), ("invalid-record", "units")),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str | bytes, how: ReadOptions, expected: tuple[str, str | None]) -> None:
    assert fails(write(tmp_path, text), how) == expected


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "d.csv").mkdir()
    for name in ("none.csv", "d.csv"):
        assert fails(tmp_path / name) == ("invalid-record", None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path, table(names="time,MLII (\u00b5V),V1").encode(encoding))
    np.testing.assert_allclose(read_recording(path, ("MLII",)).signal_mv, MLII / 1000, rtol=1e-12)


def test_what_rdsamp_writes_with_seconds_is_read(tmp_path: Path) -> None:
    """``rdsamp -p -v``: tabs, and units in brackets below the names."""
    head = "       Elapsed time\t   MLII\t     V1\n     (seconds)\t   (mV)\t   [uV]\n"
    rows = "".join(f"{i / 250:.3f}\t{a}\t{b * 1000}\n" for i, (a, b) in enumerate(zip(MLII, V1, strict=True)))
    read = read_recording(write(tmp_path, head + rows, "r.txt"), ("MLII",), every_lead=True)
    np.testing.assert_allclose(read.signals_mv, [MLII, V1])
    assert read.fs_hz == 250


@pytest.mark.parametrize(("unit", "times"), [("ms", 1e3), ("us", 1e6), ("ns", 1e9), ("s", 1.0)])
def test_timestamps_that_state_their_unit_are_times(tmp_path: Path, unit: str, times: float) -> None:
    """As Polar's apps write them; --fs still stands for those of a recorder whose clock is uneven."""
    rows = "".join(f"2021-05-10T10:00:00;{1600 + i / 250 * times:.6f};{v}\n" for i, v in enumerate(MLII))
    path = write(tmp_path, f"Phone timestamp;timestamp [{unit}];ecg [mV]\n" + rows)
    read = read_recording(path)
    assert (read.leads, read.fs_hz) == (("ecg",), 250)
    np.testing.assert_array_equal(read.signal_mv, MLII)
    assert read_recording(path, how=ReadOptions(fs_hz=130)).fs_hz == 130
    bare = read_recording(write(tmp_path, path.read_text().replace(f" [{unit}]", "")))
    assert (bare.leads, bare.fs_hz, len(bare.notes)) == (("ecg",), 250, 1)


def test_a_column_of_times_by_another_name(tmp_path: Path) -> None:
    path = write(tmp_path, table(";", names="Zeit (s),II (mV),V1 (mV)", decimal=","))
    for how in (ReadOptions(), ReadOptions(columns=("time (s)", "II (mV)", "V1 (mV)"))):
        read = read_recording(path, how=how)
        assert (read.lead, read.leads[0], read.fs_hz) == ("II", "II", 250)


VALUES = [f"{value:.3f}" for value in np.sin(np.arange(600) / 9)]


def quoted(rows: list[list[str]], separator: str = ",") -> str:
    """RFC 4180 by Python's own writer, every cell in quotes."""
    stream = io.StringIO()
    csv.writer(stream, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(rows)
    return stream.getvalue()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("comma", [False, True])
def test_quoted_cells(tmp_path: Path, separator: str, comma: bool) -> None:
    """RFC 4180: a separator inside quotes divides nothing, two quotes inside are one; a decimal comma is quoted so."""
    times = [f"{number / 250:.3f}" for number in range(600)]
    rows = [["time (s)", 'the "first", lead II (mV)'], *([at, value] for at, value in zip(times, VALUES, strict=True))]
    text = quoted(
        [rows[0], *([cell.replace(".", ",") for cell in row] if comma else row for row in rows[1:])], separator
    )
    recording = read_recording(write(tmp_path, text))
    assert recording.leads == ('the "first", lead II',)
    assert recording.fs_hz == 250
    np.testing.assert_array_equal(recording.signal_mv, np.array(VALUES, float))


def test_quotes_in_some_rows_only(tmp_path: Path) -> None:
    rows = "".join(f'"{value}"\n' if number % 2 else f"{value}\n" for number, value in enumerate(VALUES))
    np.testing.assert_array_equal(
        read_recording(write(tmp_path, "MLII (mV)\n" + rows), how=ReadOptions(250)).signal_mv, np.array(VALUES, float)
    )


def test_a_comma_that_may_divide_thousands(tmp_path: Path) -> None:
    text = "MLII (uV),V1 (uV)\n" + '"1,234",5\n"-2,345",6\n7,8\n' * 100
    assert fails(write(tmp_path, text), ReadOptions(250)) == ("invalid-record", None)
    text = text.replace("7,8", '"0,123",8')  # no thousands begin with 0
    assert read_recording(write(tmp_path, text), "MLII", how=ReadOptions(250)).signal_mv[0] == pytest.approx(1.234e-3)


WATCH = [
    'Name,"A B"',
    'Date of Birth,"1 Jan 1970"',
    "Recorded Date,2024-01-01 10:00:00 +0000",
    "Symptoms,",
    'Device,"Watch6,1"',
    "Sample Rate,512 hertz",
    "",
    "Lead,Lead I",
    "Unit,\u00b5V",
    "",
]


@pytest.mark.parametrize("comma", [False, True])
def test_a_watchs_export_says_rate_lead_and_unit(tmp_path: Path, comma: bool) -> None:
    values = [f'"{value.replace(".", ",")}"' if comma else value for value in VALUES]
    recording = read_recording(write(tmp_path, "\n".join([*WATCH, *values])))
    assert (recording.lead, recording.fs_hz) == ("I", 512)
    np.testing.assert_allclose(recording.signal_mv, np.array(VALUES, float) / 1000, rtol=1e-12)
    assert "Device: Watch6,1" in recording.comments


def test_a_watchs_export_in_another_language(tmp_path: Path) -> None:
    facts = ['Name,"Max I"', "Abtastrate,511.9 Hertz", "Ableitung,Ableitung II", "Einheit,mV"]
    recording = read_recording(write(tmp_path, "\n".join([*facts, *VALUES])))
    assert (recording.lead, recording.fs_hz) == ("II", 511.9)


def test_a_watchs_export_that_leaves_something_open(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join([*(line for line in WATCH if "Unit" not in line), *VALUES]))
    assert fails(path, ReadOptions(), leads=()) == ("not-stated", "units")
    assert read_recording(path, how=ReadOptions(units="mV")).fs_hz == 512
    whole = write(tmp_path, "\n".join([*WATCH, *VALUES]))
    assert fails(whole, ReadOptions(500), leads=()) == ("contradiction", "fs_hz")
    assert fails(whole, ReadOptions(units="mV"), leads=()) == ("contradiction", "units")
    broken = write(tmp_path, "\n".join([*WATCH, *VALUES[:10], "", *VALUES[10:]]))
    assert fails(broken, ReadOptions(), leads=()) == ("invalid-record", None)


def test_gigabytes_of_nothing_behind_a_table_are_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, "MLII (mV)\n" + "\n".join(VALUES))
    with path.open("r+b") as stream:
        stream.truncate(2 << 30)
    tracemalloc.start()
    try:
        assert fails(path, ReadOptions(250)) == ("invalid-record", None)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    wide = write(tmp_path, "")
    wide.write_bytes(("MLII (mV)\n" + "\n".join(VALUES)).encode("utf-16"))
    with wide.open("r+b") as stream:
        stream.truncate(1 << 30)
    assert fails(wide, ReadOptions(250)) == ("invalid-record", None)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x1e"])
def test_a_line_ends_where_other_programs_end_it(separator: str, end: str, tmp_path: Path) -> None:
    """``str.splitlines`` ends lines at more characters than pandas and the csv module do."""
    path = tmp_path / "r.csv"
    names = f"time,ECG{separator}II,MLII"
    path.write_text(table(names=names).replace("\n", end), encoding="utf-8", newline="")
    by_pandas = pd.read_csv(path)
    read = read_recording(path, ("MLII",), every_lead=True, how=ReadOptions(units="mV"))
    np.testing.assert_allclose(read.lead_mv("MLII", 0, read.samples), by_pandas["MLII"])
    marks = tmp_path / "m.csv"
    rows = [["sample", "symbol", "note"], ["10", "N", f"one{separator}line"], ["30", "V", "two"]]
    with marks.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator=end).writerows(rows)
    found = read_csv_annotation(marks, 250.0)
    assert found.sample.tolist() == [10, 30]
    assert found.note == (f"one{separator}line", "two")
