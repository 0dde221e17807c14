"""The model card: what ``results.json`` says, for a script (``card.json``) and for a person (``CARD.md``)."""

import json
from typing import Any

from unseen import ATRIAL, PACED_BEATS

from ecgfed.exports.bundles.card import MIT_BIH, NOT_FOR, data_line, listed, table
from ecgfed.exports.device.manifest import CARD, CARD_FACTS

DATA = {
    **MIT_BIH,
    "people": "47 people, 1975 to 1979, Boston; 30 minutes each at 360 Hz; the 45 who have lead MLII are the clients",
}
MEANING = {
    "N": "normal, bundle branch block, and escape beats",
    "S": "supraventricular ectopic",
    "V": "ventricular ectopic",
    "F": "fusion of a ventricular and a normal beat",
    "Q": "paced, fusion of a paced and a normal beat, unclassifiable",
}
INTENDED = [
    "Research, teaching and trying out ecgfed on adult recordings of lead MLII (or II) that hold QRS complexes.",
    "A first reading that a person checks beat by beat: research use only, not for diagnosis.",
]
_SCORES = (("QRS", "qrs"), ("VEB", "veb"), ("SVEB", "sveb"))


def _row(name: str, scores: dict[str, Any]) -> dict[str, str]:
    """One row of EC57: sensitivity / positive predictivity, percent, gross over the records."""
    gross = scores["gross"]["scores"]
    told = {title: f"{_percent(gross[f'{key}_se'])} / {_percent(gross[f'{key}_ppv'])}" for title, key in _SCORES}
    return {"what": name, **told}


def _percent(share: dict[str, Any]) -> str:
    return "-" if share["percent"] is None else f"{share['percent']:.1f}"


def card_of(results: dict[str, Any]) -> dict[str, Any]:
    """Return the card of a results file: the same results give the same card."""
    final, twin, folds, elsewhere = (results[name] for name in ("final", "twin", "folds", "elsewhere"))
    symbols: dict[str, list[str]] = {}
    for symbol, name in final["symbols"].items():
        symbols.setdefault(name, []).append(symbol)
    return {
        "name": "ecgfed's model in the package",
        "version": results["version"],
        "made_by": results["command"],
        "bundle": {"run": final["run"]},
        "data": {**DATA, "patients": final["patients"], "records": final["records"]},
        "recipe": {**results["recipe"], "rounds": final["rounds"], "net": final["net"], "settings": final["settings"]},
        "classes": [
            {"class": name, "aami": name, "symbols": symbols[name], "meaning": MEANING[name], "beats": beats}
            for name, beats in final["class_counts"].items()
        ],
        "unseen": [
            _row("DS2, by the twin trained on DS1", twin["MLII"]),
            _row("the same, from 5:00 on (EC57)", twin["MLII_from_5_minutes"]),
            _row(f"every patient, {results['recipe']['folds']} folds", folds["whole_records"]),
            _row("the same, from 5:00 on (EC57)", folds["from_5_minutes"]),
        ],
        "calibration": {
            "of": "annotated beats of every patient, by folds",
            **folds["calibration"],
            "risk": folds["risk"],
        },
        "failures": failures(twin, folds, elsewhere),
        "intended_use": INTENDED,
        "not_for": NOT_FOR,
    }


