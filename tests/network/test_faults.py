"""A round without a site is the round that one machine has without its patients; nothing else changes, bit for bit."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

from flwr.app import Array, ConfigRecord, RecordDict
from test_resume import KilledError, killed_after
from test_same_numbers import ASKED, kept_at, same

from ecgfed.errors import OptionError
from ecgfed.federation import train as training
from ecgfed.methods.base import Needs
from ecgfed.methods.registry import methods
from ecgfed.network import engine, post
from ecgfed.network.errors import NetworkError
from ecgfed.network.policy import EVERY_SITE, Policy, read_policy, write_policy
from ecgfed.network.status import status_of

#: Numbers of the patients of each node.
PATIENTS = {11: (0, 1), 12: (2, 3), 13: (4, 5, 6)}
Faults = dict[int, dict[int, str]]
ALL_CLIENTS = sorted(name for name, kind in methods().items() if kind.needs.all_clients)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for replies without a pause."""
    monkeypatch.setattr(post, "POLL_S", 0.0)
    monkeypatch.setattr(post, "LOOK_S", 0.0)


@pytest.fixture
def without(alone: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Train on one machine, with some patients left out of some rounds."""

    def train(method: str, missing: dict[int, tuple[int, ...]], **wish: Any) -> Any:
        chosen = training.participants

        def fewer(plan: Any, clients: Any, number: int) -> Any:
            return np.array([one for one in chosen(plan, clients, number) if one not in missing.get(number, ())])

        monkeypatch.setattr(training, "participants", fewer)
        run = alone(method, **wish)
        monkeypatch.setattr(training, "participants", chosen)
        return run

    return train


def faulty(made: Any, faults: Faults, wait_s: float = 0.0, min_sites: int = 1) -> None:
    """Have sites fail: round -> node -> how."""
    write_policy(made.server, Policy(min_sites, wait_s))
    made.grid.fault = lambda kind, node, number: faults.get(number, {}).get(node, "") if kind == "train" else ""


def missing(faults: Faults) -> dict[int, tuple[int, ...]]:
    return {number: tuple(one for node in nodes for one in PATIENTS[node]) for number, nodes in faults.items()}


def history(run: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "history.jsonl").read_text().splitlines()]


def check_without(federation: Any, without: Any, method: str, faults: Faults, **wish: Any) -> Any:
    """Run it with the faults; compare with one machine without these patients in those rounds."""
    made = federation(method, **wish)
    faulty(made, faults)
    run, one = made.serve(), without(method, missing(faults), **wish)
    compare(made, run, one)
    assert [sorted(line.get("left_out", {})) for line in history(run)] == [
        sorted(str(node - 10) for node in faults.get(number, {})) for number in range(1, wish["rounds"] + 1)
    ]
    return made


def compare(made: Any, run: Any, one: Any) -> None:
    state, expected = run.state(), one.state()
    assert same(state.server, expected.server)
    assert state.seen == expected.seen
    lines = [{name: value for name, value in line.items() if name != "left_out"} for line in history(run)]
    assert lines == history(one)
    kept = {client: tree for site in made.sites for client, tree in kept_at(site).items()}
    assert sorted(kept) == sorted(expected.kept)
    assert all(same(kept[client], expected.kept[client]) for client in kept)


@pytest.mark.parametrize("how", ["away", "killed", "late", "lost"])
@pytest.mark.parametrize("method", ["scaffold", "grp-fed", "feddyn"])
def test_a_round_without_a_site(
    method: str, how: str, federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """Whether it trained or not, and whether its answer came too late or never; it takes part again afterwards."""
    faults: Faults = {2: {12: how}}
    if how == "lost":  # it owes that answer, and is asked nothing else as long as it does not come
        faults |= {number: {12: how} for number in (3, 4)}
    made = check_without(federation, without, method, faults, rounds=4, local_steps=1, **ASKED.get(method, {}))
    asked = [int(content["say"]["round"]) for kind, node, content in made.grid.sent if (kind, node) == ("train", 12)]
    assert asked == ([1, 2] if how == "lost" else [1, 2, 3, 4])


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(set(methods()) - set(ALL_CLIENTS)))
def test_every_method_without_a_site_for_two_rounds(
    method: str, federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    faults: Faults = {2: {11: "killed"}, 3: {11: "away", 13: "late"}}
    wish: dict[str, Any] = {"rounds": 5, "local_steps": 2, **ASKED.get(method, {})}
    check_without(federation, without, method, faults, **wish)


def test_two_sites_are_missing_and_come_back(federation: Callable[..., Any], without: Callable[..., Any]) -> None:
    """Kept states of different age, first rounds missed, the last one too."""
    faults: Faults = {1: {11: "away", 13: "late"}, 2: {13: "killed"}, 4: {12: "away"}}
    check_without(federation, without, "scaffold", faults, rounds=4, local_steps=1)


def nan(content: RecordDict) -> None:
    record = content.array_records["up"]
    value = record["model/head.out.bias"].numpy().copy()
    value[0, 0] = np.nan
    record["model/head.out.bias"] = Array.from_numpy_ndarray(value)


def infinite_loss(content: RecordDict) -> None:
    content.metric_records["reports"]["loss"] = [float("inf"), 1.0]


def endless_loss(content: RecordDict) -> None:
    content.metric_records["reports"]["loss"] = [1e308, 1e308]


def largest(content: RecordDict) -> None:
    value = np.full((2, 12), np.finfo(np.float32).max)
    content.array_records["up"]["model/head.out.bias"] = Array.from_numpy_ndarray(value)


def wrong_shape(content: RecordDict) -> None:
    content.array_records["up"]["model/head.out.bias"] = Array.from_numpy_ndarray(np.zeros((2, 3), np.float32))


def wrong_type(content: RecordDict) -> None:
    content.array_records["up"]["model/head.out.bias"] = Array.from_numpy_ndarray(np.zeros((2, 12)))


def leaf_too_many(content: RecordDict) -> None:
    content.array_records["up"]["more"] = Array.from_numpy_ndarray(np.zeros((2, 3), np.float32))


def leaf_too_few(content: RecordDict) -> None:
    content.array_records["up"].pop("model/head.out.bias")


def another_run(content: RecordDict) -> None:
    content.config_records["say"]["run"] = "0" * 64


def another_round(content: RecordDict) -> None:
    content.config_records["say"]["round"] = 1


def ten_gigabytes_announced(content: RecordDict) -> None:
    array = Array("float32", (2, 1_250_000_000), "numpy.ndarray", b"few")
    content.array_records["up"]["model/head.out.bias"] = array


def refusal(content: RecordDict) -> None:
    for name in list(content):
        content.pop(name)
    content["say"] = ConfigRecord({"refused": "storage"})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (nan, "is not finite in 'model/head.out.bias'"),
        (infinite_loss, "has loss inf"),
        (endless_loss, "has loss 1e+308"),  # a mean of two is infinite
        (largest, "has numbers beyond belief in 'model/head.out.bias'"),  # and so is the sum of two sites
        (wrong_shape, "is float32 (2, 3); expected float32 (2, 12)"),
        (wrong_type, "is float64 (2, 12); expected float32 (2, 12)"),
        (leaf_too_many, "leaf 'more' of a message: is none that was asked for"),
        (leaf_too_few, "leaf 'model/head.out.bias' of a message: is missing"),
        (another_run, "is of another run or round"),
        (another_round, "is of another run or round"),
        (ten_gigabytes_announced, "is float32 (2, 1250000000)"),
        (refusal, "refused: its disk refused"),
    ],
)
def test_an_answer_that_cannot_be_used(
    spoil: Callable[[RecordDict], None], why: str, federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """The first site's, too: nobody else's answer is measured by it. It is said everywhere, and the site comes back."""
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("fedavg", **wish)
    faulty(made, {})

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node == 11 and content["say"]["round"] == 2:
            spoil(content)
        return content

    made.grid.spoil = spoilt
    run = made.serve()
    compare(made, run, without("fedavg", {2: PATIENTS[11]}, **wish))
    assert list(history(run)[1]["left_out"]) == ["1"]
    assert why in history(run)[1]["left_out"]["1"]
    assert any(
        line.startswith("round 2 of 3") and "without site 1, which" in line and why in line for line in made.said
    )
    status = status_of(made.server)
    assert any("Site 1 took no part in round 2" in line and why in line for line in status.sentences())
    assert status.as_json()["left_out"] == {"1": [2]}
    assert "a round needs 1 of them, after 0 s" in status.sentences()[0]


def test_without_a_policy_an_answer_that_cannot_be_used_ends_the_session(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1)

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node == 13 and content["say"]["round"] == 2:
            content.array_records["up"].pop("model/head.out.bias")
        return content

    made.grid.spoil = spoilt
    with pytest.raises(NetworkError, match=r"site 3: sent what cannot be used \(leaf 'model/head.out.bias'.*missing"):
        made.serve()
    made.grid.spoil = lambda kind, node, content: content
    assert made.serve().store.rounds() == 2


def test_without_a_policy_a_site_that_is_away_is_waited_for(
    federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    """Killed in mid-round and started again later: the same bits as if nothing had been."""
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("scaffold", **wish)
    looks = {"until": 3}
    nodes = made.grid.get_nodes

    def killed_once(kind: str, node: int, number: int) -> str:
        if (kind, node, number) == ("train", 12, 2) and 12 not in made.grid.away and looks["until"]:
            made.grid.away.add(12)
            return "killed"
        return ""

    def back_later() -> Any:
        if 12 in made.grid.away:
            looks["until"] -= 1
            if not looks["until"]:
                made.grid.away.discard(12)
                made.grid.started[12] += 1
        return nodes()

    made.grid.fault, made.grid.get_nodes = killed_once, back_later
    compare(made, made.serve(), alone("scaffold", **wish))
    assert "site 2 is not connected" in made.said
    assert "site 2 is back" in made.said


def test_a_site_that_was_started_again_is_asked_again(
    federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    """Its answer is lost and nobody says so: it has connected anew since it was asked."""
    wish: dict[str, Any] = {"rounds": 2, "local_steps": 1}
    made = federation("scaffold", **wish)

    def lost_once(kind: str, node: int, number: int) -> str:
        if (kind, node, number, made.grid.started[13]) == ("train", 13, 2, 0):
            made.grid.started[13] = 1
            return "lost"
        return ""

    made.grid.fault = lost_once
    compare(made, made.serve(), alone("scaffold", **wish))
    assert sum((kind, node) == ("train", 13) for kind, node, _ in made.grid.sent) == 3


def test_too_few_sites_end_the_session_and_it_goes_on(
    federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("scaffold", **wish)
    faulty(made, {}, min_sites=2)

    def spoilt(kind: str, node: int, content: RecordDict) -> RecordDict:
        if kind == "train" and node != 12 and content["say"]["round"] == 2:
            nan(content)
        return content

    made.grid.spoil = spoilt
    with pytest.raises(NetworkError, match="site 1: sent what cannot be used"):
        made.serve()
    made.grid.spoil = lambda kind, node, content: content
    compare(made, made.serve(), without("scaffold", {}, **wish))


@pytest.mark.parametrize("moment", ["aggregated", "decided", "asked"])
def test_a_server_killed_in_a_round_with_a_missing_site(
    moment: str, federation: Callable[..., Any], without: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it was decided to go on without a site, that holds, although the site is back when the server is."""
    wish: dict[str, Any] = {"rounds": 4, "local_steps": 1}
    made = federation("scaffold", **wish)
    faulty(made, {2: {12: "killed"}, 3: {13: "late"}})
    with monkeypatch.context() as patch:
        if moment == "asked":
            killed_after(made.grid, 3, 2)
        elif moment == "decided":
            run_round = engine.NetworkEngine.run

            def killed(self: Any, method: Any, work: Any) -> Any:
                results = run_round(self, method, work)
                if work[0].info.round == 3:
                    raise KilledError
                return results

            patch.setattr(engine.NetworkEngine, "run", killed)
        else:
            from ecgfed.network.server_run import SaveFirst

            save = SaveFirst.on_round

            def killed_saving(self: Any, outcome: Any) -> None:
                if outcome.state.round == 3:
                    raise KilledError
                save(self, outcome)

            patch.setattr(SaveFirst, "on_round", killed_saving)
        with pytest.raises(KilledError):
            made.serve()
    made.grid.__dict__.pop("push_messages", None)
    if moment != "asked":
        made.grid.fault = lambda kind, node, number: ""
    run = made.serve()
    compare(made, run, without("scaffold", {2: PATIENTS[12], 3: PATIENTS[13]}, **wish))
    assert [sorted(line.get("left_out", {})) for line in history(run)] == [[], ["2"], ["3"], []]


def test_a_site_whose_key_is_gone_is_left_out(federation: Callable[..., Any], without: Callable[..., Any]) -> None:
    from ecgfed.network.server_run import serve

    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("scaffold", **wish)
    faulty(made, {}, min_sites=2)
    killed_after(made.grid, 2, 0)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages
    run = serve(made.server, made.grid, {11: "1", 13: "3"}, made.said.append)
    one = without("scaffold", {2: PATIENTS[12], 3: PATIENTS[12]}, **wish)
    assert same(run.state().server, one.state().server)
    assert "site 2 has no key in the folder any more" in made.said
    assert json.loads((made.server / "result.json").read_text())["missing"] == ["2"]
    assert any("No result yet has 2" in line for line in status_of(made.server).sentences())
    with pytest.raises(NetworkError, match="name stranger"):
        serve(made.server, made.grid, {11: "1", 13: "3", 14: "stranger"})


def test_a_site_that_is_away_at_the_end_gets_its_result_later(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1)
    write_policy(made.server, Policy(2, 0.0))
    made.grid.fault = lambda kind, node, number: "away" if (kind, node) == ("evaluate", 12) else ""
    made.serve()
    result = json.loads((made.server / "result.json").read_text())
    assert ([one["site"] for one in result["sites"]], result["missing"]) == (["1", "3"], ["2"])
    assert any(line.startswith("site 2 is not connected: it has no result yet") for line in made.said)
    made.grid.fault = lambda kind, node, number: ""
    made.serve()
    result = json.loads((made.server / "result.json").read_text())
    assert [one["site"] for one in result["sites"]] == ["1", "2", "3"]
    assert "missing" not in result


def test_a_site_that_is_away_for_long_is_waited_for_once(
    federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds are counted by the looks for replies, of which each takes one."""
    made = federation("fedavg", rounds=4, local_steps=1)
    write_policy(made.server, Policy(2, 20.0))
    clock = {"now": 0.0}
    monkeypatch.setattr(post.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(post.time, "sleep", lambda seconds: clock.update(now=clock["now"] + 1.0))
    rounds: list[float] = []
    push = made.grid.push_messages

    def noted(messages: Any) -> Any:
        if messages[0].metadata.message_type == "train":
            rounds.append(clock["now"])
        made.grid.away |= {12} if rounds else set()
        return push(messages)

    made.grid.push_messages = noted
    made.grid.fault = lambda kind, node, number: "away" if (kind, node) == ("train", 12) else ""
    made.serve()
    taken = [after - before for before, after in pairwise(rounds)]
    assert taken[0] >= 20.0
    assert all(seconds <= 1.0 for seconds in taken[1:])


@pytest.mark.parametrize("method", ALL_CLIENTS)
def test_a_method_that_needs_everybody(method: str, federation: Callable[..., Any]) -> None:
    made = federation(method, rounds=1, local_steps=1, settings={"momentum": 0.0} if method == "afl" else {})
    write_policy(made.server, Policy(2, 0.0))
    with pytest.raises(OptionError) as caught:
        made.serve()
    assert caught.value.line.startswith("--min-sites: 2 of 3; expected all sites")


@pytest.mark.parametrize(
    ("least", "wait", "found"),
    [
        (0, None, "--min-sites: 0"),
        (4, None, "--min-sites: 4; expected at most 3"),
        (2, -1.0, "--wait: -1.0"),
        (2, float("nan"), "--wait: nan"),
        (None, 5.0, "--wait: was given alone"),
    ],
)
def test_policies_that_cannot_be(least: int | None, wait: float | None, found: str) -> None:
    with pytest.raises(OptionError) as caught:
        Policy(least, wait).check(3, Needs())
    assert caught.value.line.startswith(found)


def test_a_policy_on_the_disk(tmp_path: Path) -> None:
    assert read_policy(tmp_path) == EVERY_SITE
    for policy in (Policy(2), Policy(2, 30.0), EVERY_SITE):
        write_policy(tmp_path, policy)
        assert read_policy(tmp_path) == policy
    assert (Policy(2).needed(3), Policy(2).needed(1), EVERY_SITE.needed(3)) == (2, 1, 3)
