"""Train and test what detects pacing in the signal.

    python benchmarks/pacing/train.py --data DATA --work WORK

DATA holds the folders ``mitdb``, ``svdb``, ``qtdb`` and ``cinc2017``. Writes
``ecgfed/domain/signal/pacing_weights.json``, ``results.json`` beside this file (or ``--results``), and the weights
without each paced patient to WORK. Minutes on one core. What is measured:

- ``left out``: four times, weights without one of the four paced patients and without a quarter of all others, on just
  these; the same with the reference's R peaks, with single leads, and on synthetic beats;
- ``final``: the weights in the package, trained on everything, on everything.

A paced beat is one that the reference calls ``/`` or ``f``. Classes weigh the same; the real positives weigh as much as
the synthetic ones, each recording of a database as much as the next.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option

sys.path.insert(0, str(Path(__file__).resolve().parent))
from data import PACED, Beats, Sample, Source, samples
from synthetic import LOW_PASS_HZ, Kind

from ecgfed.base.files import write_json
from ecgfed.domain.signal.pacing import CLEAR_SCORE, FILE, PACED_SCORE, mean_score, pacing_of
from ecgfed.domain.signal.pacing_features import NAMES

HERE = Path(__file__).resolve().parent
WEIGHTS = HERE.parents[1] / "ecgfed" / "domain" / "signal" / FILE
#: Of each band: the lowest sampling frequency, the low-pass, what trains its weights, what tests them.
BANDS = (
    (225.0, 100.0, ("mitdb", "qtdb", "cinc2017"), ("mitdb", "mitdb at 250 Hz", "qtdb", "cinc2017")),
    (125.0, 55.0, ("mitdb at 128 Hz", "svdb", "qtdb"), ("mitdb at 128 Hz", "svdb")),
)
SOURCES = {
    "mitdb": Source("mitdb"),
    "mitdb at 250 Hz": Source("mitdb", 250),
    "mitdb at 128 Hz": Source("mitdb", 128),
    "qtdb": Source("qtdb"),
    "svdb": Source("svdb"),
    "cinc2017": Source("cinc2017"),
}
FOLDS = 4
#: Weight of synthetic beats without a spike among all negatives, and of the synthetic ones among the positives.
SYNTHETIC_NEGATIVE, SYNTHETIC_POSITIVE = 0.23, 0.5
#: Strength of the L2 penalty: scikit-learn's C for weights that sum to one, features standardised.
PENALTY_C = 1000.0
#: Heights of synthetic spikes by the QRS's.
HEIGHTS = (0.2, 0.4, 0.8, 1.5, 3.0)

#: Beats of a synthetic episode in a recording that has ten times as many.
EPISODE_BEATS = 40

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """A logistic regression on unscaled features."""

    weights: Floats
    intercept: float

    def odds(self, features: Floats) -> Floats:
        """Return the log-odds of (..., features)."""
        return np.asarray(features @ self.weights + self.intercept)

    def as_json(self) -> dict[str, Any]:
        """Return them as the package stores them, to six decimals."""
        weights = dict(zip(NAMES, self.weights.round(6).tolist(), strict=True))
        return {"weights": weights, "intercept": round(self.intercept, 6)}


#: Patient -> the weights that are tested on that patient.
ByPatient = Mapping[str, Weights]


def fit(chosen: Sequence[Sample]) -> Weights:
    """Fit the logistic regression to recordings."""
    parts = [part for sample in chosen for part in _parts(sample)]
    features, paced, weight = (np.concatenate([part[i] for part in parts]) for i in (0, 1, 2))
    synthetic = np.concatenate([np.full(len(part[1]), part[3]) for part in parts])
    for positive, share in ((True, SYNTHETIC_POSITIVE), (False, SYNTHETIC_NEGATIVE)):
        for made, of_class in ((True, share), (False, 1 - share)):
            group = (paced == positive) & (synthetic == made)
            weight[group] *= 0.5 * of_class / weight[group].sum()
    mean, scale = features.mean(0), features.std(0)
    model = LogisticRegression(C=PENALTY_C, max_iter=1000)
    model.fit((features - mean) / scale, paced, sample_weight=weight)
    weights = model.coef_[0] / scale
    return Weights(weights, float(model.intercept_[0] - mean @ weights))


def _parts(sample: Sample) -> list[tuple[Floats, NDArray[np.bool_], Floats, bool]]:
    """Return features, whether paced, weights, and whether synthetic, of a recording's beats."""
    beats, found = sample.detected, []
    features = beats.features.reshape(-1, len(NAMES))
    symbol = np.tile(beats.symbol, len(beats.features))
    known = np.isfinite(features[:, 0]) & ((symbol != "") | (not sample.paced))
    paced = np.isin(symbol, ["/", "f"])[known] & sample.paced
    if known.any():
        many = np.where(paced, paced.sum(), (~paced).sum())
        found.append((features[known], paced, 1 / many, False))
    if sample.synthetic is not None:
        made, trained_on = sample.synthetic, ~np.isin(sample.synthetic.kind, [Kind.FUSION, Kind.NO_CAPTURE])
        features = made.features[trained_on].reshape(-1, len(NAMES))
        paced = np.repeat(made.paced[trained_on], made.features.shape[1])
        known = np.isfinite(features[:, 0])
        if known.any():
            found.append((features[known], paced[known], np.full(int(known.sum()), 1 / known.sum()), True))
    # every recording of a database weighs the same, and all databases do
    return [(a, b, c / sample_share(sample), d) for a, b, c, d in found]


