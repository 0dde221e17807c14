"""Golden vectors: a synthetic recording, the output of each preprocessing stage, and of every model of a bundle.

Other implementations of the runtime compare each stage with ``golden.json``; ``check_golden`` does so for this one.
Every stage starts from the stored output of the previous stage, so that the first difference identifies the faulty
stage. Signals are integers in nanovolt (nV, a millionth of a mV), which are exact in every language.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import BundleError, EcgfedError
from ecgfed.base.safe_io import MAX_JSON_BYTES, parse_json
from ecgfed.base.text import count_of
from ecgfed.domain.beats.context_stream import context_features
from ecgfed.domain.beats.extract import hides_signal
from ecgfed.domain.beats.intervals import intervals_s
from ecgfed.domain.beats.windows import (
    FS_HZ,
    IN_STRIP,
    STRIP_SAMPLES,
    WINDOW_SAMPLES,
    beside_of,
    cut_beside,
    cut_windows,
    resample,
    rr_features,
)
from ecgfed.domain.record.checks import check_fs
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.filters import band_pass, fill_gaps
from ecgfed.domain.signal.peaks import detect_around_gaps
from ecgfed.domain.signal.quality import NO_SIGNAL
from ecgfed.domain.signal.spans import Spans
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.classifier import Classifier, softmax
from ecgfed.exports.device.graph import AT_ONCE
from ecgfed.exports.device.manifest import GOLDEN, models_in

#: Format version of ``golden.json``.
VERSION = 1
NV_A_MV = 1_000_000
#: Tolerances between machines: signals in nV, features, logits (relative to 100 beyond that), probabilities, distances.
SIGNAL_NV, FEATURE, LOGIT, PROBABILITY, DISTANCE = 2.0, 2e-5, 1e-4, 1e-4, 1e-4
#: Tolerances of int8 variants: ONNX Runtime versions may round ties differently (docs/int8.md).
INT8_LOGIT, INT8_PROBABILITY = 0.2, 0.02
#: Decimal places of features, logits, probabilities and distances.
DIGITS = 6
LARGE_LOGIT = 100.0
#: Maximum number of beats in golden vectors, because each expands to a window of 256 samples.
MAX_BEATS = 100_000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GoldenStage:
    """Result of one stage of a check.

    Attributes:
        name: the stage and its input.
        difference: largest difference from the stored values; infinite if shapes differ.
        tolerance: largest accepted difference.
        unit: of both.
    """

    name: str
    difference: float
    tolerance: float
    unit: str

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.difference <= self.tolerance


@dataclass(frozen=True)
class GoldenCheck:
    """Result of a check: all stages in order."""

    stages: tuple[GoldenStage, ...]

    @property
    def first(self) -> GoldenStage | None:
        """The first stage that differs; None if all agree."""
        return next((stage for stage in self.stages if not stage.agrees), None)

    @property
    def agrees(self) -> bool:
        """Whether all stages agree."""
        return self.first is None

    def __str__(self) -> str:
        if (bad := self.first) is None:
            return f"all {len(self.stages)} stages agree with the golden vectors"
        by = f"{bad.difference:.2g} {bad.unit}".rstrip()
        return (
            f"differs from the golden vectors first at: {bad.name}, by {by}; at most {bad.tolerance:g} is let through"
        )


def in_nv(signal_mv: NDArray[np.floating]) -> list[Any]:
    """Convert millivolt to integer nanovolt, JSON-ready."""
    return list(np.rint(np.asarray(signal_mv, np.float64) * NV_A_MV).astype(np.int64).tolist())


def from_nv(values: object) -> Floats:
    """Convert integer nanovolt to millivolt."""
    return np.asarray(values, np.float64) / NV_A_MV


class GoldenRecording:
    """A golden recording: its lead, and each preprocessing stage computed by this version of ecgfed.

    Args:
        entry: ``fs_hz``, ``gain_adu_per_mv``, ``baseline_adu`` and ``adu`` (None for missing samples).

    Raises:
        RecordError: an implausible sampling frequency, because the filter has four seconds of taps.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        check_fs(entry["fs_hz"], "golden", f"{entry['fs_hz']!r:.40}", "")
        self.fs_hz = float(entry["fs_hz"])
        adu = np.array([np.nan if value is None else value for value in entry["adu"]], np.float64)
        self.signal_mv = (adu - entry["baseline_adu"]) / entry["gain_adu_per_mv"]

    def filtered(self) -> Floats:
        """Return the lead with gaps bridged, band-passed, (samples,) mV."""
        return band_pass(fill_gaps(self.signal_mv)[0], self.fs_hz)

    def resampled(self, filtered_mv: Floats) -> Floats:
        """Return the filtered lead at 360 Hz."""
        return resample(filtered_mv, self.fs_hz)

    def lost(self) -> list[list[int]]:
        """Return start and stop of the intervals without signal."""
        return [list(span) for span in lead_quality(self.signal_mv, self.fs_hz).spans(NO_SIGNAL)]

    def peaks(self) -> Ints:
        """Return the detected R peaks."""
        return detect_around_gaps(self.signal_mv, self.fs_hz, lead_quality(self.signal_mv, self.fs_hz))

    def windows(self, resampled_mv: Floats, r_samples: Ints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return windows (beats, 1, 256) mV, and which of them are padded."""
        return cut_windows(resampled_mv, self._resampled_peaks(resampled_mv, r_samples))

    def _resampled_peaks(self, resampled_mv: Floats, r_samples: Ints) -> Ints:
        at = np.rint(r_samples * (FS_HZ / self.fs_hz)).astype(np.int64)
        return np.asarray(np.clip(at, 0, len(resampled_mv) - 1))

    def rr(
        self,
        version: int,
        r_samples: Ints,
        window_mv: NDArray[np.float32],
        padded: NDArray[np.bool_],
        lost: Any,
        resampled_mv: Floats,
    ) -> NDArray[np.float32]:
        """Return RR features (beats, features); of ``resampled_mv`` version 3 takes what lies beside the windows."""
        if version == 1:
            return rr_features(r_samples / self.fs_hz)
        spans = Spans.merged((int(a), int(b)) for a, b in lost)
        unusable = hides_signal(padded, self.fs_hz, r_samples, spans)
        beside_mv = cut_beside(resampled_mv, self._resampled_peaks(resampled_mv, r_samples)) if version == 3 else None
        interval_s = intervals_s(r_samples, self.fs_hz, spans)
        return context_features(interval_s, window_mv, ~unusable, version, beside_mv)


def window_of(entry: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return a golden recording's windows (beats, 1, 256) float32 mV, as the graphs take them."""
    return from_nv(entry["window_nv"]).astype(np.float32).reshape(-1, 1, WINDOW_SAMPLES)


def rr_of(entry: Mapping[str, Any]) -> NDArray[np.float32] | None:
    """Return a golden recording's RR features (beats, features) float32, or None if the graphs take none."""
    return np.asarray(entry["rr"], np.float32) if "rr" in entry else None


def context_of(entry: Mapping[str, Any], version: int) -> NDArray[np.float32]:
    """Return the RR features, version 2 or 3, of the beats listed in ``answered``, for beats composed of a few shapes.

    Args:
        entry: ``before_ms`` (None if undefined), ``shapes_nv``, ``parts_per_mille`` of each shape in each window,
            ``usable`` and ``answered``.
        version: of the RR features; with 3 the shapes are of 576 samples, the window in their middle.
    """
    before_s = np.array([np.nan if value is None else value / 1000 for value in entry["before_ms"]], np.float64)
    samples, inner = (STRIP_SAMPLES, IN_STRIP) if version == 3 else (WINDOW_SAMPLES, slice(None))
    shapes_nv = np.asarray(entry["shapes_nv"], np.float64).reshape(-1, samples)
    around_nv = np.asarray(_of_beats(entry["parts_per_mille"]), np.float64) @ shapes_nv / 1000
    around_mv = from_nv(around_nv).astype(np.float32)
    beside_mv = beside_of(around_mv) if version == 3 else None
    usable = np.asarray(entry["usable"], np.bool_)
    window_mv = around_mv[:, None, inner]
    features = context_features(np.append(before_s, np.nan), window_mv, usable, version, beside_mv)
    return features[np.asarray(entry["answered"], np.int64)]


def _of_beats(values: Sequence[Any]) -> Sequence[Any]:
    """Return a list with an entry per beat; raises ValueError if it is longer than ``MAX_BEATS``."""
    if len(values) > MAX_BEATS:
        raise ValueError(count_of(len(values), "beat"))
    return values


def beats_of(recordings: Sequence[Mapping[str, Any]]) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return windows and RR features of all beats of golden recordings, in order."""
    rr = [features for features in map(rr_of, recordings) if features is not None]
    return np.concatenate(list(map(window_of, recordings))), np.concatenate(rr) if rr else None


def model_output(classifier: Classifier, examples: NDArray[Any], rr: NDArray[np.float32] | None) -> dict[str, Any]:
    """Return a model's output for beats or images, JSON-ready: logits, top probability, label, low confidence."""
    image = examples.dtype == np.uint8
    logits = classifier.image_logits(examples) if image else classifier.logits(examples, rr)
    probability = softmax(logits / np.float32(classifier.calibration.temperature))
    best = probability.max(axis=1)
    return {
        "logits": rounded(logits),
        "probability": rounded(best),
        "label": probability.argmax(axis=1).tolist(),
        "unsure": classifier.calibration.low_confidence(best).astype(int).tolist(),
    }


def rounded(values: NDArray[np.floating]) -> list[Any]:
    """Round numbers to the precision of golden vectors."""
    return list(np.round(np.asarray(values, np.float64), DIGITS).tolist())


def check_golden(bundle: Bundle) -> GoldenCheck:
    """Recompute a bundle's golden vectors with this code and ONNX Runtime, and compare.

    Args:
        bundle: an open bundle.

    Returns:
        All stages with their largest differences; ``first`` is the first faulty one.

    Raises:
        BundleError: a bundle of version 1, which has no golden vectors, or malformed ones.
    """
    name = bundle.manifest.get(GOLDEN)
    if name is None:
        raise BundleError(bundle.path, "holds no golden vectors", "a bundle of version 2", "export the run again")
    path, data = bundle.path / name, bundle.read(name)
    try:
        if len(data) > MAX_JSON_BYTES:
            raise ValueError(f"{len(data):,} bytes")
        golden = parse_json(data)
        with np.errstate(all="ignore"):
            return GoldenCheck(
                tuple(_images(bundle, golden) if bundle.modality == "image" else _stages(bundle, golden))
            )
    except EcgfedError as problem:
        if isinstance(problem, BundleError):
            raise
        raise BundleError(path, f"is not of its form ({problem.marked})", action="export it again") from problem
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError) as problem:
        raise BundleError(path, f"is not of its form ({problem!r:.100})", action="export it again") from problem


