"""WFDB signal files written byte by byte from signal(5) and header(5), read here, by blocks and by the wfdb package."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import wfdb
from record_files import mark, write_212
from refusals import refuses

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.domain.record.reader import format_of, open_recording, read_annotation, read_recording
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.tasks.inspect import inspect_recording

RNG = np.random.default_rng(3)
SAMPLES = 1201
ECG_ABP = ("1000/mV", "10/mmHg")


def packed_310(values: Sequence[int]) -> bytes:
    """signal(5): bits 1-10 of two words hold two samples, the upper five bits of both the third, low bits first."""
    out = b""
    for at in range(0, len(values), 3):
        one, two, three = (value & 0x3FF for value in [*values[at : at + 3], 0, 0][:3])
        out += struct.pack("<HH", one << 1 | (three & 0x1F) << 11, two << 1 | three >> 5 << 11)
    return out


def packed_311(values: Sequence[int]) -> bytes:
    """signal(5): three samples in the lower 30 bits of four bytes."""
    out = b""
    for at in range(0, len(values), 3):
        one, two, three = (value & 0x3FF for value in [*values[at : at + 3], 0, 0][:3])
        out += struct.pack("<I", one | two << 10 | three << 20)
    return out


def stored(fmt: str, values: Sequence[int]) -> bytes:
    if fmt in ("310", "311"):
        return packed_310(values) if fmt == "310" else packed_311(values)
    return np.array(values).astype({"61": ">i2", "16": "<i2", "80": "u1", "32": "<i4"}[fmt]).tobytes()


def write(
    folder: Path,
    fmt: str,
    signals: np.ndarray,
    *,
    name: str = "r",
    line: str | None = None,
    frames: Sequence[int] = (1, 1),
    gains: Sequence[str] = ("200/mV", "200/mV"),
    units: Sequence[str] = ("II", "V1"),
    fs: str = "250",
    length: int | None = None,
) -> Path:
    """Write a record of two leads in one file: ``signals`` are (frames, samples of both leads in a frame)."""
    values = signals.ravel() + (128 if fmt == "80" else 0)
    (folder / f"{name}.dat").write_bytes(stored(fmt, values.tolist()))
    lines, column = [f"{name} 2 {fs} {len(signals) if length is None else length}" if line is None else line], 0
    for lead, gain, frame in zip(units, gains, frames, strict=True):
        own = signals[:, column : column + frame]
        column += frame
        form = fmt if frame == 1 else f"{fmt}x{frame}"
        lines.append(f"{name}.dat {form} {gain} 12 0 {own.ravel()[0]} {int(own.sum()) % 65536} 0 {lead}")
    (folder / f"{name}.hea").write_text("\n".join(lines) + "\n")
    return folder / name


def fails(record: Path, lead: str | None = "II", **how: object) -> tuple[str, str | None]:
    with pytest.raises((RecordError, OptionError)) as caught:
        open_recording(record, lead, how=ReadOptions(**how))  # type: ignore[arg-type]
    with pytest.raises((RecordError, OptionError)):
        read_recording(record, lead, how=ReadOptions(**how))  # type: ignore[arg-type]
    return caught.value.code, caught.value.parameter


@pytest.mark.parametrize("fmt", ["61", "310", "311"])
@pytest.mark.parametrize("samples", [SAMPLES, SAMPLES + 1, SAMPLES + 2])
def test_formats_that_wfdb_reads_too(tmp_path: Path, fmt: str, samples: int) -> None:
    signals = RNG.integers(-511, 512, (samples, 2))
    record = write(tmp_path, fmt, signals)
    expected = wfdb.rdrecord(str(record)).p_signal.T
    np.testing.assert_array_equal(expected, signals.T / 200)
    recording = read_recording(record, "II", every_lead=True)
    np.testing.assert_array_equal(recording.signals_mv, expected)
    long = open_recording(record, "II", every_lead=True, min_samples=100)
    assert long.is_lazy
    for start, stop in ((0, samples), (1, 2), (7, 500), (samples - 1, samples)):
        np.testing.assert_array_equal(long.read(start, stop), expected[:, start:stop])


def test_differences_of_format_8(tmp_path: Path) -> None:
    """signal(5): each byte is what is added to the sample before, the header's initial value before the first."""
    steps = RNG.integers(-128, 128, (500, 2))
    (tmp_path / "r.dat").write_bytes(steps.astype("i1").tobytes())
    signals = np.array([[100, -50]]) + np.cumsum(steps, axis=0)
    lines = ["r 2 250 500"]
    lines += [
        f"r.dat 8 200/mV 12 0 {first} {int(signals[:, row].sum()) % 65536} 0 {lead}"
        for row, (first, lead) in enumerate(((100, "II"), (-50, "V1")))
    ]
    (tmp_path / "r.hea").write_text("\n".join(lines) + "\n")
    recording = read_recording(tmp_path / "r", "II", every_lead=True)
    np.testing.assert_array_equal(recording.signals_mv, signals.T / 200)
    np.testing.assert_array_equal(open_recording(tmp_path / "r", "II", every_lead=True).signals_mv, signals.T / 200)


