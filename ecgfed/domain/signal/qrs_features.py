"""What the QRS detector's first two networks are shown: each lead around a candidate, and the extrema of a beat.

Shapes and envelopes are measured by the candidate's own envelope, so that a small beat beside a large one looks as any
beat does; how large it is beside the levels of the last seconds stands on its own. Features are whole multiples of
1/``UNIT``, in float32: divisions and roundings of single numbers, the same on any machine.
"""

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.signal.qrs_signal import FLOOR_UV, Floats, Ints, Traces

#: Where the features of a lead are read, in samples from the candidate: shape close by, envelope far around.
SHAPE_AT = np.concatenate([np.arange(-120, -32, 8), np.arange(-30, 31, 2), np.arange(33, 121, 8)])
ENVELOPE_AT = np.concatenate([np.arange(-330, -60, 15), np.arange(-60, 61, 6), np.arange(66, 201, 12)])
#: The part of a lead's features that is its form: the shape within 100 ms.
FORM = slice(16, 37)
#: Where the features of a possible R peak are read, in samples from that extremum.
PEAK_SHAPE_AT = np.concatenate([np.arange(-60, -24, 6), np.arange(-24, 25, 2), np.arange(30, 61, 6)])
PEAK_ENVELOPE_AT = np.arange(-30, 31, 6)
#: How far from a candidate its R peak may stand (140 ms), and how many extrema are compared.
REACH, EXTREMA = 28, 6
LEVELS = 6
LEAD_FEATURES = len(SHAPE_AT) + len(ENVELOPE_AT) + LEVELS
PEAK_FEATURES = len(PEAK_SHAPE_AT) + len(PEAK_ENVELOPE_AT) + 2
#: Features are whole multiples of 1/128, between -4 and 4.
UNIT = 128
_LIMIT = np.float32(4 * UNIT)
#: Own envelopes below this share of the level are measured by it: there is nothing on this lead just here.
_LEAST = 0.03


def logarithm(ratio: Floats) -> Floats:
    """Return log2 of positive numbers, by straight lines between the powers of two: the same everywhere.

    That is what their bits are as a whole number: the exponent, and behind it the part between two powers of two.
    """
    bits = np.asarray(ratio, np.float32).view(np.int32) - (127 << 23)
    return np.asarray(bits.astype(np.float32) * np.float32(2**-23))


def rounded(features: Floats) -> Floats:
    """Return features as whole multiples of 1/``UNIT``, at most 4 in size; the array is changed."""
    features *= np.float32(UNIT)
    np.rint(features, out=features)
    return np.clip(features, -_LIMIT, _LIMIT, out=features)


def beat_envelope(traces: Traces, at: Ints, level: Floats) -> Floats:
    """Return the envelope (leads, candidates) that a candidate's features are measured by, in microvolt."""
    minimum = np.maximum(level[0] * np.float32(_LEAST), np.float32(FLOOR_UV / 2))
    return np.asarray(np.maximum(traces.envelope.take(at, axis=1), minimum), dtype=np.float32)


def lead_features(traces: Traces, at: Ints, level: Floats, envelope: Floats) -> Floats:
    """Return what each lead shows around each candidate.

    Args:
        traces: the traces.
        at: (candidates,) positions in them.
        level: (6, leads, candidates) levels of each candidate's block.
        envelope: (leads, candidates) from ``beat_envelope``.

    Returns:
        (leads, candidates, LEAD_FEATURES) whole numbers, features times ``UNIT``, as float32.
    """
    shapes, envelopes = len(SHAPE_AT), len(ENVELOPE_AT)
    features = np.empty((*envelope.shape, LEAD_FEATURES), np.float32)
    around, envelope_at = at[:, None] + SHAPE_AT, at[:, None] + ENVELOPE_AT
    for lead, mine in enumerate(envelope):
        out = features[lead]
        np.divide(traces.shape[lead].take(around), (4 * mine)[:, None], out=out[:, :shapes])
        around_envelope = traces.envelope[lead].take(envelope_at)
        np.divide(around_envelope, around_envelope + mine[:, None], out=out[:, shapes : shapes + envelopes])
        at_level = shapes + envelopes
        levels = np.maximum(level[:5, lead], np.float32(1))
        out[:, at_level : at_level + 5] = (logarithm(mine / levels) / 2).T
        out[:, at_level + 5] = logarithm(mine / np.float32(100)) / 4
    return rounded(features)


def level_ratios(features: Floats, counted: NDArray[np.bool_]) -> Floats:
    """Return the own envelope over each level (candidates, 5), mean of the leads asked, from ``lead_features``."""
    ratios = features[:, :, -LEVELS:-1] * counted[..., None]
    return np.asarray(np.floor(ratios.sum(axis=0) / np.maximum(counted.sum(axis=0), 1).astype(np.float32)[:, None]))


def extrema(traces: Traces, lead: int, at: Ints, envelope: Floats) -> tuple[Ints, NDArray[np.bool_], Floats]:
    """List the local extrema of one lead around each beat, the most prominent first, and describe each.

    Args:
        traces: the traces.
        lead: which lead.
        at: (beats,) positions in them.
        envelope: (beats,) that lead's own envelope.

    Returns:
        Positions (beats, EXTREMA), which of them there are, and (beats, EXTREMA, PEAK_FEATURES) as ``lead_features``.
    """
    shape, turns = traces.shape[lead], traces.turns(lead)
    first, last = np.searchsorted(turns, at - REACH), np.searchsorted(turns, at + REACH, side="right")
    index = first[:, None] + np.arange(max(EXTREMA, int((last - first).max(initial=0))))
    position = turns.take(np.minimum(index, len(turns) - 1))
    exists = index < last[:, None]
    position = np.where(exists, position, at[:, None])
    height = np.where(exists, np.abs(shape.take(position)), np.float32(-1))
    order = np.argsort(-height, axis=1, kind="stable")[:, :EXTREMA]
    position, exists = np.take_along_axis(position, order, 1), np.take_along_axis(exists, order, 1)
    high = np.take_along_axis(height, order, 1)
    features = np.empty((*position.shape, PEAK_FEATURES), np.float32)
    shapes = len(PEAK_SHAPE_AT)
    scale = envelope[:, None, None]
    np.divide(shape.take(position[..., None] + PEAK_SHAPE_AT), 4 * scale, out=features[..., :shapes])
    peak_envelope = traces.envelope[lead].take(position[..., None] + PEAK_ENVELOPE_AT)
    np.divide(peak_envelope, peak_envelope + scale, out=features[..., shapes:-2])
    features[..., -2] = (position - at[:, None]).astype(np.float32) / np.float32(20)
    features[..., -1] = np.maximum(high, 0) / np.maximum(high[:, :1], 1)
    return position, exists, rounded(features)
