"""Cross-validation of the detector by record, on the records it is trained on."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from common import compared

from ecgfed import Annotation, read_recording
from ecgfed.evaluation.ec57 import Comparison, aggregate
from ecgfed.signal import qrs

THRESHOLDS = (0.4, 0.0, -0.4, -0.8, -1.2)
FS_HZ = 360.0


def line(name: str, comparisons: list[Comparison]) -> str:
    """Say in one line how well some records went."""
    gross = aggregate(comparisons).gross
    shares, offset = gross.scores, gross.offset_ms
    worst = sorted(comparisons, key=lambda one: one.qrs_f1 or 0.0)[:4]
    return (
        f"{name:12} Se {shares['qrs_se'].percent:.3f} +P {shares['qrs_ppv'].percent:.3f} F1 {gross.qrs_f1:.3f} "
        f"offset {np.median(offset):+.1f} sd {offset.std():.1f} middle {_robust(offset):.1f} ms; worst "
        + ", ".join(f"{one.record} {one.qrs_f1:.2f}" for one in worst)
    )


def _scored(record: Path, peaks: np.ndarray) -> Comparison:
    return compared(record, Annotation(peaks, np.full(len(peaks), "N")))


def _robust(offset: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(offset - np.median(offset))))


def report(source: Path, made: list, records: Sequence[str], folds: int, fit: Callable[[list], None]) -> None:
    """Fit on all folds but one, score the one left out; print by threshold, for both leads and for the first alone."""
    found: dict[tuple[str, float], list[Comparison]] = {}
    signals = {name: read_recording(source / name, ("MLII", "V5"), every_lead=True) for name in records}
    for fold in range(folds):
        held_out = records[fold::folds]
        fit([one for one in made if one.record not in held_out])
        for name in held_out:
            both = signals[name].signals_mv
            reference = signals[name].leads.index(signals[name].lead)
            for qrs.THRESHOLD in THRESHOLDS:
                for leads, shown, lead in (("both leads", both, reference), ("channel 0", both[:1], 0)):
                    peaks = qrs.detect_qrs(shown, FS_HZ, lead=lead)
                    found.setdefault((leads, qrs.THRESHOLD), []).append(_scored(source / name, peaks))
    for (leads, threshold), comparisons in sorted(found.items()):
        print(line(f"{leads} {threshold:+.1f}", comparisons), flush=True)
