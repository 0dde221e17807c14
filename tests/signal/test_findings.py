"""What is said of a recording as a whole, and what is not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray

from ecgfed.domain.record.recording import Annotation, Recording
from ecgfed.domain.record.wfdb_files import read_annotation, read_recording
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.findings import Finding, heart_rate, missing_lead, record_findings
from ecgfed.domain.signal.peaks import detect_around_gaps

FS = 360.0
SIGNAL, R = synthetic_signal("N" * 40, seed=1)


def recording(leads: dict[str, NDArray[np.float64]], comments: tuple[str, ...] = (), fs_hz: float = FS) -> Recording:
    names = tuple(leads)
    return Recording("rec", Path("rec"), names[0], names, fs_hz, np.stack(list(leads.values())), comments)


def judged(given: Recording, peaks: NDArray[np.int64] = R, annotation: Annotation | None = None) -> dict[str, Finding]:
    bad = np.zeros(given.signals_mv.shape, dtype=bool)
    return {found.kind: found for found in record_findings(given, peaks, bad, annotation)}


def test_nothing_is_said_of_a_sound_record() -> None:
    assert judged(recording({"MLII": SIGNAL, "V1": -0.5 * SIGNAL})) == {}  # V1 points down in most hearts


def test_a_lead_turned_over_is_said_to_point_down() -> None:
    for lead in ("MLII", "II", "I", "V5"):
        found = judged(recording({lead: -SIGNAL}))["inverted"]
        assert found.lead == lead
        assert found.evidence["down_share"] == 1.0
        assert found.evidence["down_mv"] == pytest.approx(1.0, abs=0.2)
        assert f"{lead}: the QRS points down in 100% of beats" in found.text
    assert judged(recording({"V1": -SIGNAL})) == {}


def test_an_offset_of_the_baseline_is_no_polarity() -> None:
    """117's R waves lie below 0 mV because its baseline does; they point up all the same."""
    assert judged(recording({"MLII": SIGNAL - 3.0})) == {}


def test_r_and_s_of_one_height_are_said_to_be_alike() -> None:
    at = np.arange(len(SIGNAL))
    s_waves = sum(-1.0 * np.exp(-0.5 * ((at - r - 14) / 4.3) ** 2) for r in R)
    found = judged(recording({"MLII": SIGNAL + s_waves}))
    assert set(found) == {"biphasic"}


def test_bad_samples_do_not_count_for_polarity() -> None:
    signal = SIGNAL.copy()
    half = len(signal) // 5 * 4
    signal[:half] *= -1
    given, bad = recording({"MLII": signal}), np.zeros((1, len(signal)), dtype=bool)
    assert {found.kind for found in record_findings(given, R, bad)} == {"inverted"}
    bad[0, :half] = True
    assert record_findings(given, R, bad) == []


def limb_leads(one: float, three: float) -> dict[str, NDArray[np.float64]]:
    """Einthoven's leads of one dipole: I and III as given, II their sum."""
    return {"I": one * SIGNAL, "II": (one + three) * SIGNAL, "III": three * SIGNAL}


def test_exchanged_arm_electrodes() -> None:
    """LA and RA exchanged: I turns over, II and III exchange, aVR and aVL too."""
    heart = limb_leads(0.7, 0.3)
    assert judged(recording(heart)) == {}
    exchanged = {"I": -heart["I"], "II": heart["III"], "III": heart["II"]}
    found = judged(recording(exchanged))
    assert {"arm-electrodes", "inverted"} <= set(found)
    assert found["arm-electrodes"].lead == "I"
    assert "limb-leads" not in found  # Einthoven's law holds, so the names fit one another
    given = {**exchanged, "aVR": -(exchanged["I"] + exchanged["II"]) / 2}
    assert "arm-electrodes" in judged(recording(given))
    # lead I alone upside down is an axis to the right, and no exchange
    assert "arm-electrodes" not in judged(recording(limb_leads(-0.3, 1.2)))


def test_exchanged_names_break_einthovens_law() -> None:
    heart = limb_leads(0.7, 0.3)
    found = judged(recording({"I": heart["II"], "II": heart["I"], "III": heart["III"]}))
    assert found["limb-leads"].evidence["rest"] == pytest.approx(0.6 / np.hypot(1.0, 0.7), abs=0.01)


