"""From one recording and its R peaks to filtered, labelled windows: the path training and prediction share."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.signal.quality import Reason
from ecgfed.domain.signal.spans import Spans

FLAG_PADDED = 1  # the window reaches past an end of the recording
FLAG_POOR_QUALITY = 2  # the window overlaps a bad stretch of the lead (ecgfed.domain.signal.quality)
#: Where the recorder wrote nothing of the heart. A spike is not among them: what lies under it was recorded.
NOT_RECORDED = frozenset({Reason.GAP, Reason.FLAT, Reason.RAIL})
#: A window shows no signal that moves by no more than this after the filter, peak to peak in mV: the limit of a flat
#: line (``quality.FLAT_MV``), and a third of the noise that ANSI/AAMI EC13 allows a monitor.
NO_SIGNAL_MV = 0.010
#: ... or of which so large a share, or so large a share of the QRS, lies where nothing was recorded.
NO_SIGNAL_SHARE = 0.5
#: ... or when the lead lies at the rail for so long (s), so near the R peak (s): the wave is the step into saturation
#: or out of it. A clipped R wave is shorter.
RAIL_S, RAIL_NEAR_S = 0.3, 0.1
#: The QRS of a window, in seconds before and after the R peak (``context.QRS``).
QRS_BEFORE_S, QRS_AFTER_S = 0.070, 0.100
#: Half-width of the match between a detected peak and an annotated beat (EC57).
MATCH_S = 0.150


@dataclass(frozen=True)
class Windows:
    """Unlabelled beats of one recording.

    Attributes:
        window_mv: (beats, 1, 256) float32 millivolt at 360 Hz, filtered, not normalised.
        rr_s: (beats, features) float32 RR features of a version, see ``ecgfed.domain.beats.rr``.
        flags: (beats,) uint8 bits, ``FLAG_PADDED`` and ``FLAG_POOR_QUALITY``.
        no_signal: (beats,) bool, those whose window shows nothing of the heart (``without_signal``); none by default.
    """

    window_mv: NDArray[np.float32]
    rr_s: NDArray[np.float32]
    flags: NDArray[np.uint8]
    no_signal: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    def __post_init__(self) -> None:
        if len(self.no_signal) != len(self.flags):
            object.__setattr__(self, "no_signal", np.zeros(len(self.flags), np.bool_))

    def chosen(self, which: NDArray[np.int64] | slice) -> "Windows":
        """Return some of the beats."""
        return Windows(self.window_mv[which], self.rr_s[which], self.flags[which], self.no_signal[which])

    @staticmethod
    def joined(parts: Sequence["Windows"]) -> "Windows":
        """Return the beats of several, one or more, in order."""
        names = ("window_mv", "rr_s", "flags", "no_signal")
        return Windows(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def no_windows(rr_version: int) -> Windows:
    """Return the windows of no beats, with RR features of a version."""
    nothing = np.empty((0, 1, WINDOW_SAMPLES), np.float32)
    return Windows(nothing, np.empty((0, len(RR_NAMES[rr_version])), np.float32), np.empty(0, np.uint8))


def window_spans(fs_hz: float, r_samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each beat's window lies in a recording's own samples.

    Args:
        fs_hz: the recording's sampling frequency in Hz.
        r_samples: (beats,) int64 R peaks in the recording.

    Returns:
        Start and stop (not included), (beats,) int64 each; they may lie outside the recording.
    """
    before, after = round(R_INDEX * fs_hz / FS_HZ), round((WINDOW_SAMPLES - R_INDEX) * fs_hz / FS_HZ)
    return r_samples - before, r_samples + after