#: Recordings of each database; short ones weigh no more together than long ones.
_RECORDINGS = {"mitdb": 48, "svdb": 52, "qtdb": 27, "cinc2017": 1089}


def sample_share(sample: Sample) -> int:
    """Return among how many recordings a database's weight is divided."""
    return 1 if sample.paced else _RECORDINGS[sample.source.database]


def folds(of_band: Sequence[Sample]) -> dict[str, int]:
    """Return patient -> fold: each leaves one paced patient and a quarter of the others out."""
    patients = sorted({sample.patient for sample in of_band if not sample.paced})
    order = np.random.default_rng(0).permutation(len(patients))
    found = {patient: int(at) % FOLDS for patient, at in zip(patients, order, strict=True)}
    return found | {f"mitdb {record}": at for at, record in enumerate(PACED)}


def test(of_band: Sequence[Sample], weights: ByPatient) -> dict[str, Any]:
    """Return what comes out for each database."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(sample.source.name for sample in of_band):
        chosen = [sample for sample in of_band if sample.source.name == name]
        entry: dict[str, Any] = {"recordings": len(chosen), **_records(chosen, weights, lambda sample: sample.detected)}
        if name.startswith("mitdb"):
            entry["reference peaks"] = _records(chosen, weights, lambda sample: sample.annotated)
            entry["beats"] = _beats(chosen, weights)
        entry["single leads"] = _single_leads(chosen, weights)
        entry["synthetic"] = _synthetic(chosen, weights)
        found[name] = entry
    return found


def _records(
    chosen: Sequence[Sample], weights: ByPatient, beats_of: Callable[[Sample], Beats | None]
) -> dict[str, Any]:
    """Return which recordings are called paced, and how near the others come to it."""
    paced, false, intermittent, shares, longest = {}, [], [], [], []
    for sample in chosen:
        beats = beats_of(sample)
        if beats is None:
            continue
        found = pacing_of(mean_score(weights[sample.patient].odds(beats.features)), beats.time_s)
        share = float((found.score > CLEAR_SCORE).sum() / max(found.assessed, 1))
        if sample.paced:
            real = np.isin(beats.symbol, ["/", "f"])
            paced[sample.record] = {
                "paced": found.paced,
                "clear share": round(share, 3),
                "sensitivity": round(float(found.beats[real].mean()), 4),
                "of other beats": round(float(found.beats[~real & (beats.symbol != "")].mean()), 4)
                if (~real & (beats.symbol != "")).any()
                else None,
                "episodes": len(found.episodes),
            }
            continue
        if found.paced:
            false.append(sample.record)
        elif found:
            intermittent.append(sample.record)
        if found.assessed >= 10:
            shares.append((round(share, 3), sample.record))
        longest.append((_longest_run(found.score > CLEAR_SCORE), sample.record))
    return {
        "paced records": paced,
        "false": false,
        "false episodes": intermittent,
        "highest clear share of others": max(shares),
        "longest clear run of others": max(longest),
    }


def _longest_run(mask: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _beats(chosen: Sequence[Sample], weights: ByPatient) -> dict[str, float]:
    """Return the area under the ROC curve by beat, the paced records' other beats among the negatives."""
    score, real = [], []
    for sample in chosen:
        odds = mean_score(weights[sample.patient].odds(sample.detected.features))
        known = np.isfinite(odds) & (sample.detected.symbol != "")
        score.append(odds[known])
        real.append(np.isin(sample.detected.symbol[known], ["/", "f"]) & sample.paced)
    scores, truth = np.concatenate(score), np.concatenate(real)
    false = float((scores[~truth] > PACED_SCORE).mean())
    return {"auc": round(float(roc_auc_score(truth, scores)), 5), "false share": round(false, 5)}


