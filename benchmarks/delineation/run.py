"""How far are located waves from QTDB's manual annotations, beside NeuroKit2's DWT and published figures?

    python benchmarks/delineation/run.py --data DATA

DATA holds ``qtdb`` and ``mitdb``. Minutes on one core. Writes ``results.json`` (or ``--results``) and README.md. R
peaks are our detector's, on each lead, for both delineators. What is measured:

- ``records``, ``tuning``: errors (located less annotated, ms) on the records for measuring, and on those by which
  ``choose.py`` chose the constants: of the closer lead for each point, as we take Martinez et al. 2004
  to do, and of each lead alone;
- ``by_record``: the same of each record, closer lead;
- ``p_waves``: share of MIT-BIH's beats with a P wave located, in sinus rhythm and in fibrillation or flutter, which has
  none, lead MLII or the first; ``p_common`` was chosen on DS1.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, DS2, benchmark, option, save
from page import page
from qtdb import AROUND, WAYS, Annotated, Floats, Ints, closer, names, nearest, read, summary

import ecgfed
from ecgfed.domain.record.reader import open_every_lead
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.peaks import find_peaks
from ecgfed.domain.waves.points import POINTS

#: NeuroKit2's names of the points.
NEUROKIT = dict(
    zip(POINTS, ("P_Onsets", "P_Peaks", "P_Offsets", "R_Onsets", "R_Offsets", "T_Peaks", "T_Offsets"), strict=True)
)
#: Rhythms with P waves and without.
RHYTHMS = {"sinus rhythm": ("(N",), "fibrillation or flutter": ("(AFIB", "(AFL")}
Locate = Callable[[Recording, Ints], Floats]


def ours(recording: Recording, peaks: Ints) -> Floats:
    return ecgfed.delineate(recording, peaks).points.array()


def neurokit(recording: Recording, peaks: Ints) -> Floats:
    """Return the points of NeuroKit2's DWT, of its cleaned signal."""
    import neurokit2

    signal = neurokit2.ecg_clean(recording.signal_mv, sampling_rate=round(recording.fs_hz))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, waves = neurokit2.ecg_delineate(signal, peaks, sampling_rate=round(recording.fs_hz), method="dwt")
    return np.stack([np.asarray(waves[f"ECG_{NEUROKIT[name]}"], np.float64) for name in POINTS], axis=1)


def errors_ms(of: Annotated, locate: Locate) -> Floats:
    """Return the errors of each lead, (leads, beats, 7); a point that is not located is NaN."""
    errors = []
    for lead in of.recording.leads:
        recording = replace(of.recording, lead=lead)
        peaks = find_peaks(recording)
        at = nearest(peaks, of.qrs)
        first, stop = max(int(at.min()) - AROUND, 0), min(int(at.max()) + AROUND, len(peaks))
        start = max(int(peaks[first]) - round(recording.fs_hz), 0)
        end = int(peaks[stop - 1]) + round(recording.fs_hz)
        part = replace(recording, source=recording.signals_mv[:, start:end])
        points = locate(part, peaks[first:stop] - start)[at - first] + start
        errors.append((points - of.points) * 1000 / recording.fs_hz)
    return np.stack(errors)


def measured(records: Mapping[str, Annotated], errors: Mapping[str, Floats]) -> dict[str, Any]:
    annotated = [of.points for of in records.values()]
    return {way: summary([take(of_record) for of_record in errors.values()], annotated) for way, take in WAYS.items()}


def p_waves(source: Path, record: str) -> dict[str, tuple[int, int]]:
    """Return how many conducted beats have a P wave located, and how many there are, by rhythm."""
    recording = open_every_lead(source / record, ("MLII",))
    marks = ecgfed.read_annotation(recording)
    beats = marks.beats()
    changes = [(at, note) for at, note in zip(marks.sample, marks.note, strict=True) if note.startswith("(")]
    number = np.searchsorted([at for at, _ in changes], beats.sample, side="right") - 1
    rhythm = np.array(["", *(note for _, note in changes)])[number + 1]
    waves = ecgfed.delineate(recording, beats)
    of_sinus = waves.usable & np.isin(beats.symbol, list("NLR"))
    known = np.isfinite(waves.points.p_peak)
    masks = {name: of_sinus & np.isin(rhythm, notes) for name, notes in RHYTHMS.items()}
    return {name: (int(known[mask].sum()), int(mask.sum())) for name, mask in masks.items()}


def p_shares(source: Path, records: Sequence[str]) -> dict[str, dict[str, float]]:
    counts = [p_waves(source, record) for record in records]
    totals = {name: np.sum([count[name] for count in counts], axis=0).tolist() for name in RHYTHMS}
    return {
        name: {"beats": beats, "located_percent": round(100 * located / beats, 1)}
        for name, (located, beats) in totals.items()
    }


def main(args: argparse.Namespace) -> None:
    tuning, testing = ({name: read(args.data / "qtdb", name) for name in half} for half in names(args.data / "qtdb"))
    result: dict[str, Any] = {"split": {"tuning": list(tuning), "testing": list(testing)}}
    errors = {name: errors_ms(of, ours) for name, of in testing.items()}
    of_neurokit = {name: errors_ms(of, neurokit) for name, of in testing.items()}
    result["records"] = {"ecgfed": measured(testing, errors), "NeuroKit2 DWT": measured(testing, of_neurokit)}
    result["by_record"] = {name: summary_of(closer(errors[name]), of.points) for name, of in testing.items()}
    of_tuning = {name: errors_ms(of, ours) for name, of in tuning.items()}
    result["tuning"] = {"ecgfed": measured(tuning, of_tuning)}
    result["p_waves"] = {name: p_shares(args.data / "mitdb", of) for name, of in (("DS1", DS1), ("DS2", DS2))}
    save(args, result)
    Path(__file__).with_name("README.md").write_text(page(result), "utf-8")


def summary_of(errors: Floats, annotated: Floats) -> dict[str, Any]:
    """Return ``summary`` of a record: of the points that its annotator marked."""
    marked = np.isfinite(annotated).any(axis=0)
    located = {}
    for column, name in enumerate(POINTS):
        part = errors[:, column][np.isfinite(errors[:, column])]
        if marked[column] and len(part):
            located[name] = [round(float(part.mean()), 1), round(float(part.std()), 1)]
    return located


if __name__ == "__main__":
    benchmark(
        main,
        option("--data", type=Path, required=True, help="folder with the folders qtdb and mitdb"),
        option("--results", type=Path, default=Path(__file__).with_name("results.json")),
        standard=False,
    )
