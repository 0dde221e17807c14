"""The model in the package before and after a patient's labels, each patient by a model that has not seen them.

    python benchmarks/shipped/run.py --data DATA --work MODELS
    python benchmarks/clinical/packaged.py --models MODELS --data DATA --work DIR [--only ds1]

The first command leaves ``MODELS/fold-N/bundle``. A record of MIT-BIH is read by the first of these that was not
trained on it, and personalized as ``ecgfed personalize --labels`` does, by each method of ``METHODS``, from

- ``twenty``: 20 labels of a simulated person (``person.py``), at the beats that ``ecgfed label`` asks for; the whole
  record is scored;
- ``five minutes``: the reference's labels of the first five minutes; the rest of the record is scored.

Before is the fold's global model. After is the exported model (personal, global or from scratch), as ``ecgfed predict
--patient`` reads the record; ``labels`` are the propagated ones, ``RECORD.own``. EC57's scores, AAMI's classes, our own
R peaks. A record is worse if fewer of its beats have the right class after than before. What each record gave is in
``DIR/parts`` and is not made again.
"""

import argparse
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1, DS2, benchmark, compared, option, print_table, save, table
from person import labelled, truth
from scoring import scored

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.domain.labels.user_labels import UserLabel, label_table
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.tasks.grouped import grouped_beats
from ecgfed.tasks.personalize_labels import LabelsConfig
from ecgfed.tasks.prediction_warnings import took_part
from ecgfed.tasks.progress import SILENT
from ecgfed.tasks.records import open_for_model

SETS = {"ds1": DS1, "ds2": DS2}
METHODS = ("partway", "distilled")
KINDS = ("veb", "sveb")
COUNT, MINUTES = 20, 5.0
#: labels -> the options of ``personalize``, and where scoring begins, seconds.
PROTOCOLS: dict[str, tuple[dict[str, Any], float]] = {
    "twenty": ({}, 0.0),
    "five minutes": ({"minutes": MINUTES}, 60 * MINUTES),
}


@cache
def fold_bundles(models: Path) -> tuple[ecgfed.Bundle, ...]:
    """Return the bundles of the folds; raises OptionError if there is none."""
    folders = sorted(models.glob("fold-*/bundle"))
    if not folders:
        action = "make them with 'python benchmarks/shipped/run.py --work DIR'"
        raise OptionError("--models", f"{models} holds no fold", "folders fold-1/bundle, fold-2/bundle, ...", action)
    return tuple(map(ecgfed.open_bundle, folders))


def unseen_bundle(given: argparse.Namespace, record: str) -> ecgfed.Bundle:
    """Return the first fold that was not trained on a record; raises OptionError if all were."""
    for bundle in fold_bundles(given.models):
        if not took_part(bundle, open_for_model(given.data / "mitdb" / record, bundle.leads, None)):
            return bundle
    problem = f"every fold in {given.models} was trained on {record}"
    raise OptionError("--models", problem, "a fold that was not", "leave the record out with --only")


def label_file(given: argparse.Namespace, record: str, bundle: ecgfed.Bundle, protocol: str) -> Path:
    """Return the file of labels: the reference for ``five minutes``, else what the simulated person saves."""
    source = given.data / "mitdb"
    if protocol == "five minutes":
        return source / f"{record}.atr"
    recording = open_for_model(source / record, bundle.leads, None)
    grouped = grouped_beats(recording, LabelsConfig().beat_options(), bundle)
    ((_, label),) = labelled(grouped, truth(source, record, grouped), (COUNT,), "ours")
    peaks = grouped.beats.r_samples
    file: Path = given.work / "labels" / f"{record}-labels.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = (UserLabel(int(peaks[beat]), symbol) for beat, symbol in label.items())
    file.write_bytes(label_table(rows, recording.fs_hz))
    return file


def measured(given: argparse.Namespace, record: str, protocol: str) -> dict[str, Any]:
    """Return the EC57 counts (7, 7) of a record before, and after for each method, with the exported model."""
    bundle, path = unseen_bundle(given, record), given.data / "mitdb" / record
    options, start_s = PROTOCOLS[protocol]
    work: Path = given.work / protocol.replace(" ", "-")

    def counts(annotation: Path) -> list[list[int]]:
        found: list[list[int]] = compared(path, read_annotation_file(annotation), start_s=start_s).counts.tolist()
        return found

    def predicted(model: ecgfed.Bundle, folder: str, patient: str | None = None) -> list[list[int]]:
        ecgfed.predict(model, path, patient=patient, progress=SILENT).save(work / folder, overwrite=True)
        return counts(work / folder / f"{record}.ecgfed")

    result: dict[str, Any] = {"fold": bundle.path.parent.name, "before": predicted(bundle, "before")}
    labels = label_file(given, record, bundle, protocol)
    for method in METHODS:
        out = work / method / record
        made = ecgfed.personalize_labels(
            path, out, labels=labels, bundle=bundle, personal=method, overwrite=True, progress=SILENT, **options
        )
        result[method] = {
            "exported": made.exported,
            "after": predicted(made.bundle, f"{method}-predicted", made.patient),
            "labels": counts(made.files[0]),
        }
    return result


