"""Robust aggregation and differential privacy over messages: where the noise is added, and from whose secret."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import torch
from flwr.supercore.differential_privacy import compute_clip_model_update

from ecgfed.core.federation import updates
from ecgfed.core.federation.trees import flatten
from ecgfed.core.privacy.accountant import epsilon_of
from ecgfed.core.privacy.noise import clipped, gaussian
from ecgfed.core.runs.noise_key import FILE_NAME
from ecgfed.network import messages
from ecgfed.network.site_folder import open_site
from ecgfed.network.site_run import ORDER, SiteRun, run_folder
from ecgfed.network.tensor_schema import TensorSchema

WISH = {"rounds": 2, "local_steps": 2}


def trees(federation: Any) -> dict[int, list[Any]]:
    """Node -> the trees that came back in its last round, one a patient, as they were on the wire."""
    found: dict[int, list[Any]] = {}
    asked = {node: content for kind, node, content in federation.grid.sent if kind == "train"}
    came = {node: content for kind, node, content in federation.grid.came if kind == "train"}
    for node, content in came.items():
        request = messages.read_round_request(asked[node])
        leaves = {path: (leaf.dtype, tuple(leaf.shape)) for path, leaf in flatten(request.shared[0]).items()}
        form = TensorSchema(leaves, frozenset({"loss"}))  # FedAvg's answer has the form of what it was sent
        found[node] = messages.read_round_reply(content, request, form).returned
    return found


def test_clipping_is_flower_s() -> None:
    draw = np.random.default_rng(0)
    before, after = ([draw.normal(size=s).astype(np.float64) for s in ((3, 4), (5,))] for _ in range(2))
    change = {str(i): torch.from_numpy(b - a)[None] for i, (a, b) in enumerate(zip(before, after, strict=True))}
    for norm in (0.5, 100.0):
        theirs = [one.copy() for one in after]
        compute_clip_model_update(theirs, before, norm)
        for i, value in clipped(change, norm).items():
            assert value[0].numpy() + before[int(i)] == pytest.approx(theirs[int(i)], abs=1e-14)


@pytest.mark.parametrize("how", [{"aggregation": "median"}, {"dp_clip": 0.05}, {"dp_clip": 0.05, "dp_at": "patient"}])
def test_the_same_numbers_as_on_one_machine(
    how: dict[str, Any], federation: Callable[..., Any], alone: Callable[..., Any]
) -> None:
    run, one = federation("grp-fed", **WISH, **how).serve(), alone("grp-fed", **WISH, **how)
    mine, theirs = flatten(run.state().server), flatten(one.state().server)
    assert list(mine) == list(theirs)
    assert all(torch.equal(mine[path], theirs[path]) for path in mine)
    assert (run.path / "history.jsonl").read_bytes() == (one.path / "history.jsonl").read_bytes()


def test_noise_at_the_server_is_from_its_own_secret(federation: Callable[..., Any]) -> None:
    how = {"dp_clip": 0.05, "dp_noise": 1.0}
    made, other = federation("fedavg", **WISH, **how), federation("fedavg", name="other", **WISH, **how)
    first, second = made.serve(), other.serve()
    assert (first.path / FILE_NAME).is_file()
    assert not [key for site in made.sites for key in site.rglob(FILE_NAME)]
    a, b = (flatten(run.state().server) for run in (first, second))
    assert any(not torch.equal(a[path], b[path]) for path in a)
    assert first.last_record()["epsilon"] == epsilon_of(1.0, 2)
    assert any("epsilon" in line for line in made.said)
    # a server that knows the same secret draws the same noise
    third = federation("fedavg", name="third", **WISH, **how)
    (third.server / "run").mkdir()
    (third.server / "run" / FILE_NAME).write_bytes((first.path / FILE_NAME).read_bytes())
    c = flatten(third.serve().state().server)
    assert all(torch.equal(a[path], c[path]) for path in a)


def test_patients_noise_is_from_the_site_s_secret_and_never_sent(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", **WISH, dp_clip=0.05, dp_noise=1.0, dp_at="patient")
    run = made.serve()
    keys = [key.read_text().strip() for site in made.sites for key in site.rglob(FILE_NAME)]
    assert len(set(keys)) == 3
    wire = b"".join(_bytes(content) for _, _, content in [*made.grid.sent, *made.grid.came])
    assert not any(key.encode() in wire or bytes.fromhex(key) in wire for key in keys)
    quiet = federation("fedavg", name="quiet", **WISH, dp_clip=0.05, dp_at="patient")
    quiet.serve()
    loud = trees(made)
    assert {len(patients) for patients in loud.values()} == {2, 3}
    for node, patients in trees(quiet).items():
        for clean, noisy in zip(patients, loud[node], strict=True):
            off = torch.cat([(noisy["model"][n] - clean["model"][n]).flatten() for n in clean["model"]])
            assert float(off.std()) > 0.9 * 0.05  # the second round's models differ besides
    assert run.last_record()["epsilon"] == epsilon_of(1.0, 2)


def test_a_site_sends_one_sum(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", **WISH, dp_clip=0.05, dp_noise=1.0, dp_at="site")
    made.serve()
    found = trees(made)
    for patients in found.values():
        first = flatten(patients[0])
        assert all(torch.equal(v, first[p]) for one in patients for p, v in flatten(one).items())
    one, other = (flatten(found[node][0]) for node in list(found)[:2])
    assert any(not torch.equal(one[path], other[path]) for path in one)


def _bytes(content: Any) -> bytes:
    from grid import bytes_of

    return bytes_of(content)


def test_a_key_that_is_there_is_kept_when_a_site_goes_on(federation: Callable[..., Any], tmp_path: Path) -> None:
    made = federation("fedavg", **WISH, dp_clip=0.05, dp_noise=1.0, dp_at="patient")
    made.serve()
    (key,) = made.sites[0].rglob(FILE_NAME)
    before = key.read_bytes()
    made.serve()
    assert key.read_bytes() == before


def questions() -> dict[str, Callable[[Any], Any]]:
    """What a server may change of a question and ask the same round again."""

    def plan(request: Any, **other: Any) -> Any:
        return replace(request, run_spec=replace(request.run_spec, plan={**request.run_spec.plan, **other}))

    def model(request: Any) -> Any:
        second = {"model": {name: leaf + 0.01 for name, leaf in request.shared[1]["model"].items()}}
        return replace(request, shared=[request.shared[0], second])

    return {
        "less work": lambda request: plan(request, local_steps=1),
        "another clip": lambda request: plan(request, dp_clip=0.1),
        "another seed": lambda request: plan(request, seed=1),
        "one patient's model": model,
        "one patient fewer": lambda request: replace(request, clients=request.clients[:1], shared=request.shared[:1]),
        "other numbers": lambda request: replace(
            request,
            run_spec=replace(request.run_spec, first=request.run_spec.first + 1),
            clients=tuple(client + 1 for client in request.clients),
        ),
    }


@pytest.mark.parametrize("at", ["patient", "site"])
@pytest.mark.parametrize("how", sorted(questions()))
def test_two_questions_never_get_the_same_noise(
    how: str, at: str, federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that could ask twice under the same noise would take it off by a difference, whatever was charged."""
    drawn: list[np.ndarray] = []

    def noted(like: Any, deviation: float, *words: Any) -> Any:
        noise = gaussian(like, deviation, *words)
        drawn.append(np.concatenate([(value / deviation).flatten().numpy() for value in noise.values()]))
        return noise

    monkeypatch.setattr(updates, "gaussian", noted)
    made = federation("fedavg", **WISH, dp_clip=0.05, dp_noise=1.0, dp_at=at)
    made.serve()
    drawn.clear()
    (request, *_) = [
        messages.read_round_request(content)
        for kind, node, content in made.grid.sent
        if (kind, node) == ("train", 11) and content["say"]["round"] == 2
    ]
    request = replace(request, last=0, run_spec=replace(request.run_spec, run="0" * 64))  # a run of this round only
    site = open_site(made.sites[0])
    for asked in (request, questions()[how](request)):
        (run_folder(site, asked.run_spec.run) / ORDER).unlink(missing_ok=True)  # it would be refused before
        SiteRun(site, asked.run_spec).run(asked)
    for one, other in combinations(drawn, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
