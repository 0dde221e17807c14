"""What a site takes for the trained model: complete, finite and scored; after anything else, a correct one."""

from collections.abc import Callable
from typing import Any

import pytest
from needs import flower

flower()

import torch
from flwr.app import RecordDict
from test_results_stay import files_of

from ecgfed.core.runs.run import open_run
from ecgfed.network import client_app, messages
from ecgfed.network.leaves import final_leaves
from ecgfed.network.roster import read_roster
from ecgfed.network.server_run import run_spec_for
from ecgfed.network.status import status_of

pytestmark = pytest.mark.usefixtures("at_once")


@pytest.fixture
def delivering(federation: Callable[..., Any]) -> Callable[..., Any]:
    """A federation whose end may be spoilt: returns it, a function that delivers leaves to its first site, and them."""

    def make(**wish: Any) -> tuple[Any, Callable[..., RecordDict], dict[str, torch.Tensor]]:
        made = federation("fedavg", rounds=1, local_steps=1, **wish)
        run = made.serve()
        roster = read_roster(made.server)
        assert roster is not None
        order = run_spec_for(run, roster, 0)

        def deliver(leaves: dict[str, torch.Tensor], split: str = "test") -> RecordDict:
            return client_app.handle(made.sites[0], messages.end_request(order, 1, leaves, split), client_app._finish)

        return made, deliver, final_leaves(run.method, run.state().server)

    return make


Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
SPOILT: dict[str, tuple[Change, str]] = {
    "nothing": (lambda leaves: {}, "lacks model/extractor.stem.weight and"),
    "a leaf missing": (
        lambda leaves: {path: leaf for path, leaf in leaves.items() if path != "model/head.out.bias"},
        "lacks model/head.out.bias; expected every leaf",
    ),
    "a leaf too many": (lambda leaves: {**leaves, "model/more": torch.zeros(2)}, "does not fit the run's method"),
    "NaN": (
        lambda leaves: {**leaves, "model/head.out.bias": torch.full((12,), torch.nan)},
        "leaf model/head.out.bias from the server: is not finite",
    ),
    "infinite": (lambda leaves: {**leaves, "model/head.out.bias": torch.full((12,), torch.inf)}, "is not finite"),
    "too large": (
        lambda leaves: {**leaves, "model/head.out.bias": torch.full((12,), 2e9)},
        "values that are too large",
    ),
}


@pytest.mark.parametrize("split", ["test", "valid"])
def test_what_is_no_model_is_refused(
    split: str, delivering: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, deliver, leaves = delivering()
    monkeypatch.undo()
    before = files_of(made.sites[0])
    for change, why in SPOILT.values():
        assert messages.refusal_reason(deliver(change(leaves), split)) is not None
        assert why in (made.sites[0] / "log.txt").read_text().splitlines()[-1]
    after = files_of(made.sites[0])
    assert {name for name in after.keys() - before.keys() if not name.endswith((".lock", "log.txt"))} == set()


def test_a_model_that_cannot_be_scored_is_no_result_and_a_correct_one_is(
    delivering: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finite weights whose answers are not: the site has nothing of it, and takes what comes next."""
    made, deliver, leaves = delivering(norm="none")
    monkeypatch.undo()
    site = made.sites[0]
    bad = {path: leaf * 1e8 for path, leaf in leaves.items()}
    assert messages.refusal_reason(deliver(bad)) is not None
    assert "not finite" in (site / "log.txt").read_text()
    assert not list(site.glob("result*")) + list(site.glob("bundle*")) + list(site.glob("delivering*"))
    scores = deliver(leaves).metric_records["reports"]
    assert scores["patients"] == 2
    assert torch.equal(
        open_run(site / "result").state().server["model"]["head.out.bias"], leaves["model/head.out.bias"]
    )
    assert (site / "bundle" / "manifest.json").is_file()
    assert list(status_of(site).values["results"]) == ["result"]
    assert not any("delivering" in file.read_text(errors="replace") for file in (site / "result").rglob("*.json"))
    assert not any("delivering" in file.read_text(errors="replace") for file in (site / "bundle").rglob("*.json"))
