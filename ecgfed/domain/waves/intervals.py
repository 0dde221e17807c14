"""PR, QRS, QT and QTc of the average beat of each class and hour, and the level of its ST segment.

An interval comes from the average beat; its spread is that of the single beats. Where noise, fibrillation, too few
beats or a missing wave forbids it, it is not assessed, and the reason is stated. QTc: QT / RR^(1/2) (Bazett, Heart
7:353-370, 1920) and QT / RR^(1/3) (Fridericia, Acta Med Scand 53:469-486, 1920), RR being the mean interval before the
averaged beats in seconds; Bazett's overcorrects fast rates and undercorrects slow ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ecgfed.base.language import tr_later
from ecgfed.domain.events.figure import Measurement
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.waves.delineate import BeatWindows, delineate_mean, qrs_bounds, wave_slope, without_qrs
from ecgfed.domain.waves.lead import lead_windows, rr_intervals
from ecgfed.domain.waves.points import LEVEL_S, POINTS, ST_S, Floats, Ints, Mask, WavePoints

#: An average needs so many beats ...
MIN_BEATS = 10
#: ... whose QRS complexes correlate so much with the median one, and whose intervals are so near the median interval.
ALIKE, ALIKE_RR, _SHAPE_S = 0.9, 0.2, 0.10
#: A class is in fibrillation in an hour where a larger share of its beats is.
FIBRILLATION_SHARE = 0.5
#: A wave that is located in a smaller share of the single beats is none.
WAVE_SHARE = 0.5
#: Why an interval is not assessed.
NOISE, FEW_BEATS = tr_later("noise"), tr_later("too few beats")
FIBRILLATION, NO_P_WAVE, NO_T_WAVE = (
    tr_later("atrial fibrillation or flutter"),
    tr_later("no P wave"),
    tr_later("no T wave"),
)
_P_ONSET, _QRS_ONSET, _QRS_END, _T_END = (POINTS.index(name) for name in ("p_onset", "qrs_onset", "qrs_end", "t_end"))


@dataclass(frozen=True, eq=False)
class AverageBeat:
    """The average beat of a class in an hour, and its intervals.

    Attributes:
        label: name of the class.
        start_s: beginning of the hour, in seconds from the start of the recording.
        stop_s: its end.
        beats: beats of the class in this hour.
        averaged: those of them that the average is made of; 0 where there is none.
        window_mv: (samples,) float64 mV, the average beat, zero before the QRS complex; empty where there is none.
        r: the column of the R peak.
        points: (7,) float64, its points (``POINTS``) in samples from the R peak, NaN where not located.
        rr_s: mean interval before the averaged beats in seconds; NaN without any.
        numbers: (averaged,) int64, which of all beats the average is made of.
        pr_ms: from the onset of the P wave to that of the QRS complex.
        qrs_ms: duration of the QRS complex.
        qt_ms: from the onset of the QRS complex to the end of the T wave.
        qtc_bazett_ms: QT corrected for the rate by Bazett.
        qtc_fridericia_ms: by Fridericia.
        st_mv: level 60 ms behind the J point in mV against the end of the PR segment; experimental.
    """

    label: str
    start_s: float
    stop_s: float
    beats: int
    averaged: int
    window_mv: Floats
    r: int
    points: Floats
    rr_s: float
    numbers: Ints
    pr_ms: Measurement
    qrs_ms: Measurement
    qt_ms: Measurement
    qtc_bazett_ms: Measurement
    qtc_fridericia_ms: Measurement
    st_mv: Measurement

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary without the average beat's samples."""
        rr_s = None if np.isnan(self.rr_s) else round(self.rr_s, 4)
        about = {name: getattr(self, name) for name in ("label", "start_s", "stop_s", "beats", "averaged")}
        return {**about, "rr_s": rr_s, **{name: getattr(self, name).to_dict() for name in INTERVALS}}


