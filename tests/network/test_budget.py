"""What a site lets be learned of one patient: charged before anything leaves, over all runs, and held."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.core.federation.client_round import ClientResult
from ecgfed.core.federation.communication_log import record_communication
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.privacy.accountant import epsilon_of
from ecgfed.core.privacy.noise import clipped
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.network.budget import SPENT, charge, epsilon_spent, noised_scalars
from ecgfed.network.errors import SiteError
from ecgfed.network.limits import SiteOptions
from ecgfed.network.site_folder import FILE_NAME, make_site, open_site
from ecgfed.testing.federation import CLASSES
from ecgfed.testing.trial import mixed_federation


def plan(rounds: int, noise: float, at: str = "patient") -> TrainPlan:
    return TrainPlan(rounds=rounds, dp_clip=0.1, dp_noise=noise, dp_at=at)


def test_runs_are_charged_together(tmp_path: Path) -> None:
    """Twelve answers with noise 2 and three with noise 1, each of weights and losses, are as mu^2 = 2 (12 / 4 + 3)."""
    for number in range(1, 13):
        charge(tmp_path, 50.0, "a", plan(12, 2.0), number)
    for number in range(1, 4):
        charge(tmp_path, 50.0, "b", plan(3, 1.0), number)
    assert epsilon_spent(tmp_path) == pytest.approx(epsilon_of(1.0, 12), rel=1e-12)


def test_one_patient_may_move_a_clipped_sum_by_twice_the_clip(tmp_path: Path) -> None:
    """So a site's sum tells of one patient as much as four updates of that patient's, and its losses as one more."""
    mine, others = torch.tensor([[100.0, 0.0]]), torch.tensor([[-50.0, 0.0]])
    with_me, without_me = (clipped({"model": total}, 1.0)["model"] for total in (mine + others, others))
    assert float((with_me - without_me).norm()) == 2.0
    charge(tmp_path, 50.0, "a", plan(1, 4.0, "site"), 1)
    assert epsilon_spent(tmp_path) == pytest.approx(epsilon_of(4.0, 5), rel=1e-12)


def test_an_answer_that_is_given_twice_is_charged_twice(tmp_path: Path) -> None:
    for number in (1, 1, 2):
        charge(tmp_path, 50.0, "a", plan(2, 1.0), number)
    assert epsilon_spent(tmp_path) == pytest.approx(epsilon_of(1.0, 6))


def test_nothing_is_begun_that_could_not_be_ended(tmp_path: Path) -> None:
    least = epsilon_of(2.0, 20)
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
    assert make_site(site, whole.path).max_epsilon is None
    assert make_site(site, whole.path, SiteOptions(max_epsilon=8.0)).max_epsilon == 8.0
    assert make_site(site, whole.path).max_epsilon == 8.0
    assert open_site(site).order == make_site(site, whole.path, SiteOptions(max_epsilon=2)).order
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(OptionError, match="max_epsilon"):
            make_site(site, whole.path, SiteOptions(max_epsilon=bad))
    told = json.loads((site / FILE_NAME).read_text())
    (site / FILE_NAME).write_text(json.dumps({**told, "most_epsilon": "much"}))
    with pytest.raises(StorageError, match="max_epsilon"):
        open_site(site)


def about_to_send(name: str) -> tuple[Method, list[ClientResult]]:
    """A method, and what three patients are about to send after a round of it."""
    kind = methods()[name]
    settings = {"personal_start": 0.0} if name == "grp-fed" else {}
    method = kind(ResNet1d(NetSpec(CLASSES, width=0.35, rr=True)), make_settings(kind.settings_type, settings))
    round_plan = TrainPlan(rounds=1, local_epochs=None, local_steps=2, batch_size=8)
    return method, [
        parcel.result for parcel in record_communication(method, mixed_federation(rr=True), round_plan).rounds[0]
    ]


@pytest.mark.parametrize("name", ["grp-fed", "ditto"])
def test_losses_bear_the_noise_that_is_charged(name: str) -> None:
    """By hand: numbers cut to 0..2 ln K, noise of z 2 ln K sqrt(n) for n of them; weights stay bit for bit."""
    z, most = 0.001, 2 * math.log(CLASSES)
    asked = plan(2, z)
    method, results = about_to_send(name)
    # a new discriminator's loss is beyond the range, where a cut would show
    results = [replace(one, losses={n: min(loss, 1.0) for n, loss in one.losses.items()}) for one in results]
    plain = [_numbers(result) for result in results]
    assert all(0.1 * most < value < 0.9 * most for one in plain for value in one.values())
    (count,) = {len(one) for one in plain}
    assert count == (4 if name == "grp-fed" else 2)  # its tree's loss and three reports; two reports
    moved = []
    for secret in range(300):
        noised = noised_scalars(method, asked, results, 1, bytes([1 + secret % 255, secret // 255]))
        moved += [
            value - one[path] for one, r in zip(plain, noised, strict=True) for path, value in _numbers(r).items()
        ]
        weights = [flatten(result.returned["model"]) for result in (results[0], noised[0])]
        assert all(torch.equal(weights[0][path], weights[1][path]) for path in weights[0])
    moved = torch.tensor(moved, dtype=torch.float64)
    assert float(moved.std()) == pytest.approx(z * most * math.sqrt(count), rel=0.06)
    assert abs(float(moved.mean())) < 5 * float(moved.std()) / math.sqrt(len(moved))
    again = noised_scalars(method, asked, results, 1, b"same"), noised_scalars(method, asked, results, 1, b"same")
    assert [_numbers(one) for one in again[0]] == [_numbers(one) for one in again[1]]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 1e30, -5.0])
def test_no_loss_tells_more_than_its_bound(loss: float) -> None:
    """However a server has a loss made: what leaves is that of a loss at one end of the range."""
    method, (first, *_) = about_to_send("grp-fed")
    most = 2 * math.log(CLASSES)
    end = 0.0 if loss < 0 else most
    found = []
    for value in (loss, end):
        tree = {**first.returned, "loss": torch.tensor(value, dtype=torch.float64)}
        result = replace(first, returned=tree, losses=dict.fromkeys(first.losses, value))
        found.append([_numbers(one) for one in noised_scalars(method, plan(2, 0.5), [result], 1, b"s")])
    assert found[0] == found[1]
    assert all(0 <= number <= most for number in found[0][0].values())


def _numbers(result: ClientResult) -> dict[str, float]:
    """What of a result is no weight."""
    tree = {path: leaf for path, leaf in flatten(result.returned).items() if not path.startswith("model/")}
    return {**{path: float(leaf) for path, leaf in tree.items()}, **{f"r {n}": v for n, v in result.losses.items()}}


@pytest.mark.usefixtures("unheld")
def test_a_federation_with_a_site_that_insists(federation: Callable[..., Any], parts: list[Path]) -> None:
    from needs import flower

    flower()
    from flwr.app import ConfigRecord

    from ecgfed.network import client_app
    from ecgfed.network.client_app import handle
    from ecgfed.network.errors import NetworkError
    from ecgfed.network.status import status_of

    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1, "dp_clip": 0.05}
    open_one = federation("fedavg", **wish)
    make_site(open_one.sites[1], parts[1], SiteOptions(max_epsilon=20.0))
    with pytest.raises(NetworkError, match="exceed its privacy budget"):
        open_one.serve()
    noised = federation("fedavg", name="noised", **wish, dp_noise=1.0, dp_at="patient")
    make_site(noised.sites[1], parts[1], SiteOptions(max_epsilon=20.0))
    noised.serve()
    # nor does it score a model for a run that it takes no part in
    (ends,) = [content for kind, node, content in noised.grid.sent if (kind, node) == ("evaluate", 12)]
    order = json.loads(str(ends["say"]["order"]))
    for plan_ in ({"dp_at": "server"}, {"dp_noise": 0.0}, {"dp_clip": 0.0, "dp_noise": 0.0, "dp_at": "server"}):
        other = json.dumps({**order, "run": "0" * 64, "plan": {**order["plan"], **plan_}})
        ends["say"] = ConfigRecord({**ends["say"], "order": other, "last": 0})
        said = handle(noised.sites[1], ends, client_app._finish)
        assert dict(said["say"]) == {"refused": "privacy"}
    expected = epsilon_of(1.0, 6)
    assert epsilon_spent(noised.sites[1]) == pytest.approx(expected)
    assert not (noised.sites[0] / SPENT).exists()
    said = status_of(noised.sites[1]).sentences()
    assert f"Privacy: epsilon {expected:.3g} of 20 spent at delta 1e-05." in said


@pytest.mark.usefixtures("unheld")
def test_what_such_a_site_says(federation: Callable[..., Any], alone: Callable[..., Any], parts: list[Path]) -> None:
    """Its losses are not those of its training, its scores bear noise or stay, and its status names the rest."""
    from needs import flower

    flower()
    from ecgfed.core.runs.run import open_run
    from ecgfed.network.status import status_of

    wish: dict[str, Any] = {"rounds": 2, "local_steps": 1, "dp_clip": 0.05, "dp_noise": 0.1, "dp_at": "patient"}
    made = federation("grp-fed", end=True, eval_every=1, **wish)
    make_site(made.sites[1], parts[1], SiteOptions(max_epsilon=1e5))
    made.serve()
    losses = [json.loads(line)["losses"] for line in (made.server / "run" / "history.jsonl").read_text().splitlines()]
    one = alone("grp-fed", **wish)
    told = [json.loads(line)["losses"] for line in (one.path / "history.jsonl").read_text().splitlines()]
    changed = {place for place in range(7) for name in told[0] if losses[0][name][place] != told[0][name][place]}
    assert changed == {2, 3}  # the second site's patients
    kept, said = (
        {"site": "2", "patients": 2},
        "2 does not report its scores (it has a privacy budget) or has no beats to score",
    )
    result = json.loads((made.server / "result.json").read_text())
    assert result["sites"][1] == kept
    assert all("T_g" in result["sites"][place] for place in (0, 2))
    (valid,) = [json.loads(line) for line in (made.server / "scores.jsonl").read_text().splitlines()]
    assert valid["sites"][1]["patients"] == 2
    assert set(valid["sites"][1]) == {"site", "patients", "T_g", "T_p"}  # noised, and charged
    assert epsilon_spent(made.sites[1]) == pytest.approx(epsilon_of(0.1, 2 * 2 + 1))
    assert sum(said in line for line in status_of(made.server).sentences()) == 1
    assert any("does not report its scores" in line for line in made.said)
    assert open_run(made.sites[1] / "result").state().round == 2
    assert (made.sites[1] / "bundle" / "manifest.json").is_file()
    assert not any("Not counted" in line for line in status_of(made.sites[1]).sentences())
    make_site(made.sites[0], parts[0], SiteOptions(max_epsilon=1e5))
    (run,) = (path.name for path in (made.sites[0] / "runs").iterdir())
    assert (
        f"Not included, because they started before the budget was set: {run}." in status_of(made.sites[0]).sentences()
    )
