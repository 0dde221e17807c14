"""The same numbers: rounds over messages end where rounds on one machine end, bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

import torch

from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.registry import methods
from ecgfed.core.runs.document import FILE_NAME
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.network.config import FederationConfig

#: What some methods have to be asked for.
ASKED: dict[str, dict[str, Any]] = {
    "afl": {"settings": {"momentum": 0.0}, "local_steps": 1},
    # both phases: the personal models begin at half of the run
    "grp-fed": {"settings": {"personal_start": 0.5}},
    "lg-fedavg": {"settings": {"warm_start": 0.5}},
    "mtl": {"settings": {"relation": "learned"}},
}
PROMISED = ("fedavg", "grp-fed", "scaffold", "fed-rod", "per-fedavg")


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two trees have the same leaves in the same order, bit for bit."""
    a, b = flatten(one), flatten(other)
    return list(a) == list(b) and all(a[path].dtype == b[path].dtype and torch.equal(a[path], b[path]) for path in a)


def check_same(federation: Any, method: str, alone: Any, **wish: Any) -> Any:
    made = federation(method, **wish)
    run, one = made.serve(), alone(method, **wish)
    state, expected = run.state(), one.state()
    assert state.round == expected.round == wish["rounds"]
    assert same(state.server, expected.server)
    assert state.beats_used == expected.beats_used
    assert (run.path / "history.jsonl").read_bytes() == (one.path / "history.jsonl").read_bytes()
    return made, expected


def kept_at(site: Path) -> dict[int, Any]:
    """What a site's patients keep, by number."""
    from ecgfed.core.runs.checkpoint import CheckpointStore

    (folder,) = (site / "runs").iterdir()
    state = CheckpointStore(folder).load()
    return {client: state.client_states[client] for client in state.client_states}


def test_a_client_that_is_sent_a_part_of_what_it_needs(
    federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    """LG-FedAvg's heads travel alone once everybody has an extractor: the server has to know what then comes back."""
    check_same(federation, "lg-fedavg", alone, rounds=4, local_steps=1, **ASKED["lg-fedavg"])


@pytest.mark.parametrize("method", PROMISED)
def test_bit_for_bit(method: str, federation: Callable[..., Any], alone: Callable[..., Any]) -> None:
    wish = {"rounds": 4, "local_steps": 2, **ASKED.get(method, {})}
    made, expected = check_same(federation, method, alone, **wish)
    kept = {client: tree for site in made.sites for client, tree in kept_at(site).items()}
    assert sorted(kept) == sorted(expected.client_states) == list(range(7))
    assert all(same(kept[client], expected.client_states[client]) for client in kept)


def test_some_patients_a_round(federation: Callable[..., Any], alone: Callable[..., Any]) -> None:
    """Rounds in which sites have one patient, several, or none."""
    made, expected = check_same(federation, "scaffold", alone, rounds=6, local_steps=1, clients_per_round=2, seed=3)
    asked = [(kind, node) for kind, node, _ in made.grid.sent if kind == "train"]
    assert len(asked) < 6 * 3
    kept = {client: tree for site in made.sites for client, tree in kept_at(site).items()}
    assert all(same(kept[client], expected.client_states[client]) for client in expected.client_states)


def test_epochs_and_another_seed(federation: Callable[..., Any], alone: Callable[..., Any]) -> None:
    check_same(federation, "fedavg", alone, rounds=2, local_epochs=1, batch_size=32, seed=5, rr=False)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(set(methods()) - {*PROMISED, "centralised"}))
def test_every_method_completes_with_the_same_numbers(
    method: str, federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    check_same(federation, method, alone, **{"rounds": 4, "local_steps": 2, **ASKED.get(method, {})})


def test_capped_epochs_of_varied_beats(federation: Callable[..., Any], alone: Callable[..., Any]) -> None:
    check_same(federation, "fedavg", alone, rounds=3, local_steps=2, most_per_class=5, augment=True)


def test_numbers_are_the_site_s_own_choice(
    parts: list[Path], cohort_of: Callable[[int], Cohort], tmp_path: Path
) -> None:
    """Shuffled numbers move every patient's beats along, and say no id."""
    from ecgfed.core.federation.data import training_data
    from ecgfed.network.site_folder import make_site, open_site

    cohort = cohort_of(2)
    plain = training_data(cohort, rr=True)
    orders = set()
    for place in range(12):
        site = make_site(tmp_path / str(place), parts[2])
        orders.add(site.order)
        assert open_site(site.path) == site
        data = site.training_data(cohort, rr=True, leave_out="nothing", first=10)
        for number in data.clients.tolist():
            index = site.index_of(number, 10)
            assert (data.rows[number] == plain.rows[index]).all()
            assert not any(client.id in data.ids[number] for client in cohort.clients)
    assert len(orders) > 1


def test_a_run_s_folder_at_the_server_is_a_run(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    run = made.serve()
    again = open_run(run.path)
    assert again.identity == run.identity
    assert (run.path / FILE_NAME).is_file()
    assert again.meta["clients"] == [str(number) for number in range(7)]


def test_what_is_asked_stands_in_the_folder(tmp_path: Path) -> None:
    from ecgfed.network.server_folder import make_server, read_config

    asked = FederationConfig(3, "fedavg", rounds=4, settings={"lr": "0.01"})
    make_server(tmp_path / "server", asked)
    assert read_config(tmp_path / "server") == asked
