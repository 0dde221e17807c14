"""Headers that leave nothing to be read in two ways: what the wfdb package would say of them, without it.

Importing that package takes as long as classifying half an hour. A header is plain where each field is written in the
one common way, in ASCII: the record line without time and date, signal lines with a format alone (no frames, skew or
offset), a gain without exponent, all five numbers and a description. Any other header is read by wfdb and compared.
"""

import re
from dataclasses import dataclass

from ecgfed.domain.record.wfdb_grammar import HeaderLines, content, header_text

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


def plain_header(header: HeaderLines) -> PlainHeader | None:
    """Return a header as wfdb would read it, None where that may be another than the grammar reads."""
    text = header_text(header.path)
    lines = [line for _, line in content(text)]
    plain = text.isascii() and _RECORD.fullmatch(lines[0]) and all(map(_SIGNAL.fullmatch, lines[1:]))
    if not plain or header.segments is not None or header.samples is None:
        return None
    signals = header.lines
    return PlainHeader(
        header.signals,
        header.samples,
        int(header.fs_hz) if header.fs_hz == int(header.fs_hz) else header.fs_hz,
        [signal.file for signal in signals],
        [str(signal.fmt) for signal in signals],
        [1] * len(signals),
        [None] * len(signals),
        [None] * len(signals),
        [signal.gain for signal in signals],
        [signal.calibrated for signal in signals],
        [signal.baseline for signal in signals],
        [signal.initial for signal in signals],
        [signal.checksum for signal in signals],
        [signal.description for signal in signals],
        [line.strip().strip(" \t#") for line in text.splitlines() if line.strip().startswith("#")],
    )
