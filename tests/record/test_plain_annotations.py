"""Plain annotations are read without the wfdb package, and as that reads them."""

from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecgfed.domain.record.wfdb_marks import PlainMarks, plain_marks


def word(code: int, number: int) -> bytes:
    return (code << 10 | number).to_bytes(2, "little")


def wait(samples: int) -> bytes:
    """A wait of 32 bits, its high half first, as annot(5) has it."""
    whole = samples & 0xFFFFFFFF
    return word(59, 0) + (whole >> 16).to_bytes(2, "little") + (whole & 0xFFFF).to_bytes(2, "little")


def text(said: bytes) -> bytes:
    return word(63, len(said)) + said + b"\0" * (len(said) % 2)


END = word(0, 0)
QUALIFIERS = st.lists(
    st.one_of(
        st.integers(0, 255).map(lambda value: word(60, value)),
        st.integers(0, 1023).map(lambda value: word(61, value)),
        st.integers(0, 255).map(lambda value: word(62, value)),
        st.binary(min_size=1, max_size=9).map(text),
    ),
    max_size=3,
)
MARK = st.tuples(
    st.one_of(st.just(b""), st.integers(-5000, 10**7).map(wait)),
    st.tuples(st.integers(1, 49), st.integers(0, 1023)).map(lambda pair: word(*pair)),
    QUALIFIERS.map(b"".join),
).map(b"".join)


def assert_same(plain: PlainMarks, path: Path) -> None:
    found = wfdb.rdann(str(path.with_suffix("")), path.suffix.removeprefix("."))
    np.testing.assert_array_equal(plain.sample, found.sample)
    assert plain.symbol == found.symbol
    assert plain.note == [str(note).rstrip("\0") for note in found.aux_note]
    np.testing.assert_array_equal(plain.subtype, found.subtype)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(marks=st.lists(MARK, min_size=1, max_size=8))
def test_what_is_plain_is_what_wfdb_reads(tmp_path: Path, marks: list[bytes]) -> None:
    (tmp_path / "r.atr").write_bytes(b"".join(marks) + END)
    if plain := plain_marks((tmp_path / "r.atr").read_bytes()):
        assert_same(plain, tmp_path / "r.atr")


def test_a_file_by_hand(tmp_path: Path) -> None:
    """N at 18, a rhythm note 300,000 samples on, and a V of subtype -1 a second later."""
    raw = word(1, 18) + wait(300_000) + word(28, 0) + text(b"(AFIB\0") + word(5, 360) + word(61, 1023) + END
    assert plain_marks(raw) == ([18, 300_018, 300_378], ["N", "+", "V"], ["", "(AFIB", ""], [0, 0, -1])
    (tmp_path / "r.atr").write_bytes(raw)
    assert_same(PlainMarks(*plain_marks(raw) or ()), tmp_path / "r.atr")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        word(1, 18),  # no end mark
        word(1, 18) + END + word(1, 5),  # wfdb reads on
        word(1, 18) + END[:1],
        word(1, 18) + text(b"## time resolution: 250") + END,
        word(61, 1) + word(1, 18) + END,  # qualifies nothing
        word(42, 1) + END,  # a code of somebody's own
        word(1, 18) + word(63, 200) + b"short",
        word(1, 18) + word(61, 1) + word(61, 2) + END,
        wait(5)[:4],
    ],
)
def test_what_could_be_read_otherwise_is_left_to_wfdb(raw: bytes) -> None:
    assert plain_marks(raw) is None


@pytest.mark.mitdb
def test_every_annotation_of_mit_bih_is_plain(mitdb: Path) -> None:
    files = sorted(mitdb.glob("*.atr"))
    assert len(files) == 48
    for path in files:
        plain = plain_marks(path.read_bytes())
        assert plain is not None, path
        assert_same(plain, path)
