"""Opening a bundle, checking every file, and classifying beats with it."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import Windows, windows_around
from ecgfed.beats.labels import LabelMap
from ecgfed.beats.windows import RR_FEATURES, WINDOW_SAMPLES
from ecgfed.device.predictions import Predictions
from ecgfed.errors import BundleError, RecordError
from ecgfed.files import read_folder_document, sha256
from ecgfed.record.leads import leads_in
from ecgfed.signal.quality import LeadQuality
from ecgfed.text import shortened

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
#: Beats a graph is given at once: bounds memory, and is as fast as more on one core.
BATCH = 256
#: One image of a bundle that was trained on images.
IMAGE_SHAPE = (3, 32, 32)


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float32]:
    """Probabilities (beats, classes) of logits, computed stably."""
    shifted = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(np.float64))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float32)


def _real_numbers(name: str, values: NDArray[Any], unit: str) -> NDArray[np.float32]:
    """Return finite floating-point values as float32; raises RecordError for anything else."""
    if not np.issubdtype(values.dtype, np.floating):
        raise RecordError(name, f"values of type {values.dtype}", f"{unit} in float32")
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused here
        values = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise RecordError(name, "values that are not finite", "finite values")
    return values


class Classifier:
    """A chain of graphs: windows in, class probabilities out.

    Args:
        paths: ONNX files, applied one after the other.
        classes: class names in order.
        rr: whether the first graph takes RR features.
    """

    def __init__(self, paths: list[Path], classes: tuple[str, ...], rr: bool) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.classes, self.rr = classes, rr
        self.sessions = []
        for path in paths:
            try:
                session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            except Exception as problem:  # onnxruntime raises kinds of its own
                found = f"is no graph onnxruntime can run ({problem})"
                raise BundleError(path, found, action="export it again") from problem
            self.sessions.append(session)

    def logits(self, window_mv: NDArray[np.float32], rr_s: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return logits (beats, classes).

        Args:
            window_mv: (beats, 1, 256) millivolt at 360 Hz, filtered, not normalised.
            rr_s: (beats, 4) RR features, for a net that takes them.

        Raises:
            RecordError: another shape, whole numbers (which are a recorder's units and no millivolt), or values that
                are not finite (a graph would pass NaN on in silence).
        """
        window_mv = np.asarray(window_mv)
        if window_mv.ndim != 3 or window_mv.shape[1:] != (1, WINDOW_SAMPLES):
            raise RecordError("window", f"shape {window_mv.shape}", f"(beats, 1, {WINDOW_SAMPLES})")
        feeds = {"window": _real_numbers("window", window_mv, "millivolt")}
        if self.rr:
            if rr_s is None:
                raise RecordError("rr", "is missing", f"shape ({len(window_mv)}, {len(RR_FEATURES)}) for this net")
            rr_s = np.asarray(rr_s)
            if rr_s.shape != (len(window_mv), len(RR_FEATURES)):
                raise RecordError("rr", f"shape {rr_s.shape}", f"({len(window_mv)}, {len(RR_FEATURES)}) for this net")
            feeds["rr"] = _real_numbers("rr", rr_s, "seconds")
        return self._in_batches(feeds, len(window_mv))

    def image_logits(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return logits (images, classes) of a bundle of images, for pixels (images, 3, 32, 32) uint8.

        Raises:
            RecordError: another shape or type.
        """
        if image.dtype != np.uint8 or image.ndim != 4 or image.shape[1:] != IMAGE_SHAPE:
            raise RecordError("image", f"{image.dtype} of shape {image.shape}", f"uint8 (images, {IMAGE_SHAPE})")
        return self._in_batches({"image": np.ascontiguousarray(image)}, len(image))

    def _in_batches(self, feeds: dict[str, NDArray[Any]], count: int) -> NDArray[np.float32]:
        wanted = [entry.name for entry in self.sessions[0].get_inputs()]
        if not set(wanted) <= set(feeds):
            raise RecordError("inputs", f"are {', '.join(feeds)}", f"{', '.join(wanted)} for this bundle")
        parts = [self._run({k: v[i : i + BATCH] for k, v in feeds.items()}) for i in range(0, count, BATCH)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes)), np.float32)

    def _run(self, feeds: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        for session in self.sessions:
            (value,) = session.run(None, {entry.name: feeds[entry.name] for entry in session.get_inputs()})
            feeds = {session.get_outputs()[0].name: value}
        return np.asarray(value, dtype=np.float32)

    def predict(
        self,
        signal_mv: NDArray[np.floating],
        fs_hz: float,
        r_samples: NDArray[np.int64],
        quality: LeadQuality | None = None,
    ) -> Predictions:
        """Classify the beats of a recording as it was recorded.

        Args:
            signal_mv: (samples,) one lead in millivolt, NaN where there is no sample.
            fs_hz: its sampling frequency in Hz.
            r_samples: (beats,) int64 increasing positions of *all* R peaks, since RR intervals count.
            quality: the lead's bad stretches, where they are known already; they decide the flags.

        Raises:
            RecordError: a signal that is not one lead, or R peaks out of order or outside it.
        """
        signal_mv, r_samples = np.asarray(signal_mv), np.asarray(r_samples, dtype=np.int64)
        if signal_mv.ndim != 1 or not len(signal_mv):
            raise RecordError("signal", f"shape {signal_mv.shape}", "(samples,) of one lead")
        if r_samples.ndim != 1 or (np.diff(r_samples, prepend=0) < 0).any() or (r_samples >= len(signal_mv)).any():
            raise RecordError("R peaks", "are not in order inside the signal", f"increasing, 0 to {len(signal_mv) - 1}")
        windows = windows_around(signal_mv, fs_hz, r_samples, quality)
        return replace(self.classify(windows), sample=r_samples, fs_hz=fs_hz)

    def classify(self, windows: Windows) -> Predictions:
        """Classify beats that have been cut (``ecgfed.beats``); raises RecordError as ``logits`` does."""
        probability = softmax(self.logits(windows.window_mv, windows.rr_s))
        return Predictions(probability.argmax(1), probability, windows.flags, self.classes)

    def __repr__(self) -> str:
        rr = ", with RR features" if self.rr else ""
        return f"Classifier({len(self.sessions)} graphs, {len(self.classes)} classes{rr})"


@dataclass(frozen=True, repr=False, eq=False)
class Bundle:
    """An opened bundle, its files verified.

    Attributes:
        path: its folder.
        manifest: the contents of ``manifest.json``.
    """

    path: Path
    manifest: dict[str, Any]

    def __repr__(self) -> str:
        who = f"{len(self.patients)} patients, {len(self.classes)} classes"
        return f"Bundle({str(self.path)!r}: {shortened(str(self.manifest['method']), 60)}, {who})"

    @cached_property
    def labels(self) -> LabelMap:
        """Classes and the WFDB symbols behind them."""
        return LabelMap.from_json(self.manifest["label_map"])

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in order."""
        return self.labels.classes

    @property
    def modality(self) -> str:
        """``ecg``, or ``image`` of a bundle that takes no recordings."""
        return str(self.manifest.get("modality", "ecg"))

    def require_ecg(self) -> None:
        """Raise BundleError where this bundle is of images."""
        if self.modality != "ecg":
            raise BundleError(self.path, "was trained on images", "a bundle of ECG beats", "it takes no recording")

    @property
    def leads(self) -> tuple[str, ...]:
        """The lead names it was trained on, in order of preference."""
        return leads_in(self.manifest)

    @property
    def patients(self) -> tuple[str, ...]:
        """Ids of the patients who have a personal model."""
        return tuple(self.manifest["patients"])

    def classifier(self, patient: str | None = None) -> Classifier:
        """Return a patient's classifier, or the global one.

        Raises:
            BundleError: a patient the bundle does not know; the line lists those it knows.
        """
        if patient is None:
            chain = self.manifest["global"]["chain"]
        elif patient in self.manifest["patients"]:
            chain = self.manifest["patients"][patient]["chain"]
        else:
            raise BundleError(
                self.path,
                f"has no patient {patient!r}",
                f"one of {', '.join(self.patients)}",
                "leave --patient out for the global model",
            )
        return Classifier([self.path / name for name in chain], self.classes, "rr" in self.manifest["inputs"])


def open_bundle(path: Path | str, *, verify: bool = True) -> Bundle:
    """Open a bundle folder.

    Args:
        path: the folder.
        verify: compare every file's SHA-256 with the manifest's.

    Raises:
        BundleError: no manifest, another schema version, a missing or changed file.
    """
    path = Path(path)
    manifest = read_folder_document(
        path, MANIFEST, SCHEMA_VERSION, BundleError, what="a bundle", command="ecgfed export"
    )
    bundle = Bundle(path, manifest)
    try:
        files = {str(name): str(about["sha256"]) for name, about in manifest["files"].items()}
        chains = [manifest["global"]["chain"], *(entry["chain"] for entry in manifest["patients"].values())]
        known = all(isinstance(chain, list) and chain and set(chain) <= set(files) for chain in chains)
        inside = all(not Path(name).is_absolute() and ".." not in Path(name).parts for name in files)
        ecg = bundle.modality == "ecg"
        needed = {"inputs", "method", "intended_use"} - set(manifest)
        if ecg:
            leads_in(manifest)
        nameless = set(bundle.classes) - set(bundle.labels.symbols.values()) if ecg else set()
        if needed or nameless:
            raise KeyError(", ".join(sorted(needed)) or f"a symbol for class {', '.join(sorted(nameless))}")
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise BundleError(path / MANIFEST, f"lacks {problem}", action="export again") from problem
    if not known or not inside:
        raise BundleError(path / MANIFEST, "names files that are not the bundle's", action="export again")
    for name, digest in files.items():
        if not (path / name).is_file():
            raise BundleError(path / name, "does not exist", "a file of the bundle", "export again")
        if verify and sha256(path / name) != digest:
            raise BundleError(path / name, "was changed (its SHA-256 is not the manifest's)", action="export again")
    return bundle