def _stages(bundle: Bundle, golden: Mapping[str, Any]) -> Iterator[GoldenStage]:
    for entry in golden["recordings"]:
        recording = GoldenRecording(entry)
        of = f"of {entry['name']!s:.40}"
        yield _compared(f"filtered signal {of}", in_nv(recording.filtered()), entry["filtered_nv"], SIGNAL_NV, "nV")
        filtered = from_nv(entry["filtered_nv"])
        at_360 = entry.get("resampled_nv", entry["filtered_nv"])
        yield _compared(f"signal at 360 Hz {of}", in_nv(recording.resampled(filtered)), at_360, SIGNAL_NV, "nV")
        yield _compared(f"lost stretches {of}", recording.lost(), entry["lost"], 0, "samples")
        yield _compared(f"R peaks {of}", recording.peaks(), entry["r_samples"], 0, "samples")
        peaks = np.asarray(_of_beats(entry["r_samples"]), np.int64)
        window_mv, padded = recording.windows(from_nv(at_360), peaks)
        yield _compared(f"windows {of}", in_nv(window_mv[:, 0]), entry["window_nv"], SIGNAL_NV, "nV")
        yield _compared(f"padded windows {of}", padded.astype(int), entry["padded"], 0, "")
        if bundle.rr_version:
            padded = np.asarray(entry["padded"], np.bool_)
            rr_features = recording.rr(
                bundle.rr_version, peaks, window_of(entry), padded, entry["lost"], from_nv(at_360)
            )
            yield _compared(f"RR features {of}", rr_features, entry["rr"], FEATURE, "")
    if bundle.rr_version >= 2:
        context = golden["context"]
        yield _compared("RR features over minutes", context_of(context, bundle.rr_version), context["rr"], FEATURE, "")
    window_mv, rr = beats_of(golden["recordings"])
    if (detector := bundle.ood_detector()) is not None:
        distance = detector.distance(window_mv, AT_ONCE)
        yield _compared("distance from typical beats", distance, golden["far"]["distance"], DISTANCE, "")
    yield from _model_stages(bundle, golden, window_mv, rr)


