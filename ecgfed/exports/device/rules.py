"""The words of a manifest's ``preprocessing``: what is done, in which order; docs/bundle-format.md says it at length.

A word that changes is a rule that changes: bundles hold these texts and are compared with them.
"""

from collections.abc import Sequence

from ecgfed.domain.signal import qrs_flat, qrs_views

ORDER = (
    "choose the lead",
    "bridge its gaps",
    "band-pass at the recording's own sampling frequency",
    "resample to 360 Hz",
    "cut a window around each R peak",
    "compute the RR features",
    "run the chain of graphs; its first layer standardises the window",
    "divide the logits by the temperature, softmax, compare with the threshold",
)
LEAD = (
    "The first of 'leads' that the recording has, by name; case, blanks, hyphens and underscores do not count, and "
    "another usual name of a lead stands for it. Samples in mV: (digital - baseline) / gain."
)
GAPS = (
    "Samples that are missing, NaN or infinite are bridged by a straight line between the samples on both sides, "
    "before the filter; at an end the nearest sample is held; a lead without a sample is 0 mV. A gap of more than "
    "round(10 fs_hz) samples is no line: it holds the sample before it, and in its last floor(round(10 fs_hz) / 2) "
    "samples the one behind it. A stretch is lost where "
    "the lead shows no signal for one of the reasons: gap, flat, rail, spike (docs/bundle-format.md)."
)
TAPS = (
    "M = floor(floor(length_s * fs_hz) / 2) * 2 + 1 taps. For n = 0..M-1, c = n - (M-1)/2, l = 2 low/fs_hz, "
    "r = 2 high/fs_hz: h[n] = (r sinc(r c) - l sinc(l c)) * (0.54 + 0.46 cos(2 pi c/(M-1))), sinc(x) = "
    "sin(pi x)/(pi x); then divided by the sum over n of h[n] cos(pi c (l+r)/2)."
)
FILTER_EDGES = (
    "Before its first and after its last sample a recording holds that sample's value; output i is the sum over k of "
    "h[k] * x[i + (M-1)/2 - k], so the delay of (M-1)/2 samples is compensated and as many samples come out as went in."
)
RESAMPLING = (
    "Nothing at 360 Hz. Else up/down is the fraction nearest to 360/fs_hz whose denominator is at most "
    "largest_denominator, m = max(up, down), half = reach * m. For n = 0..2 half, c = n - half: g[n] = sinc(c/m) * "
    "I0(kaiser_beta sqrt(1 - (c/half)^2)), divided by the sum of g, times up. Output j = 0..ceil(samples * up/down)-1 "
    "is the sum over i of x[i] * g[j * down + half - i * up], terms outside 0..2 half left out, x being 0 outside the "
    "recording."
)
RESAMPLED_PEAKS = (
    "An R peak at sample r of the recording is at round(r * (360/fs_hz)), halves to the even, at most the last sample."
)
WINDOW = (
    "Samples R - r_index to R - r_index + samples - 1 of the filtered, resampled lead, as float32, not standardised; "
    "padding_mv beyond an end of the recording, and then the beat is flagged as padded."
)
STANDARDISATION = (
    "In every graph, its first layer: x = window - mean(window); x / sqrt(mean(x * x) + variance_floor_mv2); "
    "nothing to be done outside."
)
IMAGE = "Pixels as they are, channels red, green, blue, then rows, then columns."
IMAGE_STANDARDISATION = "In every graph, its first layer: by channel, (pixel/255 - mean)/deviation; nothing outside."
DETECTOR = (
    "Fixed-point networks on the slope of every lead, docs/qrs.md; another detector may be used, and then its peaks "
    "stand wherever R peaks are spoken of. All leads together are one view, and of several the lead in use and the "
    f"first others, {qrs_views.MOST_ALONE} at most, each alone another one; where views disagree the sum of their log "
    "odds decides, each weighted by how clear-cut its last answers were. A line that stays within "
    f"{qrs_flat.FLAT_UV} microvolt for {qrs_flat.PARTS} parts of {qrs_flat.PART_S} s on every lead is a gap. A wave "
    f"below {qrs_views.WEAK_SHARE:g} of the last beats', at least {qrs_views.WEAK_LEAST_UV:g} and at most "
    f"{qrs_views.WEAK_MOST_UV:g} microvolt of slope, is no beat "
    f"unless it stands {qrs_views.WEAK_OCTAVES:g} octaves above the median. docs/bundle-format.md has these rules in "
    "full."
)
LATENCY = (
    "A beat can be answered when filter_samples + window_samples_after_r samples after R have been seen, the detector "
    "has told the peak, and rr_beats beats more are known."
)

