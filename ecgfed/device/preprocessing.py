"""What is done to a recording before a graph sees it, as a manifest says it: numbers from the code that uses them.

``preprocessing_about`` is what a bundle of version 2 holds under ``preprocessing``, and what it is compared with when
it is opened. What each rule asks for in full, so that a person can write it anew in another language, is
docs/bundle-format.md; ``golden.json`` says whether it was done right.
"""

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ecgfed.beats import context, intervals, windows
from ecgfed.beats.rr import RR_NAMES
from ecgfed.device import rules
from ecgfed.signal import filters, fir, qrs, qrs_net, quality

#: Of the form of ``preprocessing`` itself.
VERSION = 1
#: Numbers are the same that differ by no more than this: machines round a cosine differently.
CLOSE = 1e-9
#: What of ``preprocessing`` is told and not compared: the net's first layer lies in the graph, and a bundle may be read
#: by a newer detector than that of its day (``check_golden`` says whether it finds the same peaks).
TOLD = ("standardisation", "detector", "latency")


def preprocessing_about(rr_version: int) -> dict[str, Any]:
    """Return what a manifest says of preprocessing, but for the graph's own first layer.

    Args:
        rr_version: the version of the RR features that the graphs take, 0 for none.
    """
    return {
        "version": VERSION,
        "order": list(rules.ORDER),
        "lead": {"rule": rules.LEAD},
        "gaps": {"rule": rules.GAPS, "no_signal": _no_signal()},
        "filter": _filter(),
        "resampling": _resampling(),
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
        "detector": detector_about(),
        "latency": latency_about(rr_version),
    }


def image_preprocessing() -> dict[str, Any]:
    """Return what a manifest of a bundle of images says of preprocessing, but for the graph's own first layer."""
    return {"version": VERSION, "image": {"shape": [3, 32, 32], "dtype": "uint8", "rule": rules.IMAGE}}


def _no_signal() -> dict[str, Any]:
    """When a lead shows nothing: what makes an RR interval void and a window no reference."""
    return {
        "reasons": sorted(str(reason) for reason in quality.NO_SIGNAL),
        "flat_s": quality.FLAT_S,
        "flat_mv": quality.FLAT_MV,
        "rail_s": quality.RAIL_S,
        "rail_samples": quality.RAIL_SAMPLES,
        "rail_from_rest_mv": quality.RAIL_FROM_REST_MV,
        "spike_mv": quality.SPIKE_MV,
        "spike_times": quality.SPIKE_TIMES,
        "spike_margin_s": quality.SPIKE_MARGIN_S,
        "spike_rings_s": quality.SPIKE_RINGS_S,
        "baseline_window_s": quality.BASELINE_WINDOW_S,
        "block_s": quality.BLOCK_S,
        "height_s": quality.HEIGHT_S,
        "height_stretches": quality.HEIGHT_STRETCHES,
        "limit_mv": quality.LIMIT_MV,
    }


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


def _resampling() -> dict[str, Any]:
    return {
        "to_fs_hz": windows.FS_HZ,
        "largest_denominator": windows.LARGEST_DENOMINATOR,
        "window": "kaiser",
        "kaiser_beta": fir.KAISER_BETA,
        "reach": fir.REACH,
        "formula": rules.RESAMPLING,
        "r_peaks": rules.RESAMPLED_PEAKS,
    }


