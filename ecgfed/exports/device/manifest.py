"""Read and validate ``manifest.json``, and compare it with this version's preprocessing and with every graph.

Classes, patients and preprocessing in a manifest determine the meaning of a label, so they are not trusted: each graph
carries the same metadata, and preprocessing is compared with the implementation.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ecgfed.base.errors import BundleError
from ecgfed.base.safe_io import MAX_JSON_BYTES, check_labels, check_name, label_problem, parse_json, path_problem
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.rr import RR_NAMES, rr_description
from ecgfed.domain.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.domain.record.leads import leads_in
from ecgfed.domain.signal import filters
from ecgfed.exports.device.calibration import check_calibrations
from ecgfed.exports.device.canonical import digest_of
from ecgfed.exports.device.classifier import INPUTS, input_of
from ecgfed.exports.device.container import Container
from ecgfed.exports.device.federation import federation_in
from ecgfed.exports.device.graph_metadata import check_class_table
from ecgfed.exports.device.int8 import INT8, chains_of, check_int8
from ecgfed.exports.device.preprocessing import difference, preprocessing_difference
from ecgfed.exports.device.training_metadata import read_training_metadata

#: Version that export writes, and versions that can be read; version 1 has less metadata and equal predictions.
SCHEMA_VERSION, SCHEMA_VERSIONS = 2, (1, 2)
MANIFEST = "manifest.json"
#: The field with the digest of the manifest.
DIGEST = "digest"
#: Descriptions of the RR features by version, names in order (``ecgfed.domain.beats.rr``).
RR_METADATA = {version: rr_description(version) for version in RR_NAMES}
#: Fixed preprocessing parameters; bundles with other values are rejected.
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
#: Maximum length of a class name in characters.
MAX_CLASS_NAME = 4096
#: Allowed chains of graphs, by role.
CHAINS = (
    ["model"],
    ["ensemble"],
    ["extractor", "head"],
    ["extractor", "linear"],
    ["extractor", "neighbours"],
    ["describer", "kernel"],
    ["describer", "gated"],
    ["decoupled"],
    ["valved"],
)
#: Field of bundles whose manifest has a digest; a graph with this metadata requires one.
BOUND = "run"
#: Files of a bundle of version 2 besides graphs: manifest field and role.
GOLDEN, CARD, CARD_FACTS = "golden", "card", "card_facts"
_AGAIN = "export it again"


def read_manifest(files: Container) -> tuple[dict[str, Any], bytes]:
    """Read and validate a bundle's manifest; return it with its bytes.

    Raises:
        BundleError: no bundle, an unsupported schema version, or a changed or damaged manifest.
    """
    path = files.path / MANIFEST
    if not files.holds(MANIFEST):
        action = "make one with 'ecgfed export'"
        if not files.path.is_dir() and not files.missing([f"{files.path.stem}/{MANIFEST}"]):
            action = f"pack the files inside {files.path.stem}, not that folder"
        raise BundleError(files.path, f"holds no {MANIFEST}", "a bundle", action)
    data = files.read(MANIFEST, MAX_JSON_BYTES)
    try:
        manifest = parse_json(data)
    except ValueError as problem:
        raise BundleError(path, f"cannot be read as JSON ({problem})", action=_AGAIN) from None
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if type(version) is not int or version not in SCHEMA_VERSIONS:
        known = " or ".join(map(str, SCHEMA_VERSIONS))
        raise BundleError(path, f"schema version {version}", known, "run 'ecgfed export' again")
    if DIGEST in manifest:
        try:
            digest = digest_of(manifest, DIGEST)
        except ValueError as problem:
            raise BundleError(path, f"has no digest ({problem})", action=_AGAIN) from None
        if manifest[DIGEST] != digest:
            actual = "was changed (its digest is not the one it holds)"
            raise BundleError(path, actual, action="ask for the bundle again")
    try:
        _check_fields(path, manifest)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise BundleError(path, f"lacks {problem}", action=_AGAIN) from problem
    return manifest, data


def modality_of(manifest: Mapping[str, Any]) -> str:
    """Return ``ecg``, or ``image`` for a bundle trained on images."""
    return str(manifest.get("modality", "ecg"))


def _check_fields(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check all fields; raises BundleError, KeyError, TypeError, AttributeError or ValueError."""
    labels, modality = LabelMap.from_json(manifest["label_map"]), modality_of(manifest)
    if modality not in NORMALISATION:
        raise BundleError(path, f"modality {modality!r:.60}", "ecg or image", _AGAIN)
    for name in ("method", "intended_use"):
        if not isinstance(manifest[name], str):
            raise TypeError(name)
    for name in labels.classes:  # a custom class may be a sentence, which fits into the note of an annotation
        if fault := label_problem(name, MAX_CLASS_NAME):
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
    read_training_metadata(manifest)
    federation_in(manifest)
    check_int8(manifest)
    check_calibrations(manifest)
    if manifest["schema_version"] > 1:
        _check_version_2(path, manifest, labels, modality)


