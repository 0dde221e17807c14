"""README.md, with every figure from results.json."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import table

Rows = Mapping[str, Mapping[str, Any]]
NAMES = {"mitbih": "MIT-BIH", "svdb": "SVDB", "qtdb": "QTDB"}
SITES, UNSEEN = ("mitbih", "svdb"), "qtdb"
#: What rows are compared with; the last, which has FedBN's net, with FedBN alone.
BASES = ("FedAvg", "each site alone", "FedAvg, batch norm")
CLASSES = {"veb": "VEB", "sveb": "SVEB"}
_INTRO = """# Two hospitals

What is federated learning worth between two hospitals with different recorders and patients, for patients nobody has
seen? MIT-BIH and SVDB are two sites, each **one client**; QTDB is a site that takes no part. `benchmarks/pages.py`
wrote this page from [`results.json`](results.json); change neither by hand.

    python benchmarks/hospitals/run.py --source DATA --work DIR --tune
    python benchmarks/hospitals/run.py --source DATA --work DIR --seeds {seeds}

DATA holds `mitdb`, `svdb` and `qtdb`. [`runs.json`](runs.json) keeps the counts of each
training by patient; what it holds is not trained again.

- **Patients.** {patients}. Of MIT-BIH DS1 alone: DS2 and paced records take part in
  nothing, not even in scoring. A site's patients are divided into {folds} folds, those with many S or V beats evenly,
  and each patient is new in one fold: no model that reads it has seen it. QTDB is read by the models of all folds.
- **Training.** First leads, annotated R peaks, AAMI classes, RR features of version 3 and net `context`
  ([decision 0089](../../docs/decisions/0089-the-strip-around-the-beat.md)), `window_share` 0.3, 20 rounds of 50 steps
  of 64 beats at each site; *pooled*: 100 steps of the beats of both. Of a
  patient all beats but N, and {normal_beats} N beats at most. Each fold is trained {times}, each training with a seed
  of its own, which draws the N beats too.
- **Settings** of each row were chosen from three, by the mean F1 of V and S on validation patients of the first
  fold's patients in training (last table); *each site alone* has no server, and step sizes of its own. A choice at
  the edge of what was tried says that a wider search might find better. These
  validation patients are new patients of the other two folds: all rows had the same advantage. FedProx has mu = 0.1,
  GRP-FED and FedGate what they have by default.
- **Models of a site.** *Each site alone*: its own. FedBN: the shared model with its normalisation layers. GRP-FED: its
  extractor with the shared head. FedGate: the global model with a kernel machine fitted to its training beats. FedAvg,
  FedProx and *pooled* have one model for all.
- **Global models.** FedBN: the average of both sites' normalisation layers, as its authors recommend for a client that
  took no part. *Each site alone*: the mean of both models' probabilities.
- **Scores.** F1 in percent of a site's new patients together (gross), by EC57's rules for F and Q beats, over all
  their beats. In brackets the 95% interval: patients, and seeds where there are several, are drawn with replacement
  2,000 times, the same draws for each row. It leaves out how much another division into folds would change.
"""
_OWN = """## New patients, read by their site's model

By the global one where a method has no other.
"""
_GLOBAL = """## New patients, read by the global model
"""
_OTHER = """## New patients, read by the other site's model

Of methods with a model for each site. Columns are the patients': MIT-BIH's are read by SVDB's model.
"""
_UNSEEN = """## The site that took no part

QTDB, nearly all N: normal beats called S or V, of 1,000, and F1 of V. It has few V beats, in few patients, so that F1
has no interval.
"""
_CLAIMS = """## What the intervals allow to claim

Differences of paired F1, each row's model of the site less that of another row (FedBN also less FedAvg on its own
net); in bold where the 95% interval leaves out 0. There are {tests} of them and none is corrected for that: about one
in twenty would be bold by chance.
"""
_TUNING = """## Settings

