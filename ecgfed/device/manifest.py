"""``manifest.json``: read once, checked alone, and compared with what this ecgfed runs and with every graph.

What a manifest says of classes, patients and preprocessing decides what a label means, so nothing of it is believed
because it stands there: each graph says the same of itself in its own metadata, and the runtime knows what it does.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ecgfed.beats.labels import LabelMap
from ecgfed.beats.rr import RR_NAMES, rr_description
from ecgfed.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.device.canonical import digest_of
from ecgfed.device.certainty import check_certainties
from ecgfed.device.classifier import INPUTS, input_of
from ecgfed.device.container import Container
from ecgfed.device.doubts import trained_on
from ecgfed.device.facts import check_class_table
from ecgfed.device.int8 import INT8, chains_of, check_int8
from ecgfed.device.preprocessing import difference, preprocessing_difference
from ecgfed.errors import BundleError
from ecgfed.gate import MAX_JSON_BYTES, check_labels, check_name, label_fault, parse_json, path_fault
from ecgfed.record.leads import leads_in
from ecgfed.signal import filters

#: What export writes, and what is read: version 1 says less, and answers the same.
SCHEMA_VERSION, SCHEMA_VERSIONS = 2, (1, 2)
MANIFEST = "manifest.json"
#: The field of the manifest that holds its own digest.
DIGEST = "digest"
#: How RR features may be computed: each version with its names in order (``ecgfed.beats.rr``).
RR_ABOUT = {version: rr_description(version) for version in RR_NAMES}
#: What this ecgfed does to a recording before a graph sees it. A manifest that says otherwise is not run.
RUNTIME: dict[str, Any] = {
    "fs_hz": FS_HZ,
    "window_samples": WINDOW_SAMPLES,
    "r_index": R_INDEX,
    "units": "mV",
    "filter": filters.DESCRIPTION,
}
NORMALISATION = {
    "ecg": "each window by its own mean and standard deviation, in the graph",
    "image": "by channel, in the graph",
}
#: The longest name of a class, in characters.
MOST_CLASS_NAME = 4096
#: Chains of graphs by their roles.
CHAINS = (
    ["model"],
    ["ensemble"],
    ["extractor", "head"],
    ["extractor", "linear"],
    ["describer", "kernel"],
    ["describer", "gated"],
    ["decoupled"],
)
#: What only a bundle has whose manifest carries a digest; a graph that says it asks its manifest for one.
BOUND = "run"
#: Files of a bundle of version 2 that are no graphs: the field that names each, and its role.
GOLDEN, CARD, CARD_FACTS = "golden", "card", "card_facts"
_AGAIN = "export it again"


def read_manifest(files: Container) -> tuple[dict[str, Any], bytes]:
    """Read a bundle's manifest, and check what can be checked of it alone; return it with its bytes.

    Raises:
        BundleError: there is no bundle, one of another schema version, or its manifest was changed or is damaged.
    """
    path = files.path / MANIFEST
    if not files.holds(MANIFEST):
        made = "make one with 'ecgfed export'"
        if not files.path.is_dir() and not files.missing([f"{files.path.stem}/{MANIFEST}"]):
            made = f"pack the files inside {files.path.stem}, not that folder"
        raise BundleError(files.path, f"holds no {MANIFEST}", "a bundle", made)
    data = files.read(MANIFEST, MAX_JSON_BYTES)
    try:
        manifest = parse_json(data)
    except ValueError as problem:
        raise BundleError(path, f"cannot be read as JSON ({problem})", action=_AGAIN) from None
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if type(version) is not int or version not in SCHEMA_VERSIONS:
        known = " or ".join(map(str, SCHEMA_VERSIONS))
        raise BundleError(path, f"schema version {version}", known, "run 'ecgfed export' again")
    _check_digest(path, manifest)
    try:
        _check_fields(path, manifest)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise BundleError(path, f"lacks {problem}", action=_AGAIN) from problem
    return manifest, data


def _check_digest(path: Path, manifest: Mapping[str, Any]) -> None:
    if DIGEST not in manifest:
        return
    try:
        found = digest_of(manifest, DIGEST)
    except ValueError as problem:
        raise BundleError(path, f"has no digest ({problem})", action=_AGAIN) from None
    if manifest[DIGEST] != found:
        raise BundleError(path, "was changed (its digest is not the one it holds)", action="ask for the bundle again")


def modality_of(manifest: Mapping[str, Any]) -> str:
    """Return ``ecg``, or ``image`` of a bundle that takes no recordings."""
    return str(manifest.get("modality", "ecg"))


def _check_fields(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check that all is there, in its form; raises BundleError, or what a field of another form raises."""
    labels, modality = LabelMap.from_json(manifest["label_map"]), modality_of(manifest)
    if modality not in NORMALISATION:
        raise BundleError(path, f"modality {modality!r:.60}", "ecg or image", _AGAIN)
    for name in ("method", "intended_use"):
        if not isinstance(manifest[name], str):
            raise TypeError(name)
    for name in labels.classes:  # a person's own class may be a sentence, which an annotation's note has room for
        if fault := label_fault(name, MOST_CLASS_NAME):
            raise BundleError(path, f"class {name!r:.100} {fault}", "a printable name", _AGAIN)
    if len(set(labels.classes)) != len(labels.classes):
        raise BundleError(path, "one class twice", "each once", _AGAIN)
    if "classes" in manifest and manifest["classes"] != list(labels.classes):
        raise BundleError(path, "classes in another order than its label map's", "one order", _AGAIN)
    if modality == "ecg":
        check_labels(leads_in(manifest), "lead", path, BundleError)
        nameless = set(labels.classes) - set(labels.symbols.values())
        if nameless:
            raise KeyError(f"a symbol for class {', '.join(sorted(nameless))}")
    _check_runtime(path, manifest, modality)
    _check_files(path, manifest)
    trained_on(manifest)
    check_int8(manifest)
    check_certainties(manifest)
    if manifest["schema_version"] > 1:
        _check_told(path, manifest, labels, modality)


