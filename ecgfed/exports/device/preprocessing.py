"""Metadata about preprocessing for the manifest, with parameters taken from the code that uses them.

``preprocessing_metadata`` is the field ``preprocessing`` of bundles of version 2, and is compared with it when they are
opened. docs/bundle-format.md specifies each rule for implementations in other languages; ``golden.json`` verifies
them.
"""

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ecgfed.domain.beats import context, intervals, past, patient_beat, strip, windows
from ecgfed.domain.beats.context_stream import LOOK_AHEAD
from ecgfed.domain.beats.rr import RR_NAMES
from ecgfed.domain.signal import filters, fir, qrs, qrs_net, quality
from ecgfed.exports.device import rules

#: Version of the format of ``preprocessing``.
VERSION = 1
#: Relative tolerance for equal numbers, because machines round a cosine differently.
CLOSE = 1e-9
#: Fields of ``preprocessing`` that are informative and not compared: the net's first layer is in the graph, and a newer
#: detector may read an older bundle (``check_golden`` checks that it finds the same peaks).
INFORMATIVE = ("standardisation", "detector", "latency")


#: Limits of lost signal, which voids RR intervals and excludes reference windows: constants of ``quality``.
_SIGNAL_LIMITS = (
    *("FLAT_S", "FLAT_MV", "RAIL_S", "RAIL_SAMPLES", "RAIL_FROM_REST_MV", "SPIKE_MV", "SPIKE_TIMES", "SPIKE_MARGIN_S"),
    *("SPIKE_RINGS_S", "BASELINE_WINDOW_S", "BLOCK_S", "HEIGHT_S", "HEIGHT_STRETCHES", "LIMIT_MV"),
)


def preprocessing_metadata(rr_version: int) -> dict[str, Any]:
    """Return a manifest's field ``preprocessing``, except for the graph's first layer.

    Args:
        rr_version: version of the RR features that the graphs take, 0 for none.
    """
    return {
        "version": VERSION,
        "order": list(rules.ORDER),
        "lead": {"rule": rules.LEAD},
        "gaps": {
            "rule": rules.GAPS,
            "no_signal": {
                "reasons": sorted(str(reason) for reason in quality.NO_SIGNAL),
                **{name.lower(): getattr(quality, name) for name in _SIGNAL_LIMITS},
            },
        },
        "filter": _filter(),
        "resampling": {
            "to_fs_hz": windows.FS_HZ,
            "largest_denominator": windows.LARGEST_DENOMINATOR,
            "window": "kaiser",
            "kaiser_beta": fir.KAISER_BETA,
            "reach": fir.REACH,
            "formula": rules.RESAMPLING,
            "r_peaks": rules.RESAMPLED_PEAKS,
        },
        "window": {
            "samples": windows.WINDOW_SAMPLES,
            "r_index": windows.R_INDEX,
            "fs_hz": windows.FS_HZ,
            "unit": "mV",
            "dtype": "float32",
            "padding_mv": 0.0,
            "rule": rules.WINDOW,
        },
        "rr": _rr(rr_version) if rr_version else None,
        "detector": detector_metadata(),
        "latency": latency_metadata(rr_version),
    }


def image_preprocessing() -> dict[str, Any]:
    """Return the field ``preprocessing`` for a bundle of images, except for the graph's first layer."""
    return {"version": VERSION, "image": {"shape": [3, 32, 32], "dtype": "uint8", "rule": rules.IMAGE}}


def _filter() -> dict[str, Any]:
    taps = filters.band_pass_taps(windows.FS_HZ)
    half = len(taps) // 2
    return {
        "kind": "linear-phase FIR band-pass",
        "band_hz": list(filters.BAND_HZ),
        "length_s": filters.LENGTH_S,
        "window": "hamming",
        "formula": rules.TAPS,
        "edges": rules.FILTER_EDGES,
        "delay_s": filters.LENGTH_S / 2,
        "taps": {
            "fs_hz": windows.FS_HZ,
            "count": len(taps),
            "delay_samples": half,
            "first_half_and_middle": taps[: half + 1].tolist(),
        },
    }


def _rr(version: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "version": version,
        "dtype": "float32",
        "features": rules.rr_features(version, RR_NAMES[version]),
        "rule": rules.RR_RULE[version],
    }
    if version == 1:
        return {
            **metadata,
            "history_beats": windows.RR_HISTORY,
            "look_ahead_beats": 1,
            "clip": None,
            "parameters": {"history_intervals": windows.RR_HISTORY},
        }
    if version == 4:
        look: dict[str, Any] = {"history_beats": None, "look_ahead_beats": past.LOOK_AHEAD}
        longest_s, references = past.LONGEST_S, _PAST
    else:
        of = strip if version == 3 else context
        look = {"history_beats": of.HISTORY, "look_ahead_beats": of.LOOK_AHEAD}
        longest_s, references = intervals.LONGEST_S, _BLOCKS
    return {
        **metadata,
        **look,
        "clip": [-context.LIMIT, context.LIMIT],
        "void": {"hides_s": intervals.HIDES_S, "longest_s": longest_s, "value": 0.0},
        "parameters": {**references, **_IN_CONTEXT, **(_STRIP if version == 3 else {})},
    }