def _rr(version: int) -> dict[str, Any]:
    about: dict[str, Any] = {
        "version": version,
        "dtype": "float32",
        "features": [{"name": name, **rules.RR[version][name]} for name in RR_NAMES[version]],
        "rule": rules.RR_RULE[version],
    }
    if version == 1:
        return {
            **about,
            "history_beats": windows.RR_HISTORY,
            "look_ahead_beats": 1,
            "clip": None,
            "parameters": {"history_intervals": windows.RR_HISTORY},
        }
    return {
        **about,
        "history_beats": context.HISTORY,
        "look_ahead_beats": context.LOOK_AHEAD,
        "clip": [-context.LIMIT, context.LIMIT],
        "void": {"hides_s": intervals.HIDES_S, "longest_s": intervals.LONGEST_S, "value": 0.0},
        "parameters": {
            "block_beats": context.BLOCK,
            "blocks_back": context.BACK,
            "blocks_ahead": context.AHEAD,
            "fewest": context.FEWEST,
            "typical_quantile": context.TYPICAL,
            "sinus_quantile": context.SINUS,
            "log_unit": context.LOG_UNIT,
            "premature_from": context.PREMATURE,
            "changes": context.CHANGES,
            "change_quantile": context.CHANGE_SHARE,
            "least_change": context.LEAST_CHANGE,
            "irregular_at": context.IRREGULAR,
            "irregular_width": context.IRREGULAR_WIDTH,
            "p_region_samples": [context.P_REGION.start, context.P_REGION.stop],
            "qrs_samples": [context.QRS.start, context.QRS.stop],
            "duration_samples": [context.QRS_AT_MOST.start, context.QRS_AT_MOST.stop],
            "steep_share": context.STEEP,
            "slope_samples": context.SLOPE_SAMPLES,
            "least_qrs_mv": context.LEAST_MV,
            "own_shape_correlation": context.MIN_CORRELATION,
            "like_from": context.LIKE_FROM,
            "like_width": context.LIKE_WIDTH,
            "least_power": context.LEAST_POWER,
            "at_least_share": context.AT_LEAST,
        },
    }


def detector_about() -> dict[str, Any]:
    """Return which detector finds the R peaks, and where its weights are."""
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
    return files("ecgfed.signal").joinpath(qrs_net.FILE).read_bytes()


def latency_about(rr_version: int) -> dict[str, Any]:
    """Return how long after an R peak each part knows what it needs; of a stream at 360 Hz."""
    return {
        "fs_hz": windows.FS_HZ,
        "filter_samples": len(filters.band_pass_taps(windows.FS_HZ)) // 2,
        "window_samples_after_r": windows.WINDOW_SAMPLES - 1 - windows.R_INDEX,
        "rr_beats": {0: 0, 1: 1, 2: context.LOOK_AHEAD}[rr_version],
        "detector_at_most_s": qrs.DELAY_S,
        "rule": rules.LATENCY,
    }


def difference(found: Any, expected: Any, where: str = "preprocessing") -> tuple[str, Any, Any] | None:
    """Return the first place where two JSON values differ, and what stands there; None where they say the same.

    Numbers are the same that are ``CLOSE``; a truth value is no number.
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for name in [*expected, *(name for name in found if name not in expected)]:
            if name not in found or name not in expected:
                return f"{where}.{name}", found.get(name), expected.get(name)
            if inner := difference(found[name], expected[name], f"{where}.{name}"):
                return inner
        return None
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return next((inner for i, (one, other) in pairs if (inner := difference(one, other, f"{where}[{i}]"))), None)
    plain = (bool, str, type(None), Mapping, list)
    if isinstance(found, plain) or isinstance(expected, plain):
        same = type(found) is type(expected) and not isinstance(found, Mapping | list) and found == expected
    else:
        same = math.isclose(found, expected, rel_tol=CLOSE, abs_tol=1e-15)
    return None if same else (where, found, expected)


def preprocessing_difference(said: Any, rr_version: int, modality: str) -> tuple[str, Any, Any] | None:
    """Return the first thing that a manifest's ``preprocessing`` says otherwise than this ecgfed does, or None.

    Raises:
        TypeError, KeyError: it is not of its form.
    """
    expected = image_preprocessing() if modality == "image" else preprocessing_about(rr_version)
    if not isinstance(said, Mapping):
        raise TypeError("preprocessing that is an object")
    for name in TOLD:
        if (name in expected or name == TOLD[0]) and not isinstance(said[name], Mapping):
            raise TypeError(f"preprocessing.{name} that is an object")
    compared = {name: value for name, value in said.items() if name not in TOLD}
    return difference(compared, {name: value for name, value in expected.items() if name not in TOLD})
