"""Cross-validation of the detector by record, on the records it is trained on and on strips made from them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import DS1, compared
from physiology import Strip
from shown import Example
from stress.rows import Rows
from stress.run import figures, scored

from ecgfed import Annotation, read_recording
from ecgfed.core.evaluation.ec57 import BeatComparison, aggregate
from ecgfed.domain.signal.qrs import detect_qrs

Found = dict[tuple[str, str], list[BeatComparison]]


def line(name: str, comparisons: list[BeatComparison]) -> str:
    """Say in one line how well some records went."""
    gross = aggregate(comparisons).gross
    shares, offset = gross.scores, gross.offset_ms
    worst = sorted(comparisons, key=lambda one: one.qrs_f1 or 0.0)[:4]
    return (
        f"{name:12} Se {shares['qrs_se'].percent:.3f} +P {shares['qrs_ppv'].percent:.3f} F1 {gross.qrs_f1:.3f} "
        f"offset {np.median(offset):+.1f} sd {offset.std():.1f}, {100 * np.mean(np.abs(offset) <= 25):.2f}% within "
        "25 ms; worst " + ", ".join(f"{one.record} {one.qrs_f1:.2f}" for one in worst)
    )


def records_scored(source: Path, records: list[str], found: Found) -> None:
    """Run the detector with the weights in use on some records, by both leads and by the first alone."""
    for name in records:
        recording = read_recording(source / name, ("MLII", "V5"), every_lead=True)
        both, reference = recording.signals_mv, recording.leads.index(recording.lead)
        for leads, shown, lead in (("both leads", both, reference), ("channel 0", both[:1], 0)):
            peaks = detect_qrs(shown, recording.fs_hz, lead=lead)
            marks = Annotation(peaks, np.full(len(peaks), "N"))
            found.setdefault(("records", leads), []).append(compared(source / name, marks))


def strips_scored(strips: dict[str, list[Strip]], records: list[str], found: Found) -> None:
    """The same on the strips of the stress table that were made from some records."""
    for row, made in strips.items():
        for strip in (one for one in made if one.name in records):
            for leads, shown in (("both leads", strip.signals_mv), ("channel 0", strip.signals_mv[:1])):
                peaks = detect_qrs(shown, strip.fs_hz)
                found.setdefault((row, leads), []).append(scored(row, strip, peaks))


def report(source: Path, made: list[Example], folds: int, fit: Callable[[list[Example]], None]) -> None:
    """Fit on all folds but one, score the one left out; print both leads and the first alone."""
    strips, found = dict(Rows(source, DS1).all()), Found()
    for fold in range(folds):
        held_out = list(DS1[fold::folds])
        fit([one for one in made if one.record not in held_out])
        records_scored(source, held_out, found)
        strips_scored(strips, held_out, found)
        print(f"fold {fold + 1} of {folds} done", flush=True)
    for leads in ("both leads", "channel 0"):
        print(line(leads, found["records", leads]))
    for row in strips:
        both, one = (figures(found[row, leads]) for leads in ("both leads", "channel 0"))
        print(f"{row:38} {both['se']:6.2f} / {both['ppv']:6.2f}    {one['se']:6.2f} / {one['ppv']:6.2f}")
