"""Golden vectors: a synthetic recording, what each stage makes of it, and what every model of the bundle answers.

Whoever writes the runtime anew compares stage by stage with ``golden.json``; ``check_golden`` does it with this
machine's own. Every stage takes what stands there of the stage before, so that the first one that differs is the one at
fault. Signals stand in whole nanovolt (nV, a millionth of a mV): whole numbers are the same in every language.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.context import context_features
from ecgfed.beats.extract import hides_signal
from ecgfed.beats.rr import beats_in_time
from ecgfed.beats.windows import FS_HZ, WINDOW_SAMPLES, cut_windows, resample
from ecgfed.device.bundle import Bundle
from ecgfed.device.classifier import Classifier, softmax
from ecgfed.device.graph import AT_ONCE
from ecgfed.device.manifest import GOLDEN, models_in
from ecgfed.errors import BundleError, EcgfedError
from ecgfed.gate import MAX_JSON_BYTES, parse_json
from ecgfed.record.checks import check_fs
from ecgfed.signal.around_gaps import detect_around_gaps
from ecgfed.signal.block_quality import lead_quality
from ecgfed.signal.filters import band_pass, fill_gaps
from ecgfed.signal.quality import NO_SIGNAL
from ecgfed.signal.spans import Spans
from ecgfed.text import count_of

#: Of the form of ``golden.json``.
VERSION = 1
NV_A_MV = 1_000_000
#: What may differ from machine to machine, by stage: signals in nV, features as numbers, logits (of one beyond 100 that
#: share of it), probabilities, distances.
SIGNAL_NV, FEATURE, LOGIT, PROBABILITY, DISTANCE = 2.0, 2e-5, 1e-4, 1e-4, 1e-4
#: Of an int8 form: a value in the middle between two steps may go to either, in another ONNX Runtime (docs/int8.md).
INT8_LOGIT, INT8_PROBABILITY = 0.2, 0.02
#: Digits behind the point that features, logits, probabilities and distances are written with.
DIGITS = 6
LARGE_LOGIT = 100.0
#: Beats that golden vectors may name at once: of each a window is made here, 256 numbers of one in the file.
MOST_BEATS = 100_000

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """One stage of a check.

    Attributes:
        name: what was computed, and of what.
        difference: the largest difference from what the bundle says; infinite where another number of values came out.
        tolerance: the largest one that is let through.
        unit: of both.
    """

    name: str
    difference: float
    tolerance: float
    unit: str

    @property
    def agrees(self) -> bool:
        """Whether the difference is let through."""
        return self.difference <= self.tolerance


@dataclass(frozen=True)
class GoldenCheck:
    """What a check found: every stage in order."""

    stages: tuple[Stage, ...]

    @property
    def first(self) -> Stage | None:
        """The first stage that differs; None where all agree."""
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
    """Return millivolt as whole nanovolt, JSON-ready."""
    return list(np.rint(np.asarray(signal_mv, np.float64) * NV_A_MV).astype(np.int64).tolist())


def from_nv(values: object) -> Floats:
    """Return whole nanovolt as millivolt."""
    return np.asarray(values, np.float64) / NV_A_MV


class Recorded:
    """One golden recording: its lead, and each stage of what this ecgfed makes of it.

    Args:
        said: ``fs_hz``, ``gain_adu_per_mv``, ``baseline_adu`` and ``adu`` (None where there is no sample).

    Raises:
        RecordError: a sampling frequency that no ECG is recorded at: the filter has four seconds of taps.
    """

    def __init__(self, said: Mapping[str, Any]) -> None:
        check_fs(said["fs_hz"], "golden", f"{said['fs_hz']!r:.40}", "")
        self.fs_hz = float(said["fs_hz"])
        adu = np.array([np.nan if one is None else one for one in said["adu"]], np.float64)
        self.signal_mv = (adu - said["baseline_adu"]) / said["gain_adu_per_mv"]

    def filtered(self) -> Floats:
        """The lead bridged and band-passed, (samples,) mV."""
        return band_pass(fill_gaps(self.signal_mv)[0], self.fs_hz)

    def resampled(self, filtered_mv: Floats) -> Floats:
        """The same at 360 Hz."""
        return resample(filtered_mv, self.fs_hz)

    def lost(self) -> list[list[int]]:
        """Start and stop of the stretches where the lead shows nothing."""
        return [list(span) for span in lead_quality(self.signal_mv, self.fs_hz).spans(NO_SIGNAL)]

    def peaks(self) -> Ints:
        """The R peaks that the detector finds."""
        return detect_around_gaps(self.signal_mv, self.fs_hz, lead_quality(self.signal_mv, self.fs_hz))

    def windows(self, resampled_mv: Floats, r_samples: Ints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Windows (beats, 1, 256) mV, and which are padded."""
        at = np.rint(r_samples * (FS_HZ / self.fs_hz)).astype(np.int64)
        return cut_windows(resampled_mv, np.clip(at, 0, len(resampled_mv) - 1))

    def rr(
        self, version: int, r_samples: Ints, window_mv: NDArray[np.float32], padded: NDArray[np.bool_], lost: Any
    ) -> NDArray[np.float32]:
        """RR features (beats, features)."""
        spans = Spans.merged((int(a), int(b)) for a, b in lost)
        unusable = hides_signal(padded, self.fs_hz, r_samples, spans)
        return beats_in_time(version, r_samples, self.fs_hz, window_mv, unusable, spans)


