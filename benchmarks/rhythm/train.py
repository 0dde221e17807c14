"""Train and test what detects atrial fibrillation and flutter.

    python benchmarks/rhythm/train.py --data DATA [--test]

DATA holds the folders ``mitdb``, ``svdb``, ``qtdb`` and ``cinc2017``. Writes
``ecgfed/domain/signal/rhythm_weights.json`` and ``results.json`` beside this file (or ``--results``). Minutes on one
core. DS2 of MIT-BIH takes no part in training. What is measured:

- ``left out``: weights without the recording, eight times, on DS1, SVDB, QTDB and CinC 2017, for several divisions;
- ``test``, with ``--test``: DS2 by the weights in the package (202 by weights without 201, the same person);
- ``patients left out``, with ``--test``: each patient of MIT-BIH by weights fitted to all other recordings, DS2's too.

R peaks are our detector's. Records of SVDB that look like fibrillation or flutter without a rhythm annotation
(``DOUBTFUL``), paced records, and windows in which the rhythm changes take no part in training; SVDB and QTDB have no
rhythm annotation and are taken to be free of fibrillation.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, DS2, PACED, benchmark, option

from ecgfed.base.errors import RecordError
from ecgfed.base.files import write_json
from ecgfed.core.evaluation.ec57 import START_S
from ecgfed.core.evaluation.ec57_flutter import FibrillationScores, compare_fibrillation
from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_files import read_annotation
from ecgfed.domain.signal.heartbeats import NO_BEATS_S
from ecgfed.domain.signal.rhythm import (
    CELL_S,
    FILE,
    LOW,
    NOTE,
    STRIP,
    Weights,
    averaged,
    cell_episodes,
    cell_windows,
    episodes,
    log_odds,
)
from ecgfed.domain.signal.rhythm_features import NAMES

HERE = Path(__file__).resolve().parent
WEIGHTS = HERE.parents[1] / "ecgfed" / "domain" / "signal" / FILE
#: How much a recording of each database weighs.
WEIGHT = {"cinc2017": 1.0, "mitdb": 6.0, "svdb": 3.0, "qtdb": 3.0}
DOUBTFUL = ("804", "842", "845", "849", "867")
#: Recordings of each class in the training set of the Challenge, version 3 of its labels.
CHALLENGE = {"N": 5076, "A": 758, "O": 2415, "~": 279}
#: Strength of the L2 penalty: scikit-learn's C for standardised features. Folds; divisions into folds.
PENALTY_C, FOLDS, DIVISIONS = 0.1, 8, 5
#: A window takes part in training if less than the first or more than the second share of it is fibrillation.
CLEAR = (0.1, 0.9)
#: Bins of certainty.
BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)

Floats = NDArray[np.float64]
#: Whose certainty is the probability of the log-odds.
UNCALIBRATED = Weights(np.zeros(len(NAMES)), 0.0, (1.0, 0.0), (1.0, 0.0))


@dataclass(frozen=True)
class Sample:
    """A recording.

    Attributes:
        database: its folder.
        record: its name.
        features: (leads, windows, features), NaN where the product does not assess the rhythm.
        without_rhythm: (start, stop) in seconds that the product cuts out of episodes.
        unreadable_s: (start, stop) in seconds in which no episode begins or ends.
        duration_s: its length.
        fs_hz: its sampling frequency.
        reference: the annotated rhythm, None where there is none.
        label: CinC 2017's label, else ``""``.
    """

    database: str
    record: str
    features: Floats
    without_rhythm: list[tuple[float, float]]
    unreadable_s: list[tuple[float, float]]
    duration_s: float
    fs_hz: float
    reference: Annotation | None
    label: str

    @property
    def fibrillation(self) -> Floats:
        """(cells, 2) share of each window and each cell that is annotated as fibrillation or flutter."""
        windows = cell_windows(self.duration_s)
        if self.database == "cinc2017":
            return np.full((len(windows), 2), float(self.label == "A"))
        cells = np.stack([np.arange(len(windows)), np.arange(len(windows)) + 1], axis=1) * CELL_S
        return np.stack([self.share(windows), self.share(cells)], axis=1)

    def share(self, spans_s: Floats) -> Floats:
        """Return which share of each span (spans, 2) in seconds is annotated as fibrillation or flutter."""
        total = np.zeros(len(spans_s))
        for start, stop in annotated(self):
            total += np.clip(np.minimum(spans_s[:, 1], stop) - np.maximum(spans_s[:, 0], start), 0, None)
        return total / (spans_s[:, 1] - spans_s[:, 0])

    def called(self, odds: Floats, weights: Weights) -> RhythmEpisodes:
        """Return the episodes by log-odds, as ``RecordingBeats.fibrillation`` does."""
        found = episodes(odds, self.duration_s, weights).without(self.without_rhythm, NO_BEATS_S)
        return found.trimmed(self.unreadable_s, NO_BEATS_S)


def annotated(sample: Sample) -> list[tuple[float, float]]:
    """Return start and stop of annotated fibrillation and flutter in seconds."""
    if sample.reference is None:
        return []
    marks = [
        (at / sample.fs_hz, note)
        for at, symbol, note in zip(
            sample.reference.sample.tolist(), sample.reference.symbol.tolist(), sample.reference.note, strict=True
        )
        if symbol == "+"
    ]
    stops = [at for at, _ in marks[1:]] + [sample.duration_s]
    return [(at, stop) for (at, note), stop in zip(marks, stops, strict=True) if note.startswith("(AF")]


def samples(data: Path, *, test: bool) -> list[Sample]:
    """Read all recordings; DS2 only for the test."""
    labels = dict(line.split(",") for line in (data / "cinc2017" / "REFERENCE.csv").read_text().split())
    made = []
    for database in WEIGHT:
        for header in sorted((data / database).glob("*.hea")):
            record = header.stem
            if database != "mitdb" or record in (*DS1, *PACED) or test:
                made.append(_sample(data, database, record, labels.get(record, "")))
    return made


def _sample(data: Path, database: str, record: str, label: str) -> Sample:
    path, options = data / database / record, BeatOptions(leads=("MLII", "II"))
    try:
        recording = open_recording(path, options.leads, every_lead=True)
    except RecordError:  # a recording without these leads
        recording = open_recording(path, every_lead=True)
    beats = cut_beats(recording, options)
    features, fs_hz = beats.rhythm_features, recording.fs_hz
    reference = read_annotation(path, "atr", fs_hz=fs_hz) if database == "mitdb" else None
    unused = beats.without_rhythm, beats.unreadable_s
    return Sample(database, record, features, *unused, recording.duration_s, fs_hz, reference, label)


def fit(chosen: Sequence[Sample]) -> Weights:
    """Fit the logistic regression to recordings, uncalibrated."""
    parts = [part for sample in chosen if (part := _part(sample)) is not None]
    features, fibrillating, weight = (np.concatenate([part[i] for part in parts]) for i in range(3))
    mean = np.average(features, axis=0, weights=weight)
    scale = np.sqrt(np.average((features - mean) ** 2, axis=0, weights=weight))
    model = LogisticRegression(C=PENALTY_C, max_iter=1000)
    model.fit((features - mean) / scale, fibrillating, sample_weight=weight)
    weights = model.coef_[0] / scale
    return replace(UNCALIBRATED, weights=weights, intercept=float(model.intercept_[0] - mean @ weights))


def _part(sample: Sample) -> tuple[Floats, NDArray[np.bool_], Floats] | None:
    """Return features, whether fibrillating, and weights of a recording's windows."""
    if _left_out_of_training(sample):
        return None
    share = np.tile(sample.fibrillation[:, 0], len(sample.features))
    features = sample.features.reshape(-1, len(NAMES))
    known = np.isfinite(features).all(axis=1) & ((share < CLEAR[0]) | (share > CLEAR[1]))
    weight = np.full(int(known.sum()), WEIGHT[sample.database] / len(features))
    return features[known], share[known] > 0.5, weight


