"""A run that one site cannot destroy: its update is bounded, it is named, and the run goes back to before it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

from faults import PATIENTS, compare, faulty, history
from flwr.app import Array, RecordDict
from test_same_numbers import kept_at, same

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.base import Requirements
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.runs.history import read_lines
from ecgfed.network.errors import NetworkError
from ecgfed.network.going_back import go_back
from ecgfed.network.kept_rounds import NEWEST, KeptRounds, is_kept
from ecgfed.network.policy import Policy, write_policy
from ecgfed.network.update_bounds import UPDATES, SiteUpdate, beside_others

pytestmark = pytest.mark.usefixtures("at_once")
Spoil = Callable[[RecordDict, RecordDict], None]


def each(change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Spoil:
    """Change every weight that is sent, given what came down."""

    def spoil(content: RecordDict, sent: RecordDict) -> None:
        for path, array in list(content.array_records["up"].items()):
            if array.dtype != "float32":  # a loss
                continue
            down = sent.array_records["shared"].get(path)
            before = np.zeros(array.shape[1:], np.float32) if down is None else down.numpy()
            value = change(array.numpy(), before).astype(np.float32)
            content.array_records["up"][path] = Array.from_numpy_ndarray(value)

    return spoil


def loss(value: float) -> Spoil:
    def spoil(content: RecordDict, sent: RecordDict) -> None:
        content.metric_records["reports"]["loss"] = [value, 1.0]

    return spoil


def spoiling(made: Any, spoil: Spoil, number: int, node: int = 11) -> None:
    """Have a site spoil its answer of a round."""

    def spoilt(kind: str, at: int, content: RecordDict) -> RecordDict:
        if kind == "train" and at == node and content["say"].get("round") == number:
            sent = next(asked for of, to, asked in reversed(made.grid.sent) if (of, to) == (kind, at))
            spoil(content, sent)
        return content

    made.grid.spoil = spoilt


HUGE = each(lambda value, before: np.full_like(value, 9e8))
AWAY = each(lambda value, before: before - 60 * (value - before))
LONG = each(lambda value, before: before + 400 * (value - before))
REFUSED: dict[str, tuple[Spoil, str]] = {
    "weights of 9e8": (HUGE, "times as long as the weights that were sent; expected at most 100 times"),
    "an update 400 times as long": (LONG, "times as long as the other sites'"),
    "a loss of -1e9": (loss(-1e9), "has loss -1e+09; expected 0 to 1e+06"),
    "a loss of 1e9": (loss(1e9), "has loss 1e+09"),
    "a loss that is not a number": (loss(float("nan")), "has loss nan"),
    "an infinite loss": (loss(float("inf")), "has loss inf"),
}


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_an_answer_out_of_bounds_is_refused_by_name(
    what: str, federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """With a policy the others go on as one machine without that site's patients; without one, the session ends."""
    spoil, why = REFUSED[what]
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("fedavg", **wish)
    spoiling(made, spoil, 2)
    with pytest.raises(NetworkError, match=r"^site 1: sent an ") as caught:
        made.serve()
    assert why in caught.value.line
    faulty(made, {})
    run = made.serve()
    compare(made, run, without("fedavg", {2: PATIENTS[11]}, **wish))
    assert why in history(run)[1]["left_out"]["1"]


def test_prototypes_are_bounded_too(federation: Callable[..., Any]) -> None:
    """What is no weight destroys a run as well."""
    made = federation("fedproto", rounds=2, local_steps=1)

    def huge(content: RecordDict, sent: RecordDict) -> None:
        value = np.full_like(content.array_records["up"]["prototypes"].numpy(), 1e6)
        content.array_records["up"]["prototypes"] = Array.from_numpy_ndarray(value)

    spoiling(made, huge, 2)
    with pytest.raises(NetworkError, match=r"^site 1: sent an invalid reply .*has prototypes of 1e\+06"):
        made.serve()


def test_a_site_that_stands_out_is_named_at_once(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1)
    spoiling(made, AWAY, 2)
    made.serve()
    assert any(line.startswith("round 2: the update of site 1 is ") for line in made.said)
    assert not any(line.startswith("round 1: the update of") for line in made.said)


def test_no_honest_update_is_refused(federation: Callable[..., Any]) -> None:
    """How far the lengths of honest updates lie from the bounds, on one step and on a whole epoch."""
    for name, wish in (("step", {"local_steps": 1}), ("epoch", {"local_epochs": 1})):
        made = federation("scaffold", name=name, rounds=3, **wish)
        made.serve()
        lines = read_lines(made.server / UPDATES)
        assert [line["round"] for line in lines] == [1, 2, 3]
        for line in lines:
            assert set(line["sites"]) == {"1", "2", "3"}
            assert all(0 < site["of_sent"] < 1 and site["beside_others"] < 10 for site in line["sites"].values())


def test_beside_others() -> None:
    """By hand; of two sites nobody can say which is wrong, and short ones make no honest site stand out."""
    updates = {number: SiteUpdate(0.1, length) for number, length in enumerate((1.0, 2.0, 3.0, 500.0))}
    assert beside_others(updates)[3] == 250.0
    assert beside_others(updates)[0] == pytest.approx(1 / 3)
    assert beside_others({0: SiteUpdate(0, 1.0), 1: SiteUpdate(0, 1e9)}) == {}
    short = beside_others({0: SiteUpdate(0, 1.0), 1: SiteUpdate(0, 1.0), 2: SiteUpdate(0, 1e-30)})
    assert max(short.values()) == 2.0
    assert beside_others(dict.fromkeys(range(3), SiteUpdate(0, 0.0))) == dict.fromkeys(range(3), 1.0)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "grp-fed"])
