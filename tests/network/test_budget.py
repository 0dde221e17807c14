"""What a site lets be learned of one patient: charged before anything leaves, over all runs, and held."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ecgfed.cohort.cohort import Cohort
from ecgfed.errors import OptionError, StorageError
from ecgfed.federation.plan import TrainPlan
from ecgfed.network.budget import SPENT, charge, epsilon_spent
from ecgfed.network.errors import SiteError
from ecgfed.network.site_folder import FILE_NAME, make_site, open_site
from ecgfed.privacy.accountant import epsilon_of
from ecgfed.privacy.noise import clipped


def plan(rounds: int, noise: float, at: str = "patient") -> TrainPlan:
    return TrainPlan(rounds=rounds, dp_clip=0.1, dp_noise=noise, dp_at=at)


def test_runs_are_charged_together(tmp_path: Path) -> None:
    """Twelve answers with noise 2 and three with noise 1 are as one mechanism of mu^2 = 12 / 4 + 3 / 1."""
    for number in range(1, 13):
        charge(tmp_path, 50.0, "a", plan(12, 2.0), number)
    for number in range(1, 4):
        charge(tmp_path, 50.0, "b", plan(3, 1.0), number)
    assert epsilon_spent(tmp_path) == pytest.approx(epsilon_of(1.0, 6), rel=1e-12)


def test_one_patient_may_move_a_clipped_sum_by_twice_the_clip(tmp_path: Path) -> None:
    """So a site's sum tells of one patient as much as that patient's own update with half the noise."""
    mine, others = torch.tensor([[100.0, 0.0]]), torch.tensor([[-50.0, 0.0]])
    with_me, without_me = (clipped({"model": total}, 1.0)["model"] for total in (mine + others, others))
    assert float((with_me - without_me).norm()) == 2.0
    charge(tmp_path, 50.0, "a", plan(1, 4.0, "site"), 1)
    assert epsilon_spent(tmp_path) == pytest.approx(epsilon_of(2.0, 1), rel=1e-12)


def test_an_answer_that_is_given_twice_is_charged_twice(tmp_path: Path) -> None:
    for number in (1, 1, 2):
        charge(tmp_path, 50.0, "a", plan(2, 1.0), number)
    assert epsilon_spent(tmp_path) == pytest.approx(epsilon_of(1.0, 3))


def test_nothing_is_begun_that_could_not_be_ended(tmp_path: Path) -> None:
    least = epsilon_of(2.0, 10)
    with pytest.raises(SiteError, match="would bring epsilon to"):
        charge(tmp_path, math.nextafter(least, 0), "a", plan(10, 2.0), 1)
    assert not (tmp_path / SPENT).exists()
    charge(tmp_path, least * (1 + 1e-9), "a", plan(10, 2.0), 1)
    with pytest.raises(SiteError, match="would bring epsilon to"):  # another run on top of it
        charge(tmp_path, least * (1 + 1e-9), "b", plan(10, 2.0), 1)


@pytest.mark.parametrize("without", [plan(2, 1.0, "server"), plan(2, 0.0), TrainPlan(rounds=2)])
def test_noise_has_to_be_there_before_anything_leaves(tmp_path: Path, without: TrainPlan) -> None:
    charge(tmp_path, None, "a", without, 1)
    with pytest.raises(SiteError, match="adds no noise before an update leaves") as refused:
        charge(tmp_path, 1e5, "a", without, 1)
    assert refused.value.code == "privacy"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["[]", '{"a": "1"}', '{"a": -1}', '{"a": NaN}', '{"a": true}', "{", '{"a": 0}'])
def test_a_ledger_that_was_changed_ends_it(tmp_path: Path, text: str) -> None:
    (tmp_path / SPENT).write_text(text)
    with pytest.raises(StorageError):
        charge(tmp_path, 50.0, "a", plan(2, 1.0), 1)
    assert (tmp_path / SPENT).read_text() == text


def test_the_folder_remembers(tmp_path: Path, whole: Cohort) -> None:
    site = tmp_path / "site"
    assert make_site(site, whole.path).most_epsilon is None
    assert make_site(site, whole.path, most_epsilon=8.0).most_epsilon == 8.0
    assert make_site(site, whole.path).most_epsilon == 8.0
    assert open_site(site).order == make_site(site, whole.path, most_epsilon=2).order
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(OptionError, match="most_epsilon"):
            make_site(site, whole.path, most_epsilon=bad)
    told = json.loads((site / FILE_NAME).read_text())
    (site / FILE_NAME).write_text(json.dumps({**told, "most_epsilon": "much"}))
    with pytest.raises(StorageError, match="most_epsilon"):
        open_site(site)


def test_a_federation_with_a_site_that_insists(federation: Callable[..., Any], parts: list[Path]) -> None:
    from needs import flower

    flower()
    from flwr.app import ConfigRecord

    from ecgfed.network import client_app
    from ecgfed.network.client_app import answered
    from ecgfed.network.errors import NetworkError
    from ecgfed.network.status import status_of

    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1, "dp_clip": 0.05}
    open_one = federation("fedavg", **wish)
    make_site(open_one.sites[1], parts[1], most_epsilon=20.0)
    with pytest.raises(NetworkError, match="more of a patient than it allows"):
        open_one.serve()
    noised = federation("fedavg", name="noised", **wish, dp_noise=1.0, dp_at="patient")
    make_site(noised.sites[1], parts[1], most_epsilon=20.0)
    noised.serve()
    # nor does it score a model for a run that it takes no part in
    (ends,) = [content for kind, node, content in noised.grid.sent if (kind, node) == ("evaluate", 12)]
    order = json.loads(str(ends["say"]["order"]))
    for plan_ in ({"dp_at": "server"}, {"dp_noise": 0.0}, {"dp_clip": 0.0, "dp_noise": 0.0, "dp_at": "server"}):
        other = json.dumps({**order, "run": "0" * 64, "plan": {**order["plan"], **plan_}})
        ends["say"] = ConfigRecord({**ends["say"], "order": other, "last": 0})
        said = answered(noised.sites[1], ends, client_app._end)
        assert dict(said["say"]) == {"refused": "privacy"}
    expected = epsilon_of(1.0, 3)
    assert epsilon_spent(noised.sites[1]) == pytest.approx(expected)
    assert not (noised.sites[0] / SPENT).exists()
    said = status_of(noised.sites[1]).sentences()
    assert f"Privacy: epsilon {expected:.3g} of 20 spent at delta 1e-05." in said