#: Names of the measurements of an average beat.
INTERVALS = ("pr_ms", "qrs_ms", "qt_ms", "qtc_bazett_ms", "qtc_fridericia_ms", "st_mv")


@dataclass(frozen=True, eq=False)
class LabelledWaves:
    """Beats of a lead with their classes and waves.

    Attributes:
        r_samples: (beats,) int64 increasing R peaks.
        label: (beats,) int64 class numbers.
        classes: names of the classes.
        points: their waves, as sample numbers of the recording.
        usable: (beats,) bool, false where noise or no signal forbids it.
        fibrillation: (beats,) bool, beats in atrial fibrillation or flutter.
    """

    r_samples: Ints
    label: Ints
    classes: Sequence[str]
    points: WavePoints
    usable: Mask
    fibrillation: Mask


def average_beats(
    recording: Recording, lead: str, beats: LabelledWaves, *, bin_s: float = 3600.0, min_beats: int = MIN_BEATS
) -> Iterator[AverageBeat]:
    """Yield the average beat of each class in each hour that has any, in order of time.

    Args:
        recording: the recording.
        lead: the lead in which the waves were located.
        beats: all its beats.
        bin_s: what is meant by an hour, in seconds.
        min_beats: an average is made of at least so many beats.

    Raises:
        RecordError: the file cannot be read any more.
    """
    rr_s = rr_intervals(beats.r_samples, recording.fs_hz)
    hour = (beats.r_samples / recording.fs_hz // bin_s).astype(np.int64)
    for number in np.unique(hour).tolist():
        first, stop = np.searchsorted(hour, [number, number + 1]).tolist()
        windows = lead_windows(recording, lead, beats.r_samples, rr_s, first, stop)
        edges = number * bin_s, min((number + 1) * bin_s, recording.duration_s)
        for label in np.unique(beats.label[first:stop]).tolist():
            of_class = np.flatnonzero(beats.label[first:stop] == label)
            yield _average(windows, beats, first + of_class, of_class, edges, min_beats)


def _average(
    windows: BeatWindows, beats: LabelledWaves, numbers: Ints, rows: Ints, edges: tuple[float, float], min_beats: int
) -> AverageBeat:
    """Return the average of the beats ``numbers``, whose windows are ``rows``."""
    usable = beats.usable[numbers]
    name, count = str(beats.classes[int(beats.label[numbers[0]])]), len(numbers)
    chosen = np.flatnonzero(usable)
    if len(chosen) >= min_beats:
        chosen = chosen[_typical(windows, rows[chosen])]
    if len(chosen) < min_beats:
        reason = FEW_BEATS if count < min_beats or usable.sum() >= min_beats else NOISE
        lost, none = np.full(len(POINTS), np.nan), numbers[:0]
        not_assessed = dict.fromkeys(INTERVALS, Measurement(None, None, 0, reason))
        return AverageBeat(
            name, edges[0], edges[1], count, 0, np.empty(0), windows.r, lost, np.nan, none, **not_assessed
        )
    numbers, rows = numbers[chosen], rows[chosen]
    averaged, points, levelled = _mean_beat(windows, rows)
    single = beats.points.array()[numbers]
    in_fibrillation = float(beats.fibrillation[numbers].mean()) > FIBRILLATION_SHARE
    rr_s = windows.rr_before_s[rows]
    mean_rr_s = float(rr_s.mean())
    measured = _intervals(points, single, mean_rr_s, rr_s, windows.fs_hz, in_fibrillation)
    measured["st_mv"] = _st_level(averaged, levelled, points, windows)
    return AverageBeat(
        name, edges[0], edges[1], count, len(numbers), averaged, windows.r, points, mean_rr_s, numbers, **measured
    )


def _typical(windows: BeatWindows, rows: Ints) -> Mask:
    """Return which beats have the shape and the rate of most."""
    around = windows.samples(_SHAPE_S)
    shape = windows.window_mv[rows, windows.r - around : windows.r + around]
    shape = shape - shape.mean(axis=1, keepdims=True)
    middle = np.median(shape, axis=0)
    middle -= middle.mean()
    norm = np.sqrt((shape**2).sum(axis=1) * (middle**2).sum())
    typical = shape @ middle >= ALIKE * norm
    for rr_s in (windows.rr_before_s[rows], windows.rr_after_s[rows]):
        typical &= np.abs(rr_s / np.median(rr_s) - 1) <= ALIKE_RR
    return np.asarray(typical)


def _mean_beat(windows: BeatWindows, rows: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the mean window (samples,), its points (7,) from the R peak, and the windows it is made of, levelled."""
    chosen = BeatWindows(
        windows.window_mv[rows], windows.r, windows.rr_before_s[rows], windows.rr_after_s[rows], windows.fs_hz
    )
    onset, end = qrs_bounds(chosen)
    before = windows.samples(LEVEL_S)
    at = onset[:, None] - np.arange(1, before + 1)
    level = chosen.window_mv[np.arange(len(rows))[:, None], at].mean(axis=1, keepdims=True)
    levelled = chosen.window_mv - level
    power = (wave_slope(without_qrs(chosen, onset, end), windows.fs_hz) ** 2).mean(axis=0)
    before_s, after_s = (np.array([rr_s.mean()]) for rr_s in (chosen.rr_before_s, chosen.rr_after_s))
    mean = BeatWindows(levelled.mean(axis=0, keepdims=True), windows.r, before_s, after_s, windows.fs_hz)
    points = delineate_mean(mean, power[None], np.array([len(rows)]))
    return mean.window_mv[0], points.array()[0], levelled


def _intervals(
    points: Floats, single: Floats, mean_rr_s: float, rr_s: Floats, fs_hz: float, in_fibrillation: bool
) -> dict[str, Measurement]:
    """Return PR, QRS, QT and both QTc of an average beat."""
    pr = _interval(points, single, _P_ONSET, _QRS_ONSET, fs_hz, NO_P_WAVE)
    qrs = _interval(points, single, _QRS_ONSET, _QRS_END, fs_hz, "no QRS complex")
    qt = _interval(points, single, _QRS_ONSET, _T_END, fs_hz, NO_T_WAVE)
    if in_fibrillation:
        pr = qt = Measurement(None, None, 0, FIBRILLATION)
    corrected = {"qtc_bazett_ms": qt, "qtc_fridericia_ms": qt}
    for name, power in zip(corrected, (1 / 2, 1 / 3), strict=True):
        if qt.value is None:
            continue
        of_single = (single[:, _T_END] - single[:, _QRS_ONSET]) * 1000 / fs_hz / rr_s**power
        corrected[name] = Measurement(qt.value / mean_rr_s**power, _sd(of_single), qt.beats)
    return {"pr_ms": pr, "qrs_ms": qrs, "qt_ms": qt, **corrected}


def _interval(points: Floats, single: Floats, start: int, stop: int, fs_hz: float, missing: str) -> Measurement:
    """Return an interval in ms between two points."""
    length = (points[stop] - points[start]) * 1000 / fs_hz
    of_single = (single[:, stop] - single[:, start]) * 1000 / fs_hz
    known = int(np.isfinite(of_single).sum())
    if not np.isfinite(length) or known < WAVE_SHARE * len(single):
        return Measurement(None, None, known, missing)
    return Measurement(float(length), _sd(of_single), known)


def _sd(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.std(ddof=1)) if len(known) > 1 else None


def _st_level(averaged: Floats, levelled: Floats, points: Floats, windows: BeatWindows) -> Measurement:
    if np.isnan(points[_QRS_END]):
        return Measurement(None, None, 0, "no QRS complex")
    at = min(windows.r + round(float(points[_QRS_END]) + ST_S * windows.fs_hz), len(averaged) - 1)
    return Measurement(float(averaged[at]), _sd(levelled[:, at]), len(levelled))
