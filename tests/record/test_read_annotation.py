"""Reading annotations: which marks are beats, and files that end too early."""

from pathlib import Path

import numpy as np
import pytest
from record_files import END, aux, copy_record, cut, mark, skip

from ecgfed.errors import RecordError
from ecgfed.record.wfdb_files import read_annotation

#: Marks at 10, 110, 150, 2150, 72,000 and 72,300, one of them a rhythm change with an odd and zero-ended text.
WHOLE = (
    mark("+", 10)
    + aux(b"(N\0")
    + mark("N", 100)
    + mark("~", 40)
    + skip(2000)
    + mark("V", 0)
    + skip(69_850)
    + mark("A", 0)
    + mark("N", 300)
    + END
)
SAMPLES, SYMBOLS = [10, 110, 150, 2150, 72_000, 72_300], ["+", "N", "~", "V", "A", "N"]
#: The published beats of all 48 records, shared ecg-facts and the database's directory.
ALL_BEATS = {
    "N": 75052,
    "L": 8075,
    "R": 7259,
    "V": 7130,
    "/": 7028,
    "A": 2546,
    "f": 982,
    "F": 803,
    "j": 229,
    "a": 150,
    "E": 106,
    "J": 83,
    "Q": 33,
    "e": 16,
    "S": 2,
}


def fails(record: Path, samples: int | None = None) -> str:
    with pytest.raises(RecordError) as caught:
        read_annotation(record, samples=samples)
    line = caught.value.line
    assert "\n" not in line
    assert str(record.with_suffix(".atr")) in line
    return line


def test_marks_stand_where_they_were_written_and_beats_leave_out_the_rest(tmp_path: Path) -> None:
    (tmp_path / "r.atr").write_bytes(WHOLE)
    read = read_annotation(tmp_path / "r")
    assert (read.sample.tolist(), read.symbol.tolist()) == (SAMPLES, SYMBOLS)
    assert read.sample.dtype == np.int64
    beats = read.beats()
    assert (beats.sample.tolist(), beats.symbol.tolist()) == ([110, 2150, 72_000, 72_300], ["N", "V", "A", "N"])


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    """Every length short of the whole, odd and even; two of them end in zeros that are no end mark."""
    zeros = [size for size in range(2, len(WHOLE), 2) if WHOLE[size - 2 : size] == END]
    assert len(zeros) == 2
    for size in range(len(WHOLE)):
        (tmp_path / "r.atr").write_bytes(WHOLE[:size])
        assert "cut short" in fails(tmp_path / "r"), size


@pytest.mark.parametrize(("missing", "last"), [(2, 72_300), (3, 72_000), (4, 72_000), (5, 2150), (12, 2150)])
def test_a_cut_file_says_where_its_last_mark_stands(tmp_path: Path, missing: int, last: int) -> None:
    (tmp_path / "r.atr").write_bytes(WHOLE[:-missing])
    assert f"last whole mark is at sample {last}," in fails(tmp_path / "r")


def test_a_file_with_no_mark_at_all_says_so(tmp_path: Path) -> None:
    (tmp_path / "r.atr").write_bytes(b"\1")
    assert "no mark can be read" in fails(tmp_path / "r")


def test_a_missing_annotation_is_named_with_its_option(tmp_path: Path) -> None:
    line = fails(tmp_path / "r")
    assert "does not exist" in line
    assert "--annotator" in line


def test_another_annotator_is_read_from_its_own_suffix(tmp_path: Path) -> None:
    (tmp_path / "r.qrs").write_bytes(mark("N", 5) + END)
    assert read_annotation(tmp_path / "r", "qrs").sample.tolist() == [5]


def test_a_mark_beyond_the_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.atr").write_bytes(WHOLE)
    assert len(read_annotation(tmp_path / "r", samples=72_301).sample) == 6
    line = fails(tmp_path / "r", samples=72_300)
    assert "mark at sample 72300" in line
    assert "0 to 72299" in line


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.atr").write_bytes(WHOLE)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("ecgfed.gate.open_regular", refuse)
    assert "Permission denied" in fails(tmp_path / "r")


@pytest.mark.mitdb
def test_the_48_records_hold_the_published_beats(mitdb: Path) -> None:
    found: dict[str, int] = {}
    records = sorted(path.with_suffix("") for path in mitdb.glob("???.atr"))
    for record in records:
        for symbol in read_annotation(record, samples=650_000).beats().symbol.tolist():
            found[symbol] = found.get(symbol, 0) + 1
    assert len(records) == 48
    assert found == ALL_BEATS
    assert sum(found.values()) == 109_494


@pytest.mark.mitdb
def test_record_104_cut_where_its_bytes_are_zero_is_refused(mitdb: Path, tmp_path: Path) -> None:
    record = copy_record(mitdb / "104", tmp_path)
    whole = (tmp_path / "104.atr").read_bytes()
    zeros = [size for size in range(2, len(whole), 2) if whole[size - 2 : size] == END]
    assert len(zeros) > 10  # the texts of its rhythm changes end so
    for size in (zeros[0], zeros[len(zeros) // 2], zeros[-1], len(whole) - 2, len(whole) // 2 | 1):
        (tmp_path / "104.atr").write_bytes(whole)
        cut(tmp_path / "104.atr", size)
        assert "cut short" in fails(record)
