"""Chooses the delineator's constants on half of QTDB's records; the other half is not read.

    python benchmarks/delineation/choose.py --source QTDB

From the constants in the package on, one after another is set to the best of its values, in a random order, twice.
What is minimised is the root mean square error of a record, limited so that a wave taken for another one weighs no more
than one missed; summed over the points, of the closer lead and of both leads, and averaged over records. Corrections
make the median error of the closer lead zero, over records. Minutes on one core. Writes ``chosen.json`` (or
``--results``), which ``WaveSettings`` is tested against.
"""

import argparse
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option, save
from qtdb import Floats, closer, names, nearest, read

from ecgfed.domain.signal.peaks import find_peaks
from ecgfed.domain.waves.delineate import BeatWindows, delineate_windows
from ecgfed.domain.waves.lead import lead_windows, rr_intervals
from ecgfed.domain.waves.points import POINTS, SETTINGS, WaveSettings

#: Values that are tried.
VALUES: dict[str, tuple[float, ...]] = {
    "qrs_sigma_s": (0.006, 0.007, 0.008),
    "qrs_quiet_s": (0.020, 0.024, 0.028),
    "onset_share": (0.05, 0.06, 0.07),
    "end_share": (0.04, 0.05, 0.06),
    "noise_times": (1.5, 2.0, 2.5),
    "noise_share": (0.10, 0.15, 0.20, 0.25),
    "wave_sigma_s": (0.014, 0.016, 0.018),
    "averaged_share": (0.0, 0.3, 0.5),
    "p_sigma_s": (0.019, 0.022, 0.025),
    "p_far": (0.5, 1.0, 1.5),
    "p_slope_s": (0.06, 0.07, 0.08),
    "p_onset_s": (0.07, 0.08, 0.09),
    "p_end_s": (0.05, 0.06, 0.07),
    "t_sigma_s": (0.025, 0.030, 0.035),
    "t_first_s": (0.08, 0.10, 0.12),
    "t_root": (0.50, 0.55, 0.60),
    "t_slope_s": (0.08, 0.10, 0.12),
    "t_end_s": (0.10, 0.12, 0.14),
}
#: The correction of a point, and no larger error in ms counts.
CORRECTIONS = {
    "p_onset": "p_onset_offset_s",
    "p_end": "p_end_offset_s",
    "qrs_onset": "qrs_onset_offset_s",
    "qrs_end": "qrs_end_offset_s",
    "t_end": "t_end_offset_s",
}
LIMIT_MS = {"qrs_onset": 40.0, "qrs_end": 40.0, "t_peak": 80.0, "t_end": 80.0}
OTHER_LIMIT_MS = 60.0
#: A constant changes where the criterion falls by at least so much (ms); passes over the constants at most.
LEAST, PASSES = 0.05, 2
#: Beats around the annotated ones, with which these are averaged.
MARGIN = 11


@dataclass(frozen=True, eq=False)
class Lead:
    """A lead's windows around its annotated beats, the rows of these, and the annotated points from the R peak."""

    windows: BeatWindows
    rows: np.ndarray
    points: Floats


def leads_of(source: Path, name: str) -> list[Lead]:
    of = read(source, name)
    leads = []
    for lead in of.recording.leads:
        recording = replace(of.recording, lead=lead)
        peaks = find_peaks(recording)
        at = nearest(peaks, of.qrs)
        first, stop = max(int(at.min()) - MARGIN, 0), min(int(at.max()) + MARGIN, len(peaks))
        windows = lead_windows(recording, lead, peaks, rr_intervals(peaks, recording.fs_hz), first, stop)
        leads.append(Lead(windows, at - first, of.points - peaks[at][:, None]))
    return leads


def errors_ms(leads: list[Lead], settings: WaveSettings) -> Floats:
    """Return the errors of a record, (leads, beats, 7)."""
    located = [delineate_windows(lead.windows, settings=settings).array()[lead.rows] for lead in leads]
    return np.stack([(x - lead.points) * 1000 / lead.windows.fs_hz for x, lead in zip(located, leads, strict=True)])


def criterion(records: list[list[Lead]], settings: WaveSettings) -> tuple[float, dict[str, float]]:
    """Return the criterion with the best corrections, and these in seconds."""
    errors = [errors_ms(leads, replace(settings, **dict.fromkeys(CORRECTIONS.values(), 0.0))) for leads in records]
    known = [np.isfinite(leads[0].points) for leads in records]
    total, corrections = 0.0, {}
    for column, point in enumerate(POINTS):
        of_point = [of_record[:, mask[:, column], column] for of_record, mask in zip(errors, known, strict=True)]
        of_point = [part for part in of_point if part.size]
        shift = 0.0
        if point in CORRECTIONS:
            shift = -float(np.median([np.nanmedian(closer(part[:, :, None])) for part in of_point]))
            corrections[CORRECTIONS[point]] = round(shift / 1000, 3)
        limit = LIMIT_MS.get(point, OTHER_LIMIT_MS)
        for part in of_point:
            moved = np.nan_to_num(np.clip(part + shift, -limit, limit), nan=limit)
            size = np.sqrt((moved**2).mean(axis=1))
            nearest_lead = np.sqrt((np.abs(moved).min(axis=0) ** 2).mean())
            total += (float(nearest_lead) + float(size.mean())) / len(of_point)
    return total, corrections


def main(args: argparse.Namespace) -> None:
    tuning, _ = names(args.source)
    records = [leads_of(args.source, name) for name in tuning]
    settings, rng = SETTINGS, np.random.default_rng(0)
    best, corrections = criterion(records, settings)
    print(f"{best:.2f} ms with today's constants", flush=True)
    for number in range(PASSES):
        before = best
        for name in rng.permutation(sorted(VALUES)).tolist():
            for value in VALUES[name]:
                tried = replace(settings, **{name: value})
                result, of_tried = criterion(records, tried)
                if result < best - LEAST:
                    best, corrections, settings = result, of_tried, tried
        print(f"{best:.2f} ms after pass {number + 1}", flush=True)
        if best == before:
            break
    settings = replace(settings, **corrections)
    save(args, {"records": tuning, "criterion_ms": round(best, 2), "settings": asdict(settings)})


if __name__ == "__main__":
    benchmark(
        main,
        option("--source", type=Path, required=True, help="folder with QTDB's records"),
        option("--results", type=Path, default=Path(__file__).with_name("chosen.json")),
        standard=False,
    )
