"""Files cut anywhere, bits turned over, headers made up: one line of ours or a recording, never a traceback."""

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import hospital_files
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from record_files import END, aux, edf_annotation, edf_bytes, mark, skip, write_212
from refusals import refuses

import ecgfed.domain.record.checks as checks
from ecgfed.base.errors import EcgfedError
from ecgfed.base.extras import is_installed
from ecgfed.domain.record.reader import read_annotation, read_comments, read_recording
from ecgfed.domain.record.recording import ReadOptions, Recording

RAMP = [list(range(0, 1200, 2)), list(range(1200, 0, -2))]
HOW = ReadOptions(fs_hz=250, units="mV", columns=())
ATR = mark("+", 10) + aux(b"(N\0") + mark("N", 100) + skip(200) + mark("V", 0) + mark("N", 280) + END
WILD = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
T = TypeVar("T")
#: Room for the tests: a claim past it is refused as one past 4 GB is.
SAMPLES = 200_000


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_SAMPLES", SAMPLES)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def tried(path: Path, how: ReadOptions = HOW, *, every: bool = True) -> Recording | None:
    """Read a recording, its comments and its annotation; anything but an error of ours escapes, warnings too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return _tried(path, how, every)


def _quiet(read: Callable[[], T]) -> T | None:
    """Return what ``read`` returns, or None for an error of ours."""
    try:
        return read()
    except EcgfedError as error:
        line = str(error)
    assert "\n" not in line
    return None


def _tried(path: Path, how: ReadOptions, every: bool) -> Recording | None:
    _quiet(lambda: read_comments(path))
    _quiet(lambda: read_annotation(read_recording(path, (), how=how)))
    recording = _quiet(lambda: read_recording(path, (), every_lead=every, how=how))
    if recording is not None:
        assert len(recording.signals_mv) == len(recording.leads)
        assert 0 < recording.signals_mv.shape[1] <= SAMPLES
        assert not np.isinf(recording.signals_mv).any()
    return recording


def spoiled(data: bytes, at: int, bits: int, keep: int | None) -> bytes:
    """Turn over some bits of one byte, and keep the first ``keep`` bytes."""
    out = bytearray(data)
    out[at % len(out)] ^= bits
    return bytes(out[:keep])


def wfdb_files() -> dict[str, bytes]:
    with folder() as here:
        write_212(here, "r", RAMP, comments=["a comment"])
        return {path.name: path.read_bytes() for path in here.iterdir()} | {"r.atr": ATR}


def segment_files() -> dict[str, bytes]:
    with folder() as here:
        for name in ("s1", "s2"):
            write_212(here, name, RAMP)
        files = {path.name: path.read_bytes() for path in here.iterdir()}
    return files | {"r.hea": b"r/3 2 360 1300\ns1 600\n~ 100\ns2 600\n# a comment\n", "r.atr": ATR}


def edf_file(reserved: str) -> dict[str, bytes]:
    rows = [[RAMP[c][200 * r : 200 * r + 200] for r in range(3)] for c in (0, 1)]
    marks = [edf_annotation(at) + edf_annotation(at + 0.3, "N") for at in (0.5, 1.5, 3.5)]
    return {"r.edf": edf_bytes(rows, reserved=reserved, annotations=marks)}


def csv_file() -> dict[str, bytes]:
    lines = [f"{i / 250:.3f},{a / 200},{b / 200}" for i, (a, b) in enumerate(zip(*RAMP, strict=True))]
    return {"r.csv": ("# by hand\ntime,MLII,V1\n" + "\n".join(lines[:120])).encode()}


def numpy_file(suffix: str) -> dict[str, bytes]:
    with folder() as here:
        if suffix == "npy":
            np.save(here / "r.npy", np.array(RAMP, dtype=float) / 200)
        else:
            np.savez_compressed(here / "r.npz", MLII=np.array(RAMP[0]) / 200, V1=np.array(RAMP[1]) / 200, fs=250)
        return {f"r.{suffix}": (here / f"r.{suffix}").read_bytes()}


def hospital_file(kind: str) -> dict[str, bytes]:
    leads = [[int(step) for step in lead[:200]] for lead in RAMP]
    made = {
        "ishne": lambda: {"r.ecg": hospital_files.ishne_bytes(leads, text=b"by hand")},
        "scp": lambda: {"r.scp": hospital_files.scp_bytes(leads, order=2, coded=True)},
        "aecg": lambda: {"r.xml": hospital_files.aecg_text(leads).encode()},
        "dicom": lambda: {"r.dcm": hospital_files.dicom_bytes(hospital_files.dicom_group(leads))},
    }
    return made[kind]()


FILES: dict[str, Callable[[], dict[str, bytes]]] = {
    "wfdb": wfdb_files,
    "segments": segment_files,
    "edf+c": lambda: edf_file("EDF+C"),
    "edf+d": lambda: edf_file("EDF+D"),
    "csv": csv_file,
    "npy": lambda: numpy_file("npy"),
    "npz": lambda: numpy_file("npz"),
    "ishne": lambda: hospital_file("ishne"),
    "scp": lambda: hospital_file("scp"),
    "aecg": lambda: hospital_file("aecg"),
    **({"dicom": lambda: hospital_file("dicom")} if is_installed("pydicom") else {}),
}
SUFFIXES = {"edf+c": "edf", "edf+d": "edf", "ishne": "ecg", "aecg": "xml", "dicom": "dcm"}
NAMED = {kind: f"r.{SUFFIXES.get(kind, kind)}" for kind in FILES} | {"wfdb": "r", "segments": "r"}
OPTIONS = {"npy": ReadOptions(250, "mV", ("MLII", "V1")), "npz": ReadOptions(None, "mV")}


@pytest.mark.parametrize("kind", list(FILES))
@WILD
@given(data=st.data())
def test_a_file_with_bits_turned_over_or_cut_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    files = FILES[kind]()
    name = data.draw(st.sampled_from(sorted(files)))
    # Headers hold most of what can go wrong, and lie at the beginning.
    at = data.draw(st.one_of(st.integers(0, 300), st.integers(0, len(files[name]) - 1)))
    files[name] = spoiled(
        files[name], at, data.draw(st.integers(1, 255)), data.draw(st.none() | st.integers(0, len(files[name])))
    )
    with folder() as here:
        for each, content in files.items():
            (here / each).write_bytes(content)
        tried(here / NAMED[kind], OPTIONS.get(kind, HOW if kind != "csv" else ReadOptions(units="mV")))


@WILD
@given(byte=st.integers(0, 1799), bit=st.integers(0, 7))
def test_a_signal_with_one_wrong_bit_is_never_read_as_another(byte: int, bit: int) -> None:
    """Every bit of format 212 is a bit of a sample, and one bit cannot keep a sum."""
    with folder() as here:
        record = write_212(here, "r", RAMP)
        good = read_recording(record, ("MLII",), every_lead=True).signals_mv
        raw = bytearray((here / "r.dat").read_bytes())
        raw[byte] ^= 1 << bit
        (here / "r.dat").write_bytes(bytes(raw))
        with refuses(EcgfedError, "invalid-record"):
            read_recording(record, ("MLII",), every_lead=True)
        for row, lead in enumerate(("MLII", "V1")):
            with contextlib.suppress(EcgfedError):  # the other lead's samples are as they were
                np.testing.assert_array_equal(read_recording(record, (lead,)).signals_mv[0], good[row])


@WILD
@given(keep=st.integers(0, 3_359))
def test_an_edf_cut_anywhere_is_refused(keep: int) -> None:
    whole = edf_file("EDF+C")["r.edf"]
    assume(keep < len(whole))
    with folder() as here:
        (here / "r.edf").write_bytes(whole[:keep])
        with pytest.raises(EcgfedError, match=r"cut short|is not EDF"):
            read_recording(here / "r.edf", ())


FIELD_WORDS = [
    *("", "0", "-1", "1", "2", "1000000", "1000000000000", "1e12", "nan", "212", "212x9", "212:5", "16+3", "#", "/"),
    *("212x1000000000", "200/mV", "0/mV", "-5(3)/uV", "1e400", "~", "r.dat", "./r.dat", "a/b", "360/0", "516", "8"),
    *("160", "310", "MLII"),
]
FIELD = st.one_of(
    st.sampled_from(FIELD_WORDS), st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=6)
)


@WILD
@given(record=st.lists(FIELD, max_size=5), signals=st.lists(st.lists(FIELD, max_size=9), max_size=3))
@example(record=["1000000", "360", "600"], signals=[["r.dat", "212", "200", "12", "0", "0", "0", "0", "MLII"]] * 2)
@example(record=["2", "360", "1000000000000"], signals=[["r.dat", "212", "200", "12", "0", "0", "0", "0", "MLII"]] * 2)
@example(record=["1", "360", "1000000000000"], signals=[["r.dat", "516", "200", "12", "0", "0", "0", "0", "MLII"]])
@example(record=["1", "360", "600"], signals=[["r.dat", "212x1000000000", "200", "12", "0", "0", "0", "0", "MLII"]])
@example(record=["1", "360", "600"], signals=[["r.dat", "212+99999", "200", "12", "0", "0", "0", "0", "MLII"]])
@example(record=["1", "360", "600"], signals=[["r.dat", "212:1000000000", "200", "12", "0", "0", "0", "0", "MLII"]])
def test_a_wfdb_header_made_up(record: list[str], signals: list[list[str]]) -> None:
    with folder() as here:
        write_212(here, "r", RAMP)
        lines = [" ".join(["r", *record]), *(" ".join(line) for line in signals)]
        (here / "r.hea").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")
        tried(here / "r")


@WILD
@given(
    segments=st.lists(st.tuples(st.sampled_from(["s1", "~", "r", "none", "a/b", ""]), FIELD), max_size=4), count=FIELD
)
def test_a_header_of_segments_made_up(segments: list[tuple[str, str]], count: str) -> None:
    with folder() as here:
        write_212(here, "s1", RAMP)
        lines = [f"r/{count} 2 360", *(" ".join(segment) for segment in segments)]
        (here / "r.hea").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")
        tried(here / "r")


NUMBER = st.one_of(
    st.sampled_from(
        ["", "0", "-1", "1", "3", "99999999", "1e12", "1e-300", "nan", "inf", "-0", "1_0", "\u0663", "0x10"]
    ),
    st.integers(-(10**7), 10**7).map(str),
    st.floats().map(lambda value: f"{value:.3g}"),
)


@WILD
@given(records=NUMBER, duration=NUMBER, channels=NUMBER, low=NUMBER, high=NUMBER, least=NUMBER, most=NUMBER)
def test_an_edf_header_made_up(
    records: str, duration: str, channels: str, low: str, high: str, least: str, most: str
) -> None:
    def cut(text: str, size: int) -> str:
        return text.encode("latin-1", "replace").decode("latin-1")[:size]

    rows = [[RAMP[0][200 * r : 200 * r + 200] for r in range(3)]]
    made = edf_bytes(
        rows,
        records=cut(records, 8),
        duration=cut(duration, 8),
        channels=cut(channels, 4),
        digital=(cut(low, 8), cut(high, 8)),
        physical=(cut(least, 8), cut(most, 8)),
    )
    plain = edf_bytes(rows, digital=(cut(low, 8), cut(high, 8)), physical=(cut(least, 8), cut(most, 8)))
    with folder() as here:
        for content in (made, plain):
            (here / "r.edf").write_bytes(content)
            tried(here / "r.edf")


@WILD
@given(marks=st.lists(st.binary(max_size=40), min_size=3, max_size=3), reserved=st.sampled_from(["EDF+C", "EDF+D"]))
@example(marks=[b"+0\x14\x14\0", b"+" + b"9" * 39, b"+2\x14\x14\0"], reserved="EDF+D")
@example(marks=[b"+0\x14\x14\0", b"+1\x14\x14\0", b"+999999999999\x14\x14\0"], reserved="EDF+D")
def test_edf_annotations_made_up(marks: list[bytes], reserved: str) -> None:
    rows = [[RAMP[0][200 * r : 200 * r + 200] for r in range(3)]]
    with folder() as here:
        (here / "r.edf").write_bytes(edf_bytes(rows, reserved=reserved, annotations=marks))
        tried(here / "r.edf")


CELL_WORDS = [
    *("", "0", "1.5", "1,5", "nan", "inf", "-inf", "1e400", "True", "0:01.5", "time", "MLII", "1_0", "'", '"', "NA"),
    *("\u0663", "#", "0x1", "1e5", "--", "mV", "sample"),
]
CELL = st.one_of(st.sampled_from(CELL_WORDS), st.floats(allow_nan=False).map(repr), st.text(max_size=5))


@WILD
@given(
    rows=st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=8), separator=st.sampled_from([",", ";", "\t", " "])
)
def test_a_table_made_up(rows: list[list[str]], separator: str) -> None:
    text = "\n".join(separator.join(row) for row in rows)
    with folder() as here:
        (here / "r.csv").write_text(text, encoding="utf-8", errors="surrogatepass")
        for how in (ReadOptions(units="mV"), HOW, ReadOptions(250, "mV", ("MLII", "V1"))):
            tried(here / "r.csv", how)
        (here / "r.npy").unlink(missing_ok=True)
        np.save(here / "r.npy", np.zeros((2, 300)))
        (here / "r.csv").rename(here / "r.atr.csv")
        tried(here / "r.npy", OPTIONS["npy"])


@WILD
@given(text=st.binary(max_size=200))
def test_bytes_that_are_nothing(text: bytes) -> None:
    with folder() as here:
        for name in ("r.hea", "r.edf", "r.csv", "r.npy", "r.npz"):
            (here / name).write_bytes(text)
            tried(here / name, OPTIONS["npy"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder", "folder: is a folder; expected one recording; name a recording in it"),
        ("notes.md", "notes.md: is no kind of recording that is read; expected a WFDB record or .hea, .edf, .bdf"),
        ("nothing", "nothing.hea: does not exist; expected a WFDB header"),
    ],
)
def test_what_is_no_recording_is_named_as_what_it_is(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.md").write_text("# Notes\n")
    with pytest.raises(EcgfedError) as problem:
        read_recording(tmp_path / name)
    assert words in problem.value.line
