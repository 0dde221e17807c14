"""Methods written for ecgfed 0.2: old hooks, imports, keywords and attributes still work, each with a warning."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from ecgfed.base.deprecation import EcgfedDeprecation
from ecgfed.core.methods.base import Method, Requirements, Tree
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.interface import ClientInfo
from ecgfed.core.methods.models import Ensemble, Pipeline, Stage
from ecgfed.core.methods.registry import method_by_name

#: As a file for version 0.2 reads: every renamed import, keyword, attribute and hook that FedAvg's rounds use.
OLD_FILE = """
from dataclasses import replace
from typing import ClassVar

from ecgfed.core.methods.answers import Chain, Part
from ecgfed.core.methods.base import Needs
from ecgfed.core.methods.card import Card, Keeps, Reports, Travels
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.local_sgd import train_whole_model
from ecgfed.core.methods.risks import risk


class Old(FedAvg):
    name: ClassVar[str] = "old"
    needs = Needs(survey=True, survey_beats=7)
    card: ClassVar[Card] = replace(
        FedAvg.card,
        title="Old",
        up=(*FedAvg.card.up, Travels("extra", "nothing", "number", whose="everybody", when=())),
        keeps=(*FedAvg.card.keeps, Keeps("rounds", "rounds", when=())),
        reports=(Reports("twice", "twice its loss"),),
    )

    def client_start(self, initial):
        return {"rounds": next(iter(initial.values())).new_zeros(())}

    def begin(self, shared, kept, info):
        return {**super().begin(shared, kept, info), "rounds": kept["rounds"] + 1, "before": info.survey["loss"]}

    def step(self, state, batches, t):
        trained, losses = train_whole_model(self.net, state, batches[0], self.settings)
        return {**state, **trained}, {**losses, "twice": 2 * losses["loss"]}

    def finish(self, state, info):
        returned, kept = super().finish(state, info)
        return {**returned, "extra": state["before"]}, {**kept, "rounds": state["rounds"]}

    def personal_answer(self, server, kept):
        (part,) = super().personal_answer(server, kept).parts
        return Chain((Part(part.role, part.params, shared=True),))
"""


def old_method(folder: Path) -> type[Method]:
    file = folder / "old.py"
    file.write_text(OLD_FILE)
    with pytest.warns(EcgfedDeprecation, match=r"Old\.begin is deprecated since ecgfed 0\.3 .* use init_round instead"):
        return method_by_name(f"{file}:Old")


@pytest.mark.filterwarnings("ignore::ecgfed.base.deprecation.EcgfedDeprecation")
def test_a_method_written_for_version_0_2_trains_as_fedavg(tmp_path: Path) -> None:
    kind = old_method(tmp_path)
    state, fedavg = tiny.run(kind), tiny.run(FedAvg)
    for name, value in fedavg.server["model"].items():
        assert torch.equal(state.server["model"][name], value), name
    assert {float(state.client_states[client]["rounds"]) for client in state.client_states} == {float(tiny.PLAN.rounds)}
    assert kind.requirements == Requirements(pre_round_metrics=True, pre_round_beats=7)
    assert [entry.name for entry in kind.communication.stores] == ["rounds"]
    assert [entry.name for entry in kind.communication.metrics] == ["twice"]
    model = kind(tiny.TinyNet(), None).personal_model(state.server, state.client_states[0])  # type: ignore[arg-type]
    assert model.stages[0].params is state.server["model"]


def test_a_new_subclass_of_an_old_one_overrides_it() -> None:
    with pytest.warns(EcgfedDeprecation):

        class Old(FedAvg):
            def shared(self, server: Tree, client: int) -> Tree:
                return {"old": True}

    class New(Old):
        def server_message(self, server: Tree, client: int) -> Tree:
            return {**super().server_message(server, client), "new": True}

    method: Any = New(None, None)  # type: ignore[arg-type]
    assert method.server_message({}, 0) == {"old": True, "new": True}
    with pytest.warns(EcgfedDeprecation, match="use server_message instead"):
        assert method.shared({}, 0) == {"old": True, "new": True}


def test_old_attributes_read_and_set_the_new_ones() -> None:
    method: Any = FedAvg(None, None)  # type: ignore[arg-type]
    with pytest.warns(EcgfedDeprecation, match="needs is deprecated"):
        method.needs = Requirements(validation=True)
    assert method.requirements.validation
    with pytest.warns(EcgfedDeprecation):
        assert method.needs is method.requirements
    model: Any = Pipeline((Stage("model", {}, shared=True),))
    with pytest.warns(EcgfedDeprecation):
        assert model.parts is model.stages
    info: Any = ClientInfo(0, 1, 1, torch.ones(1), 1, pre_round_metrics={"loss": torch.ones(())})
    with pytest.warns(EcgfedDeprecation):
        assert info.survey is info.pre_round_metrics
    with pytest.warns(EcgfedDeprecation):
        assert replace(info, survey={}).pre_round_metrics == {}


def test_old_modules_name_the_new_things() -> None:
    from ecgfed.core.methods import answers, risks

    with pytest.warns(EcgfedDeprecation, match="use ecgfed.core.methods.models.Ensemble instead"):
        assert answers.Ensemble is Ensemble
    with pytest.raises(AttributeError, match="has no attribute 'Risks'"):
        _ = risks.Risks


def test_new_code_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    class New(FedAvg):
        def global_model(self, server: Tree, client_states: Iterable[Tree], protocol: str) -> Pipeline:
            return Pipeline((Stage("model", server["model"], shared=True),))

    tiny.run(New)
    assert not [warning for warning in recwarn if issubclass(warning.category, EcgfedDeprecation)]
