"""A server that is killed goes on to the same result; a site answers the same question with the same answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from test_same_numbers import kept_at, same

from ecgfed.base.locks import locked
from ecgfed.core.federation import client_round
from ecgfed.network import site_run
from ecgfed.network.errors import NetworkError


class KilledError(Exception):
    """Stands for a kill."""


def killed_after(grid: Any, rounds: int, replies: int) -> None:
    """Have the server die when so many replies of a round have come."""
    seen = {"rounds": 0, "replies": 0}
    push = grid.push_messages

    def pushing(messages: Any) -> Any:
        messages = list(messages)
        if messages[0].metadata.message_type == "train":
            seen["rounds"] += 1
            if seen["rounds"] == rounds:
                push(messages[:replies])
                raise KilledError
        return push(messages)

    grid.push_messages = pushing


@pytest.mark.parametrize("replies", [0, 2, 3])
def test_killed_in_a_round(replies: int, federation: Callable[..., Any], alone: Callable[..., Any]) -> None:
    wish: dict[str, Any] = {"rounds": 4, "local_steps": 2}
    made = federation("scaffold", **wish)
    killed_after(made.grid, 3, replies)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages  # the method of the class again
    run, one = made.serve(), alone("scaffold", **wish)
    assert any("resuming after round 2" in line for line in made.said)
    assert same(run.state().server, one.state().server)
    assert (run.path / "history.jsonl").read_bytes() == (one.path / "history.jsonl").read_bytes()
    expected = one.state().client_states
    kept = {client: tree for site in made.sites for client, tree in kept_at(site).items()}
    assert all(same(kept[client], expected[client]) for client in expected)


def test_an_answer_is_not_trained_twice(federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = federation("scaffold", rounds=3, local_steps=1)
    killed_after(made.grid, 2, 3)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages
    trained: list[int] = []
    run_client = client_round.run_client

    def counted(*given: Any) -> Any:
        trained.append(given[3].info.round)
        return run_client(*given)

    monkeypatch.setattr("ecgfed.network.site_run.run_client", counted)
    made.serve()
    assert sorted(trained) == [3] * 7


def test_a_site_that_lost_its_folder_is_told_apart(federation: Callable[..., Any]) -> None:
    import shutil

    made = federation("scaffold", rounds=3, local_steps=1)
    killed_after(made.grid, 3, 0)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages
    shutil.rmtree(made.sites[1] / "runs")
    with pytest.raises(NetworkError, match=r"site 2: refused: its patients' state is not from the round before"):
        made.serve()
    assert "is at round 0, but the server expects round 2" in (made.sites[1] / "log.txt").read_text()


def test_damage_at_a_site_is_found(federation: Callable[..., Any]) -> None:
    made = federation("scaffold", rounds=3, local_steps=1)
    killed_after(made.grid, 3, 0)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages
    file = next(path for path in (made.sites[0] / "runs").glob("*/pending/checkpoint/client*.safetensors"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(NetworkError, match="site 1: refused"):
        made.serve()
    assert "SHA-256 differs" in (made.sites[0] / "log.txt").read_text()


def test_two_processes_at_one_site(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    with locked(made.sites[2]), pytest.raises(NetworkError, match="site 3: refused: another process uses its folder"):
        made.serve()
    assert made.serve().store.rounds() == 1


def test_other_counts_than_the_run_began_with(federation: Callable[..., Any], parts: list[Path]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1)
    killed_after(made.grid, 2, 0)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages
    site = {"schema_version": 1, "cohort": str(parts[2]), "order": [0, 1, 2]}
    (made.sites[0] / "site.json").write_text(json.dumps(site))
    with pytest.raises(
        NetworkError, match="its run was started with other sites, or with other patients or counts of site"
    ):
        made.serve()


def test_two_runs_of_one_site_do_not_meet(federation: Callable[..., Any]) -> None:
    """What a site's patients keep of one run is not another one's, and is still there after it."""
    first = federation("scaffold", rounds=2, local_steps=1)
    first.serve()
    second = federation("scaffold", rounds=2, local_steps=1, seed=1, name="second")
    before = kept_at(first.sites[0])
    second.sites[0] = first.sites[0]
    second.grid.sites[11] = first.sites[0]
    second.serve()
    folders = sorted((first.sites[0] / site_run.RUNS).iterdir())
    assert len(folders) == 2
    from ecgfed.core.runs.checkpoint import CheckpointStore

    states = [CheckpointStore(folder).load() for folder in folders]
    assert sum(all(same(state.client_states[c], before[c]) for c in before) for state in states) == 1
