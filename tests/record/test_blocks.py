"""A recording that is opened holds what one that is read holds, to the last bit, whatever stretch is asked for."""

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import write_record
from numpy.typing import NDArray
from record_files import edf_annotation, edf_bytes
from refusals import refuses

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.reader import open_recording, read_recording
from ecgfed.domain.record.recording import ReadingPool, ReadOptions, Recording

SAMPLES = 3001
SAID = ("name", "path", "lead", "leads", "fs_hz", "comments", "files", "skipped", "requested_as", "samples")
HIGHEST = {"16": 2**15 - 1, "24": 2**23 - 1, "32": 2**31 - 1, "80": 2**7 - 1, "160": 2**15 - 1, "212": 2**11 - 1}


def same(path: Path, *, how: ReadOptions | None = None, lead: str = "a") -> Recording:
    """Compare what is opened with what is read, in whole and in stretches."""
    for every in (False, True):
        whole = read_recording(path, lead, every_lead=every, how=how)
        opened = open_recording(path, lead, every_lead=every, how=how, min_samples=1000)
        assert opened.is_lazy
        for name in SAID:
            assert getattr(opened, name) == getattr(whole, name), name
        rng = np.random.default_rng(0)
        for start, stop in [(0, whole.samples), (0, 0), (1, 2), *np.sort(rng.integers(0, whole.samples, (40, 2)))]:
            stretch = opened.read(int(start), int(stop))
            assert np.array_equal(stretch, whole.signals_mv[:, start:stop], equal_nan=True)
        assert np.array_equal(opened.signal_mv, whole.signal_mv, equal_nan=True)
        assert np.array_equal(opened.read(5, 50, [0]), whole.read(5, 50, [0]), equal_nan=True)
    return opened


def written(folder: Path, fmt: str, leads: int, **more: object) -> Path:
    """Write random samples through the wfdb package; every format's mark of a gap is among them."""
    high = HIGHEST[fmt]
    digital = np.random.default_rng(leads).integers(-high - 1, high + 1, (SAMPLES, leads))
    digital[7] = -high - 1
    names = ["a", "b", "c"][:leads]
    base = [10] * leads
    stored = "16" if fmt == "160" else fmt
    about = {"units": ["mV"] * leads, "sig_name": names, "adc_gain": [200.0] * leads, "baseline": base}
    wfdb.wrsamp(
        "r", fs=250, d_signal=digital, fmt=[stored] * leads, comments=["one"], write_dir=str(folder), **about, **more
    )
    if fmt == "160":  # the package does not write it: the same steps, from 32768 on
        data = np.fromfile(folder / "r.dat", "<i2").astype(np.int64) + 2**15
        data.astype("<u2").tofile(folder / "r.dat")
        header = folder / "r.hea"
        header.write_text(header.read_text().replace("r.dat 16 ", "r.dat 160 "))
    return folder / "r"


@pytest.mark.parametrize("fmt", HIGHEST)
@pytest.mark.parametrize("leads", [1, 2, 3])
def test_every_format_of_wfdb(tmp_path: Path, fmt: str, leads: int) -> None:
    same(written(tmp_path, fmt, leads))


def test_skew_and_several_samples_a_frame(tmp_path: Path) -> None:
    """By the header alone: the file of two leads is one of a lead that lags and of one with three samples a frame."""
    record = written(tmp_path, "16", 2)
    frames = SAMPLES * 2 // 4
    header = record.with_suffix(".hea")
    lines = [line.split() for line in header.read_text().splitlines()]
    lines[0][3] = str(frames)
    for line, fmt in zip(lines[1:3], ("16:5", "16x3"), strict=True):
        line[1], line[6] = fmt, "0"
    data = np.fromfile(record.with_suffix(".dat"), "<i2")[: 4 * frames].reshape(frames, 4)
    lines[1][6], lines[2][6] = (str(int(part.sum(dtype=np.int64)) % 65536) for part in (data[:, 0], data[:, 1:]))
    data.tofile(record.with_suffix(".dat"))
    header.write_text("\n".join(map(" ".join, lines)) + "\n")
    found = same(record)
    assert np.isnan(found.read(found.samples - 5, found.samples)[0]).all()
    assert found.skipped == ("b: 750 Hz",)
    own = same(record, lead="b")  # each lead at its own sampling frequency
    assert (own.fs_hz, own.samples, own.skipped) == (750, 3 * frames, ("a: 250 Hz",))
    assert own.read(0, 3)[0] == pytest.approx((data[0, 1:].astype(float) - 10) / 200)


