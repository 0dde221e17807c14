"""A round without a site is the round that one machine has without its patients; nothing else changes, bit for bit."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from needs import flower

flower()

from faults import ALL_CLIENTS, PATIENTS, POOLED, Faults, check_without, compare, faulty, history
from test_resume import KilledError, killed_after
from test_same_numbers import ASKED, same

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.registry import methods
from ecgfed.network import engine, messenger
from ecgfed.network.errors import NetworkError
from ecgfed.network.policy import Policy, write_policy
from ecgfed.network.status import status_of

pytestmark = pytest.mark.usefixtures("at_once")


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
@pytest.mark.parametrize("method", sorted(set(methods()) - {*ALL_CLIENTS, *POOLED}))
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
            from ecgfed.network.server_run import SaveEveryRound

            save = SaveEveryRound.on_round

            def killed_saving(self: Any, outcome: Any) -> None:
                if outcome.state.round == 3:
                    raise KilledError
                save(self, outcome)

            patch.setattr(SaveEveryRound, "on_round", killed_saving)
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
    assert "site 2 no longer has a key in the folder" in made.said
    assert json.loads((made.server / "result.json").read_text())["missing"] == ["2"]
    assert any("No result yet at 2" in line for line in status_of(made.server).sentences())
    with pytest.raises(NetworkError, match="include stranger"):
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
    monkeypatch.setattr(messenger.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(messenger.time, "sleep", lambda seconds: clock.update(now=clock["now"] + 1.0))
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
    assert caught.value.line.startswith("min_sites: 2 of 3; expected all sites")
