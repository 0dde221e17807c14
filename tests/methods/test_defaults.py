"""Defaults: one server step for all methods that have one, and stored runs keep what they were trained with."""

from dataclasses import asdict

import pytest

from ecgfed.core.config import TrainConfig
from ecgfed.core.methods.afl import Afl, AflFedAvg
from ecgfed.core.methods.fed_rod import FedRod
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.local_sgd import SgdSettings
from ecgfed.core.methods.registry import methods
from ecgfed.core.methods.server_sgd import PLAIN_MEAN, FederatedSgdSettings
from ecgfed.core.methods.settings import stored_settings

#: The paper's algorithm has no other server step.
PLAIN = ("afl", "grp-fed-printed")
WITH_SERVER = [name for name, kind in methods().items() if issubclass(kind.settings_type, FederatedSgdSettings)]


@pytest.mark.parametrize("name", WITH_SERVER)
def test_methods_with_a_server_step_share_its_defaults(name: str) -> None:
    mine = asdict(methods()[name].settings_type())
    shared = asdict(FederatedSgdSettings()) | (PLAIN_MEAN if name in PLAIN else {})
    assert {key: mine[key] for key in PLAIN_MEAN} == {key: shared[key] for key in PLAIN_MEAN}


def test_methods_share_the_local_learning_rate() -> None:
    rates = {name: getattr(kind.settings_type(), "lr", None) for name, kind in methods().items()}
    # the paper's, and the authors', which was better on validation beats
    assert {name for name, rate in rates.items() if rate != SgdSettings().lr} == {"grp-fed-printed", "pfedhn"}


def test_the_default_method_is_the_recommended_one() -> None:
    assert TrainConfig().method == "fed-gate"


def test_a_stored_run_keeps_its_own_values() -> None:
    stored = {**asdict(FederatedSgdSettings()), **PLAIN_MEAN, "lr": 0.005}
    assert asdict(stored_settings(FedAvg.settings_type, stored)) == stored


def test_a_stored_run_without_a_server_step_had_the_plain_mean() -> None:
    """Version 0.1's AFL and q-FFL stored no server step, and took losses over all beats."""
    settings = stored_settings(AflFedAvg.settings_type, {"lr": 0.005, "momentum": 0.0, "lambda_lr": 0.1})
    assert {name: getattr(settings, name) for name in PLAIN_MEAN} == PLAIN_MEAN
    assert settings.survey_beats == 0
    assert stored_settings(Afl.settings_type, {}).survey_beats == 0


def test_a_stored_fed_rod_with_feddyn_opens() -> None:
    """Version 0.2 stored the plain mean beside FedDyn, which has no such setting and ignores it."""
    settings = stored_settings(FedRod.settings_type, {**PLAIN_MEAN, "generic": "feddyn", "alpha": 0.1})
    assert settings.alpha == 0.1
