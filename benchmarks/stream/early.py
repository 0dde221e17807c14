"""How soon a stream announces a beat and its class, what that loses, and how often it is corrected.

    python benchmarks/stream/early.py --source MITDB --work DIR                  # the DS2 records
    python benchmarks/stream/early.py --source MITDB --work DIR --records DS1    # to choose by

Each record goes through ``StreamClassifier(early=True)`` with the model in the package, both leads, R peaks on MLII,
0.05 s at a time. EC57 compares what was announced with the annotations, from 5:00 on, and then the final R
peaks: the difference is what is lost. Likewise the first class of each beat and its final one. A correction is a beat
that was announced and is none, or that was not announced.

With noise it is the detector alone, from 4:30 to 10:00: the database's own noise (qrs/recorders.py) on every lead,
its power against h^2 / 8 of the QRS height, as in ``nst``. ``--cost RECORD`` measures the CPU seconds of two minutes of
a record by the value of ``early``, in turn. Reports are stored in DIR, by record.
"""

import argparse
import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "qrs"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import DS1, DS2, benchmark, option, save, table
from physiology import load
from recorders import Noise, noisy

from ecgfed import Annotation
from ecgfed.core.evaluation.ec57 import BeatComparison, aggregate, compare
from ecgfed.device import QrsDetector, StreamBeat, StreamClassifier, open_bundle
from ecgfed.domain.beats.announced import Announcements, Change
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.record.wfdb_files import read_annotation
from ecgfed.domain.signal.qrs_early import EarlyPeaks
from ecgfed.exports.device.shipped import shipped_model
from ecgfed.exports.device.stream import Early

LEAD, STEP_S, START_S, SETS = "MLII", 0.05, 300.0, {"DS1": DS1, "DS2": DS2}
#: What is looked at with noise, in seconds, and how strong the noise is, in dB.
NOISY_S, NOISY_DB = (270.0, 600.0), (6, 0)
COST_S = 120.0
#: Length of a record, in seconds, but for its last second.
LONGEST_S = 1805.0
#: What is stored of each report.
FIELDS = ("stage", "beat", "sample", "late_s", "name", "override")
Reports = dict[str, NDArray[Any]]


def streamed(signals: NDArray[np.float64], fs_hz: float, lead: int, early: Early) -> list[StreamBeat]:
    """Return all that a stream reports of a recording."""
    classifier = open_bundle(shipped_model()).classifier()
    stream = StreamClassifier(classifier, fs_hz, leads=len(signals), lead=lead, early=early)
    result, step = [], round(STEP_S * fs_hz)
    for at in range(0, signals.shape[1], step):
        result += stream.push(signals[:, at : at + step])
    return result + stream.finish()


def recorded(source: Path, name: str) -> tuple[NDArray[np.float64], float, int]:
    """Return a record's signals, its sampling frequency and the number of the lead in use."""
    recording = read_recording(source / name, (LEAD,), every_lead=True)
    return recording.signals_mv, recording.fs_hz, recording.leads.index(recording.lead)


def clean(source: Path, name: str, minutes: float) -> Reports:
    """Return what a stream reports of the first minutes of a record."""
    signals, fs_hz, lead = recorded(source, name)
    result = streamed(signals[:, : round(60 * minutes * fs_hz)], fs_hz, lead, True)
    return {field: np.array([getattr(one, field) for one in result]) for field in FIELDS}


def with_noise(source: Path, name: str, noise: Noise, snr_db: int) -> Reports:
    """Return what is reported of R peaks with noise, and the detector's own, which are ``final``."""
    strip, _ = load(source, name)
    _, fs_hz, lead = recorded(source, name)
    start, stop = (round(at_s * fs_hz) for at_s in NOISY_S)
    rng = np.random.default_rng([int(name), snr_db])
    noises = []
    for _ in strip.signals_mv:
        noises.append(np.zeros(strip.samples))
        noises[-1][start:stop] = noise.draw(stop - start, fs_hz, rng)
    signals = noisy(strip, noises, snr_db).signals_mv[:, start:stop]
    detector, known, rows = QrsDetector(fs_hz, len(signals), lead=lead), Announcements(fs_hz), []
    early, step = EarlyPeaks(detector), round(STEP_S * fs_hz)

    def note(stage: Change | str, beat: int, sample: int, now: int) -> None:
        rows.append((stage, beat, sample + start, (now - sample) / fs_hz))

    for at in [*range(0, signals.shape[1], step), signals.shape[1]]:
        now, part = min(at + step, signals.shape[1]), signals[:, at : at + step]
        decided = (detector.push(part) if part.shape[1] else detector.finish()).tolist()
        events = [event for peak in decided for event in known.decide(peak)]
        events += known.expire(now, ended=not part.shape[1])
        events += [event for peak in early.look() for event in known.announce(peak)]
        for event in events:
            note(event.change, event.beat, event.sample, now)
        for peak in decided:
            note("final", known.remove(peak), peak, now)
    return {field: np.array(values) for field, values in zip(FIELDS, zip(*rows, strict=True), strict=False)}


