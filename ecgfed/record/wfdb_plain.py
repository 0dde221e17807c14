"""Headers that leave nothing to be read in two ways: what the wfdb package would say of them, without it.

Importing that package takes as long as classifying half an hour. A header is plain where each field is written in the
one common way, in ASCII: the record line without time and date, signal lines with a format alone (no frames, skew or
offset), a gain without exponent, all five numbers and a description. Any other header is read by wfdb and compared.
"""

import re
from dataclasses import dataclass

from ecgfed.record.wfdb_grammar import HeaderLines, content, header_text

_RECORD = re.compile(r"[A-Za-z0-9_-]+[ \t]+[0-9]{1,3}[ \t]+[0-9]{1,5}(?:\.[0-9]{1,9})?[ \t]+[0-9]{1,12}")
_SIGNAL = re.compile(
    r"[A-Za-z0-9_-]+\.[A-Za-z0-9_]+[ \t]+[0-9]{1,3}"
    r"[ \t]+[0-9]{1,9}(?:\.[0-9]{1,9})?(?:\(-?[0-9]{1,9}\))?(?:/[A-Za-z]{1,8})?"
    r"[ \t]+[0-9]{1,3}(?:[ \t]+-?[0-9]{1,9}){3}[ \t]+[0-9]{1,9}[ \t]+[!-~][ -~]*"
)


@dataclass
class PlainHeader:
    """A record of one segment, its fields called as the wfdb package calls them; what is not said is None there too."""

    n_sig: int
    sig_len: int
    fs: int | float
    file_name: list[str]
    fmt: list[str]
    samps_per_frame: list[int]
    skew: list[int | None]
    byte_offset: list[int | None]
    adc_gain: list[float]
    calibrated: list[bool]
    baseline: list[int]
    init_value: list[int | None]
    checksum: list[int | None]
    sig_name: list[str]
    comments: list[str]
    n_seg: None = None


def plain_header(said: HeaderLines) -> PlainHeader | None:
    """Return a header as wfdb would read it, None where that may be another than the grammar reads."""
    text = header_text(said.path)
    lines = [line for _, line in content(text)]
    plain = text.isascii() and _RECORD.fullmatch(lines[0]) and all(map(_SIGNAL.fullmatch, lines[1:]))
    if not plain or said.segments is not None or said.samples is None:
        return None
    signals = said.lines
    return PlainHeader(
        said.signals,
        said.samples,
        int(said.fs_hz) if said.fs_hz == int(said.fs_hz) else said.fs_hz,
        [one.file for one in signals],
        [str(one.fmt) for one in signals],
        [1] * len(signals),
        [None] * len(signals),
        [None] * len(signals),
        [one.gain for one in signals],
        [one.calibrated for one in signals],
        [one.baseline for one in signals],
        [one.initial for one in signals],
        [one.checksum for one in signals],
        [one.description for one in signals],
        [line.strip().strip(" \t#") for line in text.splitlines() if line.strip().startswith("#")],
    )
