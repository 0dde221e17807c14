"""Reading one lead: the right samples, or one line that says what is wrong with which file."""

from pathlib import Path

import numpy as np
import pytest
import wfdb
from record_files import copy_record, cut, write_212, write_signals

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.wfdb_files import read_recording

RAMP = [list(range(0, 2000, 10)), list(range(2000, 0, -10))]


def fails(record: Path, leads: tuple[str, ...] = ("MLII",)) -> tuple[str, str | None]:
    with pytest.raises(RecordError) as caught:
        read_recording(record, leads)
    return caught.value.code, caught.value.parameter


def test_millivolt_are_digital_less_baseline_over_gain(tmp_path: Path) -> None:
    record = write_212(tmp_path, "r", [[1024, 1224, 824, 2047], [0, 1, 2, 3]], comments=["69 M", "Digoxin"])
    read = read_recording(record, ("MLII",))
    np.testing.assert_allclose(read.signal_mv, [0.0, 1.0, -1.0, 5.115], atol=1e-12)
    assert (read.name, read.lead, read.leads, read.fs_hz) == ("r", "MLII", ("MLII",), 360.0)
    assert read.comments == ("69 M", "Digoxin")
    assert read.duration_s == pytest.approx(4 / 360)


def test_a_truncated_signal_states_samples_found_and_expected(tmp_path: Path) -> None:
    record = write_212(tmp_path, "r", RAMP)  # 200 frames of 3 bytes
    for size, whole in ((3 * 199, 199), (3 * 120 + 2, 120), (2, 0)):
        cut(tmp_path / "r.dat", size)
        with pytest.raises(RecordError, match=f"{whole} of 200 samples"):
            read_recording(record, ("MLII",))


@pytest.mark.parametrize("suffix", [".hea", ".dat"])
def test_missing_files_are_named(tmp_path: Path, suffix: str) -> None:
    record = write_212(tmp_path, "r", RAMP)
    record.with_suffix(suffix).unlink()
    assert fails(record) == ("invalid-record", None)


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe\x80" * 20, b"r 2 360 200\n", b"r 0 360 200\n"])
def test_a_broken_header_is_named(tmp_path: Path, content: bytes) -> None:
    record = write_212(tmp_path, "r", RAMP)
    record.with_suffix(".hea").write_bytes(content)
    assert fails(record) == ("invalid-record", None)


@pytest.mark.parametrize("fs", ["0", "-360", "nan", "99", "20001", "1000000000"])
def test_an_implausible_sampling_frequency_is_refused(tmp_path: Path, fs: str) -> None:
    record = write_212(tmp_path, "r", RAMP, fs=fs)
    assert fails(record) == ("invalid-record", None)


@pytest.mark.parametrize(("micro", "encoding"), [("\u00b5", "utf-8"), ("\u03bc", "utf-8"), ("\u00b5", "latin-1")])
def test_a_micro_sign_of_any_kind(tmp_path: Path, micro: str, encoding: str) -> None:
    """1224 on a zero of 1024: 200 steps of 5 microvolt."""
    record = write_212(tmp_path, "r", [[1224] * 4, [0] * 4], gain=f"0.2/{micro}V", encoding=encoding)
    np.testing.assert_allclose(read_recording(record, ("MLII",)).signal_mv, 1.0)


def test_invalid_samples_become_gaps(tmp_path: Path) -> None:
    """signal(5): -2048, the most negative value of format 212, marks a sample that was not recorded."""
    record = write_212(tmp_path, "r", [[1024, -2048, -2048, -2047, 1024, 1024], [-2048, 0, 0, 0, 0, 0]])
    read = read_recording(record, ("MLII",))
    assert np.isnan(read.signal_mv).tolist() == [False, True, True, False, False, False]
    assert read.signal_mv[3] == pytest.approx((-2047 - 1024) / 200)


