"""The model card: what ``results.json`` says, for a script (``card.json``) and for a person (``CARD.md``)."""

import json
from typing import Any

from unseen import ATRIAL, PACED_BEATS

from ecgfed.exports.bundles.card import NOT_FOR, listed, plain, table
from ecgfed.exports.device.manifest import CARD, CARD_FACTS

MEANING = {
    "N": "normal, bundle branch block, and escape beats",
    "S": "supraventricular ectopic",
    "V": "ventricular ectopic",
    "F": "fusion of a ventricular and a normal beat",
    "Q": "paced, fusion of a paced and a normal beat, unclassifiable",
}
INTENDED = [
    "Research, teaching and trying out ecgfed on adult recordings of one ECG lead that hold QRS complexes.",
    "A first reading that a person checks beat by beat: research use only, not for diagnosis.",
]
_SCORES = (("QRS", "qrs"), ("VEB", "veb"), ("SVEB", "sveb"))


def _row(name: str, scores: dict[str, Any]) -> dict[str, str]:
    """One row of EC57: sensitivity / positive predictivity and F1, percent, gross over the records."""
    gross = scores["gross"]["scores"]
    cells = {}
    for title, key in _SCORES:
        se, ppv = gross[f"{key}_se"], gross[f"{key}_ppv"]
        cells[title] = f"{_percent(se)} / {_percent(ppv)} ({_f1(se, ppv)})"
    return {"what": name, **cells}


def _f1(se: dict[str, Any], ppv: dict[str, Any]) -> str:
    return "-" if None in (se["percent"], ppv["percent"]) else f"{f1(se, ppv):.1f}"


def f1(se: dict[str, Any], ppv: dict[str, Any]) -> float:
    """Return the F1 of EC57's two shares, percent."""
    both = se["percent"] + ppv["percent"]
    return 2 * se["percent"] * ppv["percent"] / both if both else 0.0


def _percent(share: dict[str, Any]) -> str:
    return "-" if share["percent"] is None else f"{share['percent']:.1f}"


def card_of(results: dict[str, Any]) -> dict[str, Any]:
    """Return the card of a results file: the same results give the same card."""
    final, twin, folds = (results[name] for name in ("final", "twin", "folds"))
    symbols: dict[str, list[str]] = {}
    for symbol, name in final["symbols"].items():
        symbols.setdefault(name, []).append(symbol)
    number = results["recipe"]["folds"]
    return {
        "name": "ecgfed's model in the package",
        "version": results["version"],
        "made_by": results["command"],
        "bundle": {"run": final["run"]},
        "data": {
            "patients": final["patients"],
            "records": final["records"],
            "strips": final["strips"],
            "other_leads": final["trained_on"]["other_leads"],
            "databases": [{**site["database"], "clients": site["clients"]} for site in final["sites"]],
        },
        "recipe": {**results["recipe"], "rounds": final["rounds"], "net": final["net"], "settings": final["settings"]},
        "classes": [
            {"class": name, "aami": name, "symbols": symbols[name], "meaning": MEANING[name], "beats": beats}
            for name, beats in final["class_counts"].items()
        ],
        "unseen": [
            _row("DS2 of MIT-BIH, without the DS2 patients", twin["MLII"]),
            _row("the same without record 232", twin["MLII_without_232"]),
            _row("DS2 from 5:00 on (EC57)", twin["MLII_from_5_minutes"]),
            _row("DS2 on each record's second lead", twin["second"]),
            _row("SVDB, trained without SVDB", results["without_svdb"]),
            _row("MIT-BIH, trained without MIT-BIH", results["without_mitbih"]),
            _row(f"every patient of MIT-BIH, {number} folds", folds["mitdb"]["whole_records"]),
            _row(f"every patient of SVDB, {number} folds", folds["svdb"]["whole_records"]),
        ],
        "false_ectopy": results["elsewhere"]["qtdb"],
        "calibration": {
            name: {**folds[name]["calibration"], "risk": folds[name]["risk"]} for name in ("mitdb", "svdb")
        },
        "certainty": results["certainty"],
        "failures": failures(results),
        "intended_use": INTENDED,
        "not_for": NOT_FOR,
    }