def window_of(said: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return a golden recording's windows (beats, 1, 256) float32 mV, as the graphs take them."""
    return from_nv(said["window_nv"]).astype(np.float32).reshape(-1, 1, WINDOW_SAMPLES)


def rr_of(said: Mapping[str, Any]) -> NDArray[np.float32] | None:
    """Return a golden recording's RR features (beats, features) float32, None where the graphs take none."""
    return np.asarray(said["rr"], np.float32) if "rr" in said else None


def context_of(said: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return the RR features, version 2, of the beats that are ``answered`` among many that are made of few shapes.

    Args:
        said: ``before_ms`` (None where void), ``shapes_nv``, ``parts_per_mille`` of each shape in each beat's window,
            ``usable`` and ``answered``.
    """
    before_s = np.array([np.nan if one is None else one / 1000 for one in said["before_ms"]], np.float64)
    shapes_nv = np.asarray(said["shapes_nv"], np.float64).reshape(-1, WINDOW_SAMPLES)
    window_nv = np.asarray(_of_beats(said["parts_per_mille"]), np.float64) @ shapes_nv / 1000
    window_mv = from_nv(window_nv).astype(np.float32).reshape(-1, 1, WINDOW_SAMPLES)
    usable = np.asarray(said["usable"], np.bool_)
    return context_features(np.append(before_s, np.nan), window_mv, usable)[np.asarray(said["answered"], np.int64)]


def _of_beats(said: Sequence[Any]) -> Sequence[Any]:
    """Return a list that has an entry for each beat; raises ValueError where it has more than anybody's."""
    if len(said) > MOST_BEATS:
        raise ValueError(count_of(len(said), "beat"))
    return said


def beats_of(recordings: Sequence[Mapping[str, Any]]) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return windows and RR features of the beats of all golden recordings, in order."""
    rr = [one for one in map(rr_of, recordings) if one is not None]
    return np.concatenate(list(map(window_of, recordings))), np.concatenate(rr) if rr else None


def answer_of(classifier: Classifier, examples: NDArray[Any], rr: NDArray[np.float32] | None) -> dict[str, Any]:
    """Return what a model says of some beats or images, JSON-ready: logits, the label's probability, label, doubt."""
    image = examples.dtype == np.uint8
    logits = classifier.image_logits(examples) if image else classifier.logits(examples, rr)
    probability = softmax(logits / np.float32(classifier.certainty.temperature))
    best = probability.max(axis=1)
    return {
        "logits": rounded(logits),
        "probability": rounded(best),
        "label": probability.argmax(axis=1).tolist(),
        "unsure": classifier.certainty.uncertain(best).astype(int).tolist(),
    }


def rounded(values: NDArray[np.floating]) -> list[Any]:
    """Return numbers with as many digits as golden vectors have."""
    return list(np.round(np.asarray(values, np.float64), DIGITS).tolist())


def check_golden(bundle: Bundle) -> GoldenCheck:
    """Compute all of a bundle's golden vectors again, with this machine's code and ONNX Runtime, and compare.

    Args:
        bundle: opened.

    Returns:
        Every stage with its largest difference; ``first`` is the one at fault.

    Raises:
        BundleError: a bundle of version 1, which holds none, or golden vectors that are not of their form.
    """
    name = bundle.manifest.get(GOLDEN)
    if name is None:
        raise BundleError(bundle.path, "holds no golden vectors", "a bundle of version 2", "export the run again")
    path, data = bundle.path / name, bundle.read(name)
    try:
        if len(data) > MAX_JSON_BYTES:
            raise ValueError(f"{len(data):,} bytes")
        said = parse_json(data)
        with np.errstate(all="ignore"):
            return GoldenCheck(tuple(_images(bundle, said) if bundle.modality == "image" else _stages(bundle, said)))
    except EcgfedError as problem:
        if isinstance(problem, BundleError):
            raise
        raise BundleError(path, f"is not of its form ({problem.line})", action="export it again") from problem
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError) as problem:
        raise BundleError(path, f"is not of its form ({problem!r:.100})", action="export it again") from problem


def _stages(bundle: Bundle, said: Mapping[str, Any]) -> Iterator[Stage]:
    for one in said["recordings"]:
        here = Recorded(one)
        of = f"of {one['name']!s:.40}"
        yield _compared(f"filtered signal {of}", in_nv(here.filtered()), one["filtered_nv"], SIGNAL_NV, "nV")
        filtered = from_nv(one["filtered_nv"])
        at_360 = one.get("resampled_nv", one["filtered_nv"])
        yield _compared(f"signal at 360 Hz {of}", in_nv(here.resampled(filtered)), at_360, SIGNAL_NV, "nV")
        yield _compared(f"lost stretches {of}", here.lost(), one["lost"], 0, "samples")
        yield _compared(f"R peaks {of}", here.peaks(), one["r_samples"], 0, "samples")
        peaks = np.asarray(_of_beats(one["r_samples"]), np.int64)
        window_mv, padded = here.windows(from_nv(at_360), peaks)
        yield _compared(f"windows {of}", in_nv(window_mv[:, 0]), one["window_nv"], SIGNAL_NV, "nV")
        yield _compared(f"padded windows {of}", padded.astype(int), one["padded"], 0, "")
        if bundle.rr_version:
            padded = np.asarray(one["padded"], np.bool_)
            made = here.rr(bundle.rr_version, peaks, window_of(one), padded, one["lost"])
            yield _compared(f"RR features {of}", made, one["rr"], FEATURE, "")
    if bundle.rr_version == 2:
        context = said["context"]
        yield _compared("RR features over minutes", context_of(context), context["rr"], FEATURE, "")
    window_mv, rr = beats_of(said["recordings"])
    if (farness := bundle.farness()) is not None:
        distance = farness.distance(window_mv, AT_ONCE)
        yield _compared("distance from typical beats", distance, said["far"]["distance"], DISTANCE, "")
    yield from _answers(bundle, said, window_mv, rr)


def _images(bundle: Bundle, said: Mapping[str, Any]) -> Iterator[Stage]:
    pixels = np.asarray(said["images"])
    if pixels.dtype.kind not in "iu" or not ((pixels >= 0) & (pixels <= 255)).all():
        raise ValueError("pixels from 0 to 255")
    yield from _answers(bundle, said, pixels.astype(np.uint8), None)


def _answers(
    bundle: Bundle, said: Mapping[str, Any], examples: NDArray[Any], rr: NDArray[np.float32] | None
) -> Iterator[Stage]:
    for client, form, _ in models_in(bundle.manifest):
        answers = said["global"] if client is None else said["patients"][client]
        some = np.asarray(said["answered"]["global" if client is None else "patients"], np.int64)
        classifier = bundle.classifier(client, int8=form == "int8")
        found = answer_of(classifier, examples[some], None if rr is None else rr[some])
        of = ("of the global model" if client is None else f"of {client}") + (", int8" if form == "int8" else "")
        logit, likely = (INT8_LOGIT, INT8_PROBABILITY) if form == "int8" else (LOGIT, PROBABILITY)
        told = answers[form]
        yield _compared(f"logits {of}", found["logits"], told["logits"], logit, "", scaled_logits)
        yield _compared(f"probability {of}", found["probability"], told["probability"], likely, "")
        yield _compared(f"labels {of}", found["label"], told["label"], 0, "")


def scaled_logits(difference: Floats, expected: Floats) -> Floats:
    """Return differences of logits, those of a logit beyond 100 as a hundred times their share of it."""
    return np.asarray(difference / np.maximum(np.abs(expected) / LARGE_LOGIT, 1.0))


def _compared(
    name: str,
    found: object,
    said: object,
    tolerance: float,
    unit: str,
    scaled: Callable[[Floats, Floats], Floats] = lambda difference, _: difference,
) -> Stage:
    one, other = np.asarray(found, np.float64), np.asarray(said, np.float64)
    if one.shape != other.shape and not one.size == other.size == 0:
        return Stage(name, float("inf"), tolerance, unit)
    apart = scaled(np.abs(one - other), other) if one.size else np.zeros(1)
    worst = float(apart.max())
    return Stage(name, worst if worst == worst else float("inf"), tolerance, unit)
