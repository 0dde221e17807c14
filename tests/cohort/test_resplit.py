"""Another split of the same beats, and other clients held out."""

from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENTS
from refusals import refuses

import ecgfed
from ecgfed.base.errors import CohortError, OptionError
from ecgfed.domain.cohort.cohort import Cohort, open_cohort


def prepare(records: Path, out: Path, **options: object) -> Cohort:
    return ecgfed.prepare_folder(records, out, workers=1, **options)


@pytest.fixture(scope="module")
def whole(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return prepare(records, tmp_path_factory.mktemp("resplit") / "c")


def test_a_new_seed_is_what_prepare_makes_of_it(records: Path, whole: Cohort, tmp_path: Path) -> None:
    other = ecgfed.resplit_cohort(whole, tmp_path / "r", seed=7)
    expected = prepare(records, tmp_path / "p", seed=7)
    assert other.fingerprint == expected.fingerprint != whole.fingerprint
    assert other.meta == expected.meta
    back = ecgfed.resplit_cohort(other, tmp_path / "back", seed=0)
    assert back.fingerprint == whole.fingerprint


def test_patients_left_out_are_as_prepare_leaves_them_out(records: Path, whole: Cohort, tmp_path: Path) -> None:
    other = ecgfed.resplit_cohort(whole.path, tmp_path / "r", holdout=["p2", "p4"])
    assert other.meta == prepare(records, tmp_path / "p", holdout=["p2", "p4"]).meta
    assert other.held_out == ("p2", "p4")
    assert ecgfed.resplit_cohort(other, tmp_path / "seed", seed=3).held_out == ("p2", "p4")
    assert ecgfed.resplit_cohort(other, tmp_path / "none", holdout=[]).held_out == ()


def test_a_site_is_left_out(records: Path, whole: Cohort, tmp_path: Path) -> None:
    south = ecgfed.prepare_demo(tmp_path / "south", patients=2, minutes=0.5, workers=1)
    both = ecgfed.join_cohorts({"north": whole, "south": south}, tmp_path / "both")
    other = ecgfed.resplit_cohort(both, tmp_path / "r", holdout_site="south")
    assert other.held_out == ("demo01", "demo02")
    assert [client.id for client in other.federation] == list(PATIENTS)
    for name in other.arrays:
        np.testing.assert_array_equal(other.arrays[name], both.arrays[name])


def test_what_cannot_be_divided_anew_is_refused(records: Path, whole: Cohort, tmp_path: Path) -> None:
    out = tmp_path / "r"
    for code, where, options in (
        ("unknown-choice", "holdout", {"holdout": ["nobody"]}),
        ("unknown-choice", "holdout_site", {"holdout_site": ["south"]}),
        ("invalid-value", "holdout", {"holdout": list(PATIENTS)}),
        ("invalid-value", "seed", {}),
        ("invalid-value", "seed", {"seed": -1}),
    ):
        with refuses(OptionError, code, where):
            ecgfed.resplit_cohort(whole, out, **options)  # type: ignore[arg-type]
    by_time = prepare(records, tmp_path / "time", split="chronological")
    with pytest.raises(CohortError, match="chronological"):
        ecgfed.resplit_cohort(by_time, out, seed=1)
    assert not out.exists()
    assert open_cohort(by_time.path).fingerprint == by_time.fingerprint
