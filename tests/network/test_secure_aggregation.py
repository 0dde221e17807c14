"""Secure aggregation: the server has the sum and no part of it, sites may drop out, and what a site refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import torch
from faults import PATIENTS, history
from flwr.app import ConfigRecord, RecordDict
from test_resume import KilledError, killed_after
from test_same_numbers import same

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.registry import methods
from ecgfed.core.runs.checkpoint import CheckpointStore
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.network import client_app, leaves, masks, messages, site_sums
from ecgfed.network.client_app import handle
from ecgfed.network.errors import NetworkError
from ecgfed.network.going_back import go_back
from ecgfed.network.limits import SiteOptions
from ecgfed.network.policy import Policy, write_policy
from ecgfed.network.site_folder import make_site
from ecgfed.network.trees import leaves_of, record_of

pytestmark = pytest.mark.usefixtures("at_once")

#: The plain mean, so that a round's result is a formula.
PLAIN_MEAN: dict[str, Any] = {
    "settings": {"server_optimizer": "sgd", "server_lr": 1.0, "server_momentum": 0.0, "server_schedule": "constant"}
}
SECURE: dict[str, Any] = {"secure_aggregation": True, "local_steps": 1}
#: Written by hand: methods whose server takes weighted or equal means of weights, and nothing else.
SUMS = {
    *("apfl", "ditto", "fed-rod", "fed-rod-hyper", "fedabc", "fedala", "fedavg", "fedavg-uniform", "fedbabu", "fedbn"),
    *("feddyn", "fedper", "fedprox", "fedrep", "gpfl", "knn-per", "lg-fedavg", "moon", "mtl", "per-fedavg", "pfedme"),
    "scaffold",
}


def last_replies(made: Any) -> dict[int, Any]:
    """What the patients of every site would have sent in its last round, by number, from the site's own folder."""
    found = {}
    for site in made.sites:
        (folder,) = (site / "runs").iterdir()
        pending = CheckpointStore(folder / "pending").load()
        returned = flatten(pending.server["returned"])
        found |= {
            client: {path: leaf[place] for path, leaf in returned.items()}
            for place, client in enumerate(sorted(pending.client_states))
        }
    return found


