"""What leads other than the one in use say about waves, pauses and beats; log odds by hand, and records of MIT-BIH."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.domain.events.beats import SOON_AFTER, SOON_BEFORE
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.signal import confirm
from ecgfed.domain.signal.confirm import SecondLook, second_look
from ecgfed.domain.signal.qrs import detect_qrs

FS = 100.0
PEAKS = np.arange(100, 3000, 100)  # a beat a second


def lead_of(waves: dict[int, float], beat: float = 4.5) -> confirm._Odds:
    """A lead that shows every beat, and waves at other samples."""
    odds = dict.fromkeys(PEAKS.tolist(), beat) | waves
    at = sorted(odds)
    return confirm._Odds(np.array(at), np.array([odds[sample] for sample in at], np.float32), FS)


@pytest.mark.parametrize(
    ("place", "own", "other", "expected"),
    [
        (1045, -1.0, 4.0, SOON_AFTER + SOON_BEFORE),
        (1030, -1.0, 4.0, SOON_AFTER + SOON_BEFORE),
        (1075, -1.0, 4.0, SOON_AFTER + SOON_BEFORE),
        (1045, -1.0, 0.5, 0),  # by both leads together no beat
        (1045, -2.5, 4.0, 0),  # the lead in use is sure that it is none
        (1010, -1.0, 4.0, 0),  # of the beat's own waves
    ],
)
def test_a_wave_is_an_undetected_beat_where_the_leads_together_take_it_for_one(
    place: int, own: float, other: float, expected: int
) -> None:
    undetected = confirm._undetected(PEAKS, [lead_of({place: own}), lead_of({place: other})])
    assert undetected[9] == expected
    assert not np.delete(undetected, 9).any()


@pytest.mark.parametrize(("missing", "expected"), [(1050, SOON_AFTER), (1150, SOON_BEFORE), (1100, 0)])
def test_a_wave_is_near_a_beat_at_less_than_the_usual_interval(missing: int, expected: int) -> None:
    peaks = np.delete(PEAKS, 10)  # the one at 1100
    leads = [confirm._Odds(peaks, np.full(len(peaks), 4.5, np.float32), FS) for _ in range(2)]
    at, odds = np.sort(np.append(peaks, missing)), []
    for number, value in enumerate((-1.0, 4.0)):
        odds.append(np.where(at == missing, value, 4.5).astype(np.float32))
        leads[number] = confirm._Odds(at, odds[number], FS)
    assert confirm._undetected(peaks, leads)[9] == expected


def test_a_lead_that_is_not_clear_cut_has_no_say_at_the_ends_of_a_pause() -> None:
    beat = int(PEAKS[12])
    unclear = confirm._Odds(PEAKS, np.where(beat == PEAKS, -0.2, 2.0).astype(np.float32), FS)
    used = lead_of({beat: 1.1})
    nobody = np.zeros(len(PEAKS), np.bool_)
    assert not confirm._sure(PEAKS, [used, unclear], nobody)[1][12]  # nor is the lead in use sure of it
    used = lead_of({beat: 2.0}, beat=3.2)
    sure, clear, _ = confirm._sure(PEAKS, [used, unclear], nobody)
    assert (bool(sure[12]), bool(clear[12])) == (False, True)


def look_at(record: str, mitdb: Path) -> tuple[NDArray[np.int64], SecondLook, float]:
    """The R peaks of MLII alone, and what both leads say about them."""
    recording = open_recording(mitdb / record, leads="MLII", every_lead=True)
    assert set(recording.leads) == {"MLII", "V1"}
    peaks = detect_qrs(recording.signals_mv[recording.leads.index("MLII")], recording.fs_hz)
    return peaks, second_look(recording, peaks), recording.fs_hz


@pytest.mark.parametrize(
    ("record", "start_s", "rr_s", "confirmed"),
    [
        ("107", 1743.2, 1.42, False),  # a ventricular beat at 1743.81 s is not detected
        ("207", 1642.8, 2.51, True),  # escape beats, V1 not clear-cut
        ("232", 1329.1, 4.44, True),  # a pause with noise in V1
    ],
)
def test_long_intervals_of_records(record: str, start_s: float, rr_s: float, confirmed: bool, mitdb: Path) -> None:
    peaks, look, fs_hz = look_at(record, mitdb)
    at = int(np.abs(peaks / fs_hz - start_s).argmin())
    assert (peaks[at + 1] - peaks[at]) / fs_hz == pytest.approx(rr_s, abs=0.02)
    assert bool(look.confirmed[at]) is confirmed
