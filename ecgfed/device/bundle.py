"""Opening a bundle, checking every file, and classifying beats with it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ecgfed.beats.labels import LabelMap
from ecgfed.device.certainty import Farness, certainty_in, far_rule_in
from ecgfed.device.classifier import Classifier
from ecgfed.device.container import Container, container_of
from ecgfed.device.doubts import TrainedOn, trained_on
from ecgfed.device.facts import facts_of
from ecgfed.device.graph import MOST_FILE_BYTES, Graph, check_graph, graph_fault, outside_of
from ecgfed.device.int8 import int8_form
from ecgfed.device.manifest import MANIFEST, Binding, modality_of, read_manifest, rr_version_in
from ecgfed.device.signatures import Signature, check_signature
from ecgfed.errors import BundleError
from ecgfed.record.leads import leads_in
from ecgfed.text import count_of, listed, shortened

#: The ending of graphs among a bundle's files.
GRAPH = ".onnx"


@dataclass(frozen=True, repr=False, eq=False)
class Bundle:
    """An opened bundle, its files verified.

    Attributes:
        path: its folder, or its zip file.
        manifest: the contents of ``manifest.json``.
        signature: who signed it, or None.
        container: where its files are read from.
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
        """Classes and the WFDB symbols behind them."""
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
        """``ecg``, or ``image`` of a bundle that takes no recordings."""
        return modality_of(self.manifest)

    def require_ecg(self) -> None:
        """Raise BundleError where this bundle is of images."""
        if self.modality != "ecg":
            raise BundleError(self.path, "was trained on images", "a bundle of ECG beats", "it takes no recording")

    @property
    def leads(self) -> tuple[str, ...]:
        """The lead names it was trained on, in order of preference."""
        return leads_in(self.manifest)

    @property
    def rr_version(self) -> int:
        """The version of the RR features that its graphs take (``ecgfed.beats.rr``), 0 for none."""
        return rr_version_in(self.manifest)

    @property
    def patients(self) -> tuple[str, ...]:
        """Ids of the patients who have a personal model."""
        return tuple(self.manifest["patients"])

    @cached_property
    def trained_on(self) -> TrainedOn:
        """What it says of its training."""
        return trained_on(self.manifest)

    def classifier(self, patient: str | None = None, *, int8: bool = False) -> Classifier:
        """Return a patient's classifier, or the global one; with ``int8`` its int8 form.

        Its graphs are read once more, compared with the manifest, and these bytes are what runs.

        Raises:
            BundleError: a patient the bundle does not know (the line names some it has), or who has no int8 form;
                a graph that was changed, that is not the manifest's, or that holds what export never writes.
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
            raise BundleError(
                self.path, f"has no patient {patient!r}", known, "leave --patient out for the global model"
            )
        if int8:
            chain = int8_form(self.path, self.manifest, patient)["chain"]
        graphs = [self._graph(name) for name in chain]
        takes = {entry.name for entry in graphs[0].inputs}
        if takes != set(self.manifest["inputs"]):
            wanted = " and ".join(self.manifest["inputs"])
            raise graph_fault(graphs[0].path, f"takes {' and '.join(sorted(takes)) or 'nothing'}, not {wanted}")
        certainty, far = certainty_in(self.manifest, patient, int8=int8), far_rule_in(self.manifest)
        farness = None if far is None else Farness(self._graph(far.graph), far.threshold)
        return Classifier(graphs, self.classes, self.rr_version, certainty, farness)

    def read(self, name: str) -> bytes:
        """Return the bytes of one of the bundle's files, which are those the manifest knows; raises BundleError."""
        path, about = self.path / name, self.manifest["files"][name]
        if not self.container.holds(name):
            raise BundleError(path, "does not exist", "a file of the bundle", "export again")
        data = self.container.read(name, MOST_FILE_BYTES)
        if hashlib.sha256(data).hexdigest() != about["sha256"]:
            raise BundleError(path, "was changed (its SHA-256 is not the manifest's)", action="export again")
        if len(data) != about.get("bytes", len(data)):
            raise BundleError(path, f"has {len(data):,} bytes", f"{about['bytes']:,}, as the manifest says")
        return data

    def farness(self) -> Farness | None:
        """Return what measures how far a beat is from typical ones, where the bundle has it; raises BundleError."""
        far = far_rule_in(self.manifest)
        return None if far is None else Farness(self._graph(far.graph), far.threshold)

    def _graph(self, name: str) -> Graph:
        graph = check_graph(self.path / name, self.read(name))
        self._binding.check(name, graph.path, graph.metadata)
        self._binding.check_facts(name, graph.path, facts_of(graph))
        return graph

    def verify(self) -> None:
        """Read every file and compare it with the manifest, graphs by what they say of themselves too.

        Raises:
            BundleError: a file that is missing, was changed, or does not belong to this manifest.
        """
        for name in self.manifest["files"]:
            data = self.read(name)
            if name.endswith(GRAPH):
                self._binding.check(name, self.path / name, outside_of(self.path / name, data).metadata)


def open_bundle(
    path: Path | str, *, verify: bool = True, trusted: Path | str | Sequence[Path | str] | None = None
) -> Bundle:
    """Open a bundle: a folder, or a zip file of its files.

    Args:
        path: the folder or the zip file.
        verify: read every file now and compare it with the manifest; else each one when it is used.
        trusted: public keys (PEM files), one of which has to have signed it; None takes any bundle.

    Raises:
        BundleError: no manifest, another schema version, a missing or changed file, a manifest that its graphs or this
            ecgfed disagree with, a signature that does not hold; with ``trusted``, none, or another key's.
        OptionError: a trusted key that cannot be read.
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
