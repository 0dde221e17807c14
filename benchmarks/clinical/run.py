"""What a few labels of a patient are worth: MIT-BIH, AAMI classes, EC57 scores, intervals over patients.

    python benchmarks/clinical/run.py --source MITDB --work DIR [--on ds2]

From our own detected peaks and from the reference's, with a model that has not seen the patients:

- ``a``: no label: trained on DS1, read on DS2, with and without 202 (201 of DS1 is the same person) and 232;
- ``b``: all labels of the first five minutes: the 24 records of the 200 series by a model of the 20 non-paced ones of
  the 100 series (Hu 1997, Ince 2009, Kiranyaz 2016, Zhai and Tin 2018), the rest of each record scored; VEB on all and
  on their 11, SVEB on all and on their 14;
- ``c``: 5 to 80 labels of the whole record, DS2, whole record scored: ours, at random, where the model is least sure;
- ``d``: as ``b``, with 5 to 80 labels of the first five minutes;
- ``e``: as ``c``, labels of the first half, scored on the second by the personal model made of them.

``--on ds1`` reads DS1 in place of DS2 and the 24, each record by a model of four fifths of DS1 that has not seen it:
for whoever changes something. DS2 is for the final table. A simulated person knows the reference (``person.py``).
Every protocol's counts are kept in ``DIR/parts`` once they are made; ``learn.py`` has made the rule that chooses.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, DS2, benchmark, compared, option, print_table, save
from models import TWO_HUNDRED, Model, fold_of, model
from person import CANNOT_TELL, CHOICES, NO_BEAT, annotation, class_numbers, grouped, labelled, truth
from scoring import found_missed_false, scored

from ecgfed.base.errors import RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.domain.labels.spread import spread
from ecgfed.domain.record.recording import Annotation
from ecgfed.tasks.grouped import GroupedBeats

PEAKS, COUNTS = ("detected", "annotated"), (5, 10, 20, 40, 80)
MINUTES = 5.0
#: Records that five-minute papers score VEB and SVEB on beside all 24.
ELEVEN = ("200", "202", "210", "213", "214", "219", "221", "228", "231", "233", "234")
FOURTEEN = (*ELEVEN, "212", "222", "232")
#: Rows whose records are told one by one: found, missed, called so falsely.
BY_RECORD = ("none", "all", "20")
#: record -> EC57 counts.
Counts = dict[str, NDArray[np.int64]]
#: What is named of a protocol: ``20`` or ``20 random`` labels.
Rows = dict[str, Counts]


class Patients:
    """The recordings, each with a model that has not seen it.

    Args:
        given: folders.
        peaks: ``detected`` or ``annotated``.
    """

    def __init__(self, given: argparse.Namespace, peaks: str) -> None:
        self.given, self.peaks = given, peaks
        self.whole = cache(self._whole)
        self.model = cache(lambda name: model(given, name))

    def of(self, record: str, series: bool = False) -> Model:
        """Return the model that reads a record; in protocols of five minutes that of the 100 series."""
        if self.given.on == "ds1":
            return self.model(fold_of(record))
        return self.model("hundred" if series else "ds1")

    def _whole(self, record: str) -> tuple[GroupedBeats, NDArray[np.str_]]:
        found = grouped(self.given.source, record, self.of(record).bundle, self.peaks)
        return found, truth(self.given.source, record, found)

    def counts(self, record: str, marks: Annotation, start_s: float) -> NDArray[np.int64]:
        """Return the EC57 counts of marks from some second on."""
        found: NDArray[np.int64] = compared(self.given.source / record, marks, start_s=start_s).counts
        return found


def no_label(patients: Patients, records: Sequence[str]) -> Rows:
    """Protocol a."""
    counts: Counts = {}
    for record in records:
        found, _ = patients.whole(record)
        counts[record] = patients.counts(record, annotation(found, found.names), 0.0)
    return {"none": counts}


def five_minutes(patients: Patients, records: Sequence[str]) -> Rows:
    """Protocols b and d: the rest by the personal model made of the first minutes; and by the global one."""
    rows: Rows = {}
    for record in records:
        own = patients.of(record, series=True)
        found = grouped(patients.given.source, record, own.bundle, patients.peaks, MINUTES)
        symbol = truth(patients.given.source, record, found)
        first = np.arange(found.grouped)
        rows.setdefault("none", {})[record] = patients.counts(record, annotation(found, found.names), 60 * MINUTES)
        rows.setdefault("all", {})[record] = _rest(patients, own, found, record, symbol[first])
        for choice in CHOICES:
            for count, label in labelled(found, symbol, COUNTS, choice):
                if choice == "ours" or count == 20:
                    name = f"{count}" if choice == "ours" else f"{count} {choice}"
                    told = spread(found.groups, label)[0]
                    rows.setdefault(name, {})[record] = _rest(patients, own, found, record, told)
    return rows


def few_labels(patients: Patients, records: Sequence[str]) -> Rows:
    """Protocol c."""
    rows: Rows = {}
    for record in records:
        found, symbol = patients.whole(record)
        for choice in CHOICES:
            for count, label in labelled(found, symbol, COUNTS, choice):
                name = f"{count}" if choice == "ours" else f"{count} {choice}"
                marks = annotation(found, spread(found.groups, label)[0])
                rows.setdefault(name, {})[record] = patients.counts(record, marks, 0.0)
    return rows


def first_half(patients: Patients, records: Sequence[str]) -> Rows:
    """Protocol e."""
    rows: Rows = {}
    for record in records:
        own, duration_s = patients.of(record), patients.whole(record)[0].beats.recording.duration_s
        found = grouped(patients.given.source, record, own.bundle, patients.peaks, duration_s / 120)
        symbol = truth(patients.given.source, record, found)
        model_says = annotation(found, found.names)
        rows.setdefault("none", {})[record] = patients.counts(record, model_says, duration_s / 2)
        for count, label in labelled(found, symbol, COUNTS, "ours"):
            told = spread(found.groups, label)[0]
            counted = _rest(patients, own, found, record, told, duration_s / 2)
            rows.setdefault(f"{count}", {})[record] = counted
    return rows


def _rest(
    patients: Patients, own: Model, found: GroupedBeats, record: str, told: NDArray[np.str_], start_s: float = 300.0
) -> NDArray[np.int64]:
    """Make a personal model of what the first beats are called, answer all the others by it, and count these."""
    numbers = class_numbers(found, told)
    learn = np.flatnonzero((numbers >= 0) & (told != NO_BEAT) & (told != CANNOT_TELL))
    later = np.arange(len(told), len(found.names))
    names = found.names.copy()
    if len(learn):
        windows = found.beats.windows
        made = own.personal(windows, learn, numbers[learn], later)
        symbols = np.array([found.bundle.labels.symbol_of(name) for name in found.bundle.classes])
        names[later] = symbols[made]
    names[: len(told)] = np.where(told == CANNOT_TELL, names[: len(told)], told)
    return patients.counts(record, annotation(found, names), start_s)


def kept(file: Path, make: Callable[[], Rows]) -> Rows:
    """Return a protocol's counts, made now unless they are kept."""
    if not file.is_file():
        made = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        as_lists = {row: {name: one.tolist() for name, one in counts.items()} for row, counts in made.items()}
        write_json(file, as_lists)
    found = read_json(file, RunError)
    return {row: {name: np.array(one) for name, one in counts.items()} for row, counts in found.items()}