def _check_version_2(path: Path, manifest: Mapping[str, Any], labels: LabelMap, modality: str) -> None:
    """Check the additional fields of version 2: full preprocessing, class table, files other than graphs."""
    for name in (DIGEST, BOUND):
        if name not in manifest:
            raise BundleError(path, f"has no {name}", "one, as of every bundle of version 2", "ask for it again")
    check_class_table(manifest, labels, of_beats=modality == "ecg")
    mismatch = preprocessing_difference(manifest["preprocessing"], rr_version_in(manifest), modality)
    if mismatch is not None:
        where, stored, does = mismatch
        raise BundleError(path, f"{where} {stored!r:.100}", f"{does!r:.200}, all this ecgfed runs", _AGAIN)
    for field in (GOLDEN, CARD, CARD_FACTS):
        name = manifest[field]
        if manifest["files"].get(name, {}).get("role") != field:
            raise ValueError(f"a file of the bundle that is its {field}")


def _check_runtime(path: Path, manifest: Mapping[str, Any], modality: str) -> None:
    """Compare the preprocessing of the manifest with this implementation."""
    fixed: dict[str, Any] = RUNTIME if modality == "ecg" else {}
    for name, value in fixed.items():
        if not _same(manifest[name], value):
            raise BundleError(path, f"{name} {manifest[name]!r:.100}", f"{value!r}, all this ecgfed runs", _AGAIN)
    does: dict[str, list[Any]] = {"normalisation": [NORMALISATION[modality]], "rr_features": list(RR_METADATA.values())}
    for name, values in does.items():
        if name in manifest and not any(_same(manifest[name], value) for value in values):
            allowed_text = " or ".join(map(_described, values))
            raise BundleError(
                path, f"{name} {_described(manifest[name])}", f"{allowed_text}, all this ecgfed runs", _AGAIN
            )
    inputs, version = manifest["inputs"], rr_version_in(manifest) or 1
    known = {name: list(input_of(name, version)[1]) for name in INPUTS}
    allowed = [{"image"}] if modality == "image" else [{"window"}, {"window", "rr"}]
    if set(inputs) not in allowed or any(not _same(inputs[name], known[name]) for name in inputs):
        raise BundleError(path, f"inputs {inputs!r:.100}", "those of a net of ecgfed", _AGAIN)


def _described(value: object) -> str:
    """Return a value's text; of RR features their number and version, since names fill the line."""
    if isinstance(value, Mapping) and isinstance(value.get("names"), list):
        return f"{len(value['names'])} of version {value.get('version')!r:.20}"
    return f"{value!r:.100}"


def rr_version_in(manifest: Mapping[str, Any]) -> int:
    """Return the version of the RR features that a bundle's graphs take, 0 for none."""
    return int(manifest.get("rr_features", {"version": 1})["version"]) if "rr" in manifest["inputs"] else 0


