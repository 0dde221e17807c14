"""Sites that fail, and what has to come of it: the run that one machine has without their patients."""

import json
from typing import Any

from test_same_numbers import kept_at, same

from ecgfed.core.methods.registry import methods
from ecgfed.network.policy import Policy, write_policy

#: Numbers of the patients of each node.
PATIENTS = {11: (0, 1), 12: (2, 3), 13: (4, 5, 6)}
Faults = dict[int, dict[int, str]]
#: Not federated: a federation refuses them.
POOLED = sorted(name for name, kind in methods().items() if kind.requirements.pooled)
ALL_CLIENTS = sorted(name for name, kind in methods().items() if kind.requirements.all_clients)


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
    assert state.beats_used == expected.beats_used
    lines = [{name: value for name, value in line.items() if name != "left_out"} for line in history(run)]
    assert lines == history(one)
    kept = {client: tree for site in made.sites for client, tree in kept_at(site).items()}
    assert sorted(kept) == sorted(expected.client_states)
    assert all(same(kept[client], expected.client_states[client]) for client in kept)
