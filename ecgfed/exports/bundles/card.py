"""A bundle's model card: training data, scores and intended use, as JSON and Markdown.

Patients appear only by the ids of the manifest. Names of classes, methods and patients may come from strangers: they
are escaped (``plain``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ecgfed.base.text import count_of, safe_text
from ecgfed.domain.cohort.databases import DATABASES
from ecgfed.exports.device.federation import Federation, federation_in

MIT_BIH = {
    "name": "MIT-BIH Arrhythmia Database 1.0.0",
    "url": "https://physionet.org/content/mitdb/1.0.0/",
    "doi": "10.13026/C2F305",
    "licence": "Open Data Commons Attribution License v1.0 (ODC-BY)",
    "attribution": "Contains information from the MIT-BIH Arrhythmia Database, which is made available under the ODC "
    "Attribution License. Moody GB, Mark RG. The impact of the MIT-BIH Arrhythmia Database. IEEE Eng in Med and Biol "
    "20(3):45-50 (May-June 2001). Goldberger AL, et al. PhysioBank, PhysioToolkit, and PhysioNet. Circulation "
    "101(23):e215-e220 (2000).",
}
#: Characters with a meaning in inline Markdown: everywhere, at word boundaries, and in automatic links.
_MARKS = re.compile(r"[\\`*{}\[\]#+!|~$^@\"]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=\S)|\.(?=[A-Za-z])")
#: Data source and licence by kind of cohort; those of other cohorts are unknown.
DATA: dict[str, Mapping[str, str]] = {
    "mitbih": MIT_BIH,
    "demo": {"name": "synthetic patients of 'ecgfed prepare demo'", "licence": "none needed: nobody's recordings"},
}
DATA |= {
    database.kind: {
        "name": f"{database.title} {database.version}",
        "url": f"https://physionet.org/content/{database.path}/",
        "doi": database.doi,
        "licence": database.licence,
        "attribution": f"Cite {database.citation}.",
    }
    for database in DATABASES.values()
    if database.kind not in DATA
}
UNKNOWN = {"name": "the cohort's own recordings", "licence": "not known here: ask who made the bundle"}
NOT_FOR = [
    "Diagnosis, monitoring, or any decision about a patient.",
    "Atrial fibrillation, flutter, ST changes and blocks: it classifies beats, and no rhythm.",
    "Children, and leads or recorders far from those it learned from.",
]
NOT_FOR_IMAGES = ["Any decision about a person: it is a benchmark's model."]
LIMITS = [
    "A patient who was not trained on is served less well, and no figure here says how much.",
    "Scores are of beats of the patients it was trained on; a class of few beats has a score of little meaning.",
    "A threshold of certainty was chosen on validation beats of the same patients.",
]
LEFT_OUT = (
    "The global model's threshold of certainty was chosen on beats of {patients} patients who were not trained on."
)
_SCENARIOS = {
    "T_g": "one model for everybody, on everybody's beats",
    "T_p": "each patient's model, on that patient's beats (mean)",
    "T_r": "each patient's model, on everybody's beats (mean)",
}


def card_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a bundle's card, JSON-ready, from its manifest."""
    counts, scores = manifest["trained_on"]["class_counts"], manifest.get("scores")
    federation = federation_in(manifest)
    of_beats, kind = manifest.get("modality", "ecg") == "ecg", str(manifest["cohort"]["kind"])
    per_class = {str(row["class"]): row for row in (scores or {}).get("per_class", ())}
    return {
        "name": "A bundle of ecgfed",
        "tool_version": manifest["tool_version"],
        "run": manifest["run"],
        "intended_use": manifest["intended_use"],
        "not_for": NOT_FOR if of_beats else NOT_FOR_IMAGES,
        "data": {
            **DATA.get(kind, UNKNOWN),
            "kind": kind,
            "synthetic": manifest["trained_on"]["synthetic"],
            "split": manifest["cohort"]["split"],
            "clients": manifest["trained_on"].get("clients"),
            "training_examples": sum(counts.values()),
            "leads": list(manifest.get("leads", ())),
            **{name: manifest["trained_on"][name] for name in ("other_leads",) if name in manifest["trained_on"]},
        },
        **({} if federation is None else {"federation": federation.as_json()}),
        "recipe": {name: manifest[name] for name in ("method", "settings", "rounds", "net", "personal")},
        "models": {"patients": len(manifest["patients"]), "protocol": manifest["global"]["protocol"]},
        "classes": [
            {**row, "training_examples": counts.get(row["name"], 0), "test": per_class.get(row["name"])}
            for row in manifest["class_table"]
        ],
        "scores": {name: scores[name] for name in _SCENARIOS if name in scores} if scores else None,
        "patients": {name: entry.get("scores") for name, entry in manifest["patients"].items()},
        "certainty": {name: manifest["certainty"].get(name) for name in ("accuracy", "ece_before", "ece_after")},
        "limits": _limits(manifest) if of_beats else LIMITS[1:2],
        "licence_of_the_software": "MIT",
    }


def _limits(manifest: Mapping[str, Any]) -> list[str]:
    """Return the limits of a model of beats; of a global model calibrated on patients left out, with their number."""
    certainty = manifest["global"].get("certainty") or {}
    if "fitted_on" not in certainty:
        return LIMITS
    left_out = LEFT_OUT.format(patients=certainty["patients"])
    return [*LIMITS[:-1], left_out, *(LIMITS[-1:] if manifest["patients"] else [])]