def _single_leads(chosen: Sequence[Sample], weights: ByPatient) -> dict[str, Any]:
    """Return the same of every lead by itself."""
    right, leads, false, negatives = 0, 0, [], 0
    for sample in chosen:
        for lead, features in enumerate(sample.detected.features):
            found = pacing_of(mean_score(weights[sample.patient].odds(features[None])), sample.detected.time_s)
            if sample.paced:
                right, leads = right + found.paced, leads + 1
            else:
                negatives += 1
                if found:
                    false.append(f"{sample.record} lead {lead + 1}")
    return {"paced": right, "of": leads, "false": false, "of others": negatives}


def _synthetic(chosen: Sequence[Sample], weights: ByPatient) -> dict[str, Any]:
    """Return the sensitivity for synthetic spikes by their height, kind and recorder; and the share of false ones."""
    score, kind, height, unipolar, low_pass, intermittent = [], [], [], [], [], []
    for sample in chosen:
        if (made := sample.synthetic) is None:
            continue
        of_model = weights[sample.patient]
        score.append(mean_score(np.moveaxis(of_model.odds(made.features), 0, 1)))
        kind.append(made.kind)
        for values, value in ((height, made.height), (unipolar, made.unipolar), (low_pass, made.low_pass_hz)):
            values.append(np.full(len(made.kind), value))
        real = mean_score(of_model.odds(sample.detected.features))
        if len(real) >= 10 * EPISODE_BEATS:
            intermittent.append(_intermittent(real, score[-1][made.paced][:EPISODE_BEATS]))
    kinds, heights, uni, limit = (np.concatenate(values) for values in (kind, height, unipolar, low_pass))
    high = np.concatenate(score) > PACED_SCORE
    paced = np.isin(kinds, [Kind.SINGLE, Kind.DUAL, Kind.FUSION])

    def share(where: NDArray[np.bool_]) -> float:
        return round(float(high[where].mean()), 3)

    return {
        "with spike": int(paced.sum()),
        "sensitivity": share(paced),
        "by kind": {one.name.lower().replace("_", " "): share(kinds == one) for one in Kind},
        "by height": {
            f"{low:g} to {top:g}": share(paced & (heights >= low) & (heights < top)) for low, top in pairwise(HEIGHTS)
        },
        "bipolar": share(paced & ~uni),
        "unipolar": share(paced & uni),
        "by low-pass": {f"{hz:g} Hz": share(paced & (limit == hz)) for hz in LOW_PASS_HZ},
        "intermittent": {"recordings": len(intermittent), "episode found": sum(intermittent)},
    }


def _intermittent(real: Floats, synthetic: Floats) -> bool:
    """Whether one episode of synthetic beats in the middle of a recording is found, and no episode apart from it."""
    start = len(real) // 2
    score = real.copy()
    score[start : start + len(synthetic)] = synthetic
    found = pacing_of(score, np.arange(len(score), dtype=float))
    inside = [one for one in found.episodes if one.start_s < start + len(synthetic) and one.stop_s >= start]
    return len(inside) == len(found.episodes) > 0 and not found.paced


def learn(data: Path, work: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the results, and the weights as the package stores them; the folds' weights go to WORK."""
    results: dict[str, Any] = {"left out": {}, "final": {}}
    stored = []
    work.mkdir(parents=True, exist_ok=True)
    for fs_hz, limit_hz, learned, tested in BANDS:
        names = dict.fromkeys([*learned, *tested])
        of_band = [sample for name in names for sample in samples(data, SOURCES[name], limit_hz)]
        training = [sample for sample in of_band if sample.source.name in learned]
        testing = [sample for sample in of_band if sample.source.name in tested]
        fold = folds(of_band)
        models = [fit([sample for sample in training if fold[sample.patient] != at]) for at in range(FOLDS)]
        final = fit(training)
        results["left out"] |= test(testing, {patient: models[at] for patient, at in fold.items()})
        results["final"] |= test(testing, dict.fromkeys(fold, final))
        band = {"fs_hz": fs_hz, "limit_hz": limit_hz}
        stored.append({**band, **final.as_json()})
        for at, model in enumerate(models):
            write_json(work / f"without-{PACED[at]}-{limit_hz:g}.json", {**band, **model.as_json()})
    return results, {"bands": stored}


def main(given: argparse.Namespace) -> None:
    """Train, test, write."""
    results, weights = learn(given.data, given.work)
    write_json(WEIGHTS, weights)
    write_json(given.results, results)


if __name__ == "__main__":
    benchmark(
        main,
        option("--data", type=Path, required=True),
        option("--work", type=Path, required=True),
        option("--results", type=Path, default=HERE / "results.json"),
        standard=False,
    )