#: protocol -> how it is made, and the sets of records it is scored on beside all.
PROTOCOLS: dict[str, tuple[Callable[[Patients, Sequence[str]], Rows], dict[str, tuple[str, ...]]]] = {
    "no label": (no_label, {"without 202": ("202",), "without 232": ("232",)}),
    "first five minutes": (five_minutes, {"without 232": ("232",)}),
    "whole record": (few_labels, {"without 232": ("232",)}),
    "first half": (first_half, {"without 232": ("232",)}),
}


def scores(protocol: str, rows: Rows, left_out: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return each row's scores on all records, without some, and on the papers' choices."""
    made: dict[str, Any] = {}
    for row, counts in rows.items():
        sets = {"all": list(counts)}
        sets |= {
            name: [one for one in counts if one not in out] for name, out in left_out.items() if set(out) & set(counts)
        }
        if protocol == "first five minutes" and set(FOURTEEN) <= set(counts):
            sets |= {"VEB's 11": list(ELEVEN), "SVEB's 14": list(FOURTEEN)}
        made[row] = {name: scored(counts, records) for name, records in sets.items()}
        if row in BY_RECORD:
            made[row]["records"] = {name: found_missed_false(one) for name, one in counts.items()}
    return made


def main(given: argparse.Namespace) -> None:
    if given.on == "ds1" and given.results == Path(__file__).with_name("results.json"):
        given.results = Path(__file__).with_name("ds1.json")
    results: dict[str, Any] = {}
    for protocol, (make, left_out) in PROTOCOLS.items():
        records = DS1 if given.on == "ds1" else TWO_HUNDRED if protocol == "first five minutes" else DS2
        results[protocol] = {}
        for peaks in PEAKS:
            file = given.work / "parts" / f"{given.on}-{protocol.replace(' ', '-')}-{peaks}.json"
            rows = kept(file, lambda make=make, records=records, peaks=peaks: make(Patients(given, peaks), records))
            results[protocol][peaks] = scores(protocol, rows, left_out)
            print(f"\n{protocol}, {peaks} peaks", flush=True)
            print_table(
                ("labels", "VEB F1", "Se/+P", "SVEB F1", "Se/+P"),
                [_line(name, one["all"]) for name, one in results[protocol][peaks].items()],
            )
    save(given, {"protocols": results})


def _line(name: str, one: dict[str, Any]) -> tuple[object, ...]:
    cells: list[object] = [name]
    for kind in ("veb", "sveb"):
        said = one[kind]
        cells += [
            f"{said['f1']:.1f} ({said['interval'][0]:.1f} to {said['interval'][1]:.1f})",
            f"{said['se']}/{said['ppv']}",
        ]
    return tuple(cells)


if __name__ == "__main__":
    benchmark(
        main,
        option("--on", choices=("ds1", "ds2"), default="ds2", help="which records are read"),
        option("--workers", type=int, default=None, help="threads; default one a core"),
    )
