"""Nothing travels but what is named: the card holds the trees, the constants hold what goes beside them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

import torch

from ecgfed.core.federation.communication_audit import entry_of
from ecgfed.core.methods.base import ClientInfo, Tree
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.grp_fed import GrpFed
from ecgfed.core.methods.registry import methods
from ecgfed.network import leaves
from ecgfed.network.errors import NetworkError


def spoil_finish(monkeypatch: pytest.MonkeyPatch, more: dict[str, torch.Tensor]) -> None:
    """Have FedAvg's clients send something that its card does not name."""
    finish = FedAvg.finish_round

    def leaking(self: FedAvg, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, kept = finish(self, state, info)
        return {**returned, **more}, kept

    monkeypatch.setattr(FedAvg, "finish_round", leaking)


@pytest.mark.parametrize(
    "more",
    [
        {"class_counts": torch.ones(12)},
        {"model": {"of a beat": torch.ones(256)}, "patient": torch.tensor(208)},
        {"models": torch.ones(2)},
    ],
)
def test_a_leaf_without_a_name_on_the_card_does_not_leave(
    federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    made = federation("fedavg", rounds=2, local_steps=1)
    spoil_finish(monkeypatch, more)
    with pytest.raises(NetworkError, match="the method would send something its communication spec does not declare"):
        made.serve()
    for kind, _, content in made.grid.came:
        if kind == "train":
            assert not content.array_records
            assert dict(content.config_records["say"]) == {"refused": "card"}
    stray = next(name for name in more if name != "model")
    for site in made.sites:
        assert f"would send {stray}, which its communication spec does not declare" in (site / "log.txt").read_text()
        assert not (site / "runs").exists() or not list((site / "runs").glob("**/progress.json"))


def test_a_loss_without_a_name_on_the_card_does_not_leave(
    federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    step = FedAvg.step

    def telling(*given: Any) -> Any:
        state, losses = step(*given)
        return state, {**losses, "rare": losses["loss"]}

    monkeypatch.setattr(FedAvg, "step", telling)
    with pytest.raises(NetworkError, match="communication spec does not declare"):
        made.serve()


def test_a_server_s_leaf_without_a_name_is_refused(
    federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = federation("fedavg", rounds=1, local_steps=1)
    shared = FedAvg.server_message
    monkeypatch.setattr(
        FedAvg, "server_message", lambda self, server, client: {**shared(self, server, client), "probe": torch.ones(3)}
    )
    with pytest.raises(NetworkError, match="communication spec does not declare"):
        made.serve()


def test_every_field_of_every_message_is_named(federation: Callable[..., Any], whole: Any) -> None:
    """The messages as they are, field by field, for a method with most kinds of leaves."""
    made = federation("grp-fed", rounds=2, local_steps=1, settings={"personal_start": 0.0})
    run = made.serve()
    card = GrpFed.communication.with_settings(run.method.settings)
    for kind, _, content in made.grid.came:
        say = dict(content.config_records.get("say", {}))
        if kind == "query.hello":
            assert set(content) == {"say"}
            assert set(say) == set(leaves.REGISTRATION_UP)
        elif kind == "train":
            assert set(content) == {"up", "reports", "say"}
            assert set(say) == set(leaves.ROUND_UP)
            assert all(entry_of(path, card.up) for path in content.array_records["up"])
            assert set(content.metric_records["reports"]) <= {entry.name for entry in card.metrics}
        else:
            assert kind == "evaluate"
            assert set(content) == {"reports"}
            assert set(content.metric_records["reports"]) == set(leaves.END_UP)
    for kind, _, content in made.grid.sent:
        if kind == "train":
            assert set(content) == {"say", "shared", "own"}
            assert set(content.config_records["say"]) == set(leaves.ROUND_DOWN)
        elif kind == "evaluate":
            assert set(content) == {"say", "shared"}
            assert set(content.config_records["say"]) == set(leaves.END_DOWN)


def test_no_id_and_no_path_travels(federation: Callable[..., Any], whole: Any) -> None:
    """Not in any reply, refusals included, as bytes."""
    from grid import bytes_of

    made = federation("fedavg", rounds=2, local_steps=1)
    made.serve()
    other = federation("fedavg", rounds=1, local_steps=1, name="damaged")
    (other.sites[0] / "site.json").write_text((other.sites[0] / "site.json").read_text().replace("parts", "nowhere"))
    with pytest.raises(NetworkError, match="site 1: refused: its cohort cannot be used"):
        other.serve()
    assert "nowhere" in (other.sites[0] / "log.txt").read_text()
    said = b"".join(bytes_of(content) for one in (made, other) for _, _, content in one.grid.came)
    assert b"clients" in said
    names = [name for client in whole.clients for name in (client.id, client.patient, *client.records)]
    for text in [*names, "cohort.json", "site-1", "nowhere", str(made.sites[0].parent)]:
        assert text.encode() not in said, text


def test_the_server_writes_down_what_travels(federation: Callable[..., Any]) -> None:
    made = federation("grp-fed", rounds=2, local_steps=1, settings={"personal_start": 0.0})
    run = made.serve()
    listed = json.loads((made.server / "leaves.json").read_text())["leaves"]
    by_way = {way: {leaf["name"]: leaf for leaf in listed if leaf["way"] == way} for way in ("down", "up", "end")}
    model = run.net.initial(0)
    assert set(by_way["down"]) == {f"model/{name}" for name in model}
    assert set(by_way["up"]) == {
        *(f"model/{name}" for name in model),
        "loss",
        *(f"reports/{name}" for name in ("loss", "local_loss", "discriminator_loss")),
        *leaves.ROUND_UP,
    }
    for name, value in model.items():
        leaf = by_way["up"][f"model/{name}"]
        assert leaf["shape"] == list(value.shape)
        assert leaf["bytes"] == value.numel() * value.element_size()
        assert leaf["what"] == "local model"
    assert {f"model/{name}" for name in model} == set(by_way["end"])


@pytest.mark.parametrize("name", sorted(methods()))
def test_no_other_patient_s_model_is_delivered(name: str) -> None:
    """What everybody gets at the end has the names of the first state, which was made from nobody's beats."""
    from ecgfed.core.methods.settings import make_settings
    from ecgfed.core.nets.build import make_net
    from ecgfed.core.nets.net import NetSpec

    kind = methods()[name]
    settings: Any = make_settings(kind.settings_type, {"momentum": 0.0} if name == "afl" else {})
    method = kind(make_net(NetSpec(4)), settings)
    server = method.server_start(method.net.initial(0))
    later = {**server, "models": {"3": dict(method.net.initial(1))}, "affinity": torch.ones(2, 2)}
    found = leaves.final_leaves(method, later)
    assert not any(path.startswith(("models", "affinity", "server_")) for path in found)
    assert set(found) <= set(leaves.flatten(server))


def test_a_log_that_the_locale_cannot_write_leaves_nothing(tmp_path: Path) -> None:
    """In a machine's ASCII locale a path's letters cannot be encoded, and the error about it would be sent."""
    code = """
import sys
from pathlib import Path
from types import SimpleNamespace
from flwr.app import RecordDict
from ecgfed.network import client_app
from ecgfed.network.errors import SiteError
def fail(site, content):
    raise SiteError("storage", "/data/M\\u00fcller/\\udcff", "is full")
client_app.open_site = lambda folder: SimpleNamespace(asked={})
folder = Path(sys.argv[1])
said = client_app.handle(folder, RecordDict(), fail)
print(dict(said["say"]))
client_app.LOG = "no/log.txt"
print(dict(client_app.handle(folder, RecordDict(), fail)["say"]))
"""
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, env=ascii_only, check=True
    )
    assert done.stdout.count("{'refused': 'storage'}") == 2
    assert "Müller" in (tmp_path / "log.txt").read_text(encoding="utf-8")
