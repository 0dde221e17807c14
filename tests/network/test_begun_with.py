"""What a site begins a run with holds to the run's end: its cohort, and the room that a refused run may not take."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

import ecgfed
from ecgfed.network.budget import SPENT
from ecgfed.network.errors import NetworkError
from ecgfed.network.site_folder import make_site
from ecgfed.network.site_round import COHORT, RUNS

pytestmark = pytest.mark.usefixtures("at_once", "quick_end")


@pytest.mark.parametrize("wanted", [("train", 2), ("evaluate", 0)])
def test_another_cohort_in_its_place_is_refused(
    federation: Callable[..., Any], tmp_path: Path, wanted: tuple[str, int]
) -> None:
    """As many patients, other people: what the first ones' extractors have learned is not theirs."""
    made = federation("grp-fed", rounds=2, local_steps=1, settings={"personal_start": 0.0}, end=True)
    cohorts = [tmp_path / name for name in ("own", "other")]
    for seed, cohort in enumerate(cohorts):
        ecgfed.prepare_demo(cohort, patients=2, minutes=1.0, seed=seed)
    site = made.sites[0]
    shutil.rmtree(site)
    make_site(site, cohorts[0], "cohort")

    def swapped(kind: str, node: int, number: int) -> str:
        if (kind, number) == wanted and cohorts[1].exists():
            cohorts[0].rename(tmp_path / "before")
            cohorts[1].rename(cohorts[0])
        return ""

    made.grid.fault = swapped
    with pytest.raises(NetworkError, match="site 1: refused: its cohort cannot be used"):
        made.serve()
    assert "has other beats, labels or splits than when run" in (site / "log.txt").read_text()
    assert not (site / "result").exists()
    made.grid.fault = lambda *_: ""
    cohorts[0].rename(tmp_path / "after")
    (tmp_path / "before").rename(cohorts[0])
    made.serve()
    assert (site / "result").is_dir()


def test_a_run_of_an_older_version_goes_on(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1, end=True)

    def forgotten(kind: str, node: int, number: int) -> str:
        if number == 2:
            for file in made.sites[0].glob(f"{RUNS}/*/{COHORT}"):
                file.unlink()
        return ""

    made.grid.fault = forgotten
    made.serve()
    assert (made.sites[0] / "result").is_dir()


def test_a_run_refused_for_its_noise_takes_no_room(federation: Callable[..., Any], parts: list[Path]) -> None:
    """Of a site that keeps one run: two are refused, and the one that it takes part in still fits."""
    first = federation("fedavg", rounds=1, local_steps=1)
    site = first.sites[0]
    make_site(site, parts[0], most_epsilon=8.0, most_runs=1)
    with pytest.raises(NetworkError, match="tell more of a patient than it allows"):
        first.serve()
    wish: dict[str, Any] = {"rounds": 1, "local_steps": 1, "dp_clip": 1.0, "dp_at": "patient"}
    for name, noise in (("little", 0.01), ("much", 20.0)):
        run = federation("fedavg", name=name, dp_noise=noise, **wish)
        run.sites[:] = first.sites
        run.grid.sites.update(first.grid.sites)
        if name == "little":
            with pytest.raises(NetworkError, match="tell more of a patient than it allows"):
                run.serve()
            assert not (site / RUNS).exists()
            assert not (site / SPENT).exists()
        else:
            identity = run.serve().identity
            assert [path.name for path in (site / RUNS).iterdir()] == [identity[:16]]
            assert list(json.loads((site / SPENT).read_text())) == [identity]
