"""What a hostile server learns of a patient, bit by bit: no more than the privacy budget charges for."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import adversary
import torch
from adversary import ask, check, labels_model, order_of, right, scaled_model
from flwr.app import RecordDict

from ecgfed.core.federation.client_round import ClientResult, ClientWork, run_client
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.trees import flatten
from ecgfed.core.federation.updates import noised_results
from ecgfed.core.methods.base import ClientInfo
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.network import client_app, leaves, messages, private_answers, tensor_schema
from ecgfed.network.budget import epsilon_spent, max_loss, noised_scalars
from ecgfed.network.leaves import final_leaves
from ecgfed.network.limits import SiteOptions
from ecgfed.network.private_answers import UniformRunner, end_of_class, noised_scores
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_folder import make_site, open_site
from ecgfed.network.site_results import EndScores, score_run
from ecgfed.network.site_run import SiteRun
from ecgfed.network.tensor_schema import expected_beats, round_schema
from ecgfed.testing.federation import CLASSES
from ecgfed.testing.trial import mixed_federation

pytestmark = pytest.mark.usefixtures("at_once", "unheld")
Z = 1000.0
PATIENTS = (4, 5, 6)


@pytest.fixture
def victim(
    federation: Callable[..., Any], parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Path, RunSpec]]:
    """Make a site with a budget of 8, and a run that it takes part in."""

    def make(**wish: Any) -> tuple[Path, RunSpec]:
        wish = {"rounds": 1, "local_epochs": 1, "dp_clip": 0.05, "dp_noise": Z, "dp_at": "patient", **wish}
        made = federation("fedavg", **wish)
        for site, cohort in zip(made.sites, parts, strict=True):
            make_site(site, cohort, SiteOptions(max_epsilon=8.0, max_questions=1000))
        with monkeypatch.context() as patch:  # scoring has tests of its own
            patch.setattr(client_app, "private_scores", lambda *_: (EndScores(1, None, None), ""))
            made.serve()
        return made.sites[2], order_of(made.grid.sent, 13)

    return make


def failing(site: Path, order: RunSpec, client: int, model: Any) -> bool:
    """Whether a patient's training fails with these weights."""
    part = SiteRun(open_site(site), order)
    beats = part.data.epoch_length(client)
    info = ClientInfo(client, 1, beats, part.data.class_counts(client), part.plan.steps_for(beats), 0.0)
    try:
        run_client(part.method, part.data, part.plan, ClientWork(info, {"model": model}, {}, 0), explain=False)
    except Exception:
        return True
    return False


def questions(site: Path, order: RunSpec, kind: str) -> list[tuple[int, Any, bool]]:
    """Return patient, weights and the bit that they ask for: a class, or how large the activations of a beat are."""
    part = SiteRun(open_site(site), order)
    if kind == "labels":
        counts = {client: part.data.class_counts(client) for client in PATIENTS}
        models = [labels_model(part.initial, label) for label in range(len(order.classes))]
        return [(c, model, bool(counts[c][label])) for label, model in enumerate(models) for c in PATIENTS]
    least = {}
    for client in PATIENTS:
        low, high = 1.0, 1e9
        for _ in range(12):
            middle = math.sqrt(low * high)
            low, high = (
                (low, middle) if failing(site, order, client, scaled_model(part.initial, middle)) else (middle, high)
            )
        least[client] = high
    scales = np.geomspace(min(least.values()) * 0.98, max(least.values()) * 1.02, 12)
    models = [scaled_model(part.initial, float(scale)) for scale in scales]
    return [(c, model, failing(site, order, c, model)) for model in models for c in PATIENTS]