def test_a_run_goes_back_and_on_without_the_site(
    method: str, federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """Bit for bit what one machine has that never heard of that site's later rounds; sites go back, too."""
    wish: dict[str, Any] = {"rounds": 5, "local_steps": 1, "settings": {"personal_start": 0.0}}
    wish = wish if method == "grp-fed" else {"rounds": 5, "local_steps": 1}
    made = federation(method, **wish)
    write_policy(made.server, Policy(max_change=1e6))
    spoiling(made, AWAY, 3)
    made.serve()
    assert go_back(made.server, 2) == 5
    assert not (made.server / "result.json").exists()
    write_policy(made.server, Policy(without=("1",)))
    asked = len(made.grid.sent)
    run = made.serve()
    assert not [node for _, node, _ in made.grid.sent[asked:] if node == 11]
    assert {line["left_out"]["1"] for line in history(run)[2:]} == {"is left out with --without"}
    one = without(method, dict.fromkeys((3, 4, 5), PATIENTS[11]), **wish)
    made.sites[:] = made.sites[1:]  # what the first site keeps is of the course that was given up
    state, expected = run.state(), one.state()
    lines = [{name: value for name, value in line.items() if name != "left_out"} for line in history(run)]
    assert lines == history(one)
    assert same(state.server, expected.server)
    kept = {client: tree for site in made.sites for client, tree in kept_at(site).items()}
    assert all(same(tree, expected.client_states[client]) for client, tree in kept.items())
    assert json.loads((made.server / "result.json").read_text())["missing"] == ["1"]
    assert [line["round"] for line in read_lines(made.server / UPDATES)] == [1, 2, 3, 4, 5]


def test_the_message_names_the_site(federation: Callable[..., Any]) -> None:
    """Others' trainings fail two rounds after one site has spoilt the model: the line says which, and what to do."""
    made = federation("fedavg", rounds=5, local_steps=2, settings=PLAIN_MEAN)
    write_policy(made.server, Policy(max_change=1e9))
    spoiling(made, each(lambda value, before: before + 1e4 * (1 + np.abs(value))), 3)
    with pytest.raises(NetworkError) as caught:
        made.serve()
    line = caught.value.line
    assert "the update of site 1 in round 3 was" in line
    assert "--back-to 2', and start again with --without 1" in line
    go_back(made.server, 2)
    write_policy(made.server, Policy(without=("1",)))
    made.grid.spoil = lambda kind, node, content: content
    assert made.serve().store.rounds() == 5


def test_a_model_that_breaks_down_is_not_saved(federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """However it came about: the round before it stays the run's last."""
    made = federation("fedavg", rounds=3, local_steps=1, settings=PLAIN_MEAN)
    kind = method_by_name("fedavg")
    aggregate = kind.aggregate

    def broken(self: Any, server: Any, returned: Any) -> Any:
        state = aggregate(self, server, returned)
        return (
            {name: {p: leaf * np.nan for p, leaf in part.items()} for name, part in state.items()}
            if returned.round == 2
            else state
        )

    with monkeypatch.context() as patch:
        patch.setattr(kind, "aggregate", broken)
        with pytest.raises(NetworkError, match=r"round 2: leaves a model whose model/.* is not finite or too large"):
            made.serve()
    assert len(history(made.serve())) == 3


def test_which_rounds_are_kept() -> None:
    """Whatever is kept was kept before, so a site that is behind has all that the server has; and they are few."""
    for newest in range(1, 400):
        kept = {number for number in range(1, newest + 1) if is_kept(number, newest)}
        assert kept >= set(range(max(1, newest - NEWEST + 1), newest + 1))
        assert kept - {newest} <= {number for number in range(1, newest) if is_kept(number, newest - 1)}
        assert len(kept) <= NEWEST * (2 + np.log2(newest))


def test_going_back_where_it_cannot_be(federation: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not a server's folder"):
        go_back(tmp_path, 1)
    made = federation("fedavg", rounds=12, local_steps=1)
    with pytest.raises(OptionError, match="a run that has begun"):
        go_back(made.server, 1)
    run = made.serve()
    assert KeptRounds(run.store).rounds() == [n for n in range(1, 13) if is_kept(n, 12)]
    for number in (0, 1, 13, -1):
        with pytest.raises(OptionError, match="expected a round that is kept: ") as caught:
            go_back(made.server, number)
        assert caught.value.parameter == "back_to"
    private = federation("fedavg", name="private", rounds=2, local_steps=1, dp_clip=0.1, dp_noise=1.0)
    private.serve()
    with pytest.raises(OptionError, match="dp_clip"):
        go_back(private.server, 1)


def test_without_a_site_that_is_none(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1)
    write_policy(made.server, Policy(without=("1",)))
    with pytest.raises(OptionError, match="none yet, for it has not begun"):
        made.serve()
    write_policy(made.server, Policy())
    made.serve()
    write_policy(made.server, Policy(without=("north",)))
    with pytest.raises(OptionError, match="sites of the run: 1, 2, 3"):
        made.serve()
    with pytest.raises(OptionError, match="every client takes part"):
        Policy(without=("1",)).check(3, method_by_name("afl").requirements)
    with pytest.raises(OptionError, match="3 of 3 sites"):
        Policy(without=("1", "2", "3")).check(3, Requirements())