@pytest.mark.parametrize(
    ("header_hz", "kinds"),
    [
        (360.0, set()),
        (250.0, set()),
        (1000.0, {"sampling-frequency"}),
        (1800.0, {"heart-rate", "sampling-frequency"}),
        (90.0, {"heart-rate", "sampling-frequency"}),
    ],
)
def test_a_header_that_states_another_frequency(header_hz: float, kinds: set[str]) -> None:
    """75 beats a minute at 360 Hz. At 250 they are 52, and plausible; at 90 they are 19, at 1800 they are 375."""
    found = judged(recording({"MLII": SIGNAL}, fs_hz=header_hz))
    assert set(found) & {"heart-rate", "sampling-frequency"} == kinds
    for kind in kinds:
        assert f"{header_hz:g} Hz" in found[kind].text


def test_heart_rate_is_the_median_over_good_intervals() -> None:
    peaks = np.array([0, 360, 720, 1080, 3600, 3780])
    bad = np.zeros(4000, dtype=bool)
    assert heart_rate(peaks, FS, bad) == 60.0
    bad[1100:3000] = True
    assert heart_rate(peaks, FS, bad) == 60.0
    bad[:3600] = True
    assert heart_rate(peaks, FS, bad) == 120.0
    bad[:] = True
    assert heart_rate(peaks, FS, bad) is None
    assert heart_rate(peaks[:1], FS, bad) is None


@pytest.mark.parametrize(("count", "text"), [(0, "No beats were found"), (4, "Only 4 beats")])
def test_too_few_beats(count: int, text: str) -> None:
    found = judged(recording({"MLII": SIGNAL}), R[:count])
    assert set(found) == {"no-beats"}
    assert text in found["no-beats"].text


@pytest.mark.parametrize(
    ("comment", "paced"),
    [
        ("The rhythm is paced with a demand pacemaker.", True),
        ("Ventricular pacing throughout", True),
        ("no pacemaker", False),
        ("without pacing", False),
        ("wandering atrial pacemaker.", False),
        ("Ectopic pacemaker", False),
        ("spaced electrodes", False),
        ("", False),
    ],
)
def test_the_headers_word_on_pacing(comment: str, paced: bool) -> None:
    found = judged(recording({"MLII": SIGNAL}, ("69 M 1085 1629 x1", comment)))
    assert ("paced" in found) == paced
    if paced:
        assert comment in found["paced"].text


def test_the_annotations_word_on_pacing() -> None:
    symbol = np.array(["N"] * 30 + ["/"] * 8 + ["f"] * 2)
    found = judged(recording({"MLII": SIGNAL}), annotation=Annotation(R, symbol))
    assert found["paced"].evidence == {"from": "annotation", "beats": 10}
    assert judged(recording({"MLII": SIGNAL}), annotation=Annotation(R, np.array(["N"] * 40))) == {}


def test_a_wanted_lead_that_is_not_there() -> None:
    given = recording({"V5": SIGNAL, "V2": SIGNAL})
    (found,) = missing_lead(given, ("MLII", "II"))
    assert found.evidence == {"wanted": ["MLII", "II"], "present": ["V5", "V2"]}
    assert missing_lead(given, ("V5",)) == []
    assert missing_lead(replace(given, lead="V2"), ("V5", "V2")) == []


def of_record(folder: Path, name: str, leads: tuple[str, ...] = ("MLII", "V5")) -> list[Finding]:
    given = read_recording(folder / name, leads, every_lead=True)
    quality = [lead_quality(signal, 360.0) for signal in given.signals_mv]
    peaks = detect_around_gaps(given.signal_mv, 360.0, quality[given.leads.index(given.lead)])
    bad = np.stack([found.bad() for found in quality])
    return record_findings(given, peaks, bad, read_annotation(folder / name))


@pytest.mark.mitdb
def test_real_records_polarity_pacing_and_order_of_leads(mitdb: Path) -> None:
    found = {(f.kind, f.lead) for f in of_record(mitdb, "207")}
    assert found == {("inverted", "MLII")}
    # 117's R wave lies below 0 mV with its baseline, at -0.9 mV; it points up, with an S wave nearly as deep
    assert {(f.kind, f.lead) for f in of_record(mitdb, "117")} == {("biphasic", "MLII")}
    assert of_record(mitdb, "100") == []
    assert {f.kind for f in of_record(mitdb, "102")} == {"paced"}
    given = read_recording(mitdb / "114", ("MLII",), every_lead=True)
    assert (given.leads, given.lead) == (("V5", "MLII"), "MLII")
    assert "inverted" not in {f.kind for f in of_record(mitdb, "114", ("MLII",))}