def failures(results: dict[str, Any]) -> list[dict[str, str]]:
    """Return what the model is known to get wrong, each with its figure, of patients it has not seen."""
    mitbih, svdb, elsewhere = results["folds"]["mitdb"], results["folds"]["svdb"], results["elsewhere"]
    atrial = [f"{name} {_kind(mitbih, name)}" for name in ATRIAL if name in mitbih["symbols"]]
    atrial += [f"{name} {_kind(svdb, name)} of SVDB" for name in ATRIAL if name in svdb["symbols"]]
    paced = [f"{name} {_kind(mitbih, name)}" for name in PACED_BEATS if name in mitbih["symbols"]]
    pauses, quiet, paced_v5 = mitbih["pauses"], elsewhere["qtdb"], elsewhere["paced"]
    items = [
        ("atrial ectopy", f"Called S, by symbol: {'; '.join(atrial) or 'none'}."),
        ("some patients, S", _worst(results, "sveb")),
        ("some patients, V", _worst(results, "veb")),
        (
            "false ectopy",
            f"Of {quiet['normal_beats']:,} normal beats of QTDB, a site it never saw, {quiet['called']['S']:,} are "
            f"called S and {quiet['called']['V']:,} V ({quiet['share']:.2%}).",
        ),
        (
            "pauses",
            f"Of {pauses['normal_beats']:,} normal beats of MIT-BIH beside an interval of {pauses['longer_than_s']:g} "
            f"s or more {pauses['called_otherwise']:,} are called otherwise.",
        ),
        (
            "paced rhythm",
            f"Called Q by `predict`, which looks for pacing spikes too: {'; '.join(paced) or 'none'}. Four of "
            "MIT-BIH's 47 people are paced, two of them "
            "are trained on.",
        ),
        (
            "paced and on another lead",
            f"Of {paced_v5['beats']:,} beats of {' and '.join(paced_v5['records'])} on {paced_v5['lead']} "
            f"{paced_v5['accuracy']:.1%} are called right, pacing spikes looked for too.",
        ),
        ("fusion beats", f"Called F: {_kind(mitbih, 'F') if 'F' in mitbih['symbols'] else 'none'}."),
    ]
    return [{"what": what, "said": said} for what, said in items]


def _worst(results: dict[str, Any], kind: str) -> str:
    """Name the five records, of those with 30 beats of a kind and more, whose F1 by the folds is the least."""
    ranked = sorted(
        (f1(se, ppv) if ppv["whole"] else 0.0, name)
        for folder in ("mitdb", "svdb")
        for name, one in results["folds"][folder]["records"].items()
        for se, ppv in [(one["scores"][f"{kind}_se"], one["scores"][f"{kind}_ppv"])]
        if se["whole"] >= 30
    )[:5]
    return (
        "The least F1 among records of 30 such beats and more: "
        + ", ".join(f"{name} {value:.1f}%" for value, name in ranked)
        + "."
    )


def _kind(folds: dict[str, Any], symbol: str) -> str:
    one = folds["symbols"][symbol]
    return f"{one['found']:.1%} of {one['beats']:,} in {one['records']} records"


