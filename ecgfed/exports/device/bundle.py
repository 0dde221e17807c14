"""Open a bundle, verify its files, and create classifiers from it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import BundleError, param
from ecgfed.base.text import count_of, listed, shortened
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.record.leads import leads_in
from ecgfed.exports.device.calibration import OodDetector, calibration_in, ood_rule_in
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.container import Container, container_of
from ecgfed.exports.device.graph import MAX_FILE_BYTES, Graph, check_graph, graph_fault, outside_of
from ecgfed.exports.device.graph_metadata import metadata_of
from ecgfed.exports.device.int8 import int8_variant
from ecgfed.exports.device.manifest import MANIFEST, Binding, modality_of, read_manifest, rr_version_in
from ecgfed.exports.device.signatures import Signature, check_signature
from ecgfed.exports.device.training_metadata import TrainingMetadata, read_training_metadata

#: Suffix of graph files in a bundle.
GRAPH = ".onnx"


@renamed_fields("0.3", "0.5", farness="ood_detector")
@dataclass(frozen=True, repr=False, eq=False)
class Bundle:
    """An open bundle.

    Attributes:
        path: its folder or zip file.
        manifest: the contents of ``manifest.json``.
        signature: its signature, or None.
        container: access to its files.
    """

    path: Path
    manifest: dict[str, Any]
    signature: Signature | None
    container: Container

    def __repr__(self) -> str:
        who = f"{count_of(len(self.patients), 'patient')}, {count_of(len(self.classes), 'class')}"
        return f"Bundle({str(self.path)!r}: {shortened(str(self.manifest['method']), 60)}, {who})"

    @cached_property
    def labels(self) -> LabelMap:
        """Classes and their WFDB symbols."""
        return LabelMap.from_json(self.manifest["label_map"])

    @cached_property
    def _binding(self) -> Binding:
        return Binding(self.path / MANIFEST, self.manifest)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in order."""
        return self.labels.classes

    @property
    def modality(self) -> str:
        """``ecg``, or ``image`` for a bundle trained on images."""
        return modality_of(self.manifest)

    def require_ecg(self) -> None:
        """Raise BundleError if this bundle was trained on images."""
        if self.modality != "ecg":
            raise BundleError(self.path, "was trained on images", "a bundle of ECG beats", "it takes no recording")

    @property
    def leads(self) -> tuple[str, ...]:
        """Names of the leads it was trained on, in order of preference."""
        return leads_in(self.manifest)

    @property
    def rr_version(self) -> int:
        """Version of the RR features that its graphs take (``ecgfed.domain.beats.rr``), 0 for none."""
        return rr_version_in(self.manifest)

    @property
    def patients(self) -> tuple[str, ...]:
        """Ids of the patients with a personal model."""
        return tuple(self.manifest["patients"])

    @cached_property
    def trained_on(self) -> TrainingMetadata:
        """Metadata about its training."""
        return read_training_metadata(self.manifest)

    def classifier(self, patient: str | None = None, *, int8: bool = False) -> Classifier:
        """Return the classifier of a patient, or the global one; with ``int8`` its int8 variant.

        The graphs are read again and compared with the manifest; exactly these bytes are run.

        Raises:
            BundleError: an unknown patient (the message lists some known ones) or a missing int8 variant; a graph that
                was changed, does not match the manifest, or has content that export does not write.
        """
        if patient is None:
            chain = self.manifest["global"]["chain"]
        elif patient in self.manifest["patients"]:
            chain = self.manifest["patients"][patient]["chain"]
        else:
            known = (
                f"one of {listed(list(self.patients), 12)}"
                if self.patients
                else "none: it holds the global model alone"
            )
            action = f"leave {param('patient')} out for the global model"
            raise BundleError(self.path, f"has no patient {patient!r}", known, action, code="unknown-patient")
        if int8:
            chain = int8_variant(self.path, self.manifest, patient)["chain"]
        graphs = [self._graph(name) for name in chain]
        takes = {entry.name for entry in graphs[0].inputs}
        if takes != set(self.manifest["inputs"]):
            expected = " and ".join(self.manifest["inputs"])
            raise graph_fault(graphs[0].path, f"takes {' and '.join(sorted(takes)) or 'nothing'}, not {expected}")
        certainty, rule = calibration_in(self.manifest, patient, int8=int8), ood_rule_in(self.manifest)
        detector = None if rule is None else OodDetector(self._graph(rule.graph), rule.threshold)
        is_global = patient is None or self.manifest["patients"][patient].get("personal") == "global"  # it stands in
        averaged = self.rr_version == 3 and is_global
        return Classifier(
            graphs, self.classes, self.rr_version, certainty, detector, averaged_over_alike_beats=averaged
        )

    def read(self, name: str) -> bytes:
        """Return the bytes of one of the bundle's files, verified by SHA-256; raises BundleError."""
        path, entry = self.path / name, self.manifest["files"][name]
        if not self.container.holds(name):
            raise BundleError(path, "does not exist", "a file of the bundle", "export again")
        data = self.container.read(name, MAX_FILE_BYTES)
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise BundleError(path, "was changed (its SHA-256 is not the manifest's)", action="export again")
        if len(data) != entry.get("bytes", len(data)):
            raise BundleError(path, f"has {len(data):,} bytes", f"{entry['bytes']:,}, as the manifest says")
        return data

    def ood_detector(self) -> OodDetector | None:
        """Return the detector of out-of-distribution beats, or None if the bundle has none; raises BundleError."""
        rule = ood_rule_in(self.manifest)
        return None if rule is None else OodDetector(self._graph(rule.graph), rule.threshold)

    def _graph(self, name: str) -> Graph:
        graph = check_graph(self.path / name, self.read(name))
        self._binding.check(name, graph.path, graph.metadata)
        self._binding.check_graph(name, graph.path, metadata_of(graph))
        return graph

    def verify(self) -> None:
        """Verify every file against the manifest, including the metadata in the graphs.

        Raises:
            BundleError: a file is missing, was changed, or does not belong to this manifest.
        """
        for name in self.manifest["files"]:
            data = self.read(name)
            if name.endswith(GRAPH):
                self._binding.check(name, self.path / name, outside_of(self.path / name, data).metadata)


def open_bundle(
    path: Path | str, *, verify: bool = True, trusted: Path | str | Sequence[Path | str] | None = None
) -> Bundle:
    """Open a bundle: a folder or a zip file.

    Args:
        path: the folder or zip file.
        verify: verify all files now; otherwise each file when it is used.
        trusted: public keys (PEM files) of which one must have signed it; None accepts any bundle.

    Raises:
        BundleError: no manifest, unsupported schema version, missing or changed file, conflict between the manifest and
            its graphs or this version of ecgfed, or invalid signature; with ``trusted``, a missing or untrusted one.
        OptionError: a trusted key cannot be read.
    """
    path = Path(path)
    files = container_of(path)
    manifest, data = read_manifest(files)
    bundle = Bundle(path, manifest, check_signature(files, data, trusted), files)
    if missing := files.missing(manifest["files"]):
        raise BundleError(path / missing[0], "does not exist", "a file of the bundle", "export again")
    if verify:
        bundle.verify()
    return bundle
