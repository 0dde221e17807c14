"""docs/reproduce.md: the papers' tables, each value as printed, ours and the difference, from results.json."""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import results_of, table

from ecgfed.core.config import SCALES
from ecgfed.papers.table import Protocol, Table
from ecgfed.tasks.reproduce import PAPERS
from ecgfed.tasks.reproduce_data import DATA
from ecgfed.tasks.reproduce_result import Line, Reproduction, Score

RESULTS = "results.json"
INTRO = """# Reproduce the papers' tables

Train and score a table of a paper with one command; it prints the paper's value, ours and the difference. Full
protocols take hours; `ecgfed reproduce --list` estimates them on your machine within about a minute.

```sh
ecgfed reproduce --list
ecgfed reproduce grp-fed --table 1 --data mitbih --source DATA --work WORK
ecgfed reproduce grp-fed --table 1 --data cifar10 --scale reduced --source DATA --work WORK
ecgfed reproduce fed-rod --table 1 --data cifar10 --alpha 0.3 --rows "FedAvg; FedPer; Ditto" --source DATA --work WORK
ecgfed reproduce fedabc --table 1 --data cifar10 --alpha 0.3 --source DATA --work WORK
```

`DATA` contains the data sets in folders of these names: {folders} ([where to get them](data.md)). If a data set is
missing, the command names it in one line and runs the rest of the table.

| topic | behaviour |
| --- | --- |
| finished runs | stored in `WORK/results.json` (`--results FILE`) and not repeated, even for another table |
| interruption | run the command again: it continues and ends with the same results |
| seeds | as in the paper; `--seeds 1` uses one |
| scale | `full`, or `reduced` for a shorter run; the differences are listed below and printed |
| device | a GPU if there is one (`--device`) |
| Python | `ecgfed.reproduce("fed-rod", 1, source="DATA", work="WORK", data="cifar10", alpha=0.3)` |
| models | a method without personal models is scored by its local models, if the paper does so |

Local models are those after one more round of local training on the last global model (Fed-RoD's *PM*; FedABC).

The papers' tables are data: `ecgfed/papers/` has a file for each paper with its protocols, its rows and the printed
values. A test compares the values with a second transcription. `benchmarks/pages.py` writes this page; change it
there.

## What has been run

"""


def page() -> str:
    """Return the page, with the runs that are in the results file."""
    runs = results_of("reproduce", RESULTS) or {}
    folders = ", ".join(f"`{one.folder}`" for one in DATA.values() if one.folder)
    overview, sections = [], list[str]()
    for paper in PAPERS.values():
        sections += [f"## {paper.name}", "", f"{paper.title}.", "", *protocols(list(paper.tables.values()))]
        for number, one in paper.tables.items():
            scales = [Reproduction.of(paper, one, one.settings, one.rows, scale, runs) for scale in SCALES]
            shown = [part for reproduction in scales for part in measured(reproduction)]
            states = [state for reproduction in scales if (state := state_of(reproduction))]
            overview.append((f"[{paper.name}](#{paper.name})", number, one.title, "; ".join(states) or "not yet"))
            note = [one.note, ""] if one.note else []
            if shown or note:
                sections += [f"### {paper.name}, table {number}: {one.title}", "", *note]
                sections += shown or ["Not run yet.", ""]
    intro = INTRO.format(folders=folders)
    parts = [intro.rstrip(), "", *table(("paper", "table", "title", "rows run"), overview), "", *sections]
    return "\n".join(parts).rstrip() + "\n"


def state_of(reproduction: Reproduction) -> str:
    """Return how many rows of a table have a result at this scale, empty for none."""
    lines = [line for _, lines in reproduction.by_setting() for line in lines]
    finished = sum(line.seconds is not None for line in lines)
    return f"{finished} of {len(lines)}, {reproduction.scale}" if finished else ""


def protocols(tables: list[Table]) -> Iterator[str]:
    """Yield the protocols of a paper; what is open, different or reduced in them is folded."""
    by_data: dict[str, Protocol] = {}
    for one in tables:
        by_data |= {setting.data: setting.protocol for setting in one.settings}
    rows = []
    for data, protocol in by_data.items():
        sgd = ", ".join(f"{name} {value:g}" for name, value in protocol.sgd.items())
        varied = [f"learning rate times {protocol.lr_decay:g} each round"] if protocol.lr_decay < 1 else []
        varied += [f"flips and crops of {protocol.crop_pixels} pixels"] if protocol.crop_pixels else []
        work = f"{protocol.rounds} rounds of {protocol.clients_per_round or 'all'} clients, "
        work += f"{protocol.local_epochs} local epochs, batches of {protocol.batch_size}"
        rows.append((DATA[data].title, protocol.section, f"`{protocol.net}`", work, "; ".join([sgd, *varied])))
    yield from table(("data", "section", "net", "work", "SGD"), rows)
    details = [
        (DATA[data].title, kind, phrase)
        for data, protocol in by_data.items()
        for kind, phrases in (
            ("not stated in the paper", protocol.left_open),
            ("different from the paper", protocol.departures),
            ("reduced scale", protocol.differences("reduced")),
        )
        for phrase in phrases
    ]
    summary = "What the paper leaves open, what differs here, and the reduced scale"
    yield from ("", '<details markdown="1">', f"<summary>{summary}</summary>", "")
    yield from table(("data", "kind", "setting"), details)
    yield from ("", "</details>", "")


def measured(reproduction: Reproduction) -> Iterator[str]:
    """Yield a table for each setting that has runs."""
    for setting, lines in reproduction.by_setting():
        if not any(line.seconds is not None or line.stopped for line in lines):
            continue
        data = DATA[setting.data].title
        title = data if setting.name == data else f"{data}, {setting.name}"
        yield f"**{title}, {reproduction.scale}** (paper / ours / difference)"
        yield ""
        yield from table(
            ("method", "seeds", *reproduction.table.columns, "training, h"),
            [row(line, reproduction.table.digits) for line in lines],
        )
        yield ""
        notes = [(line.row.name, phrase) for line in lines for phrase in (*line.notes, *line.stopped)]
        yield from (f"- {name}: {phrase}." for name, phrase in notes)
        yield ""


def row(line: Line, digits: int) -> tuple[str, ...]:
    """Return a row: method, seeds, its scores, hours of a training."""
    hours = "" if line.seconds is None else f"{line.seconds / 3600:.2f}"
    seeds = "" if line.seconds is None else str(len(line.scores[0].values))
    return (line.row.name, seeds, *(cell(score, digits) for score in line.scores), hours)


def cell(score: Score, digits: int) -> str:
    """Return ``68.6 / 67.1 ± 0.4 / -1.5``; ``?`` for a value that is not legible."""
    paper = score.printed.written(digits)
    if score.mean is None:
        return f"{paper} / not run"
    sd = "" if score.sd is None else f" ± {score.sd:.{digits}f}"
    difference = "-" if score.difference is None else f"{score.difference:+.{digits}f}"
    return f"{paper} / {score.mean:.{digits}f}{sd} / {difference}"