RR_RULE = {
    1: (
        "Of the R peaks of the whole recording, in seconds, gaps not looked at. The first beat has no interval before "
        "it and takes the one after it, the last one likewise the one before it; the median is of the last "
        "history_intervals intervals that end at or before the beat, fewer at the start, for the first beat the "
        "interval after it. A lone beat has 0, 0, 0, 1. No value is clipped; the net scales them."
    ),
    2: (
        "docs/bundle-format.md, 'RR features, version 2', with the parameters below. An interval is void (no number) "
        "across a lost stretch of hides_s or more, when longer than longest_s, before the first beat and after the "
        "last; a window that is padded or touches a lost stretch makes no reference. What is void is 0 and its mask "
        "1; all values are clipped to clip."
    ),
    3: (
        "docs/bundle-format.md, 'RR features, version 3', with the parameters below: the features of version 2; the "
        "lead around the window; its difference to the median of the beats around. What is void is 0."
    ),
    4: (
        "docs/bundle-format.md, 'RR features, version 4', with the parameters below: the features of version 2 with "
        "references of the beats before a beat alone. What is void is 0 and its mask 1; all values are clipped to clip."
    ),
}
_LOG = "1 (natural logarithm of a ratio, divided by log_unit)"
RR: dict[int, dict[str, dict[str, str]]] = {
    1: {
        "previous_s": {"unit": "s", "is": "interval before the beat"},
        "next_s": {"unit": "s", "is": "interval after the beat"},
        "median_of_last_10_s": {"unit": "s", "is": "median of the last ten intervals that end at or before the beat"},
        "previous_over_median": {"unit": "1", "is": "previous_s / median_of_last_10_s, 1 where the median is 0"},
    },
    2: {
        "previous_over_typical": {"unit": _LOG, "is": "interval before the beat over the typical interval"},
        "next_over_sinus": {"unit": _LOG, "is": "interval after the beat over the sinus interval"},
        "next_over_previous": {"unit": _LOG, "is": "interval after the beat over the one before it"},
        "irregular": {
            "unit": "1 (natural logarithm of a ratio)",
            "is": "change of the interval over irregular_at, the change being least_change or more",
        },
        "qrs_unlike": {"unit": "1", "is": "2 (1 - correlation of the QRS with the reference's)"},
        "qrs_apart": {"unit": "1", "is": "root mean square of the difference to the reference, QRS scaled to 1"},
        "size": {"unit": "1 (natural logarithm of a ratio, divided by 2 log_unit)", "is": "size of the QRS"},
        "width": {"unit": "1 (natural logarithm of a ratio, divided by 2 log_unit)", "is": "duration of the QRS"},
        "p_lost": {"unit": "1", "is": "share common to the P regions, times (1 - correlation with their mean)"},
        "premature": {"unit": "1", "is": "how early, where the rhythm is regular and the QRS like the reference's"},
        "premature_without_p": {"unit": "1", "is": "premature times p_lost"},
        "premature_unlike": {"unit": "1", "is": "how early, where the QRS is unlike the reference's"},
        "void_previous": {"unit": "0 or 1", "is": "1 where the interval before the beat is void"},
        "void_next": {"unit": "0 or 1", "is": "1 where the interval after the beat is void"},
        "void_reference": {"unit": "0 or 1", "is": "1 where there is no typical interval"},
        "void_shape": {"unit": "0 or 1", "is": "1 where there is no reference shape"},
    },
    3: {"typical_mv": {"unit": "mV", "is": "median size of the QRS of the beats around"}},
}


#: Of version 3, consecutive features that one description stands for: name of the first, how many, unit and meaning.
_GROUPS: dict[str, tuple[int, str, str]] = {
    "beside_0": (80, "typical_mv", "the lead before and after the window, means of strip_step_samples samples"),
    "difference_0": (144, "typical_mv", "the strip, beside and within the window, less the median of the beats around"),
}


def rr_features(version: int, names: Sequence[str]) -> list[dict[str, str | int]]:
    """Return unit and meaning of RR features in order; consecutive ones of version 3 as one entry with ``count``."""
    described: list[dict[str, str | int]] = []
    at = 0
    while at < len(names):
        name, count = names[at], 1
        if version == 3 and name in _GROUPS:
            count, unit, meaning = _GROUPS[name]
            described.append({"name": name, "count": count, "unit": unit, "is": meaning})
        else:
            described.append({"name": name, **(RR[1] if version == 1 else RR[2] | RR.get(version, {}))[name]})
        at += count
    return described
