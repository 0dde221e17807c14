"""README.md, every figure of it from results.json."""

from collections.abc import Mapping, Sequence
from typing import Any

#: How databases are called on the page.
_NAMES = {
    "mitdb": "MIT-BIH, 360 Hz",
    "mitdb at 250 Hz": "MIT-BIH resampled to 250 Hz",
    "mitdb at 128 Hz": "MIT-BIH resampled to 128 Hz",
    "qtdb": "QT database, 250 Hz",
    "svdb": "MIT-BIH supraventricular, 128 Hz",
    "cinc2017": "CinC 2017, 300 Hz, one lead",
}
_INTRO = """# Pacing detected in the signal

Which recordings are paced, and which beats follow a pacing spike
([`ecgfed/domain/signal/pacing.py`](../../ecgfed/domain/signal/pacing.py),
[decision 0060](../../docs/decisions/0060-pacing-in-the-signal.md))? `benchmarks/pages.py` wrote this page from
[`results.json`](results.json); change neither by hand.

    python benchmarks/pacing/train.py --data DATA --work WORK

DATA holds `mitdb`, `svdb`, `qtdb` and `cinc2017`. R peaks are our detector's unless a row says otherwise. **Only four
paced patients are real, of one recorder (MIT-BIH's 102, 104, 107, 217). Other amplitudes, unipolar tails, two-chamber
pacing, fusion, lost capture and intermittent pacing are synthetic**: real beats of other patients, widened 1.4 to 2.3
times (fusion: not widened), with a pulse of 0.3 to 2 ms through a low-pass of 40 to 150 Hz, 0.2 to 3 times as high as
the QRS. Figures on these say what the features can tell, and not how often a pacemaker is missed in a clinic.
"""
_LEFT_OUT = """## Weights that saw neither the patient nor the recording

Four times, one paced patient and a quarter of all other patients were left out of training. A clear beat scores above
0.9; a record is paced when more than 30% of its assessed beats are clear, an episode in another record needs 10 clear
beats in a row. *Others with pacing* counts both.
"""
_FINAL = """## The weights in the package

Trained on everything; not independent of these recordings.
"""
_SINGLE = """## One lead at a time

What would be said of a recording that has only one of the leads, patients left out as above.
"""
_SYNTHETIC = """## Synthetic spikes

Percent of beats that score above 0.5, patients left out as above: by kind, by the height of the spike against the QRS,
by the tail of a unipolar lead, by the recorder's low-pass. Beats of *wide* have no spike, *no capture* is a conducted
beat with a spike apart from it: neither should score. *Intermittent*: of how many recordings 40 paced beats, put into
their middle, are reported as pacing in episodes, and no other episode is.
"""


def page(results: Mapping[str, Any]) -> str:
    """Return the page."""
    left, final = results["left out"], results["final"]
    parts = [
        _INTRO,
        "<!-- written by benchmarks/pacing/page.py -->\n",
        _LEFT_OUT,
        _records(left),
        "The four paced records:\n",
        _paced(left),
        _FINAL,
        _records(final),
        _SINGLE,
        _leads(left),
        _SYNTHETIC,
        _synthetic(left),
        "<!-- end of what benchmarks/pacing/page.py writes -->",
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _records(results: Mapping[str, Any]) -> str:
    rows = []
    for key, one in results.items():
        paced = one["paced records"]
        share, record = one["highest clear share of others"]
        longest, of_record = one["longest clear run of others"]
        right = f"{sum(entry['paced'] for entry in paced.values())} of {len(paced)}" if paced else "-"
        false = _names(one["false"] + one["false episodes"])
        near, run = f"{share:.1%} ({record})", f"{longest} ({of_record})"
        rows.append((_NAMES[key], one["recordings"], right, false, near, run))
        if "reference peaks" in one:
            other = one["reference peaks"]
            right = f"{sum(entry['paced'] for entry in other['paced records'].values())} of {len(paced)}"
            share, record = other["highest clear share of others"]
            longest, of_record = other["longest clear run of others"]
            false = _names(other["false"] + other["false episodes"])
            near, run = f"{share:.1%} ({record})", f"{longest} ({of_record})"
            rows.append((f"{_NAMES[key]}, reference R peaks", one["recordings"], right, false, near, run))
    head = (
        "recordings",
        "number",
        "paced called paced",
        "others with pacing",
        "most clear beats of others",
        "longest run",
    )
    return _table(head, rows)


def _names(records: Sequence[str]) -> str:
    return ", ".join(records) or "none"


def _paced(results: Mapping[str, Any]) -> str:
    rows = []
    for key, one in results.items():
        for record, entry in one["paced records"].items():
            other = entry["of other beats"]
            said = "-" if other is None else f"{other:.1%}"
            rows.append(
                (
                    record,
                    _NAMES[key],
                    f"{entry['clear share']:.1%}",
                    f"{entry['sensitivity']:.1%}",
                    said,
                    entry["episodes"],
                )
            )
    head = ("record", "at", "clear beats", "of its `/` and `f` called paced", "of its other beats", "episodes")
    beats = "; ".join(f"{_NAMES[key]} {one['beats']['auc']:.4f}" for key, one in results.items() if "beats" in one)
    table = _table(head, sorted(rows, key=lambda row: str(row[0])))
    return f"{table}\nArea under the ROC curve by beat, all 48 records: {beats}.\n"


def _leads(results: Mapping[str, Any]) -> str:
    rows = []
    for key, one in results.items():
        leads = one["single leads"]
        right = f"{leads['paced']} of {leads['of']}" if leads["of"] else "-"
        rows.append((_NAMES[key], right, f"{len(leads['false'])} of {leads['of others']:,}", _names(leads["false"])))
    return _table(("leads of", "paced called paced", "others with pacing", "which"), rows)


def _synthetic(results: Mapping[str, Any]) -> str:
    """A row for each property and a column for each database: 17 columns would not fit on paper."""
    columns = []
    for entry in results.values():
        synthetic = entry["synthetic"]
        intermittent = synthetic["intermittent"]
        share = (
            f"{intermittent['episode found']} of {intermittent['recordings']}" if intermittent["recordings"] else "-"
        )
        shares = {kind: synthetic["by kind"][kind] for kind in ("single", "dual", "fusion", "wide", "no capture")}
        shares |= {f"height {heights}": value for heights, value in synthetic["by height"].items()}
        shares |= {"bipolar": synthetic["bipolar"], "unipolar": synthetic["unipolar"], **synthetic["by low-pass"]}
        percent = {name: f"{100 * value:.1f}" for name, value in shares.items()}
        columns.append({"number of beats": f"{synthetic['with spike']:,}", **percent, "intermittent": share})
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    return _table(("beats", *(_NAMES[key] for key in results)), rows)
