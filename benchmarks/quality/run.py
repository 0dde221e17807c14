"""How well bad stretches are found: against MIT-BIH's own marks of noise, against a detector's errors, and made damage.

    python benchmarks/quality/run.py --source MITDB

Minutes on one core. Writes ``results.json`` beside this file (or ``--results``). What is measured:

- ``records``: seconds by reason on the lead MLII (else the first) of each record, beside the seconds its ``~`` marks
  call noisy (annot(5): subtype bit n, channel n noisy; bit n + 4, unreadable; -1, all unreadable);
- ``beats``: beats of the 46 clients whose window overlaps a bad stretch;
- ``indices``: area under the ROC curve of the noise criterion and of three published indices, lead MLII, 2 s each;
- ``detector``: beats that ours (all leads) and xqrs miss (not within 150 ms) and find in excess, inside bad stretches
  and outside;
- ``damage``: what is marked where damage was made over clean stretches of real records;
- ``inverted``: records found inverted as they are, and when each is turned over;
- ``frequency``: records whose frequency is doubted when their header states another one, first four minutes;
- ``pacing``: whether a narrow wave before the QRS tells paced records from others.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter
from scipy.signal import firwin, oaconvolve, welch
from scipy.stats import kurtosis
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import PACED, benchmark, option, save

from ecgfed import Recording, read_annotation
from ecgfed.base.errors import RecordError
from ecgfed.domain.beats.extract import FLAG_POOR_QUALITY, match_peaks
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.record.reader import open_every_lead
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.filters import band_pass
from ecgfed.domain.signal.findings import record_findings
from ecgfed.domain.signal.peaks import detect_around_gaps
from ecgfed.domain.signal.quality import NOISE_SHARE, LeadQuality, Reason

Signal = NDArray[np.float64]
FS = 360
#: Whose errors are counted: the default, and one that has to be led around gaps.
DETECTED_BY = ("ecgfed", "xqrs")


def marked(recording: Recording) -> NDArray[np.bool_]:
    """Where the reference annotation calls the chosen lead noisy or unreadable."""
    marks = read_annotation(recording)
    noisy = np.zeros(len(recording.signal_mv), dtype=bool)
    bits = 0b10001 << recording.leads.index(recording.lead)
    changes = [(s, t) for s, y, t in zip(marks.sample, marks.symbol, marks.subtypes, strict=True) if y == "~"]
    stops = [start for start, _ in changes[1:]] + [len(noisy)] * bool(changes)
    for (start, subtype), stop in zip(changes, stops, strict=True):
        noisy[start:stop] = subtype == -1 or bool(int(subtype) & bits)
    return noisy


def noise_share(signal: Signal) -> Signal:
    """The criterion as a number, (2 s pieces,): between-beat rms in 15 to 40 Hz over the height of the beats."""
    taps = firwin(91, (15, 40), pass_zero=False, fs=FS)
    pieces = len(signal) // (2 * FS)
    band = oaconvolve(np.pad(signal, 45, mode="edge"), taps, mode="valid")[: pieces * 2 * FS]
    floor = np.median(np.sqrt((band.reshape(pieces, 40, 18) ** 2).mean(axis=2)), axis=1)
    blocks = np.median(signal[: pieces * 2 * FS].reshape(-1, 18), axis=1)
    baseline = np.repeat(median_filter(blocks, 20, mode="reflect"), 18)
    height = np.abs(signal[: pieces * 2 * FS] - baseline).reshape(pieces, -1).max(axis=1)
    return floor / median_filter(height, 5, mode="nearest")


def published(signal: Signal) -> dict[str, Signal]:
    """PSQI, kSQI and basSQI of each 2 s, turned so that high means bad."""
    pieces = len(signal) // (2 * FS)
    raw = signal[: pieces * 2 * FS].reshape(pieces, -1)
    filtered = band_pass(signal, FS)[: pieces * 2 * FS].reshape(pieces, -1)
    hz, power = welch(filtered, FS, nperseg=2 * FS, axis=1)
    _, raw_power = welch(raw, FS, nperseg=2 * FS, axis=1)

    def band(of: Signal, low: float, high: float) -> Signal:
        return of[:, (hz >= low) & (hz <= high)].sum(axis=1)

    return {
        "pSQI": -band(power, 5, 15) / band(power, 5, 40),
        "kSQI": -kurtosis(filtered, axis=1),
        "basSQI": band(raw_power, 0, 1) / band(raw_power, 0, 40),
    }


def indices(scored: list[tuple[Recording, NDArray[np.bool_]]]) -> dict[str, float]:
    values: dict[str, list[Signal]] = {}
    truth: list[NDArray[np.bool_]] = []
    for recording, noisy in scored:
        if recording.lead != "MLII":
            continue
        pieces = len(noisy) // (2 * FS)
        truth.append(noisy[: pieces * 2 * FS].reshape(pieces, -1).mean(axis=1) > 0.5)
        for name, found in {"ours": noise_share(recording.signal_mv), **published(recording.signal_mv)}.items():
            values.setdefault(name, []).append(found)
    noisy_pieces = np.concatenate(truth)
    return {name: round(float(roc_auc_score(noisy_pieces, np.concatenate(v))), 3) for name, v in values.items()}


def of_record(recording: Recording, quality: LeadQuality, noisy: NDArray[np.bool_]) -> dict[str, Any]:
    bad = quality.bad()
    return {
        "lead": recording.lead,
        "seconds": quality.seconds(),
        "marked_s": round(noisy.sum() / FS, 1),
        "bad_in_marked_s": round((bad & noisy).sum() / FS, 1),
        "bad_unmarked_s": round((bad & ~noisy).sum() / FS, 1),
    }


def beats_in_bad_stretches(recordings: list[Recording]) -> dict[str, int]:
    """Count the beats of a cohort's 46 clients, and those of them that are flagged."""
    options, labels = BeatOptions(("MLII",), "annotated"), BUILT_IN["mitbih12"]
    flags = [cut_beats(one, options).labelled(labels).windows.flags for one in recordings if one.lead == "MLII"]
    return {"beats": sum(map(len, flags)), "flagged": sum(int((one & FLAG_POOR_QUALITY != 0).sum()) for one in flags)}


