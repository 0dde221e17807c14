"""What a delineator gives, and the constants that it works by."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: The ST level is measured so long behind the J point, against the mean of so long before the QRS complex.
ST_S, LEVEL_S = 0.060, 0.020


@dataclass(frozen=True, eq=False)
class WavePoints:
    """Where the waves of beats begin, peak and end, in samples.

    Every field is (beats,) float64, NaN where the point was not located. Onsets and ends carry a constant correction
    (``WaveSettings``), so they may lie between two samples.

    Attributes:
        p_onset: beginning of the P wave.
        p_peak: its peak.
        p_end: its end.
        qrs_onset: beginning of the QRS complex.
        qrs_end: its end, the J point.
        t_peak: peak of the T wave: of a biphasic one, of its larger part.
        t_end: end of the T wave; a U wave is no part of it.
    """

    p_onset: Floats
    p_peak: Floats
    p_end: Floats
    qrs_onset: Floats
    qrs_end: Floats
    t_peak: Floats
    t_end: Floats

    def __len__(self) -> int:
        return len(self.qrs_onset)

    def array(self) -> Floats:
        """Return all points, (beats, 7), in the order of ``POINTS``."""
        return np.stack([getattr(self, name) for name in POINTS], axis=1)

    @classmethod
    def from_array(cls, points: Floats) -> "WavePoints":
        """Return the points of an array (beats, 7), as ``array`` gives it."""
        return cls(*(points[:, column] for column in range(len(POINTS))))


#: Names of the points, in order of time.
POINTS = tuple(field.name for field in fields(WavePoints))


@dataclass(frozen=True)
class WaveSettings:
    """Constants of the delineator; ``benchmarks/delineation/choose.py`` chose them on half of QTDB's records.

    Attributes:
        qrs_sigma_s: standard deviation of the Gaussian by which the slope of QRS complexes is smoothed.
        qrs_quiet_s: a QRS complex begins and ends where the slope is low for so long.
        onset_share: a slope is low below this share of the complex's steepest: before its onset.
        end_share: ... behind its end.
        noise_times: ... or below this multiple of the median slope before the complex ...
        noise_share: ... unless it exceeds this share of the steepest.
        onset_reach_s: a complex begins at most so long before the R peak.
        end_reach_s: it ends at most so long behind it.
        wave_sigma_s: standard deviation of the Gaussian by which P and T waves are smoothed.
        alike: neighbouring beats are averaged whose QRS complexes correlate at least so much ...
        alike_rr: ... and whose intervals before and behind them differ by at most this share.
        neighbours: so many beats on either side are looked at.
        averaged_share: share of the average in the beat whose points are located; the rest is the beat itself.
        p_sigma_s: a P wave is looked for by the curvature smoothed by this Gaussian.
        p_reach_s: its peak is at most so long before the R peak.
        p_rr_share: ... and at most this share of the interval.
        p_after_t_s: it begins at least so long behind the T wave before it.
        p_negative: a negative wave's curvature counts so much.
        p_far: a wave counts by this share per second less, the longer before the QRS complex it is.
        p_common: a share of the power of alike beats' slopes around it that is at least so large is common to them.
        p_slope_s: the steepest slope is at most so far from a P wave's peak.
        p_onset_s: its onset is at most so far from the steepest slope.
        p_end_s: its end, likewise.
        t_sigma_s: a T wave is looked for by the curvature smoothed by this Gaussian.
        t_first_s: its peak is at least so long behind the end of the QRS complex.
        t_reach_s: ... at most so long behind the R peak.
        t_rr_share: ... at most this share of the next interval ...
        t_root: ... and at most this multiple of the root of the interval before, both in seconds.
        t_slope_s: the steepest slope is at most so far behind the peak.
        t_end_s: its end is at most so far behind the steepest slope.
        p_onset_offset_s: what is added to a located onset, since a reader sees both leads of a recording.
        p_end_offset_s: ... to an end of a P wave.
        qrs_onset_offset_s: ... to an onset of a QRS complex.
        qrs_end_offset_s: ... to its end.
        t_end_offset_s: ... to the end of a T wave.
    """

    qrs_sigma_s: float = 0.007
    qrs_quiet_s: float = 0.028
    onset_share: float = 0.07
    end_share: float = 0.05
    noise_times: float = 2.5
    noise_share: float = 0.25
    onset_reach_s: float = 0.1
    end_reach_s: float = 0.12
    wave_sigma_s: float = 0.014
    alike: float = 0.8
    alike_rr: float = 0.2
    neighbours: int = 7
    averaged_share: float = 0.3
    p_sigma_s: float = 0.022
    p_reach_s: float = 0.45
    p_rr_share: float = 0.45
    p_after_t_s: float = 0.02
    p_negative: float = 0.6
    p_far: float = 1.0
    p_common: float = 0.4
    p_slope_s: float = 0.06
    p_onset_s: float = 0.08
    p_end_s: float = 0.07
    t_sigma_s: float = 0.03
    t_first_s: float = 0.08
    t_reach_s: float = 0.62
    t_rr_share: float = 0.68
    t_root: float = 0.55
    t_slope_s: float = 0.1
    t_end_s: float = 0.12
    p_onset_offset_s: float = 0.004
    p_end_offset_s: float = -0.016
    qrs_onset_offset_s: float = -0.004
    qrs_end_offset_s: float = -0.006
    t_end_offset_s: float = -0.004


SETTINGS = WaveSettings()
