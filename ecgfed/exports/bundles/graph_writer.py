"""Write the graphs of a bundle: shared parts once, personal parts under the patient's name."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from ecgfed.base.errors import BundleError, param, spelled
from ecgfed.base.files import sha256, write_bytes
from ecgfed.base.text import count_of
from ecgfed.core.methods.models import Ensemble, Model, Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net
from ecgfed.exports.bundles.graphs import GraphTemplate, ensemble_graph, finish
from ecgfed.exports.bundles.simplify import ops_of, with_batch

#: Size in bytes from which an ensemble is reported as large: more than the flash of most microcontrollers.
LARGE_ENSEMBLE_BYTES = 1_000_000


@dataclass
class GraphWriter:
    """Writes graphs into a folder, each part once.

    Attributes:
        folder: of the bundle.
        net: the net of the parts.
        properties: metadata of every graph.
        files: name -> role, SHA-256 and bytes of written files; for a graph its operations, for an ensemble its number
            of members.
        batch: fixed batch size of every graph, or None if variable.
        templates: traced graph of each role.
    """

    folder: Path
    net: Net
    properties: dict[str, str]
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    templates: dict[str, GraphTemplate] = field(default_factory=dict)
    #: identity of a shared part -> (file name, its parameters, referenced so that the identity stays unique)
    known: dict[tuple[int, ...], tuple[str, Params]] = field(default_factory=dict)
    batch: int | None = None

    def graph(self, part: Stage) -> onnx.ModelProto:
        """Return a part as a graph with its parameters."""
        if part.role not in self.templates:
            self.templates[part.role] = GraphTemplate(self.net, part.role, part.params)
        return self.templates[part.role].fill(part.params)

    def write(self, name: str, model: onnx.ModelProto, role: str, **more: str) -> str:
        """Write a graph under a name with ``more`` metadata; a different graph of that name is an error."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = finish(with_batch(model, self.batch), {**self.properties, "role": role, **more})
        if name in self.files and self.files[name]["sha256"] != hashlib.sha256(data).hexdigest():
            raise BundleError(name, "two different models of this name", "one", "nothing was exported; report this")
        write_bytes(path, data)
        self.note(name, role)
        self.files[name]["ops"] = ops_of(model)
        return name

    def note(self, name: str, role: str) -> None:
        """Add a file of the folder to ``files``."""
        path = self.folder / name
        self.files[name] = {"role": role, "sha256": sha256(path), "bytes": path.stat().st_size}

    def part(self, part: Stage, name: str, **more: str) -> str:
        """Write a part under a name, unless it is shared and its parameters were already written."""
        if not part.shared:  # personal parts are not cached: one patient is in memory at a time
            return self.write(name, self.graph(part), part.role, **more)
        key = part.identity
        if key not in self.known:
            self.known[key] = (self.write(name, self.graph(part), part.role, **more), part.params)
        return self.known[key][0]

    def global_chain(self, model: Model) -> list[str]:
        """Write the global model; return the files of its chain."""
        if isinstance(model, Ensemble):
            members = [merged_model(chain) for chain in model.members]
            names = [self.write("global.onnx", ensemble_graph([self.graph(part) for part in members]), "ensemble")]
            self.files["global.onnx"]["members"] = len(members)
            return names
        return [self.part(merged_model(model), "global.onnx")]

    def patient_chain(self, chain: Pipeline, client: str, patient: str) -> list[str]:
        """Write personal parts, and shared ones not yet written; return the files of the chain."""
        personal_parts = [part for part in chain.stages if not part.shared]
        names = []
        for part in chain.stages:
            if part.shared:
                # the name may belong to an ensemble while a patient has the server's full model (LG-FedAvg)
                is_global = part.role == "model" and "members" not in self.files.get("global.onnx", {})
                names.append(self.part(part, "global.onnx" if is_global else f"{part.role}.onnx"))
            else:
                suffix = "" if len(personal_parts) == 1 else f".{part.role}"
                names.append(self.part(part, f"patients/{client}{suffix}.onnx", client=client, patient=patient))
        return names


def large_ensemble(files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return a message if the bundle has a large ensemble; ``files`` are from a manifest."""
    for name, entry in files.items():
        if entry.get("role") == "ensemble" and entry["bytes"] >= LARGE_ENSEMBLE_BYTES:
            count, size = entry["members"], entry["bytes"] / 1e6
            return (
                f"{name} is an ensemble of {count_of(count, 'model')}, {size:.1f} MB, and takes {count} times as "
                f"long as one: {spelled(param('protocol'))} average writes the mean of their weights in its place "
                "(evaluate it first), "
                "and a method with a global model of its own, as grp-fed, has one model here."
            )
    return None


def merged_model(chain: Pipeline) -> Stage:
    """Merge a chain into one part, of role ``model`` if it has several."""
    if len(chain.stages) == 1:
        return chain.stages[0]
    if [part.role for part in chain.stages] == ["extractor", "head"]:
        return Stage("model", {**chain.stages[0].params, **chain.stages[1].params}, chain.stages[0].shared)
    raise BundleError("global answer", f"a chain of {[part.role for part in chain.stages]}", "extractor and head")
