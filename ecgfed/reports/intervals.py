"""PR, QRS, QT and QTc of a recording's average normal beat in each hour."""

import numpy as np

from ecgfed.base.language import message, tr_later
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.signal.qrs import MIN_FS_HZ
from ecgfed.domain.waves.intervals import FEW_BEATS, AverageBeat, LabelledWaves, average_beats
from ecgfed.domain.waves.lead import delineate_lead, readable
from ecgfed.reports.drawing import Reading
from ecgfed.reports.interval_table import TITLES, HourIntervals, NormalIntervals

PACED, NO_NORMAL_BEAT = tr_later("paced rhythm"), tr_later("no normal beat")
_LOW_RATE = message("fewer than {fs:g} samples a second", fs=MIN_FS_HZ)
#: Rhythms in which QT follows single intervals and no P wave is one.
_FIBRILLATION = ("AF or flutter", "AF", "atrial flutter")
_CLASSES = ("normal", "normal in fibrillation", "other")


def normal_intervals(reading: Reading) -> NormalIntervals:
    """Measure the intervals of the average normal beat in the lead in use.

    Normal beats in atrial fibrillation or flutter are averaged where an hour has not enough others: for QRS alone.

    Args:
        reading: the recording, its labelled beats and their counts.

    Raises:
        RecordError: the file cannot be read any more.
    """
    recording, beats = reading.recording, reading.beats
    lead = recording.lead
    if recording.fs_hz < MIN_FS_HZ or not len(beats):
        return NormalIntervals(lead, (), _LOW_RATE if len(beats) else FEW_BEATS)
    if Kind.VENTRICULAR in reading.labelled.withheld and bool((beats.kind == Kind.PACED).any()):
        return NormalIntervals(lead, (), PACED)  # a model's normal beats of a paced record are not to be relied on
    usable = readable(recording, beats.sample, reading.quality[lead].spans()) & beats.assessed
    usable &= np.append(True, np.diff(beats.sample) > 0)
    fibrillation = np.zeros(len(beats), np.bool_)
    for rhythm in reading.labelled.rhythms or ():
        if rhythm.rhythm in _FIBRILLATION:
            fibrillation |= rhythm.inside(beats.time_s)
    label = np.where(beats.kind == Kind.NORMAL, np.where(fibrillation, 1, 0), 2).astype(np.int64)
    points = delineate_lead(recording, lead, beats.sample, usable)
    waves = LabelledWaves(beats.sample, label, _CLASSES, points, usable, fibrillation)
    by_hour: dict[tuple[float, float], dict[str, AverageBeat]] = {}
    for average in average_beats(recording, lead, waves):
        by_hour.setdefault((average.start_s, average.stop_s), {})[average.label] = average
    paced = beats.time_s[beats.kind == Kind.PACED]
    hours = []
    for (start, stop), averages in by_hour.items():
        is_paced = bool(((paced >= start) & (paced < stop)).any())
        hours.append(_hour(start, stop, averages, PACED if is_paced else NO_NORMAL_BEAT))
    return NormalIntervals(lead, tuple(hours))


def _hour(start_s: float, stop_s: float, averages: dict[str, AverageBeat], without: str) -> HourIntervals:
    """Return the intervals of an hour; ``without`` says why there are none where it has no normal beat."""
    normal, fibrillating = (averages.get(name) for name in _CLASSES[:2])
    chosen = fibrillating if fibrillating is not None and not (normal and normal.averaged) else normal
    if chosen is None:
        return HourIntervals(start_s, stop_s, 0, dict.fromkeys(TITLES, Measurement(None, None, 0, without)))
    measured: dict[str, Measurement] = {name: getattr(chosen, name) for name in TITLES}
    return HourIntervals(start_s, stop_s, chosen.averaged, measured)
