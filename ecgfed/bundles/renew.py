"""A bundle of version 1 written anew as one of version 2: the same weights and the same answers, nothing trained."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper

from ecgfed.bundles.describe import finish_bundle
from ecgfed.bundles.graphs import GraphTemplate, finish
from ecgfed.bundles.packing import replacing_bundle
from ecgfed.bundles.weights import global_model
from ecgfed.device.bundle import GRAPH, Bundle, open_bundle
from ecgfed.device.certainty import FAR
from ecgfed.device.manifest import BOUND, SCHEMA_VERSION
from ecgfed.device.signatures import Signer
from ecgfed.errors import BundleError
from ecgfed.files import write_bytes
from ecgfed.nets.net import Net

#: Roles whose parameters stand in a graph under the net's own names, all of them.
TRACED = ("model", "extractor", "head", FAR)
FAR_PARAMETERS = ("far.typical", "far.square")


def renewed_bundle(
    bundle: Bundle,
    out: Path,
    *,
    card: Mapping[str, str] | None = None,
    trace: bool = False,
    signer: Signer | None = None,
    overwrite: bool = False,
) -> Bundle:
    """Write a bundle anew in the form of this ecgfed, from its own graphs.

    Args:
        bundle: the bundle, opened; one of version 2 is described anew.
        out: folder or zip file to make.
        card: the card and its facts as texts, by the manifest's fields; default what the manifest says.
        trace: trace the global model's graphs and the far one anew, as export does today, from the weights in them;
            else they stay what they are, but for the version they say.
        signer: signs the manifest; the given bundle's signature does not hold for another one.
        overwrite: replace ``out`` where it exists.

    Raises:
        BundleError: a bundle of version 0.1, which does not say what it was trained on, or a file that cannot be read.
    """
    if BOUND not in bundle.manifest or "trained_on" not in bundle.manifest:
        found = "is of an ecgfed that did not say what it was trained on"
        raise BundleError(bundle.path, found, f"a bundle with {BOUND} and trained_on", "export its run again")
    net = global_model(bundle).net if trace else None
    with replacing_bundle(out, overwrite=overwrite) as folder:
        files = {}
        for name, about in bundle.manifest["files"].items():
            data = bundle.read(name)
            if name.endswith(GRAPH):
                data = _renewed(data, net, about["role"])
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, data)
            files[name] = {**about, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        finish_bundle(folder, {**bundle.manifest, "files": files}, signer, card)
    return open_bundle(out)


def _renewed(data: bytes, net: Net | None, role: str) -> bytes:
    """Return a graph that says this ecgfed's schema version of itself; who made it stays."""
    model = onnx.load_from_string(data)
    said = {entry.key: entry.value for entry in model.metadata_props} | {"schema_version": json.dumps(SCHEMA_VERSION)}
    if net is not None and role in TRACED:
        names = FAR_PARAMETERS if role == FAR else tuple(net.initial(0))
        held = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer if one.name in names}
        params = {name: torch.from_numpy(value.copy()) for name, value in held.items()}
        model = GraphTemplate(net, role, params).fill(params)
    return finish(model, said)