def failures(twin: dict[str, Any], folds: dict[str, Any], elsewhere: dict[str, Any]) -> list[dict[str, str]]:
    """Return what the model is known to get wrong, each with its figure, of patients it has not seen."""
    atrial = [f"{name} {_kind(folds, name)}" for name in ATRIAL if name in folds["symbols"]]
    paced = [f"{name} {_kind(folds, name)}" for name in PACED_BEATS if name in folds["symbols"]]
    fusion = _kind(folds, "F") if "F" in folds["symbols"] else "none"
    pauses = folds["pauses"]
    worst = sorted(
        (share["percent"], name)
        for name, one in folds["records"].items()
        if (share := one["scores"]["veb_se"])["whole"] >= 30
    )[:3]
    found = [
        ("atrial ectopy", f"Found as S, by symbol: {'; '.join(atrial) or 'none'}."),
        (
            "pauses",
            f"Of {pauses['normal_beats']:,} normal beats beside an interval of {pauses['longer_than_s']:g} s or more "
            f"{pauses['called_otherwise']:,} are called otherwise.",
        ),
        (
            "paced rhythm",
            f"Found as Q, by symbol: {'; '.join(paced) or 'none'}. Four of the 47 people are paced, two of them are "
            "trained on.",
        ),
        (
            "other leads",
            "DS2 read on each record's second lead (V1, V2, V4 or V5) by the twin: "
            + ", ".join(f"{title} {value}" for title, value in list(_row("", twin["second"]).items())[1:])
            + ".",
        ),
        (
            "paced and on another lead",
            f"Of {elsewhere['beats']:,} beats of {' and '.join(elsewhere['records'])} on {elsewhere['lead']} "
            f"{elsewhere['accuracy']:.1%} are called right.",
        ),
        ("fusion beats", f"Found as F: {fusion}."),
        (
            "some patients",
            "The least VEB sensitivity among records of 30 such beats and more: "
            + ", ".join(f"{name} {percent:.1f}%" for percent, name in worst)
            + ".",
        ),
    ]
    return [{"what": what, "said": said} for what, said in found]


def _kind(folds: dict[str, Any], symbol: str) -> str:
    one = folds["symbols"][symbol]
    return f"{one['found']:.1%} of {one['beats']:,} in {one['records']} records"


def markdown(card: dict[str, Any]) -> str:
    """Return the card for a person; made from ``card.json`` alone."""
    recipe, data, calibration = card["recipe"], card["data"], card["calibration"]
    plan = ", ".join(
        f"{name} {recipe[name]}" for name in ("passes", "rounds", "local_steps", "batch_size", "window_share")
    )
    parts = [
        f"# {card['name']}",
        f"Of ecgfed {card['version']}; written by `{card['made_by']}`, and not by hand. Research use only, not for "
        "diagnosis; every result needs a physician's over-read.",
        "## For what",
        listed(card["intended_use"]),
        "Not for:",
        listed(card["not_for"]),
        "## Data and licence",
        f"{data['people'][0].upper()}{data['people'][1:]}; {data['patients']} patients, {data['records']} records were "
        f"trained on. {data_line(data)}",
        "## Recipe",
        f"{recipe['method']}, {plan}, RR features of version {recipe['net']['rr_version']}, seed {recipe['seed']}. "
        "Each patient is a client; the global model is what is here, no patient's own.",
        "## Classes",
        table(
            ("class (AAMI)", "symbols", "meaning", "beats trained on, validated and tested"),
            (
                (
                    one["class"],
                    " ".join(f"`{symbol}`" for symbol in one["symbols"]),
                    one["meaning"],
                    f"{one['beats']:,}",
                )
                for one in card["classes"]
            ),
        ),
        "## On patients it has not seen",
        "Sensitivity / positive predictivity in percent, beat by beat as ANSI/AAMI EC57 asks, R peaks detected, all "
        "records pooled. The model here has seen every one of these patients: the figures are of models made the same "
        "way without them. DS1 and DS2 share one person (201, 202); in the folds nobody is on both sides.",
        table(("", *(title for title, _ in _SCORES)), (tuple(row.values()) for row in card["unseen"])),
        "## Calibration",
        f"Expected calibration error ({calibration['bins']} bins of equal width) {calibration['ece']:.3f}, of "
        f"{calibration['of']}.",
        table(
            ("beats kept, the most certain", "least probability", "wrong among them"),
            ((f"{row['coverage']:.0%}", f"{row['p']:.3f}", f"{row['wrong']:.2%}") for row in calibration["risk"]),
        ),
        "## Known failures",
        listed(f"**{one['what'].capitalize()}.** {one['said']}" for one in card["failures"]),
        "## Which bundle this is of",
        f"The one whose manifest and graphs say run `{card['bundle']['run']}`.",
    ]
    return "\n\n".join(parts) + "\n"


def card_texts(card: dict[str, Any]) -> dict[str, str]:
    """Return the two files of a card, by the manifest's fields that name them."""
    return {CARD: markdown(card), CARD_FACTS: json.dumps(card, indent=1, ensure_ascii=False) + "\n"}
