"""Making ``golden.json``: a recording of nobody, and what a bundle's models answer
(``ecgfed.exports.device.golden``)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.beats.windows import FS_HZ, IN_STRIP, R_INDEX, STRIP_SAMPLES, WINDOW_SAMPLES
from ecgfed.domain.cohort.demo import BASELINE, GAIN, SHAPES
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.golden import (
    VERSION,
    GoldenRecording,
    beats_of,
    context_of,
    from_nv,
    in_nv,
    model_output,
    rounded,
    window_of,
)
from ecgfed.exports.device.graph import AT_ONCE
from ecgfed.exports.device.manifest import BOUND, models_in

DESCRIPTION = (
    "Golden vectors: a synthetic recording, no patient's, and what each stage and each model makes of it. A stage "
    "takes what stands here of the stage before. nV is a millionth of a mV; beats are numbered through all recordings."
)
#: Beats of each recording: time of the R wave in s and kind (N normal, A a normal shape that comes early and without
#: P, V ventricular). Both begin and end with a beat whose window reaches past the end.
_FIRST = (
    *((0.24, "N"), (1.06, "N"), (1.89, "N"), (2.70, "N"), (3.28, "A"), (4.25, "N"), (5.07, "N"), (5.62, "V")),
    *((6.74, "N"), (7.55, "N"), (8.38, "N"), (9.20, "N"), (10.02, "N"), (10.60, "V"), (11.70, "N")),
)
_SECOND = ((0.60, "N"), (1.42, "N"), (2.25, "N"), (3.06, "N"), (3.88, "N"), (4.95, "N"), (5.50, "V"), (6.60, "N"))
#: Name, sampling frequency (Hz), length (s), beats, and a gap (s from, s to) where no sample is.
RECORDINGS: tuple[tuple[str, float, float, tuple[tuple[float, str], ...], tuple[float, float] | None], ...] = (
    ("360 Hz", 360.0, 12.0, _FIRST, None),
    ("250 Hz with a gap", 250.0, 7.6, _SECOND, (4.35, 4.65)),
)
#: For RR features of version 3, of which a beat has 241: shorter ones, and fewer of the beats over minutes.
SHORT_RECORDINGS = (
    ("360 Hz", 360.0, 3.0, ((0.24, "N"), (1.06, "N"), (1.64, "V"), (2.44, "N")), None),
    ("250 Hz with a gap", 250.0, 3.4, ((0.60, "N"), (1.42, "N"), (2.00, "A"), (3.00, "N")), (2.35, 2.65)),
)
SHORT_ANSWERED = (1, 80, 170, 329)
#: Noise in ADC steps, and baseline wander: mV, Hz.
_NOISE_ADU, _WANDER = 2, (0.10, 0.3)
#: Number of synthetic beats for RR features over minutes, and the beats without a preceding interval.
CONTEXT_BEATS, CONTEXT_VOID = 330, (0, 77, 201)
#: Every patient's model answers these beats of the first recording: one of each kind, and one at an end.
PATIENTS_ANSWER = (0, 3, 4, 5, 7, 8)


def synthetic_adu(
    fs_hz: float, seconds: float, beats: tuple[tuple[float, str], ...], gap_s: tuple[float, float] | None
) -> list[int | None]:
    """Return a synthetic lead in ADC units, None for missing samples."""
    time_s = np.arange(round(seconds * fs_hz)) / fs_hz
    signal_mv = _WANDER[0] * np.sin(2 * np.pi * _WANDER[1] * time_s)
    for at_s, kind in beats:
        for number, (offset_ms, width_ms, height_mv, _) in enumerate(SHAPES["V" if kind == "V" else "N"]):
            if number == 0 and kind != "N":
                continue  # the P wave
            signal_mv += height_mv * np.exp(-0.5 * ((time_s - at_s - offset_ms / 1e3) / (width_ms / 1e3)) ** 2)
    noise = np.random.default_rng(17).integers(-_NOISE_ADU, _NOISE_ADU + 1, len(time_s))
    adu: list[int | None] = (np.rint(signal_mv * GAIN).astype(np.int64) + noise + BASELINE).tolist()
    if gap_s is not None:
        start, stop = (round(at * fs_hz) for at in gap_s)
        adu[start:stop] = [None] * (stop - start)
    return adu


def _recording(number: int, rr_version: int) -> dict[str, Any]:
    """Return one recording with all stages, each computed from the stored output of the previous one."""
    name, fs_hz, seconds, beats, gap_s = (SHORT_RECORDINGS if rr_version == 3 else RECORDINGS)[number]
    entry: dict[str, Any] = {
        "name": name,
        "fs_hz": fs_hz,
        "gain_adu_per_mv": GAIN,
        "baseline_adu": BASELINE,
        "adu": synthetic_adu(fs_hz, seconds, beats, gap_s),
    }
    recording = GoldenRecording(entry)
    entry["filtered_nv"] = at_360 = in_nv(recording.filtered())
    if len(resampled := recording.resampled(from_nv(at_360))) != len(at_360):
        entry["resampled_nv"] = at_360 = in_nv(resampled)
    peaks = recording.peaks()
    window_mv, padded = recording.windows(from_nv(at_360), peaks)
    entry["lost"], entry["r_samples"] = recording.lost(), peaks.tolist()
    entry["window_nv"], entry["padded"] = [in_nv(window) for window in window_mv[:, 0]], padded.astype(int).tolist()
    if rr_version:
        entry["rr"] = rounded(recording.rr(rr_version, peaks, window_of(entry), padded, entry["lost"], from_nv(at_360)))
    return entry


def _bumps(kind: str, waves: slice, version: int) -> NDArray[np.float64]:
    """Return waves of a beat in a window, (256,) mV, or with version 3 in a strip, (576,)."""
    first, samples = (IN_STRIP.start, STRIP_SAMPLES) if version == 3 else (0, WINDOW_SAMPLES)
    time_s = (np.arange(samples) - first - R_INDEX) / FS_HZ
    rows = SHAPES[kind][waves]
    return np.asarray(sum(h * np.exp(-0.5 * ((time_s - at / 1e3) / (width / 1e3)) ** 2) for at, width, h, _ in rows))


def _context(version: int) -> dict[str, Any]:
    """Return synthetic beats over minutes for RR features of later versions; windows are sums of three shapes."""
    draw = np.random.default_rng(18)
    kinds = np.where(draw.random(CONTEXT_BEATS) < 0.08, "V", np.where(draw.random(CONTEXT_BEATS) < 0.1, "A", "N"))
    at = np.arange(CONTEXT_BEATS)
    interval = 800 + 40 * np.sin(at / 7) + draw.integers(-12, 13, CONTEXT_BEATS)
    interval[kinds != "N"] -= 250
    interval[1:][kinds[:-1] == "V"] += 230
    lost_rhythm = (at >= 150) & (at < 190)
    interval[lost_rhythm] = draw.integers(420, 1200, int(lost_rhythm.sum()))
    before_ms = [None if i in CONTEXT_VOID else ms for i, ms in enumerate(np.rint(interval).astype(int).tolist())]
    size = 1000 + draw.integers(-60, 61, CONTEXT_BEATS)
    p_wave = np.where(kinds == "N", 1000 + draw.integers(-80, 81, CONTEXT_BEATS), 0)
    parts = np.stack([p_wave, np.where(kinds == "V", 60, size), np.where(kinds == "V", size, 40)], axis=1)
    waves = (("N", slice(0, 1)), ("N", slice(1, None)), ("V", slice(None)))
    shapes = [_bumps(kind, some, version) for kind, some in waves]
    usable = (draw.random(CONTEXT_BEATS) > 0.04).astype(int)
    entry = {
        "before_ms": before_ms,
        "shapes_nv": [in_nv(shape) for shape in shapes],
        "parts_per_mille": parts.tolist(),
        "usable": usable.tolist(),
        "answered": list(SHORT_ANSWERED if version == 3 else range(1, CONTEXT_BEATS, 7)),
    }
    entry["rr"] = rounded(context_of(entry, version))
    return entry


def golden_of(bundle: Bundle) -> dict[str, Any]:
    """Compute a bundle's golden vectors, JSON-ready.

    Raises:
        BundleError: a graph does not match the bundle, or fails.
    """
    golden: dict[str, Any] = {"version": VERSION, "about": DESCRIPTION, "run": bundle.manifest[BOUND]}
    rr: NDArray[np.float32] | None = None
    if bundle.modality == "image":
        rows, columns = np.meshgrid(np.arange(32), np.arange(32), indexing="ij")
        slopes = np.stack([rows * 8, columns * 8, (rows + columns) * 4]).astype(np.uint8)
        examples: NDArray[Any] = np.stack(
            [slopes, np.random.default_rng(17).integers(0, 256, (3, 32, 32)).astype(np.uint8)]
        )
        golden["images"], some = examples.tolist(), [0, 1]
    else:
        recordings = [_recording(number, bundle.rr_version) for number in range(len(RECORDINGS))]
        examples, rr = beats_of(recordings)
        golden["recordings"], some = recordings, [beat for beat in PATIENTS_ANSWER if beat < len(examples)]
        if bundle.rr_version >= 2:
            golden["context"] = _context(bundle.rr_version)
        if (detector := bundle.ood_detector()) is not None:
            distance = detector.distance(examples, AT_ONCE)
            golden["far"] = {"distance": rounded(distance), "far": (distance > detector.threshold).astype(int).tolist()}
    golden["answered"] = {"global": list(range(len(examples))), "patients": some}
    golden["global"], golden["patients"] = {}, {client: {} for client in bundle.patients}
    for client, variant, _ in models_in(bundle.manifest):
        beats = golden["answered"]["global" if client is None else "patients"]
        classifier = bundle.classifier(client, int8=variant == "int8")
        output = model_output(classifier, examples[beats], None if rr is None else rr[beats])
        (golden["global"] if client is None else golden["patients"][client])[variant] = output
    return golden
