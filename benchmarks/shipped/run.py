"""The model in the package: trains it, measures it on patients it has not seen, writes it and its card.

    python benchmarks/shipped/run.py --source MITDB --work DIR [--passes 20]

Parts, each kept in ``DIR/parts`` as soon as it is done, and gone on with where it was stopped:

- ``final``: FedGate, whose global model is GRP-FED's, on all MIT-BIH patients who have MLII, by the recipe for patients
  who take no part; the bundle;
- ``twin``: the same recipe on the 22 DS1 records, read on DS2 by EC57 as ``benchmarks/ec57`` reads it, and again on
  each record's second lead;
- ``fold-1`` to ``fold-5``: on four fifths of the patients, read on the others; together every patient is read by a
  model that has not seen it (EC57, each kind of beat, pauses, pacing, calibration);
- ``elsewhere``: the bundle on 102 and 104, paced patients without MLII, on V5.

Seven trainings of about ten minutes on two cores. Then ``--model`` (the package's ``ecgfed/model``; below DIR where
``--passes`` or ``--folds`` is another than the recipe's) gets the bundle, ``card.json`` and ``CARD.md``, and
``--results`` (likewise) all figures.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from card import card_of, card_texts
from common import (
    BY_LOSS,
    DS2,
    PACED,
    ROOT,
    UNSEEN,
    benchmark,
    compared,
    ec57_scores,
    option,
    prepared,
    print_table,
    save,
    trained,
)
from unseen import BEATS, folds_of, measured, record_beats

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.exports.bundles.renew import renewed_bundle

METHOD, PASSES, FOLDS, CLASSES, MOST_BYTES = "fed-gate", 20.0, 5, "aami5", 500_000
#: MIT-BIH's paced patients: two of them have no MLII and are no clients.
WITHOUT_MLII = tuple(name for name in PACED if name in ("102", "104"))
PACED_DS = tuple(name for name in PACED if name not in WITHOUT_MLII)


def part(given: argparse.Namespace, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a part, made now unless it is kept; one that is kept of other options is refused."""
    file = given.work / "parts" / f"{name}.json"
    asked = {"passes": given.passes, "folds": given.folds, "tool_version": ecgfed.__version__}
    if not file.is_file():
        found = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"asked": asked, "found": found})
        print(f"{name}: done, {file}", flush=True)
    kept = read_json(file, RunError)
    if kept["asked"] != asked:
        raise OptionError("--work", f"{file} was made with {kept['asked']}", str(asked), "name another folder")
    return dict(kept["found"])


def model(given: argparse.Namespace, name: str, **cohort: Any) -> tuple[ecgfed.Run, ecgfed.Bundle]:
    """Train one model by the recipe, or go on with it, and export its global answer."""
    work = given.work / name
    clients = prepared(given.source, work, classes=CLASSES, **cohort)
    plan = {**UNSEEN, "passes": given.passes, "workers": given.workers}
    run = trained(clients, work / "run", method=METHOD, settings=BY_LOSS, **plan)
    return run, ecgfed.export(run, work / "bundle", global_only=True, overwrite=True)


def annotate(bundle: ecgfed.Bundle, source: Path, name: str, out: Path, **how: Any) -> None:
    ecgfed.predict(bundle, source / name, **how).save(out, overwrite=True)


