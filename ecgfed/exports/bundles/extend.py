"""Add a patient's model to a bundle: existing files are copied, the new model is written and checked as at export."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ecgfed import __version__
from ecgfed.base.errors import BundleError, OptionError, param
from ecgfed.base.files import write_bytes
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.nets.net import Net
from ecgfed.exports.bundles.describe import FILES, finish_bundle, seal
from ecgfed.exports.bundles.export import PatientModel
from ecgfed.exports.bundles.graph_writer import GraphWriter
from ecgfed.exports.bundles.packing import check_new_bundle, replacing_bundle
from ecgfed.exports.bundles.parity import Parity, parity_inputs
from ecgfed.exports.bundles.tflite import TFLITE
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.calibration import UNCALIBRATED, calibration_in
from ecgfed.exports.device.graph import outside_of
from ecgfed.exports.device.int8 import chains_of
from ecgfed.exports.device.manifest import BOUND, CARD, CARD_FACTS
from ecgfed.exports.device.shipped import MODEL
from ecgfed.exports.device.signatures import Signer

#: Metadata that all graphs of a bundle share.
_SHARED_PROPERTIES = (
    *("schema_version", "tool_version", "intended_use", "classes", "symbols", "units", "method", "cohort_fingerprint"),
    *("fs_hz", "samples_before_r", "samples_after_r", "leads", "lead", "filter", "normalisation", "rr_features", BOUND),
)


def check_extension(bundle: Bundle, out: Path, patient: str, *, overwrite: bool) -> None:
    """Check name and folder before any work, as ``extended_bundle`` does.

    Raises:
        OptionError: the bundle has a patient of this name, or ``out`` exists, without ``overwrite``; or ``out`` is the
            packaged model.
    """
    if patient in bundle.manifest["patients"] and not overwrite:
        problem = f"the bundle {bundle.path} has a patient {patient}"
        action = f"name another, or {param('overwrite=True')} to replace that model"
        raise OptionError("patient", problem, "a new name", action, code="exists")
    if out.resolve() == MODEL:
        raise OptionError("out", f"{out} is the model in the package", "another folder")
    check_new_bundle(out, overwrite=overwrite)


@contextmanager
def extended_bundle(
    bundle: Bundle,
    out: Path,
    model: PatientModel,
    net: Net,
    *,
    metadata: Mapping[str, Any],
    signer: Signer | None = None,
    overwrite: bool = False,
) -> Iterator[Bundle]:
    """Write a bundle with an additional patient, and yield it opened; it is moved to ``out`` if the block succeeds.

    Args:
        bundle: the original bundle; its files are copied unchanged.
        out: folder or zip file to create; may be that of ``bundle`` with ``overwrite``.
        model: the patient's model; ``valid`` is ignored: the calibration of the global model is used.
        net: the functions of its parts.
        metadata: JSON-ready, additional fields of the patient in the manifest.
        signer: signs the manifest; the signature of the original bundle does not apply.
        overwrite: replace an existing ``out``, and a patient of this name.

    Raises:
        OptionError: see ``check_extension``.
        BundleError: a graph differs from the model by more than the tolerance, or a file of the original bundle cannot
            be read; nothing is written.
    """
    check_extension(bundle, out, model.id, overwrite=overwrite)
    with replacing_bundle(out, overwrite=overwrite) as folder:
        _check_unchanged(bundle, out)
        writer = GraphWriter(folder, net, _properties(bundle), _copied(bundle, folder, model.id))
        chain = Pipeline(tuple(replace(part, shared=False) for part in model.chain.stages))
        names = writer.patient_chain(chain, model.id, model.patient)
        parity = Parity(net, folder, bundle.classes)
        with single_torch_thread():  # figures in the manifest must not depend on the number of cores
            parity.check(model.id, names, chain, parity_inputs(model.inputs, net))
        entry = {
            "patient": model.patient,
            "chain": names,
            "scores": model.scores,
            **({} if model.classes is None else {"classes": list(model.classes)}),
            **_certainty(bundle),
            "tool_version": __version__,
            "parity": parity.report(),
            **metadata,
        }
        patients = {**bundle.manifest["patients"], model.id: entry}
        manifest = {**bundle.manifest, "files": writer.files, "patients": patients}
        if bundle.manifest["schema_version"] > 1:
            # card and card data of the original bundle describe its training and stay unchanged
            card = {name: bundle.read(bundle.manifest[name]).decode("utf-8", "replace") for name in (CARD, CARD_FACTS)}
            finish_bundle(folder, manifest, signer, card)
        else:
            seal(folder, manifest, signer)
        _check_unchanged(bundle, out)  # a folder is locked and cannot have changed; a zip file is not
        yield open_bundle(folder)


def _check_unchanged(bundle: Bundle, out: Path) -> None:
    """Raise BundleError if ``out`` is the original bundle and has changed since it was opened."""
    if out.resolve() == bundle.path.resolve() and open_bundle(out).manifest != bundle.manifest:
        problem = "was changed by somebody else since it was opened"
        raise BundleError(out, problem, "the bundle that was begun with", "do it again, from the bundle as it is now")


def _copied(bundle: Bundle, folder: Path, patient: str) -> dict[str, dict[str, Any]]:
    """Copy a bundle's files, except those that only this patient uses; return their manifest entries."""
    manifest = bundle.manifest
    remaining = [entry for name, entry in manifest["patients"].items() if name != patient]
    used = {name for entry in (manifest["global"], *remaining) for chain in chains_of(entry) for name in chain}
    replaced = chains_of(manifest["patients"].get(patient, {"chain": ()}))
    dropped = {name for chain in replaced for name in chain} - used
    lite = manifest["patients"].get(patient, {}).get(TFLITE)
    dropped |= {lite["file"]} if isinstance(lite, dict) and isinstance(lite.get("file"), str) else set()
    dropped |= {manifest[field] for field in FILES if field in manifest}  # regenerated
    copied = {name: entry for name, entry in manifest["files"].items() if name not in dropped}
    for name in copied:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / name, bundle.read(name))
    return copied


def _properties(bundle: Bundle) -> dict[str, str]:
    """Return the metadata shared by the original bundle's graphs."""
    name = bundle.manifest["global"]["chain"][0]
    metadata = outside_of(bundle.path / name, bundle.read(name)).metadata
    properties = {key: metadata[key] for key in _SHARED_PROPERTIES if key in metadata}
    version = bundle.manifest.get("tool_version")
    return {"tool_version": version if isinstance(version, str) else "", **properties}


def _certainty(bundle: Bundle) -> dict[str, Any]:
    """Return the global model's calibration for the new patient; empty if the bundle has none."""
    global_calibration = calibration_in(bundle.manifest, None)
    if global_calibration is UNCALIBRATED:
        return {}
    fitted = dict.fromkeys(("ece_before", "ece_after", "kept", "kept_accuracy"))
    return {
        "certainty": {
            "temperature": global_calibration.temperature,
            "threshold": global_calibration.threshold,
            "beats": 0,
            **fitted,
        }
    }
