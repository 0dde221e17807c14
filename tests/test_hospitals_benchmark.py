"""The benchmark of two hospitals: who is new, what a site trains on, and its scores beside scikit-learn's."""

import numpy as np
import pytest
from conftest import write_record
from loaded_scripts import BENCHMARKS, load_script
from sklearn.metrics import confusion_matrix, precision_score, recall_score

import ecgfed
from ecgfed.domain.cohort.cohort import Cohort

FOLDER = BENCHMARKS / "hospitals"
sites, scoring, summary = (load_script(FOLDER / f"{name}.py") for name in ("sites", "scoring", "summary"))


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    folder, parts = tmp_path_factory.mktemp("sites"), {}
    for site, count in (("mitbih", 5), ("svdb", 6), ("qtdb", 1)):
        for number in range(count):
            symbols = ("N" * 9 + "AVV"[: number % 3 + 1]) * 2
            write_record(folder / f"{site}-in", f"{site}{number}", symbols, seed=len(parts) * 10 + number)
        held = ("mitbih2",) if site == "mitbih" else ()
        parts[site] = ecgfed.prepare_folder(
            folder / f"{site}-in", folder / site, classes="aami5", holdout=held, workers=1
        )
    return ecgfed.join_cohorts(parts, folder / "joined")


def test_each_patient_is_new_once_and_never_in_its_own_fold(cohort: Cohort) -> None:
    new = {site: [] for site in sites.SITES}
    for fold in range(sites.FOLDS):
        divided, tuned = sites.division(cohort, fold), sites.division(cohort, fold, validation=True)
        for site in sites.SITES:
            ids = {one.id for one in sites.patients_of(cohort, site)}
            mine, others = ({one.id for one in part[site]} for part in (divided.new, divided.training))
            assert (mine | others, mine & others) == (ids, set())
            new[site] += mine
            validation, rest = ({one.id for one in part[site]} for part in (tuned.new, tuned.training))
            assert (validation | rest, validation & rest) == (others, set())
            assert validation
    assert {site: sorted(ids) for site, ids in new.items()} == {
        site: sorted(one.id for one in cohort.sites[site] if not one.holdout) for site in sites.SITES
    }
    assert sum(one.holdout for one in cohort.clients) == 1


def test_patients_with_many_ectopic_beats_are_in_all_folds() -> None:
    class Toy:
        classes = ("N", "S", "V")
        label = np.repeat([1, 0, 2], [9 * 50, 30, 9 * 40])
        client = np.concatenate(
            [np.repeat(np.arange(9), 50), np.repeat(np.arange(9, 12), 10), np.repeat(np.arange(12, 21), 40)]
        )

    patients = [type("Patient", (), {"index": number}) for number in range(21)]
    fold = sites.folds_of(Toy, patients, 3, seed=0)
    assert np.bincount(fold[:9]).tolist() == np.bincount(fold[12:]).tolist() == [3, 3, 3]


@pytest.mark.parametrize("pooled", [False, True])
def test_a_site_trains_on_its_training_patients_alone(
    cohort: Cohort, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "NORMAL_BEATS", 7)
    training = sites.division(cohort, 0).training
    data = sites.beats_of_sites(cohort, training, 3, pooled=pooled)
    together = np.concatenate(list(data.rows.values()))
    for number, site in enumerate(sites.SITES):
        rows = together if pooled else data.rows[number]
        for patient in cohort.sites[site]:
            label = cohort.label[rows[cohort.client[rows] == patient.index]]
            own = cohort.label[cohort.client == patient.index]
            expected = [min(7, int((own == 0).sum())), int((own != 0).sum())] if patient in training[site] else [0, 0]
            assert [int((label == 0).sum()), int((label != 0).sum())] == expected
    assert len(data.clients) == (1 if pooled else 2)


def test_scores_are_scikit_learns() -> None:
    rng = np.random.default_rng(2)
    truth, called = rng.integers(0, 5, 3000), rng.integers(0, 5, 3000)
    called = np.where(rng.random(3000) < 0.5, truth, called)
    counts = np.array(scoring.counts_of(confusion_matrix(truth, called, labels=range(5))))
    for name, number, unknown in (("v", 2, (3, 4)), ("s", 1, (4,))):  # which beats cannot be falsely called so
        counted = ~np.isin(truth, unknown)
        precision = precision_score(truth[counted] == number, called[counted] == number)
        recall = recall_score(truth == number, called == number)
        assert scoring.f1(counts, name) == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    normal = truth == 0
    assert scoring.false_ectopic(counts) == pytest.approx(1000 * np.isin(called[normal], (1, 2)).mean())


def test_a_method_with_one_model_is_read_by_it_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(summary.bootstrap.__globals__, "DRAWS", 20)
    cell = {"p": [9, 1, 2, 5, 5, 5, 100, 6], "q": [3, 0, 1, 1, 0, 0, 50, 0]}
    own = {"p": [10, 1, 1, 5, 0, 5, 100, 1], "q": [3, 0, 1, 1, 0, 0, 50, 0]}
    of_all = {site: {"global": cell} for site in ("mitbih", "svdb", "qtdb")}
    runs = [
        ("FedAvg", 0, of_all),
        ("each site alone", 0, {**of_all, "svdb": {"global": cell, "svdb": own, "mitbih": cell}}),
    ]
    rows = summary.summary(runs)["rows"]
    assert [rows["FedAvg"][f"svdb/{reader}"]["veb"]["mean"] for reader in ("own", "global", "other")] == [85.71] * 3
    alone = rows["each site alone"]["svdb/own"]
    assert alone["veb"]["mean"] == pytest.approx(200 * 13 / (2 * 13 + 1 + 2), abs=0.01)
    assert alone["above FedAvg"]["sveb"]["mean"] == pytest.approx(200 * 6 / 17 - 200 * 6 / 22, abs=0.01)
    assert alone["above each site alone"]["veb"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert rows["FedAvg"]["qtdb/global"]["false_ectopic"]["mean"] == 40.0
