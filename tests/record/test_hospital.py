"""DICOM, HL7 aECG, SCP-ECG and ISHNE: what a file says becomes millivolts, and what it says wrongly is one line."""

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hospital_files as made
import numpy as np
import pytest

import ecgfed
from ecgfed.errors import EcgfedError
from ecgfed.record import groups
from ecgfed.record.reader import format_of, is_recording, read_comments, read_recording
from ecgfed.record.scp_huffman import decode, standard_table, table_of

needs_pydicom = pytest.mark.skipif(
    not ecgfed.extras.is_installed("pydicom"), reason="pydicom (extra hospital) is not installed"
)
TIME = np.arange(600)
#: Two leads in whole steps: slow and fast, large and small, so that every length of code is met.
STEPS = [
    (400 * np.sin(TIME / 9) + 3000 * (TIME % 97 == 40)).round().astype(int).tolist(),
    (-90 * np.cos(TIME / 4) + 5 * (TIME % 3)).round().astype(int).tolist(),
]
#: The same in millivolt: 2.5 uV a step of the first, 5 of the second.
MV = np.array(STEPS) * np.array([[0.0025], [0.005]])
SAME_MV = np.array(STEPS) * 0.0025


def written(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def ishne(**how: object) -> bytes:
    return made.ishne_bytes(STEPS, **how)  # type: ignore[arg-type]


def scp(**how: object) -> bytes:
    return made.scp_bytes(STEPS, **how)  # type: ignore[arg-type]


def aecg(**how: object) -> str:
    return made.aecg_text(STEPS, **how)  # type: ignore[arg-type]


def dicom(**how: object) -> bytes:
    return made.dicom_bytes(made.dicom_group(STEPS, **how))  # type: ignore[arg-type]


WHOLE: dict[str, tuple[str, Callable[[], bytes | str], float, np.ndarray]] = {
    "ishne": ("r.ecg", ishne, 200, MV),
    "scp": ("r.scp", scp, 500, SAME_MV),
    "aecg": ("r.xml", aecg, 500, SAME_MV),
    "dicom": ("r.dcm", dicom, 500, MV),
}
KINDS = [pytest.param(kind, marks=[needs_pydicom] if kind == "dicom" else []) for kind in WHOLE]


def fails(path: Path, leads: tuple[str, ...] = (), *, every: bool = True) -> str:
    with pytest.raises(EcgfedError) as caught:
        read_recording(path, leads, every_lead=every)
    line = str(caught.value)
    assert "\n" not in line
    assert path.name in line
    return line


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_file(tmp_path: Path, kind: str) -> None:
    name, make, fs_hz, mv = WHOLE[kind]
    path = written(tmp_path, name, make())
    assert format_of(path) == kind
    assert is_recording(path)
    read = read_recording(path, every_lead=True)
    assert (read.name, read.lead, read.leads, read.fs_hz) == ("r", "II", ("II", "V1"), fs_hz)
    np.testing.assert_allclose(read.signals_mv, mv, atol=1e-9, rtol=0)
    one = read_recording(path, ("Lead V1",))
    assert (one.leads, one.stands_for, one.files) == (("V1",), "Lead V1", (path,))
    np.testing.assert_array_equal(one.signal_mv, read.signals_mv[1])
    assert "sex: F" in read.comments
    assert "age: 50" in read.comments
    assert any("Anna" in comment or "Quix" in comment for comment in read.comments)
    assert read_comments(path) == read.comments
    assert "no lead V9; it has II, V1" in fails(path, ("V9",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, kind: str) -> None:
    name, make, *_ = WHOLE[kind]
    content = make()
    data = content.encode() if isinstance(content, str) else content
    for keep in [0, 1, 7, 100, 131, 133, 300, 521, 522, 523, *range(0, len(data) - 1, max(1, len(data) // 60))]:
        fails(written(tmp_path, name, data[:keep]))
    fails(written(tmp_path, name, data[:-1]))


@pytest.mark.parametrize("kind", KINDS)
def test_other_files_of_the_suffix(tmp_path: Path, kind: str) -> None:
    name = WHOLE[kind][0]
    for data in (b"", b"\0" * 2000, b"\xff" * 2000, b"<html/>", b"ISHNE2.0" + b"\0" * 600, bytes(range(256)) * 4):
        fails(written(tmp_path, name, data))
    assert "does not exist" in fails(tmp_path / f"none{name[1:]}")
    (tmp_path / f"d{name[1:]}").mkdir()
    fails(tmp_path / f"d{name[1:]}")


# --- ISHNE ---------------------------------------------------------------------------------------------------------


def test_ishne_leads_gaps_text_and_both_ways_of_counting(tmp_path: Path) -> None:
    steps = [list(lead) for lead in STEPS]
    steps[1][5] = -32768
    raw = made.ishne_bytes(steps, codes=(0, 19), text=b"said by Quix\0", samples=1200)
    read = read_recording(written(tmp_path, "r.ecg", raw), every_lead=True)
    assert read.leads == ("channel 1", "AI")
    assert np.isnan(read.signals_mv[1]).nonzero()[0].tolist() == [5]
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
        ({"start": 520}, "samples at byte 520"),
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


def test_a_wfdb_annotation_that_is_called_ecg_is_no_recording_of_a_folder(tmp_path: Path) -> None:
    """slpdb's beats are slp01a.ecg."""
    assert not is_recording(written(tmp_path, "slp01a.ecg", b"\x01\x04\0\0"))
    assert not is_recording(written(tmp_path, "settings.xml", "<settings/>"))
    assert not is_recording(tmp_path / "none.xml")
    assert is_recording(written(tmp_path, "r.xml", aecg().encode("utf-16")))


# --- SCP-ECG -------------------------------------------------------------------------------------------------------


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
    assert read.left_out == ("V1: another part of 0.3 s", "V2: another part of 0.3 s", "II: there again, 0.3 s")
    np.testing.assert_allclose(read_recording(path, ("V2",)).signal_mv, np.array(leads[2]) * 0.0025, atol=1e-9)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"flags": 5}, "the mean beat was taken out of its signal"),
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


# --- HL7 aECG ------------------------------------------------------------------------------------------------------


def test_aecg_units_origins_and_parts(tmp_path: Path) -> None:
    leads = {
        "I": made.aecg_sequence("MDC_ECG_LEAD_AVR", "1 2 3\n4\t5", scale="0.01", unit="mV", origin="0.5"),
        "p": made.aecg_sequence("MDC_PRESS_BLD_ART", "9 9 9 9 9", unit="mm[Hg]"),
        "e": made.aecg_sequence("MDC_ECG_LEAD_V6", "-1 NaN 3 4 5", scale="1", unit="nV"),
    }
    sets = made.aecg_set(leads, increment="4", unit="ms")
    beats = '<derivation><derivedSeries><code code="REPRESENTATIVE_BEAT"/></derivedSeries></derivation>'
    path = written(tmp_path, "r.xml", aecg(sets=sets, more=beats))
    read = read_recording(path, every_lead=True)
    assert (read.leads, read.fs_hz) == (("aVR", "V6"), 250.0)
    assert read.left_out == ("MDC_PRESS_BLD_ART: no voltage",)
    np.testing.assert_allclose(read.signals_mv[0], [0.51, 0.52, 0.53, 0.54, 0.55])
    np.testing.assert_allclose(read.signals_mv[1], [-1e-6, np.nan, 3e-6, 4e-6, 5e-6])
    assert "is in 'mm[Hg]'" in fails(path, ("MDC_PRESS_BLD_ART",))
    other = made.aecg_sequence("MDC_ECG_LEAD_II", "1 2 3").replace('<origin value="0" unit="uV"/>',
                                                                '<origin value="1" unit="mV"/>')  # fmt: skip
    read = read_recording(written(tmp_path, "r.xml", aecg(sets=made.aecg_set({"II": other}))))
    np.testing.assert_allclose(read.signal_mv, [1.0025, 1.005, 1.0075])


def test_aecg_of_groups(tmp_path: Path) -> None:
    """Sets that begin together and are as long make one recording; others are named."""
    one = made.aecg_set({"a": made.aecg_sequence("MDC_ECG_LEAD_I", "1 2 3 4")})
    two = made.aecg_set({"a": made.aecg_sequence("MDC_ECG_LEAD_II", "1 2 3 4")})
    late = made.aecg_set({"a": made.aecg_sequence("MDC_ECG_LEAD_V1", "1 2 3 4")}, head="20020302131500")
    fast = made.aecg_set({"a": made.aecg_sequence("MDC_ECG_LEAD_V2", "1 2 3 4")}, increment="0.001")
    path = written(tmp_path, "r.xml", aecg(sets=one + two + late + fast))
    read = read_recording(path, every_lead=True)
    assert (read.lead, read.leads) == ("I", ("I", "II"))
    assert read.left_out == ("V1: another part of 0.008 s", "V2: 1000 Hz")
    assert read_recording(path, ("V2",)).fs_hz == 1000


def bomb(kind: str) -> str:
    if kind == "laughs":
        head = '<!DOCTYPE AnnotatedECG [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
        return aecg(before=head).replace("Anna Quix", "&b;")
    if kind == "external":
        return aecg(before='<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>').replace("Anna Quix", "&e;")
    if kind == "dtd":
        return aecg(before='<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">')
    if kind == "parameter":
        return aecg(before='<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;]>')
    if kind == "deep":
        return "<AnnotatedECG>" * 100_000
    return "<AnnotatedECG>" + "<a/>" * 500_000 + "</AnnotatedECG>"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("laughs", "a document type, or entities of its own"),
        ("external", "a document type, or entities of its own"),
        ("dtd", "a document type, or entities of its own"),
        ("parameter", "a document type, or entities of its own"),
        ("deep", "deeper than 64 levels"),
        ("wide", "more than 400,000 elements"),
    ],
)
def test_xml_that_means_harm(tmp_path: Path, kind: str, words: str) -> None:
    assert words in fails(written(tmp_path, "r.xml", bomb(kind)))


def digits(text: str, **how: str) -> str:
    return aecg(sets=made.aecg_set({"II": made.aecg_sequence("MDC_ECG_LEAD_II", text, **how)}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (lambda: digits("1 2 x"), "holds what is no number"),
        (lambda: digits("1,2"), "holds what is no number"),
        (lambda: digits(""), "holds no samples"),
        (lambda: digits("1 inf 3"), "lead II is infinite at sample 1"),
        (lambda: digits("1 1e308 3", scale="1e9"), "lead II is infinite at sample 1"),
        (
            lambda: aecg(sets=made.aecg_set({str(i): made.aecg_sequence("X", "1") for i in range(300)})),
            "a set of 301 sequences; expected at most 256",
        ),
        (lambda: digits("1 2 3", scale="x"), "scale of MDC_ECG_LEAD_II 'x'; expected a number"),
        (lambda: digits("1 2 3", scale="1_0"), "scale of MDC_ECG_LEAD_II '1_0'"),
        (lambda: digits("1 2 3", scale="inf"), "scale of MDC_ECG_LEAD_II 'inf'"),
        (lambda: digits("1 2 3", unit=""), "lead II is in ''"),
        (lambda: aecg(series="REPRESENTATIVE_BEAT"), "holds no series of rhythm"),
        (lambda: aecg().replace("AnnotatedECG", "ClinicalDocument"), "is XML of 'ClinicalDocument'"),
        (lambda: aecg().replace("urn:hl7-org:v3", "urn:other"), "is XML of 'AnnotatedECG'"),
        (lambda: aecg().replace('"0.002"', '"0"'), "increment of time '0' 's'"),
        (lambda: aecg().replace('"0.002"', '"-1"'), "increment of time '-1'"),
        (lambda: aecg().replace('"0.002"', '"1e-320"'), "increment of time '1e-320'"),
        (lambda: aecg().replace('unit="s"', 'unit="h"'), "increment of time '0.002' 'h'"),
        (lambda: aecg().replace("TIME_ABSOLUTE", "TIME_ODD"), "scale of TIME_ODD ''"),
        (lambda: made.aecg_text([STEPS[0], STEPS[1][:9]]), "leads of 9 to 600 samples"),
        (lambda: aecg().replace("UTF-8", "x-odd"), "cannot be read as XML"),
    ],
)
def test_aecg_that_will_not_do(tmp_path: Path, text: Callable[[], str], words: str) -> None:
    assert words in fails(written(tmp_path, "r.xml", text()))


# --- DICOM ---------------------------------------------------------------------------------------------------------


@needs_pydicom
def test_dicom_numbers_units_and_padding(tmp_path: Path) -> None:
    channels = [
        made.dicom_channel(("5.6.3-9-61", "SCPECG", "Lead III"), sensitivity="1.25", factor="2", baseline="100"),
        made.dicom_channel(("", "", "Lead aVL (Goldberger)"), sensitivity="0.005", unit="mV"),
    ]
    raw = made.dicom_bytes(made.dicom_group(STEPS, channels, padding=STEPS[0][7]))
    read = read_recording(written(tmp_path, "r.dcm", raw), every_lead=True)
    assert read.leads == ("III", "aVL")
    gaps = np.array(STEPS) == STEPS[0][7]
    expected = np.where(gaps, np.nan, MV + np.array([[0.1], [0]]))
    np.testing.assert_allclose(read.signals_mv, expected, atol=1e-9)
    for bits, numbers in ((32, "SL"), (16, "SS")):
        raw = made.dicom_bytes(made.dicom_group(STEPS, bits=bits, numbers=numbers))
        read = read_recording(written(tmp_path, "r.dcm", raw), every_lead=True)
        np.testing.assert_allclose(read.signals_mv, MV, atol=1e-9)


@needs_pydicom
def test_dicom_groups(tmp_path: Path) -> None:
    """Twelve leads in groups of three that begin together are one recording; a median beat is none."""
    names = ["I", "II", "III", "aVR"]
    channels = [made.dicom_channel((f"2:{code}", "MDC", "x")) for code in (1, 2, 61, 62)]
    parts = [made.dicom_group([STEPS[0]], [channel]) for channel in channels]
    beat = made.dicom_group([STEPS[0][:300]], channels[:1], kind="DERIVED")
    late = made.dicom_group([STEPS[0][:300]], [made.dicom_channel(("2:3", "MDC", "V1"))], offset="5000")
    read = read_recording(written(tmp_path, "r.dcm", made.dicom_bytes(*parts, beat, late)), every_lead=True)
    assert list(read.leads) == names
    assert read.left_out == ("V1: another part of 0.6 s",)
    assert "none as recorded" in fails(written(tmp_path, "r.dcm", made.dicom_bytes(beat)))


@needs_pydicom
@pytest.mark.parametrize("syntax", ["1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99"])
def test_dicom_that_pydicom_wrote(tmp_path: Path, syntax: str) -> None:
    """The same file in each transfer syntax, as pydicom itself writes it."""
    import pydicom

    read = pydicom.dcmread(written(tmp_path, "own.dcm", dicom()))
    read.file_meta.TransferSyntaxUID = pydicom.uid.UID(syntax)
    path = tmp_path / "r.dcm"
    implicit = syntax == "1.2.840.10008.1.2"
    pydicom.dcmwrite(path, read, implicit_vr=implicit, little_endian=True, force_encoding=True)
    np.testing.assert_allclose(read_recording(path, every_lead=True).signals_mv, MV, atol=1e-9)


@needs_pydicom
def test_a_deflated_file_is_weighed(tmp_path: Path) -> None:
    more = made.element(9, 0x1001, "OB", bytes(64 << 20))
    raw = made.dicom_bytes(made.dicom_group(STEPS), syntax="1.2.840.10008.1.2.1.99", more=more)
    assert len(raw) < 200_000
    assert "deflated bytes that become more than" in fails(written(tmp_path, "r.dcm", raw))
    whole = made.dicom_bytes(made.dicom_group(STEPS), syntax="1.2.840.10008.1.2.1.99")
    np.testing.assert_allclose(read_recording(written(tmp_path, "r.dcm", whole), every_lead=True).signals_mv, MV)


@needs_pydicom
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: made.dicom_bytes(made.dicom_group(STEPS), sop_class="1.2.840.10008.5.1.4.1.1.7"), "DICOM of class"),
        (lambda: made.dicom_bytes(made.dicom_group(STEPS), syntax="1.2.840.10008.1.2.2"), "transfer syntax"),
        (lambda: made.dicom_bytes(), "holds 0 waveforms"),
        (lambda: dicom(samples=601), "2400 bytes of samples; expected 2404"),
        (lambda: dicom(samples=2**32 - 1), "claims 4294967295 samples"),
        (lambda: dicom(samples=0), "claims 0 samples"),
        (lambda: dicom(data=b""), "0 bytes of samples"),
        (lambda: dicom(numbers="MB"), "samples of 16 bits, 'MB'"),
        (lambda: dicom(fs="0"), "sampling frequency 0.0 Hz"),
        (lambda: dicom(fs="1e400"), "sampling frequency inf Hz"),
        (lambda: dicom(fs="fast"), "cannot be read as DICOM"),
        (lambda: dicom(channels=[made.dicom_channel()]), "defines 1 channels; expected 2"),
        (lambda: dicom(channels=[made.dicom_channel(sensitivity=None)] * 2), "is in 'steps of no unit'"),
        (lambda: dicom(channels=[made.dicom_channel(unit="mm[Hg]")] * 2), "is in 'mm[Hg]'"),
        (lambda: dicom(channels=[made.dicom_channel(skew="2")] * 2), "lies 2 samples beside the others"),
        (lambda: dicom(channels=[made.dicom_channel(factor="nan")] * 2), "has sensitivity nan"),
        (lambda: dicom(channels=[made.dicom_channel(sensitivity="0")] * 2), "has sensitivity 0"),
        (lambda: made.dicom_bytes(more=made.sequence(0x40, 0x555, *[b""] * 10)), "holds 0 waveforms"),
    ],
)
def test_dicom_that_will_not_do(tmp_path: Path, make: Callable[[], bytes], words: str) -> None:
    assert words in fails(written(tmp_path, "r.dcm", make()))


