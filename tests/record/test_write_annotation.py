"""Annotation files of our own writing, beside those of the wfdb package."""

from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import given, settings
from hypothesis import strategies as st
from record_files import END, mark, skip
from refusals import refuses

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.annotations import OTHER_SYMBOLS
from ecgfed.domain.record.recording import BEAT_SYMBOLS, Annotation, Recording
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.domain.record.wfdb_writer import annotation_bytes, record_bytes

#: A mark: samples since the one before, symbol, subtype, note.
MARK = st.tuples(
    st.one_of(st.integers(0, 2000), st.sampled_from([0, 1023, 1024, 2**16, 2**31 - 1, 2**31, 2**33])),
    st.sampled_from(sorted(BEAT_SYMBOLS | OTHER_SYMBOLS)),
    st.integers(-128, 127),
    st.text(st.characters(codec="latin-1", categories=("L", "N", "P")), max_size=120),
)


def annotation(marks: list[tuple[int, str, int, str]]) -> Annotation:
    since, symbols, subtypes, notes = zip(*marks, strict=True)
    return Annotation(np.cumsum(since), np.array(symbols), tuple(notes), np.array(subtypes))


@settings(max_examples=60, deadline=None)
@given(marks=st.lists(MARK, min_size=1, max_size=20), fs_hz=st.sampled_from([360.0, 250.0, 128.5, 500.25, 1000.0]))
def test_every_byte_is_what_the_wfdb_package_writes(
    tmp_path_factory: pytest.TempPathFactory, marks: list[tuple[int, str, int, str]], fs_hz: float
) -> None:
    made = annotation(marks)
    folder = tmp_path_factory.mktemp("theirs")
    notes = [note.encode()[:255].decode("latin-1") for note in made.note]  # it writes a letter as one byte
    wfdb.wrann(
        "r", "atr", made.sample, made.symbol.tolist(), subtype=made.subtypes, aux_note=notes, fs=fs_hz, write_dir=folder
    )
    assert annotation_bytes(made, fs_hz) == (folder / "r.atr").read_bytes()


def test_the_words_are_those_of_the_specification() -> None:
    """Without what is said of the file: two beats 100 samples apart, and one after a pause of 100,000."""
    made = annotation([(300, "N", 0, ""), (100, "V", 0, ""), (100_000, "N", 0, "")])
    data = annotation_bytes(made, 360.0)
    assert b"## time resolution: 360" in data
    assert data.endswith(mark("N", 300) + mark("V", 100) + skip(100_000) + mark("N", 0) + END)


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    made = annotation([(5, "N", 0, ""), (0, "+", 0, "(AFIB"), (5000, "~", 3, ""), (1, "V", -1, "\u5fc3 x" * 200)])
    path = tmp_path / "r.atr"
    path.write_bytes(annotation_bytes(made, 360.0))
    read = read_annotation_file(path)
    assert read.sample.tolist() == [5, 5, 5005, 5006]
    assert read.symbol.tolist() == ["N", "+", "~", "V"]
    assert read.subtypes.tolist() == [0, 0, 3, -1]
    assert read.note[1] == "(AFIB"
    assert read.note[3].encode("latin-1") == (" ".join(made.note[3].split()).encode())[:255]


@pytest.mark.parametrize("note", ["## x", "## time resolution: 7"])
def test_a_note_that_wfdb_would_take_for_its_own_is_refused(note: str) -> None:
    """Behind it, rdann loses the mark or never ends."""
    signal = np.sin(np.arange(3600) / 20)[None]
    recording = Recording("r", Path("r"), "MLII", ("MLII",), 360.0, signal, (), files=())
    lost = Annotation(np.array([0, 180]), np.array(['"', "N"]), (note, ""))
    with refuses(RecordError, "invalid-record"):
        record_bytes(recording, "r", lost)
    later = Annotation(np.array([90, 180]), np.array(['"', "N"]), (note, ""))
    assert set(record_bytes(recording, "r", later)[0]) == {"hea", "dat", "atr"}
