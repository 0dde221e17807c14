"""Recordings as hospitals keep them, written byte by byte from the standards' texts, none of it by our own code.

DICOM: PS3.5 (explicit VR, little endian) and PS3.3 C.10.9; HL7 aECG: Implementation Guide of 21 March 2005; SCP-ECG: EN
1064:2005; ISHNE: Badilini 1998. Every writer takes what a test wants to be wrong.
"""

import base64
import struct
import textwrap
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

#: The default Huffman table of EN 1064, C.3.7.6, as it is printed there: codes by value.
HUFFMAN = {
    0: "0", 1: "100", -1: "101", 2: "1100", -2: "1101", 3: "11100", -3: "11101", 4: "111100", -4: "111101",
    5: "1111100", -5: "1111101", 6: "11111100", -6: "11111101", 7: "111111100", -7: "111111101", 8: "1111111100",
    -8: "1111111101",
}  # fmt: skip
EIGHT_BITS, SIXTEEN_BITS = "1111111110", "1111111111"


def crc_ccitt(data: bytes) -> int:
    """CRC-CCITT, polynomial x^16 + x^12 + x^5 + 1, begun with ones: bit by bit, as the standards print it."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc


# --- ISHNE ---------------------------------------------------------------------------------------------------------


def ishne_bytes(
    leads: Sequence[Sequence[int]],
    *,
    codes: Sequence[int] = (6, 11),
    resolutions_nv: Sequence[int] = (2500, 5000),
    fs: int = 200,
    text: bytes = b"",
    samples: int | None = None,
    start: int | None = None,
    checksum: int | None = None,
    name: tuple[str, str] = ("Anna", "Quix"),
    patient: str = "",
    sex: int = 2,
    born: tuple[int, int, int] = (2, 5, 1951),
    began: tuple[int, int, int] = (2, 3, 2002),
) -> bytes:
    """One Holter recording; days are day, month, year."""

    def words(values: Sequence[int], count: int, fill: int = -9) -> bytes:
        return struct.pack(f"<{count}h", *[*values, *[fill] * (count - len(values))])

    def padded(word: str, size: int) -> bytes:
        return word.encode("latin-1")[:size].ljust(size, b"\0")

    count = len(leads[0]) if leads else 0
    body = struct.pack(
        "<4ih", len(text), count if samples is None else samples, 522, 522 + len(text) if start is None else start, 1
    )
    body += padded(name[0], 40) + padded(name[1], 40) + padded(patient, 20)
    body += words((sex, 1), 2) + words(born, 3) + words(began, 3) + words(began, 3) + words((13, 14, 15), 3)
    body += words((len(leads),), 1) + words(codes[: len(leads)], 12) + words([1] * len(leads), 12)
    body += words(resolutions_nv[: len(leads)], 12) + words((0,), 1) + padded("digital", 40) + words((fs,), 1)
    body += padded("", 80) + padded("", 80) + padded("", 88)
    assert len(body) == 512
    crc = crc_ccitt(body + text) if checksum is None else checksum
    multiplexed = np.array(leads, dtype="<i2").T.tobytes()
    return b"ISHNE1.0" + struct.pack("<H", crc) + body + text + multiplexed


# --- SCP-ECG -------------------------------------------------------------------------------------------------------


def huffman(values: Sequence[int], codes: dict[int, str] | None = None) -> bytes:
    """Code numbers by the default table, or another one of whole codes; the last byte is filled with zeros."""
    bits = []
    for value in values:
        if codes is not None:
            bits.append(codes[value])
        elif value in HUFFMAN:
            bits.append(HUFFMAN[value])
        elif -128 <= value <= 127:
            bits.append(EIGHT_BITS + format(value & 0xFF, "08b"))
        else:
            bits.append(SIXTEEN_BITS + format(value & 0xFFFF, "016b"))
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))


def differences(values: Sequence[int], order: int) -> list[int]:
    """First or second differences, the first one or two values as they are."""
    x = list(values)
    if order == 0:
        return x
    if order == 1:
        return [x[0]] + [b - a for a, b in pairwise(x)]
    return x[:2] + [c - 2 * b + a for a, b, c in zip(x, x[1:], x[2:], strict=False)]


def scp_section(number: int, body: bytes, *, checksum: int | None = None) -> bytes:
    """One section: CRC, number, size, versions, six bytes kept free."""
    body += b"\0" * (len(body) % 2)
    head = struct.pack("<HIBB6x", number, 16 + len(body), 20, 20)
    crc = crc_ccitt(head + body) if checksum is None else checksum
    return struct.pack("<H", crc) + head + body


def scp_record(sections: dict[int, bytes], *, size: int | None = None, checksum: int | None = None) -> bytes:
    """A record of sections (with their headers), section 0 made for them."""
    numbers = range(max(12, *(number + 1 for number in sections)))
    at = 6 + 16 + 10 * len(numbers)
    table = b""
    for number in numbers:
        if number == 0:
            table += struct.pack("<HII", 0, 16 + 10 * len(numbers), 7)
        else:
            part = sections.get(number, b"")
            table += struct.pack("<HII", number, len(part), at + 1 if part else 0)
            at += len(part)
    body = scp_section(0, table) + b"".join(sections[number] for number in sorted(sections))
    whole = struct.pack("<I", 6 + len(body) if size is None else size) + body
    crc = crc_ccitt(whole) if checksum is None else checksum
    return struct.pack("<H", crc) + whole


def scp_patient(**texts: str) -> bytes:
    """Section 1: last and first name, identity, sex, days."""
    tags = [
        (0, texts.get("last", "Quix").encode() + b"\0"),
        (1, texts.get("first", "Anna").encode() + b"\0"),
        (2, texts.get("patient", "77").encode() + b"\0"),
        (5, struct.pack("<HBB", 1951, 5, 2)),
        (8, bytes([2])),
        (16, texts.get("institution", "Quixward").encode() + b"\0"),
        (25, struct.pack("<HBB", 2002, 3, 2)),
        (26, bytes([13, 14, 15])),
    ]
    return b"".join(struct.pack("<BH", tag, len(value)) + value for tag, value in tags) + b"\xff\0\0"


def scp_bytes(
    leads: Sequence[Sequence[int]],
    *,
    codes: Sequence[int] = (2, 3),
    step_nv: int = 2500,
    step_us: int = 2000,
    order: int = 0,
    coded: bool = False,
    table: bytes | None = None,
    own: dict[int, str] | None = None,
    flags: int = 4,
    bimodal: int = 0,
    ranges: Sequence[tuple[int, int]] | None = None,
    patient: bytes | None = None,
    more: dict[int, bytes] | None = None,
) -> bytes:
    """A record of rhythm data: whole numbers as they are, as differences, Huffman coded; ``more``: other sections."""
    parts = []
    for lead in leads:
        steps = differences(lead, order)
        parts.append(huffman(steps, own) if coded else np.array(steps, dtype="<i2").tobytes())
    where = ranges or [(1, len(lead)) for lead in leads]
    third = bytes([len(leads), flags])
    third += b"".join(struct.pack("<IIB", *span, code) for span, code in zip(where, codes, strict=False))
    sixth = struct.pack("<HHBB", step_nv, step_us, order, bimodal)
    sixth += struct.pack(f"<{len(parts)}H", *map(len, parts)) + b"".join(parts)
    sections = {1: scp_section(1, scp_patient() if patient is None else patient), 3: scp_section(3, third)}
    sections[6] = scp_section(6, sixth)
    if coded:
        sections[2] = scp_section(2, struct.pack("<H", 19999) if table is None else table)
    sections |= {number: scp_section(number, body) for number, body in (more or {}).items()}
    return scp_record(sections)


def scp_locations(length_ms: int, fiducial: int, zones: Sequence[tuple[int, int, int, int]]) -> bytes:
    """Section 4 (EN 1064, 5.7): type, first sample, fiducial point and last sample of each QRS; no protected areas."""
    out = struct.pack("<HHH", length_ms, fiducial, len(zones))
    out += b"".join(struct.pack("<HIII", *zone) for zone in zones)
    return out + b"".join(struct.pack("<II", zone[1], zone[3]) for zone in zones)


def scp_reference(leads: Sequence[Sequence[int]], *, step_nv: int = 2500, step_us: int = 2000, order: int = 0) -> bytes:
    """Section 5 (EN 1064, 5.8): the reference beat of each lead, laid out as section 6 is."""
    parts = [np.array(differences(lead, order), dtype="<i2").tobytes() for lead in leads]
    out = struct.pack("<HHBB", step_nv, step_us, order, 0) + struct.pack(f"<{len(parts)}H", *map(len, parts))
    return out + b"".join(parts)


# --- GE MUSE -------------------------------------------------------------------------------------------------------


def muse_lead(name: str, steps: Sequence[int], *, unit: str = "MICROVOLTS", step: str = "4.88", **other: object) -> str:
    """One LeadData element of a RestingECG; ``other`` are elements that a test wants to be otherwise, by name."""
    data = np.array(steps, dtype="<i2").tobytes()
    fields = {
        "LeadByteCountTotal": len(data),
        "LeadTimeOffset": 0,
        "LeadSampleCountTotal": len(steps),
        "LeadAmplitudeUnitsPerBit": step,
        "LeadAmplitudeUnits": unit,
        "LeadID": name,
        "LeadOffsetFirstSample": 0,
        "LeadSampleSize": 2,
        "LeadOff": "FALSE",
        "LeadDataCRC32": zlib.crc32(data),
        "WaveFormData": "\n".join(textwrap.wrap(base64.b64encode(data).decode(), 76)),
    }
    return "<LeadData>" + "".join(f"<{key}>{value}</{key}>" for key, value in (fields | other).items()) + "</LeadData>"


def muse_text(
    leads: Sequence[str],
    *,
    kind: str = "Rhythm",
    base: str = "500",
    exponent: str = "0",
    doctype: str = '<!DOCTYPE RestingECG SYSTEM "restecg.dtd">',
    before: str = "",
) -> str:
    """A document as MUSE exports it: a person, a median beat that is no recording, and the rhythm."""
    waves = f"<SampleType>CONTINUOUS_SAMPLES</SampleType><SampleBase>{base}</SampleBase>"
    waves += f"<SampleExponent>{exponent}</SampleExponent>"
    median = f"<Waveform><WaveformType>Median</WaveformType>{waves}{muse_lead('II', [9] * 600)}</Waveform>"
    rhythm = f"<Waveform><WaveformType>{kind}</WaveformType>{waves}{''.join(leads)}</Waveform>"
    person = (
        "<PatientDemographics><PatientID>0815</PatientID><DateofBirth>05-02-1951</DateofBirth><Gender>FEMALE</Gender>"
        "<PatientLastName>Quix</PatientLastName><PatientFirstName>Anna</PatientFirstName></PatientDemographics>"
        "<TestDemographics><AcquisitionDevice>MAC55</AcquisitionDevice><AcquisitionTime>13:14:15</AcquisitionTime>"
        "<AcquisitionDate>03-02-2002</AcquisitionDate></TestDemographics>"
    )
    head = f'<?xml version="1.0" encoding="ISO-8859-1"?>\n{doctype}\n'
    return f"{head}<RestingECG>{before}{person}{median}{rhythm}</RestingECG>"


# --- HL7 aECG ------------------------------------------------------------------------------------------------------


def aecg_sequence(code: str, digits: str, *, scale: str = "2.5", unit: str = "uV", origin: str = "0") -> str:
    return (
        f'<component><sequence><code code="{code}" codeSystem="2.16.840.1.113883.6.24"/>'
        f'<value xsi:type="SLIST_PQ"><origin value="{origin}" unit="{unit}"/><scale value="{scale}" unit="{unit}"/>'
        f"<digits>{digits}</digits></value></sequence></component>"
    )


def aecg_set(leads: dict[str, str], *, increment: str = "0.002", unit: str = "s", head: str = "20020302131415") -> str:
    time = (
        '<component><sequence><code code="TIME_ABSOLUTE" codeSystem="2.16.840.1.113883.5.4"/>'
        f'<value xsi:type="GLIST_TS"><head value="{head}"/><increment value="{increment}" unit="{unit}"/></value>'
        "</sequence></component>"
    )
    return f"<component><sequenceSet>{time}{''.join(leads.values())}</sequenceSet></component>"


def aecg_text(
    leads: Sequence[Sequence[int]],
    names: Sequence[str] = ("MDC_ECG_LEAD_II", "MDC_ECG_LEAD_V1"),
    *,
    more: str = "",
    sets: str | None = None,
    before: str = "",
    series: str = "RHYTHM",
) -> str:
    """One document of one series."""
    parts = {
        name: aecg_sequence(name, " ".join(map(str, lead)) + "\n") for name, lead in zip(names, leads, strict=False)
    }
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{before}<AnnotatedECG xmlns="urn:hl7-org:v3" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><id root="1.2.3" extension="Quix-doc"/>'
        '<code code="93000"/><effectiveTime><low value="20020302131415"/></effectiveTime>'
        "<componentOf><timepointEvent><componentOf><subjectAssignment><subject><trialSubject>"
        '<id root="1.2" extension="Quix-77"/><subjectDemographicPerson><name>Anna Quix</name>'
        '<administrativeGenderCode code="F"/><birthTime value="19510502"/></subjectDemographicPerson>'
        "</trialSubject></subject></subjectAssignment></componentOf></timepointEvent></componentOf>"
        f'<component><series><code code="{series}"/><author><seriesAuthor><manufacturedSeriesDevice>'
        "<manufacturerModelName>Quixograph</manufacturerModelName></manufacturedSeriesDevice></seriesAuthor></author>"
        f"{aecg_set(parts) if sets is None else sets}{more}</series></component></AnnotatedECG>"
    )


# --- DICOM ---------------------------------------------------------------------------------------------------------

_LONG = ("OB", "OW", "SQ", "UN", "UT")


def element(group: int, number: int, kind: str, value: bytes | str | int | float) -> bytes:
    """One element, explicit VR, little endian, of even length."""
    if isinstance(value, int) and kind in ("US", "UL", "SS", "SL"):
        raw = struct.pack({"US": "<H", "UL": "<I", "SS": "<h", "SL": "<i"}[kind], value)
    else:
        raw = value if isinstance(value, bytes) else str(value).encode("latin-1")
        raw += (b"\0" if kind in ("UI", "OB", "OW", "SQ") else b" ") * (len(raw) % 2)
    head = struct.pack("<HH", group, number) + kind.encode()
    return head + (struct.pack("<HI", 0, len(raw)) if kind in _LONG else struct.pack("<H", len(raw))) + raw


def sequence(group: int, number: int, *items: bytes) -> bytes:
    return element(
        group, number, "SQ", b"".join(struct.pack("<HHI", 0xFFFE, 0xE000, len(item)) + item for item in items)
    )


def code(value: str, scheme: str, meaning: str) -> bytes:
    return element(8, 0x100, "SH", value) + element(8, 0x102, "SH", scheme) + element(8, 0x104, "LO", meaning)


def dicom_channel(
    lead: tuple[str, str, str] = ("2:2", "MDC", "Lead II"),
    *,
    sensitivity: str | None = "2.5",
    unit: str = "uV",
    baseline: str = "0",
    factor: str = "1",
    skew: str = "0",
    label: str = "",
) -> bytes:
    made = element(0x3A, 0x203, "SH", label) if label else b""
    made += sequence(0x3A, 0x208, code(*lead)) if lead[0] or lead[2] else b""
    if sensitivity is not None:
        made += element(0x3A, 0x210, "DS", sensitivity)
        made += sequence(0x3A, 0x211, code(unit, "UCUM", unit)) + element(0x3A, 0x212, "DS", factor)
        made += element(0x3A, 0x213, "DS", baseline)
    return made + element(0x3A, 0x215, "DS", skew) + element(0x3A, 0x21A, "US", 16)


def dicom_group(
    leads: Sequence[Sequence[int]],
    channels: Sequence[bytes] | None = None,
    *,
    fs: str = "500",
    kind: str = "ORIGINAL",
    offset: str = "0",
    bits: int = 16,
    numbers: str = "SS",
    padding: int | None = None,
    padding_as: str = "OW",
    samples: int | None = None,
    data: bytes | None = None,
) -> bytes:
    """One multiplex group."""
    form = {8: "i1", 16: "<i2", 32: "<i4"}[bits]
    steps = np.array(leads, dtype=form).T.tobytes() if data is None else data
    defined = channels or [dicom_channel(), dicom_channel(("2:3", "MDC", "Lead V1"), sensitivity="5")]
    made = element(0x18, 0x1068, "DS", offset) + element(0x3A, 4, "CS", kind) + element(0x3A, 5, "US", len(leads))
    made += element(0x3A, 0x10, "UL", len(leads[0]) if samples is None else samples) + element(0x3A, 0x1A, "DS", fs)
    made += sequence(0x3A, 0x200, *defined) + element(0x5400, 0x1004, "US", bits)
    made += element(0x5400, 0x1006, "CS", numbers)
    if padding is not None:
        made += element(
            0x5400, 0x100A, padding_as, padding if padding_as != "OW" else np.array([padding], form).tobytes()
        )
    return made + element(0x5400, 0x1010, "OW", steps)


def dicom_bytes(
    *groups: bytes,
    sop_class: str = "1.2.840.10008.5.1.4.1.1.9.1.1",
    syntax: str = "1.2.840.10008.1.2.1",
    name: str = "Quix^Anna",
    more: bytes = b"",
) -> bytes:
    """One file: preamble, meta information, data set, deflated where the transfer syntax says so."""
    meta = element(2, 2, "UI", sop_class) + element(2, 3, "UI", "1.2.3.4") + element(2, 0x10, "UI", syntax)
    meta = element(2, 0, "UL", len(meta)) + meta
    body = element(8, 0x16, "UI", sop_class) + element(8, 0x18, "UI", "1.2.3.4") + element(8, 0x20, "DA", "20020302")
    body += element(8, 0x2A, "DT", "20020302131415") + element(8, 0x60, "CS", "ECG")
    body += element(8, 0x80, "LO", "Quixward") + element(8, 0x90, "PN", "Quix^Doctor")
    body += element(0x10, 0x10, "PN", name) + element(0x10, 0x20, "LO", "Quix-77")
    body += element(0x10, 0x30, "DA", "19510502") + element(0x10, 0x40, "CS", "F") + more
    body += sequence(0x5400, 0x100, *groups) if groups else b""
    if syntax.endswith(".99"):
        machine = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        body = machine.compress(body) + machine.flush()
        body += b"\0" * (len(body) % 2)
    return b"\0" * 128 + b"DICM" + meta + body
