"""Reading annotations: which marks are beats, and files that end too early."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import wfdb
from record_files import END, aux, copy_record, cut, mark, skip, write_212, write_signals
from refusals import refuses

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.annotations import end_note
from ecgfed.domain.record.reader import read_annotation as read_any
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.domain.record.wfdb_files import read_annotation
from ecgfed.tasks.ec57 import score_ec57

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
    **{"N": 75052, "L": 8075, "R": 7259, "V": 7130, "/": 7028, "A": 2546, "f": 982, "F": 803, "j": 229, "a": 150},
    **{"E": 106, "J": 83, "Q": 33, "e": 16, "S": 2},
}


def fails(record: Path, samples: int | None = None) -> tuple[str, str | None]:
    with pytest.raises(RecordError) as caught:
        read_annotation(record, samples=samples)
    line = caught.value.line
    assert str(record.with_suffix(".atr")) in line
    return caught.value.code, caught.value.parameter


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
        assert fails(tmp_path / "r") == ("invalid-record", None)


@pytest.mark.parametrize(("missing", "last"), [(2, 72_300), (3, 72_000), (4, 72_000), (5, 2150), (12, 2150)])
def test_a_cut_file_says_where_its_last_mark_stands(tmp_path: Path, missing: int, last: int) -> None:
    (tmp_path / "r.atr").write_bytes(WHOLE[:-missing])
    with pytest.raises(RecordError, match=f"last whole mark is at sample {last},"):
        read_annotation(tmp_path / "r")


def test_a_missing_annotation_is_named_with_its_option(tmp_path: Path) -> None:
    assert fails(tmp_path / "r") == ("invalid-record", "annotator")


def test_a_mark_beyond_the_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.atr").write_bytes(WHOLE)
    assert len(read_annotation(tmp_path / "r", samples=72_301).sample) == 6
    assert fails(tmp_path / "r", samples=72_300) == ("invalid-record", None)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.atr").write_bytes(WHOLE)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("ecgfed.base.safe_io.open_regular", refuse)
    assert fails(tmp_path / "r") == ("invalid-record", None)


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
        assert fails(record) == ("invalid-record", None)


def resampled(folder: Path, stated: bytes, *marks: bytes, fs: str = "1000", samples: int = 2000) -> Path:
    """A recording of one lead, and marks that count as ``stated`` says."""
    record = write_212(folder, "r", [[1024] * samples], leads=("MLII",), fs=fs)
    (folder / "r.atr").write_bytes(note(b"## time resolution: " + stated) + b"".join(marks) + END)
    return record


def note(text: bytes) -> bytes:
    """A note at sample 0 (code 22 of annot(5))."""
    return (22 << 10).to_bytes(2, "little") + aux(text)


@pytest.mark.parametrize(
    ("fs", "stated", "counted", "expected"),
    [
        ("1000", b"360", [36, 361, 719], [100, 1003, 1997]),  # 36 / 360 s, 1002.8, 1997.2
        ("250", b"1000", [2, 998, 1998], [1, 250, 500]),  # 0.5 and 249.5 go up, as in the WFDB library
        ("360", b"128.5", [257], [720]),
        ("360", b"360", [36, 361], [36, 361]),
        ("1000", b"360.0", [36], [100]),
    ],
)
def test_marks_are_counted_at_the_rate_that_their_file_states(
    tmp_path: Path, fs: str, stated: bytes, counted: list[int], expected: list[int]
) -> None:
    marks = [mark("N", step) for step in np.diff(counted, prepend=0).tolist()]
    record = resampled(tmp_path, stated, *marks, fs=fs)
    assert read_annotation(record).sample.tolist() == expected
    assert read_annotation(record, fs_hz=float(fs), samples=2000).sample.tolist() == expected
    assert read_any(read_recording(record)).sample.tolist() == expected


def test_a_mark_in_the_last_half_sample_stays_inside(tmp_path: Path) -> None:
    record = resampled(tmp_path, b"1000", skip(7999), mark("N", 0), fs="250")  # 1999.75 of 2000 samples
    assert read_annotation(record, samples=2000).sample.tolist() == [1999]
    resampled(tmp_path, b"1000", skip(8000), mark("N", 0), fs="250")
    assert read_annotation(record, samples=2000).beyond_end == ("N",)
    resampled(tmp_path, b"1000", skip(9000), mark("N", 0), fs="250")  # a second after the end: another recording's
    assert fails(record, samples=2000) == ("invalid-record", None)


@pytest.mark.parametrize(
    "stated", [b"", b"0", b"abc", b"-360", b"+360", b"1_0", b"inf", b"nan", b"1e99", b" 360", b"36O"]
)
def test_a_time_resolution_that_is_no_number_is_refused(tmp_path: Path, stated: bytes) -> None:
    assert fails(resampled(tmp_path, stated, mark("N", 5))) == ("invalid-record", None)


@pytest.mark.parametrize("text", [b"## mine", b"## time resolution:360", b"## time resolution: 250"])
def test_an_unknown_note_of_the_library_is_refused(tmp_path: Path, text: bytes) -> None:
    record = resampled(tmp_path, b"360", note(text), mark("N", 5))
    assert fails(record) == ("invalid-record", None)
    (tmp_path / "r.atr").write_bytes(mark("N", 0) + aux(b"## mine") + note(b"") + END)
    assert read_annotation(record).note == ("## mine", "")


def test_other_notes_are_none_of_the_files_own(tmp_path: Path) -> None:
    record = resampled(tmp_path, b"360", mark("N", 36), note(b"## time resolution: 1"), fs="360")
    assert read_annotation(record).sample.tolist() == [36, 36]
    known = note(b"## annotation type definitions") + note(b"42 x mine") + note(b"## end of definitions")
    resampled(tmp_path, b"360", known, mark("N", 36))
    assert read_annotation(record).sample.tolist() == [100]


@pytest.mark.mitdb
def test_marks_at_360_hz_are_those_of_the_recording_at_1000_hz(mitdb: Path, tmp_path: Path) -> None:
    """Scored as the recording's own, each within half a sample."""
    own = read_annotation(mitdb / "208")
    samples = round(650_000 / 360 * 1000)
    (tmp_path / "r.hea").write_text(f"r 1 1000 {samples}\nr.dat 16 200/mV 16 0 0 0 0 MLII\n")
    (tmp_path / "r.dat").write_bytes(bytes(2 * samples))
    beats = own.beats()
    wfdb.wrann("r", "hr", beats.sample, beats.symbol.tolist(), fs=360, write_dir=str(tmp_path))
    at = np.floor(beats.sample / 360 * 1000 + 0.5).astype(int)
    wfdb.wrann("r", "atr", at, beats.symbol.tolist(), fs=1000, write_dir=str(tmp_path))
    total = score_ec57(tmp_path / "r", "hr", start="0:00").total
    assert total.average["qrs_se"] == total.gross.qrs_f1 == 100.0
    assert np.abs(read_annotation(tmp_path / "r", "hr").sample - beats.sample / 0.36).max() <= 0.5 + 1e-6


