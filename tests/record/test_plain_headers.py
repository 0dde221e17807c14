"""Plain headers are read without the wfdb package, and as that reads them."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import wfdb
from conftest import write_record
from hypothesis import given, settings
from hypothesis import strategies as st

from ecgfed.domain.record.reader import open_recording, read_recording
from ecgfed.domain.record.wfdb_grammar import read_lines
from ecgfed.domain.record.wfdb_header import read_header
from ecgfed.domain.record.wfdb_plain import PlainHeader, plain_header


def assert_same(plain: PlainHeader, path: Path) -> None:
    """Every field of it is wfdb's; what a header leaves out is the grammar's, as for any other header."""
    said, whole = read_lines(path), wfdb.rdheader(str(path.with_suffix("")))
    for name in ("n_sig", "sig_len", "file_name", "fmt", "comments", "sig_name"):
        assert getattr(plain, name) == getattr(whole, name), name
    assert [one or 1 for one in whole.samps_per_frame] == plain.samps_per_frame
    for none in (whole.skew, plain.skew, whole.byte_offset, plain.byte_offset):
        assert not any(none)
    assert plain.checksum == whole.checksum
    assert plain.fs == whole.fs == said.fs_hz
    for ours, theirs, zero in zip(plain.adc_gain, whole.adc_gain, plain.baseline, strict=True):
        assert ours == (theirs or 200.0)
        assert isinstance(zero, int)
    assert plain.baseline == whole.baseline
    assert {one.name for one in fields(plain)} <= {*vars(whole), "n_seg", "calibrated"}


NAME = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
WORDS = st.from_regex(r"[!-~][ -~]{0,12}", fullmatch=True).map(str.strip).filter(lambda text: text and text[0] != "#")
WHOLE = st.integers(-99_999, 99_999)


@st.composite
def headers(draw: st.DrawFn) -> str:
    count = draw(st.integers(1, 3))
    fs = draw(st.one_of(st.integers(100, 20_000).map(str), st.floats(100, 9999).map(lambda value: f"{value:.3f}")))
    lines = [f"r {count} {fs} {draw(st.integers(1, 10**8))}"]
    for _ in range(count):
        gain = draw(st.one_of(st.just("0"), st.floats(0.001, 99_999).map(lambda value: f"{value:.4f}"), st.just("200")))
        gain += draw(st.one_of(st.just(""), WHOLE.map(lambda value: f"({value})")))
        gain += draw(st.sampled_from(["", "/mV", "/uV", "/mmHg"]))
        numbers = f"{draw(st.integers(0, 32))} {draw(WHOLE)} {draw(WHOLE)} {draw(WHOLE)} {draw(st.integers(0, 512))}"
        blank = draw(st.sampled_from([" ", "  ", "\t"]))
        fmt = draw(st.sampled_from(["16", "212", "80", "24", "32", "8", "310"]))
        lines.append(blank.join([f"{draw(NAME)}.dat", fmt, gain, *numbers.split(), draw(WORDS)]))
    return "\n".join([*lines, *(f"# {draw(WORDS)}" for _ in range(draw(st.integers(0, 2))))]) + "\n"


@settings(max_examples=200, deadline=None)
@given(headers())
def test_what_is_plain_is_read_as_wfdb_reads_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "r.hea"
    path.write_text(text)
    plain = plain_header(read_lines(path))
    assert plain is not None, text
    assert_same(plain, path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r 1 360", "r 1 360/24(0)"),
        (" 100\n", " 100 12:00:00 1/1/2000\n"),
        ("212 200", "212x2 200"),
        ("212 200", "212:3 200"),
        ("212 200", "212+10 200"),
        ("200 ", "2e2 "),
        ("200 ", "+200 "),
        (" MLII", ""),
        ("MLII", "Ableitung Ä"),
        ("# fine", "# naïve"),
        ("r.dat", "a/r.dat"),
    ],
)
def test_anything_else_is_not_plain(tmp_path: Path, old: str, new: str) -> None:
    text = "r 1 360 100\nr.dat 212 200 11 1024 995 -5 0 MLII\n# fine\n"
    (tmp_path / "r.hea").write_text(text)
    assert plain_header(read_lines(tmp_path / "r.hea")) is not None
    assert old in text
    (tmp_path / "r.hea").write_text(text.replace(old, new))
    assert plain_header(read_lines(tmp_path / "r.hea")) is None


def test_a_short_record_is_opened_as_it_is_read(tmp_path: Path) -> None:
    record = write_record(tmp_path, "r", "NNNV" * 5, comments=["age: 60", "# sure"])
    for leads, every_lead in ((("MLII",), False), (("V1",), True), ((), True)):
        opened, read = (read(record, leads, every_lead=every_lead) for read in (open_recording, read_recording))
        np.testing.assert_array_equal(opened.signals_mv, read.signals_mv)
        for name in ("name", "path", "lead", "leads", "fs_hz", "comments", "files", "skipped", "requested_as"):
            assert getattr(opened, name) == getattr(read, name), name
        assert type(opened) is type(read)
    assert isinstance(read_header(record), PlainHeader)


@pytest.mark.mitdb
def test_the_48_real_records_are_plain_and_read_alike(mitdb: Path) -> None:
    paths = sorted(mitdb.glob("*.hea"))
    assert len(paths) == 48
    for path in paths:
        plain = plain_header(read_lines(path))
        assert plain is not None, path
        assert_same(plain, path)
