"""Files as they go wrong in practice, through prepare, predict and convert: one line, exit code 2, nothing written."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal
from record_files import cut, edf_bytes, edit, flip_byte, write_signals
from support import Command, assert_refused, exported, snapshot

SYMBOLS = "NNNNV" * 12
SIGNAL, AT = synthetic_signal(SYMBOLS)
WHOLE = len(SIGNAL) // 360 * 360
STEPS = np.rint(SIGNAL[:WHOLE] * 1000).astype(int)
Spoil = Callable[[Path], object]


def wfdb_record(folder: Path) -> Path:
    return write_signals(folder, "r", SIGNAL[:WHOLE], fs_hz=360)


def edf_record(folder: Path) -> Path:
    (folder / "r.edf").write_bytes(edf_bytes([STEPS.reshape(-1, 360).tolist()], digital=("-5000", "5000")))
    return folder / "r.edf"


def csv_record(folder: Path) -> Path:
    rows = "\n".join(f"{i / 360:.6f},{v / 1000}" for i, v in enumerate(STEPS))
    (folder / "r.csv").write_text("time,MLII (mV)\n" + rows + "\n")
    return folder / "r.csv"


def numpy_record(folder: Path) -> Path:
    np.savez(folder / "r.npz", MLII=STEPS, fs=360, units="uV")
    return folder / "r.npz"


RECORDS = {"wfdb": wfdb_record, "edf": edf_record, "csv": csv_record, "numpy": numpy_record}


def line(path: Path, number: int, text: str | None) -> None:
    """Replace one line of a text file, or take it away."""
    lines = path.read_text().splitlines()
    lines[number - 1 : number] = [] if text is None else [text]
    path.write_text("\n".join(lines) + "\n")


def put(path: Path, at: int, text: str, width: int = 8) -> None:
    """Write a field of an EDF header."""
    data = bytearray(path.read_bytes())
    data[at : at + width] = text.encode().ljust(width)
    path.write_bytes(bytes(data))


def save(folder: Path, **held: object) -> None:
    np.savez(folder / "r.npz", **{"MLII": STEPS, "fs": 360, "units": "uV", **held})  # type: ignore[arg-type]


BAD: list[tuple[str, str, Spoil, tuple[str, ...]]] = [
    # The rows of the failure table that reading can know, then the same for the other formats.
    ("wfdb", "truncated signal", lambda d: cut(d / "r.dat", 2000), ("r.dat", f"cut short at 1000 of {WHOLE} samples")),
    ("wfdb", "wrong checksum", lambda d: flip_byte(d / "r.dat", 999), ("r.dat", "checksum of lead MLII", "corrupt")),
    ("wfdb", "missing signal line", lambda d: line(d / "r.hea", 2, None), ("r.hea", "signal")),
    ("wfdb", "odd header", lambda d: edit(d / "r.hea", "r 1", "r one"), ("r.hea", "line 1: number of signals 'one'")),
    ("wfdb", "fs 0", lambda d: edit(d / "r.hea", " 360 ", " 0 "), ("r.hea", "sampling frequency 0 Hz")),
    ("wfdb", "missing lead", lambda d: edit(d / "r.hea", "MLII", "V5"), ("no lead MLII", "it has V5", "--lead")),
    ("wfdb", "empty", lambda d: _empty(d), ("r", "holds no samples")),
    ("wfdb", "huge", lambda d: edit(d / "r.hea", f" {WHOLE}", " 1000000000000"), ("r.hea", "claims 1000000000000")),
    ("wfdb", "channels", lambda d: edit(d / "r.hea", "r 1 ", "r 1000000 "), ("r.hea", "has 1 signal line;")),
    ("edf", "truncated", lambda d: cut(d / "r.edf", 5000), ("r.edf", f"cut short at 6 of {WHOLE // 360} data records")),
    ("edf", "record count", lambda d: put(d / "r.edf", 236, "3"), ("r.edf", "expected 3 as its header says")),
    ("edf", "unclosed", lambda d: put(d / "r.edf", 236, "-1"), ("r.edf", "was never closed")),
    ("edf", "zero duration", lambda d: put(d / "r.edf", 244, "0"), ("r.edf", "data records of 0 s")),
    ("edf", "wrong fs", lambda d: put(d / "r.edf", 244, "100"), ("r.edf", "sampling frequency 3.6 Hz")),
    ("edf", "channels", lambda d: put(d / "r.edf", 252, "9999", 4), ("r.edf", "a header of 512 bytes")),
    ("edf", "no EDF", lambda d: put(d / "r.edf", 0, "BIOSEMI"), ("r.edf", "is not EDF")),
    ("edf", "missing lead", lambda d: put(d / "r.edf", 256, "ECG V5", 16), ("r.edf", "no lead MLII", "it has V5")),
    ("csv", "text", lambda d: line(d / "r.csv", 9, "0.019444,oops"), ("r.csv", "line 9", "column MLII", "'oops'")),
    ("csv", "ragged", lambda d: line(d / "r.csv", 9, "0.019444"), ("r.csv", "line 9 has 1 column; expected 2")),
    ("csv", "lost row", lambda d: line(d / "r.csv", 9, None), ("r.csv", "times are not even", "line 9 is")),
    ("csv", "missing column", lambda d: line(d / "r.csv", 1, "time,V5 (mV)"), ("r.csv", "no lead MLII", "it has V5")),
    ("csv", "no units", lambda d: line(d / "r.csv", 1, "time,MLII"), ("r.csv", "units of lead MLII", "--units")),
    ("csv", "no names", lambda d: line(d / "r.csv", 1, None), ("r.csv", "--columns")),
    ("csv", "no time", lambda d: line(d / "r.csv", 1, "I (mV),MLII (mV)"), ("r.csv", "no column of times", "--fs")),
    ("csv", "empty", lambda d: (d / "r.csv").write_text(""), ("r.csv", "is empty")),
    ("csv", "no text", lambda d: (d / "r.csv").write_bytes(b"\x7fELF\0\0"), ("r.csv", "is not text")),
    ("numpy", "objects", lambda d: save(d, MLII=np.array([1, "a"], dtype=object)), ("r.npz: MLII", "a pickle")),
    ("numpy", "rank", lambda d: save(d, MLII=np.zeros((2, 2, 9))), ("r.npz", "MLII (2, 2, 9)")),
    ("numpy", "complex", lambda d: save(d, MLII=STEPS * 1j), ("r.npz: MLII", "complex128", "real numbers")),
    ("numpy", "no units", lambda d: np.savez(d / "r.npz", MLII=STEPS, fs=360), ("r.npz", "whole numbers", "--units")),
    ("numpy", "no fs", lambda d: np.savez(d / "r.npz", MLII=STEPS, units="uV"), ("r.npz", "--fs")),
    ("numpy", "wrong fs", lambda d: save(d, fs=0), ("r.npz", "sampling frequency 0 Hz")),
    ("numpy", "wrong units", lambda d: save(d, units="V"), ("r.npz", "check --units")),
    ("numpy", "truncated", lambda d: cut(d / "r.npz", 3000), ("r.npz", "cannot be read as .npz")),
    ("numpy", "empty", lambda d: save(d, MLII=np.zeros(0)), ("r.npz", "holds no samples")),
]


@pytest.mark.parametrize(("kind", "spoil", "words"), [pytest.param(k, s, w, id=f"{k}-{n}") for k, n, s, w in BAD])
def test_a_bad_recording(
    ecgfed: Command, fedavg_run: Path, tmp_path: Path, kind: str, spoil: Spoil, words: tuple[str, ...]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    record = RECORDS[kind](folder)
    (folder / "r.atr.csv").write_text("sample,symbol\n" + "".join(f"{s},N\n" for s in AT if s < WHOLE))
    spoil(folder)
    before, out = snapshot(folder), ("--out", tmp_path / "out", "--lead", "MLII")
    for command in (
        ("prepare", "folder", folder, *out, "--workers", 1),
        ("predict", exported(fedavg_run), record, *out),
        ("convert", record, *out),
    ):
        assert_refused(ecgfed(*command), *words)
        assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert snapshot(folder) == before


def _empty(folder: Path) -> None:
    """A length of 0 is unspecified (header(5)): the signal file says it."""
    edit(folder / "r.hea", f" {WHOLE}", " 0")
    (folder / "r.dat").write_bytes(b"")


def _atr(folder: Path, sample: list[int]) -> None:
    wfdb.wrann("r", "atr", np.array(sample), ["N"] * len(sample), write_dir=str(folder))


BAD_MARKS: list[tuple[str, Spoil, tuple[str, ...]]] = [
    ("none", lambda d: (d / "r.atr").unlink(), ("r.atr", "does not exist", "--annotator")),
    ("even cut", lambda d: cut(d / "r.atr", 40), ("r.atr", "cut short", "last whole mark is at sample")),
    ("odd cut", lambda d: cut(d / "r.atr", 41), ("r.atr", "cut short")),
    ("empty", lambda d: cut(d / "r.atr", 0), ("r.atr", "no mark can be read")),
    ("too long", lambda d: _atr(d, [100, 2 * WHOLE]), ("r.atr", f"mark at sample {2 * WHOLE}", f"0 to {WHOLE - 1}")),
    ("wrong fs", lambda d: _atr(d, list(range(0, 2000, 36))), ("r.atr", "median heart rate 600", "sampling frequency")),
    ("two", lambda d: (d / "r.atr.csv").write_text("sample,symbol\n"), ("r.atr and r.atr.csv are both there",)),
]


@pytest.mark.parametrize("kind", list(RECORDS))
@pytest.mark.parametrize(("spoil", "words"), [pytest.param(s, w, id=n) for n, s, w in BAD_MARKS])
def test_a_bad_annotation(
    ecgfed: Command, fedavg_run: Path, tmp_path: Path, kind: str, spoil: Spoil, words: tuple[str, ...]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    record = RECORDS[kind](folder)
    _atr(folder, [int(s) for s in AT if s < WHOLE])
    spoil(folder)
    out = ("--out", tmp_path / "out", "--lead", "MLII")
    for command in (
        ("prepare", "folder", folder, *out, "--workers", 1),
        ("predict", exported(fedavg_run), record, *out, "--peaks", "annotated"),
        ("convert", record, *out, "--annotator", "atr"),
    ):
        assert_refused(ecgfed(*command), *words)
        assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("kind", list(RECORDS))
def test_a_good_recording_of_each_format_passes(ecgfed: Command, fedavg_run: Path, tmp_path: Path, kind: str) -> None:
    """What the tables above spoil is sound."""
    folder = tmp_path / "in"
    folder.mkdir()
    record = RECORDS[kind](folder)
    _atr(folder, [int(s) for s in AT if s < WHOLE])
    for command in (
        ("prepare", "folder", folder, "--out", tmp_path / "c", "--workers", 1),
        ("predict", exported(fedavg_run), record, "--out", tmp_path / "p", "--peaks", "annotated"),
        ("convert", record, "--out", tmp_path / "w"),
    ):
        said = ecgfed(*command, "--quiet")
        assert (said.code, said.out, said.err) == (0, "", "")
    shutil.rmtree(tmp_path / "w")


def test_gaps_flag_the_beats_beside_them(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    """One second of NaN in a table is no error: the beats that touch it carry the flag of poor quality."""
    folder = tmp_path / "in"
    folder.mkdir()
    record = csv_record(folder)
    _atr(folder, [int(s) for s in AT if s < WHOLE])
    lines = record.read_text().splitlines()
    lines[3601:3961] = [row.split(",")[0] + "," for row in lines[3601:3961]]
    record.write_text("\n".join(lines))
    command = ("predict", exported(fedavg_run), record, "--peaks", "annotated", "--out", tmp_path / "p", "--quiet")
    assert ecgfed(*command).code == 0
    with (tmp_path / "p" / "r.csv").open(newline="") as stream:
        flagged = {int(row["sample"]) for row in csv.DictReader(stream) if int(row["flags"]) & 2}
    touching = {int(s) for s in AT if s - 100 < 3960 and s + 156 > 3600}
    assert flagged == touching
    assert flagged


@pytest.mark.parametrize("command", ["predict", "convert", "prepare", "train", "evaluate"])
def test_a_link_to_itself_is_one_line(ecgfed: Command, tmp_path: Path, command: str) -> None:
    """Python 3.11 and 3.12 raise RuntimeError where such a path is resolved."""
    record, loop = wfdb_record(tmp_path), tmp_path / "loop"
    loop.symlink_to("loop")
    arguments = {
        "predict": ("predict", record, "--out", loop),
        "convert": ("convert", record, "--out", loop),
        "prepare": ("prepare", "demo", "--out", loop, "--records", tmp_path / "records"),
        "train": ("train", loop, "--out", tmp_path / "run"),
        "evaluate": ("evaluate", loop),
    }
    assert_refused(ecgfed(*arguments[command], "--quiet"), "loop")
    assert loop.is_symlink()