def test_skew_is_removed_and_the_checksum_is_of_the_stored_samples(tmp_path: Path) -> None:
    """header(5): a skew of 3 means sample n of this signal belongs to sample n - 3 of the record."""
    record = write_212(tmp_path, "r", RAMP, fmt="212:3")
    read = read_recording(record, ("MLII",)).signal_mv
    np.testing.assert_allclose(read[:-3], (np.array(RAMP[0][3:]) - 1024) / 200)
    assert np.isnan(read[-3:]).all()
    assert len(read) == 200


def test_a_lead_without_a_possible_frequency_is_refused(tmp_path: Path) -> None:
    """At 62.5 frames a second with the ECG four times in each, as in MIMIC's multi-frequency records."""
    for rate, lead, hz in (("62.5", "RESP", "62.5"), ("10", "II", "10"), ("10", "RESP", "10")):
        lines = "m.dat 16x4 1000/mV 16 0 0 0 0 II\nm.dat 16 1000/mV 16 0 0 0 0 RESP\n"
        (tmp_path / "m.hea").write_text(f"m 2 {rate} 1000\n" + lines)
        with pytest.raises(RecordError, match=f"sampling frequency {hz} Hz"):
            read_recording(tmp_path / "m", (lead,))


@pytest.mark.parametrize("fmt", ["16", "24", "32", "80", "212", "516"])
def test_every_format_reads_as_wfdb_reads_it_gaps_too(tmp_path: Path, fmt: str) -> None:
    signals = np.round(np.stack([np.sin(np.arange(500) / 20), np.cos(np.arange(500) / 20)]), 2)
    signals[0, 100:110] = np.nan
    write_signals(tmp_path, "f", signals, fs_hz=250, leads=("MLII", "V1"), fmt=fmt, adc_gain=100.0)
    np.testing.assert_allclose(read_recording(tmp_path / "f", ("MLII",)).signal_mv, signals[0], atol=1e-9)
    reference = wfdb.rdrecord(str(tmp_path / "f"), channel_names=["MLII"]).p_signal[:, 0]
    np.testing.assert_array_equal(read_recording(tmp_path / "f", ("MLII",)).signal_mv, reference)


@pytest.mark.mitdb
def test_record_100_is_thirty_minutes_of_the_published_samples(mitdb: Path) -> None:
    """Its header gives the first value, 995 on a zero of 1024 at 200 steps a millivolt, and 650,000 samples."""
    read = read_recording(mitdb / "100", ("MLII",))
    assert len(read.signal_mv) == 650_000
    assert read.duration_s == pytest.approx(30 * 60 + 5.556, abs=1e-3)
    assert read.signal_mv[0] == pytest.approx((995 - 1024) / 200)
    reference = wfdb.rdrecord(str(mitdb / "100"), channel_names=["MLII"]).p_signal[:, 0]
    np.testing.assert_allclose(read.signal_mv, reference, atol=1e-12)


@pytest.mark.mitdb
def test_mlii_is_the_second_channel_of_record_114(mitdb: Path) -> None:
    read = read_recording(mitdb / "114", ("MLII",), every_lead=True)
    assert read.leads == ("V5", "MLII")
    assert read.signal_mv[0] == pytest.approx((1027 - 1024) / 200)


@pytest.mark.mitdb
@pytest.mark.parametrize("name", ["102", "104"])
def test_two_records_have_no_mlii(mitdb: Path, name: str) -> None:
    assert fails(mitdb / name) == ("unknown-lead", "leads")


@pytest.mark.mitdb
def test_a_copy_of_record_208_with_one_wrong_bit_is_refused(mitdb: Path, tmp_path: Path) -> None:
    record = copy_record(mitdb / "208", tmp_path)
    data = bytearray((tmp_path / "208.dat").read_bytes())
    data[600_000] ^= 1  # the low byte of an MLII sample
    (tmp_path / "208.dat").write_bytes(data)
    assert fails(record)[0] == "invalid-record"
