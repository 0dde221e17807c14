"""A run that cannot be is refused before any of it is written: another start may ask for something else."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from needs import flower

flower()

from test_same_numbers import same

from ecgfed.base.errors import OptionError
from ecgfed.network.config import FederationConfig
from ecgfed.network.server_folder import make_server, read_config
from ecgfed.network.status import status_of


@pytest.mark.parametrize(
    ("method", "wrong", "found"),
    [
        ("fedavg", {"clients_per_round": 8}, "clients_per_round: 8; expected at most 7"),
        ("local", {"aggregation": "median"}, "aggregation: median with local"),
        ("afl", {"local_steps": 2}, "local_steps: 2; expected 1 with this method"),
        ("afl", {"local_steps": 1, "clients_per_round": 3}, "clients_per_round: 3; expected all 7"),
    ],
)
def test_a_second_start_may_ask_for_something_else(
    method: str, wrong: dict[str, Any], found: str, federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    made = federation(method, **{"rounds": 2, **wrong})
    for _ in range(2):  # the same once more is refused in the same words
        with pytest.raises(OptionError) as caught:
            made.serve()
        assert found in caught.value.line
        assert not (made.server / "roster.json").exists()
        assert not (made.server / "run").exists()
    assert any(found in line for line in status_of(made.server).sentences())
    wish: dict[str, Any] = {"rounds": 2, "local_steps": 1}
    make_server(made.server, FederationConfig(3, "fedavg", **wish))
    assert "refused" not in json.loads((made.server / "server.json").read_text())
    run, one = made.serve(), alone("fedavg", **wish)
    assert same(run.state().server, one.state().server)
    with pytest.raises(OptionError, match=r"as when .* was created"):  # now it has begun
        make_server(made.server, FederationConfig(3, "fedavg", rounds=3))
    assert read_config(made.server).rounds == 2


def test_more_patients_make_it_right(federation: Callable[..., Any]) -> None:
    """What was refused and then could be run is no folder for something else."""
    made = federation("fedavg", rounds=1, local_steps=1)
    file = made.server / "server.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "refused": "before"}))
    made.serve()
    with pytest.raises(OptionError, match="was created"):
        make_server(made.server, FederationConfig(3, "fedavg", rounds=3, local_steps=1))
