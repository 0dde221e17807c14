"""What a site claims of itself: bounded, held to its first word, and its own fault where it changes."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

from faults import PATIENTS, compare, faulty, history
from flwr.app import RecordDict
from test_resume import KilledError, killed_after
from test_same_numbers import same

from ecgfed.base.errors import OptionError
from ecgfed.core.federation.data import local_rows, training_data
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.network.errors import NetworkError
from ecgfed.network.policy import Policy, write_policy
from ecgfed.network.roster import Roster, SiteEntry
from ecgfed.network.tensor_schema import expected_beats

pytestmark = pytest.mark.usefixtures("at_once")


def claiming(made: Any, kind: str, change: Callable[[Any], None], node: int = 12, number: int = 0) -> None:
    """Have a site say something else of itself, in every message of a kind or in one round's."""

    def spoil(of: str, at: int, content: RecordDict) -> RecordDict:
        say: Any = content.get("say", {})
        if (of, at) == (kind, node) and (not number or say["round"] == number):
            change(say)
        return content

    made.grid.spoil = spoil


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"train_examples": [1 << 40, 5]}, "claims 1,099,511,627,776 training beats of a patient; expected at most"),
        ({"train_examples": [1_000_001, 5]}, "expected at most 1,000,000, max_beats"),
        ({"patients": 10_001}, "claims 10,001 patients; expected at most 10,000, max_patients"),
    ],
)
def test_a_first_claim_is_bounded(told: dict[str, Any], found: str, federation: Callable[..., Any]) -> None:
    """The site is named, nothing is written, and the server begins once it says what can be."""
    made = federation("fedavg", rounds=1, local_steps=1)
    claiming(made, "query.hello", lambda say: say.update(told))
    with pytest.raises(NetworkError, match=r"^site 2: ") as caught:
        made.serve()
    assert found in caught.value.line
    assert not (made.server / "roster.json").exists()
    made.grid.spoil = lambda kind, node, content: content
    assert made.serve().store.rounds() == 1


def test_a_bound_is_the_operator_s(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    write_policy(made.server, Policy(max_beats=5))
    with pytest.raises(NetworkError) as caught:
        made.serve()
    assert "expected at most 5, max_beats; raise the limit if the count is correct" in caught.value.line
    write_policy(made.server, Policy(max_beats=500))
    made.serve()


def test_who_outweighs_all_others_is_said(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    claiming(made, "query.hello", lambda say: say.update(train_examples=[900_000, 900_000]))
    made.serve()
    assert any("2: 2 with 1,800,000 examples, 100%" in line for line in made.said)
    warning = "site 2 reports more beats than all other sites together (100.0%)"
    assert any(line.startswith(warning) for line in made.said)
    honest = federation("fedavg", name="honest", rounds=1, local_steps=1)
    honest.serve()
    assert not any("more beats than" in line for line in honest.said)


def test_shares() -> None:
    sites = tuple(SiteEntry(node, str(node), 1, (0,), (beats,)) for node, beats in enumerate((30, 50, 120)))
    roster = Roster(sites, "ecg", ("N",), 2)
    assert roster.shares() == [0.15, 0.25, 0.6]
    assert roster.describe() == "0: 1 with 30 examples, 15%, 1: 1 with 50 examples, 25%, 2: 1 with 120 examples, 60%"
    assert len(roster.warnings()) == 1
    assert not Roster(sites[1:], "ecg", ("N",), 2).warnings()  # of two, one always has more


@pytest.mark.parametrize("examples", [[1 << 40, 16], [17, 16], [15, 16], [1, 1]])
def test_beats_of_a_round_are_the_plan_s(
    examples: list[int], federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """Whoever claims others is left out of that round, and the others go on."""
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("scaffold", **wish)
    faulty(made, {})
    claiming(made, "train", lambda say: say.update(examples=examples), number=2)
    run = made.serve()
    compare(made, run, without("scaffold", {2: PATIENTS[12]}, **wish))
    why = history(run)[1]["left_out"]["2"]
    assert f"claims {next(one for one in examples if one != 16):,} beats for patient number" in why
    assert "expected 16, from the plan and its registration" in why


@pytest.mark.parametrize(
    "told", [{"train_examples": [60, 61]}, {"patients": 3}, {"clients": [0], "train_examples": [50]}, {"rr_version": 1}]
)
def test_a_claim_that_changes_is_that_site_s_fault(
    told: dict[str, Any], federation: Callable[..., Any], without: Callable[..., Any]
) -> None:
    """With a policy it is left out of the session; without one the session ends with its name."""
    wish: dict[str, Any] = {"rounds": 3, "local_steps": 1}
    made = federation("scaffold", **wish)
    killed_after(made.grid, 2, 0)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages
    claiming(made, "query.hello", lambda say: say.update(told))
    with pytest.raises(
        NetworkError, match=r"^site 2: .*was started with other sites, or with other patients or counts of site"
    ):
        made.serve()
    faulty(made, {}, min_sites=2)
    run = made.serve()
    one = without("scaffold", {2: PATIENTS[12], 3: PATIENTS[12]}, **wish)
    assert same(run.state().server, one.state().server)  # its own last round is pending there until it is asked again
    assert history(run)[1]["left_out"] == {"2": "sent an invalid registration"}
    assert any(line.startswith("site 2 sent an invalid reply") for line in made.said)
    assert json.loads((made.server / "result.json").read_text())["missing"] == ["2"]
    assert not [kind for kind, node, _ in made.grid.sent[-12:] if node == 12 and kind != "query.hello"]
    faulty(made, {}, min_sites=3)
    with pytest.raises(NetworkError, match=r"^site 2: "):
        made.serve()


@pytest.mark.parametrize("per_step", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 16, 1000])
@pytest.mark.parametrize("local", [{"local_epochs": 1}, {"local_epochs": 3}, {"local_epochs": None, "local_steps": 4}])
def test_the_server_counts_as_a_site_does(
    per_step: int, batch_size: int, local: dict[str, Any], cohort_of: Callable[[int], Cohort]
) -> None:
    data, plan = training_data(cohort_of(2), rr=False), TrainPlan(**local, batch_size=batch_size)
    for client in data.clients.tolist():
        seen = 0
        for _ in range(5):
            rows = [rows for group in local_rows(data, plan, client, seen, per_step) for rows in group]
            used = int(np.concatenate(rows).size)
            assert expected_beats(plan, len(data.rows[client]), seen, per_step) == used
            seen += used


@pytest.mark.parametrize("option", ["max_beats", "max_patients"])
@pytest.mark.parametrize("value", [0, -1, 1 << 50, True, 2.5])
def test_bounds_that_cannot_be(option: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        Policy(**{option: value})
    assert (caught.value.parameter, caught.value.code) == (option, "invalid-value")