Mean F1 of V and S over both sites' validation patients, one training each; the chosen ones in bold.
"""


def page(results: Mapping[str, Any]) -> str:
    """Return the whole page."""
    rows: Rows = results["rows"]
    differences = list(_differences(rows))
    patients = ", ".join(f"{NAMES[site]} {count}" for site, count in results["patients"].items())
    missing = [name for name in results["tuning"] if name not in rows]
    about = {
        **results,
        "patients": patients,
        "times": {1: "once", 2: "twice"}.get(seeds := results["seeds"], f"{seeds} times"),
    }
    return "\n".join(
        [
            _INTRO.format(**about),
            "<!-- written by benchmarks/hospitals/page.py -->",
            "",
            *([f"Not trained yet: {', '.join(missing)}.", ""] if missing else []),
            *[_OWN, *_of_sites(rows, "own"), ""],
            *[_GLOBAL, *_of_sites(rows, "global"), ""],
            *[_OTHER, *_of_sites({n: row for n, row in rows.items() if row["own_models"]}, "other"), ""],
            *[_UNSEEN, *_unseen(rows), ""],
            _CLAIMS.format(tests=sum(cell != "" for line in differences for cell in line[2:])),
            *table(("row", "less", *_columns()), differences),
            "",
            *_claims(rows),
            "",
            *[_TUNING, *_tuning(results["tuning"]), ""],
            "<!-- end of what benchmarks/hospitals/page.py writes -->",
            "",
        ]
    )


def _columns() -> list[str]:
    return [f"{NAMES[site]} {name}" for site in SITES for name in CLASSES.values()]


def _of_sites(rows: Rows, reader: str) -> list[str]:
    lines = [
        (name, *(_cell(row[f"{site}/{reader}"][one]) for site in SITES for one in CLASSES))
        for name, row in rows.items()
    ]
    return table(("", *_columns()), lines)


def _cell(score: Mapping[str, float]) -> str:
    return f"{score['mean']:.1f} ({score['low']:.1f} to {score['high']:.1f})"


def _unseen(rows: Rows) -> list[str]:
    lines = []
    for name, row in rows.items():
        cells = []
        for model in ("global", *SITES):
            one = row.get(f"{UNSEEN}/{model}")
            cells.append(f"{_cell(one['false_ectopic'])}; {one['veb']:.1f}" if one else "")
        lines.append((name, *cells))
    models = ("the global model", *(f"{NAMES[site]}'s" for site in SITES))
    return table(("", *(f"false ectopic; VEB F1: {model}" for model in models)), lines)


def _differences(rows: Rows) -> Iterator[tuple[str, ...]]:
    for base in BASES:
        for name, row in rows.items():
            if name != base and f"above {base}" in row[f"{SITES[0]}/own"]:
                yield name, base, *(_signed(row[f"{site}/own"][f"above {base}"][c]) for site in SITES for c in CLASSES)


def _claims(rows: Rows) -> Iterator[str]:
    """Yield what the differences' intervals leave of claims: which rows are above another one, and which below."""
    for base in BASES[:2]:
        above: dict[bool, list[str]] = {True: [], False: []}
        for site in SITES:
            for one, name in CLASSES.items():
                scores = {other: row[f"{site}/own"][f"above {base}"][one] for other, row in rows.items()}
                for sign, sides in ((True, "low"), (False, "high")):
                    names = [
                        other for other, score in scores.items() if score[sides] != 0 and (score[sides] > 0) == sign
                    ]
                    if names:
                        above[sign].append(f"{NAMES[site]} {name}: {', '.join(names)}")
        yield f"- Above *{base}*: {'; '.join(above[True]) or 'none'}. Below it: {'; '.join(above[False]) or 'none'}."


def _signed(score: Mapping[str, float]) -> str:
    text = f"{score['mean']:+.1f} ({score['low']:+.1f} to {score['high']:+.1f})"
    return f"**{text}**" if score["low"] > 0 or score["high"] < 0 else text


def _tuning(tuning: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, one in tuning.items():
        cells = []
        for tried in one["tried"]:
            settings = tried["settings"]
            server = settings.get("server_optimizer")
            how = {"adam": ", server Adam", "sgd": ", server plain mean"}.get(server, "")
            text = f"{tried['own_f1']:.1f} (lr {settings['lr']:g}{how})"
            cells.append(f"**{text}**" if settings == one["chosen"] else text)
        lines.append((name, *cells))
    return table(("", "first", "second", "third"), lines)