def plain(text: object) -> str:
    """Escape untrusted text for Markdown and HTML, inside a line."""
    escaped = safe_text(str(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(lambda match: f"\\{match[0]}", escaped)


def listed(lines: Iterable[str]) -> str:
    """Return lines as a list."""
    return "\n".join(f"- {line}" for line in lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def data_line(data: Mapping[str, Any]) -> str:
    """Return source and licence of the data, as Markdown."""
    where = f"[{data['name']}]({data['url']}) (doi:{data['doi']})" if "url" in data else plain(data["name"])
    attribution = f" {data['attribution']}" if "attribution" in data else ""
    return f"Data: {where}. Licence: {data['licence']}.{attribution}"


def _others(data: Mapping[str, Any]) -> str:
    """Return what of other leads was trained on beside the beats, as Markdown."""
    leads = data.get("other_leads", {})
    names = ", ".join(f"{plain(lead)} {count:,}" for lead, count in leads.items())
    return f", and {count_of(sum(leads.values()), 'example')} of other leads ({names}), never scored" if leads else ""


def _count(value: object) -> str:
    return f"{value:,}" if type(value) is int else "-"


def _share(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float | int) and not isinstance(value, bool) else "-"


def markdown(card: Mapping[str, Any]) -> str:
    """Return the card as Markdown, from its data only."""
    data, recipe = card["data"], card["recipe"]
    synthetic_note = "Every patient was made up. " if data["synthetic"] else ""
    whom = "" if data["clients"] is None else f" of {count_of(data['clients'], 'client')}"
    federation = federation_in(card)
    own = "" if federation is None else "The personal models, scores and counts below are of this site's patients: "
    settings = ", ".join(f"{plain(name)} {plain(value)}" for name, value in recipe["settings"].items())
    parts = [
        f"# {card['name']}",
        f"Written by ecgfed {plain(card['tool_version'])}, and not by hand. {plain(card['intended_use'])}",
        "## Not for",
        listed(card["not_for"]),
        "## What it was trained on",
        *_federated(federation, str(recipe["method"])),
        f"{synthetic_note}{own}{count_of(data['training_examples'], 'example')}{whom}"
        f"{', lead ' + ' or '.join(map(plain, data['leads'])) if data['leads'] else ''}{_others(data)}; "
        f"split {plain(data['split'])}. {data_line(data)}",
        "## Recipe",
        f"Method {plain(recipe['method'])}, {_count(recipe['rounds'])} rounds; {settings or 'no settings'}. It holds "
        f"the global model ({plain(card['models']['protocol'])}) and those of {card['models']['patients']:,} patients "
        f"(made by: {plain(recipe['personal'])}).",
        "## Classes, and the global model's scores on the test split",
        _classes(card["classes"]),
        "## Scores on the test split",
        _scores(card),
        *_by_patient(card["patients"]),
        "## Limits",
        listed(card["limits"]),
        "## Which bundle this is of",
        f"The one whose manifest and graphs say run `{plain(card['run'])}`. The software is under the MIT licence.",
    ]
    return "\n\n".join(parts) + "\n"


def _federated(federation: Federation | None, method: str) -> list[str]:
    """Return the paragraphs about the sites that trained a model together, as Markdown."""
    if federation is None:
        return []
    site = f" This bundle is of {plain(federation.site)}." if federation.site else ""
    rows = (
        (
            plain(source.name),
            f"{source.patients:,}",
            f"{source.training_examples:,}",
            plain(", ".join(source.leads)) or "-",
            ", ".join(f"{rate:g}" for rate in source.recorded_hz) or "-",
            plain("; ".join(source.databases)) or "-",
            plain(source.version) or "-",
        )
        for source in federation.sites
    )
    head = ("site", "patients", "training examples", "leads", "recorded at, Hz", "data, as the site states", "ecgfed")
    return [
        f"Federated: trained by {plain(method)} at {federation.describe()}; their recordings stayed at the sites. The "
        f"federation's run is `{federation.run}`.{site}",
        table(head, rows),
    ]


def _classes(classes: Sequence[Mapping[str, Any]]) -> str:
    tested = ("sensitivity", "positive_predictivity", "f1")
    rows = (
        (
            str(row["code"]),
            plain(row["name"]),
            row["aami"] or "-",
            plain(row["words"]),
            f"{row['training_examples']:,}",
            *(_share((row["test"] or {}).get(name)) for name in tested),
        )
        for row in classes
    )
    head = ("code", "class", "AAMI", "meaning", "training examples", "sensitivity", "positive predictivity", "F1")
    return table(head, rows)


def _scores(card: Mapping[str, Any]) -> str:
    if not card["scores"]:
        return "Nobody has scored this run at this round ('ecgfed evaluate')."
    return table(
        ("macro-F1", "of", "value"), ((name, _SCENARIOS[name], _share(value)) for name, value in card["scores"].items())
    )


def _by_patient(patients: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    scored = {name: scores for name, scores in patients.items() if scores}
    if not scored:
        return []
    rows = (
        (plain(name), _count(scores.get("beats")), _share(scores.get("macro_f1"))) for name, scores in scored.items()
    )
    return ["Each patient's own model on that patient's test beats:", table(("patient", "beats", "macro-F1"), rows)]