def test_ec57_names_its_own_options(tmp_path: Path) -> None:
    resampled(tmp_path, b"360", mark("N", 36))
    for test, reference, parameter in (("nope", "atr", "test"), ("atr", "nope", "reference")):
        with refuses(RecordError, "invalid-record", parameter):
            score_ec57(tmp_path / "r", test, reference=reference, start="0:00")


def test_the_annotation_of_a_repaired_record_ends_with_it(tmp_path: Path) -> None:
    samples, beats = 250 * 40, np.arange(100, 250 * 40, 200)
    write_signals(tmp_path, "r", np.zeros(samples), fs_hz=250, adc_gain=200.0)
    wfdb.wrann("r", "atr", beats, ["N"] * (len(beats) - 1) + ["V"], write_dir=str(tmp_path))
    with (tmp_path / "r.dat").open("r+b") as stream:
        stream.truncate(samples)
    recording = read_recording(tmp_path / "r", how=ReadOptions(repair=True))
    assert recording.samples == samples // 2
    annotation = read_any(recording)
    assert annotation.sample.tolist() == beats[beats < samples // 2].tolist()
    assert Counter(annotation.beyond_end) == {"N": int((beats >= samples // 2).sum()) - 1, "V": 1}
    assert "25 annotations" in end_note(annotation)
