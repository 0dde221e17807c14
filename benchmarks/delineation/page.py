"""README.md, every figure of it from results.json."""

from collections.abc import Mapping, Sequence
from typing import Any

#: Martinez et al., IEEE Trans Biomed Eng 51:570-581, 2004, QTDB, single-lead wavelet delineator: mean and SD in ms.
PUBLISHED = {"p_onset": (2.0, 14.8), "qrs_onset": (4.6, 7.7), "qrs_end": (0.8, 8.7), "t_end": (-1.6, 18.1)}
#: Words of the page.
NAMES = {
    "p_onset": "P onset",
    "p_peak": "P peak",
    "p_end": "P end",
    "qrs_onset": "QRS onset",
    "qrs_end": "QRS end",
    "t_peak": "T peak",
    "t_end": "T end",
}
_INTRO = """# Delineation of P, QRS and T

How far are the waves that `ecgfed.delineate` locates
([`ecgfed/domain/waves`](../../ecgfed/domain/waves/delineate.py), [decision
0090](../../docs/decisions/0090-waves-and-intervals.md)) from those that a cardiologist marked? `benchmarks/pages.py`
writes this page from [`results.json`](results.json); change neither by hand.

    python benchmarks/delineation/choose.py --source DATA/qtdb
    python benchmarks/delineation/run.py --data DATA

DATA holds `qtdb` and `mitdb`. QTDB's annotator `q1c` marked the waves of some 30 beats of each record. Of the 27
records at hand that are no copies of MIT-BIH (Martinez et al. used 105, among them those copies), every second one by
name was used to choose the constants (`choose.py`, [`chosen.json`](chosen.json)), and the others only to measure.
Each record counts as one patient; nothing says otherwise. R peaks are our detector's, on each lead, for both
delineators.
"""
_MAIN = """Errors are located less annotated, in ms: mean ± standard deviation, each the mean over records; in
parentheses the standard deviation of all beats together; then the share of annotated points that were not located.

*Closer lead*: the annotator saw both leads, a delineator sees one, so that for each point the lead counts that is
nearer to the annotation, as we take Martinez et al. 2004 to do (not checked in the paper). In use nobody knows which
one that is: *first lead* and *second lead* are what a recording with one lead gets.
"""
_NOTES = """Not compared alike: the published figures are of 105 records, ours of {records}. NeuroKit2's DWT does not
correct for what a reader sees in the other lead; ours adds a constant to onsets and ends, chosen on the tuning
records.
"""
_TUNING = """## On the records by which the constants were chosen
"""
_RECORDS = """## By record, closer lead
"""
_P = """## P waves where there are none

Share of the conducted beats (N, L, R) of MIT-BIH with a P wave located, in MLII or the first lead, without beats of
poor quality. A P wave has to repeat in neighbouring beats of like shape and rate; how much was chosen on DS1.
"""


def page(results: Mapping[str, Any]) -> str:
    """Return the page."""
    ours, neurokit = results["records"]["ecgfed"], results["records"]["NeuroKit2 DWT"]
    parts = [
        _INTRO,
        "<!-- written by benchmarks/delineation/page.py -->\n",
        f"## On the {len(results['split']['testing'])} records for measuring\n",
        _MAIN,
        _main(ours, neurokit),
        _NOTES.format(records=len(results["split"]["testing"])),
        _TUNING,
        _ways({f"ecgfed, {way}": of for way, of in results["tuning"]["ecgfed"].items()}),
        _RECORDS,
        _by_record(results["by_record"]),
        _P,
        _p_waves(results["p_waves"]),
        "<!-- end of what benchmarks/delineation/page.py writes -->",
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _cell(of: Mapping[str, Any]) -> str:
    return f"{of['mean']:.1f} ± {of['sd']:.1f} ({of['pooled_sd']:.1f}); {of['missed_percent']:.1f}%"


def _ways(rows: Mapping[str, Mapping[str, Any]], published: bool = False) -> str:
    body = [(name, *(_cell(of[point]) for point in NAMES)) for name, of in rows.items()]
    if published:
        cells = [f"{PUBLISHED[p][0]:.1f} ± {PUBLISHED[p][1]:.1f}" if p in PUBLISHED else "-" for p in NAMES]
        body.append(("Martinez et al. 2004, closer lead", *cells))
    return _table(("", *NAMES.values()), body)


def _main(ours: Mapping[str, Any], neurokit: Mapping[str, Any]) -> str:
    rows = {f"{name}, {way}": of[way] for way in ours for name, of in (("ecgfed", ours), ("NeuroKit2 DWT", neurokit))}
    return _ways(rows, published=True)


def _by_record(records: Mapping[str, Any]) -> str:
    rows = [
        (name, *(f"{of[p][0]:.1f} ± {of[p][1]:.1f}" if p in of else "-" for p in NAMES)) for name, of in records.items()
    ]
    return _table(("record", *NAMES.values()), rows)


def _p_waves(shares: Mapping[str, Any]) -> str:
    rows = [
        (group, rhythm, f"{of['beats']:,}", f"{of['located_percent']:.1f}%")
        for group, rhythms in shares.items()
        for rhythm, of in rhythms.items()
    ]
    return _table(("records", "rhythm", "beats", "P wave located"), rows)
