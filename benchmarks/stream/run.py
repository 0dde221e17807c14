"""What a stream says, how late, and in how much memory: on DS1 records, and on made-up hours.

    python benchmarks/stream/run.py --source MITDB --work DIR [--records 106 208 ...] [--hours 24]

Each record goes through two streams: with the model in the package, every beat told early and finally; and as far as
the windows with RR features of version 1. The final answers are compared with the model's for the beats of the whole
recording, which ``ecgfed.predict`` averages over alike ones with RR features of version 3; where the lead is at a rail,
those of a stream that was not told its rails too. The hours are of a made-up rhythm at 128 samples a second, with gaps.
"""

import argparse
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import benchmark, option, remembered, save, table

from ecgfed.device import Classifier, StreamBeat, StreamClassifier, open_bundle
from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.beats.stream import BeatStream
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.domain.signal.quality import RAIL_FROM_REST_MV
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.exports.device.stream import Early
from ecgfed.testing.ecg import synthetic_ecg

LEAD, CHUNK = "MLII", 1000
#: DS1 records with many ventricular beats, atrial fibrillation, and a rail.
RECORDS = ("106", "116", "201", "208", "223")
MADE_UP_HZ = 128.0


def everything(
    classifier: Classifier, signals: NDArray[np.float64], fs_hz: float, rails_mv: tuple[float, ...], *, early: Early
) -> list[StreamBeat]:
    """Return all that a stream says of a recording."""
    stream = StreamClassifier(classifier, fs_hz, leads=len(signals), rails_mv=rails_mv, early=early)
    found = []
    for at in range(0, signals.shape[1], CHUNK):
        found += stream.push(signals[:, at : at + CHUNK])
    return found + stream.finish()


def lateness(late_s: list[float]) -> dict[str, float]:
    """Return median and maximum."""
    return {"median_s": round(float(np.median(late_s)), 2), "most_s": round(max(late_s), 2)}