def check_formula(made: Any, weights: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A round's sum is that of p_i (w_i - w) to half a step of 2^-40 for each site, and its model that mean.

    The model is rounded to float32 for the difference, for w plus the mean, for each p_i, and in a mean of m alike.
    """
    decoded: dict[str, torch.Tensor] = {}
    read = masks.from_integers

    def noted(*given: Any) -> dict[str, torch.Tensor]:
        decoded.update(read(*given))
        return decoded

    monkeypatch.setattr(masks, "from_integers", noted)
    run = made.serve()
    replies, state = last_replies(made), flatten(run.state().server)
    total = sum(weights.values())
    assert sorted(replies) == sorted(weights)
    for path, before in model_of(run).items():
        changes = {client: (reply[path] - before).double() for client, reply in replies.items()}
        exact = sum(weights[client] / total * change for client, change in changes.items())
        assert float((decoded[path] - exact).abs().max()) <= 3 * 2.0**-41
        mean = before.double() + exact
        bound = (len(replies) + 3) * 2.0**-24 * mean.abs() + 3 * 2.0**-41
        assert bool(((state[path].double() - mean).abs() <= bound).all()), path
    return run


def counts_of(cohort: Cohort) -> dict[int, float]:
    """Training beats of each patient."""
    data = training_data(cohort, rr=True)
    return dict(zip(data.clients.tolist(), map(float, data.train_examples), strict=True))


def model_of(run: Any) -> dict[str, Any]:
    return {f"model/{name}": leaf for name, leaf in run.net.initial(run.plan.seed).items()}


@pytest.mark.parametrize("method", ["fedavg", "fedavg-uniform"])
def test_a_round_is_the_formula(
    method: str, federation: Callable[..., Any], whole: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, counts = federation(method, rounds=1, **SECURE, **PLAIN_MEAN), counts_of(whole)
    check_formula(made, counts if method == "fedavg" else dict.fromkeys(counts, 1.0), monkeypatch)


@pytest.mark.parametrize("place", ["patient", "site"])
def test_beside_differential_privacy(
    place: str,
    federation: Callable[..., Any],
    whole: Cohort,
    unheld: None,
    quick_end: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each update is shortened and noised before it is summed; a site with a budget is charged as without."""
    noised = {"dp_clip": 0.3, "dp_noise": 1.0, "dp_at": place}
    made = federation("fedavg", rounds=1, **SECURE, **PLAIN_MEAN, **noised)
    for site in made.sites:
        make_site(site, Path(json.loads((site / "site.json").read_text())["cohort"]), SiteOptions(max_epsilon=50.0))
    run = check_formula(made, counts_of(whole), monkeypatch)
    start = model_of(run)
    lengths = [
        float(sum(((reply[path].double() - leaf.double()) ** 2).sum() for path, leaf in start.items()) ** 0.5)
        for reply in last_replies(made).values()
    ]
    entries = sum(leaf.numel() for leaf in start.values())
    sharing = {"patient": 1, "site": 3}[place]  # of a site's noise each of its patients sends an equal part
    assert all(0.8 * 0.3 * entries**0.5 / sharing < length < 1.2 * 0.3 * (entries**0.5 + 1) for length in lengths)
    cost = {"patient": 2.0, "site": 5.0}[place]
    assert all(list(json.loads((site / "spent.json").read_text()).values()) == [cost] for site in made.sites)


def near(run: Any, one: Any, tolerance: float = 2e-5) -> None:
    """As far apart as float32's rounding leads in a few rounds."""
    found, expected = flatten(run.state().server), flatten(one.state().server)
    assert list(found) == list(expected)
    for path, leaf in expected.items():
        assert torch.allclose(found[path].double(), leaf.double(), rtol=1e-3, atol=tolerance), path


@pytest.mark.parametrize("method", ["scaffold", "fed-rod-hyper", "mtl"])
def test_a_run_is_near_that_of_one_machine(
    method: str, federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    check_near(method, federation, alone)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(SUMS - {"scaffold", "fed-rod-hyper", "mtl"}))
def test_every_method_is_near_that_of_one_machine(
    method: str, federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    check_near(method, federation, alone)


def check_near(method: str, federation: Callable[..., Any], alone: Callable[..., Any]) -> None:
    optimizer = methods()[method].settings_type
    settings = PLAIN_MEAN["settings"] if hasattr(optimizer, "server_optimizer") else {}
    settings = settings | {"lg-fedavg": {"warm_start": 0.5}, "mtl": {"relation": "mean"}}.get(method, {})
    wish = {"rounds": 3, "local_steps": 1, "settings": settings}
    made = federation(method, secure_aggregation=True, **wish)
    run, one = made.serve(), alone(method, **wish)
    near(run, one)
    assert run.state().beats_used == one.state().beats_used
    losses = [[line[name] for line in history(some)] for some in (run, one) for name in ("loss_mean",)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("generic", ["feddyn", "scaffold", "fedprox"])
def test_a_setting_that_changes_the_weights(
    generic: str, federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    settings: dict[str, Any] = {"generic": generic, **({"momentum": 0.0} if generic == "scaffold" else {})}
    if generic != "feddyn":
        settings |= PLAIN_MEAN["settings"]
    wish = {"rounds": 2, "local_steps": 1, "settings": settings}
    near(federation("fed-rod", secure_aggregation=True, **wish).serve(), alone("fed-rod", **wish))


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *[("query.shares", "away"), ("query.shares", "killed"), ("train", "lost"), ("train", "killed")],
        ("query.unmask", "away"),
    ],
)
def test_a_site_drops_out_between_the_stages(
    kind: str, how: str, federation: Callable[..., Any], without: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    """The round is that without its patients; with them, if its sum had arrived."""
    wish = {"rounds": 3, "local_steps": 1, **PLAIN_MEAN}
    made = federation("scaffold", secure_aggregation=True, **wish)
    write_policy(made.server, Policy(2, 0.0))
    fallen: set[str] = set()

    def fault(asked: str, node: int, number: int) -> str:
        if (asked, node, number) != (kind, 12, 2) or fallen:
            return ""
        fallen.add(asked)
        if how == "lost":  # and the site is started again, so that it is asked in the next round
            made.grid.started[12] += 1
        return how

    made.grid.fault = fault
    run = made.serve()
    near(run, alone("scaffold", **wish) if kind == "query.unmask" else without("scaffold", {2: PATIENTS[12]}, **wish))
    assert [sorted(line.get("left_out", {})) for line in history(run)][1] == ([] if kind == "query.unmask" else ["2"])


def test_two_sites_alone_are_no_sum(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, **SECURE)
    write_policy(made.server, Policy(2, 0.0))
    made.grid.fault = lambda kind, node, number: ""
    made.grid.spoil = lambda kind, node, content: (
        RecordDict({"say": ConfigRecord({"refused": "storage"})}) if (kind, node) == ("query.keys", 12) else content
    )
    with pytest.raises(NetworkError, match="site 2"):
        made.serve()
    assert not [kind for kind, _, _ in made.grid.sent if kind == "train"]


def test_a_killed_server_goes_on_to_the_same_bits(federation: Callable[..., Any]) -> None:
    """New keys, the updates that the sites have stored, the same sum."""
    whole_run = federation("scaffold", rounds=3, name="whole", **SECURE).serve()
    made = federation("scaffold", rounds=3, name="killed", **SECURE)
    with pytest.MonkeyPatch.context() as patch:
        killed_after(made.grid, 2, 2)
        with pytest.raises(KilledError):
            made.serve()
        patch.undo()
    made.grid.spoil = lambda kind, node, content: content
    assert same(made.serve().state().server, whole_run.state().server)


def test_what_travels_is_masked_and_named(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, **SECURE, **PLAIN_MEAN)
    run = made.serve()
    sums = {node: content for kind, node, content in made.grid.came if kind == "train"}
    for content in sums.values():
        assert set(content) == {"up", "reports", "say"}
        assert set(content["say"]) == set(leaves.ROUND_UP)
        vector = np.concatenate([array.numpy().ravel() for array in content["up"].values()])
        assert vector.dtype == np.int64
        bits = np.unpackbits(vector.view(np.uint8)).mean()
        assert abs(bits - 0.5) < 5 * 0.5 / np.sqrt(64 * len(vector))  # five standard deviations of fair coins
    assert {path for content in sums.values() for path in content["up"]} == set(model_of(run))
    for kind, _, content in made.grid.came:
        if kind == "query.keys":
            assert set(content["say"]) == set(leaves.KEYS_UP)
        elif kind == "query.shares":
            assert set(content["boxes"]) == set(leaves.SHARES_UP)
        elif kind == "query.unmask":
            assert set(content["shares"]) == set(leaves.UNMASK_UP)
    listed = {leaf["name"]: leaf for leaf in json.loads((made.server / "leaves.json").read_text())["leaves"]}
    assert all("masked" in listed[path]["what"] for path in model_of(run) if listed[path]["way"] == "up")
    assert run.meta["secure_aggregation"] == "on"
    assert not (made.server / "updates.jsonl").exists()


def test_a_sum_that_no_update_is_ends_the_run_and_names_no_site(federation: Callable[..., Any]) -> None:
    """A site that sends noise in place of its masked sum: which one does not show."""
    made = federation("fedavg", rounds=1, **SECURE)

    def spoil(kind: str, node: int, content: RecordDict) -> RecordDict:
        if (kind, node) == ("train", 12):
            sent = leaves_of(content.array_records["up"])
            content["up"] = record_of({path: leaf.flip(0) ^ 0x55AA << 40 for path, leaf in sent.items()})
        return content

    made.grid.spoil = spoil
    with pytest.raises(NetworkError, match=r"sum of sites 1, 2, 3"):
        made.serve()


def question(made: Any, node: int, kind: str, change: Callable[[RecordDict], None]) -> dict[str, Any]:
    """Send a site a stage's last message again, changed; return the fields of its answer."""
    sent = [content for asked, to, content in made.grid.sent if (asked, to) == (kind, node)][-1]
    content = RecordDict({name: ConfigRecord(dict(sent[name])) for name in sent.config_records})
    for name, record in sent.array_records.items():
        content[name] = record
    change(content)
    handler = {"query.keys": "_keys", "query.shares": "_shares", "train": "_round", "query.unmask": "_unmask"}[kind]
    answer = handle(made.grid.sites[node], content, getattr(client_app, handler))
    return messages.fields_of(answer)  # type: ignore[return-value]


@pytest.fixture
def finished(federation: Callable[..., Any]) -> Any:
    """A federation after its round and before its end, whose sites still have the round's secrets."""
    made = federation("fedavg", rounds=1, **SECURE)

    def killed(kind: str, node: int, number: int) -> str:
        if kind == "evaluate":
            raise KilledError
        return ""

    made.grid.fault = killed
    with pytest.raises(KilledError):
        made.serve()
    return made


def arrived(*sites: int) -> Callable[[RecordDict], None]:
    return lambda content: content["say"].update(arrived=list(sites))


def test_a_site_reveals_one_sum_of_a_round(finished: Any) -> None:
    """Asked again for the same sites it answers; for others the difference would be an update."""
    assert "refused" not in question(finished, 11, "query.unmask", lambda content: None)
    for sites in ((0, 1), (1, 2)):  # without site 3, and without itself
        assert question(finished, 11, "query.unmask", arrived(*sites)) == {"refused": "sums"}
    assert "is for other sites than before in round 1" in (finished.sites[0] / "log.txt").read_text()
    (folder,) = (finished.sites[0] / "runs").iterdir()
    (folder / site_sums.REVEALED).unlink()
    assert question(finished, 11, "query.unmask", arrived(0)) == {"refused": "sums"}  # its own update
    with pytest.raises(OptionError, match="back_to"):
        go_back(finished.server, 1)


def test_other_weights_or_shares_are_refused(finished: Any) -> None:
    """All sites train the weights that all have signed; two vectors under one mask differ by what they hide."""

    def other_weights(content: RecordDict) -> None:
        content["shared"] = record_of({p: leaf * 1.5 for p, leaf in leaves_of(content["shared"]).items()})

    def exchanged(content: RecordDict) -> None:
        content["boxes"]["boxes"] = list(reversed(content["boxes"]["boxes"]))

    assert question(finished, 11, "train", other_weights) == {"refused": "sums"}
    assert question(finished, 11, "train", exchanged) == {"refused": "sums"}
    assert "refused" not in question(finished, 11, "train", lambda content: None)
    file = finished.sites[0] / site_sums.SECRETS
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(json.dumps({**json.loads(file.read_text()), "vector": "0" * 64}))
    assert question(finished, 11, "train", lambda content: None) == {"refused": "sums"}


def test_stages_out_of_order_are_refused(finished: Any) -> None:
    question(finished, 11, "query.keys", lambda content: None)  # new keys: nothing has been shared with them
    for kind in ("train", "query.unmask", "query.shares"):
        assert question(finished, 11, kind, lambda content: None) == {"refused": "sums"}

    def later(content: RecordDict) -> None:
        content["say"]["round"] = 7

    assert question(finished, 12, "query.unmask", later) == {"refused": "sums"}


def with_partners(made: Any, tmp_path: Path) -> None:
    """Give every site the keys of the others, and of one that takes no part."""
    from ecgfed.network.certificates import make_site_key

    keys = tmp_path / "keys"
    keys.mkdir()
    for place, site in enumerate([*made.sites, tmp_path / "other"]):
        make_site_key(site / "key")
        (keys / f"{place}.pub").write_bytes((site / "key.pub").read_bytes())
    for site in made.sites:
        cohort = Path(json.loads((site / "site.json").read_text())["cohort"])
        assert make_site(site, cohort, SiteOptions(partners=str(keys))).partners == keys


def test_partners(federation: Callable[..., Any], tmp_path: Path) -> None:
    """A site with partners takes part in their sums, and in no run without."""
    made = federation("fedavg", rounds=1, **SECURE)
    with_partners(made, tmp_path)
    made.serve()
    plain = federation("fedavg", rounds=1, local_steps=1, seed=1, name="plain")
    plain.grid.sites = made.grid.sites
    with pytest.raises(NetworkError, match="only in sums with its partners"):
        plain.serve()


@pytest.mark.parametrize("lie", ["invented", "twice", "run", "weights"])
def test_a_server_that_lies_to_a_site_with_partners(lie: str, federation: Callable[..., Any], tmp_path: Path) -> None:
    """Invented sites, one partner for two, or partners that were told of another run or of other weights."""
    made = federation("fedavg", rounds=1, **SECURE)
    with_partners(made, tmp_path)
    made.serve()

    def change(content: RecordDict) -> None:
        keys = content["keys"]
        if lie == "invented":
            pair = masks.KeyPair.generate()
            keys["mask"] = [*keys["mask"][:2], pair.public]
        elif lie == "twice":
            for name in leaves.KEYS_UP:
                keys[name] = [*keys[name][:2], keys[name][1]]
        elif lie == "run":
            order = json.loads(content["say"]["order"])
            order["sites"][1]["training_examples"] += 10**9
            content["say"]["order"] = json.dumps(order)
        else:
            file = made.sites[0] / site_sums.SECRETS
            file.write_text(json.dumps({**json.loads(file.read_text()), "weights": "0" * 64}))

    assert question(made, 11, "query.shares", change) == {"refused": "sums"}
