"""The twelve leads of a report: the sheet of 3 x 4 leads, each lead's average beat, axes, a check of the limb leads."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ecgfed.base.language import joined_message, message, tr_later, translated
from ecgfed.domain.events.axis import AXES
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.twelve_leads import (
    CABRERA_ORDER,
    OF_I_AND_II,
    RHYTHM_LEAD,
    STANDARD_LEADS,
    STANDARD_ORDER,
    standard_lead,
    stored_leads,
    twelve_leads,
)
from ecgfed.domain.waves.intervals import FEW_BEATS, NOISE
from ecgfed.domain.waves.lead import readable
from ecgfed.domain.waves.limb_leads import beat_windows_of, frontal_axes, leads_apart
from ecgfed.domain.waves.points import POINTS, Ints
from ecgfed.reports.drawing import Drawing, Reading
from ecgfed.reports.interval_table import HourIntervals, NormalIntervals
from ecgfed.reports.recording_parts import TwelveLeadPage
from ecgfed.reports.signals import DrawnTwelve, mean_beat
from ecgfed.reports.strip_selection import STRIP_S

#: The average beat of a lead is drawn from so long before the R peak to so long behind it: twelve fit on a sheet of A4.
_BEFORE_S, _AFTER_S = 0.3, 0.5
#: Points that are marked on it.
_MARKED = {
    "p_onset": tr_later("onset of P"),
    "qrs_onset": tr_later("onset of QRS"),
    "qrs_end": tr_later("end of QRS"),
    "t_end": tr_later("end of T"),
}
#: A recording of so many leads and more is meant to have the standard ones.
_ABOUT_TWELVE = 8
#: Electrodes on the limbs (IEC 60601-2-25): such a lead may be the augmented one, or the electrode's potential.
_ELECTRODES = ("R", "L", "F")
#: Why axes are not assessed where stored limb leads contradict each other.
APART = tr_later("the limb leads do not agree")
_FORMULAS = {"III": "II - I", "aVR": "-(I + II) / 2", "aVL": "I - II / 2", "aVF": "II - I / 2"}


def twelve_lead_sheet(drawing: Drawing, intervals: NormalIntervals) -> tuple[TwelveLeadPage, dict[str, Any]]:
    """Return the text of the sheet of twelve leads, and the data that the page's script draws it from.

    Args:
        drawing: of a recording with twelve leads.
        intervals: with the average normal beats.
    """
    assert drawing.twelve is not None
    reading, twelve = drawing.reading, drawing.twelve
    averages = [hour for hour in intervals.hours if hour.averaged]
    average = max(averages, key=lambda hour: hour.averaged, default=None)
    reason = intervals.overall("qrs_ms").not_assessed or FEW_BEATS
    axes = dict.fromkeys(AXES, Measurement(None, None, 0, reason))
    start_s = _start_s(reading, average)
    strip, shown = drawing.sheet(start_s), None
    if average is not None:
        shown = _average_leads(reading, twelve, average)
        apart = next(limb_lead_warnings(reading), None) is not None
        axes = dict.fromkeys(AXES, Measurement(None, None, 0, APART)) if apart else _axes(reading, twelve, average)
    page = TwelveLeadPage(
        twelve.twelve.derived,
        strip["start_s"],
        min(STRIP_S, reading.recording.duration_s - start_s),
        axes,
        0 if average is None else average.averaged,
        reading.recording.lead,
    )
    orders = {"standard": STANDARD_ORDER, "Cabrera": CABRERA_ORDER}
    return page, {"strip": strip, "orders": orders, "rhythm": RHYTHM_LEAD, "averages": shown}


def _start_s(reading: Reading, average: HourIntervals | None) -> float:
    """Return where the sheet begins: the 10 s with most beats of the average one, else with most beats."""
    last = max(0.0, reading.recording.duration_s - STRIP_S)
    times = reading.beats.time_s[reading.beats.assessed if average is None else average.numbers]
    if not last or not len(times):
        return 0.0
    starts = np.clip(times - 0.5, 0.0, last)
    inside = np.searchsorted(times, starts + STRIP_S) - np.searchsorted(times, starts)
    return float(starts[inside.argmax()])


def _axes(reading: Reading, twelve: DrawnTwelve, average: HourIntervals) -> dict[str, Measurement]:
    numbers = _readable(reading, twelve, average, ("I", "aVF"))
    if not len(numbers):
        return dict.fromkeys(AXES, Measurement(None, None, 0, NOISE))
    lead_i, avf = beat_windows_of(twelve.twelve.recording, ("I", "aVF"), reading.beats.sample, numbers)
    return frontal_axes(lead_i, avf, average.points)


def _average_leads(reading: Reading, twelve: DrawnTwelve, average: HourIntervals) -> dict[str, Any]:
    """Return the average beat of each lead that can be read, and the points on it, as the page's script draws them."""
    fs_hz = reading.recording.fs_hz
    before, after = round(_BEFORE_S * fs_hz), round(_AFTER_S * fs_hz) - 1
    leads = []
    for name in STANDARD_LEADS:
        at = reading.beats.sample[_readable(reading, twelve, average, (name,))]
        at = at[(at >= before) & (at + after < reading.recording.samples)]
        if len(at):
            leads.append({"name": name, **mean_beat(twelve.leads, name, at, before, after)})
    marks = [
        {"sample": round((before + value) / twelve.leads.step, 2), "text": translated(_MARKED[point])}
        for point, value in zip(POINTS, average.points.tolist(), strict=True)
        if point in _MARKED and np.isfinite(value)
    ]
    return {"leads": leads, "marks": marks}


