"""This folder's README from the results; ``benchmarks/pages.py`` writes it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import table

#: protocol, method, labels, VEB Se/+P, SVEB Se/+P, where it can be read; second hand where another paper says it.
PUBLISHED = (
    (
        "a",
        "Teijeiro et al. 2018, clusters and rules, annotated peaks",
        "none",
        "94.6/96.8",
        "87.2/84.0",
        "summed over DS2 from its table (citiususc/construe, Beat_Classification.md)",
    ),
    (
        "c",
        "Construe's clusters, each given its majority's label in hindsight, annotated peaks",
        "11.4 on average",
        "96.8/95.9",
        "90.7/98.0",
        "computed from its published cluster files (DS2)",
    ),
    ("b", "de Chazal and Reilly 2006", "500 beats", "94.3/96.2", "87.7/47.0", "second hand: PMC5499251, table 4"),
    ("b", "Jiang and Kong 2007", "5 minutes", "86.6/89.4", "50.6/68.0", "second hand: PMC5499251, table 4"),
    ("b", "Ince et al. 2009", "5 minutes", "84.6/86.7", "63.5/53.7", "second hand: PMC5499251, table 4"),
    ("b", "Kiranyaz et al. 2016", "5 minutes", "95/89.5", "64.6/62.1", "second hand: PMC5499251, table 4"),
)
TITLES = {
    "no label": "a. No label of the patient: DS1 to DS2",
    "first five minutes": "b, d. The first five minutes, all labels or a few: the rest of 24 records of the 200 series",
    "whole record": "c. A few labels of the whole record: DS2",
    "first half": "e. A few labels of the first half, scored on the second: DS2",
}
SETS = ("all", "without 202", "without 232", "VEB's 11", "SVEB's 14")
#: Said of protocols that ``results.json`` names in ``before_leads_voted``; ``run.py`` makes all anew and names none.
BEFORE = """Own peaks are those of the detector before its leads voted
([decision 0057](../../docs/decisions/0057-leads-that-vote.md)); not measured again.
"""
#: Records whose mistakes are looked at one by one.
HARD = ("232", "222", "207", "213")
INTRO = """# What a few labels of a patient are worth

    python benchmarks/clinical/learn.py --source MITDB --work DIR
    python benchmarks/clinical/run.py --source MITDB --work DIR
    python benchmarks/pages.py

What a few labels add to a model that has not seen the patient. The last command writes this page from `results.json`.
Scores are EC57's (`ecgfed ec57`, classes as in de Chazal 2004), in percent, all records' beats together, F1 with a 95%
interval over records (2,000 draws). A simulated person knows the reference and answers with what the labelling page
offers. The common model is trained on DS1 for DS2, and on the 20 non-paced records of the 100 series for the 200
series. But 201 (DS1) and 202 (DS2) are one person. The rule that chooses beats was learned on DS1 (`learned.json`), as
were the settings (`--on ds1`, `ds1.json`), both with the detector before its leads voted. Own peaks are our detector's,
reference peaks the annotation's.

Three more scripts simulate a person who errs in some of the doubtful beats: `errors.py` (how many labels are expected
to be wrong, `errors.json`), `adoption.py` (when a personal model is refused, `adoption.json`) and `second.py` (what a
second question is worth, `second.json`). Their figures are in [labels.md](../../docs/labels.md#the-patients-own-model)
and [decision 0063](../../docs/decisions/0063-what-labels-promise.md).

`packaged.py` reads each record before and after twenty labels, and five minutes of them, beginning from the packaged
model's folds that have not seen it; it decides the default of `--personal`
([decision 0088](../../docs/decisions/0088-the-global-model-as-teacher.md)).
"""


def _score(one: dict[str, Any], kind: str) -> str:
    said = one[kind]
    if not said["beats"]:
        return "-"
    low, high = said["interval"]
    se, ppv = (f"{said[name]:.1f}" if said[name] is not None else "-" for name in ("se", "ppv"))
    return f"{said['f1']:.1f} ({low:.1f} to {high:.1f}); {se}/{ppv}"


def _rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for labels, sets in found["detected"].items():
        for name in SETS:
            if name not in sets or (name != "all" and labels not in ("none", "all", "20")):
                continue
            own, reference = sets[name], found["annotated"][labels][name]
            kinds = ("veb",) if name == "VEB's 11" else ("sveb",) if name == "SVEB's 14" else ("veb", "sveb")
            cells = [_score(one, kind) if kind in kinds else "" for kind in ("veb", "sveb") for one in (own, reference)]
            yield (labels, "" if name == "all" else name, *cells)


def _hard(found: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for labels in ("none", "20"):
        records = found["detected"].get(labels, {}).get("records", {})
        for record in HARD:
            if record in records:
                yield (record, labels, *(f"{a} of {a + b}; {c}" for a, b, c in records[record].values()))


def page(results: dict[str, Any]) -> str:
    """Return the README."""
    parts = [INTRO]
    columns = (
        "labels",
        "records",
        "VEB F1; Se/+P, own peaks",
        "reference peaks",
        "SVEB F1; Se/+P, own peaks",
        "reference peaks",
    )
    for protocol, found in results["protocols"].items():
        stale = [BEFORE] if protocol in results.get("before_leads_voted", ()) else []
        parts += [f"## {TITLES[protocol]}\n", *stale, "\n".join(table(columns, _rows(found))) + "\n"]
    rows = list(_hard(results["protocols"]["no label"])) + list(_hard(results["protocols"]["whole record"]))
    parts += [
        "## Hard records, own peaks, whole record\n",
        "\n".join(
            table(("record", "labels", "V found; falsely called V", "S found; falsely called S"), sorted(rows, key=str))
        )
        + "\n",
        "## Published beside it\n",
        "Other detectors, other beats left out, sometimes other records: no ranking.\n",
        "\n".join(table(("protocol", "method", "labels a record", "VEB Se/+P", "SVEB Se/+P", "from"), PUBLISHED))
        + "\n",
    ]
    return "\n".join(parts)