def _left_out_of_training(sample: Sample) -> bool:
    return sample.record in (DOUBTFUL if sample.database == "svdb" else PACED if sample.database == "mitdb" else ())


def left_out(training: Sequence[Sample], division: int) -> list[Floats]:
    """Return the log-odds of each recording by weights that it had no part in."""
    fold = np.random.default_rng(division).integers(0, FOLDS, len(training))
    for number, sample in enumerate(training):  # the two patients of DS1 with fibrillation
        if sample.database == "mitdb" and sample.record in ("201", "203"):
            fold[number] = int(sample.record) % FOLDS
    models = [fit([sample for sample, at in zip(training, fold, strict=True) if at != k]) for k in range(FOLDS)]
    return [log_odds(sample.features, models[at]) for sample, at in zip(training, fold.tolist(), strict=True)]


def calibrated(weights: Weights, training: Sequence[Sample], odds: Sequence[Floats]) -> Weights:
    """Return the weights with calibrations by left-out log-odds.

    Episodes of any height in long recordings count by their seconds, and so do the strips called A among those that
    are: the long recordings alone have two patients with fibrillation.
    """
    strips = [(sample, of) for sample, of in zip(training, odds, strict=True) if sample.label and np.isfinite(of).any()]
    shares = _challenge_weight([sample for sample, _ in strips])
    mean = np.array([np.nanmean(of) for _, of in strips])
    strip = _slope(mean, np.array([sample.label == "A" for sample, _ in strips]), shares)
    spans = [
        (probability, share, stop - start)
        for sample, of in zip(training, odds, strict=True)
        if not sample.label and not _left_out_of_training(sample)
        for found in [cell_episodes(averaged(of), sample.duration_s, UNCALIBRATED, LOW)]
        for (start, stop), probability, share in zip(
            found.episodes, found.certainty, sample.share(np.array(found.episodes).reshape(-1, 2)), strict=True
        )
    ]
    probability, share, seconds = np.array(spans).T
    whole = [(of, sample.duration_s) for (sample, _), of in zip(strips, mean, strict=True) if sample.label == "A"]
    at, length = np.array([pair for pair in whole if pair[0] > np.log(LOW / (1 - LOW))]).T
    at = np.concatenate([np.log(probability / (1 - probability)), at])
    share, seconds = np.append(share, np.ones(len(length))), np.append(seconds, length)
    truth = np.repeat([True, False], len(at))
    cell = _slope(np.tile(at, 2), truth, np.concatenate([share * seconds, (1 - share) * seconds]))
    return Weights(weights.weights, weights.intercept, strip, cell)