def markdown(card: dict[str, Any]) -> str:
    """Return the card for a person; made from ``card.json`` alone."""
    parts = [
        f"# {card['name']}",
        f"Of ecgfed {card['version']}; written by `{card['made_by']}`, and not by hand. Research use only, not for "
        "diagnosis; every result needs a physician's over-read.",
        "## For what",
        listed(card["intended_use"]),
        "Not for:",
        listed(card["not_for"]),
        "## Data and licence",
        *_data(card["data"]),
        "## Recipe",
        _recipe(card["recipe"]),
        "## Classes",
        _classes(card["classes"]),
        "## On patients it has not seen",
        "Sensitivity / positive predictivity (F1) in percent, beat by beat as ANSI/AAMI EC57 asks, R peaks detected, "
        "all records pooled. The model here has seen every one of these patients: the figures are of models made the "
        "same way without them. DS1 and DS2 share one person (201, 202); in the folds nobody is on both sides.",
        table(("", *(title for title, _ in _SCORES)), (tuple(row.values()) for row in card["unseen"])),
        "## Calibration",
        *_calibration(card["certainty"], card["calibration"]),
        "## Known failures",
        listed(f"**{one['what'][0].upper()}{one['what'][1:]}.** {one['said']}" for one in card["failures"]),
        "## Which bundle this is of",
        f"The one whose manifest and graphs say run `{card['bundle']['run']}`.",
    ]
    return "\n\n".join(parts) + "\n"


def _data(data: dict[str, Any]) -> list[str]:
    others = ", ".join(f"{plain(lead)} {count:,}" for lead, count in data["other_leads"].items())
    text = (
        f"{data['patients']} patients, {data['records']} records, every ECG lead of them ({others} training examples "
        f"of other leads, which are in no score), and {data['strips']:,} strips of which only the rhythm is labelled."
    )
    return [text, listed(_database(one) for one in data["databases"])]


def _recipe(recipe: dict[str, Any]) -> str:
    names = ("rounds", "clients_per_round", "local_steps", "batch_size", "window_share")
    plan = ", ".join(f"{name} {recipe[name]}" for name in names)
    return (
        f"{recipe['method']}, {plan}, at most {recipe['most_per_class']} examples of a class and epoch, augmented, RR "
        f"features of version {recipe['net']['rr_version']}, offset of logits {recipe['class_offsets']}, net "
        f"{recipe['net']['architecture']}, seed {recipe['seed']}. Each patient is a client; the global model is what "
        "is here, no patient's own."
    )


def _classes(classes: list[dict[str, Any]]) -> str:
    rows = (
        (row["class"], " ".join(f"`{symbol}`" for symbol in row["symbols"]), row["meaning"], f"{row['beats']:,}")
        for row in classes
    )
    return table(("class (AAMI)", "symbols", "meaning", "beats trained on, validated and tested"), rows)


def _calibration(certainty: dict[str, Any], calibration: dict[str, Any]) -> list[str]:
    rows = (
        (
            f"{mitdb['coverage']:.0%}",
            *(cell for row in (mitdb, svdb) for cell in (f"{row['p']:.3f}", f"{row['wrong']:.2%}")),
        )
        for mitdb, svdb in zip(calibration["mitdb"]["risk"], calibration["svdb"]["risk"], strict=True)
    )
    return [
        f"An answer is of low confidence below {certainty['threshold']:.3f}. Temperature and threshold are fitted on "
        f"{certainty['beats']:,} annotated beats of every patient as the folds read them; measured on patients that "
        f"the fit has not seen, {certainty['kept']:.1%} of the beats are above it, and "
        f"{certainty['kept_accuracy']:.2%} of these are right.",
        "The folds' own probabilities, of annotated beats of every patient: expected calibration error "
        f"({calibration['mitdb']['bins']} bins of equal width): MIT-BIH {calibration['mitdb']['ece']:.3f}, SVDB "
        f"{calibration['svdb']['ece']:.3f}.",
        table(
            ("beats, the most certain", "MIT-BIH: least probability", "wrong", "SVDB: least probability", "wrong"), rows
        ),
    ]


def _database(one: dict[str, Any]) -> str:
    return f"{one['title']} {one['version']} (doi:{one['doi']}), {one['licence']}. {one['citation']}."


def card_texts(card: dict[str, Any]) -> dict[str, str]:
    """Return the two files of a card, by the manifest's fields that name them."""
    return {CARD: markdown(card), CARD_FACTS: json.dumps(card, indent=1, ensure_ascii=False) + "\n"}
