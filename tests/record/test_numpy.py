"""Recordings as NumPy arrays: which axis is time, what the file says of itself, and what is never loaded."""

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ecgfed.base.errors import EcgfedError
from ecgfed.domain.record.reader import open_recording, read_recording
from ecgfed.domain.record.recording import ReadOptions

RNG = np.random.default_rng(4)
MV = np.round(RNG.standard_normal((3, 500)), 3)
NAMES = ("I", "II", "V1")
HOW = ReadOptions(fs_hz=500, units="mV", columns=NAMES)


def fails(path: Path, how: ReadOptions = HOW, leads: tuple[str, ...] = ("II",)) -> tuple[str, str | None]:
    with pytest.raises(EcgfedError) as caught:
        read_recording(path, leads, how=how)
    return caught.value.code, caught.value.parameter


def save(folder: Path, array: np.ndarray, **how: object) -> Path:
    np.save(folder / "r.npy", array, **how)  # type: ignore[arg-type]
    return folder / "r.npy"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">f4", "<f2", ">i2"])
def test_the_longer_axis_is_time(tmp_path: Path, dtype: str, order: str) -> None:
    for array in (MV, MV.T):
        path = save(tmp_path, np.asarray(array.astype(dtype), order=order))  # type: ignore[call-overload]
        read = read_recording(path, ("V1", "II"), every_lead=True, how=HOW)
        assert (read.lead, read.leads, read.fs_hz, read.signals_mv.dtype) == ("V1", NAMES, 500.0, np.float64)
        np.testing.assert_array_equal(read.signals_mv, MV.astype(dtype).astype(float))


def test_one_axis_is_one_lead_and_nan_a_gap(tmp_path: Path) -> None:
    signal = MV[0].copy()
    signal[30:40] = np.nan
    how = ReadOptions(fs_hz=500, units="mV", columns=("II",))
    for shape in ((500,), (500, 1), (1, 500)):
        read = read_recording(save(tmp_path, signal.reshape(shape)), ("II",), how=how)
        np.testing.assert_array_equal(read.signals_mv, [signal])


@pytest.mark.parametrize(("units", "millivolt"), [("uV", 1e-3), ("200(1024)/mV", 1 / 200), ("1000/V", 1.0), ("mV", 1)])
def test_whole_numbers_are_what_is_said_of_them(tmp_path: Path, units: str, millivolt: float) -> None:
    steps = (900 + np.arange(500, dtype=np.int16) % 20).reshape(1, -1)  # over 20 mV it is refused
    how = ReadOptions(fs_hz=500, units=units, columns=("II",))
    read = read_recording(save(tmp_path, steps), ("II",), how=how)
    zero = 1024 if "(" in units else 0
    np.testing.assert_allclose(read.signals_mv, (steps - float(zero)) * millivolt)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (ReadOptions(fs_hz=500, columns=NAMES), ("not-stated", "units")),
        (ReadOptions(units="mV", columns=NAMES), ("not-stated", "fs_hz")),
        (ReadOptions(fs_hz=500, units="mV"), ("not-stated", "columns")),
        (ReadOptions(fs_hz=500, units="mV", columns=("II",)), ("invalid-record", "columns")),
        (ReadOptions(fs_hz=500, units="mV", columns=("I", "I", "V1")), ("unknown-lead", "leads")),
        (ReadOptions(fs_hz=0, units="mV", columns=NAMES), ("invalid-record", "fs_hz")),
        (ReadOptions(fs_hz=500, units="200(x)/mV", columns=NAMES), ("invalid-value", "units")),
        (ReadOptions(fs_hz=500, units="0/mV", columns=NAMES), ("invalid-value", "units")),
    ],
)
def test_what_is_not_said_is_asked_for(tmp_path: Path, how: ReadOptions, expected: tuple[str, str | None]) -> None:
    assert fails(save(tmp_path, MV), how) == expected


def test_whole_numbers_without_units(tmp_path: Path) -> None:
    assert fails(save(tmp_path, (MV * 1000).astype(np.int32)), ReadOptions(fs_hz=500, columns=NAMES)) == (
        "not-stated",
        "units",
    )