def test_formats_of_several_files_in_one_record(tmp_path: Path) -> None:
    """As wfdb-python's sample binformats: a file for each format, each with a lead."""
    signals, lines = RNG.integers(-100, 100, (300, 4)), ["b 4 250 300"]
    for row, fmt in enumerate(("16", "61", "80", "310")):
        values = signals[:, row] + (128 if fmt == "80" else 0)
        (tmp_path / f"b{fmt}.dat").write_bytes(stored(fmt, values.tolist()))
        lines.append(f"b{fmt}.dat {fmt} 200/mV 12 0 {values[0]} {int(signals[:, row].sum()) % 65536} 0 lead{row}")
    (tmp_path / "b.hea").write_text("\n".join(lines) + "\n")
    recording = open_recording(tmp_path / "b", "lead1", every_lead=True)
    np.testing.assert_array_equal(recording.signals_mv, signals.T / 200)
    np.testing.assert_array_equal(recording.signals_mv, wfdb.rdrecord(str(tmp_path / "b")).p_signal.T)


def test_two_formats_in_one_file_are_refused(tmp_path: Path) -> None:
    record = write(tmp_path, "16", RNG.integers(-9, 9, (300, 2)))
    header = record.with_suffix(".hea")
    header.write_text(header.read_text().replace("r.dat 16", "r.dat 61", 1))
    assert fails(record) == ("invalid-record", None)


@pytest.mark.parametrize("fmt", ["16", "61"])
def test_frames_are_read_at_each_leads_own_frequency(tmp_path: Path, fmt: str) -> None:
    """As wfdb-python's sample mixedsignals, whose ECG has four samples in each of 62.4725 frames a second."""
    signals = RNG.integers(-3000, 3000, (900, 5))
    record = write(tmp_path, fmt, signals, frames=(4, 1), gains=ECG_ABP, units=("II", "ABP"), fs="62.4725")
    expected = signals[:, :4].ravel() / 1000
    if fmt == "16":
        np.testing.assert_array_equal(wfdb.rdrecord(str(record), smooth_frames=False).e_p_signal[0], expected)
    recording = read_recording(record, "II", every_lead=True)
    np.testing.assert_array_equal(recording.signal_mv, expected)
    assert recording.fs_hz == pytest.approx(249.89)
    assert recording.skipped == ("ABP: no voltage",)
    long = open_recording(record, "II", min_samples=100)
    for start, stop in ((0, 3600), (1, 3), (5, 6), (3599, 3600), (2, 2)):
        np.testing.assert_array_equal(long.read(start, stop)[0], expected[start:stop])
    header = record.with_suffix(".hea")
    header.write_text(header.read_text().replace("mmHg", "mV"))
    assert fails(record, "ABP") == ("invalid-record", None)
    assert read_recording(record, "II", every_lead=True, include_non_ecg=True).skipped == ("ABP: 62.4725 Hz",)


def test_annotations_of_frames_count_frames(tmp_path: Path) -> None:
    """annot(5): without a time resolution of its own an annotation counts sample intervals of the header: frames."""
    signals = RNG.integers(-300, 300, (900, 5))
    record = write(tmp_path, "16", signals, frames=(4, 1), fs="125")
    record.with_suffix(".atr").write_bytes(b"".join(mark("N", 100) for _ in range(8)) + b"\0\0")
    assert read_annotation(open_recording(record, "II")).sample.tolist() == list(range(400, 3201, 400))
    assert read_annotation(open_recording(record, "V1")).sample.tolist() == list(range(100, 801, 100))


def test_frames_in_segments(tmp_path: Path) -> None:
    """As MIMIC-IV's records: a master header, segments with frames, a gap between them."""
    parts = [RNG.integers(-3000, 3000, (length, 5)) for length in (300, 200)]
    for number, part in enumerate(parts):
        write(tmp_path, "16", part, name=f"s{number}", frames=(4, 1), gains=ECG_ABP, units=("II", "ABP"), fs="62.5")
    (tmp_path / "m.hea").write_text("m/3 2 62.5 600\ns0 300\n~ 100\ns1 200\n")
    recording = open_recording(tmp_path / "m", "II", every_lead=True)
    assert (recording.fs_hz, recording.samples) == (250, 2400)
    np.testing.assert_array_equal(recording.signal_mv[:1200], parts[0][:, :4].ravel() / 1000)
    assert np.isnan(recording.signal_mv[1200:1600]).all()
    np.testing.assert_array_equal(recording.signal_mv[1600:], parts[1][:, :4].ravel() / 1000)
    header = tmp_path / "s1.hea"
    header.write_text(header.read_text().replace("16x4", "16x2").replace("16 10/mmHg", "16x3 10/mmHg"))
    assert fails(tmp_path / "m") == ("invalid-record", None)


