"""Scores of an entry, computed by ecgfed: from runs, or from folders of annotation files."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import bootstrap
from entries import RECORDS, SPLIT_ARRAYS, Track, listing_digest, records_digest

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.base.files import sha256
from ecgfed.core.evaluation.ec57 import BeatComparison
from ecgfed.core.evaluation.fraction import Fraction
from ecgfed.core.runs.seeds import run_folders
from ecgfed.domain.cohort.arrays import fingerprint_of
from ecgfed.domain.cohort.databases import MITBIH, read_files
from ecgfed.tasks.opening import Passed, PassedNet

#: Where ``ecgfed.evaluate`` has the scores of a track.
PATHS = {
    **{name: ("scores", name) for name in ("T_g", "T_p", "T_r", "T_l")},
    "T_p_worst_tenth": ("fairness", "personal_f1", "worst_decile"),
}


class Score(TypedDict):
    """A score, the mean over seeds, with its 95% interval; None where a results file does not allow one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Scored:
    """What is measured of an entry.

    Attributes:
        data_sha256: digest of the recordings' files.
        split_sha256: digest of the split.
        seeds: seed of each run, or as passed.
        scores: by name.
        sha256: digest of the runs' or annotations' files.
    """

    data_sha256: str
    split_sha256: str
    seeds: list[int]
    scores: dict[str, Score]
    sha256: str


def score_runs(
    paths: Sequence[Path],
    track: Track,
    *,
    cohort: Path | None = None,
    personal: str | None = None,
    method: Passed = None,
    net: PassedNet = None,
) -> Scored:
    """Score runs of different seeds on the test beats of one cohort, as ``ecgfed.evaluate`` does.

    Args:
        paths: a run for each seed, or one folder of the runs of several seeds.
        track: which scores.
        cohort: the runs' cohort, if it was moved.
        personal: the personalization method, as ``ecgfed.evaluate`` takes it.
        method: the runs' method, if it is custom.
        net: the runs' net, if it is custom.

    Raises:
        EcgfedError: as ``ecgfed.evaluate``; runs of several cohorts.
    """
    folders = [folder for path in paths for folder in run_folders(path)]
    each = [
        ecgfed.evaluate(folder, cohort=cohort, personal=personal, method=method, net=net, local_models=False)
        for folder in folders
    ]
    scores = ecgfed.Scores(
        tuple(result for one in each for result in one.results),
        draws=tuple(draws for one in each for draws in one.draws),
    )
    found: dict[str, Score] = {}
    for name in track["scores"]:
        low, high = scores.interval(*PATHS[name]) or (None, None)
        found[name] = {"value": scores.mean(*PATHS[name]), "low": low, "high": high}
    opened = [ecgfed.open_run(folder, method, net) for folder in folders]
    digests = {_cohort_digests(run.cohort(cohort)) for run in opened}
    if len(digests) > 1:
        raise RunError(folders[-1], "its cohort has another split or other recordings than that of the first run")
    data, split = digests.pop()
    files = {
        f"{number}/{file.relative_to(folder)}": sha256(file)
        for number, folder in enumerate(folders)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.relative_to(folder).parts[0].startswith(("evaluation", "."))
    }
    return Scored(data, split, [run.plan.seed for run in opened], found, listing_digest(files))


def _cohort_digests(cohort: ecgfed.Cohort) -> tuple[str, str]:
    """Return the digests of a cohort's recordings and of its split."""
    files = {name: digest for record in cohort.meta["records"] for name, digest in record.get("sha256", {}).items()}
    return listing_digest(files), fingerprint_of({name: cohort.meta["sha256"][name] for name in SPLIT_ARRAYS})


def score_annotations(
    folders: Sequence[Path], track: Track, *, source: Path, suffix: str | None = None, seeds: Sequence[int] = ()
) -> Scored:
    """Score annotation files as EC57 requires: gross scores in percent, means over folders.

    Args:
        folders: a folder of ``RECORD.SUFFIX`` for each seed.
        track: which records and scores, from when on, and the default of ``suffix``.
        source: the records with their reference annotations.
        suffix: of the annotations under test.
        seeds: of the folders; none for a detector without randomness, which has one folder.

    Raises:
        EcgfedError: a missing or unreadable file; another number of seeds than of folders.
    """
    if len(seeds) != len(folders) and (seeds or len(folders) > 1):
        raise OptionError("--seeds", f"{len(seeds)} for {len(folders)} folders", "one for each folder")
    records, ending = RECORDS[track["records"]], suffix or track["suffix"]
    paths = [source / name for name in records]
    counts = np.array(
        [
            [
                comparison.counts
                for comparison in ecgfed.score_ec57(paths, ending, test_folder=folder, start=track["start_s"]).records
            ]
            for folder in folders
        ]
    )
    found: dict[str, Score] = {}
    for name in track["scores"]:

        def gross(drawn_seeds: NDArray[np.int64], drawn_records: NDArray[np.int64], name: str = name) -> float:
            sums = counts[np.ix_(drawn_seeds, drawn_records)].sum(1)
            return float(np.mean([percent(BeatComparison("", one), name) for one in sums]))

        measured = bootstrap(gross, len(folders), len(records))
        found[name] = {"value": measured["mean"], "low": measured["low"], "high": measured["high"]}
    files = {
        f"{number}/{record}.{ending}": sha256(folder / f"{record}.{ending}")
        for number, folder in enumerate(folders)
        for record in records
    }
    data = listing_digest(read_files(source, paths, MITBIH))
    return Scored(data, records_digest(records), list(seeds), found, listing_digest(files))


def percent(comparison: BeatComparison, name: str) -> float:
    """Return a score in percent: ``qrs_se``, ``veb_ppv`` and so on, or their harmonic mean, ``qrs_f1``; 0 for none."""
    scores = comparison.scores
    part, _, kind = name.rpartition("_")
    if kind != "f1":
        return scores[name].percent or 0.0
    return harmonic(scores[f"{part}_se"], scores[f"{part}_ppv"])


def harmonic(se: Fraction, ppv: Fraction) -> float:
    """Return the harmonic mean, in percent, of sensitivity and positive predictivity; 0 where one is 0 or undefined."""
    both = (se.percent or 0.0) + (ppv.percent or 0.0)
    return 2 * (se.percent or 0.0) * (ppv.percent or 0.0) / both if both else 0.0
