"""The labelling page: one beat at a time, from a tree of groups; one HTML file that needs no other and no network."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.text import count_of
from ecgfed.domain.labels.choose import Rule
from ecgfed.domain.labels.groups import Groups
from ecgfed.domain.labels.label_errors import PARTS, leaf_spreads, packaged_model
from ecgfed.domain.labels.likeness import KINDS
from ecgfed.domain.labels.user_labels import CANNOT_TELL, NO_BEAT
from ecgfed.web.page import escaped, inline_page

STYLES = ("paper.css", "report.css", "label.css")
SCRIPTS = ("paper.js", "choose.js", "answers.js", "keep.js", "pictures.js", "label.js")
#: Labels that can be given: WFDB's symbol, the key where it is another one, words.
LABELS = (
    ("N", "", "normal"),
    ("L", "", "left bundle branch block"),
    ("R", "", "right bundle branch block"),
    ("A", "", "atrial premature"),
    ("V", "", "ventricular premature"),
    ("F", "", "fusion of ventricular and normal"),
    ("/", "", "paced"),
    (NO_BEAT, "x", "no beat (artifact)"),
    (CANNOT_TELL, "", "cannot tell"),
)


@dataclass(frozen=True, eq=False)
class LabelPage:
    """What a labelling page shows.

    Attributes:
        record: the recording's name, as text.
        recording: its identity, hexadecimal.
        model: whose answers the groups rest on.
        fs_hz: the recording's sampling frequency.
        duration_s: how long it is.
        count: labels asked for.
        leads: names of the leads that are shown, the one in use first.
        groups: its beats.
        sample: (beats,) int64 R peaks.
        rule: that chooses.
        strips: beat that stands for a group -> its surroundings (``tasks/label_strips.py``).
        pictures: group -> what is shown of it (``domain/labels/pictures.py``).
        interval_s: (beats,) seconds from the beat before, NaN where nobody knows it.
        minutes: only beats of the first minutes are in groups; None where all are.
        notices: warnings to be read first.
        intended_use: in one sentence.
    """

    record: str
    recording: str
    model: str
    fs_hz: float
    duration_s: float
    count: int
    leads: tuple[str, ...]
    groups: Groups
    sample: NDArray[np.int64]
    rule: Rule
    strips: Mapping[int, Mapping[str, Any]]
    pictures: Mapping[int, Mapping[str, Any]]
    interval_s: NDArray[np.float64]
    minutes: float | None = None
    notices: tuple[str, ...] = ()
    intended_use: str = "Research use only, not for diagnosis"


def page_data(page: LabelPage) -> dict[str, Any]:
    """Return what the page's scripts read, JSON-ready."""
    groups, at = page.groups, page.groups.points.at
    known = page.interval_s[np.isfinite(page.interval_s)]
    spreads = leaf_spreads(groups)
    tree = [
        {"parent": parent if parent >= 0 else None, "size": size, "beat": beat, "prior": prior}
        | ({"spread": spreads[group].tolist()} if group in spreads else {})
        for group, (parent, size, beat, prior) in enumerate(
            zip(groups.parent.tolist(), groups.size.tolist(), groups.beat.tolist(), groups.prior.tolist(), strict=True)
        )
    ]
    points = {
        str(beat): {
            "sample": int(page.sample[beat]),
            "time_s": float(f"{int(page.sample[beat]) / page.fs_hz:.3f}"),  # as the table of labels says it
            "leaf": int(groups.leaf[beat]),
            "at": at[beat].tolist(),
        }
        for beat in np.unique(groups.beat).tolist()
    }
    return {
        "version": 1,
        "record": page.record,
        "recording": page.recording,
        "digest": _digest(groups),
        "file_name": labels_name(page.record),
        "fs": page.fs_hz,
        "beats": len(groups.leaf),
        "count": page.count,
        "leads": list(page.leads),
        "interval_ms": round(1000 * float(np.median(known))) if len(known) else None,
        "labels": [{"symbol": symbol, "key": key, "words": words} for symbol, key, words in LABELS],
        "groups": tree,
        "points": points,
        "parts": {name: [groups.points.parts[name].start, groups.points.parts[name].stop] for name in PARTS},
        "rule": {**page.rule.as_json(), "kinds": list(KINDS)},
        "errors": packaged_model().as_json(),
        "strips": {str(beat): strip for beat, strip in page.strips.items()},
        "pictures": {str(group): picture for group, picture in page.pictures.items()},
    }


def labels_name(record: str) -> str:
    """Return the name of the labels' file of a record."""
    return f"{record}-labels.csv"


def _digest(groups: Groups) -> str:
    """Return what tells this tree from another one of the same recording: answers name its groups."""
    parts = (groups.parent, groups.beat, groups.leaf)
    return hashlib.sha256(b"".join(np.asarray(part, "<i8").tobytes() for part in parts)).hexdigest()[:32]