def part(given: argparse.Namespace, record: str, protocol: str) -> dict[str, Any]:
    """Return what a record gives, measured now unless it has been."""
    file = given.work / "parts" / f"{record}-{protocol.replace(' ', '-')}.json"
    if not file.is_file():
        result = measured(given, record, protocol)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, result)
        print(f"{record}, {protocol}: done", flush=True)
    return dict(read_json(file, RunError))


def right_beats(counts: NDArray[np.int64]) -> tuple[int, int]:
    """Return the number of reference beats that have their class in the test, and of all, of EC57 counts (7, 7)."""
    return int(counts[:5, :5].trace()), int(counts[:5].sum())


def summary(counts: dict[str, NDArray[np.int64]], before: dict[str, NDArray[np.int64]]) -> dict[str, Any]:
    """Return the scores of some records together, and how many right beats each of those that got worse has lost.

    Most supraventricular beats of DS2 are record 232's: the scores without it are beside those of all.
    """
    right = {name: right_beats(one) for name, one in counts.items()}
    change = {name: right[name][0] - right_beats(before[name])[0] for name in counts}
    others = [name for name in counts if name != "232"]
    return {
        **scored(counts),
        **({"without 232": scored(counts, others)} if 0 < len(others) < len(counts) else {}),
        "right": round(100 * sum(one[0] for one in right.values()) / sum(one[1] for one in right.values()), 2),
        "records_right": {name: round(100 * one[0] / max(one[1], 1), 2) for name, one in right.items()},
        "worse": {name: -lost for name, lost in change.items() if lost < 0},
    }


def scores(parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the scores before, and after for each method, of what some records gave."""
    before = {record: np.array(one["before"]) for record, one in parts.items()}
    result: dict[str, Any] = {"before": summary(before, before)}
    for method in METHODS:
        for which in ("after", "labels"):
            counts = {record: np.array(one[method][which]) for record, one in parts.items()}
            result[f"{method}, {which}"] = summary(counts, before)
        exported = {record: one[method]["exported"] for record, one in parts.items()}
        result[f"{method}, after"] |= {"exported": exported, "exported_counts": dict(Counter(exported.values()))}
    return result


def table_of(results: dict[str, Any]) -> list[str]:
    """Return the lines of the table in docs/labels.md."""
    rows = []
    for name, protocols in results["sets"].items():
        for protocol, models in protocols.items():
            for model, row in models.items():
                veb, sveb = (
                    f"{row[kind]['f1']:.1f} ({{:.1f}} to {{:.1f}})".format(*row[kind]["interval"]) for kind in KINDS
                )
                worse = ", ".join(f"{record} by {lost}" for record, lost in row["worse"].items()) or "none"
                counts = ", ".join(
                    f"{which} {count}" for which, count in sorted(row.get("exported_counts", {}).items())
                )
                right = f"{row['right']:.2f}%"
                rows.append(
                    (f"{name.upper()}, {protocol}", model, veb, sveb, right, worse if model != "before" else "", counts)
                )
    head = (
        "labels",
        "model",
        "VEB F1",
        "SVEB F1",
        "beats with the right class",
        "records that lost right beats",
        "exported",
    )
    return table(head, rows)


def main(given: argparse.Namespace) -> None:
    only = {given.only: SETS[given.only]} if given.only in SETS else {given.only: tuple(given.only.split(","))}
    results: dict[str, Any] = {}
    for name, records in (SETS if given.only == "all" else only).items():
        if unknown := sorted({*records} - {*DS1, *DS2}):
            expected = "ds1, ds2, all, or records of these such as 209,232"
            raise OptionError("--only", f"{unknown[0]!r:.40}", expected, code="unknown-choice")
        results[name] = {}
        for protocol in PROTOCOLS:
            rows = scores({record: part(given, record, protocol) for record in records})
            results[name][protocol] = rows
            print(f"\n{name}, {protocol}", flush=True)
            print_table(
                ("model", "VEB F1", "SVEB F1", "right", "right beats lost where worse"),
                [(row, one["veb"]["f1"], one["sveb"]["f1"], one["right"], one["worse"]) for row, one in rows.items()],
            )
    save(given, {"sets": results})


if __name__ == "__main__":
    benchmark(
        main,
        option("--models", type=Path, required=True, help="the --work folder of benchmarks/shipped/run.py"),
        option("--data", type=Path, required=True, help="folder with mitdb"),
        option("--work", type=Path, required=True, help="folder for what is made, and not made again"),
        option("--results", type=Path, default=Path(__file__).with_name("packaged.json")),
        option("--only", default="all", help="ds1, ds2, all, or records such as 209,232; default all"),
        standard=False,
    )