def _check_files(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check that files are inside the bundle, that chains consist of them, and that patient names are valid."""
    files, foreign_files = manifest["files"], BundleError(path, "names files that are not the bundle's", action=_AGAIN)
    for name, entry in files.items():
        if path_problem(name) or not isinstance(entry["sha256"], str) or type(entry.get("bytes", 0)) is not int:
            raise foreign_files
    owners = (manifest["global"], *manifest["patients"].values())
    for chain in [chain for entry in owners for chain in chains_of(entry)]:
        if (
            not isinstance(chain, list)
            or not chain
            or not all(isinstance(name, str) and name in files for name in chain)
        ):
            raise foreign_files
        roles = [files[name].get("role") for name in chain]
        if roles not in CHAINS:
            raise BundleError(path, f"a chain of {roles!r:.100}", "a model, or an extractor and a head", _AGAIN)
    weights = manifest.get("weights")
    if weights is not None and weights not in files:
        raise foreign_files
    for client, entry in manifest["patients"].items():
        check_name(client, "patient", path, BundleError)
        check_labels([entry["patient"]], "patient", path, BundleError)


def models_in(manifest: Mapping[str, Any]) -> Iterator[tuple[str | None, str, list[str]]]:
    """Yield every model of a bundle: its id in the manifest (None: the global one), variant, and chain of files.

    The variant is ``float`` or ``int8``.
    """
    for client, entry in [(None, manifest["global"]), *manifest["patients"].items()]:
        for variant, chain in zip(("float", INT8), chains_of(entry), strict=False):
            yield client, variant, chain


def _same(value: Any, expected: Any) -> bool:
    """Return whether two JSON values are equal; booleans do not equal numbers."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(_same, value, expected))
    if isinstance(value, dict) and isinstance(expected, dict):
        return set(value) == set(expected) and all(_same(value[name], expected[name]) for name in value)
    return bool(value == expected)


class Binding:
    """Checks graphs against the manifest that lists them.

    Args:
        path: path of the manifest, for errors.
        manifest: validated manifest.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        ecg = modality_of(manifest) == "ecg"
        cohort = manifest.get("cohort")
        leads = list(leads_in(manifest)) if ecg else None
        self.expected = {
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
        #: file -> owners of the chains with it, as (id in the manifest, patient); (None, None) for the global model
        self.users: dict[str, list[tuple[str | None, str | None]]] = {}
        entries = [(None, None, manifest["global"])]
        entries += [(client, entry["patient"], entry) for client, entry in manifest["patients"].items()]
        for client, patient, entry in entries:
            for name in (name for chain in chains_of(entry) for name in chain):
                self.users.setdefault(name, []).append((client, patient))

    def check(self, name: str, path: Path, metadata: Mapping[str, str]) -> None:
        """Compare a graph's metadata with the manifest; raises BundleError naming the graph.

        Fields missing in graphs of older versions are not required; existing ones must agree.
        """
        for key, expected in self.expected.items():
            if key in metadata and not _same(_parsed(path, key, metadata[key]), expected):
                raise self._disagree(path, key, metadata[key], json.dumps(expected, ensure_ascii=False))
        plain = {"role": self.manifest["files"][name].get("role")}
        plain |= {key: self.manifest.get(key) for key in ("tool_version", "intended_use")}
        for key, stored in plain.items():
            if key in metadata and metadata[key] != stored:
                raise self._disagree(path, key, metadata[key], str(stored))
        for client, patient in self.users.get(name, []):
            for key, owner in (("client", client), ("patient", patient)):
                if key in metadata and metadata[key] != owner:
                    uses = "the global model" if owner is None else f"{owner}"
                    raise self._disagree(path, key, metadata[key], uses)
        if BOUND in metadata and DIGEST not in self.manifest:
            raise BundleError(self.path, f"has no {DIGEST}, but its graphs ask for one", action="ask for it again")
        if BOUND in self.manifest and BOUND not in metadata:
            raise BundleError(path, f"does not say which {BOUND} it is of", "a graph of this bundle", _AGAIN)

    def check_graph(self, name: str, path: Path, metadata: Mapping[str, Any]) -> None:
        """Compare a graph's versions, inputs and output with a manifest of version 2."""
        if self.manifest["schema_version"] > 1:
            differs = difference(metadata, self.manifest["files"][name].get("graph"), "graph")
            if differs is not None:
                where, graph, stored = differs
                raise self._disagree(path, where, f"{graph!r}", f"{stored!r}")

    def _disagree(self, path: Path, key: str, graph: str, manifest: str) -> BundleError:
        problem = f"says {key} {graph[:100]} of itself, its manifest {manifest[:100]}"
        return BundleError(path, problem, "one and the same", "ask for the bundle again")


def _parsed(path: Path, key: str, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as problem:
        raise BundleError(path, f"says {key} of itself that is no JSON ({problem})", action=_AGAIN) from None
