"""Methods by name, from a module, from a file."""

from pathlib import Path

import pytest
import tiny
import torch

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.registry import method_by_name, methods, name_of
from ecgfed.core.methods.server_sgd import PLAIN_MEAN

EXAMPLE = Path(__file__).parents[2] / "examples" / "trimmed_mean.py"


def test_a_method_from_a_file_or_a_module_is_found_again_by_its_name() -> None:
    own = method_by_name(f"{EXAMPLE}:TrimmedMean")
    assert own.name == "trimmed-mean"
    assert method_by_name(name_of(own)) is own
    assert method_by_name("ecgfed.core.methods.fedavg:FedAvg") is FedAvg
    assert name_of(FedAvg) == "fedavg"
    assert "trimmed-mean" not in methods()


def test_the_trimmed_mean_of_two_clients_is_their_mean_and_of_five_leaves_the_extremes_out() -> None:
    own = method_by_name(f"{EXAMPLE}:TrimmedMean")
    a, b = (tiny.run(kind).server["model"] for kind in (own, method_by_name("fedavg-uniform")))
    assert tiny.pair(a) == pytest.approx(tiny.pair(b), abs=1e-12)
    from ecgfed.core.methods.base import Returned
    from ecgfed.core.methods.settings import make_settings

    method = own(tiny.TinyNet(), make_settings(own.settings_type, {"trim": 0.2, **PLAIN_MEAN}))  # type: ignore[arg-type]
    values = torch.tensor([[9.0], [1.0], [2.0], [-50.0], [3.0]])
    returned = Returned({"model": {"w": values}}, {}, torch.ones(5).double(), torch.arange(5))
    server = method.aggregate(method.server_start({"w": torch.zeros(1)}), returned)
    assert float(server["model"]["w"]) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (None, "nowhere.py:X", "no file"),
        (None, "no.such.module:X", "imported"),
        ("x = 1", "{}:Missing", "has no 'Missing'"),
        ("Thing = 3", "{}:Thing", "is no method"),
        ("import nothing_of_this_name", "{}:Thing", "ModuleNotFoundError"),
        ("raise RuntimeError('no')", "{}:Thing", "RuntimeError: no"),
        (
            "from ecgfed.core.methods.base import Method\nclass Half(Method):\n    name = 'half'",
            "{}:Half",
            "lacks communication",
        ),
        (
            "from ecgfed.core.methods.fedavg import FedAvg\nclass Wordy(FedAvg):\n    communication = 'the model only'",
            "{}:Wordy",
            "Wordy's communication is 'the model only'; expected an "
            "ecgfed.core.methods.communication.CommunicationSpec",
        ),
    ],
)
def test_what_is_wrong_with_an_own_method_is_said(tmp_path: Path, text: str | None, name: str, told: str) -> None:
    file = tmp_path / f"own_{abs(hash((text, name)))}.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(OptionError, match=told):
        method_by_name(name.format(file))
