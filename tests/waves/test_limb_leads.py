"""Derived leads against their formulas, the frontal axis against dipoles of known directions, and the leads' sums."""

from pathlib import Path

import numpy as np
import pytest
from record_files import write_leads
from twelve_lead_records import FS_HZ, dipole_leads, write_twelve

from ecgfed.domain.events.axis import axis_word
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.twelve_leads import STANDARD_LEADS, STANDARD_ORDER, stored_leads, twelve_leads
from ecgfed.domain.waves.delineate import BeatWindows
from ecgfed.domain.waves.limb_leads import ISOELECTRIC, frontal_axes, leads_apart
from ecgfed.domain.waves.points import POINTS

R_S = np.arange(0.35, 10, 60 / 66)
R_SAMPLES = np.round(R_S * FS_HZ).astype(np.int64)
INSIDE = np.arange(1, len(R_S) - 1)
POINTS_MS = {
    "p_onset": -220,
    "p_peak": -160,
    "p_end": -100,
    "qrs_onset": -45,
    "qrs_end": 50,
    "t_peak": 290,
    "t_end": 400,
}


def windows(signal: np.ndarray) -> BeatWindows:
    """Windows around the beats that have one in full."""
    before, after = 300, 450
    inside = R_SAMPLES[(before <= R_SAMPLES) & (R_SAMPLES + after < len(signal))]
    rr_s = np.full(len(inside), 60 / 66)
    return BeatWindows(np.stack([signal[at - before : at + after] for at in inside]), before, rr_s, rr_s, FS_HZ)


def axes(leads: dict[str, np.ndarray]) -> dict[str, float | None]:
    points = np.array([POINTS_MS[name] for name in POINTS]) * FS_HZ / 1000
    found = frontal_axes(windows(leads["I"]), windows(leads["aVF"]), points)
    return {name: axis.value for name, axis in found.items()}


def read(path: Path) -> Recording:
    return read_recording(path, every_lead=True)


def test_the_sheet_has_the_leads_where_cardiologists_look_for_them() -> None:
    """AHA/ACC/HRS 2007: limb leads, augmented leads, V1 to V3, V4 to V6, each from top to bottom."""
    columns = list(zip(*STANDARD_ORDER, strict=True))
    assert columns == [("I", "II", "III"), ("aVR", "aVL", "aVF"), ("V1", "V2", "V3"), ("V4", "V5", "V6")]


def test_eight_leads_give_twelve_by_their_formulas(tmp_path: Path) -> None:
    leads = dipole_leads()
    stored = {name.lower(): leads[name] for name in ("V6", "II", "V1", "V3", "V2", "I", "V4", "V5")}
    recording = read(write_leads(tmp_path, "eight", stored, fs_hz=FS_HZ))
    twelve = twelve_leads(recording)
    assert twelve is not None
    assert twelve.recording.leads == STANDARD_LEADS
    assert twelve.derived == ("III", "aVR", "aVL", "aVF")
    i, ii = (recording.lead_mv(name, 0, recording.samples) for name in ("i", "ii"))
    expected = {"III": ii - i, "aVR": -(i + ii) / 2, "aVL": i - ii / 2, "aVF": ii - i / 2, "I": i}
    for name, values in expected.items():
        np.testing.assert_allclose(twelve.recording.lead_mv(name, 100, 900), values[100:900], atol=1e-12)
    for name in ("III", "aVR", "aVL", "aVF"):  # and a body's leads are what the formulas say
        np.testing.assert_allclose(twelve.recording.lead_mv(name, 0, 5000), leads[name], atol=0.002)


def test_a_gap_in_one_lead_is_no_gap_in_another(tmp_path: Path) -> None:
    leads = {name: signal for name, signal in dipole_leads().items() if name != "aVF"}
    leads["I"][1000:1100] = np.nan
    twelve = twelve_leads(read(write_leads(tmp_path, "gap", leads, fs_hz=FS_HZ)))
    assert twelve is not None
    missing = dict(zip(STANDARD_LEADS, np.isnan(twelve.recording.read(1000, 1100)).all(axis=1), strict=True))
    assert {name for name, gone in missing.items() if gone} == {"I", "aVF"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("I", "II", "V1"), {"I", "II", "V1"}),
        (("MLI", "MLII", "MCL1"), set()),  # electrodes on the trunk
        (("Lead i", "DII", "avf"), {"I", "II", "aVF"}),
        (("ECG", "Resp"), set()),
    ],
)
def test_which_names_are_standard_leads(names: tuple[str, ...], expected: set[str]) -> None:
    assert set(stored_leads(names)) == expected


