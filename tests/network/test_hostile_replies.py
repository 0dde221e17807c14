"""A site with its key that sends something else in every round: ``hostile_replies`` lists what, each over the network.

The other two sites go on, the run ends where one machine does without that site's patients in those rounds, bit for
bit, and neither memory nor logs grow by what is sent. Claims at registration are in ``test_claims``, updates that
arithmetic alone tells from honest ones in ``test_one_site``, requests without a reply in ``test_authors``.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from needs import flower

flower()

from attack import attacked, log_bytes, own_memory_mib
from faults import compare, history
from flwr.app import Message
from hostile_replies import LISTS, OTHERS, Unfinished, spoilt
from puppets import Puppet, Wire, playing

from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.runs.run import open_run
from ecgfed.network import client_app
from ecgfed.network.config import FederationConfig
from ecgfed.network.limits import SiteOptions
from ecgfed.network.policy import Policy
from ecgfed.network.site_folder import make_site
from ecgfed.network.site_results import EndScores

MIB = 1 << 20
#: The site is asked again, and answers in time or is left out of the round.
EITHER = {kind for kind, (change, _) in LISTS["uploads"].items() if isinstance(change, Unfinished)}
MEMBERS = {"a": (0, 1), "b": (2, 3), "c": (4, 5, 6)}


def noted(puppet: Puppet, question: Message, sent: Wire) -> bool:
    OTHERS.update(node=puppet.node, question=question.metadata.message_id)
    return True


def test_there_are_twenty_kinds() -> None:
    assert sum(map(len, LISTS.values())) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_a_hostile_site_changes_nothing_for_the_others(
    name: str, parts: list[Path], without: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_app, "end_run", lambda *_: EndScores(1, 0.5, 0.5))
    expected = LISTS[name]
    wish: dict[str, Any] = {"rounds": len(expected), "local_steps": 1, "width": 0.2, "settings": PLAIN_MEAN}
    sites = {}
    for member, cohort in zip(MEMBERS, parts, strict=True):
        sites[member] = make_site(tmp_path / "sites" / member, cohort, SiteOptions(numbers="cohort")).path
    config = FederationConfig(3, "fedavg", **wish)
    with attacked(tmp_path / "made", names=list(MEMBERS), config=config, policy=Policy(2, 60.0), proxy="none") as made:
        puppets = {member: Puppet(made, member, folder) for member, folder in sites.items()}
        puppets["a"].wire, (puppets["b"].content, puppets["b"].wire) = noted, spoilt(list(expected))
        peak, logs = 0.0, log_bytes(made)
        with playing(puppets):
            end = time.monotonic() + 3600
            while not made.outcome and time.monotonic() < end:
                peak = max([peak, *own_memory_mib(made).values()])
                time.sleep(3)
    assert "problem" not in made.outcome, made.outcome
    assert "result" in made.outcome
    run = open_run(made.folder / "run")
    left_out = [line.get("left_out", {}) for line in history(run)]
    wrong = {
        kind: found
        for kind, found in zip(expected, left_out, strict=True)
        if (set(found) != ({"b"} if expected[kind][1] else set()) or expected[kind][1] not in found.get("b", ""))
        and not (kind in EITHER and set(found) == {"b"} and "did not reply" in found["b"])
    }
    assert not wrong
    missing = {number: MEMBERS["b"] for number, found in enumerate(left_out, 1) if found}
    compare(SimpleNamespace(sites=list(sites.values())), run, without("fedavg", missing, **wish))
    print(f"largest process of the server {peak:.0f} MiB, logs {(log_bytes(made) - logs) / MIB:.2f} MiB")
    assert peak < 400
    assert log_bytes(made) - logs < MIB
    assert (made.folder / "flower" / "superlink.db").stat().st_size < 64 * MIB