@pytest.mark.parametrize(
    "array",
    [
        *(np.zeros(shape) for shape in ((2, 3, 500), (), (500, 500), (70, 500), (0,), (3, 0))),
        *(MV.astype(complex), MV.astype(str), MV > 0, np.zeros(5, dtype=[("a", "f8")]), np.zeros(5, dtype="M8[s]")),
        np.full((3, 500), np.inf),
        *(np.zeros(500, dtype) for dtype in ("m8[s]", "S4", "V8", "longdouble")),
    ],
)
def test_arrays_that_are_no_recording(tmp_path: Path, array: np.ndarray) -> None:
    assert fails(save(tmp_path, array)) == ("invalid-record", None)
    assert fails(save(tmp_path, MV * 1e6)) == ("invalid-record", "units")


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.write_text, (self.path, "loaded")


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    array = np.array([Bomb(tmp_path / "harm"), 1.0], dtype=object)
    assert fails(save(tmp_path, array, allow_pickle=True)) == ("invalid-record", None)
    np.savez(tmp_path / "r.npz", signal=array)
    assert fails(tmp_path / "r.npz") == ("invalid-record", None)
    (tmp_path / "r.npy").write_bytes(pickle.dumps(Bomb(tmp_path / "harm")))
    assert fails(tmp_path / "r.npy") == ("invalid-record", None)
    assert not (tmp_path / "harm").exists()


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (2, 10**12), (10**30,), (-5,), (501,), (499,)])
def test_a_header_that_claims_what_is_not_there(tmp_path: Path, shape: tuple[int, ...]) -> None:
    data = header(shape) + bytes(8 * 500)
    (tmp_path / "r.npy").write_bytes(data)
    assert fails(tmp_path / "r.npy") == ("invalid-record", None)
    with zipfile.ZipFile(tmp_path / "r.npz", "w") as archive:
        archive.writestr("signal.npy", data)
    assert fails(tmp_path / "r.npz") == ("invalid-record", None)


@pytest.mark.filterwarnings("error")
def test_a_file_that_python_2_wrote_is_read_without_a_word(tmp_path: Path) -> None:
    data = save(tmp_path, MV).read_bytes()
    assert b"(3, 500), }  " in data
    (tmp_path / "r.npy").write_bytes(data.replace(b"(3, 500), }  ", b"(3L, 500L), }", 1))
    for read in (
        read_recording(tmp_path / "r.npy", ("II",), how=HOW),
        open_recording(tmp_path / "r.npy", ("II",), how=HOW, min_samples=100),
    ):
        np.testing.assert_array_equal(read.signal_mv, MV[1])


def test_npz_says_everything_itself(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", signal=MV * 1000, fs=500, units="uV", leads=np.array(NAMES))
    read = read_recording(tmp_path / "r.npz", ("V1",), every_lead=True)
    assert (read.leads, read.lead, read.fs_hz) == (NAMES, "V1", 500.0)
    np.testing.assert_allclose(read.signals_mv, MV, atol=1e-12)
    np.savez_compressed(tmp_path / "s.npz", **dict(zip(NAMES, MV, strict=True)))
    read = read_recording(tmp_path / "s.npz", ("II",), every_lead=True, how=ReadOptions(fs_hz=500, units="mV"))
    assert read.leads == NAMES
    np.testing.assert_array_equal(read.signals_mv, MV)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"signal": MV, "fs": 500, "units": "mmHg", "leads": NAMES}, ("invalid-value", None)),
        ({"signal": MV, "fs": 400, "units": "mV", "leads": NAMES}, ("contradiction", "fs_hz")),
        ({"signal": MV, "fs": "fast", "units": "mV", "leads": NAMES}, ("invalid-record", None)),
        ({"signal": MV, "fs": [500, 500], "units": "mV", "leads": NAMES}, ("invalid-record", None)),
        ({"signal": MV, "units": "uV"}, ("contradiction", "units")),
        ({"a": MV[0], "b": MV[1][:-1]}, ("invalid-record", None)),
        ({"a": MV[0], "fs_hz": 360.0}, ("invalid-record", None)),
        ({"a": MV, "b": MV}, ("invalid-record", None)),
        ({}, ("invalid-record", None)),
    ],
)
def test_npz_that_will_not_do(tmp_path: Path, held: dict[str, object], expected: tuple[str, str | None]) -> None:
    np.savez(tmp_path / "r.npz", **held)  # type: ignore[arg-type]
    assert fails(tmp_path / "r.npz") == expected


