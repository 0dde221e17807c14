"""HL7 aECG: units, origins, sets that make one recording, and XML that means harm."""

from collections.abc import Callable
from pathlib import Path

import hospital_files as made
import numpy as np
import pytest
from hospital_records import STEPS, aecg, fails, written

from ecgfed.domain.record.reader import read_recording


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
    assert read.skipped == ("MDC_PRESS_BLD_ART: no voltage",)
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
    assert read.skipped == ("V1: another part of 0.008 s", "V2: 1000 Hz")
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
        (
            lambda: digits("1,2"),
            "holds what is no number; expected numbers between blanks; separate the numbers by blanks",
        ),
        (lambda: digits("1,5 2,5"), "separate the numbers by blanks, and use a decimal point"),
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
        (lambda: aecg().replace("AnnotatedECG", "ClinicalDocument"), "is XML whose root is 'ClinicalDocument'"),
        (lambda: aecg().replace("urn:hl7-org:v3", "urn:other"), "is XML whose root is 'AnnotatedECG'"),
        (lambda: aecg().replace('"0.002"', '"0"'), "time increment '0' 's'"),
        (lambda: aecg().replace('"0.002"', '"-1"'), "time increment '-1'"),
        (lambda: aecg().replace('"0.002"', '"1e-320"'), "time increment '1e-320'"),
        (lambda: aecg().replace('unit="s"', 'unit="h"'), "time increment '0.002' 'h'"),
        (lambda: aecg().replace("TIME_ABSOLUTE", "TIME_ODD"), "scale of TIME_ODD ''"),
        (lambda: made.aecg_text([STEPS[0], STEPS[1][:9]]), "leads of 9 to 600 samples"),
        (lambda: aecg().replace("UTF-8", "x-odd"), "cannot be read as XML"),
    ],
)
def test_aecg_that_will_not_do(tmp_path: Path, text: Callable[[], str], words: str) -> None:
    assert words in fails(written(tmp_path, "r.xml", text()))