def stored(file: Path, make: Any) -> Reports:
    """Return what a file holds; where there is none, what ``make`` returns, which is then stored there."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}")
        np.savez(partial, **make())
        partial.rename(file)
        print(file.name, flush=True)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def scored(
    source: Path, name: str, reports: Reports, which: NDArray[np.bool_], span_s: tuple[float, float]
) -> BeatComparison:
    """Compare some of what was reported with a record's annotations; the classes where they are stored."""
    order = np.argsort(reports["sample"][which], kind="stable")
    sample, fs_hz = reports["sample"][which][order], 360.0
    symbol = np.full(len(sample), "N")
    if "name" in reports:
        symbol = np.where(reports["override"] != "", reports["override"], reports["name"])[which][order]
        symbol = np.where(symbol == "", "N", symbol)
    samples, reference = round(span_s[1] * fs_hz), read_annotation(source / name)
    some = reference.sample < samples
    reference = Annotation(reference.sample[some], reference.symbol[some])
    inside = sample < samples
    return compare(
        reference, Annotation(sample[inside], symbol[inside]), fs_hz, samples=samples, start_s=START_S, record=name
    )


def first_of_each(reports: Reports, stage: str) -> NDArray[np.bool_]:
    """Return the first report of a stage of each beat."""
    first = np.zeros(len(reports["stage"]), np.bool_)
    at = np.flatnonzero(reports["stage"] == stage)
    _, index = np.unique(reports["beat"][at], return_index=True)
    first[at[index]] = True
    return first


def f1(part: float, *totals: float) -> float:
    return round(200 * part / sum(totals), 3)


def class_f1(comparison: BeatComparison) -> dict[str, float]:
    """Return F1 of VEB and SVEB, percent."""
    scores = comparison.scores
    return {
        kind: f1(scores[f"{kind}_se"].part, scores[f"{kind}_se"].total, scores[f"{kind}_ppv"].total)
        for kind in ("veb", "sveb")
    }


def delays(late_s: NDArray[np.float64]) -> dict[str, float]:
    names = {"median_s": 50, "p99_s": 99, "most_s": 100}
    return {name: round(float(np.percentile(late_s, share)), 3) for name, share in names.items()}


def summary(source: Path, reports: dict[str, Reports], span_s: tuple[float, float]) -> dict[str, Any]:
    """Return what is lost, the delays of what was announced, and the corrections, of some records together."""
    announced, final, first_class, last_class, hours = [], [], [], [], 0.0
    late: dict[str, list[NDArray[np.float64]]] = {"announced": [], "early": []}
    counts = dict.fromkeys(("added", "withdrawn", "moved", "class_changed"), 0)
    for name, one in reports.items():
        stage, from_start = one["stage"], one["sample"] >= START_S * 360
        announced.append(scored(source, name, one, stage == "announced", span_s))
        final.append(scored(source, name, one, stage == "final", span_s))
        hours += (span_s[1] - START_S) / 3600
        for change in ("added", "withdrawn", "moved"):
            counts[change] += int(np.sum((stage == change) & from_start))
        is_announced = np.isin(one["beat"], one["beat"][stage == "announced"])
        for kind, which in (("announced", stage == "announced"), ("early", is_announced & first_of_each(one, "early"))):
            late[kind].append(one["late_s"][which & from_start])
        if "name" in one:
            first_class.append(scored(source, name, one, first_of_each(one, "early"), span_s))
            last_class.append(scored(source, name, one, stage == "final", span_s))
            counts["class_changed"] += int(np.sum((stage == "early") & ~first_of_each(one, "early") & from_start))
    sums, whole = aggregate(announced).gross, aggregate(final).gross
    result: dict[str, Any] = {
        "records": len(reports),
        "hours": round(hours, 2),
        "beats": int(whole.scores["qrs_se"].total),
        "f1_final": round(whole.qrs_f1 or 0.0, 3),
        "f1_announced": round(sums.qrs_f1 or 0.0, 3),
        "announced": delays(np.concatenate(late["announced"])),
        "within_0.6_s": round(100 * float(np.mean(np.concatenate(late["announced"]) <= 0.6)), 2),
        "an_hour": {change: round(count / hours, 1) for change, count in counts.items()},
    }
    if first_class:
        result["class"] = {
            "delay": delays(np.concatenate(late["early"])),
            "first": class_f1(aggregate(first_class).gross),
            "final": class_f1(aggregate(last_class).gross),
        }
    return result


