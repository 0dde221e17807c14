"""Rewrite a bundle of version 1 as version 2, with the same weights and predictions, without training."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper

from ecgfed.base.errors import BundleError
from ecgfed.base.files import write_bytes
from ecgfed.core.nets.net import Net
from ecgfed.exports.bundles.describe import finish_bundle
from ecgfed.exports.bundles.graphs import GraphTemplate, finish
from ecgfed.exports.bundles.packing import replacing_bundle
from ecgfed.exports.bundles.prototypes import in_int8, stored_prototypes
from ecgfed.exports.bundles.weights import global_model
from ecgfed.exports.device.bundle import GRAPH, Bundle, open_bundle
from ecgfed.exports.device.calibration import FAR
from ecgfed.exports.device.manifest import BOUND, SCHEMA_VERSION
from ecgfed.exports.device.signatures import Signer

#: Roles whose graphs contain all parameters under the net's names.
TRACED = ("model", "extractor", "head", FAR)


def renewed_bundle(
    bundle: Bundle,
    out: Path,
    *,
    card: Mapping[str, str] | None = None,
    trace: bool = False,
    certainty: Mapping[str, object] | None = None,
    signer: Signer | None = None,
    overwrite: bool = False,
) -> Bundle:
    """Rewrite a bundle in the current format, from its graphs.

    Args:
        bundle: the open bundle; the metadata of one of version 2 is regenerated.
        out: folder or zip file to create.
        card: card and card data as texts, by manifest field; default generated from the manifest.
        trace: trace the graphs of the global model and of prototypes again from their weights, as current export does;
            otherwise only their version is changed.
        certainty: calibration entry of the global model (``left_out_calibration``) in place of its own.
        signer: signs the manifest; the signature of the original bundle does not apply.
        overwrite: replace an existing ``out``.

    Raises:
        BundleError: a bundle of version 0.1 without training metadata, or a file that cannot be read.
    """
    if BOUND not in bundle.manifest or "trained_on" not in bundle.manifest:
        problem = "is of an ecgfed that did not say what it was trained on"
        raise BundleError(bundle.path, problem, f"a bundle with {BOUND} and trained_on", "export its run again")
    net = global_model(bundle).net if trace else None
    with replacing_bundle(out, overwrite=overwrite) as folder:
        files = {}
        for name, entry in bundle.manifest["files"].items():
            data = bundle.read(name)
            if name.endswith(GRAPH):
                data = _renewed(data, net, entry["role"])
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, data)
            files[name] = {**entry, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        entry = bundle.manifest["global"] | ({} if certainty is None else {"certainty": dict(certainty)})
        finish_bundle(folder, {**bundle.manifest, "files": files, "global": entry}, signer, card)
    return open_bundle(out)


def _renewed(data: bytes, net: Net | None, role: str) -> bytes:
    """Return a graph with the current schema version in its metadata; its tool version is unchanged."""
    model = onnx.load_from_string(data)
    properties = {entry.key: entry.value for entry in model.metadata_props} | {
        "schema_version": json.dumps(SCHEMA_VERSION)
    }
    if net is not None and role in TRACED:
        shapes = {name: value.shape for name, value in net.initial(0).items()}
        arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        arrays = {name: value.reshape(shapes[name]) for name, value in arrays.items() if name in shapes}
        is_int8 = role == FAR and any(node.op_type == "DequantizeLinear" for node in model.graph.node)
        arrays = stored_prototypes(model.graph) if role == FAR else arrays
        params = {name: torch.from_numpy(value.copy()) for name, value in arrays.items()}
        model = GraphTemplate(net, role, params).fill(params)
        model = in_int8(model) if is_int8 else model
    return finish(model, properties)
