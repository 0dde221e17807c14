"""Old names of public attributes and keyword arguments warn and still work."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import ecgfed
from ecgfed.base.deprecation import EcgfedDeprecation
from ecgfed.core.federation.card_check import card_problems, traffic_of
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.server_sgd import FederatedSgdSettings
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.run import Run
from ecgfed.exports.device.calibration import UNCALIBRATED
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.predictions import Predictions
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.exports.device.stream import StreamBeat, StreamClassifier
from ecgfed.testing.trial import mixed_federation


def warned(read: Callable[[], object]) -> object:
    with pytest.warns(EcgfedDeprecation, match="0.3"):
        return read()


def predictions(**more: object) -> Predictions:
    label, flags = np.array([0, 1, 1]), np.zeros(3, np.uint8)
    return Predictions(label, np.eye(2, dtype=np.float32)[label], flags, ("N", "V"), **more)  # type: ignore[arg-type]


def test_predictions() -> None:
    flag = np.array([False, True, False])
    old = warned(lambda: predictions(uncertain=flag, far=~flag))
    new = predictions(low_confidence=flag, out_of_distribution=~flag)
    assert isinstance(old, Predictions)
    assert old.low_confidence.tolist() == new.low_confidence.tolist() == flag.tolist()
    assert old.out_of_distribution.tolist() == new.out_of_distribution.tolist() == (~flag).tolist()
    assert np.asarray(warned(lambda: getattr(new, "uncertain"))).tolist() == flag.tolist()  # noqa: B009
    assert np.asarray(warned(lambda: getattr(new, "far"))).tolist() == (~flag).tolist()  # noqa: B009
    assert warned(lambda: getattr(new, "uncertain_counts")) == new.low_confidence_counts == {"N": 0, "V": 1}  # noqa: B009
    assert warned(lambda: getattr(new, "far_counts")) == new.out_of_distribution_counts == {"N": 1, "V": 1}  # noqa: B009
    counts = warned(lambda: getattr(new, "doubtful_counts"))  # noqa: B009
    assert callable(counts)
    assert counts() == new.reliability_counts()


def test_streamed_beats() -> None:
    beat = StreamBeat(7, 0.02, 0, "N", 0.9, np.array([0.9, 0.1], np.float32), 0, True, False, "final", 3.0)
    assert warned(lambda: getattr(beat, "uncertain")) is beat.low_confidence is True  # noqa: B009
    assert warned(lambda: getattr(beat, "far")) is beat.out_of_distribution is False  # noqa: B009


def test_bundle_and_classifier() -> None:
    bundle = ecgfed.open_bundle(shipped_model(), verify=False)
    detector = warned(lambda: getattr(bundle, "farness"))  # noqa: B009
    assert callable(detector)
    assert detector().threshold == bundle.ood_detector().threshold  # type: ignore[union-attr]
    new = bundle.classifier()
    assert warned(lambda: getattr(new, "certainty")) is new.calibration  # noqa: B009
    assert warned(lambda: getattr(new, "farness")) is new.ood_detector  # noqa: B009
    graphs = [session.graph for session in new.sessions]
    old = warned(lambda: Classifier(graphs, new.classes, new.rr, certainty=UNCALIBRATED))  # type: ignore[call-arg]
    assert isinstance(old, Classifier)
    assert old.calibration is UNCALIBRATED
    stream = StreamClassifier(new, 360.0)
    assert warned(lambda: getattr(stream, "seen")) == stream.sample_count == 0  # noqa: B009


def test_communication_audit() -> None:
    method = FedAvg(ResNet1d(NetSpec(3)), FederatedSgdSettings())
    plan = TrainPlan(1, None, 2, batch_size=8)
    log = warned(lambda: traffic_of(method, mixed_federation(rr=False), plan))
    assert warned(lambda: card_problems(log)) == []  # type: ignore[arg-type]


def test_client_states_of_a_run(fedavg_run: Path) -> None:
    run = ecgfed.open_run(fedavg_run)
    state = run.state()
    old = warned(lambda: run.kept(state, 0))
    new = Run.client_state(run, state, 0)
    assert isinstance(old, dict)
    assert old.keys() == new.keys()
    assert warned(lambda: run.own_method) == run.custom_method == ""
    assert isinstance(state, State)
    assert torch.is_grad_enabled()