def cost(source: Path, name: str) -> dict[str, float]:
    """Return CPU seconds of two minutes of a record by the value of ``early``, the least of two turns."""
    signals, fs_hz, lead = recorded(source, name)
    signals = signals[:, : round(COST_S * fs_hz)]
    modes: tuple[Early, ...] = (False, "decided", True)
    seconds: dict[str, float] = {}
    for early in modes * 2:
        before = process_time()
        streamed(signals, fs_hz, lead, early)
        spent = process_time() - before
        seconds[str(early)] = round(min(spent, seconds.get(str(early), np.inf)), 2)
    return seconds


def page(results: dict[str, Any]) -> list[str]:
    """Return the part of docs/stream.md that has figures."""
    columns = ("signal", "beats", "R peak after (s): median, 99%, maximum", "F1 of R peaks announced, final")
    columns += ("added, withdrawn, moved per hour",)
    rows = []
    for name, one in results["conditions"].items():
        late, an_hour = one["announced"], one["an_hour"]
        cells = (f"{late['median_s']:.2f}, {late['p99_s']:.2f}, {late['most_s']:.2f}",)
        cells += (f"{one['f1_announced']:.3f}, {one['f1_final']:.3f}",)
        cells += (f"{an_hour['added']:.1f}, {an_hour['withdrawn']:.1f}, {an_hour['moved']:.1f}",)
        rows.append((name, f"{one['beats']:,}", *cells))
    lines = [f"{of_records(results)}:", "", *table(columns, rows)]
    if of_class := results["conditions"].get("clean", {}).get("class"):
        late, first, last = of_class["delay"], of_class["first"], of_class["final"]
        text = (
            f"The first class is reported after {late['median_s']:.2f} s (median), {late['most_s']:.2f} s at most. F1 "
            f"of VEB is {first['veb']:.2f}% with the first class and {last['veb']:.2f}% with the final one, of SVEB "
            f"{first['sveb']:.2f}% and {last['sveb']:.2f}%."
        )
        lines += ["", text]
    if spent := results.get("cost"):
        seconds = spent["cpu_s"]
        ratios = [f"{seconds[mode] / seconds['False']:.1f}" for mode in ("decided", "True")]
        text = (
            f'CPU time over that of `early=False`, on record {spent["record"]}: {ratios[0]} times with `"decided"`, '
            f"{ratios[1]} times with `True`."
        )
        lines += ["", text]
    return lines


def of_records(results: dict[str, Any]) -> str:
    """Return in words what the figures are of."""
    records, minutes = results["records"], results["minutes"]
    whose = next((name for name, some in SETS.items() if set(records) <= set(some)), "MIT-BIH")
    which = f"The {len(records)} {whose} records"
    if len(records) < len(SETS.get(whose, ())):
        which = f"{len(records)} of the {len(SETS[whose])} {whose} records ({', '.join(records)})"
    return which if 60 * minutes >= LONGEST_S else f"{which}, the first {minutes:g} minutes"


def main(given: argparse.Namespace) -> None:
    records = given.only or SETS[given.records]
    noise = Noise(given.source, SETS[given.records]) if given.noise else None
    conditions: dict[str, Any] = {}
    if given.clean:
        reports = {
            name: stored(
                given.work / f"{name}-{given.minutes:g}min.npz",
                lambda name=name: clean(given.source, name, given.minutes),
            )
            for name in records
        }
        conditions["clean"] = summary(given.source, reports, (0.0, min(60 * given.minutes, LONGEST_S)))
    for snr_db in NOISY_DB if noise else ():
        reports = {
            name: stored(
                given.work / f"{name}-{snr_db}dB.npz",
                lambda name=name, snr_db=snr_db: with_noise(given.source, name, noise, snr_db),
            )
            for name in records
        }
        conditions[f"noise of the database, {snr_db} dB"] = summary(given.source, reports, NOISY_S)
    results: dict[str, Any] = {"records": list(records), "minutes": given.minutes, "conditions": conditions}
    if given.cost:
        results["cost"] = {"record": given.cost, "seconds": COST_S, "cpu_s": cost(given.source, given.cost)}
    save(given, results)
    print(results)


if __name__ == "__main__":
    benchmark(
        main,
        option("--records", choices=tuple(SETS), default="DS2"),
        option("--minutes", type=float, default=LONGEST_S / 60, help="of each record as it is, from its start"),
        option("--only", nargs="*", help="some of the records"),
        option("--no-clean", dest="clean", action="store_false", help="noise alone"),
        option("--no-noise", dest="noise", action="store_false", help="the records as they are alone"),
        option("--cost", help="a record, to measure CPU seconds with"),
        results="early.json",
    )