def test_a_recording_without_a_chest_lead_has_no_twelve(tmp_path: Path) -> None:
    leads = {name: signal for name, signal in dipole_leads().items() if name != "V4"}
    assert twelve_leads(read(write_leads(tmp_path, "eleven", leads, fs_hz=FS_HZ))) is None


@pytest.mark.parametrize("degrees", [-170, -91, -60, -30, 0, 50, 89, 91, 140, 179])
def test_the_axis_is_the_dipoles_direction(degrees: int) -> None:
    found = axes(dipole_leads(degrees, p_deg=degrees / 2, t_deg=30, noise_mv=0.005))
    for name, direction in (("qrs_axis_deg", degrees), ("p_axis_deg", degrees / 2), ("t_axis_deg", 30)):
        value = found[name]
        assert value is not None
        assert abs((value - direction + 180) % 360 - 180) < 3, name


def test_the_axis_is_computed_as_by_hand() -> None:
    """I has a net area of 3 and aVF of -1.5: atan2(-1.5 * 2 / sqrt(3), 3) = -30 degrees."""
    flat = np.zeros((4, 750))
    lead_i, avf = flat.copy(), flat.copy()
    lead_i[:, 295:305], avf[:, 295:305] = 0.3, -0.15
    rr_s = np.ones(4)
    points = np.array([POINTS_MS[name] for name in POINTS]) * FS_HZ / 1000
    found = frontal_axes(BeatWindows(lead_i, 300, rr_s, rr_s, FS_HZ), BeatWindows(avf, 300, rr_s, rr_s, FS_HZ), points)
    assert found["qrs_axis_deg"].value == pytest.approx(-30.0)
    assert found["qrs_axis_deg"].beats == 4


def test_no_axis_where_the_complex_is_isoelectric_or_lost_in_noise() -> None:
    time = np.arange(750) - 300.0
    biphasic = np.tile(time * np.exp(-0.5 * (time / 8) ** 2) / 8, (6, 1))
    rr_s = np.ones(6)
    points = np.array([POINTS_MS[name] for name in POINTS]) * FS_HZ / 1000
    lead = BeatWindows(biphasic, 300, rr_s, rr_s, FS_HZ)
    assert frontal_axes(lead, lead, points)["qrs_axis_deg"].not_assessed == ISOELECTRIC
    noise = np.random.default_rng(1).normal(0, 0.5, (2, 6, 750))
    noisy = [BeatWindows(0.1 * biphasic + one, 300, rr_s, rr_s, FS_HZ) for one in noise]
    assert frontal_axes(noisy[0], noisy[1], points)["qrs_axis_deg"].value is None
    points[0] = np.nan
    assert frontal_axes(lead, lead, points)["p_axis_deg"].not_assessed == "no P wave"


@pytest.mark.parametrize(
    ("degrees", "word"),
    [(-30, "normal"), (90, "normal"), (-31, "left"), (-90, "left"), (91, "right"), (180, "right"), (-91, "extreme"),
     (-179, "extreme")],
)  # fmt: skip
def test_the_words_for_axes(degrees: float, word: str) -> None:
    assert axis_word(degrees).startswith(word)


def apart(folder: Path, leads: dict[str, np.ndarray]) -> set[str]:
    recording = read(write_twelve(folder, "limbs", leads))
    return {one.lead for one in leads_apart(recording, stored_leads(recording.leads), R_SAMPLES, INSIDE)}


def test_limb_leads_that_agree_and_that_do_not(tmp_path: Path) -> None:
    leads = dipole_leads(noise_mv=0.03)
    assert apart(tmp_path / "whole", leads) == set()
    rng = np.random.default_rng(2)  # each amplifier's own noise
    noisy = {name: signal + rng.normal(0, 0.05, len(signal)) for name, signal in leads.items()}
    assert apart(tmp_path / "noise", noisy) == set()
    wandering = {**leads, "III": leads["III"] + 0.5 + 0.3 * np.sin(np.arange(5000) / FS_HZ)}
    assert apart(tmp_path / "wander", wandering) == set()
    swapped = {**leads, "II": leads["III"], "III": leads["II"]}
    assert "III" in apart(tmp_path / "swapped", swapped)
    assert apart(tmp_path / "inverted", {**leads, "aVF": -leads["aVF"]}) == {"aVF"}


def test_exchanged_electrodes_keep_the_sums(tmp_path: Path) -> None:
    """Arms exchanged: I is inverted, II and III change places, aVR and aVL too. The sums hold, and none is claimed."""
    leads = dipole_leads()
    exchanged = {
        **leads, "I": -leads["I"], "II": leads["III"], "III": leads["II"], "aVR": leads["aVL"], "aVL": leads["aVR"],
    }  # fmt: skip
    assert apart(tmp_path, exchanged) == set()
