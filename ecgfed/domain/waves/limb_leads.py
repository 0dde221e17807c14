"""What the limb leads of a recording show together: the frontal axis, and whether they are one another's sums."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ecgfed.base.language import tr_later
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.twelve_leads import OF_I_AND_II, limb_lead
from ecgfed.domain.waves.delineate import BeatWindows
from ecgfed.domain.waves.intervals import NO_P_WAVE, NO_T_WAVE, NOISE
from ecgfed.domain.waves.lead import lead_windows, rr_intervals
from ecgfed.domain.waves.points import LEVEL_S, POINTS, Floats, Ints

ISOELECTRIC, NO_QRS = tr_later("isoelectric in I and aVF"), tr_later("no QRS complex")
#: A net area below this share of the area itself is isoelectric.
ISOELECTRIC_SHARE = 0.1
#: An axis is not assessed where its standard error exceeds so many degrees.
MOST_ERROR_DEG = 10.0
#: A limb lead is not its formula where they differ, in the average of beats, by so many mV, by this share of the higher
#: one's height, and by so many standard errors.
APART_MV, APART_SHARE, APART_ERRORS = 0.1, 0.2, 5.0
#: Beats at most that the leads are compared in.
_COMPARED = 60


@dataclass(frozen=True)
class LeadApart:
    """A stored limb lead that is not what its formula gives.

    Attributes:
        lead: III, aVR, aVL or aVF.
        difference_mv: the largest difference in the average of beats, mV.
        height_mv: the larger peak-to-peak height of the two, mV.
    """

    lead: str
    difference_mv: float
    height_mv: float


def beat_windows_of(recording: Recording, leads: Sequence[str], r_samples: Ints, numbers: Ints) -> list[BeatWindows]:
    """Return the windows of some beats in several leads.

    Args:
        recording: the recording.
        leads: some of its leads.
        r_samples: (all beats,) int64 increasing R peaks.
        numbers: which beats.

    Raises:
        RecordError: the file cannot be read any more.
    """
    rr_s = rr_intervals(r_samples, recording.fs_hz)
    windows = []
    for lead in leads:
        each = [lead_windows(recording, lead, r_samples, rr_s, at, at + 1) for at in numbers.tolist()]
        stacked = np.concatenate([one.window_mv for one in each])
        windows.append(BeatWindows(stacked, each[0].r, rr_s[numbers], rr_s[numbers + 1], recording.fs_hz))
    return windows


def frontal_axes(lead_i: BeatWindows, avf: BeatWindows, points: Floats) -> dict[str, Measurement]:
    """Return the axes of P, QRS and T in degrees, from the net areas of a wave in I and aVF.

    The axis is atan2(2 aVF / sqrt(3), I): aVF has sqrt(3) / 2 of the gain of I in Einthoven's triangle. Of QRS and T
    the area is taken above the end of the PR segment, of P above the line between its ends.

    Args:
        lead_i: windows of the averaged beats in I.
        avf: of the same beats in aVF.
        points: (7,) of the average beat, in samples from the R peak (``POINTS``).
    """
    at = dict(zip(POINTS, points.tolist(), strict=True))
    t_start = max(at["qrs_end"], 2 * at["t_peak"] - at["t_end"])
    spans = {
        "p_axis_deg": (at["p_onset"], at["p_end"], NO_P_WAVE),
        "qrs_axis_deg": (at["qrs_onset"], at["qrs_end"], NO_QRS),
        "t_axis_deg": (t_start, at["t_end"], NO_T_WAVE),
    }
    return {
        name: Measurement(None, None, 0, missing)
        if not np.isfinite([start, stop, at["qrs_onset"]]).all()
        else _axis(
            *(_levelled(beats, start, stop, at["qrs_onset"], of_p=name == "p_axis_deg") for beats in (lead_i, avf))
        )
        for name, (start, stop, missing) in spans.items()
    }


def _levelled(beats: BeatWindows, start: float, stop: float, qrs_onset: float, *, of_p: bool) -> Floats:
    """Return a wave of each beat against its level of rest, (beats, samples) mV."""
    first, last = beats.r + round(start), beats.r + round(stop) + 1
    wave = beats.window_mv[:, first:last]
    if of_p:
        part = np.linspace(0.0, 1.0, wave.shape[1])
        return np.asarray(wave - wave[:, :1] * (1 - part) - wave[:, -1:] * part)
    end = beats.r + round(qrs_onset)
    rest = beats.window_mv[:, end - max(1, beats.samples(LEVEL_S)) : end]
    return np.asarray(wave - rest.mean(axis=1, keepdims=True))


def _axis(lead_i: Floats, avf: Floats) -> Measurement:
    """Return the axis of a wave from its samples in I and aVF, (beats, samples) mV each."""
    area = np.stack([lead_i.sum(axis=1), avf.sum(axis=1) * 2 / np.sqrt(3)], axis=1)
    mean, count = area.mean(axis=0), len(area)
    total = [np.abs(lead.mean(axis=0)).sum() for lead in (lead_i, avf)]
    net = np.abs(mean * (1.0, np.sqrt(3) / 2))
    if (net <= ISOELECTRIC_SHARE * np.array(total)).all():
        return Measurement(None, None, count, ISOELECTRIC)
    degrees = float(np.degrees(np.arctan2(mean[1], mean[0])))
    across = area @ np.array([-mean[1], mean[0]]) / (mean @ mean)  # tangents of the deviations from the axis
    error = np.degrees(np.arctan(across.std(ddof=1) / np.sqrt(count))) if count > 1 else 0.0
    if error > MOST_ERROR_DEG:
        return Measurement(None, None, count, NOISE)
    single = np.degrees(np.arctan2(area[:, 1], area[:, 0])) - degrees
    apart = (single + 180) % 360 - 180
    return Measurement(degrees, float(apart.std(ddof=1)) if count > 1 else None, count)


def leads_apart(recording: Recording, stored: Mapping[str, str], r_samples: Ints, numbers: Ints) -> Iterator[LeadApart]:
    """Yield the stored limb leads that are not what I and II give, in the average of beats.

    Exchanged electrodes do not show here: a recorder computes every limb lead from the same three electrodes.

    Args:
        recording: the recording.
        stored: standard name -> the recording's own, of leads that it stores.
        r_samples: (all beats,) int64 increasing R peaks.
        numbers: beats that are readable in every limb lead; at most ``_COMPARED`` are used, evenly spread.

    Raises:
        RecordError: the file cannot be read any more.
    """
    names = [name for name in OF_I_AND_II if name in stored]
    if not names or not {"I", "II"} <= set(stored) or len(numbers) < 2:
        return
    spread = numbers[np.unique(np.linspace(0, len(numbers) - 1, min(len(numbers), _COMPARED)).astype(np.int64))]
    own = [stored[name] for name in ("I", "II", *names)]
    lead_i, lead_ii, *others = (
        beats.window_mv - np.median(beats.window_mv, axis=1, keepdims=True)
        for beats in beat_windows_of(recording, own, r_samples, spread)
    )
    for name, lead in zip(names, others, strict=True):
        formula = limb_lead(name, lead_i, lead_ii)
        difference = lead - formula
        mean = np.abs(difference.mean(axis=0) - np.median(difference.mean(axis=0)))
        at = int(mean.argmax())
        error = float(difference[:, at].std(ddof=1)) / np.sqrt(len(spread))
        height = max(float(np.ptp(lead.mean(axis=0))), float(np.ptp(formula.mean(axis=0))))
        if mean[at] > max(APART_MV, APART_SHARE * height, APART_ERRORS * error):
            yield LeadApart(name, float(mean[at]), height)