@needs_pydicom
def test_sequences_deep_in_one_another(tmp_path: Path) -> None:
    inside = b""
    for _ in range(3000):
        inside = made.sequence(0x40, 0x555, inside)
    raw = made.dicom_bytes(made.dicom_group(STEPS), more=inside)
    path = written(tmp_path, "r.dcm", raw)
    np.testing.assert_allclose(read_recording(path, every_lead=True).signals_mv, MV)  # never taken apart
    nested = made.sequence(0x5400, 0x100, inside)
    fails(written(tmp_path, "r.dcm", made.dicom_bytes(more=nested)))


@needs_pydicom
def test_reading_dicom_opens_no_socket(tmp_path: Path) -> None:
    """pydicom loads requests where it is installed, and that binds a socket to look for IPv6."""
    path = written(tmp_path, "r.dcm", dicom())
    code = (
        "import sys\n"
        "def hook(event, about):\n    if event.startswith('socket.'): raise SystemExit(event)\n"
        "sys.addaudithook(hook)\n"
        "from ecgfed.record.reader import read_recording\n"
        f"print(read_recording({str(path)!r}).leads)\n"
        "assert 'urllib3' not in sys.modules and 'requests' not in sys.modules\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "('II',)\n"), ended.stderr


def test_dicom_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecgfed.extras.is_installed", lambda package: package != "pydicom")
    path = written(tmp_path, "r.dcm", dicom())
    with pytest.raises(EcgfedError, match=r"pydicom: is not installed, .* pip install 'ecgfed\[hospital\]'"):
        read_recording(path)


# --- all -----------------------------------------------------------------------------------------------------------


def test_too_many_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_CHANNELS", 1)
    assert "holds 2 channels; expected 1 to 1" in fails(written(tmp_path, "r.xml", aecg()))


def test_two_leads_of_one_name(tmp_path: Path) -> None:
    path = written(tmp_path, "r.ecg", ishne(codes=(6, 6)))
    assert read_recording(path, every_lead=True).leads == ("II (1)", "II (2)")
    assert read_recording(path, ("#2",)).lead == "II (2)"
    assert "has 2 leads II" in fails(path, ("II",))
