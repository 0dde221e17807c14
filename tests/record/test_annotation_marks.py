"""Annotation files are read as the wfdb package reads them, or refused."""

from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.wfdb_marks import SYMBOLS, Marks, read_marks


def word(code: int, number: int) -> bytes:
    return (code << 10 | number).to_bytes(2, "little")


def wait(samples: int) -> bytes:
    """A wait of 32 bits, its high half first, as annot(5) has it."""
    whole = samples & 0xFFFFFFFF
    return word(59, 0) + (whole >> 16).to_bytes(2, "little") + (whole & 0xFFFF).to_bytes(2, "little")


def text(said: bytes) -> bytes:
    return word(63, len(said)) + said + b"\0" * (len(said) % 2)


END = word(0, 0)
PATH = Path("r.atr")
QUALIFIERS = st.lists(
    st.one_of(
        st.integers(0, 255).map(lambda value: word(60, value)),
        st.integers(0, 1023).map(lambda value: word(61, value)),
        st.integers(0, 255).map(lambda value: word(62, value)),
        st.binary(min_size=1, max_size=9).filter(lambda note: not note.startswith(b"## ")).map(text),
    ),
    max_size=4,
    unique_by=lambda qualifier: qualifier[1] >> 2,  # wfdb loses its columns where a mark has two of a kind
)
MARK = st.tuples(
    st.one_of(st.just(b""), st.integers(-5000, 10**7).map(wait)),
    st.tuples(st.sampled_from(sorted(set(SYMBOLS) - {22})), st.integers(0, 1023)).map(lambda pair: word(*pair)),
    QUALIFIERS.map(b"".join),
).map(b"".join)


def assert_same(plain: Marks, path: Path) -> None:
    found = wfdb.rdann(str(path.with_suffix("")), path.suffix.removeprefix("."))
    np.testing.assert_array_equal(plain.sample, found.sample)
    assert plain.symbol == found.symbol
    assert plain.note == [str(note).rstrip("\0") for note in found.aux_note]
    np.testing.assert_array_equal(plain.subtype, found.subtype)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(marks=st.lists(MARK, min_size=1, max_size=8))
def test_marks_are_those_that_wfdb_reads(tmp_path: Path, marks: list[bytes]) -> None:
    (tmp_path / "r.atr").write_bytes(b"".join(marks) + END)
    assert_same(read_marks((tmp_path / "r.atr").read_bytes(), PATH), tmp_path / "r.atr")


def test_a_file_by_hand(tmp_path: Path) -> None:
    """N at 18, a rhythm note 300,000 samples on, and a V of subtype -1 a second later."""
    raw = word(1, 18) + wait(300_000) + word(28, 0) + text(b"(AFIB\0") + word(5, 360) + word(61, 1023) + END
    expected = Marks([18, 300_018, 300_378], ["N", "+", "V"], ["", "(AFIB", ""], [0, 0, -1])
    assert read_marks(raw, PATH) == expected
    (tmp_path / "r.atr").write_bytes(raw)
    assert_same(expected, tmp_path / "r.atr")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "cut short"),
        (word(1, 18), "cut short"),
        (word(1, 18) + END[:1], "cut short"),
        (word(1, 18) + word(63, 200) + b"short", "cut short"),
        (wait(5)[:4], "cut short"),
        (word(1, 18) + END + word(1, 5), "data after its end mark"),
        (word(61, 1) + word(1, 18) + END, "begins with what belongs to a mark"),
    ],
)
def test_broken_files_are_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(RecordError, match=problem):
        read_marks(raw, PATH)


def test_codes_are_defined_by_the_file_or_numbered(tmp_path: Path) -> None:
    """The WFDB library writes a code without a symbol as ``[15]`` too (annstr); comments at sample 0 are marks."""
    notes = ("## annotation type definitions", "42 x mine", "## end of definitions")
    own = b"".join(word(22, 0) + text(note.encode()) for note in notes)
    raw = own + word(22, 0) + text(b"resting") + word(42, 5) + word(15, 5) + END
    assert read_marks(raw, PATH) == Marks([0, 5, 10], ['"', "x", "[15]"], ["resting", "", ""], [0, 0, 0])


@pytest.mark.mitdb
def test_every_annotation_of_mit_bih(mitdb: Path) -> None:
    files = sorted(mitdb.glob("*.atr"))
    assert len(files) == 48
    for path in files:
        assert_same(read_marks(path.read_bytes(), path), path)