def without_signal(
    window_mv: NDArray[np.float32],
    fs_hz: float,
    r_samples: NDArray[np.int64],
    lost: Spans,
    *,
    rail: Spans | None = None,
) -> NDArray[np.bool_]:
    """Return which windows show nothing of the heart, so that no class can be read from them.

    Args:
        window_mv: (beats, 1, 256) filtered millivolt at 360 Hz.
        fs_hz: the recording's sampling frequency in Hz.
        r_samples: (beats,) int64 R peaks in the recording.
        lost: stretches of the recording's samples in which nothing was recorded (``NOT_RECORDED``).
        rail: those of them in which the lead lies at the rail.

    Returns:
        (beats,) bool, true where the window moves by no more than ``NO_SIGNAL_MV``, where ``NO_SIGNAL_SHARE`` of
        the window or of its QRS lies in ``lost``, or where the lead lies at the rail for ``RAIL_S`` or longer within
        ``RAIL_NEAR_S`` of the R peak.
    """
    qrs = r_samples - round(QRS_BEFORE_S * fs_hz), r_samples + round(QRS_AFTER_S * fs_hz)
    missing = np.zeros(len(r_samples), np.bool_)
    for start, stop in (window_spans(fs_hz, r_samples), qrs):
        missing |= lost.before(stop) - lost.before(start) >= NO_SIGNAL_SHARE * (stop - start)
    if rail is not None:
        near, long = round(RAIL_NEAR_S * fs_hz), rail.stop - rail.start >= RAIL_S * fs_hz
        missing |= Spans(rail.start[long], rail.stop[long]).overlap(r_samples - near, r_samples + near + 1)
    return still_windows(window_mv) | missing


def without_qrs(window_mv: NDArray[np.float32], min_mv: float) -> NDArray[np.bool_]:
    """Return which windows (beats, 1, 256) in mV go less far than ``min_mv`` within the QRS, (beats,) bool.

    A beat that another lead shows stands there in the noise of an electrode that is off (``size.least_qrs_mv``).
    """
    start, stop = R_INDEX - round(QRS_BEFORE_S * FS_HZ), R_INDEX + round(QRS_AFTER_S * FS_HZ) + 1
    return np.asarray(np.ptp(window_mv[:, :, start:stop], axis=(1, 2)) < min_mv)


def empty_windows(
    window_mv: NDArray[np.float32], fs_hz: float, r_samples: NDArray[np.int64], lost: Spans
) -> NDArray[np.bool_]:
    """Return which windows hold nothing at all: what ``prepare`` leaves out of a cohort.

    Of these ``without_signal`` names more: those that were recorded in part, too. An annotator who saw another lead may
    be right about them, so they stay in a cohort, flagged.

    Args:
        window_mv: as of ``without_signal``; so are the others.

    Returns:
        (beats,) bool, true where the window moves by no more than ``NO_SIGNAL_MV``, or lies all in ``lost``.
    """
    start, stop = window_spans(fs_hz, r_samples)
    return still_windows(window_mv) | (lost.before(stop) - lost.before(start) >= stop - start)


