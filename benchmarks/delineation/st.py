"""How far is the ST level at J + 60 ms from the one that follows from QTDB's manual annotations?

    python benchmarks/delineation/st.py --data DATA

DATA holds ``qtdb``. For each record and lead that ``run.py`` measures on, over the annotated beats of each: by hand the
mean of the signal's level 60 ms behind the annotated end of QRS, less the mean of the 20 ms before its annotated onset;
ours is the level of the average beat of the same beats, R peaks being our detector's. QTDB has no marks of ST
levels. The annotator saw both leads, so part of a difference is that of the J points, which is stated beside
it. Prints a table and writes ``st.json`` (or ``--results``).
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import benchmark, option, print_table, save
from qtdb import AROUND, Annotated, Floats, Ints, names, nearest, read

from ecgfed.domain.signal.peaks import find_peaks
from ecgfed.domain.waves.intervals import LabelledWaves, average_beats
from ecgfed.domain.waves.lead import delineate_lead
from ecgfed.domain.waves.points import LEVEL_S, POINTS, ST_S

ONSET, END = POINTS.index("qrs_onset"), POINTS.index("qrs_end")
#: A level that differs by so much is off by a millimetre.
MILLIMETRE_MV = 0.1


def by_hand(signal_mv: Floats, points: Floats, fs_hz: float) -> Floats:
    """Return the level of each annotated beat in mV, NaN where onset or end of QRS is not annotated."""
    levels = np.full(len(points), np.nan)
    for number, (onset, end) in enumerate(points[:, [ONSET, END]]):
        if np.isfinite(onset) and np.isfinite(end):
            before = signal_mv[int(onset) - round(LEVEL_S * fs_hz) : int(onset)]
            levels[number] = signal_mv[int(end) + round(ST_S * fs_hz)] - before.mean()
    return levels


def compared(of: Annotated, lead: str) -> dict[str, Any] | None:
    """Return both levels of a lead, None where fewer than ten annotated beats can be averaged."""
    recording = replace(of.recording, lead=lead)
    peaks = find_peaks(recording)
    at = np.unique(nearest(peaks, of.qrs))
    first, stop = max(int(at.min()) - AROUND, 0), min(int(at.max()) + AROUND, len(peaks))
    some: Ints = peaks[first:stop]
    label = np.ones(len(some), np.int64)
    label[at - first] = 0
    usable = np.ones(len(some), np.bool_)
    points = delineate_lead(recording, lead, some, usable)
    waves = LabelledWaves(some, label, ("annotated", "other"), points, usable, ~usable)
    averages = [one for one in average_beats(recording, lead, waves, bin_s=1e9) if one.label == "annotated"]
    hand = by_hand(recording.signal_mv, of.points, recording.fs_hz)
    level, known = averages[0].st_mv, hand[np.isfinite(hand)]
    if level.value is None or len(known) < 10:
        return None
    ends = points.array()[at - first, END]
    j_ms = (
        np.nanmedian(ends - of.points[: len(ends), END]) * 1000 / recording.fs_hz if len(ends) == len(of.qrs) else None
    )
    return {
        "lead": lead,
        "by_hand_mv": round(float(known.mean()), 4),
        "ours_mv": round(level.value, 4),
        "error_mv": round((level.sd or 0.0) / level.beats**0.5, 4),
        "beats": [len(known), level.beats],
        "j_apart_ms": None if j_ms is None else round(float(j_ms), 1),
    }


def main(given: argparse.Namespace) -> None:
    rows = []
    for name in names(given.data / "qtdb")[1]:
        of = read(given.data / "qtdb", name)
        found = [compared(of, lead) for lead in of.recording.leads]
        rows += [{"record": name, **row} for row in found if row is not None]
    apart = np.array([row["ours_mv"] - row["by_hand_mv"] for row in rows])
    spread = np.corrcoef([row["ours_mv"] for row in rows], [row["by_hand_mv"] for row in rows])[0, 1]
    summary = {
        "leads": len(rows),
        "mean_mv": round(float(apart.mean()), 4),
        "sd_mv": round(float(apart.std(ddof=1)), 4),
        "median_apart_mv": round(float(np.median(np.abs(apart))), 4),
        "worst_mv": round(float(np.abs(apart).max()), 4),
        "within_a_millimetre": int((np.abs(apart) <= MILLIMETRE_MV).sum()),
        "correlation": round(float(spread), 4),
    }
    columns = ("record", "lead", "by_hand_mv", "ours_mv", "error_mv", "beats", "j_apart_ms")
    print_table(columns, [[row[name] for name in columns] for row in rows])
    print(summary)
    save(given, {"summary": summary, "rows": rows})


if __name__ == "__main__":
    benchmark(
        main,
        option("--data", type=Path, required=True, help="folder with qtdb"),
        option("--results", type=Path, default=Path(__file__).with_name("st.json")),
        standard=False,
    )
