"""The model in the package: trains it, measures it on patients it has not seen, writes it and its card.

    python benchmarks/shipped/run.py --data DATA --work DIR [--rounds 2400]

DATA holds the folders ``mitdb``, ``svdb``, ``qtdb`` and ``cinc2017``. Parts, each kept in ``DIR/parts`` as soon as it
is done, and gone on with where it was stopped:

- ``final``: FedAvg's model on all patients of MIT-BIH who have MLII and of SVDB, every lead, and on the strips
  of the Challenge 2017, of which only the rhythm is labelled; the bundle;
- ``twin``: the same recipe without the DS2 records, read on DS2 by EC57, and again on each record's second lead;
- ``without-svdb`` and ``without-mitbih``: without a whole database, read on it;
- ``fold-1`` to ``fold-5``: without a fifth of both databases' patients, read on them; together every patient is read by
  a model that has not seen it (EC57, each kind of beat, pauses, pacing, calibration);
- ``certainty``: temperature and threshold of the packaged model, fitted on the patients as the folds read them;
- ``elsewhere``: the bundle on QTDB, a site that it never saw, and on 102 and 104, paced patients without MLII, on V5.

Nine trainings of some five minutes on one core. Then ``--model`` (the package's ``ecgfed/exports/model``; below DIR
where ``--rounds`` or ``--folds`` is another than the recipe's) gets the bundle, ``card.json`` and ``CARD.md``, and
``--results`` (likewise) all figures. A single part by its name: ``--part twin``.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from card import card_of, card_texts
from common import DS2, PACED, ROOT, benchmark, compared, ec57_scores, option, print_table, save, trained
from unseen import BEATS, certainty_of, false_ectopy, folds_of, measured, record_beats, unseen_logits

import ecgfed
from ecgfed.base.errors import OptionError, RunError
from ecgfed.base.files import read_json, write_json
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.record.wfdb_files import read_annotation_file
from ecgfed.exports.bundles.renew import renewed_bundle
from ecgfed.tasks.join import join_cohorts
from ecgfed.tasks.prepare_databases import prepare_database

METHOD, ROUNDS, FOLDS, MOST_BYTES = "fedavg", 2400, 5, 400_000
#: A round is one step of each participant, and Adam at the server steps along the mean gradient: chosen by leaving
#: databases out (docs/decisions/0089).
PLAN = {
    "local_steps": 1,
    "batch_size": 64,
    "clients_per_round": 8,
    "most_per_class": 800,
    "augment": True,
    "window_share": 0.3,
    "eval_every": 0,
    "seed": 0,
}
SETTINGS = {
    "lr": 0.02,
    "server_optimizer": "adam",
    "server_momentum": 0.9,
    "server_lr": 0.002,
    "server_beta2": 0.999,
    "server_schedule": "cosine",
    "weak_weight": 1.0,
}
#: S is called from 0.61 of the most probable class's probability on, exp(-0.5). It gains between databases, and loses
#: within them (docs/decisions/0085).
OFFSETS = "S=0.5"
#: How many of the answers that are not of low confidence are to be right.
SURE = 0.99
#: Folder below DATA -> what its cohort is made with.
SITES: dict[str, dict[str, Any]] = {
    "mitdb": {"database": "mitbih", "train_leads": "all"},
    "svdb": {"database": "svdb", "train_leads": "all"},
    "cinc2017": {"database": "cinc2017"},
}
COHORT = {"classes": "aami5", "peaks": "detected", "rr_version": 3}
#: MIT-BIH's paced patients: two of them have no MLII and are no clients.
WITHOUT_MLII = tuple(name for name in PACED if name in ("102", "104"))
PACED_DS = tuple(name for name in PACED if name not in WITHOUT_MLII)


def part(given: argparse.Namespace, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a part, made now unless it is kept; one that is kept of other options is refused."""
    file = given.work / "parts" / f"{name}.json"
    asked = {"rounds": given.rounds, "folds": given.folds, "class_offsets": OFFSETS, "tool_version": ecgfed.__version__}
    if not file.is_file():
        found = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"asked": asked, "found": found})
        print(f"{name}: done, {file}", flush=True)
    kept = read_json(file, RunError)
    if kept["asked"] != asked:
        raise OptionError("--work", f"{file} was made with {kept['asked']}", str(asked), "name another folder")
    return dict(kept["found"])


def site(given: argparse.Namespace, work: Path, folder: str, **options: Any) -> ecgfed.Cohort:
    """Return the cohort of a database below ``work``, prepared where it is not there yet."""
    cohort = work / folder
    if not cohort.is_dir():
        how = {**SITES[folder], **COHORT, **options}
        prepare_database(how.pop("database"), given.data / folder, cohort, workers=given.workers, **how)
    return open_cohort(cohort)


