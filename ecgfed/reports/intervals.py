"""PR, QRS, QT and QTc of a recording's average normal beat in each hour, and its ST level as a trend."""

import numpy as np

from ecgfed.base.language import message, tr_later
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm_episodes import FIBRILLATION
from ecgfed.domain.signal.qrs import MIN_FS_HZ
from ecgfed.domain.waves.delineate import P_MIN_BEATS
from ecgfed.domain.waves.intervals import FEW_BEATS, MIN_BEATS, AverageBeat, LabelledWaves, average_beats
from ecgfed.domain.waves.lead import delineate_lead, readable
from ecgfed.reports.drawing import Reading
from ecgfed.reports.interval_table import TITLES, HourIntervals, NormalIntervals
from ecgfed.reports.recording_parts import SHORT_S
from ecgfed.reports.st_level import LOW_CONFIDENCE, MOST_LOW, low_share, st_trend
from ecgfed.reports.st_trend import StTrend

PACED, NO_NORMAL_BEAT = tr_later("paced rhythm"), tr_later("no normal beat")
_LOW_RATE = message("fewer than {fs:g} samples a second", fs=MIN_FS_HZ)
_CLASSES = ("normal", "normal in fibrillation", "other")


def intervals_and_st(reading: Reading) -> tuple[NormalIntervals, StTrend]:
    """Measure the intervals of the average normal beat, and the ST level as a trend, in the lead in use.

    A recording of at most ``SHORT_S`` has too few beats for ``MIN_BEATS``: there ``P_MIN_BEATS`` suffice.
    Normal beats in atrial fibrillation or flutter are averaged where an hour has not enough others: for QRS alone.
    Where most of the beats to be averaged are of low confidence, that they are normal is not known well enough.

    Args:
        reading: the recording, its labelled beats and their counts.

    Raises:
        RecordError: the file cannot be read any more.
    """
    waves = _waves(reading)
    if isinstance(waves, str):
        lead = reading.recording.lead
        return NormalIntervals(lead, (), waves), StTrend(lead, (), waves)
    return _intervals(reading, waves), st_trend(reading, waves)


def _waves(reading: Reading) -> LabelledWaves | str:
    """Return the waves of all beats in the lead in use, or why they are not to be located."""
    recording, beats = reading.recording, reading.beats
    lead = recording.lead
    if recording.fs_hz < MIN_FS_HZ or not len(beats):
        return _LOW_RATE if len(beats) else FEW_BEATS
    if Kind.VENTRICULAR in reading.labelled.withheld and bool((beats.kind == Kind.PACED).any()):
        return PACED  # a model's normal beats of a paced record are not to be relied on
    usable = readable(recording, beats.sample, reading.quality[lead].spans()) & beats.assessed
    usable &= np.append(True, np.diff(beats.sample) > 0)
    fibrillation = np.zeros(len(beats), np.bool_)
    for rhythm in reading.labelled.rhythms or ():
        if rhythm.rhythm in FIBRILLATION:  # QT follows single intervals there, and no P wave is one
            fibrillation |= rhythm.inside(beats.time_s)
    label = np.where(beats.kind == Kind.NORMAL, np.where(fibrillation, 1, 0), 2).astype(np.int64)
    points = delineate_lead(recording, lead, beats.sample, usable)
    return LabelledWaves(beats.sample, label, _CLASSES, points, usable, fibrillation)


def _intervals(reading: Reading, waves: LabelledWaves) -> NormalIntervals:
    beats, lead = reading.beats, reading.recording.lead
    by_hour: dict[tuple[float, float], dict[str, AverageBeat]] = {}
    min_beats = P_MIN_BEATS if reading.recording.duration_s <= SHORT_S else MIN_BEATS
    for average in average_beats(reading.recording, lead, waves, min_beats=min_beats):
        by_hour.setdefault((average.start_s, average.stop_s), {})[average.label] = average
    paced = beats.time_s[beats.kind == Kind.PACED]
    hours = []
    for (start, stop), averages in by_hour.items():
        is_paced = bool(((paced >= start) & (paced < stop)).any())
        inside = waves.usable & (beats.time_s >= start) & (beats.time_s < stop)
        low = {name: low_share(reading, inside & (waves.label == at)) for at, name in enumerate(_CLASSES)}
        hours.append(_hour(start, stop, averages, low, PACED if is_paced else NO_NORMAL_BEAT))
    return NormalIntervals(lead, tuple(hours))


def _hour(
    start_s: float, stop_s: float, averages: dict[str, AverageBeat], low: dict[str, float], without: str
) -> HourIntervals:
    """Return the intervals of an hour.

    Args:
        start_s: its beginning, in seconds.
        stop_s: its end.
        averages: class of ``_CLASSES`` -> its average beat.
        low: class -> share of its beats that are of low confidence.
        without: why there are no intervals where the hour has no normal beat.
    """
    normal, fibrillating = (averages.get(name) for name in _CLASSES[:2])
    chosen = fibrillating if fibrillating is not None and not (normal and normal.averaged) else normal
    if chosen is None or low[chosen.label] > MOST_LOW:
        reason = without if chosen is None else LOW_CONFIDENCE
        return HourIntervals(start_s, stop_s, 0, dict.fromkeys(TITLES, Measurement(None, None, 0, reason)))
    measured: dict[str, Measurement] = {name: getattr(chosen, name) for name in TITLES}
    return HourIntervals(start_s, stop_s, chosen.averaged, measured, chosen.numbers, chosen.points)
