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
from ecgfed.base.errors import OptionError
from ecgfed.base.locks import LockedError, locked
from ecgfed.network.budget import SPENT
from ecgfed.network.errors import NetworkError
from ecgfed.network.federate import KEY, prepare_site, run_site
from ecgfed.network.limits import SiteOptions
from ecgfed.network.site_folder import FILE_NAME, make_site, open_site
from ecgfed.network.site_run import COHORT, RUNS

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
    make_site(site, cohorts[0], SiteOptions(numbers="cohort"))

    def swapped(kind: str, node: int, number: int) -> str:
        if (kind, number) == wanted and cohorts[1].exists():
            cohorts[0].rename(tmp_path / "before")
            cohorts[1].rename(cohorts[0])
        return ""

    made.grid.fault = swapped
    with pytest.raises(NetworkError, match="site 1: refused: its cohort cannot be used"):
        made.serve()
    assert "other beats, labels, splits or held-out clients than at the start of run" in (site / "log.txt").read_text()
    assert not (site / "result").exists()
    made.grid.fault = lambda *_: ""
    cohorts[0].rename(tmp_path / "after")
    (tmp_path / "before").rename(cohorts[0])
    made.serve()
    assert (site / "result").is_dir()


def test_other_patients_held_out_within_a_run_are_refused(federation: Callable[..., Any], tmp_path: Path) -> None:
    """The beats are the same, and a place among those who take part is another patient's."""
    made = federation("grp-fed", rounds=2, local_steps=1, settings={"personal_start": 0.0}, end=True)
    own, site = tmp_path / "own", made.sites[0]
    ecgfed.prepare_demo(own, patients=3, minutes=1.0, seed=0, holdout="demo01")
    before = (own / "cohort.json").read_text()
    shutil.rmtree(site)
    make_site(site, own, SiteOptions(numbers="cohort"))

    def swapped(kind: str, node: int, number: int) -> str:
        if number == 2:
            meta = json.loads(before)
            del meta["digest"]  # as versions 0.1 and 0.2 wrote none
            for client, held_out in zip(meta["clients"], (False, False, True), strict=True):
                client["holdout"] = held_out
            (own / "cohort.json").write_text(json.dumps(meta))
        return ""

    made.grid.fault = swapped
    with pytest.raises(NetworkError, match="site 1: refused"):
        made.serve()
    assert "held-out clients than at the start of run" in (site / "log.txt").read_text()
    made.grid.fault = lambda *_: ""
    (own / "cohort.json").write_text(before)
    made.serve()
    assert (site / "result").is_dir()


@pytest.mark.parametrize("kept", ["nothing", "fingerprint"])
def test_a_run_of_an_older_version_goes_on(federation: Callable[..., Any], kept: str) -> None:
    made = federation("fedavg", rounds=2, local_steps=1, end=True)

    def forgotten(kind: str, node: int, number: int) -> str:
        if number == 2:
            for file in made.sites[0].glob(f"{RUNS}/*/{COHORT}"):
                if kept == "nothing":
                    file.unlink()
                else:
                    file.write_text(json.dumps({kept: json.loads(file.read_text())[kept]}))
        return ""

    made.grid.fault = forgotten
    made.serve()
    assert (made.sites[0] / "result").is_dir()


def test_a_run_refused_for_its_noise_takes_no_room(federation: Callable[..., Any], parts: list[Path]) -> None:
    """Of a site that keeps one run: two are refused, and the one that it takes part in still fits."""
    first = federation("fedavg", rounds=1, local_steps=1)
    site = first.sites[0]
    make_site(site, parts[0], SiteOptions(max_epsilon=8.0, max_runs=1))
    with pytest.raises(NetworkError, match="exceed its privacy budget"):
        first.serve()
    wish: dict[str, Any] = {"rounds": 1, "local_steps": 1, "dp_clip": 1.0, "dp_at": "patient"}
    for name, noise in (("little", 0.01), ("much", 20.0)):
        run = federation("fedavg", name=name, dp_noise=noise, **wish)
        run.sites[:] = first.sites
        run.grid.sites.update(first.grid.sites)
        if name == "little":
            with pytest.raises(NetworkError, match="exceed its privacy budget"):
                run.serve()
            assert not (site / RUNS).exists()
            assert not (site / SPENT).exists()
        else:
            identity = run.serve().identity
            assert [path.name for path in (site / RUNS).iterdir()] == [identity[:16]]
            assert list(json.loads((site / SPENT).read_text())) == [identity]


@pytest.mark.parametrize("running", [True, False])
def test_a_site_that_runs_keeps_its_bounds(running: bool, parts: list[Path], tmp_path: Path) -> None:
    """A second start is refused; it must not have raised before what the first one lets out."""
    from ecgfed.network.certificates import make_certificates

    make_certificates(tmp_path / "tls", [])
    site, ca = tmp_path / "site", tmp_path / "tls" / "ca.crt"
    prepare_site(site, parts[0], SiteOptions(max_epsilon=2.0))
    before = (site / FILE_NAME).read_bytes()

    def second() -> None:
        if running:
            run_site(site, parts[0], "127.0.0.1:9092", ca, SiteOptions(max_epsilon=200.0), should_stop=lambda: True)
        else:
            prepare_site(site, parts[0], SiteOptions(max_epsilon=200.0))

    with locked(site / KEY):
        with pytest.raises(LockedError, match="is in use by process"):
            second()
        assert (site / FILE_NAME).read_bytes() == before
    second()
    assert open_site(site).max_epsilon == 200.0


def test_an_order_of_numbers_is_kept_or_refused(parts: list[Path], tmp_path: Path) -> None:
    """Who asks for shuffled numbers does not get the cohort's order in silence."""
    for order, other in (("cohort", "shuffled"), ("shuffled", "cohort")):
        site = tmp_path / order
        made, _ = prepare_site(site, parts[2], SiteOptions(numbers=order))
        for again in (order, None):
            assert prepare_site(site, parts[2], SiteOptions(numbers=again))[0] == made
        with pytest.raises(OptionError, match=f"numbers: {other}; expected {order}, as in .*"):
            prepare_site(site, parts[2], SiteOptions(numbers=other))
        told = json.loads((site / FILE_NAME).read_text())
        (site / FILE_NAME).write_text(json.dumps({name: told[name] for name in told if name != "numbers"}))
        assert (
            prepare_site(site, parts[2], SiteOptions(numbers=other))[0].order == made.order
        )  # of an older version: nobody knows
    assert prepare_site(tmp_path / "new", parts[2])[0].numbers == "shuffled"