def model(
    given: argparse.Namespace, name: str, holdout: dict[str, Any], without: tuple[str, ...] = ()
) -> tuple[ecgfed.Run, ecgfed.Bundle]:
    """Train one model by the recipe, or go on with it, and export its global answer.

    Args:
        name: of the part.
        holdout: database -> options of its cohort, with ``holdout``; the others' cohorts are those of all patients.
        without: databases that take no part.
    """
    work, everybody = given.work / name, given.work / "final"
    sites = {
        folder: site(given, work if folder in holdout else everybody, folder, **holdout.get(folder, {}))
        for folder in SITES
        if folder not in without
    }
    joined = work / "cohort"
    cohort = open_cohort(joined) if joined.is_dir() else join_cohorts(sites, joined)
    plan = {**PLAN, "rounds": given.rounds, "workers": given.workers}
    run = trained(cohort, work / "run", method=METHOD, settings=SETTINGS, **plan)
    return run, ecgfed.export(run, work / "bundle", global_only=True, class_offsets=OFFSETS, overwrite=True)


def annotate(bundle: ecgfed.Bundle, source: Path, name: str, out: Path, **how: Any) -> None:
    ecgfed.predict(bundle, source / name, **how).save(out, overwrite=True)


def final(given: argparse.Namespace) -> dict[str, Any]:
    run, bundle = model(given, "final", {})
    cohort, manifest = open_cohort(given.work / "final" / "cohort"), bundle.manifest
    size = sum(file.stat().st_size for file in bundle.path.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        raise RunError(bundle.path, f"has {size:,} bytes", f"at most {MOST_BYTES:,} for the package")
    clients = [client for client in cohort.meta["clients"] if client["site"] != "cinc2017"]
    return {
        "run": manifest["run"],
        "rounds": run.plan.rounds,
        "settings": manifest["settings"],
        "net": manifest["net"],
        "cohort": manifest["cohort"],
        "patients": len(clients),
        "records": sum(len(client["records"]) for client in clients),
        "strips": len(cohort.meta["clients"]) - len(clients),
        "sites": cohort.meta["sites"],
        "trained_on": {name: manifest["trained_on"][name] for name in ("class_counts", "epoch_counts", "other_leads")},
        "class_counts": cohort.meta["class_counts"],
        "symbols": manifest["label_map"]["symbols"],
    }


def read_by(
    given: argparse.Namespace, bundle: ecgfed.Bundle, folder: str, names: tuple[str, ...], out: Path, **how: Any
) -> dict[str, Any]:
    """Annotate records of a database and return their EC57 scores, together and by record."""
    source = given.data / folder
    for name in names:
        annotate(bundle, source, name, out, **how)
    return {**ec57_scores(source, out, names, start_s=0.0), "records": by_record(source, out, names)}


def by_record(source: Path, out: Path, names: tuple[str, ...]) -> dict[str, Any]:
    marks = {name: read_annotation_file(out / f"{name}.ecgfed") for name in names}
    return {name: {"scores": compared(source / name, marks[name], start_s=0.0).as_json()["scores"]} for name in names}


def twin(given: argparse.Namespace) -> dict[str, Any]:
    _, bundle = model(given, "twin", {"mitdb": {"by": "record", "holdout": (*DS2, *PACED_DS)}})
    out = given.work / "twin" / "annotated"
    scores = {
        "MLII": read_by(given, bundle, "mitdb", DS2, out),
        "second": read_by(given, bundle, "mitdb", DS2, out / "second", leads="#2"),
        "MLII_from_5_minutes": ec57_scores(given.data / "mitdb", out, DS2, start_s=300.0),
    }
    without_232 = tuple(name for name in DS2 if name != "232")
    return {**scores, "MLII_without_232": ec57_scores(given.data / "mitdb", out, without_232, start_s=0.0)}


def without(given: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Train without a database and read it: a site, a recorder and patients that the model has not seen."""
    name = f"without-{SITES[folder]['database']}"
    _, bundle = model(given, name, {}, without=(folder,))
    cohort = open_cohort(given.work / "final" / folder)
    lead = {"mitdb": "MLII", "svdb": "#1"}[folder]  # no lead of the other database has this name
    return read_by(given, bundle, folder, records_of(cohort), given.work / name / "annotated", leads=lead)


def records_of(cohort: ecgfed.Cohort, patients: tuple[str, ...] | None = None) -> tuple[str, ...]:
    clients = [one for one in cohort.meta["clients"] if patients is None or one["id"] in patients]
    return tuple(sorted(name for one in clients for name in one["records"]))


def fold(given: argparse.Namespace, number: int) -> dict[str, Any]:
    cohorts = {folder: open_cohort(given.work / "final" / folder) for folder in ("mitdb", "svdb")}
    patients = {folder: folds_of(cohort, given.folds)[number] for folder, cohort in cohorts.items()}
    holdout = {folder: {"holdout": left_out} for folder, left_out in patients.items()}
    _, bundle = model(given, f"fold-{number + 1}", holdout)
    records = {folder: records_of(cohort, patients[folder]) for folder, cohort in cohorts.items()}
    for folder, names in records.items():
        for name in names:
            annotate(bundle, given.data / folder, name, given.work / "folds" / folder)
            record_beats(bundle, given.data / folder / name, given.work / BEATS / folder)
    return {"patients": {folder: list(names) for folder, names in patients.items()}, "records": records}


def folds(given: argparse.Namespace) -> dict[str, Any]:
    """Return what all folds together show: every patient read by a model that has not seen it."""
    parts = [
        part(given, f"fold-{number + 1}", lambda number=number: fold(given, number)) for number in range(given.folds)
    ]
    scores: dict[str, Any] = {}
    for folder in ("mitdb", "svdb"):
        names = tuple(sorted(name for one in parts for name in one["records"][folder]))
        source, here = given.data / folder, given.work / "folds" / folder
        scores[folder] = {
            "whole_records": ec57_scores(source, here, names, start_s=0.0),
            "from_5_minutes": ec57_scores(source, here, names, start_s=300.0),
            "records": by_record(source, here, names),
            **measured([given.work / BEATS / folder / f"{name}.npz" for name in names]),
        }
    return {"patients": [one["patients"] for one in parts], **scores}


def certainty(given: argparse.Namespace) -> dict[str, Any]:
    """Fit the certainty of the packaged model on every patient as read by the fold that has not seen it."""
    patients = []
    for number in range(given.folds):
        bundle = ecgfed.open_bundle(given.work / f"fold-{number + 1}" / "bundle")
        left_out = part(given, f"fold-{number + 1}", lambda number=number: fold(given, number))["patients"]
        for folder, names in left_out.items():
            cohort = open_cohort(given.work / "final" / folder)
            for name in names:
                records = [given.data / folder / record for record in records_of(cohort, (name,))]
                patients.append(unseen_logits(bundle, records))
    return certainty_of(patients, SURE)


def elsewhere(given: argparse.Namespace) -> dict[str, Any]:
    bundle = ecgfed.open_bundle(given.work / "final" / "bundle")
    qtdb = sorted(file.stem for file in (given.data / "qtdb").glob("*.hea"))
    out = given.work / "elsewhere"
    for name in qtdb:
        annotate(bundle, given.data / "qtdb", name, out / "qtdb", leads="#1")
    mitdb = given.data / "mitdb"
    files = [record_beats(bundle, mitdb / name, out, leads="V5") for name in WITHOUT_MLII]
    return {
        "qtdb": false_ectopy(given.data / "qtdb", out / "qtdb", qtdb),
        "paced": {"records": list(WITHOUT_MLII), "lead": "V5", **measured(files)},
    }


def ship(given: argparse.Namespace, card: dict[str, Any], certainty: dict[str, Any]) -> None:
    """Put the bundle with its card, and the certainty of patients left out, into the folder of the model."""
    bundle = ecgfed.open_bundle(given.work / "final" / "bundle")
    renewed_bundle(bundle, given.model, card=card_texts(card), certainty=certainty, overwrite=True)
    print(f"wrote {given.model}", flush=True)


def main(given: argparse.Namespace) -> None:
    short = (given.rounds, given.folds) != (ROUNDS, FOLDS)
    if given.model is None:
        given.model = given.work / "model" if short else ROOT / "ecgfed" / "exports" / "model"
    if short and given.results == Path(__file__).with_name("results.json"):
        given.results = given.work / "results.json"
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "final": lambda: part(given, "final", lambda: final(given)),
        "elsewhere": lambda: part(given, "elsewhere", lambda: elsewhere(given)),
        "without_svdb": lambda: part(given, "without-svdb", lambda: without(given, "svdb")),
        "folds": lambda: folds(given),
        "certainty": lambda: part(given, "certainty", lambda: certainty(given)),
        "without_mitbih": lambda: part(given, "without-mitbih", lambda: without(given, "mitdb")),
        "twin": lambda: part(given, "twin", lambda: twin(given)),
    }
    if given.part:
        makers[given.part]()
        return
    recipe = {"method": METHOD, "rounds": given.rounds, **PLAN, "class_offsets": OFFSETS, "folds": given.folds}
    results = {"recipe": recipe, "version": ecgfed.__version__, **{name: make() for name, make in makers.items()}}
    save(given, results)
    card = card_of(json.loads(given.results.read_text()))
    ship(given, card, results["certainty"])
    print_table(("patients not seen", "QRS", "VEB", "SVEB"), [row.values() for row in card["unseen"]])


if __name__ == "__main__":
    benchmark(
        main,
        option("--data", type=Path, required=True, help="folder with mitdb, svdb, qtdb and cinc2017"),
        option("--work", type=Path, required=True, help="folder for what is made, and not made again"),
        option("--results", type=Path, default=Path(__file__).with_name("results.json")),
        option("--part", help="make this part alone"),
        option("--rounds", type=int, default=ROUNDS),
        option("--folds", type=int, default=FOLDS),
        option("--workers", type=int, default=None, help="threads; default one a core"),
        option("--model", type=Path, default=None, help="where the model and its card go"),
        standard=False,
    )