def test_a_wrong_checksum_and_a_file_cut_short_are_found_when_it_is_opened(tmp_path: Path) -> None:
    record = written(tmp_path, "212", 2)
    data = bytearray(record.with_suffix(".dat").read_bytes())
    data[3000] ^= 1
    record.with_suffix(".dat").write_bytes(data)
    with refuses(RecordError, "invalid-record"):
        open_recording(record, every_lead=True, min_samples=1000)
    record.with_suffix(".dat").write_bytes(data[:3000])
    with refuses(RecordError, "invalid-record", "repair"):
        open_recording(record, min_samples=1000)


def test_a_file_that_shrinks_after_it_was_opened_is_named(tmp_path: Path) -> None:
    opened = open_recording(written(tmp_path, "16", 1), min_samples=1000)
    (tmp_path / "r.dat").write_bytes(b"\0\0" * 100)
    with refuses(RecordError, "invalid-record"):
        opened.read(0, 500)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", ["lead", "leads by samples", "samples by leads"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_arrays_of_numpy(tmp_path: Path, shape: str, order: str, dtype: str) -> None:
    signals = (np.random.default_rng(1).normal(size=(2, SAMPLES)) * 1000).astype(dtype)
    if dtype != "i2":
        signals[0, 10:30] = np.nan
    array: NDArray[np.generic] = {"lead": signals[0], "leads by samples": signals, "samples by leads": signals.T}[shape]
    np.save(tmp_path / "x.npy", np.asarray(array, order=order))  # type: ignore[call-overload]
    same(tmp_path / "x.npy", how=ReadOptions(250, "200(3)/mV", ("a",) if shape == "lead" else ("a", "b")))


@pytest.mark.parametrize(("amiss", "said"), [(np.inf, "is infinite"), (1e5, "from its median")])
def test_an_array_of_implausible_size_is_refused(tmp_path: Path, amiss: float, said: str) -> None:
    signal = np.random.default_rng(1).normal(size=SAMPLES)
    signal[1000 : 1001 if np.isinf(amiss) else None] *= amiss
    np.save(tmp_path / "x.npy", signal)
    with pytest.raises(RecordError, match=said):
        open_recording(tmp_path / "x.npy", how=ReadOptions(250, "mV", ("a",)), min_samples=1000)


def edf(path: Path, onsets: Sequence[float] = range(12), kind: str = "EDF+C") -> Path:
    """Write EDF+ of two leads, 200 samples a data record of a second."""
    rows = np.random.default_rng(2).integers(-2048, 2048, (2, 12, 200)).tolist()
    times = [edf_annotation(at) for at in onsets]
    digital = ("-2048", "2047")
    labels, units = ("ECG a", "ECG b"), ("mV", "uV")
    path.write_bytes(edf_bytes(rows, labels=labels, units=units, digital=digital, reserved=kind, annotations=times))
    return path


def test_edf_and_the_gaps_of_edf_d(tmp_path: Path) -> None:
    same(edf(tmp_path / "c.edf"))
    gaps = [0, 1, 2, 5, 6, 7, 8, 8 + 10, 19, 20, 21, 30]
    found = same(edf(tmp_path / "d.edf", gaps, "EDF+D"))
    assert found.samples == 31 * 200
    assert np.isnan(found.read(3 * 200, 5 * 200)).all()


def test_a_short_recording_is_read_at_once(tmp_path: Path) -> None:
    record = write_record(tmp_path, "short", "NNNNNN")
    opened = open_recording(record)
    assert not opened.is_lazy
    assert np.array_equal(opened.signals_mv, read_recording(record).signals_mv, equal_nan=True)


def test_what_cannot_be_read_by_blocks_is_read_whole(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", signal=np.zeros(SAMPLES) + np.sin(np.arange(SAMPLES)), leads=["a"], fs=250, units="mV")
    assert not open_recording(tmp_path / "x.npz", min_samples=1000).is_lazy


def test_ctrl_c_ends_threads_that_read_at_their_next_block() -> None:
    recording, reading = Recording("r", Path("r"), "a", ("a",), 250.0, np.zeros((1, 8)), ()), threading.Event()

    def read_on() -> None:
        for start in range(10**6):
            recording.read(start % 8, 8)
            reading.set()

    with suppress(KeyboardInterrupt), ReadingPool(1) as pool:
        running, waiting = pool.submit(read_on), pool.submit(read_on)
        reading.wait()
        raise KeyboardInterrupt
    assert isinstance(running.exception(), CancelledError)
    assert waiting.cancelled()
