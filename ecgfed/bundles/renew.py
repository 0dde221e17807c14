"""A bundle of version 1 written anew as one of version 2: the same weights and the same answers, nothing trained."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx

from ecgfed.bundles.describe import finish_bundle
from ecgfed.bundles.graphs import finish
from ecgfed.bundles.packing import replacing_bundle
from ecgfed.device.bundle import GRAPH, Bundle, open_bundle
from ecgfed.device.manifest import BOUND, SCHEMA_VERSION
from ecgfed.device.signatures import Signer
from ecgfed.errors import BundleError
from ecgfed.files import write_bytes


def renewed_bundle(
    bundle: Bundle,
    out: Path,
    *,
    card: Mapping[str, str] | None = None,
    change: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda model: model,
    signer: Signer | None = None,
    overwrite: bool = False,
) -> Bundle:
    """Write a bundle anew in the form of this ecgfed, from its own graphs.

    Args:
        bundle: the bundle, opened; one of version 2 is described anew.
        out: folder or zip file to make.
        card: the card and its facts as texts, by the manifest's fields; default what the manifest says.
        change: what is done to each graph, and may change no answer.
        signer: signs the manifest; the given bundle's signature does not hold for another one.
        overwrite: replace ``out`` where it exists.

    Raises:
        BundleError: a bundle of version 0.1, which does not say what it was trained on, or a file that cannot be read.
    """
    if BOUND not in bundle.manifest or "trained_on" not in bundle.manifest:
        found = "is of an ecgfed that did not say what it was trained on"
        raise BundleError(bundle.path, found, f"a bundle with {BOUND} and trained_on", "export its run again")
    with replacing_bundle(out, overwrite=overwrite) as folder:
        files = {}
        for name, about in bundle.manifest["files"].items():
            data = bundle.read(name)
            if name.endswith(GRAPH):
                data = _renewed(data, change)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, data)
            files[name] = {**about, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        finish_bundle(folder, {**bundle.manifest, "files": files}, signer, card)
    return open_bundle(out)


def _renewed(data: bytes, change: Callable[[onnx.ModelProto], onnx.ModelProto]) -> bytes:
    """Return a graph that says this ecgfed's schema version of itself; who made it stays."""
    model = onnx.load_from_string(data)
    said = {entry.key: entry.value for entry in model.metadata_props} | {"schema_version": json.dumps(SCHEMA_VERSION)}
    return finish(change(model), said)