def _readable(reading: Reading, twelve: DrawnTwelve, average: HourIntervals, leads: Sequence[str]) -> Ints:
    """Return which of the averaged beats can be read in some leads."""
    usable = np.ones(len(average.numbers), np.bool_)
    for name in leads:
        usable &= readable(reading.recording, reading.beats.sample[average.numbers], twelve.leads.quality[name].spans())
    return np.asarray(average.numbers[usable])


def no_sheet(recording: Recording) -> Iterator[tuple[str, str]]:
    """State why a recording of about twelve leads has no sheet of them."""
    if len(recording.leads) < _ABOUT_TWELVE or twelve_leads(recording) is not None:
        return
    stored, usual = stored_leads(recording.leads), Counter(map(standard_lead, recording.leads))
    twice = [name for name in STANDARD_LEADS if usual[name] > 1 and name not in stored]
    derived = OF_I_AND_II if {"I", "II"} <= set(stored) else ()
    missing = [name for name in STANDARD_LEADS if name not in (*stored, *twice, *derived)]
    reasons = [message("{n} leads are named {lead}", n=usual[name], lead=name) for name in twice]
    if missing:
        reasons.append(message("no lead is named {leads}", leads=", ".join(missing)))
    if electrodes := [name for name in recording.leads if name in _ELECTRODES]:
        names = ", ".join(electrodes)
        reasons.append(message("named after electrodes, so the lead is not known: {names}", names=names))
    yield "no-twelve-leads", message("No sheet of twelve leads: {reasons}.", reasons=joined_message(reasons, "; "))


def limb_lead_warnings(reading: Reading) -> Iterator[tuple[str, str]]:
    """Warn of stored limb leads that are not what Einthoven's and Goldberger's equations give."""
    recording, beats = reading.recording, reading.beats
    stored = stored_leads(recording.leads)
    if not len(beats):
        return
    usable = beats.assessed & np.append(True, np.diff(beats.sample) > 0)
    for name in ("I", "II", *OF_I_AND_II):
        if name in stored:
            usable &= readable(recording, beats.sample, reading.quality[stored[name]].spans())
    apart = list(leads_apart(recording, stored, beats.sample, np.flatnonzero(usable)))
    if apart:
        each = [
            message(
                "{lead} is not {formula}, but differs by up to {difference:.2f} mV ({share:.0%} of the height)",
                lead=one.lead,
                formula=_FORMULAS[one.lead],
                difference=one.difference_mv,
                share=one.difference_mv / one.height_mv,
            )
            for one in apart
        ]
        text = message(
            "The limb leads do not agree in the average beat: {each}. A lead is mislabelled, has another sign or "
            "gain, or was recorded at another time; do not rely on the axis. Exchanged electrodes do not "
            "show in this check.",
            each=joined_message(each, "; "),
        )
        yield "limb-leads", text