def still_windows(window_mv: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which windows (beats, 1, 256) in mV move by no more than ``NO_SIGNAL_MV``, (beats,) bool."""
    return np.asarray(np.ptp(window_mv, axis=(1, 2)) <= NO_SIGNAL_MV)


def hides_signal(
    padded: NDArray[np.bool_], fs_hz: float, r_samples: NDArray[np.int64], lost: Spans
) -> NDArray[np.bool_]:
    """Return which windows are padded or show no signal somewhere, and so make no reference.

    Args:
        padded: (beats,) bool, of ``cut_windows``.
        fs_hz: the recording's sampling frequency in Hz.
        r_samples: (beats,) int64 R peaks in the recording.
        lost: stretches of the recording's samples without signal.

    Returns:
        (beats,) bool.
    """
    return padded | lost.overlap(*window_spans(fs_hz, r_samples))


def beat_flags(padded: NDArray[np.bool_], fs_hz: float, r_samples: NDArray[np.int64], bad: Spans) -> NDArray[np.uint8]:
    """Return the flags of beats: ``FLAG_PADDED``, ``FLAG_POOR_QUALITY``, both or 0.

    Args:
        padded: (beats,) bool, of ``cut_windows``.
        fs_hz: the recording's sampling frequency in Hz.
        r_samples: (beats,) int64 R peaks in the recording.
        bad: stretches of the recording's samples where the lead is bad.

    Returns:
        (beats,) uint8.
    """
    flags = np.where(padded, FLAG_PADDED, 0).astype(np.uint8)
    flags[bad.overlap(*window_spans(fs_hz, r_samples))] |= FLAG_POOR_QUALITY
    return flags


@dataclass(frozen=True)
class LabelledBeats:
    """Labelled beats of one recording, in order of time.

    Attributes:
        windows: the beats' windows, RR features and flags.
        label: (beats,) int16 class numbers.
        sample: (beats,) int64 R positions in the recording as recorded.
        unclassified: beats per symbol that no class claims.
        unmatched: detected peaks without an annotated beat, and annotated beats without a peak; 0, 0 when annotated
            peaks were used.
        empty: labelled beats that were left out because their window holds nothing (``empty_windows``).
    """

    windows: Windows
    label: NDArray[np.int16]
    sample: NDArray[np.int64]
    unclassified: dict[str, int]
    unmatched: tuple[int, int] = (0, 0)
    empty: int = 0


@dataclass(frozen=True)
class Labels:
    """Which beats of a recording are labelled, and how.

    Attributes:
        keep: (labelled,) int64 numbers among all its beats, in order of time.
        label: (labelled,) int16 class numbers.
        mark: (labelled,) int64 sample numbers of the annotated beats; R peaks where nobody annotated any.
        unclassified: as of ``LabelledBeats``.
        unmatched: see there.
    """

    keep: NDArray[np.int64]
    label: NDArray[np.int16]
    mark: NDArray[np.int64]
    unclassified: dict[str, int]
    unmatched: tuple[int, int]


def assign_labels(
    r_samples: NDArray[np.int64], fs_hz: float, annotation: Annotation, labels: LabelMap, *, detected: bool
) -> Labels:
    """Label the beats of one recording; arguments as of ``label_beats``."""
    beats = annotation.beats()
    use, symbol, mark, unmatched = np.arange(len(r_samples)), beats.symbol, beats.sample, (0, 0)
    if detected:
        use, theirs = match_peaks(r_samples, beats.sample, round(MATCH_S * fs_hz))
        unmatched = (len(r_samples) - len(use), len(beats.sample) - len(use))
        symbol, mark = symbol[theirs], mark[theirs]
    label = labels.encode(symbol)
    known = label >= 0
    names, counts = np.unique(symbol[~known], return_counts=True)
    unclassified = {str(n): int(c) for n, c in zip(names, counts, strict=True)}
    return Labels(use[known], label[known], mark[known], unclassified, unmatched)


def match_peaks(
    detected: NDArray[np.int64], annotated: NDArray[np.int64], tolerance: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair detected with annotated beats one to one, nearest pairs first, at most ``tolerance`` samples apart.

    Args:
        detected: (peaks,) increasing sample numbers.
        annotated: (beats,) increasing sample numbers.
        tolerance: the widest distance of a pair, in samples.

    Returns:
        Indices into ``detected`` and into ``annotated``, pair by pair, in order of time.
    """
    first = np.searchsorted(annotated, detected - tolerance, side="left")
    last = np.searchsorted(annotated, detected + tolerance, side="right")
    pairs = [
        (abs(int(annotated[j]) - int(detected[i])), i, j)
        for i in range(len(detected))
        for j in range(first[i], last[i])
    ]
    taken_i, taken_j, matched = set(), set(), []
    for _, i, j in sorted(pairs):
        if i not in taken_i and j not in taken_j:
            taken_i.add(i)
            taken_j.add(j)
            matched.append((i, j))
    out = np.array(sorted(matched), dtype=np.int64).reshape(-1, 2)
    return out[:, 0], out[:, 1]
