/** What a manifest says of preprocessing and classes (ecgfed/exports/device/preprocessing.py, graph_metadata.py). Made by tests/web/tables.py: do not edit. */

export const EXPECTED = {
  "aami": {
    "/": "Q",
    "A": "S",
    "E": "V",
    "F": "F",
    "J": "S",
    "L": "N",
    "N": "N",
    "Q": "Q",
    "R": "N",
    "S": "S",
    "V": "V",
    "a": "S",
    "e": "N",
    "f": "Q",
    "j": "N"
  },
  "escapes": [
    "e",
    "j",
    "n"
  ],
  "preprocessing": {
    "filter": {
      "band_hz": [
        0.5,
        40.0
      ],
      "delay_s": 2.0,
      "edges": "Before its first and after its last sample a recording holds that sample's value; output i is the sum over k of h[k] * x[i + (M-1)/2 - k], so the delay of (M-1)/2 samples is compensated and as many samples come out as went in.",
      "formula": "M = floor(floor(length_s * fs_hz) / 2) * 2 + 1 taps. For n = 0..M-1, c = n - (M-1)/2, l = 2 low/fs_hz, r = 2 high/fs_hz: h[n] = (r sinc(r c) - l sinc(l c)) * (0.54 + 0.46 cos(2 pi c/(M-1))), sinc(x) = sin(pi x)/(pi x); then divided by the sum over n of h[n] cos(pi c (l+r)/2).",
      "kind": "linear-phase FIR band-pass",
      "length_s": 4.0,
      "taps": {
        "count": 1441,
        "delay_samples": 720,
        "fs_hz": 360.0
      },
      "window": "hamming"
    },
    "gaps": {
      "no_signal": {
        "baseline_window_s": 1.0,
        "block_s": 0.05,
        "flat_mv": 0.01,
        "flat_s": 1.0,
        "height_s": 2.0,
        "height_stretches": 5,
        "limit_mv": 10000.0,
        "rail_from_rest_mv": 1.0,
        "rail_s": 0.02,
        "rail_samples": 4,
        "reasons": [
          "flat",
          "gap",
          "rail",
          "spike"
        ],
        "spike_margin_s": 0.05,
        "spike_mv": 2.5,
        "spike_rings_s": 0.2,
        "spike_times": 5.0
      },
      "rule": "Samples that are missing, NaN or infinite are bridged by a straight line between the samples on both sides, before the filter; at an end the nearest sample is held; a lead without a sample is 0 mV. A gap of more than round(10 fs_hz) samples is no line: it holds the sample before it, and in its last floor(round(10 fs_hz) / 2) samples the one behind it. A stretch is lost where the lead shows no signal for one of the reasons: gap, flat, rail, spike (docs/bundle-format.md)."
    },
    "lead": {
      "rule": "The first of 'leads' that the recording has, by name; case, blanks, hyphens and underscores do not count, and another usual name of a lead stands for it. Samples in mV: (digital - baseline) / gain."
    },
    "order": [
      "choose the lead",
      "bridge its gaps",
      "band-pass at the recording's own sampling frequency",
      "resample to 360 Hz",
      "cut a window around each R peak",
      "compute the RR features",
      "run the chain of graphs; its first layer standardises the window",
      "divide the logits by the temperature, softmax, compare with the threshold"
    ],
    "resampling": {
      "formula": "Nothing at 360 Hz. Else up/down is the fraction nearest to 360/fs_hz whose denominator is at most largest_denominator, m = max(up, down), half = reach * m. For n = 0..2 half, c = n - half: g[n] = sinc(c/m) * I0(kaiser_beta sqrt(1 - (c/half)^2)), divided by the sum of g, times up. Output j = 0..ceil(samples * up/down)-1 is the sum over i of x[i] * g[j * down + half - i * up], terms outside 0..2 half left out, x being 0 outside the recording.",
      "kaiser_beta": 5.0,
      "largest_denominator": 5000,
      "r_peaks": "An R peak at sample r of the recording is at round(r * (360/fs_hz)), halves to the even, at most the last sample.",
      "reach": 10,
      "to_fs_hz": 360.0,
      "window": "kaiser"
    },
    "rr": null,
    "version": 1,
    "window": {
      "dtype": "float32",
      "fs_hz": 360.0,
      "padding_mv": 0.0,
      "r_index": 100,
      "rule": "Samples R - r_index to R - r_index + samples - 1 of the filtered, resampled lead, as float32, not standardised; padding_mv beyond an end of the recording, and then the beat is flagged as padded.",
      "samples": 256,
      "unit": "mV"
    }
  },
  "rr": {
    "1": {
      "clip": null,
      "dtype": "float32",
      "features": [
        {
          "is": "interval before the beat",
          "name": "previous_s",
          "unit": "s"
        },
        {
          "is": "interval after the beat",
          "name": "next_s",
          "unit": "s"
        },
        {
          "is": "median of the last ten intervals that end at or before the beat",
          "name": "median_of_last_10_s",
          "unit": "s"
        },
        {
          "is": "previous_s / median_of_last_10_s, 1 where the median is 0",
          "name": "previous_over_median",
          "unit": "1"
        }
      ],
      "history_beats": 10,
      "look_ahead_beats": 1,
      "parameters": {
        "history_intervals": 10
      },
      "rule": "Of the R peaks of the whole recording, in seconds, gaps not looked at. The first beat has no interval before it and takes the one after it, the last one likewise the one before it; the median is of the last history_intervals intervals that end at or before the beat, fewer at the start, for the first beat the interval after it. A lone beat has 0, 0, 0, 1. No value is clipped; the net scales them.",
      "version": 1
    },
    "2": {
      "clip": [
        -5.0,
        5.0
      ],
      "dtype": "float32",
      "features": [
        {
          "is": "interval before the beat over the typical interval",
          "name": "previous_over_typical",
          "unit": "1 (natural logarithm of a ratio, divided by log_unit)"
        },
        {
          "is": "interval after the beat over the sinus interval",
          "name": "next_over_sinus",
          "unit": "1 (natural logarithm of a ratio, divided by log_unit)"
        },
        {
          "is": "interval after the beat over the one before it",
          "name": "next_over_previous",
          "unit": "1 (natural logarithm of a ratio, divided by log_unit)"
        },
        {
          "is": "change of the interval over irregular_at, the change being least_change or more",
          "name": "irregular",
          "unit": "1 (natural logarithm of a ratio)"
        },
        {
          "is": "2 (1 - correlation of the QRS with the reference's)",
          "name": "qrs_unlike",
          "unit": "1"
        },
        {
          "is": "root mean square of the difference to the reference, QRS scaled to 1",
          "name": "qrs_apart",
          "unit": "1"
        },
        {
          "is": "size of the QRS",
          "name": "size",
          "unit": "1 (natural logarithm of a ratio, divided by 2 log_unit)"
        },
        {
          "is": "duration of the QRS",
          "name": "width",
          "unit": "1 (natural logarithm of a ratio, divided by 2 log_unit)"
        },
        {
          "is": "share common to the P regions, times (1 - correlation with their mean)",
          "name": "p_lost",
          "unit": "1"
        },
        {
          "is": "how early, where the rhythm is regular and the QRS like the reference's",
          "name": "premature",
          "unit": "1"
        },
        {
          "is": "premature times p_lost",
          "name": "premature_without_p",
          "unit": "1"
        },
        {
          "is": "how early, where the QRS is unlike the reference's",
          "name": "premature_unlike",
          "unit": "1"
        },
        {
          "is": "1 where the interval before the beat is void",
          "name": "void_previous",
          "unit": "0 or 1"
        },
        {
          "is": "1 where the interval after the beat is void",
          "name": "void_next",
          "unit": "0 or 1"
        },
        {
          "is": "1 where there is no typical interval",
          "name": "void_reference",
          "unit": "0 or 1"
        },
        {
          "is": "1 where there is no reference shape",
          "name": "void_shape",
          "unit": "0 or 1"
        }
      ],
      "history_beats": 1000,
      "look_ahead_beats": 104,
      "parameters": {
        "at_least_share": 0.999999999,
        "block_beats": 8,
        "blocks_ahead": 3,
        "blocks_back": 31,
        "change_quantile": 0.5,
        "changes": 60,
        "duration_samples": [
          50,
          170
        ],
        "fewest": 3,
        "irregular_at": 0.05,
        "irregular_width": 0.0125,
        "least_change": 0.005,
        "least_power": 1e-12,
        "least_qrs_mv": 0.02,
        "like_from": 0.88,
        "like_width": 0.08,
        "log_unit": 0.2,
        "own_shape_correlation": 0.7,
        "p_region_samples": [
          10,
          72
        ],
        "premature_from": 0.05,
        "qrs_samples": [
          75,
          136
        ],
        "sinus_quantile": 0.9,
        "slope_samples": 5,
        "steep_share": 0.15,
        "typical_quantile": 0.5
      },
      "rule": "docs/bundle-format.md, 'RR features, version 2', with the parameters below. An interval is void (no number) across a lost stretch of hides_s or more, when longer than longest_s, before the first beat and after the last; a window that is padded or touches a lost stretch makes no reference. What is void is 0 and its mask 1; all values are clipped to clip.",
      "version": 2,
      "void": {
        "hides_s": 0.15,
        "longest_s": 10.0,
        "value": 0.0
      }
    }
  }
};