def _check_told(path: Path, manifest: Mapping[str, Any], labels: LabelMap, modality: str) -> None:
    """Check what version 2 says beyond version 1: preprocessing in full, classes in words, files that are no graphs."""
    for name in (DIGEST, BOUND):
        if name not in manifest:
            raise BundleError(path, f"has no {name}", "one, as of every bundle of version 2", "ask for it again")
    check_class_table(manifest, labels, of_beats=modality == "ecg")
    found = preprocessing_difference(manifest["preprocessing"], rr_version_in(manifest), modality)
    if found is not None:
        where, said, does = found
        raise BundleError(path, f"{where} {said!r:.100}", f"{does!r:.200}, all this ecgfed runs", _AGAIN)
    for field in (GOLDEN, CARD, CARD_FACTS):
        name = manifest[field]
        if manifest["files"].get(name, {}).get("role") != field:
            raise ValueError(f"a file of the bundle that is its {field}")


def _check_runtime(path: Path, manifest: Mapping[str, Any], modality: str) -> None:
    """Compare what the manifest says of preprocessing with what this ecgfed does."""
    fixed: dict[str, Any] = RUNTIME if modality == "ecg" else {}
    for name, value in fixed.items():
        if not _same(manifest[name], value):
            raise BundleError(path, f"{name} {manifest[name]!r:.100}", f"{value!r}, all this ecgfed runs", _AGAIN)
    does: dict[str, list[Any]] = {"normalisation": [NORMALISATION[modality]], "rr_features": list(RR_ABOUT.values())}
    for name, values in does.items():
        if name in manifest and not any(_same(manifest[name], value) for value in values):
            one_of = " or ".join(f"{value!r:.200}" for value in values)
            raise BundleError(path, f"{name} {manifest[name]!r:.100}", f"{one_of}, all this ecgfed runs", _AGAIN)
    inputs, version = manifest["inputs"], rr_version_in(manifest) or 1
    known = {name: list(input_of(name, version)[1]) for name in INPUTS}
    allowed = [{"image"}] if modality == "image" else [{"window"}, {"window", "rr"}]
    if set(inputs) not in allowed or any(not _same(inputs[name], known[name]) for name in inputs):
        raise BundleError(path, f"inputs {inputs!r:.100}", "those of a net of ecgfed", _AGAIN)


def rr_version_in(manifest: Mapping[str, Any]) -> int:
    """Return the version of the RR features that a bundle's graphs take, 0 where they take none."""
    return int(manifest.get("rr_features", {"version": 1})["version"]) if "rr" in manifest["inputs"] else 0