@pytest.mark.parametrize("kind", ["labels", "signals"])
@pytest.mark.parametrize("answers", ["as they are", "that fail"])
def test_a_failed_training_tells_nothing(
    kind: str, answers: str, victim: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that overflow on some beats only; the second case is that of before, which the suite has to catch."""
    monkeypatch.setattr(leaves, "MAX_ABS", math.inf)  # what is beyond it is refused, whatever the beats are
    of_signals: dict[str, Any] = {"norm": "none", "local_epochs": None, "local_steps": 1}
    site, order = victim(**(of_signals if kind == "signals" else {"settings": {"lr": 1e-36}}))
    if kind == "signals":
        monkeypatch.setattr(leaves, "MAX_ABS", tensor_schema.MAX_ABS)
    if answers == "that fail":
        monkeypatch.setattr(SiteRun, "_runner", lambda *_: run_client)
    asked = questions(site, order, kind)
    truth = [bit for _, _, bit in asked]
    assert 0.1 < np.mean(truth) < 0.9
    before = epsilon_spent(site)
    seen = [ask(site, order, client, model) for client, model, _ in asked]
    epsilon = epsilon_spent(site) - before
    found = right(seen, truth, math.inf)
    if answers == "that fail":
        with pytest.raises(AssertionError, match=f"kind: {len(truth)} of {len(truth)} bits right"):
            check(found, len(asked), Z, 2, epsilon)
        return
    check(found, len(asked), Z, 2, epsilon)
    assert not any(one.refused for one in seen)
    assert len({one.bytes for one in seen}) == 1
    failures = [line for line in (site / "log.txt").read_text().splitlines() if "training failed" in line]
    assert len(failures) >= sum(truth)  # the site's own people are told


def worst_case(z: float) -> tuple[Any, TrainPlan, ClientWork, ClientResult, ClientResult]:
    """Two answers as far apart as a patient can make them: a clipped update and no loss; nothing, and the most."""
    kind = methods()["fedavg"]
    method = kind(ResNet1d(NetSpec(CLASSES, width=0.35)), make_settings(kind.settings_type, {}))
    model = method.net.initial(0)
    moved = {
        path: leaf + torch.randn(leaf.shape, generator=torch.Generator().manual_seed(1)) for path, leaf in model.items()
    }
    info = ClientInfo(0, 1, 8, torch.zeros(CLASSES), 1, 0.0)
    one = ClientResult({"model": moved}, {}, {"loss": 0.0}, 8)
    other = ClientResult({"model": model}, {}, {"loss": max_loss(CLASSES)}, 8)
    plan = TrainPlan(rounds=1, dp_clip=1.0, dp_noise=z, dp_at="patient")
    return method, plan, ClientWork(info, {"model": model}, {}, 0), one, other


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_numbers_tell_what_is_charged_and_no_more(share: float) -> None:
    """The best reader of a Gaussian mechanism, on the two worst neighbours; with too little noise it is caught."""
    z, trials = 1.5, 400
    method, plan, work, one, other = worst_case(z)
    plan = replace(plan, dp_noise=z * share)
    direction = {
        p: flatten(one.returned)[p].double() - flatten(other.returned)[p].double() for p in flatten(one.returned)
    }
    length = math.sqrt(sum(float(value.square().sum()) for value in direction.values()))
    bound, guesses = max_loss(CLASSES), 0
    for trial in range(trials):
        bit, secret = trial % 2 == 0, trial.to_bytes(4, "big") + b"secret"
        (sent,) = noised_results(method, plan, [work], [one if bit else other], secret)
        (sent,) = noised_scalars(method, plan, [sent], 1, secret)
        leaf = flatten(sent.returned)
        along = (
            sum(float(((leaf[p] - work.shared["model"][p[6:]]).double() * direction[p]).sum()) for p in leaf) / length
        )
        # log-likelihood ratio of the two, both in units of the noise
        ratio = (along - 0.5) - (sent.losses["loss"] / bound - 0.5)
        guesses += (ratio > 0) == bit
    most = adversary.most_right(trials, adversary.mu_of(z, 2))
    assert (guesses <= most) == (share == 1.0), (guesses, most)
    assert guesses > trials * 0.6  # the reader is a good one


def test_scores_tell_what_is_charged_and_no_more() -> None:
    """Of a patient who moves both scores over their whole range."""
    z, trials, guesses = 1.5, 4000, 0
    for trial in range(trials):
        bit = trial % 2 == 0
        t_g, t_p = noised_scores(float(bit), float(bit), z, trial.to_bytes(4, "big") + b"secret")
        assert 0 <= t_g <= 1
        assert 0 <= t_p <= 1
        guesses += ((t_g + t_p > 1) if t_g + t_p != 1 else trial % 4 < 2) == bit
    assert trials * 0.52 < guesses <= adversary.most_right(trials, adversary.mu_of(z, 1))


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 7.0])
def test_a_score_that_is_none_is_one_of_the_range(score: float) -> None:
    end = 1.0 if score > 1 else 0.0
    assert noised_scores(score, 0.5, 0.01, b"s") == noised_scores(end, 0.5, 0.01, b"s")


def test_validation_scores_are_noised_and_charged(victim: Callable[..., Any]) -> None:
    """Exact scores of chosen weights would give every class's count; what leaves is no more than charged."""
    site, order = victim(dp_noise=4.0)
    part = SiteRun(open_site(site), order)
    model = final_leaves(part.method, {"model": part.initial})
    said, exact = [], []
    for label in (0, 1):
        chosen = {path: leaf.clone() for path, leaf in model.items()}
        chosen["model/head.out.bias"][label] = 1e6
        before = epsilon_spent(site)
        reply = client_app.handle(site, messages.end_request(order, 0, chosen, "valid"), client_app._finish)
        said.append(dict(reply.metric_records["reports"]))
        assert epsilon_spent(site) > before
        exact.append(score_run(open_site(site), part, chosen).as_json())
    assert all(set(one) == {"patients", "T_g", "T_p"} for one in said)
    inside = [i for i, scores in enumerate(exact) if 0 < scores["T_g"] < 1]  # an exact 0 may be cut to 0 again
    assert inside
    assert all(said[i]["T_g"] != exact[i]["T_g"] for i in inside)
    make_site(site, open_site(site).cohort_path, SiteOptions(max_epsilon=epsilon_spent(site) * 1.0001))
    spent = epsilon_spent(site)
    reply = client_app.handle(site, messages.end_request(order, 0, model, "valid"), client_app._finish)
    assert dict(reply.metric_records["reports"]) == {"patients": 3}  # no room for more
    assert epsilon_spent(site) == spent


def test_the_end_of_a_run_tells_nothing(victim: Callable[..., Any]) -> None:
    """A model that cannot be scored on this site's beats, and the other end that only then would be accepted."""
    site, order = victim(norm="none")
    part = SiteRun(open_site(site), order)
    good = {path: leaf.clone() for path, leaf in final_leaves(part.method, {"model": part.initial}).items()}
    bad = {path: leaf * 1e8 for path, leaf in good.items()}
    replies = []
    for run, first in (("cd" * 32, bad), ("ef" * 32, good)):
        for model in (first, good):
            request = messages.end_request(replace(order, run=run), 0, model)
            reply: RecordDict = client_app.handle(site, request, client_app._finish)
            replies.append(dict(reply.metric_records["reports"]))
    assert replies == [{"patients": 3}] * 4
    assert "could not be scored" in (site / "log.txt").read_text()


def test_noise_is_not_drawn_twice_for_different_updates(victim: Callable[..., Any]) -> None:
    """A server that sends a site back asks the same of what patients keep by then: the noise would cancel out."""
    site, order = victim()
    part, request = SiteRun(open_site(site), order), b"digest"
    kept = {"variate": torch.zeros(3)}
    usual = part.secret(State(1, {}, {4: kept}, {4: 16}), [4], request)
    assert usual == part.secret(State(2, {}, {4: dict(kept), 5: {}}, {4: 16, 5: 1}), [4], request)
    others = [
        part.secret(State(1, {}, {4: {"variate": torch.ones(3)}}, {4: 16}), [4], request),
        part.secret(State(1, {}, {4: kept}, {4: 32}), [4], request),
        part.secret(State(1, {}, {}, {4: 16}), [4], request),
        part.secret(State(1, {}, {4: kept}, {4: 16}), [4], b"other"),
    ]
    assert len({usual, *others}) == 5


def test_counts_by_class_are_not_told(victim: Callable[..., Any]) -> None:
    """How many examples an epoch has, of at most N of each class, is how many classes a patient has."""
    site, order = victim()
    for most in (1, 2, 50):
        asked = messages.registration_request(rr=True, leave_out="nothing", weak=False, most=most)
        assert dict(client_app.handle(site, asked, client_app._register)["say"]) == {"refused": "privacy"}
    part = SiteRun(open_site(site), order)
    seen = ask(site, replace(order, run="12" * 32, plan={**order.plan, "most_per_class": 1}), 4, part.initial)
    assert seen.refused == "privacy"


def test_weights_that_no_model_has_are_refused_whatever_the_beats(victim: Callable[..., Any]) -> None:
    site, order = victim()
    part = SiteRun(open_site(site), order)
    for client in PATIENTS:
        for value in (math.nan, math.inf, 2e9):
            model = {**part.initial, "head.out.bias": torch.full((12,), value)}
            assert ask(site, order, client, model).refused == "model"


@pytest.mark.parametrize("method", sorted(name for name, kind in methods().items() if not kind.requirements.pooled))
def test_a_training_that_fails_takes_as_many_steps(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it takes as long; and what comes back has the form of any answer, with nothing learned."""
    kind = methods()[method]
    norm = "group" if method == "fedbn" else "none"
    built = kind(ResNet1d(NetSpec(CLASSES, width=0.35, norm=norm, rr=True)), make_settings(kind.settings_type, {}))
    data, local = (
        mixed_federation(rr=True),
        {"local_epochs": None, "local_steps": 1 if built.requirements.single_step else 3},
    )
    plan = TrainPlan(rounds=4, batch_size=8, dp_clip=1.0, dp_noise=1.0, dp_at="patient", **local)  # type: ignore[arg-type]
    initial, client, steps = built.net.initial(0), 1, 0
    info = ClientInfo(client, 2, data.epoch_length(client), data.class_counts(client), plan.steps_for(8), 0.25)
    work = ClientWork(info, built.server_message(built.server_start(initial), client), built.client_start(initial), 0)
    runner = UniformRunner(round_schema(built, plan, work))
    step = built.step

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return step(*arguments)

    monkeypatch.setattr(built, "step", counted)
    usual = runner(built, data, plan, work)
    taken, steps = steps, 0
    assert not runner.failures

    def huge(tree: Any) -> Any:
        leaf = lambda value: value * 1e9 if value.is_floating_point() else value  # noqa: E731
        return {name: huge(part) if isinstance(part, dict) else leaf(part) for name, part in tree.items()}

    hostile = replace(work, shared=huge(work.shared), client_state=huge(work.client_state))
    failed = runner(built, data, plan, hostile)
    assert steps == taken
    form = [{p: (leaf.dtype, leaf.shape) for p, leaf in flatten(one.returned).items()} for one in (usual, failed)]
    assert form[0] == form[1]
    assert (failed.examples, failed.losses.keys()) == (usual.examples, usual.losses.keys())
    assert usual.examples == expected_beats(plan, info.train_examples, 0, built.requirements.batches_per_step)
    if runner.failures:
        assert set(failed.losses.values()) == {max_loss(CLASSES)}
    for result in (failed, usual):
        assert all(bool(torch.isfinite(leaf).all()) for leaf in flatten(result.returned).values())


def test_answers_leave_at_the_end_of_a_time_class(victim: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs on as it is looked at, faster for some trainings: the answer leaves at the same time."""
    site, order = victim()
    part = SiteRun(open_site(site), order)
    left = []
    for elapsed in (0.2, 0.9, 1.2, 1.9, 2.1):
        now = [0.0]

        def clock(now: list[float] = now, elapsed: float = elapsed) -> float:
            now[0] += elapsed
            return now[0]

        slept: list[float] = []
        monkeypatch.setattr(private_answers, "monotonic", clock)
        monkeypatch.setattr(private_answers, "sleep", slept.append)
        ask(site, order, 4, part.initial)
        left.append(elapsed + slept[0])
    assert left == pytest.approx([1, 1, 2, 2, 4])
    slept = []
    monkeypatch.setattr(private_answers, "sleep", slept.append)
    assert ask(site, order, 99, part.initial).refused == "request"  # a refusal, too
    assert len(slept) == 1


def test_time_classes() -> None:
    assert [end_of_class(elapsed, 16.0) for elapsed in (0.0, 1.0, 16.0, 16.1, 100.0)] == [16, 16, 16, 32, 128]