def test_files_that_are_none(tmp_path: Path) -> None:
    assert fails(tmp_path / "r.npy") == ("invalid-record", None)
    path = save(tmp_path, MV)
    for size in (0, 5, 9, 60, 500):
        path.write_bytes(path.read_bytes()[:size] if size else b"")
        assert fails(path) == ("invalid-record", None)
        save(tmp_path, MV)
    (tmp_path / "r.npz").write_bytes(b"PK\3\4 no archive")
    assert fails(tmp_path / "r.npz") == ("invalid-record", None)


def header_alone(text: str, data: bytes = b"") -> bytes:
    """A .npy file of version 1.0 (NEP 1) whose header says ``text``."""
    padded = text + " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode() + data


SHAPES = [
    *("(True, 8640)", "(False,)", "(-1, -8640)", "(1e9,)", "8640"),
    *(f"({'9' * 5000},)", f"({'9' * 90},)", f"({'1,' * 100})"),
]


@pytest.mark.parametrize(
    "said",
    [
        *(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}" for shape in SHAPES),
        *(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (8640,)}}" for descr in ("<U0", "|S0", "|V0")),
        "{'descr': '<U0', 'fortran_order': False, 'shape': (0,)}",
        "{'descr': '<f8', 'fortran_order': 'no', 'shape': (8640,)}",
        "{'descr': [('a', '<f8')] * 3, 'fortran_order': False, 'shape': (8640,)}",
        *("{'descr': '<f8', 'shape': (8640,)}", "(" * 300 + ")" * 300, "[" * 8000, "not a header"),
    ],
)
def test_headers_that_no_array_has(tmp_path: Path, said: str) -> None:
    for data in (b"", bytes(8 * 8640)):
        (tmp_path / "r.npy").write_bytes(header_alone(said, data))
        assert fails(tmp_path / "r.npy") == ("invalid-record", None)
        with pytest.raises(EcgfedError) as caught:
            open_recording(tmp_path / "r.npy", "MLII", how=ReadOptions(250, "mV", ("MLII",)))
        assert len(str(caught.value)) < 900


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    for names in (("fs.npy", "fs.npy"), ("fs", "fs.npy"), ("signal.npy", "signal.npy")):
        with zipfile.ZipFile(path, "w") as archive:
            for name, value in zip(("signal.npy", "leads.npy", *names), (MV, NAMES, 360.0, 250.0), strict=True):
                stream = io.BytesIO()
                np.save(stream, np.array(value))
                archive.writestr(name, stream.getvalue())
        assert fails(path) == ("invalid-record", None)


def test_arrays_are_known_by_their_content(tmp_path: Path) -> None:
    path = save(tmp_path, MV)
    other = path.with_name("r")
    path.rename(other)
    np.testing.assert_array_equal(read_recording(other, "I", how=HOW).signal_mv, MV[0])
    np.testing.assert_array_equal(open_recording(other, "I", how=HOW, min_samples=10).signal_mv, MV[0])


@pytest.mark.parametrize("value", [3.4e38, -1e10, np.inf])
def test_damaged_numbers_are_no_millivolts(tmp_path: Path, value: float) -> None:
    """Sixteen bytes that are set give numbers whose squares overflow; a few do not move a lead's median."""
    damaged = MV.astype(np.float32)
    damaged[1, 40:44] = value, value * 0.9, value * 0.8, value
    path = save(tmp_path, damaged)
    with pytest.raises(EcgfedError, match="at sample 40"):
        read_recording(path, ("II",), every_lead=True, how=HOW)


def test_a_long_lead_name_is_cut_in_a_message(tmp_path: Path) -> None:
    how = ReadOptions(fs_hz=500, units="mV", columns=("3" * 5000, "II", "V1"))
    with pytest.raises(EcgfedError) as caught:
        read_recording(save(tmp_path, MV), ("V6",), how=how)
    assert len(str(caught.value)) < 500
