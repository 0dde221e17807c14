"""The end of a run: what each site gets answers as the whole run does, is scored and exported there."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from needs import flower

flower()

import torch
from faults import POOLED
from test_resume import KilledError, killed_after
from test_same_numbers import ASKED, same

import ecgfed
from ecgfed.core.federation.train import initial_state
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.registry import methods
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.network import leaves
from ecgfed.network.roster import read_roster
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.server_run import run_spec_for
from ecgfed.network.site_folder import open_site
from ecgfed.network.site_results import write_result
from ecgfed.network.site_run import SiteRun


def result_at(made: Any, run: Any, place: int, last: int | None = None) -> Any:
    """Make a site's run as the end of a run does, without scores and a bundle."""
    roster = read_roster(made.server)
    assert roster is not None
    site = open_site(made.sites[place])
    order = RunSpec.from_text(run_spec_for(run, roster, place).as_text())
    part = SiteRun(site, order)
    if last is not None:
        part.settle(last)
    begun = flatten(initial_state(part.method, part.plan).server)
    server = {**begun, **leaves.final_leaves(run.method, run.state().server)}
    return open_run(write_result(site, part, server, site.path / "result"))


def same_chain(one: Any, other: Any) -> bool:
    """Whether two chains have the same parts with the same parameters."""
    if [part.role for part in one.stages] != [part.role for part in other.stages]:
        return False
    pairs = [(a.params, b.params) for a, b in zip(one.stages, other.stages, strict=True)]
    return all(a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(set(methods()) - set(POOLED)))
def test_answers_at_a_site_are_the_run_s(
    method: str, federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    """Every patient's own answer, and the global one where there is one, parameter by parameter."""
    wish = {"rounds": 3, "local_steps": 1, **ASKED.get(method, {})}
    made = federation(method, **wish)
    run, one = made.serve(), alone(method, **wish)
    state = one.state()
    for place, first in enumerate((0, 2, 4)):
        result = result_at(made, run, place)
        there = result.state()
        for index in there.client_states:
            mine = result.method.personal_model(there.server, there.client_states[index])
            assert same_chain(mine, one.method.personal_model(state.server, state.client_states[first + index]))
        if run.method.has_global_model:
            assert same_chain(
                result.method.global_model(there.server, (), "ensemble"),
                one.method.global_model(state.server, (), "ensemble"),
            )


def test_scores_and_bundle_at_each_site(
    federation: Callable[..., Any], alone: Callable[..., Any], cohort_of: Callable[[int], Cohort]
) -> None:
    """With a global and personal models: a site's scores are those of the whole run's models on its beats."""
    wish: dict[str, Any] = {"rounds": 2, "local_steps": 2, "settings": {"personal_start": 0.0}}
    made = federation("grp-fed", end=True, **wish)
    made.serve()
    one = alone("grp-fed", **wish)
    expected = {row["client"]: row["personal_f1"] for row in ecgfed.evaluate(one).results[0]["per_patient"]}
    for place, site in enumerate(made.sites):
        result = open_run(site / "result")
        scores = ecgfed.evaluate(result, local_models=False)
        own = [row["client"] for row in scores.results[0]["per_patient"]]
        assert own == [client.id for client in cohort_of(place).clients]
        assert scores.T_p == pytest.approx(sum(expected[name] for name in own) / len(own))
        (told,) = [
            content.metric_records["reports"]
            for kind, node, content in made.grid.came
            if kind == "evaluate" and node == 11 + place
        ]
        assert dict(told) == {"patients": len(own), "T_g": scores.T_g, "T_p": scores.T_p}
        bundle = ecgfed.open_bundle(site / "bundle")
        assert set(bundle.patients) == set(own)


def test_scores_on_the_way(federation: Callable[..., Any], alone: Callable[..., Any]) -> None:
    """Every second round, on validation beats; the run's numbers are the same, and nothing is left at the sites."""
    wish: dict[str, Any] = {"rounds": 4, "local_steps": 2, "settings": {"personal_start": 0.0}}
    made = federation("grp-fed", eval_every=2, **wish)
    run = made.serve()
    (line,) = (json.loads(text) for text in (made.server / "scores.jsonl").read_text().splitlines())
    assert (line["round"], line["split"]) == (2, "valid")
    one = alone("grp-fed", **wish)
    assert same(run.state().server, one.state().server)
    assert (run.path / "history.jsonl").read_bytes() == (one.path / "history.jsonl").read_bytes()
    assert not any((site / "scored").exists() or (site / "result").exists() for site in made.sites)
    half = federation("grp-fed", name="half", **wish)
    killed_after(half.grid, 3, 0)
    with pytest.raises(KilledError):
        half.serve()
    for place, told in enumerate(line["sites"]):
        result = result_at(half, open_run(half.server / "run"), place, last=2)
        scores = ecgfed.evaluate(result, split="valid", local_models=False)
        assert (told["T_g"], told["T_p"]) == (scores.T_g, scores.T_p)


def test_a_delivery_that_is_not_of_the_run(federation: Callable[..., Any]) -> None:
    from ecgfed.network.errors import SiteError
    from ecgfed.network.site_results import end_run

    made = federation("fedavg", rounds=1, local_steps=1)
    run = made.serve()
    roster = read_roster(made.server)
    assert roster is not None
    site = open_site(made.sites[0])
    part = SiteRun(site, run_spec_for(run, roster, 0))
    for spoilt in ({"model/other": torch.zeros(2)}, {"model/head.out.bias": torch.zeros(2)}):
        with pytest.raises(SiteError, match="does not fit the run's method and net"):
            end_run(site, part, spoilt)
    assert not (site.path / "result").exists()


@pytest.mark.parametrize(
    "other",
    [
        lambda order: replace(order, first=order.first + 1),
        lambda order: replace(order, plan={**order.plan, "seed": 9}),
        lambda order: replace(order, settings={**order.settings, "lr": 0.5}),
    ],
)
def test_a_run_stays_what_it_was_begun_as(federation: Callable[..., Any], other: Callable[[RunSpec], RunSpec]) -> None:
    """With other numbers at the end, what one patient keeps would be exported as another patient's model."""
    from ecgfed.network.errors import SiteError

    made = federation("grp-fed", rounds=1, local_steps=1)
    run = made.serve()
    roster = read_roster(made.server)
    assert roster is not None
    site, order = open_site(made.sites[1]), run_spec_for(run, roster, 1)
    SiteRun(site, order)
    with pytest.raises(SiteError, match="differs from the one that started this run") as caught:
        SiteRun(site, other(order))
    assert caught.value.code == "request"