def final(given: argparse.Namespace) -> dict[str, Any]:
    run, bundle = model(given, "final", by="patient")
    cohort, manifest = ecgfed.open_cohort(given.work / "final" / "cohort"), bundle.manifest
    size = sum(file.stat().st_size for file in bundle.path.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        raise RunError(bundle.path, f"has {size:,} bytes", f"at most {MOST_BYTES:,} for the package")
    return {
        "run": manifest["run"],
        "rounds": run.plan.rounds,
        "settings": manifest["settings"],
        "net": manifest["net"],
        "cohort": manifest["cohort"],
        "patients": len(cohort.federation),
        "records": len(cohort.meta["records"]),
        "class_counts": cohort.meta["class_counts"],
        "symbols": manifest["label_map"]["symbols"],
    }


def twin(given: argparse.Namespace) -> dict[str, Any]:
    _, bundle = model(given, "twin", by="record", holdout=(*DS2, *PACED_DS))
    scores: dict[str, Any] = {}
    for lead, how in (("MLII", {}), ("second", {"leads": "#2"})):
        out = given.work / "twin" / lead
        for name in DS2:
            annotate(bundle, given.source, name, out, **how)
        scores[lead] = ec57_scores(given.source, out, DS2, start_s=0.0)
    scores["MLII_from_5_minutes"] = ec57_scores(given.source, given.work / "twin" / "MLII", DS2, start_s=300.0)
    return scores


def fold(given: argparse.Namespace, number: int) -> dict[str, Any]:
    cohort = ecgfed.open_cohort(given.work / "final" / "cohort")
    patients = folds_of(cohort, given.folds)[number]
    _, bundle = model(given, f"fold-{number + 1}", by="patient", holdout=patients)
    records = [name for client in cohort.meta["clients"] if client["id"] in patients for name in client["records"]]
    for name in records:
        annotate(bundle, given.source, name, given.work / "folds")
        record_beats(bundle, given.source / name, given.work / BEATS)
    return {"patients": list(patients), "records": records}


def folds(given: argparse.Namespace) -> dict[str, Any]:
    """Return what all folds together found: every patient read by a model that has not seen it."""
    parts = [
        part(given, f"fold-{number + 1}", lambda number=number: fold(given, number)) for number in range(given.folds)
    ]
    names = sorted(name for one in parts for name in one["records"])
    here = given.work / "folds"
    by_record = {
        name: compared(given.source / name, read_annotation_file(here / f"{name}.ecgfed"), start_s=0.0).as_json()
        for name in names
    }
    return {
        "patients": [one["patients"] for one in parts],
        "whole_records": ec57_scores(given.source, here, names, start_s=0.0),
        "from_5_minutes": ec57_scores(given.source, here, names, start_s=300.0),
        "records": {name: {"scores": one["scores"]} for name, one in by_record.items()},
        **measured([given.work / BEATS / f"{name}.npz" for name in names]),
    }


def elsewhere(given: argparse.Namespace) -> dict[str, Any]:
    bundle = ecgfed.open_bundle(given.work / "final" / "bundle")
    files = [record_beats(bundle, given.source / name, given.work / "elsewhere", leads="V5") for name in WITHOUT_MLII]
    return {"records": list(WITHOUT_MLII), "lead": "V5", **measured(files)}


def ship(given: argparse.Namespace, card: dict[str, Any]) -> None:
    """Put the bundle with its card into the folder of the model."""
    renewed_bundle(
        ecgfed.open_bundle(given.work / "final" / "bundle"), given.model, card=card_texts(card), overwrite=True
    )
    print(f"wrote {given.model}", flush=True)


def main(given: argparse.Namespace) -> None:
    short = (given.passes, given.folds) != (PASSES, FOLDS)
    if given.model is None:
        given.model = given.work / "model" if short else ROOT / "ecgfed" / "exports" / "model"
    if short and given.results == Path(__file__).with_name("results.json"):
        given.results = given.work / "results.json"
    results = {
        "final": part(given, "final", lambda: final(given)),
        "twin": part(given, "twin", lambda: twin(given)),
        "folds": folds(given),
        "elsewhere": part(given, "elsewhere", lambda: elsewhere(given)),
    }
    recipe = {"method": METHOD, "passes": given.passes, **UNSEEN, "folds": given.folds}
    results = {"recipe": recipe, "version": ecgfed.__version__, **results}
    save(given, results)
    card = card_of(json.loads(given.results.read_text()))
    ship(given, card)
    print_table(("patients not seen", "QRS", "VEB", "SVEB"), [row.values() for row in card["unseen"]])


if __name__ == "__main__":
    benchmark(
        main,
        option("--passes", type=float, default=PASSES),
        option("--folds", type=int, default=FOLDS),
        option("--workers", type=int, default=None, help="threads; default one a core"),
        option("--model", type=Path, default=None, help="where the model and its card go"),
    )
