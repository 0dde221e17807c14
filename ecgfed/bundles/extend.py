"""A bundle with one patient more: all it has as it is, and the patient's own model, written and proved as at export."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ecgfed import __version__
from ecgfed.bundles.describe import FILES, finish_bundle, seal
from ecgfed.bundles.export import PatientModel
from ecgfed.bundles.graph_writer import GraphWriter
from ecgfed.bundles.packing import check_new_bundle, replacing_bundle
from ecgfed.bundles.parity import Parity, parity_inputs
from ecgfed.bundles.tflite import TFLITE
from ecgfed.device.bundle import Bundle, open_bundle
from ecgfed.device.certainty import UNSAID, certainty_in
from ecgfed.device.graph import outside_of
from ecgfed.device.int8 import chains_of
from ecgfed.device.manifest import BOUND, CARD, CARD_FACTS
from ecgfed.device.shipped import MODEL
from ecgfed.device.signatures import Signer
from ecgfed.errors import BundleError, OptionError
from ecgfed.federation.single_thread import single_torch_thread
from ecgfed.files import write_bytes
from ecgfed.methods.answers import Chain
from ecgfed.nets.net import Net

#: What every graph of one bundle says alike; whose it is and what it computes is its own.
_SAID_ALIKE = (
    "schema_version",
    "tool_version",
    "intended_use",
    "classes",
    "symbols",
    "units",
    "method",
    "cohort_fingerprint",
    "fs_hz",
    "samples_before_r",
    "samples_after_r",
    "leads",
    "lead",
    "filter",
    "normalisation",
    "rr_features",
    BOUND,
)


def check_extension(bundle: Bundle, out: Path, patient: str, *, overwrite: bool) -> None:
    """Refuse, before any work, a name or a folder that ``extended_bundle`` would refuse.

    Raises:
        OptionError: the bundle has a patient of this name and nothing is to be overwritten; ``out`` is taken, or the
            model in the package.
    """
    if patient in bundle.manifest["patients"] and not overwrite:
        found = f"the bundle {bundle.path} has a patient {patient}"
        raise OptionError("--patient", found, "a new name", "name another, or --overwrite to replace that model")
    if out.resolve() == MODEL:
        raise OptionError("--out", f"{out} is the model in the package", "another folder")
    check_new_bundle(out, overwrite=overwrite)


@contextmanager
def extended_bundle(
    bundle: Bundle,
    out: Path,
    model: PatientModel,
    net: Net,
    *,
    facts: Mapping[str, Any],
    signer: Signer | None = None,
    overwrite: bool = False,
) -> Iterator[Bundle]:
    """Write a bundle with one patient more, and yield it opened; it takes its place when the block ends well.

    Args:
        bundle: the bundle that is gone on from; its files are copied as they are.
        out: folder or zip file to make; it may be that of ``bundle`` where it is to be overwritten.
        model: the patient's model; ``valid`` is not asked: the global model's certainty stands in.
        net: the functions of its parts.
        facts: JSON-ready: what else the manifest says of this patient.
        signer: signs the manifest, where there is one; the given bundle's signature does not hold for another one.
        overwrite: replace ``out`` where it exists, and a patient of this name.

    Raises:
        OptionError: see ``check_extension``.
        BundleError: a graph that differs from the model by more than the contract allows, or a file of the given bundle
            that cannot be read; nothing is written.
    """
    check_extension(bundle, out, model.id, overwrite=overwrite)
    with replacing_bundle(out, overwrite=overwrite) as folder:
        _check_unchanged(bundle, out)
        writer = GraphWriter(folder, net, _properties(bundle), _copied(bundle, folder, model.id))
        own = Chain(tuple(replace(part, shared=False) for part in model.chain.parts))
        names = writer.patient_chain(own, model.id, model.patient)
        parity = Parity(net, folder, bundle.classes)
        with single_torch_thread():  # the figures in the manifest do not depend on the machine's cores
            parity.check(model.id, names, own, parity_inputs(model.inputs, net))
        entry = {
            "patient": model.patient,
            "chain": names,
            "scores": model.scores,
            **({} if model.classes is None else {"classes": list(model.classes)}),
            **_certainty(bundle),
            "tool_version": __version__,
            "parity": parity.report(),
            **facts,
        }
        patients = {**bundle.manifest["patients"], model.id: entry}
        manifest = {**bundle.manifest, "files": writer.files, "patients": patients}
        if bundle.manifest["schema_version"] > 1:
            finish_bundle(folder, manifest, signer, _card(bundle))
        else:
            seal(folder, manifest, signer)
        _check_unchanged(bundle, out)  # nobody can have changed a folder, which is locked; a zip file is not
        yield open_bundle(folder)


def _check_unchanged(bundle: Bundle, out: Path) -> None:
    """Refuse to put a bundle's patients of a while ago in the place of those that it has now; raises BundleError."""
    if out.resolve() == bundle.path.resolve() and open_bundle(out).manifest != bundle.manifest:
        found = "was changed by somebody else since it was opened"
        raise BundleError(out, found, "the bundle that was begun with", "do it again, from the bundle as it is now")


def _card(bundle: Bundle) -> dict[str, str]:
    """Return the card of the given bundle and its facts, which stay what they are: they are of its training."""
    return {field: bundle.read(bundle.manifest[field]).decode("utf-8", "replace") for field in (CARD, CARD_FACTS)}


def _copied(bundle: Bundle, folder: Path, patient: str) -> dict[str, dict[str, Any]]:
    """Copy a bundle's files, without those that only a patient of this name has; return what its manifest says of them.

    A name that the patient's new model will take is free then, whoever had it.
    """
    manifest = bundle.manifest
    others = [entry for name, entry in manifest["patients"].items() if name != patient]
    used = {name for entry in (manifest["global"], *others) for chain in chains_of(entry) for name in chain}
    replaced = chains_of(manifest["patients"].get(patient, {"chain": ()}))
    gone = {name for chain in replaced for name in chain} - used
    lite = manifest["patients"].get(patient, {}).get(TFLITE)
    gone |= {lite["file"]} if isinstance(lite, dict) and isinstance(lite.get("file"), str) else set()
    gone |= {manifest[field] for field in FILES if field in manifest}  # made anew, and written again
    kept = {name: about for name, about in manifest["files"].items() if name not in gone}
    for name in kept:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / name, bundle.read(name))
    return kept


def _properties(bundle: Bundle) -> dict[str, str]:
    """Return what the given bundle's graphs say of themselves, whoever they are of."""
    name = bundle.manifest["global"]["chain"][0]
    metadata = outside_of(bundle.path / name, bundle.read(name)).metadata
    said = {key: metadata[key] for key in _SAID_ALIKE if key in metadata}
    version = bundle.manifest.get("tool_version")
    return {"tool_version": version if isinstance(version, str) else "", **said}


def _certainty(bundle: Bundle) -> dict[str, Any]:
    """Return the global model's temperature and threshold, which stand in; nothing of a bundle that says none."""
    everyone = certainty_in(bundle.manifest, None)
    if everyone is UNSAID:
        return {}
    fitted = dict.fromkeys(("ece_before", "ece_after", "kept", "kept_accuracy"))
    return {"certainty": {"temperature": everyone.temperature, "threshold": everyone.threshold, "beats": 0, **fitted}}