def _slope(odds: Floats, truth: NDArray[np.bool_], weight: Floats) -> tuple[float, float]:
    model = LogisticRegression(C=1e6).fit(odds[:, None], truth, sample_weight=weight)
    return round(float(model.coef_[0, 0]), 4), round(float(model.intercept_[0]), 4)


def _challenge_weight(strips: Sequence[Sample]) -> Floats:
    """Return weights that give strips the class shares of the Challenge."""
    count = {name: sum(sample.label == name for sample in strips) for name in CHALLENGE}
    return np.array([CHALLENGE[sample.label] / count[sample.label] for sample in strips])


def strip_scores(strips: Sequence[Sample], odds: Sequence[Floats], weights: Weights) -> dict[str, Any]:
    """Return the F1 of class A and the share of each class that is called A."""
    called = [sample.called(of, weights) for sample, of in zip(strips, odds, strict=True)]
    yes, label = np.array([bool(of.episodes) for of in called]), np.array([sample.label for sample in strips])
    is_a, share = label == "A", _challenge_weight(strips)
    certainty = np.array([of.certainty[0] if of.certainty else np.nan for of in called])
    return {
        "f1": _f1(is_a, yes, np.ones(len(yes))),
        "f1 at the Challenge's shares": _f1(is_a, yes, share),
        "called A": {name: f"{int(yes[label == name].sum())} of {int((label == name).sum())}" for name in CHALLENGE},
        "certainty": [
            {
                "certainty": [low, high],
                "strips": int(inside.sum()),
                "mean": round(float(np.average(certainty[inside], weights=share[inside])), 3),
                "fibrillation": round(float(np.average(is_a[inside], weights=share[inside])), 3),
            }
            for low, high in pairwise(BINS)
            if (inside := yes & (certainty > low) & (certainty <= high)).any()
        ],
    }


def _f1(truth: NDArray[np.bool_], called: NDArray[np.bool_], weight: Floats) -> float:
    both = float(weight[truth & called].sum())
    return round(200 * both / float(weight[truth].sum() + weight[called].sum()), 1)


