"""README.md, every figure of it from results.json."""

from collections.abc import Mapping, Sequence
from typing import Any

_INTRO = """# Atrial fibrillation and flutter

Which strips and which stretches of a recording are atrial fibrillation or flutter
([`ecgfed/domain/signal/rhythm.py`](../../ecgfed/domain/signal/rhythm.py), [decision
0077](../../docs/decisions/0077-rhythm-as-episodes.md))? `benchmarks/pages.py` wrote this page from
[`results.json`](results.json); change neither by hand.

    python benchmarks/rhythm/train.py --data DATA --test

DATA holds `mitdb`, `svdb`, `qtdb` and `cinc2017`. R peaks are our detector's. The weights in the package were
trained on DS1 of MIT-BIH, SVDB, QTDB and CinC 2017, and features, weights of the databases and thresholds chosen on
these; DS2 was read at the end, and nothing changed after it. Five records of SVDB that look like fibrillation
without a rhythm annotation, and paced records, took no part.
"""
_STRIPS = """## CinC 2017: 1,089 strips of one lead, 9 to 61 s

Weights without the strip (eight folds), for five divisions into folds: F1 of class A in percent, on the strips as
they are (379 A, 400 N, 250 O, 60 noisy) and at the class shares of the Challenge's training set (version 3 of its
labels: 758, 5,076, 2,415, 279).
"""
_CERTAINTY = """Of the first division, at the Challenge's shares: how many of the strips called A are so, by the
certainty that is stated.
"""
_LONG = """## Half an hour, two leads

Weights without the recording, the first division; of DS2 the weights in the package (202: without 201, the same
person). *Patients left out*: weights of all other patients of MIT-BIH, DS2's too, and of the other databases.
Se and +P by duration are of all annotated fibrillation and flutter from the start on; EC57's leave out the first five
minutes, and flutter. SVDB and QTDB have no rhythm annotation.
"""
_RECORDS = """By record, in seconds; patients of DS1 and DS2 as in the table's rows.
"""


def page(results: Mapping[str, Any]) -> str:
    """Return the page."""
    parts = [
        _INTRO,
        "<!-- written by benchmarks/rhythm/page.py -->\n",
        _STRIPS,
        _strips(results["strips"]),
        _CERTAINTY,
        _certainty(results["strips"][0]["certainty"]),
        _LONG,
        _long(results),
        _RECORDS,
        _records(results),
        "<!-- end of what benchmarks/rhythm/page.py writes -->",
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _strips(divisions: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (number + 1, one["f1"], one["f1 at the Challenge's shares"], *one["called A"].values())
        for number, one in enumerate(divisions)
    ]
    called = [f"{name} called A" for name in divisions[0]["called A"]]
    return _table(("division", "F1", "F1 at the Challenge's shares", *called), rows)


def _certainty(bins: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (f"{low:g} to {high:g}", one["strips"], f"{one['mean']:.0%}", f"{one['fibrillation']:.0%}")
        for one in bins
        for low, high in [one["certainty"]]
    ]
    return _table(("certainty", "strips called A", "mean certainty", "are A"), rows)


def _groups(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    first = results["left out"][0]
    renamed = {"MIT-BIH": "MIT-BIH, DS1", **{name: name for name in first if name != "MIT-BIH"}}
    return {
        **{new: first[name] for name, new in renamed.items()},
        "MIT-BIH, DS2": results["test"],
        "MIT-BIH, patients left out": results["patients left out"],
    }


def _long(results: Mapping[str, Any]) -> str:
    rows = []
    for name, one in _groups(results).items():
        free = [of for of in one["by record"].values() if not of["annotated_s"]]
        of_duration = [_percent(one[key] if one["ec57"] else None) for key in ("duration_se", "duration_ppv")]
        ec57 = [_percent(share["percent"]) for share in (one["ec57"] or {}).values()] or ["-"] * 4
        among = f"{len(free)}: {sum(of['called_s'] for of in free):,} s" if free else "none"
        rows.append((name, one["records"], *of_duration, *ec57, among))
    head = ("recordings", "number", "Se", "+P", "EC57 E Se", "E +P", "D Se", "D +P", "others with episodes")
    return _table(head, rows)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _records(results: Mapping[str, Any]) -> str:
    rows = []
    for name, one in _groups(results).items():
        for record, of in one["by record"].items():
            certainty = ", ".join(f"{value:.2f}" for value in of["certainty"]) or "-"
            rows.append((name, record, of["annotated_s"], of["called_s"], of["both_s"], certainty))
    return _table(("recordings", "record", "annotated", "called", "both", "certainty of its episodes"), rows)
