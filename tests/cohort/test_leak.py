"""How much signal the test beats of a patient share with the training beats, for both kinds of split."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_files import copy_record

import ecgfed
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import TEST, TRAIN

#: A window: 100 samples before the R peak, 156 from it on, at 360 Hz (docs/cohort.md).
WINDOW = 256


def sharing(cohort: Cohort, samples: int) -> tuple[int, int]:
    """Return how many test beats have a training beat of their recording fewer samples away, and how many there are."""
    shared = total = 0
    for record in range(len(cohort.meta["records"])):
        mine = cohort.record == record
        trained, tested = (np.sort(cohort.sample[mine & (cohort.split == part)]) for part in (TRAIN, TEST))
        total += len(tested)
        if len(trained):
            nearest = np.abs(tested[:, None] - trained[None]).min(1)
            shared += int((nearest < samples).sum())
    return shared, total


@pytest.mark.parametrize("rr_version", [1, 2])
def test_no_recorded_sample_is_on_both_sides_of_a_chronological_split(
    mitdb: Path, tmp_path: Path, rr_version: int
) -> None:
    """On two records: samples of windows, with the filter's 2 s and the strip's 0.4 s beside them."""
    for name in ("100", "208"):
        copy_record(mitdb / name, tmp_path / "in")
    options: dict[str, Any] = {"leads": "MLII", "workers": 1, "rr_version": rr_version}
    by_time = ecgfed.prepare_folder(tmp_path / "in", tmp_path / "time", split="chronological", **options)
    drawn = ecgfed.prepare_folder(tmp_path / "in", tmp_path / "random", **options)
    shared, total = sharing(by_time, round(5.6 * 360))
    assert shared == 0
    assert total == sum(round(0.2 * count) for count in np.bincount(drawn.record))
    shared, total = sharing(drawn, WINDOW)
    assert shared / total > 0.1
    # features of the test beats are those of a recording that begins and ends with them
    rows, rr = by_time.rows(by_time.clients[0], TEST), dict(zip(RR_NAMES[rr_version], by_time.rr.T, strict=True))
    if rr_version == 2:
        assert np.flatnonzero(rr["void_previous"][rows]).tolist() == [0]
        assert np.flatnonzero(rr["void_next"][rows]).tolist() == [len(rows) - 1]
        return
    np.testing.assert_allclose(rr["previous_s"][rows[1:]], np.diff(by_time.sample[rows]) / 360, rtol=1e-5)
    assert rr["previous_s"][rows[0]] == rr["next_s"][rows[0]]