def _images(bundle: Bundle, golden: Mapping[str, Any]) -> Iterator[GoldenStage]:
    pixels = np.asarray(golden["images"])
    if pixels.dtype.kind not in "iu" or not ((pixels >= 0) & (pixels <= 255)).all():
        raise ValueError("pixels from 0 to 255")
    yield from _model_stages(bundle, golden, pixels.astype(np.uint8), None)


def _model_stages(
    bundle: Bundle, golden: Mapping[str, Any], examples: NDArray[Any], rr: NDArray[np.float32] | None
) -> Iterator[GoldenStage]:
    for client, variant, _ in models_in(bundle.manifest):
        recorded = golden["global"] if client is None else golden["patients"][client]
        some = np.asarray(golden["answered"]["global" if client is None else "patients"], np.int64)
        classifier = bundle.classifier(client, int8=variant == "int8")
        output = model_output(classifier, examples[some], None if rr is None else rr[some])
        of = ("of the global model" if client is None else f"of {client}") + (", int8" if variant == "int8" else "")
        logit, likely = (INT8_LOGIT, INT8_PROBABILITY) if variant == "int8" else (LOGIT, PROBABILITY)
        expected = recorded[variant]
        yield _compared(f"logits {of}", output["logits"], expected["logits"], logit, "", scaled_logits)
        yield _compared(f"probability {of}", output["probability"], expected["probability"], likely, "")
        yield _compared(f"labels {of}", output["label"], expected["label"], 0, "")


def scaled_logits(difference: Floats, expected: Floats) -> Floats:
    """Scale differences of logits: beyond 100, a difference is divided by a hundredth of the logit."""
    return np.asarray(difference / np.maximum(np.abs(expected) / LARGE_LOGIT, 1.0))


def _compared(
    name: str,
    computed: object,
    recorded: object,
    tolerance: float,
    unit: str,
    scaled: Callable[[Floats, Floats], Floats] = lambda difference, _: difference,
) -> GoldenStage:
    values, expected = np.asarray(computed, np.float64), np.asarray(recorded, np.float64)
    if values.shape != expected.shape and not values.size == expected.size == 0:
        return GoldenStage(name, float("inf"), tolerance, unit)
    differences = scaled(np.abs(values - expected), expected) if values.size else np.zeros(1)
    worst = float(differences.max())
    return GoldenStage(name, worst if worst == worst else float("inf"), tolerance, unit)
