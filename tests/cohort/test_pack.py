"""A cohort that travelled as one file."""

from pathlib import Path

import numpy as np
import pytest

from ecgfed.base.errors import CohortError
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.layout import ARRAYS
from ecgfed.domain.cohort.pack import pack_cohort, unpack_cohort


def test_beats_come_back_within_half_a_microvolt_and_the_rest_exactly(cohort_path: Path, tmp_path: Path) -> None:
    size = pack_cohort(cohort_path, tmp_path / "packed.npz")
    unpack_cohort(tmp_path / "packed.npz", tmp_path / "cohort")
    before, after = open_cohort(cohort_path), open_cohort(tmp_path / "cohort")
    assert np.abs(before.beats - after.beats).max() <= 0.00051
    for name in set(ARRAYS) - {"beats"}:
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert after.meta["unpacked_from"] == before.fingerprint != after.fingerprint
    assert size < sum(path.stat().st_size for path in cohort_path.iterdir()) / 2
    pack_cohort(tmp_path / "cohort", tmp_path / "again.npz")
    unpack_cohort(tmp_path / "again.npz", tmp_path / "twice")
    assert open_cohort(tmp_path / "twice").fingerprint == after.fingerprint


def test_what_is_no_packed_cohort_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="does not exist"):
        unpack_cohort(tmp_path / "none.npz", tmp_path / "out")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(CohortError, match="no packed cohort"):
        unpack_cohort(tmp_path / "text.npz", tmp_path / "out")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(CohortError, match="no packed cohort"):
        unpack_cohort(tmp_path / "other.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.mitdb
def test_all_of_mitbih_travels_in_under_60_mb(mitdb: Path, tmp_path: Path) -> None:
    from ecgfed.domain.cohort.build import build_cohort
    from ecgfed.domain.cohort.databases import MITBIH, database_sources
    from ecgfed.domain.cohort.sources import PrepareOptions

    options = PrepareOptions()
    build_cohort(database_sources(MITBIH, mitdb, options).clients, tmp_path / "cohort", options, kind="mitbih")
    assert pack_cohort(tmp_path / "cohort", tmp_path / "packed.npz") < 60e6
