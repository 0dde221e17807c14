"""Beat-by-beat comparison of annotations as ANSI/AAMI EC57 asks for it and WFDB's ``bxb`` does it.

Source of the rules: ANSI/AAMI EC57:1998/(R)2008, 4.3; WFDB Applications Guide, bxb(1) and sumstats(1),
https://physionet.org/physiotools/wag/. In our words: beats before 5:00 are for learning and do not count. Both files
are walked in time. The earlier of the two next beats is paired with the other file's next one when that is no further
than 150 ms and no other beat of the first file's is nearer to it; otherwise it stays alone, a missed or an extra beat
(O). Beats between ``[`` and ``]`` (flutter, fibrillation) of the reference are left out, and so are unmatched test
beats there. A beat without a partner in the other file's shutdown (a ``~`` with bits 4 and 5 of its subtype set, to the
next ``~`` without) is X, and counts like O.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.labels import BUILT_IN
from ecgfed.record.recording import Annotation

#: Half-width of a match and the end of the learning period, seconds.
MATCH_S = 0.150
START_S = 300.0
#: Rows (reference) and, in small letters, columns (test) of the confusion matrix.
CLASSES = ("N", "S", "V", "F", "Q", "O", "X")
#: WFDB's beats that MIT-BIH does not use; ``n`` (supraventricular escape) goes where ``e`` and ``j`` go.
_RARE = {"B": "N", "r": "V", "?": "Q"}
#: Which symbol is which AAMI class: de Chazal 2004, or bxb's, with the escape beats e, j and n in S.
MAPPINGS: dict[str, dict[str, str]] = {
    "aami5": {**BUILT_IN["aami5"].symbols, **_RARE, "n": "N"},
    "aami5-bxb": {**BUILT_IN["aami5-bxb"].symbols, **_RARE, "n": "S"},
}
_N, _S, _V, _F, _Q, _O, _X = range(7)
_NEVER = 2**62


@dataclass(frozen=True)
class Fraction:
    """A share as EC57 reports it: ``part`` of ``whole``, undefined where the whole is 0."""

    part: int
    whole: int

    @property
    def percent(self) -> float | None:
        """The share in percent, or None."""
        return 100 * self.part / self.whole if self.whole else None


@dataclass(frozen=True)
class Comparison:
    """What the comparison of one record, or the sum over several, found.

    Attributes:
        record: its name.
        counts: (7, 7) int64, reference classes down and test classes across, both in the order of ``CLASSES``.
        offset_ms: (pairs,) float64, test beat minus reference beat.
        rr_error_ms: (steps,) float64, reference minus test RR interval at each step where both are defined.
        shutdown_s: how long the test annotator was shut down.
    """

    record: str
    counts: NDArray[np.int64]
    offset_ms: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    rr_error_ms: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    shutdown_s: float = 0.0

    @property
    def scores(self) -> dict[str, Fraction]:
        """Sensitivity and positive predictivity of QRS, VEB and SVEB, and the VEB false positive rate.

        EC57 4.3.3, as bxb counts them: every beat counts for QRS. A fusion or unclassifiable beat called V is no false
        VEB, an unclassifiable one called S no false SVEB, since a reference cannot say what they are; a VEB called F or
        Q is missed all the same.
        """
        c = self.counts
        found, missed = int(c[:5, :5].sum()), int(c[:5, 5:].sum())
        extra = int(c[5:, :5].sum())
        true_v, true_s = int(c[_V, _V]), int(c[_S, _S])
        false_v = int(c[[_N, _S, _O, _X], _V].sum())
        false_s = int(c[[_N, _V, _F, _O, _X], _S].sum())
        not_v = int(c[[_N, _S, _F, _Q, _O, _X]][:, [_N, _S, _F, _Q]].sum())
        return {
            "qrs_se": Fraction(found, found + missed),
            "qrs_ppv": Fraction(found, found + extra),
            "veb_se": Fraction(true_v, int(c[_V].sum())),
            "veb_ppv": Fraction(true_v, true_v + false_v),
            "veb_fpr": Fraction(false_v, not_v + false_v),
            "sveb_se": Fraction(true_s, int(c[_S].sum())),
            "sveb_ppv": Fraction(true_s, true_s + false_s),
        }

    @property
    def qrs_f1(self) -> float | None:
        """Harmonic mean of QRS sensitivity and positive predictivity, percent; EC57 does not ask for it."""
        se, ppv = self.scores["qrs_se"], self.scores["qrs_ppv"]
        both = se.whole + ppv.whole
        return 200 * se.part / both if both else None

    @property
    def rr_rms_ms(self) -> float | None:
        """Root mean square error of the RR intervals, ms."""
        return float(np.sqrt(np.mean(self.rr_error_ms**2))) if len(self.rr_error_ms) else None

    def as_json(self) -> dict[str, Any]:
        """Return counts, scores (percent, with what they are a share of) and offsets for a script."""
        shares = {
            name: {"percent": _rounded(value.percent), "part": value.part, "whole": value.whole}
            for name, value in self.scores.items()
        }
        offset = self.offset_ms
        return {
            "record": self.record,
            "counts": self.counts.tolist(),
            "scores": shares,
            "qrs_f1": _rounded(self.qrs_f1),
            "offset_ms": {
                "median": _rounded(float(np.median(offset))) if len(offset) else None,
                "sd": _rounded(float(offset.std())) if len(offset) else None,
            },
            "rr_rms_ms": _rounded(self.rr_rms_ms),
            "shutdown_s": round(self.shutdown_s, 1),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


@dataclass(frozen=True)
class Aggregate:
    """Several records together: gross (of the summed counts) and average (mean of the records that define a score).

    ``sumstats`` prints both; its gross and average SVEB +P leave false SVEBs of fusion beats out, bxb's own does not;
    here bxb's rule holds throughout.
    """

    gross: Comparison
    average: dict[str, float | None]

    def as_json(self) -> dict[str, Any]:
        """Return both for a script."""
        return {"gross": self.gross.as_json(), "average": {k: _rounded(v) for k, v in self.average.items()}}


def aggregate(comparisons: Sequence[Comparison], name: str = "gross") -> Aggregate:
    """Sum comparisons up; raises ValueError for none."""
    if not comparisons:
        raise ValueError("no comparison to sum up")
    gross = Comparison(
        name,
        np.sum([one.counts for one in comparisons], axis=0, dtype=np.int64),
        np.concatenate([one.offset_ms for one in comparisons]),
        np.concatenate([one.rr_error_ms for one in comparisons]),
        sum(one.shutdown_s for one in comparisons),
    )
    average: dict[str, float | None] = {}
    for score in gross.scores:
        values = [value for one in comparisons if (value := one.scores[score].percent) is not None]
        average[score] = float(np.mean(values)) if values else None
    return Aggregate(gross, average)


@dataclass(frozen=True)
class _Beats:
    """The beats of one annotation file outside its flutter, and its flutter and shutdown intervals."""

    time: list[int]
    label: list[int]
    flutter: list[tuple[int, int]]
    shutdown: list[tuple[int, int]]


def _read(annotation: Annotation, symbols: dict[str, str], window: int) -> _Beats:
    """Walk the marks of a file once, in the order they stand in."""
    marks = list(zip(annotation.sample.tolist(), annotation.symbol.tolist(), annotation.subtypes.tolist(), strict=True))
    read = _Beats([], [], [], [])
    fluttering, i = False, 0
    while i < len(marks):
        at, symbol, subtype = marks[i]
        i += 1
        if fluttering:
            if symbol == "]":
                read.flutter[-1] = (read.flutter[-1][0], at)
                fluttering = False
        elif symbol == "[":
            read.flutter.append((at, _NEVER))
            fluttering = True
        elif symbol == "~" and subtype & 0x30 == 0x30:
            start, stop, ends = _shutdown(read, at, marks[i] if i < len(marks) else None, window)
            read.shutdown.append((start, stop))
            i += ends
        elif symbol in symbols:
            read.time.append(at)
            read.label.append(CLASSES.index(symbols[symbol]))
    return read


def _shutdown(read: _Beats, at: int, following: tuple[int, str, int] | None, window: int) -> tuple[int, int, bool]:
    """Return when a shutdown begins and ends, and whether the mark after it is its end.

    The AHA database has one mark in the middle instead: from a window after the last beat or flutter to a window before
    the next mark.
    """
    if following is None:
        return at, _NEVER, False
    if following[1] == "~" and following[2] & 0x30 != 0x30:
        return at, following[0], True
    before = max([*read.time[-1:], *(stop for _, stop in read.flutter[-1:])], default=0)
    stop = following[0] - window
    return min(before + window, stop), stop, False


def _inside(at: int, intervals: Iterable[tuple[int, int]]) -> bool:
    return any(start <= at <= stop for start, stop in intervals)


def _start(reference: list[int], test: list[int], start: int, window: int) -> tuple[int, int]:
    """Return which beats of both files the comparison begins with, after ``start`` samples.

    A test beat just before the start may belong to a reference beat just after it; one just after the start that
    belongs to nothing, the next one being nearer, does not count.
    """
    i = int(np.searchsorted(reference, start))
    j = int(np.searchsorted(test, start))
    if not start:
        return i, j
    first = reference[i] if i < len(reference) else _NEVER
    following = test[j] if j < len(test) else _NEVER
    if j > 0 and first - test[j - 1] < abs(first - following) and first - test[j - 1] <= window:
        return i, j - 1
    after = test[j + 1] if j + 1 < len(test) else _NEVER
    if following - start <= window and abs(first - after) < abs(first - following):
        j += 1
    return i, j


def _pairs(
    reference: list[int], test: list[int], i: int, j: int, window: int, stop: int
) -> Iterator[tuple[int, int, bool, bool]]:
    """Walk both files from beats ``i`` and ``j`` on; yield both next beats and which of the two is used up."""
    one, two = [*reference, _NEVER, _NEVER], [*test, _NEVER, _NEVER]
    while one[i] <= stop or two[j] <= stop:
        theirs, ours = one[i], two[j]
        if ours < theirs:
            matched = theirs - ours <= window and theirs - ours < abs(theirs - two[j + 1])
        else:
            matched = ours - theirs <= window and ours - theirs < abs(ours - one[i + 1])
        take_reference, take_test = matched or ours >= theirs, matched or ours < theirs
        yield i, j, take_reference, take_test
        i, j = i + take_reference, j + take_test


def _intervals(read: _Beats) -> list[int]:
    """Return the RR interval that ends at each beat; 0 for the first and across flutter or shutdown."""
    out = [0] * len(read.time)
    breaks = [start for start, _ in (*read.flutter, *read.shutdown)]
    for k in range(1, len(read.time)):
        before, at = read.time[k - 1], read.time[k]
        if not any(before <= start < at for start in breaks):
            out[k] = at - before
    return out


def compare(
    reference: Annotation,
    test: Annotation,
    fs_hz: float,
    *,
    samples: int | None = None,
    mapping: str = "aami5",
    start_s: float = START_S,
    match_s: float = MATCH_S,
    record: str = "",
) -> Comparison:
    """Compare test with reference annotations, beat by beat.

    Args:
        reference: all marks of the reference, beats and others.
        test: all marks of the annotator under test.
        fs_hz: sampling frequency of both, Hz.
        samples: length of the record; without it the comparison ends with the reference's last beat, as bxb's does.
        mapping: a name from ``MAPPINGS``.
        start_s: end of the learning period, seconds; EC57 says 300.
        match_s: half-width of a match, seconds; EC57 says 0.150.
        record: its name.

    Raises:
        ValueError: an unknown mapping.
    """
    if mapping not in MAPPINGS:
        raise ValueError(f"mapping is {mapping!r}; expected one of {', '.join(MAPPINGS)}")
    window, start = int(match_s * fs_hz), int(start_s * fs_hz)
    theirs, ours = _read(reference, MAPPINGS[mapping], window), _read(test, MAPPINGS[mapping], window)
    stop = samples if samples is not None else max(theirs.time, default=0)
    rr, our_rr = [*_intervals(theirs), 0], [*_intervals(ours), 0]
    counts = np.zeros((7, 7), np.int64)
    offsets, errors = [], []
    first = _start(theirs.time, ours.time, start, window)
    for i, j, take_reference, take_test in _pairs(theirs.time, ours.time, *first, window, stop):
        if take_reference and take_test:
            counts[theirs.label[i], ours.label[j]] += 1
            offsets.append(ours.time[j] - theirs.time[i])
        elif take_reference:
            counts[theirs.label[i], _X if _inside(theirs.time[i], ours.shutdown) else _O] += 1
        elif not _inside(ours.time[j], theirs.flutter):
            counts[_X if _inside(ours.time[j], theirs.shutdown) else _O, ours.label[j]] += 1
        if rr[i] and our_rr[j]:  # bxb takes the interval error at every step, of missed and extra beats too
            errors.append(rr[i] - our_rr[j])
    down = sum(min(end, stop) - begin for begin, end in ours.shutdown)
    ms = 1000 / fs_hz
    return Comparison(record, counts, np.array(offsets) * ms, np.array(errors) * ms, down / fs_hz)
