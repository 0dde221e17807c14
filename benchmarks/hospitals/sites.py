"""The sites, their patients' division into folds, and the beats that a site trains on."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import DS2
from numpy.typing import NDArray

import ecgfed
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.domain.cohort.cohort import Client, Cohort

#: Sites of the federation, and the one that takes no part.
SITES, UNSEEN = ("mitbih", "svdb"), "qtdb"
#: Folder of a database, where it is not its name.
FOLDERS = {"mitbih": "mitdb"}
FOLDS = 3
#: Normal beats of a patient that a site trains on at most; all others are trained on.
NORMAL_BEATS = 500
#: Of each site's patients in training while settings are chosen, one in so many is a validation patient.
VALIDATION = 3


def joined_cohort(data: Path, work: Path) -> Cohort:
    """Return the cohort of all three databases in ``work``, RR features of version 3; made where it is not there."""
    how = {"classes": "aami5", "rr_version": 3}
    for name in (*SITES, UNSEEN):
        if not (work / name).is_dir():
            # DS2 and paced recordings stay out of everything here; 102 and 104 have no MLII and are no clients
            left_out = {"by": "record", "holdout": (*DS2, "107", "217")} if name == "mitbih" else {}
            ecgfed.prepare_database(name, data / FOLDERS.get(name, name), work / name, **how, **left_out)
    if not (work / "joined").is_dir():
        ecgfed.join_cohorts({name: work / name for name in (*SITES, UNSEEN)}, work / "joined")
    return ecgfed.open_cohort(work / "joined")


def patients_of(cohort: Cohort, site: str) -> list[Client]:
    """Return a site's patients, without those held out."""
    return [client for client in cohort.sites[site] if not client.holdout]


def folds_of(cohort: Cohort, patients: list[Client], count: int, seed: int) -> NDArray[np.int64]:
    """Divide patients into folds, those with many ectopic beats evenly; return the fold of each, (patients,).

    Patients are ordered by S beats or, every other time, by V beats, and each block of ``count`` neighbours is divided
    among the folds by chance.
    """
    label, owner = cohort.label, cohort.client
    beats = np.array([np.bincount(label[owner == one.index], minlength=len(cohort.classes)) for one in patients])
    columns = [cohort.classes.index(name) for name in "SV"]
    order: list[int] = []
    while len(order) < len(patients):
        column = columns[len(order) // count % 2]
        order += sorted(set(range(len(patients))) - set(order), key=lambda i: (-beats[i, column], i))[:count]
    rng, fold = np.random.default_rng(seed), np.empty(len(patients), np.int64)
    for start in range(0, len(order), count):
        block = order[start : start + count]
        fold[block] = rng.permutation(count)[: len(block)]
    return fold


@dataclass(frozen=True)
class Division:
    """Who trains and who is new.

    Attributes:
        training: site -> its patients in training.
        new: site -> its new patients, those of ``UNSEEN`` too.
    """

    training: dict[str, list[Client]]
    new: dict[str, list[Client]]


def division(cohort: Cohort, fold: int, *, validation: bool = False) -> Division:
    """Return a fold's division; each patient is new in one fold. The folds are the same for all seeds.

    Args:
        cohort: the joined cohort.
        fold: 0 to ``FOLDS`` - 1.
        validation: take the new patients from those in training, and leave the fold's out.
    """
    training, new = {}, {UNSEEN: [] if validation else patients_of(cohort, UNSEEN)}
    for site in SITES:
        patients = patients_of(cohort, site)
        of_fold = folds_of(cohort, patients, FOLDS, seed=0)
        training[site] = [one for one, number in zip(patients, of_fold, strict=True) if number != fold]
        new[site] = [one for one, number in zip(patients, of_fold, strict=True) if number == fold]
        if validation:
            rest = folds_of(cohort, training[site], VALIDATION, seed=1)
            pairs = list(zip(training[site], rest, strict=True))
            training[site] = [one for one, number in pairs if number]
            new[site] = [one for one, number in pairs if not number]
    return Division(training, new)


def beats_of_sites(cohort: Cohort, training: dict[str, list[Client]], seed: int, *, pooled: bool) -> TrainingData:
    """Return the training beats with one client for each site, or one for all if ``pooled``.

    A site's beats are those of all its patients in training, of normal beats ``NORMAL_BEATS`` a patient by chance.
    """
    rng, rows = np.random.default_rng([seed, 7]), []
    for site in SITES:
        chosen = []
        for patient in training[site]:
            own = np.flatnonzero(cohort.client == patient.index)
            normal = own[cohort.label[own] == cohort.classes.index("N")]
            few = rng.permutation(normal)[:NORMAL_BEATS]
            chosen += [own[cohort.label[own] != cohort.classes.index("N")], few]
        rows.append(cohort.usable(np.sort(np.concatenate(chosen))))
    if pooled:
        rows = [np.concatenate(rows)]
    names = dict(enumerate(["pooled"] if pooled else SITES))
    data = training_data(cohort, rr=True)
    clients = np.arange(len(rows), dtype=np.int64)
    return replace(data, clients=clients, rows=dict(enumerate(rows)), ids=names, valid_rows={})
