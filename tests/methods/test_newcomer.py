"""A patient who took no part: personal models by hand on two parameters, and divided recordings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from ecgfed.base.errors import RecordError
from ecgfed.core.evaluation.new_client import FirstBeats, adapt_model, first_beats
from ecgfed.core.federation.state import State
from ecgfed.core.methods.ditto import Ditto
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.fedper import FedPer
from ecgfed.core.methods.mtl import Mtl
from ecgfed.core.methods.per_fedavg import PerFedAvg
from ecgfed.core.methods.pfedme import PFedMe
from ecgfed.core.methods.settings import make_settings
from ecgfed.domain.beats.extract import LabelledBeats, Windows

#: Where the run ended: what the server sends the new patient, whose beats are the second tiny client's.
END = np.array([0.7, -0.4])
CLIENT = 1


class Stub:
    """As much of a run as a newcomer asks for."""

    def __init__(self, kind: Any, **settings: Any) -> None:
        self.net, self.plan = tiny.TinyNet(), tiny.PLAN
        self.method = kind(self.net, make_settings(kind.settings_type, settings))


class NoCohort:
    """A cohort of three clients whose beats nobody needs."""

    clients = (0, 1, 2)


def personal(monkeypatch: pytest.MonkeyPatch, kind: Any, epochs: int, **settings: Any) -> dict[str, float]:
    run = Stub(kind, **settings)
    monkeypatch.setattr("ecgfed.core.evaluation.new_client.training_data", lambda cohort, rr: None)
    x, y = tiny.POINTS[CLIENT]
    patient = FirstBeats(replace(tiny.data(((x, y),)), clients=np.zeros(1, np.int64)), np.empty(0, np.int64))
    model = {"extractor.w": torch.tensor([[END[0]]]), "head.b": torch.tensor([END[1]])}
    server = {
        "model": model,
        "extractor": {"extractor.w": model["extractor.w"]},
        "mean": model,
        "models": {str(k): {n: v + k - 3.0 for n, v in model.items()} for k in NoCohort.clients},
    }
    chain = adapt_model(run, NoCohort(), State(9, server), patient, epochs)  # type: ignore[arg-type]
    return {name: float(value) for part in chain.stages for name, value in part.params.items()}


def test_fedavg_gives_the_model_after_local_training(monkeypatch: pytest.MonkeyPatch) -> None:
    found = personal(monkeypatch, FedAvg, 2, lr=0.3, momentum=0.0)
    model = END - 0.3 * tiny.grad(END, CLIENT)
    model = model - 0.3 * tiny.grad(model, CLIENT)
    assert [found["extractor.w"], found["head.b"]] == pytest.approx(model)


def test_ditto_starts_from_the_global_model_and_is_pulled_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = personal(monkeypatch, Ditto, 2, lr=0.1, personal_lr=0.3, lam=0.5, momentum=0.0)
    v = END - 0.3 * tiny.grad(END, CLIENT)
    v = v - 0.3 * (tiny.grad(v, CLIENT) + 0.5 * (v - END))
    assert [found["extractor.w"], found["head.b"]] == pytest.approx(v)


def test_per_fedavg_is_one_step_of_alpha_however_many_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = END - 0.2 * tiny.grad(END, CLIENT)
    for epochs in (1, 3):
        found = personal(monkeypatch, PerFedAvg, epochs, lr=0.3, alpha=0.2)
        assert [found["extractor.w"], found["head.b"]] == pytest.approx(expected)


def test_pfedme_gives_theta_and_not_w(monkeypatch: pytest.MonkeyPatch) -> None:
    found = personal(monkeypatch, PFedMe, 1, lr=0.3, lam=2.0, inner_steps=2, personal_lr=0.1)
    theta = END.copy()
    for _ in range(2):
        theta = theta - 0.1 * (tiny.grad(theta, CLIENT) + 2.0 * (theta - END))
    assert [found["extractor.w"], found["head.b"]] == pytest.approx(theta)


def test_fedper_trains_a_new_head_and_keeps_the_shared_extractor(monkeypatch: pytest.MonkeyPatch) -> None:
    found = personal(monkeypatch, FedPer, 1, lr=0.3, momentum=0.0)
    begun = np.array([END[0], tiny.START[1]])  # nobody has a head to give: it is the run's first
    assert found["extractor.w"] == pytest.approx(END[0])
    assert found["head.b"] == pytest.approx(begun[1] - 0.3 * tiny.grad(begun, CLIENT)[1])


def test_mtl_pulls_to_the_mean_and_takes_the_newcomer_for_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    found = personal(monkeypatch, Mtl, 2, lr=0.3, momentum=0.0, lam=0.5, relation="learned")
    model = END - 0.3 * tiny.grad(END, CLIENT)
    model = model - 0.3 * (tiny.grad(model, CLIENT) + 2 * 0.5 * (model - END))
    assert [found["extractor.w"], found["head.b"]] == pytest.approx(model)


def _beats(minutes: list[float]) -> LabelledBeats:
    count = len(minutes)
    windows = Windows(np.zeros((count, 1, 256), np.float32), np.ones((count, 4), np.float32), np.zeros(count, np.uint8))
    sample = np.rint(np.array(minutes) * 60 * 250).astype(np.int64)
    return LabelledBeats(windows, np.arange(count, dtype=np.int16) % 3, sample, {})


def test_beats_are_divided_by_time() -> None:
    found = first_beats(_beats([0.1, 0.5, 1.999, 2.0, 7.0]), 250.0, 2.0, 3, "p", rr=True)
    assert found.data.rows[0].tolist() == [0, 1, 2]
    assert found.rest.tolist() == [3, 4]
    assert found.data.class_counts(0).tolist() == [1, 1, 1]


def test_beats_in_bad_stretches_are_not_learned_from_where_the_run_did_not() -> None:
    beats = _beats([0.1, 0.5, 1.0, 3.0])
    beats.windows.flags[:] = [1, 2, 3, 2]
    found = first_beats(beats, 250.0, 2.0, 3, "p", rr=True, leave_out="poor-quality")
    assert (found.data.rows[0].tolist(), found.rest.tolist()) == ([0], [3])
    beats.windows.flags[0] = 2
    with pytest.raises(RecordError, match="first 2 minutes"):
        first_beats(beats, 250.0, 2.0, 3, "p", rr=True, leave_out="poor-quality")


def test_zero_minutes_learn_from_nothing() -> None:
    found = first_beats(_beats([0.1, 0.5]), 250.0, 0.0, 3, "p", rr=False)
    assert (len(found.data.rows[0]), found.rest.tolist()) == (0, [0, 1])


def test_a_start_without_beats_is_refused() -> None:
    with pytest.raises(RecordError, match="first 2 minutes"):
        first_beats(_beats([3.0, 4.0]), 250.0, 2.0, 3, "p", rr=True)
