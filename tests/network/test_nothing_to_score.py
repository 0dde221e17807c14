"""A site whose patients have so few beats that none is for tests, or for validation: it holds nobody up."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.split import TEST, TRAIN, VALID
from ecgfed.domain.cohort.writer import CohortWriter
from ecgfed.network.limits import SiteOptions
from ecgfed.network.partition import _RECOMPUTED
from ecgfed.network.site_folder import make_site
from ecgfed.network.status import status_of

pytestmark = pytest.mark.usefixtures("at_once")


def without_split(source: Path, target: Path, split: int) -> Path:
    """Write a cohort again, the beats of a split among those for training."""
    cohort = open_cohort(source)
    rows = {name: np.array(array) for name, array in cohort.arrays.items()}
    rows["split"][rows["split"] == split] = TRAIN
    target.mkdir()
    with CohortWriter(target, rr_version=cohort.rr_version) as writer:
        writer.append(**rows)
        writer.finish({name: value for name, value in cohort.meta.items() if name not in _RECOMPUTED})
    return target


@pytest.mark.parametrize("split", [VALID, TEST])
def test_a_site_with_no_beats_to_score(
    split: int, federation: Callable[..., Any], parts: list[Path], tmp_path: Path
) -> None:
    every = 1 if split == VALID else 0
    made = federation("fedavg", rounds=2, local_steps=1, eval_every=every, end=True)
    site = made.sites[0]
    shutil.rmtree(site)
    make_site(site, without_split(parts[0], tmp_path / "few", split), SiteOptions(numbers="cohort"))
    made.serve()
    said = status_of(made.server).lines
    sites = json.loads((made.server / "result.json").read_text())["sites"]
    assert [one["site"] for one in sites] == ["1", "2", "3"]
    assert ["T_g" in one for one in sites] == [split == VALID, True, True]
    assert any("1 does not report its scores" in line and "has no beats to score" in line for line in said) == (
        split == TEST
    )
    if split == VALID:
        (line,) = [json.loads(one) for one in (made.server / "scores.jsonl").read_text().splitlines()]
        assert ["T_g" in one for one in line["sites"]] == [False, True, True]
    assert (site / "result").is_dir()
    assert (site / "bundle" / "manifest.json").is_file()
    assert not (site / "log.txt").exists()
    made.serve()  # its end once more is the same one
    assert json.loads((made.server / "result.json").read_text())["sites"] == sites
