"""GE MUSE's XML, written by hand as MUSE exports it; derived leads are compared with Einthoven's and Goldberger's."""

import re
from pathlib import Path

import hospital_files as made
import numpy as np
import pytest

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.reader import format_of, read_comments, read_recording
from ecgfed.tasks.inspect import inspect_recording

ONE = np.arange(5000) % 211 - 100
TWO = np.arange(5000) % 173 - 80
CHEST = np.arange(5000) % 97


def eight() -> list[str]:
    chest = [made.muse_lead(f"V{n}", (CHEST + n).tolist()) for n in range(1, 7)]
    return [made.muse_lead("I", ONE.tolist()), made.muse_lead("II", TWO.tolist()), *chest]


def written(folder: Path, text: str, name: str = "r.xml", encoding: str = "latin-1") -> Path:
    path = folder / name
    path.write_text(text, encoding=encoding)
    return path


def fails(path: Path, lead: str | None = None) -> tuple[str, str | None]:
    with pytest.raises(RecordError) as caught:
        read_recording(path, lead)
    return caught.value.code, caught.value.parameter


def test_eight_leads_are_twelve(tmp_path: Path) -> None:
    path = written(tmp_path, made.muse_text(eight()))
    assert format_of(path) == "muse"
    recording = read_recording(path, "II", every_lead=True)
    assert recording.leads == ("I", "II", *(f"V{n}" for n in range(1, 7)), "III", "aVR", "aVL", "aVF")
    assert (recording.fs_hz, recording.samples) == (500, 5000)
    one, two = ONE * 0.00488, TWO * 0.00488
    expected = {"I": one, "II": two, "III": two - one, "aVR": -(one + two) / 2, "aVL": one - two / 2}
    expected |= {"aVF": two - one / 2, "V3": (CHEST + 3) * 0.00488}
    for name, signal in expected.items():
        np.testing.assert_allclose(recording.signals_mv[recording.leads.index(name)], signal, atol=1e-12)
    assert recording.notes == ("III, aVR, aVL, aVF derived from I and II, not stored in the file",)
    assert read_recording(path, "II").notes == ()  # of what is not read nothing is noted
    assert "derived" in inspect_recording(path).findings[0].text


def test_stored_limb_leads_are_not_derived_again(tmp_path: Path) -> None:
    third = np.arange(5000) % 41
    recording = read_recording(
        written(tmp_path, made.muse_text([*eight(), made.muse_lead("III", third.tolist())])), "III"
    )
    np.testing.assert_allclose(recording.signal_mv, third * 0.00488, atol=1e-12)
    assert recording.notes == ()


def test_without_lead_i_nothing_is_derived(tmp_path: Path) -> None:
    recording = read_recording(written(tmp_path, made.muse_text(eight()[1:])), every_lead=True)
    assert recording.leads == ("II", *(f"V{n}" for n in range(1, 7)))


def test_what_a_document_says(tmp_path: Path) -> None:
    path = written(tmp_path, made.muse_text(eight()), name="any.export")
    comments = read_comments(path)
    assert "patient name: Anna Quix" in comments
    assert {"sex: F", "age: 50", "patient id: 0815", "start: 03-02-2002 13:14:15"} <= set(comments)


def test_rates_and_units(tmp_path: Path) -> None:
    leads = [made.muse_lead("II", TWO.tolist(), unit="MILLIVOLTS", step="0.005")]
    recording = read_recording(written(tmp_path, made.muse_text(leads, base="25", exponent="1")))
    assert recording.fs_hz == 250
    np.testing.assert_allclose(recording.signal_mv, TWO * 0.005, atol=1e-12)
    assert fails(written(tmp_path, made.muse_text([made.muse_lead("II", [0] * 600, unit="FURLONGS")]))) == (
        "invalid-record",
        "leads",
    )


def test_a_lead_that_begins_later_is_another_part(tmp_path: Path) -> None:
    leads = [made.muse_lead("II", TWO.tolist()), made.muse_lead("V1", CHEST.tolist(), LeadTimeOffset="2500")]
    assert read_recording(written(tmp_path, made.muse_text(leads)), "II", every_lead=True).skipped == (
        "V1: another part of 10 s",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"LeadSampleCountTotal": 4999},
        {"LeadByteCountTotal": 9998},
        {"LeadAmplitudeUnitsPerBit": "4,88"},
        {"LeadAmplitudeUnitsPerBit": "9" * 400},
        {"LeadAmplitudeUnitsPerBit": "nan"},
        {"LeadAmplitudeUnitsPerBit": "0"},
        {"LeadSampleSize": "4"},
        {"LeadSampleSize": "-2"},
        {"WaveFormData": "a*b"},
        {"WaveFormData": "AAA="},
        {"WaveFormData": ""},
    ],
)
def test_leads_that_will_not_do(tmp_path: Path, change: dict[str, object]) -> None:
    assert fails(written(tmp_path, made.muse_text([made.muse_lead("II", TWO.tolist(), **change)]))) == (
        "invalid-record",
        None,
    )


def test_facts_that_disagree_are_noted(tmp_path: Path) -> None:
    leads = [made.muse_lead("II", TWO.tolist(), LeadDataCRC32=1), made.muse_lead("V1", [0] * 5000, LeadOff="TRUE")]
    notes = read_recording(written(tmp_path, made.muse_text(leads))).notes
    assert notes == ("lead II: its CRC-32 disagrees with its samples", "lead V1: marked as off by the recorder")


@pytest.mark.parametrize(
    "how",
    [
        {"kind": "Median"},
        {"base": "0"},
        {"base": "-500"},
        {"exponent": "999999"},
        {"base": "1e9"},
        {"doctype": '<!DOCTYPE RestingECG [<!ENTITY a "b">]>'},
        {"doctype": '<!DOCTYPE RestingECG SYSTEM "x" [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>'},
        {"before": "<a>" * 100 + "</a>" * 100},
    ],
)
def test_documents_that_will_not_do(tmp_path: Path, how: dict[str, str]) -> None:
    assert fails(written(tmp_path, made.muse_text(eight(), **how))) == ("invalid-record", None)


def test_the_document_type_is_never_fetched(tmp_path: Path) -> None:
    """An entity of the named document type stays empty: nothing is opened to look for it."""
    (tmp_path / "restecg.dtd").write_text('<!ENTITY who "Nobody">')
    text = made.muse_text(eight()).replace("Quix", "Quix&who;")
    assert "patient name: Anna Quix" in read_comments(written(tmp_path, text))


def test_another_root_and_utf_16(tmp_path: Path) -> None:
    text = made.muse_text(eight())
    assert fails(written(tmp_path, re.sub("RestingECG>", "other>", text))) == ("invalid-record", None)
    wide = text.replace("ISO-8859-1", "utf-16")
    assert read_recording(written(tmp_path, wide, encoding="utf-16")).lead == "I"