@pytest.mark.parametrize("line", ["r 2 250 0", "r 2 250", "r 2"])
def test_a_length_of_0_or_none_is_unspecified(tmp_path: Path, line: str) -> None:
    """header(5): then the file's end counts, and no checksum; C's rdsamp prints all of it."""
    signals = RNG.integers(-300, 300, (SAMPLES, 2))
    record = write(tmp_path, "16", signals, line=line)
    header = record.with_suffix(".hea")
    header.write_text(header.read_text().replace(f" {int(signals[:, 0].sum()) % 65536} 0 II", " 0 0 II"))
    for recording in (read_recording(record, "II"), open_recording(record, "II", min_samples=1)):
        np.testing.assert_array_equal(recording.signal_mv, signals[:, 0] / 200)
        assert recording.notes == ()
    record.with_suffix(".dat").write_bytes(b"")
    assert fails(record) == ("invalid-record", None)


def test_a_length_that_is_stated_keeps_its_checksum(tmp_path: Path) -> None:
    record = write(tmp_path, "16", np.full((600, 2), 7))
    header = record.with_suffix(".hea")
    header.write_text(header.read_text().replace(f" {7 * 600} 0 II", " 0 0 II"))
    assert fails(record) == ("invalid-record", None)


def test_files_of_different_length_without_a_stated_one(tmp_path: Path) -> None:
    for name, length in (("a", 500), ("b", 600)):
        (tmp_path / f"{name}.dat").write_bytes(stored("16", [1] * length))
    (tmp_path / "r.hea").write_text("r 2 250\na.dat 16 200/mV 12 0 1 0 0 II\nb.dat 16 200/mV 12 0 1 0 0 V1\n")
    recording = read_recording(tmp_path / "r", "II", every_lead=True)
    assert recording.samples == 500
    assert "the signal files differ (a.dat 500 samples, b.dat 600 samples): the shortest counts" in recording.notes[0]


def test_a_file_longer_than_its_header_is_noted(tmp_path: Path) -> None:
    record = write(tmp_path, "16", np.ones((600, 2), int), length=500)
    header = record.with_suffix(".hea")
    header.write_text(header.read_text().replace(" 600 0 ", " 500 0 "))
    recording = open_recording(record, "II")
    assert recording.samples == 500
    assert recording.notes == ("r.dat holds 100 samples more than the 500 that r.hea states: they are not read",)


@pytest.mark.parametrize("gain", ["0", "0/mV", "0(10)", "0(10)/mV"])
def test_a_gain_of_0_is_noted_and_can_be_given(tmp_path: Path, gain: str) -> None:
    """header(5): a gain of 0, or none, is uncalibrated, and 200 may be assumed."""
    signals, zero = RNG.integers(-300, 300, (600, 2)), 10 if "(" in gain else 0
    record = write(tmp_path, "16", signals, gains=(gain, "200/mV"))
    for opened in (read_recording(record, "II"), open_recording(record, "II", min_samples=1)):
        np.testing.assert_array_equal(opened.signal_mv, (signals[:, 0] - zero) / 200)
        assert "lead II not calibrated (gain 0 or none in r.hea): 200 steps a mV assumed" in opened.notes[0]
    assert any("not calibrated" in finding.text for finding in inspect_recording(record).findings)
    assert read_recording(record, "V1").notes == ()
    for units, gain_mv, own in (("50/mV", 50, zero), ("50(4)/mV", 50, 4), ("0.05/uV", 50, zero)):
        given = read_recording(record, "II", every_lead=True, how=ReadOptions(units=units))
        np.testing.assert_allclose(given.signals_mv[0], (signals[:, 0] - own) / gain_mv, rtol=1e-12)
        np.testing.assert_array_equal(given.signals_mv[1], signals[:, 1] / 200)  # a lead with a gain is believed
        assert f"{units} taken from units" in given.notes[0]


def test_a_line_without_a_gain_is_uncalibrated(tmp_path: Path) -> None:
    (tmp_path / "r.dat").write_bytes(stored("16", [100] * 600))
    (tmp_path / "r.hea").write_text("r 1 250 600\nr.dat 16\n")
    recording = read_recording(tmp_path / "r")
    opened = open_recording(tmp_path / "r", min_samples=1)
    assert recording.signal_mv[0] == 0.5
    assert "not calibrated" in recording.notes[0]
    assert opened.notes == recording.notes
    assert opened.beat_leads == recording.beat_leads == ()
    assert read_recording(tmp_path / "r", how=ReadOptions(units="100/mV")).signal_mv[0] == 1