def long_scores(chosen: Sequence[tuple[Sample, RhythmEpisodes]]) -> dict[str, Any]:
    """Return EC57's scores, and by all annotated fibrillation and flutter, with the seconds of each record."""
    total, by_record = FibrillationScores(), {}
    seconds = np.zeros(3)  # annotated, called, both
    for sample, called in chosen:
        if sample.reference is not None:
            stop = round(sample.duration_s * sample.fs_hz)
            start = round(START_S * sample.fs_hz)
            total += compare_fibrillation(sample.reference, _annotation(called, sample), start, stop, sample.fs_hz)
        spans = np.array(called.episodes).reshape(-1, 2)
        both = float((sample.share(spans) * (spans[:, 1] - spans[:, 0])).sum())
        true = sum(stop - start for start, stop in annotated(sample))
        seconds += (true, called.seconds, both)
        if true or called.episodes:
            by_record[sample.record] = {
                "annotated_s": round(true),
                "called_s": round(called.seconds),
                "both_s": round(both),
                "episodes": len(called.episodes),
                "certainty": [round(value, 3) for value in called.certainty],
            }
    true, called_s, both = seconds.tolist()
    return {
        "records": len(chosen),
        "ec57": total.as_json() if any(sample.reference for sample, _ in chosen) else None,
        "duration_se": round(100 * both / true, 1) if true else None,
        "duration_ppv": round(100 * both / called_s, 1) if called_s else None,
        "by record": by_record,
    }


def _annotation(called: RhythmEpisodes, sample: Sample) -> Annotation:
    """Return the episodes as rhythm changes."""
    at = np.round(np.array(called.episodes).ravel() * sample.fs_hz).astype(np.int64)
    return Annotation(at, np.full(len(at), "+"), (NOTE, "(U") * len(called.episodes))


def by_database(chosen: Sequence[tuple[Sample, RhythmEpisodes]]) -> dict[str, Any]:
    """Return the scores of long recordings by database; doubtful and paced records apart."""
    groups: dict[str, list[tuple[Sample, RhythmEpisodes]]] = {}
    for sample, called in chosen:
        name = {"mitdb": "MIT-BIH", "svdb": "SVDB", "qtdb": "QTDB"}[sample.database]
        if sample.database == "mitdb" and sample.record in PACED:
            name = "MIT-BIH, paced"
        elif sample.database == "svdb" and sample.record in DOUBTFUL:
            name = "SVDB, doubtful"
        groups.setdefault(name, []).append((sample, called))
    return {name: long_scores(group) for name, group in groups.items()}


def main(given: argparse.Namespace) -> None:
    """Train, test, write."""
    every = samples(given.data, test=given.test)
    training = [sample for sample in every if sample.database != "mitdb" or sample.record not in DS2]
    final = fit(training)
    divisions = [left_out(training, number) for number in range(DIVISIONS)]
    final = calibrated(final, training, divisions[0])
    results: dict[str, Any] = {"strips": [], "left out": []}
    for odds in divisions:
        pairs = list(zip(training, odds, strict=True))
        strips = [(sample, of) for sample, of in pairs if sample.label]
        results["strips"].append(strip_scores(*zip(*strips, strict=True), final))
        called = [(sample, sample.called(of, final)) for sample, of in pairs if not sample.label]
        results["left out"].append(by_database(called))
    if given.test:
        results["test"] = long_scores(_test(every, training, final))
        results["patients left out"] = long_scores(_without_each(every, final))
    names = dict(zip(NAMES, final.weights.round(6).tolist(), strict=True))
    stored: Mapping[str, object] = {"weights": names, "intercept": round(final.intercept, 6)}
    write_json(WEIGHTS, {**stored, "strip": list(final.strip), "cell": list(final.cell)})
    write_json(given.results, {"threshold of strips": STRIP, **results})


def _test(every: Sequence[Sample], training: Sequence[Sample], final: Weights) -> list[tuple[Sample, RhythmEpisodes]]:
    """Return the episodes of DS2, 202's by weights without 201."""
    without_201 = fit([sample for sample in training if sample.record != "201"])
    return [
        (sample, sample.called(log_odds(sample.features, without_201 if sample.record == "202" else final), final))
        for sample in every
        if sample.database == "mitdb" and sample.record in DS2
    ]


def _without_each(every: Sequence[Sample], final: Weights) -> list[tuple[Sample, RhythmEpisodes]]:
    """Return the episodes of each unpaced patient of MIT-BIH by weights of all others, calibrated as the final ones."""
    called = []
    for sample in every:
        if sample.database == "mitdb" and sample.record not in PACED:
            person = ("201", "202") if sample.record in ("201", "202") else (sample.record,)
            weights = fit([other for other in every if other.database != "mitdb" or other.record not in person])
            called.append((sample, sample.called(log_odds(sample.features, weights), final)))
    return called


if __name__ == "__main__":
    benchmark(
        main,
        option("--data", type=Path, required=True),
        option("--results", type=Path, default=HERE / "results.json"),
        option("--test", action="store_true"),
        standard=False,
    )