_BLOCKS: dict[str, float] = {
    "block_beats": patient_beat.BLOCK,
    "blocks_back": patient_beat.BACK,
    "blocks_ahead": patient_beat.AHEAD,
}
_PAST: dict[str, float] = {"intervals": past.INTERVALS, "decay": past.DECAY}
_IN_CONTEXT = {
    "fewest": patient_beat.FEWEST,
    "typical_quantile": patient_beat.TYPICAL,
    "sinus_quantile": patient_beat.SINUS,
    "log_unit": patient_beat.LOG_UNIT,
    "premature_from": context.PREMATURE,
    "changes": context.CHANGES,
    "change_quantile": context.CHANGE_SHARE,
    "least_change": context.LEAST_CHANGE,
    "irregular_at": context.IRREGULAR,
    "irregular_width": context.IRREGULAR_WIDTH,
    "p_region_samples": [patient_beat.P_REGION.start, patient_beat.P_REGION.stop],
    "qrs_samples": [patient_beat.QRS.start, patient_beat.QRS.stop],
    "duration_samples": [patient_beat.QRS_AT_MOST.start, patient_beat.QRS_AT_MOST.stop],
    "steep_share": patient_beat.STEEP,
    "slope_samples": patient_beat.SLOPE_SAMPLES,
    "least_qrs_mv": patient_beat.LEAST_MV,
    "own_shape_correlation": patient_beat.MIN_CORRELATION,
    "like_from": context.LIKE_FROM,
    "like_width": context.LIKE_WIDTH,
    "least_power": patient_beat.LEAST_POWER,
    "at_least_share": patient_beat.AT_LEAST,
}
_STRIP = {
    "strip_step_samples": windows.STRIP_STEP,
    "strip_before": windows.BESIDE[0],
    "strip_after": windows.BESIDE[1],
    "median_blocks_back": strip.BACK,
    "median_blocks_ahead": strip.AHEAD,
    "strip_clip": [-strip.STRIP_LIMIT, strip.STRIP_LIMIT],
}


def detector_metadata() -> dict[str, Any]:
    """Return the R peak detector and the location of its weights."""
    data = _detector_weights()
    return {
        "name": "ecgfed",
        "reads": "every lead of the recording; each peak is put on the lead in use",
        "least_fs_hz": qrs.MIN_FS_HZ,
        "delay_s": qrs.DELAY_S,
        "bridge_s": qrs.BRIDGE_S,
        "weights": {
            "file": f"ecgfed/signal/{qrs_net.FILE}",
            "where": "in the Python package ecgfed; not in this bundle",
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
        },
        "rule": rules.DETECTOR,
    }


@lru_cache(maxsize=1)
def _detector_weights() -> bytes:
    return files("ecgfed.domain.signal").joinpath(qrs_net.FILE).read_bytes()


def latency_metadata(rr_version: int) -> dict[str, Any]:
    """Return the latency of each part after an R peak, for a stream at 360 Hz."""
    return {
        "fs_hz": windows.FS_HZ,
        "filter_samples": len(filters.band_pass_taps(windows.FS_HZ)) // 2,
        "window_samples_after_r": windows.WINDOW_SAMPLES
        + (windows.STRIP_STEP * windows.BESIDE[1] if rr_version == 3 else 0)
        - 1
        - windows.R_INDEX,
        "rr_beats": {0: 0, 1: 1, **LOOK_AHEAD}[rr_version],
        "detector_at_most_s": qrs.DELAY_S,
        "rule": rules.LATENCY,
    }


def difference(stored: Any, expected: Any, where: str = "preprocessing") -> tuple[str, Any, Any] | None:
    """Return the path of the first difference between two JSON values, and both values; None if they are equal.

    Numbers are compared with tolerance ``CLOSE``; booleans are not numbers.
    """
    if isinstance(expected, Mapping) and isinstance(stored, Mapping):
        for name in [*expected, *(name for name in stored if name not in expected)]:
            if name not in stored or name not in expected:
                return f"{where}.{name}", stored.get(name), expected.get(name)
            if inner := difference(stored[name], expected[name], f"{where}.{name}"):
                return inner
        return None
    if isinstance(expected, list) and isinstance(stored, list) and len(stored) == len(expected):
        pairs = enumerate(zip(stored, expected, strict=True))
        return next(
            (
                inner
                for i, (stored_item, expected_item) in pairs
                if (inner := difference(stored_item, expected_item, f"{where}[{i}]"))
            ),
            None,
        )
    plain = (bool, str, type(None), Mapping, list)
    if isinstance(stored, plain) or isinstance(expected, plain):
        same = type(stored) is type(expected) and not isinstance(stored, Mapping | list) and stored == expected
    else:
        same = math.isclose(stored, expected, rel_tol=CLOSE, abs_tol=1e-15)
    return None if same else (where, stored, expected)


def preprocessing_difference(stored: Any, rr_version: int, modality: str) -> tuple[str, Any, Any] | None:
    """Return the first difference between a manifest's ``preprocessing`` and this version of ecgfed, or None.

    Raises:
        TypeError, KeyError: it is malformed.
    """
    expected = image_preprocessing() if modality == "image" else preprocessing_metadata(rr_version)
    if not isinstance(stored, Mapping):
        raise TypeError("preprocessing that is an object")
    for name in INFORMATIVE:
        if (name in expected or name == INFORMATIVE[0]) and not isinstance(stored[name], Mapping):
            raise TypeError(f"preprocessing.{name} that is an object")
    compared = {name: value for name, value in stored.items() if name not in INFORMATIVE}
    return difference(compared, {name: value for name, value in expected.items() if name not in INFORMATIVE})