@pytest.mark.parametrize("fmt", ["16", "61", "310"])
def test_repair_reads_what_is_there(tmp_path: Path, fmt: str) -> None:
    signals = RNG.integers(-300, 300, (1200, 2))
    record = write(tmp_path, fmt, signals)
    data = record.with_suffix(".dat").read_bytes()
    record.with_suffix(".dat").write_bytes(data[: len(data) // 2 + 1])
    assert fails(record) == ("invalid-record", "repair")
    for opened in (
        read_recording(record, "II", every_lead=True, how=ReadOptions(repair=True)),
        open_recording(record, "II", every_lead=True, how=ReadOptions(repair=True), min_samples=1),
    ):
        np.testing.assert_array_equal(opened.signals_mv, signals[:600].T / 200)
        assert "repaired: r.dat holds 600 of 1,200 samples; the last 2.4 s are missing" in opened.notes[0]
    record.with_suffix(".dat").write_bytes(data[:1])
    assert fails(record, repair=True) == ("invalid-record", None)
    record.with_suffix(".dat").write_bytes(data)
    assert read_recording(record, "II", how=ReadOptions(repair=True)).notes == ()


def test_a_segment_that_is_cut_short_is_repaired_by_a_gap(tmp_path: Path) -> None:
    signals = RNG.integers(-300, 300, (600, 2))
    for name in ("a", "b"):
        write(tmp_path, "16", signals, name=name)
    (tmp_path / "m.hea").write_text("m/2 2 250 1200\na 600\nb 600\n")
    (tmp_path / "a.dat").write_bytes((tmp_path / "a.dat").read_bytes()[:2000])
    assert fails(tmp_path / "m") == ("invalid-record", "repair")
    recording = read_recording(tmp_path / "m", "II", how=ReadOptions(repair=True))
    assert np.isnan(recording.signal_mv[500:600]).all()
    np.testing.assert_array_equal(recording.signal_mv[600:], signals[:, 0] / 200)
    assert "the last 0.4 s are missing" in recording.notes[0]


def test_names_in_capitals_and_signal_files(tmp_path: Path) -> None:
    signals = RNG.integers(-300, 300, (600, 2))
    record = write(tmp_path, "16", signals, name="UP")
    record.with_suffix(".atr").write_bytes(b"".join(mark("N", 100) for _ in range(4)) + b"\0\0")
    for suffix in (".hea", ".dat", ".atr"):
        record.with_suffix(suffix).rename(record.with_suffix(suffix.upper()))
    for named in (record, record.with_suffix(".HEA"), record.with_suffix(".DAT")):
        recording = open_recording(named, "II", min_samples=1)
        assert recording.name == "UP"
        np.testing.assert_array_equal(recording.signal_mv, signals[:, 0] / 200)
        assert len(read_annotation(recording).sample) == 4
    other = write(tmp_path, "16", signals, name="A1")
    header = other.with_suffix(".hea")
    header.write_text(header.read_text().replace("A1.dat", "A1.mat"))
    other.with_suffix(".dat").rename(other.with_suffix(".mat"))
    assert format_of(other.with_suffix(".mat")) == "wfdb"
    assert read_recording(other.with_suffix(".mat"), "II").name == "A1"
    (tmp_path / "A1.d1").write_bytes(b"x")
    assert fails(tmp_path / "A1.d1") == ("invalid-record", None)


def test_a_mark_at_the_sample_after_the_last_is_left_out_and_counted(tmp_path: Path) -> None:
    """As record 860 of MIT-BIH's supraventricular database has one."""
    record = write_212(tmp_path, "r", [list(range(200))] * 2, fs="100")
    record.with_suffix(".atr").write_bytes(b"".join([*(mark("N", 50) for _ in range(3)), mark("V", 50), b"\0\0"]))
    annotation = read_annotation(open_recording(record))
    assert annotation.sample.tolist() == [50, 100, 150]
    assert annotation.beyond_end == ("V",)
    assert any("1 annotation at or after the recording's end left out (1 V)" in finding.text
               for finding in inspect_recording(record).findings)  # fmt: skip
    record.with_suffix(".atr").write_bytes(b"".join([mark("N", 50), mark("V", 249), b"\0\0"]))
    assert read_annotation(open_recording(record)).beyond_end == ("V",)
    record.with_suffix(".atr").write_bytes(b"".join([mark("N", 50), mark("V", 250), b"\0\0"]))
    with refuses(RecordError, "invalid-record"):
        read_annotation(open_recording(record))
