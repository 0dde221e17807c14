"""ISHNE: leads, gaps, both ways of counting samples, and headers that will not do."""

import struct
from pathlib import Path

import hospital_files as made
import numpy as np
import pytest
from hospital_records import STEPS, fails, ishne, written

from ecgfed.domain.record.reader import read_recording


def test_ishne_leads_gaps_text_and_both_ways_of_counting(tmp_path: Path) -> None:
    steps = [list(lead) for lead in STEPS]
    steps[1][5] = -32768
    raw = made.ishne_bytes(steps, codes=(0, 19), text=b"said by Quix\0", samples=1200)
    read = read_recording(written(tmp_path, "r.ecg", raw), every_lead=True)
    assert read.leads == ("AI",)  # a channel without a code is no ECG beside one that has a lead's
    assert np.isnan(read.signals_mv[0]).nonzero()[0].tolist() == [5]
    assert "text: said by Quix" in read.comments
    assert "start time: 13:14:15" in read.comments
    swapped = struct.unpack(">H", struct.pack("<H", made.crc_ccitt(ishne()[10:522])))[0]
    for checksum in (0, swapped):
        read_recording(written(tmp_path, "r.ecg", ishne(checksum=checksum)))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"checksum": 1}, "checksum 0x0001 of the header"),
        ({"samples": 601}, "holds 600 samples of 2 leads; expected 601"),
        ({"samples": 2**31 - 1}, "expected 2147483647"),
        ({"samples": -1}, "expected -1"),
        ({"start": 520}, "samples begin at byte 520"),
        ({"fs": 0}, "sampling frequency 0 Hz"),
        ({"fs": -1}, "sampling frequency -1 Hz"),
        ({"resolutions_nv": (0, 1)}, "lead 1 has a step of 0 nV"),
        ({"codes": (6, -9)}, "lead 2 of 2 is marked as absent"),
    ],
)
def test_ishne_that_will_not_do(tmp_path: Path, how: dict[str, object], words: str) -> None:
    assert words in fails(written(tmp_path, "r.ecg", ishne(**how)))


def test_ishne_of_no_leads_and_of_thirteen(tmp_path: Path) -> None:
    for leads in (0, 13):
        raw = bytearray(ishne())
        raw[156:158] = struct.pack("<h", leads)
        raw[8:10] = struct.pack("<H", made.crc_ccitt(bytes(raw[10:522])))
        assert f"{leads} leads; expected 1 to 12" in fails(written(tmp_path, "r.ecg", bytes(raw)))