def _check_files(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check that files lie inside the folder and that chains are made of them, for patients who have a name."""
    files, strangers = manifest["files"], BundleError(path, "names files that are not the bundle's", action=_AGAIN)
    for name, about in files.items():
        if path_fault(name) or not isinstance(about["sha256"], str) or type(about.get("bytes", 0)) is not int:
            raise strangers
    entries = (manifest["global"], *manifest["patients"].values())
    chains = [chain for entry in entries for chain in chains_of(entry)]
    for chain in chains:
        if not isinstance(chain, list) or not chain or not all(isinstance(one, str) and one in files for one in chain):
            raise strangers
        roles = [files[name].get("role") for name in chain]
        if roles not in CHAINS:
            raise BundleError(path, f"a chain of {roles!r:.100}", "a model, or an extractor and a head", _AGAIN)
    weights = manifest.get("weights")
    if weights is not None and weights not in files:
        raise strangers
    for client, entry in manifest["patients"].items():
        check_name(client, "patient", path, BundleError)
        check_labels([entry["patient"]], "patient", path, BundleError)


def models_in(manifest: Mapping[str, Any]) -> Iterator[tuple[str | None, str, list[str]]]:
    """Yield every model of a bundle: its id in the manifest (None: the global one), its form, and its chain of files.

    The form is ``float``, or ``int8`` where there is such a chain beside it.
    """
    for client, entry in [(None, manifest["global"]), *manifest["patients"].items()]:
        for form, chain in zip(("float", INT8), chains_of(entry), strict=False):
            yield client, form, chain


def _same(found: Any, expected: Any) -> bool:
    """Whether two values of JSON are equal, and no truth value stands for a number."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return set(found) == set(expected) and all(_same(found[name], expected[name]) for name in found)
    return bool(found == expected)


def _told(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every graph's metadata says, as the manifest says it; None where the manifest is silent."""
    ecg = modality_of(manifest) == "ecg"
    cohort = manifest.get("cohort")
    leads = list(leads_in(manifest)) if ecg else None
    return {
        "schema_version": manifest["schema_version"],
        "classes": list(LabelMap.from_json(manifest["label_map"]).classes),
        "symbols": manifest["label_map"]["symbols"] if ecg else None,
        "units": manifest.get("units"),
        "method": manifest["method"],
        "cohort_fingerprint": cohort.get("fingerprint") if isinstance(cohort, dict) else None,
        "fs_hz": manifest.get("fs_hz"),
        "samples_before_r": R_INDEX if ecg else None,
        "samples_after_r": WINDOW_SAMPLES - R_INDEX if ecg else None,
        "leads": leads,
        "lead": None if leads is None else "|".join(leads),
        "filter": manifest.get("filter"),
        "rr_features": manifest.get("rr_features"),
        BOUND: manifest.get(BOUND),
    }


class Binding:
    """Compares graphs with the manifest that names them.

    Args:
        path: the manifest, for errors.
        manifest: what it says, checked.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        self.told = _told(manifest)
        #: file -> the patients whose chains it is in, as (id in the manifest, patient); (None, None) for the global one
        self.users: dict[str, list[tuple[str | None, str | None]]] = {}
        entries = [(None, None, manifest["global"])]
        entries += [(client, entry["patient"], entry) for client, entry in manifest["patients"].items()]
        for client, patient, entry in entries:
            for name in (name for chain in chains_of(entry) for name in chain):
                self.users.setdefault(name, []).append((client, patient))

    def check(self, name: str, path: Path, metadata: Mapping[str, str]) -> None:
        """Compare one graph's metadata with the manifest; raises BundleError with one line that names the graph.

        What a graph of an older ecgfed does not say is not asked of it; what it says has to agree.
        """
        for key, expected in self.told.items():
            if key in metadata and not _same(_parsed(path, key, metadata[key]), expected):
                raise self._disagree(path, key, metadata[key], json.dumps(expected, ensure_ascii=False))
        plain = {"role": self.manifest["files"][name].get("role")}
        plain |= {key: self.manifest.get(key) for key in ("tool_version", "intended_use")}
        for key, said in plain.items():
            if key in metadata and metadata[key] != said:
                raise self._disagree(path, key, metadata[key], str(said))
        for client, patient in self.users.get(name, []):
            for key, whose in (("client", client), ("patient", patient)):
                if key in metadata and metadata[key] != whose:
                    uses = "the global model" if whose is None else f"{whose}"
                    raise self._disagree(path, key, metadata[key], uses)
        self._check_bound(path, metadata)

    def check_facts(self, name: str, path: Path, found: Mapping[str, Any]) -> None:
        """Compare a graph's versions, inputs and output with what a manifest of version 2 says of it."""
        if self.manifest["schema_version"] > 1:
            differs = difference(found, self.manifest["files"][name].get("graph"), "graph")
            if differs is not None:
                where, graph, said = differs
                raise self._disagree(path, where, f"{graph!r}", f"{said!r}")

    def _check_bound(self, path: Path, metadata: Mapping[str, str]) -> None:
        """A graph of a bundle that is bound together asks for the digest, and the manifest for such graphs."""
        if BOUND in metadata and DIGEST not in self.manifest:
            raise BundleError(self.path, f"has no {DIGEST}, but its graphs ask for one", action="ask for it again")
        if BOUND in self.manifest and BOUND not in metadata:
            raise BundleError(path, f"does not say which {BOUND} it is of", "a graph of this bundle", _AGAIN)

    def _disagree(self, path: Path, key: str, graph: str, manifest: str) -> BundleError:
        found = f"says {key} {graph[:100]} of itself, its manifest {manifest[:100]}"
        return BundleError(path, found, "one and the same", "ask for the bundle again")


def _parsed(path: Path, key: str, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as problem:
        raise BundleError(path, f"says {key} of itself that is no JSON ({problem})", action=_AGAIN) from None