def count_errors(recording: Recording, peaks: NDArray[np.int64], bad: NDArray[np.bool_]) -> Signal:
    """Beats, missed beats, detections in excess and seconds: inside bad stretches (first row) and outside."""
    marks = read_annotation(recording)
    beats = marks.beats().sample
    flutter = np.zeros(len(bad), dtype=bool)
    ends = zip(marks.sample[marks.symbol == "["], marks.sample[marks.symbol == "]"], strict=True)
    for start, stop in ends:
        flutter[start:stop] = True
    mine, theirs = match_peaks(peaks, beats, round(0.150 * FS))
    excess, missed = np.setdiff1d(peaks, peaks[mine]), np.setdiff1d(beats, beats[theirs])
    out = np.zeros((2, 4))
    for row, where in enumerate((bad & ~flutter, ~bad & ~flutter)):
        out[row] = where[beats].sum(), where[missed].sum(), where[excess].sum(), where.sum() / FS
    return out


def rates(errors: NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """What ``count_errors`` counted, as shares of the beats and a minute."""
    return {
        where: {
            "beats": int(row[0]),
            "missed_percent": round(100 * row[1] / row[0], 2),
            "excess_per_min": round(60 * row[2] / row[3], 2),
            "seconds": round(row[3], 1),
        }
        for where, row in zip(("inside", "outside"), errors, strict=True)
    }


def kinds(recording: Recording, signals: Signal, quality: list[LeadQuality]) -> list[str]:
    turned = replace(recording, source=signals)
    chosen = recording.leads.index(recording.lead)
    try:
        peaks = detect_around_gaps(turned.signals_mv, FS, quality[chosen], lead=chosen)
    except RecordError:
        return ["no-beats"]
    bad = np.stack([found.bad() for found in quality])
    return [found.kind for found in record_findings(turned, peaks, bad) if found.lead in (None, recording.lead)]


def frequency(recordings: list[Recording]) -> dict[str, int]:
    """Records that are doubted at each frequency a header may state; all were recorded at 360 Hz."""
    doubted = dict.fromkeys(("100", "128", "180", "250", "360", "500", "720", "1000", "2000"), 0)
    for recording in recordings:
        signals = recording.signals_mv[:, : 240 * FS]
        bad = np.stack([lead_quality(signal, FS).bad() for signal in signals])
        peaks = detect_around_gaps(signals, FS, lead=recording.leads.index(recording.lead))
        annotation = read_annotation(recording)
        for stated in doubted:
            misread = replace(recording, source=signals, fs_hz=float(stated))
            found = {finding.kind for finding in record_findings(misread, peaks, bad, annotation)}
            doubted[stated] += bool(found & {"heart-rate", "sampling-frequency"})
    return doubted


def narrow_wave(signal: Signal, beats: NDArray[np.int64]) -> float:
    """Median over beats of the largest wave narrower than 7 ms in the 150 ms before R, over the QRS's height."""
    narrow = np.abs(signal - median_filter(signal, 5))
    inside = beats[(beats > 60) & (beats < len(signal) - 60)][:, None]
    height = np.maximum(np.ptp(signal[inside + np.arange(-40, 41)], axis=1), 0.05)  # a beat lost at the rail has none
    return float(np.median(narrow[inside + np.arange(-54, 0)].max(axis=1) / height))


# Made damage: each takes 120 s of a clean record and damages some of it from 60 s on.

Damage = Callable[[Signal, np.random.Generator], tuple[Signal, int]]


def _held(seconds: float, level: float | None) -> Damage:
    def make(signal: Signal, _: np.random.Generator) -> tuple[Signal, int]:
        stop = 60 * FS + round(seconds * FS)
        signal[60 * FS : stop] = signal[60 * FS] if level is None else level
        return signal, stop

    return make


def _spike(height_mv: float, seconds: float) -> Damage:
    def make(signal: Signal, _: np.random.Generator) -> tuple[Signal, int]:
        stop = 60 * FS + max(1, round(seconds * FS))
        signal[60 * FS : stop] += height_mv
        return signal, stop

    return make


def _step(height_mv: float) -> Damage:
    def make(signal: Signal, _: np.random.Generator) -> tuple[Signal, int]:
        signal[60 * FS :] += height_mv
        return signal, 60 * FS + 1

    return make


def _wander(amplitude_mv: float, hz: float) -> Damage:
    def make(signal: Signal, _: np.random.Generator) -> tuple[Signal, int]:
        signal[60 * FS : 80 * FS] += amplitude_mv * np.sin(2 * np.pi * hz * np.arange(20 * FS) / FS)
        return signal, 80 * FS

    return make


def _noise(snr_db: float, band_hz: tuple[float, float] | None) -> Damage:
    """Noise of a power of S/10^(SNR/10) for 20 s, S the median of (QRS peak to peak)^2 / 8 (as WFDB's nst has it)."""

    def make(signal: Signal, rng: np.random.Generator) -> tuple[Signal, int]:
        size = median_filter(np.ptp(signal[: 120 * FS].reshape(60, -1), axis=1), 5).mean()
        noise = rng.normal(size=20 * FS + 200)
        if band_hz:
            noise = np.convolve(noise, firwin(201, band_hz, pass_zero=False, fs=FS), mode="valid")
        noise = noise[: 20 * FS] / noise[: 20 * FS].std()
        signal[60 * FS : 80 * FS] += noise * size / np.sqrt(8) * 10 ** (-snr_db / 20)
        return signal, 80 * FS

    return make


DAMAGE: dict[str, tuple[Reason, Damage]] = {
    "gap 5 s": (Reason.GAP, _held(5, np.nan)),
    "flat 5 s": (Reason.FLAT, _held(5, None)),
    "flat 1 s": (Reason.FLAT, _held(1.0, None)),
    "rail 30 s": (Reason.RAIL, _held(30, 5.115)),
    "rail 0.1 s": (Reason.RAIL, _held(0.1, 5.115)),
    "spike 50 mV, 1 sample": (Reason.SPIKE, _spike(50, 0)),
    "spike 20 mV, 20 ms": (Reason.SPIKE, _spike(20, 0.02)),
    "spike 5 mV, 20 ms": (Reason.SPIKE, _spike(5, 0.02)),
    "step 3 mV": (Reason.BASELINE, _step(3)),
    "wander 1 mV, 0.3 Hz": (Reason.BASELINE, _wander(1, 0.3)),
    "wander 1 mV, 1 Hz": (Reason.BASELINE, _wander(1, 1.0)),
    **{f"white noise, {db} dB": (Reason.NOISE, _noise(db, None)) for db in (24, 18, 12, 6, 0)},
    **{f"muscle noise 20-150 Hz, {db} dB": (Reason.NOISE, _noise(db, (20, 150))) for db in (24, 18, 12, 6, 0)},
}


def damage(recordings: list[Recording], quality: dict[str, LeadQuality]) -> dict[str, Any]:
    """Mean share of the damage marked for its own reason, and other seconds marked, over clean stretches."""
    clean = []
    for recording in recordings:
        bad = quality[recording.name].bad()
        for minute in range(4, 24, 2):
            piece = slice(minute * 60 * FS, (minute + 2) * 60 * FS)
            if recording.lead == "MLII" and not bad[piece].any():
                clean.append(recording.signal_mv[piece])
                break
    rows = {}
    for name, (reason, make) in DAMAGE.items():
        shares, others = [], []
        for number, piece in enumerate(clean):
            damaged, stop = make(piece.copy(), np.random.default_rng(number))
            found = lead_quality(damaged, FS)
            where = found.bad([reason])
            shares.append(float(where[60 * FS : stop].mean()))
            outside = found.bad()
            outside[60 * FS - FS : stop + FS] = False
            others.append(float(outside.sum() / FS))
        rows[name] = {
            "reason": str(reason),
            "found_in": sum(share > 0 for share in shares),
            "of": len(shares),
            "share_marked": round(float(np.mean(shares)), 3),
            "seconds_marked_elsewhere": round(float(np.mean(others)), 2),
        }
    return rows


def main(given: argparse.Namespace) -> None:
    names = sorted(path.stem for path in given.source.glob("*.hea"))
    result: dict[str, Any] = {"records": {}, "inverted": {"as_recorded": {}, "turned_over": {}}, "pacing": {}}
    recordings, marks, quality = [], [], {}
    errors = {name: np.zeros((2, 4)) for name in DETECTED_BY}
    for name in names:
        recording = open_every_lead(given.source / name, ("MLII",))
        every = [lead_quality(signal, FS) for signal in recording.signals_mv]
        lead = recording.leads.index(recording.lead)
        found = quality[name] = every[lead]
        recordings.append(recording)
        marks.append(marked(recording))
        result["records"][name] = of_record(recording, found, marks[-1])
        for detector, counted in errors.items():
            peaks = detect_around_gaps(recording.signals_mv, FS, found, lead=lead, detector=detector)
            counted += count_errors(recording, peaks, found.bad())
        result["inverted"]["as_recorded"][name] = kinds(recording, recording.signals_mv, every)
        result["inverted"]["turned_over"][name] = kinds(recording, -recording.signals_mv, every)
        beats = read_annotation(recording).beats().sample
        result["pacing"][name] = [round(narrow_wave(signal, beats), 3) for signal in recording.signals_mv]
        print(name, result["records"][name], flush=True)
    result["beats"] = beats_in_bad_stretches(recordings)
    result["indices"] = indices(list(zip(recordings, marks, strict=True)))
    result["noise_share"] = NOISE_SHARE
    result["detector"] = {detector: rates(counted) for detector, counted in errors.items()}
    result["frequency"] = frequency(recordings)
    result["damage"] = damage(recordings, quality)
    paced = [value for name in PACED for value in result["pacing"][name]]
    others = [value for name in names if name not in PACED for value in result["pacing"][name]]
    result["pacing"] = {**result["pacing"], "paced": sorted(paced), "highest_of_others": max(others)}
    save(given, result)
    print(json.dumps({key: result[key] for key in ("indices", "detector", "damage")}, indent=1))


if __name__ == "__main__":
    benchmark(
        main,
        option("--source", type=Path, required=True, help="folder with the 48 MIT-BIH records"),
        option("--results", type=Path, default=Path(__file__).with_name("results.json")),
        standard=False,
    )
