"""SCP-ECG: every coding, tables of a file's own, leads that begin at other times, and sections that do not add up."""

import struct
from pathlib import Path

import hospital_files as made
import numpy as np
import pytest
from hospital_records import SAME_MV, STEPS, fails, scp, written

from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.scp_huffman import decode, standard_table, table_of


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_scp_in_every_coding(tmp_path: Path, coded: bool, order: int) -> None:
    read = read_recording(written(tmp_path, "r.scp", scp(order=order, coded=coded)), every_lead=True)
    np.testing.assert_allclose(read.signals_mv, SAME_MV, atol=1e-9, rtol=0)


def test_scp_brings_its_own_table(tmp_path: Path) -> None:
    """Codes are stored turned round: the first bit in the lowest place."""
    words = {0: "0", 1: "10", -1: "110", 7: "1110", 300: "1111"}
    values = [0, 1, -1, 7, 300, 0, 0, -1, 300, 7] * 30
    table = struct.pack("<HH", 1, len(words))
    for value, word in words.items():
        table += struct.pack("<BBBhI", len(word), len(word), 1, value, int(word[::-1], 2))
    raw = made.scp_bytes([values], coded=True, table=table, own=words)
    read = read_recording(written(tmp_path, "r.scp", raw))
    np.testing.assert_allclose(read.signal_mv, np.array(values) * 0.0025, atol=1e-9)


def test_the_standard_table_is_the_one_that_is_printed() -> None:
    words = {code.value: format(code.prefix, f"0{code.prefix_bits}b") for code in standard_table()[:17]}
    assert words == made.HUFFMAN
    stored = [(0, 1), (1, 3), (5, 3), (3, 4), (11, 4), (7, 5), (23, 5), (15, 6), (47, 6), (31, 7), (95, 7)]
    for (base, bits), code in zip(stored, standard_table(), strict=False):
        assert (int(format(base, f"0{bits}b")[::-1], 2), bits) == (code.prefix, code.prefix_bits)
    for value in (*range(-200, 201), 32767, -32768):
        assert decode(made.huffman([value]), 1, standard_table()).tolist() == [value]


def test_scp_of_leads_that_begin_at_other_times(tmp_path: Path) -> None:
    """Three by four: each lead for a quarter; II the whole time, and it is the longest that a name means."""
    leads = [STEPS[0], STEPS[1][:150], STEPS[0][150:300], STEPS[0][:150]]
    ranges = [(1, 600), (1, 150), (151, 300), (1, 150)]
    raw = made.scp_bytes(leads, codes=(2, 3, 4, 2), ranges=ranges, order=1, coded=True)
    path = written(tmp_path, "r.scp", raw)
    read = read_recording(path, ("II",), every_lead=True)
    assert (read.leads, read.signals_mv.shape) == (("II",), (1, 600))
    assert read.skipped == ("V1: another part of 0.3 s", "V2: another part of 0.3 s", "II: there again, 0.3 s")
    np.testing.assert_allclose(read_recording(path, ("V2",)).signal_mv, np.array(leads[2]) * 0.0025, atol=1e-9)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"flags": 5}, "its reference beat was subtracted, and section 4 is not there"),
        ({"bimodal": 1}, "bimodal compression"),
        ({"step_nv": 0}, "a step of 0 nV"),
        ({"step_us": 0}, "0 us a sample"),
        ({"step_us": 65535}, "sampling frequency 15.259 Hz"),
        ({"order": 0, "ranges": [(1, 601), (1, 600)]}, "lead II of 1200 bytes; expected 1202"),
        ({"ranges": [(0, 600), (1, 600)]}, "a lead from sample 0 to 600"),
        ({"ranges": [(1, 2**32 - 1), (1, 600)]}, "a lead from sample 1 to 4294967295"),
        ({"coded": True, "ranges": [(1, 500_000_000)] * 2}, "lead II: 500000000 samples in"),
        ({"coded": True, "table": struct.pack("<HH", 2, 1)}, "section 2: 2 Huffman tables"),
        ({"coded": True, "table": struct.pack("<HH", 1, 60000)}, "a Huffman table of 60000 codes"),
        ({"coded": True, "table": struct.pack("<HHBBBhI", 1, 1, 40, 40, 1, 0, 0)}, "a Huffman code of 40 of 40 bits"),
        ({"coded": True, "table": struct.pack("<HHBBBhI", 1, 1, 1, 1, 0, 2, 0)}, "mode 0"),
        ({"coded": True, "table": struct.pack("<HHBBBhI", 1, 1, 9, 9, 1, 0, 0)}, "lead II: no Huffman code at bit"),
    ],
)
def test_scp_that_will_not_do(tmp_path: Path, how: dict[str, object], words: str) -> None:
    assert words in fails(written(tmp_path, "r.scp", scp(**how)))