def version_one(signals: NDArray[np.float64], fs_hz: float, rails_mv: tuple[float, ...]) -> dict[str, float]:
    """Return how late beats are final whose RR features are of version 1."""
    stream, late = BeatStream(fs_hz, len(signals), 0, 1, rails_mv, early=False), []
    for at in range(0, signals.shape[1] // stream.step * stream.step, stream.step):
        told = stream.look(signals[:, at : at + stream.step])
        late += ((told.at - told.final.sample) / fs_hz).tolist()
    return lateness(late)


def of_record(classifier: Classifier, source: Path, name: str) -> dict[str, Any]:
    """Compare a record's stream with its whole, and early answers with final ones."""
    recording = read_recording(source / name, (LEAD,), every_lead=True)
    signals = np.roll(recording.signals_mv, -recording.leads.index(recording.lead), axis=0)
    beats, fs_hz = cut_beats(recording, BeatOptions((LEAD,), rr_version=classifier.rr or 1)), recording.fs_hz
    whole = classifier.classify(beats.windows)
    ends = (float(np.nanmin(signals[0])), float(np.nanmax(signals[0])))  # where its converter ends
    rails_mv = tuple(end for end in ends if abs(end - np.nanmedian(signals[0])) >= RAIL_FROM_REST_MV)
    before = process_time()
    found = everything(classifier, signals, fs_hz, rails_mv, early="decided")
    cpu_s = process_time() - before
    final = {one.sample: one for one in found if one.stage == "final"}
    early = [one for one in found if one.stage == "early"]
    both = [(one, final[one.sample]) for one in early if one.sample in final]
    apart = [np.abs(a.probabilities - b).max() for a, b in zip(final.values(), whole.probability, strict=True)]
    row: dict[str, Any] = {
        "beats": len(final),
        "same_peaks": list(final) == beats.r_samples.tolist(),
        "other_labels": sum(a.label != b for a, b in zip(final.values(), whole.label.tolist(), strict=True)),
        "probability_apart": float(max(apart)),
        "final": lateness([one.late_s for one in final.values() if one.time_s < recording.duration_s - 150]),
        "final_version_1": version_one(signals, fs_hz, rails_mv),
        "early": lateness([one.late_s for one in early]),
        "told_early": len(early),
        "withdrawn": sum(one.stage == "withdrawn" for one in found),
        "early_other_label": sum(a.label != b.label for a, b in both),
        "early_sure": sum(not a.low_confidence for a, _ in both),
        "early_sure_other_label": sum(a.label != b.label and not a.low_confidence for a, b in both),
        "cpu_s": round(cpu_s, 1),
        "rail_s": lead_quality(signals[0], fs_hz).seconds().get("rail", 0.0),
    }
    if row["rail_s"]:
        untold = everything(classifier, signals, fs_hz, (), early=False)
        row["rails_untold_other_labels"] = sum(
            one.sample in final and one.label != final[one.sample].label for one in untold
        )
        row["rails_untold_other_peaks"] = len({one.sample for one in untold} ^ set(final))
    return row


def made_up(hours: int) -> Iterator[NDArray[np.float64]]:
    """Yield hours, a minute at a time: a quarter's rhythm again and again, with gaps and a lead that comes off."""
    quarter = synthetic_ecg(MADE_UP_HZ, 900.0, seed=1).signals_mv[0]
    minute = round(60 * MADE_UP_HZ)
    for number in range(hours * 60):
        at = number % 15 * minute
        part = quarter[at : at + minute].copy()
        if number % 37 == 5:
            part[minute // 3 : minute // 2] = np.nan
        elif number % 171 < 3:
            part[:] = 0.0
        yield part


def memory_mb() -> float:
    """Return the most memory this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def of_hours(classifier: Classifier, hours: int) -> dict[str, Any]:
    """Return beats, CPU seconds and the most memory after each hour; final answers alone."""
    stream, beats, memory, before = StreamClassifier(classifier, MADE_UP_HZ), 0, [], process_time()
    for number, part in enumerate(made_up(hours)):
        beats += sum(one.stage == "final" for one in stream.push(part))
        if number % 60 == 59:
            memory.append(round(memory_mb(), 1))
            print(f"hour {len(memory)}: {memory[-1]} MB", flush=True)
    beats += len(stream.finish())
    return {
        "hours": hours,
        "fs_hz": MADE_UP_HZ,
        "beats": beats,
        "cpu_s": round(process_time() - before),
        "memory_mb": memory,
    }


def rows_of(records: dict[str, dict[str, Any]]) -> str:
    """Return the table of the README."""
    columns = ("record", "beats", "other peaks or classes than `predict`", "probability apart")
    columns += ("early: median, most (s)", "final, version 1", "final, version 2", "early class not the final one")
    columns += ("... of those that were sure",)
    rows = []
    for name, one in records.items():
        late = [f"{one[key]['median_s']}, {one[key]['most_s']}" for key in ("early", "final_version_1", "final")]
        other = f"{one['early_other_label']:,} of {one['told_early']:,}"
        sure = f"{one['early_sure_other_label']:,} of {one['early_sure']:,}"
        same = "none" if one["same_peaks"] and not one["other_labels"] else f"{one['other_labels']} classes"
        rows.append((name, f"{one['beats']:,}", same, f"{one['probability_apart']:.1g}", *late, other, sure))
    return "\n".join(table(columns, rows))


def main(asked: argparse.Namespace) -> None:
    """Measure what ``--work`` does not hold yet."""
    classifier = open_bundle(shipped_model()).classifier()
    asked.work.mkdir(parents=True, exist_ok=True)
    kept, records = asked.work / "found.json", {}
    results: dict[str, Any] = {}
    if asked.hours:
        results["made_up"] = remembered(kept, f"{asked.hours} h", lambda: of_hours(classifier, asked.hours))
    for name in asked.records:
        records[name] = remembered(kept, name, lambda name=name: of_record(classifier, asked.source, name))
        print(name, records[name], flush=True)
    save(asked, {**results, "records": records})
    print(rows_of(records))


if __name__ == "__main__":
    benchmark(
        main,
        option("--records", nargs="*", default=list(RECORDS)),
        option("--hours", type=int, default=24, help="of the made-up recording; 0 for none"),
    )
