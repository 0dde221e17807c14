"""Beat-by-beat comparison of annotations by ANSI/AAMI EC57, compatible with WFDB's ``bxb``.

Source of the rules: ANSI/AAMI EC57:1998/(R)2008, 4.3; WFDB Applications Guide, bxb(1) and sumstats(1),
https://physionet.org/physiotools/wag/. Summary: beats before 5:00 are the learning period and are not scored. Both
files are traversed in time. The earlier of the two next beats is matched with the next beat of the other file if that
is within 150 ms and no other beat of the first file is nearer to it; otherwise it is unmatched, a missed or an extra
beat (O). Reference beats between ``[`` and ``]`` (flutter, fibrillation) are excluded, and so are unmatched test beats
there; these segments and atrial fibrillation are scored by episode (``ec57_flutter``). An unmatched beat during a
shutdown of the other file (a ``~`` with bits 4 and 5 of its subtype set, to the next ``~`` without) is X, and counts
like O. ``ec57_walk`` implements the matching. ST is not scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.core.evaluation.ec57_flutter import FibrillationScores, FlutterScores, compare_fibrillation, compare_flutter
from ecgfed.core.evaluation.ec57_walk import FLUTTER_WAVE, Step, Walker, in_samples, pairs
from ecgfed.core.evaluation.fraction import Fraction
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.record.recording import Annotation

#: Half-width of a match and the end of the learning period, seconds.
MATCH_S = 0.150
START_S = 300.0
#: Rows (reference) and, in lower case, columns (test) of the confusion matrix.
CLASSES = ("N", "S", "V", "F", "Q", "O", "X")
#: WFDB beat symbols that MIT-BIH does not use; ``n`` (supraventricular escape) is mapped like ``e`` and ``j``.
_RARE = {"B": "N", "r": "V", "?": "Q"}
#: Mappings from symbols to AAMI classes: de Chazal 2004, and bxb's, with the escape beats e, j and n in S.
MAPPINGS: dict[str, dict[str, str]] = {
    "aami5": {**BUILT_IN["aami5"].symbols, **_RARE, "n": "N"},
    "aami5-bxb": {**BUILT_IN["aami5-bxb"].symbols, **_RARE, "n": "S"},
}
#: Captions about the beats on which the mappings differ.
MAPPING_WORDS = {
    "aami5": "de Chazal 2004: escape beats e, j, n are N",
    "aami5-bxb": "WFDB's bxb: escape beats e, j, n are S",
}
_N, _S, _V, _F, _Q, _O, _X = range(7)


@dataclass(frozen=True)
class BeatComparison:
    """Comparison of one record, or the sum over several.

    Attributes:
        record: name of the record.
        counts: (7, 7) int64, rows reference and columns test classes, in the order of ``CLASSES``.
        offset_ms: (pairs,) float64, test beat minus reference beat.
        rr_error_ms: (steps,) float64, reference minus test RR interval at each step with both defined.
        shutdown_s: total shutdown of the test annotator, including the learning period, as in ``bxb``.
        flutter: scores of flutter and fibrillation episodes.
        mapping: mapping from symbols to classes, a name from ``MAPPINGS``.
        fibrillation: scores of episodes of atrial fibrillation.
    """

    record: str
    counts: NDArray[np.int64]
    offset_ms: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    rr_error_ms: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    shutdown_s: float = 0.0
    flutter: FlutterScores = field(default_factory=FlutterScores)
    mapping: str = "aami5"
    fibrillation: FibrillationScores = field(default_factory=FibrillationScores)

    @property
    def scores(self) -> dict[str, Fraction]:
        """Sensitivity and positive predictivity of QRS, VEB and SVEB, and the VEB false positive rate.

        EC57 4.3.3, as in bxb: every beat counts for QRS. A fusion or unclassifiable beat labelled V is not a false VEB,
        and an unclassifiable one labelled S not a false SVEB, since their true class is unknown; a VEB labelled F or Q
        is still missed.
        """
        c = self.counts
        matched, missed = int(c[:5, :5].sum()), int(c[:5, 5:].sum())
        extra = int(c[5:, :5].sum())
        true_v, true_s = int(c[_V, _V]), int(c[_S, _S])
        false_v = int(c[[_N, _S, _O, _X], _V].sum())
        false_s = int(c[[_N, _V, _F, _O, _X], _S].sum())
        not_v = int(c[[_N, _S, _F, _Q, _O, _X]][:, [_N, _S, _F, _Q]].sum())
        return {
            "qrs_se": Fraction(matched, matched + missed),
            "qrs_ppv": Fraction(matched, matched + extra),
            "veb_se": Fraction(true_v, int(c[_V].sum())),
            "veb_ppv": Fraction(true_v, true_v + false_v),
            "veb_fpr": Fraction(false_v, not_v + false_v),
            "sveb_se": Fraction(true_s, int(c[_S].sum())),
            "sveb_ppv": Fraction(true_s, true_s + false_s),
        }

    @property
    def missed_in_shutdown(self) -> dict[str, Fraction]:
        """Reference beats during the test's shutdown, of all beats and by class (EC57's table)."""
        beats = self.counts[:5]
        shares = {"all": Fraction(int(beats[:, _X].sum()), int(beats.sum()))}
        return shares | {CLASSES[i]: Fraction(int(beats[i, _X]), int(beats[i].sum())) for i in (_N, _S, _V, _F)}

    @property
    def qrs_f1(self) -> float | None:
        """Harmonic mean of QRS sensitivity and positive predictivity, percent; not part of EC57."""
        se, ppv = self.scores["qrs_se"], self.scores["qrs_ppv"]
        both = se.total + ppv.total
        return 200 * se.part / both if both else None

    @property
    def rr_rms_ms(self) -> float | None:
        """Root mean square error of the RR intervals, ms."""
        return float(np.sqrt(np.mean(self.rr_error_ms**2))) if len(self.rr_error_ms) else None

    def as_json(self) -> dict[str, Any]:
        """Return counts, scores (percent, with numerator and denominator) and offsets, JSON-ready."""
        offset = self.offset_ms
        return {
            "record": self.record,
            "mapping": self.mapping,
            "counts": self.counts.tolist(),
            "scores": {name: value.as_json() for name, value in self.scores.items()},
            "qrs_f1": _rounded(self.qrs_f1),
            "offset_ms": {
                "median": _rounded(float(np.median(offset))) if len(offset) else None,
                "sd": _rounded(float(offset.std())) if len(offset) else None,
            },
            "rr_rms_ms": _rounded(self.rr_rms_ms),
            "shutdown_s": round(self.shutdown_s, 1),
            "missed_in_shutdown": {name: value.as_json() for name, value in self.missed_in_shutdown.items()},
            "vf": self.flutter.as_json(),
            "af": self.fibrillation.as_json(),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


@dataclass(frozen=True)
class Aggregate:
    """Scores over several records: gross (of summed counts) and average (mean over records with a defined score).

    ``sumstats`` prints both; its SVEB +P excludes false SVEBs of fusion beats, unlike bxb. Here, bxb's rule is used.
    """

    gross: BeatComparison
    average: dict[str, float | None]

    def as_json(self) -> dict[str, Any]:
        """Return both, JSON-ready."""
        return {"gross": self.gross.as_json(), "average": {k: _rounded(v) for k, v in self.average.items()}}


def aggregate(comparisons: Sequence[BeatComparison], name: str = "gross") -> Aggregate:
    """Aggregate comparisons; raises ValueError if there are none, or if mappings differ."""
    if not comparisons:
        raise ValueError("no comparison to sum up")
    if len(mappings := {comparison.mapping for comparison in comparisons}) > 1:
        raise ValueError(f"comparisons of several mappings: {', '.join(sorted(mappings))}")
    gross = BeatComparison(
        name,
        np.sum([comparison.counts for comparison in comparisons], axis=0, dtype=np.int64),
        np.concatenate([comparison.offset_ms for comparison in comparisons]),
        np.concatenate([comparison.rr_error_ms for comparison in comparisons]),
        sum(comparison.shutdown_s for comparison in comparisons),
        sum((comparison.flutter for comparison in comparisons), FlutterScores()),
        comparisons[0].mapping,
        sum((comparison.fibrillation for comparison in comparisons), FibrillationScores()),
    )
    each = [
        {
            k: share.percent
            for part in (comparison, comparison.flutter, comparison.fibrillation)
            for k, share in part.scores.items()
        }
        for comparison in comparisons
    ]
    average: dict[str, float | None] = {}
    for score in each[0]:
        values = [value for percents in each if (value := percents[score]) is not None]
        average[score] = float(np.mean(values)) if values else None
    return Aggregate(gross, average)


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
) -> BeatComparison:
    """Compare test with reference annotations, beat by beat.

    Args:
        reference: all annotations of the reference, beats and others.
        test: all annotations of the annotator under test.
        fs_hz: sampling frequency of both, Hz.
        samples: length of the record; default: up to the reference's last beat, as in bxb.
        mapping: a name from ``MAPPINGS``.
        start_s: end of the learning period, seconds; EC57 says 300.
        match_s: half-width of a match, seconds; EC57 says 0.150.
        record: its name.

    Raises:
        ValueError: an unknown mapping.
    """
    if mapping not in MAPPINGS:
        raise ValueError(f"mapping is {mapping!r}; expected one of {', '.join(MAPPINGS)}")
    window, start = in_samples(match_s, fs_hz), in_samples(start_s, fs_hz)
    labels = {FLUTTER_WAVE: _O, **{symbol: CLASSES.index(name) for symbol, name in MAPPINGS[mapping].items()}}
    theirs = Walker.over(reference, labels, window, is_reference=True)
    ours = Walker.over(test, labels, window)
    counts = np.zeros((7, 7), np.int64)
    offsets, errors = [], []
    for step in pairs(theirs, ours, start, samples, window):
        cell = _cell(step, theirs, ours)
        if cell is not None and not cell[0] >= _O <= cell[1]:  # not counted if neither file has a beat with a class
            counts[cell] += 1
            if max(cell) < _O:
                offsets.append(ours.at - theirs.at)
        if theirs.rr and ours.rr:  # bxb uses the interval error at every step, including missed and extra beats
            errors.append(theirs.rr - ours.rr)
    open_since = samples - ours.down_since if samples is not None and ours.down_since is not None else 0
    last = samples if samples is not None else max(reference.sample.tolist(), default=0)
    ms = 1000 / fs_hz
    return BeatComparison(
        record,
        counts,
        np.array(offsets) * ms,
        np.array(errors) * ms,
        (ours.down + open_since) / fs_hz,
        compare_flutter(reference, test, start, last, fs_hz),
        mapping,
        compare_fibrillation(reference, test, start, last, fs_hz),
    )


def _cell(step: Step, theirs: Walker, ours: Walker) -> tuple[int, int] | None:
    """Return the cell of the confusion matrix for a step, or None if it is not counted."""
    row = _X if theirs.shutdown.hold(ours.at) else _O
    column = _X if ours.shutdown.hold(theirs.at) else _O
    if step is Step.EXTRA:
        return None if ours.label is None or theirs.flutter.hold(ours.at) else (row, ours.label)
    if theirs.label is None or step is Step.MISSED:
        return None if theirs.label is None else (theirs.label, column)
    return None if ours.label is None else (theirs.label, ours.label)