def label_page(page: LabelPage, *, file: str = "") -> str:
    """Return the whole page as HTML.

    Args:
        page: what it shows.
        file: where a server writes the labels (``tasks/label_server.py``), as the page shall name it; none for a page
            that is opened as a file and gives its labels as a download.
    """
    data = page_data(page) | {"served": bool(file), "file": file}
    body = "\n".join(
        [
            '<a class="skip" href="#question-title">To the question</a>',
            _header(page),
            '<noscript><p class="use">This page needs JavaScript. It loads nothing from a network.</p></noscript>',
            '<main id="page" hidden>',
            _notices(page.notices),
            _PROGRESS,
            _question(),
            _finished(served=bool(file)),
            _ANSWERED,
            _help(),
            "</main>",
            '<p id="live" class="unseen" role="status" aria-live="polite"></p>',
        ]
    )
    title = f"Label beats: {page.record}"
    return inline_page(title, body, styles=STYLES, scripts=SCRIPTS, data=data, sheet=title, served=bool(file))


def _header(page: LabelPage) -> str:
    minutes, seconds = divmod(round(page.duration_s), 60)
    first = "" if page.minutes is None else f"the first {page.minutes:g} of "
    summary = (
        f"{count_of(len(page.groups.leaf), 'beat')} in {first}{minutes}:{seconds:02d} min, {' and '.join(page.leads)}; "
        f"grouped with {page.model}; band-pass 0.5 to 40 Hz"
    )
    return (
        f'<header><h1>Label beats: {escaped(page.record)}</h1><p class="use">{escaped(page.intended_use)}</p>'
        f"<p>{escaped(summary)}</p></header>"
    )


def _notices(notices: Sequence[str]) -> str:
    if not notices:
        return ""
    items = "".join(f'<li><span class="sign" aria-hidden="true">!</span>{escaped(notice)}</li>' for notice in notices)
    return f'<section class="warned" aria-label="Warnings"><ul>{items}</ul></section>'


_PROGRESS = """<p id="other" role="alert"></p>
<div class="progress"><p id="progress-said"></p>
<details><summary>What does “covers” mean?</summary>
<p>A beat takes the label of the answered beat in the smallest group that holds both; of several labels there, that of
the beat nearest to its own small group. It counts as covered where that small group holds an answered beat itself, or
where the chance of another label is at most 5% by an estimate that was learned on 22 recordings of MIT-BIH.
It is an estimate, and beats of a kind you have not met yet may be among the covered ones. Beats that would take
“cannot tell” are not covered.</p></details>
<div class="bars" aria-hidden="true"><div><i id="bar-answered"></i></div><div><i id="bar-covered"></i></div></div></div>
<p id="kept"></p>"""


def _button(name: str, text: str, key: str = "") -> str:
    key_hint = f' <kbd aria-hidden="true">{escaped(key)}</kbd>' if key else ""
    return f'<button type="button" id="{name}">{escaped(text)}{key_hint}</button>'


def _figure(name: str) -> str:
    return (
        f'<figure id="{name}-figure"><div id="{name}" class="paper"></div>'
        f'<figcaption id="{name}-said"></figcaption></figure>'
    )


def _question() -> str:
    steps = [
        _button("undo", "Undo", "u"),
        _button("redo", "Redo", "y"),
        _button("back", "Back", "←"),
        _button("forward", "Forward", "→"),
        _button("later", "Later", "s"),
        _button("split", "This group is mixed: split it", "m"),
    ]
    return f"""<section id="question" aria-labelledby="question-title">
<div class="asked"><h2 id="question-title" tabindex="-1"></h2><p id="question-said"></p>
<p id="question-rhythm"></p></div>
<figure class="strip-figure"><div id="strip" class="paper" role="group" aria-label="The beat and its neighbours"></div>
<figcaption><span id="strip-caption"></span> <span id="strip-scale"></span></figcaption></figure>
<div id="answers" role="group" aria-label="Answers"></div>
<p class="steps">{"".join(steps)} <span id="did"></span></p>
<div class="group">{_figure("average")}{_figure("odd")}</div>
</section>"""


def _finished(*, served: bool) -> str:
    end = _button("done", "Done: end the program") if served else ""
    return f"""<section id="finished" aria-labelledby="finished-title" hidden>
<h2 id="finished-title" tabindex="-1">Done</h2><p id="finished-said"></p>
<p class="steps">{_button("more", "Ask on: 5 more")}</p></section>
<div class="save">{end}{_button("download", "Save labels (CSV)")}<p>Research use only: the labels are this reader's
and are spread to beats that nobody has looked at.</p></div>"""


_ANSWERED = """<section id="answered" aria-labelledby="answered-title" hidden><h2 id="answered-title">Answered</h2>
<p>In the order of the answers. “Same as” merges two groups: the first takes the label of the second and follows it.</p>
<ol id="answered-list"></ol></section>"""


def _help() -> str:
    keys = [
        (" ".join(key or symbol for symbol, key, _ in LABELS), "the answer of that name, in small or capital letters"),
        ("s", "later: the beat comes again in the end"),
        ("m", "mixed: the two parts of this group are asked for next"),
        ("u or Ctrl+Z", "undo"),
        ("y or Ctrl+Y", "redo"),
        ("← →", "back and forth through the answers, which can be changed"),
    ]
    rows = "".join(f"<dt><kbd>{escaped(key)}</kbd></dt><dd>{escaped(text)}</dd>" for key, text in keys)
    return (
        '<details class="help"><summary>Keys</summary>'
        f'<dl>{rows}</dl><p><label><input type="checkbox" id="keys" checked> Single keys answer</label></p></details>'
    )