def test_scp_sections_that_do_not_add_up(tmp_path: Path) -> None:
    third = bytes([1, 4]) + struct.pack("<IIB", 1, 4, 2)
    sixth = struct.pack("<HHBBH", 2500, 2000, 0, 0, 8) + bytes(8)
    good = {3: made.scp_section(3, third), 6: made.scp_section(6, sixth)}
    assert len(read_recording(written(tmp_path, "r.scp", made.scp_record(good))).signal_mv) == 4

    def line(sections: dict[int, bytes], **how: int) -> str:
        return fails(written(tmp_path, "r.scp", made.scp_record(sections, **how)))

    assert "no section 6 (rhythm)" in line({3: good[3]})
    assert "no section 3 (leads)" in line({6: good[6]})
    assert "the checksum of section 6 disagrees" in line({**good, 6: made.scp_section(6, sixth, checksum=1)})
    assert "its checksum disagrees" in line(good, checksum=1)
    assert "bytes; expected 7 as it says itself" in line(good, size=7)
    assert "section 3 of" in line({**good, 3: made.scp_section(3, bytes([255, 4]))})
    assert "section 4 of" in line({**good, 6: made.scp_section(4, sixth)})
    long = struct.pack("<HHBBH", 2500, 2000, 0, 0, 65535) + bytes(8)
    assert "section 6 claims 65535 bytes" in line({**good, 6: made.scp_section(6, long)})
    with pytest.raises(ValueError, match="one begins with another"):
        table_of(struct.pack("<HHBBBhIBBBhI", 1, 2, 1, 1, 1, 0, 0, 2, 2, 1, 1, 0))


def test_every_wrong_bit_of_a_scp_record_is_found(tmp_path: Path) -> None:
    raw = made.scp_bytes([STEPS[0][:60]], coded=True, order=2)
    for at in range(len(raw)):
        spoiled = bytearray(raw)
        spoiled[at] ^= 1 << (at % 8)
        fails(written(tmp_path, "r.scp", bytes(spoiled)))


@pytest.mark.parametrize("order", [0, 2])
def test_a_reference_beat_that_was_subtracted_is_added_back(tmp_path: Path, order: int) -> None:
    """By EN 1064's rule: sample n of the recording holds the rest and sample n - FC + fcM of the beat, all from 1."""
    rng = np.random.default_rng(5)
    beat = np.rint(400 * np.exp(-(((np.arange(100) - 40) / 6) ** 2))).astype(int)  # 200 ms at 500 Hz, point 41
    whole = rng.integers(-30, 30, 600)
    rest = whole.copy()
    zones = [(0, 111, 140, 180), (1, 200, 220, 260), (0, 301, 331, 390)]  # the second one is of another type
    for kind, first, point, last in zones:
        for n in range(first, last + 1):
            rest[n - 1] -= 0 if kind else 2 * beat[n - point + 41 - 1]
    more = {4: made.scp_locations(200, 41, zones), 5: made.scp_reference([beat.tolist()], step_nv=5000, order=order)}
    raw = made.scp_bytes([rest.tolist()], flags=5, order=order, more=more)
    recording = read_recording(written(tmp_path, "r.scp", raw))
    np.testing.assert_allclose(recording.signal_mv, whole * 0.0025, atol=1e-12)
    short = made.scp_bytes([rest[150:].tolist()], flags=5, ranges=[(151, 600)], more=more)  # begins inside a zone
    if order == 0:
        read = read_recording(written(tmp_path, "r.scp", short))
        np.testing.assert_allclose(read.signal_mv, whole[150:] * 0.0025, atol=1e-12)


@pytest.mark.parametrize(
    ("locations", "reference", "words"),
    [
        (made.scp_locations(200, 41, [(0, 1, 140, 180)]), {}, "subtracted from sample 1 to 180, around 140"),
        (made.scp_locations(200, 0, []), {}, "section 4 of 6 bytes for 0 beats, fiducial point 0 of 100"),
        (made.scp_locations(200, 41, [(0, 111, 140, 180)])[:12], {}, "section 4 of 12 bytes for 1 beat"),
        (made.scp_locations(200, 41, []), {"step_us": 1000}, "its reference beat has 1000 us a sample; expected 2000"),
        (made.scp_locations(400, 41, []), {}, "lead II, reference beat of 200 bytes; expected 400"),
    ],
)
def test_reference_beats_that_will_not_do(
    tmp_path: Path, locations: bytes, reference: dict[str, int], words: str
) -> None:
    more = {4: locations, 5: made.scp_reference([[0] * 100], **reference)}
    assert words in fails(written(tmp_path, "r.scp", made.scp_bytes([[0] * 600], flags=5, more=more)))
