"""The labelling page: one beat at a time, from a tree of groups; one HTML file that needs no other and no network."""

from collections.abc import Mapping, Sequence
from typing import Any

from ecgfed.base.language import tr
from ecgfed.reports.rendering import render
from ecgfed.web.page import inline_page

STYLES = ("paper.css", "report.css", "label.css")
SCRIPTS = ("language.js", "paper.js", "choose.js", "answers.js", "keep.js", "pictures.js", "label.js")


def label_page(data: Mapping[str, Any], *, summary: str, intended_use: str, notices: Sequence[str] = ()) -> str:
    """Return the whole page as HTML, in the current language.

    Args:
        data: what its scripts read (``domain/labels/page.py``); with ``served`` the page has a button that ends the
            server, or the page alone where ``ends`` is false, and may connect to it.
        summary: a line about the recording.
        intended_use: in one sentence.
        notices: warnings to be read first.
    """
    name = data["record"] + (f", {data['reader']}" if "reader" in data else "")
    body = render(
        "label.html.j2",
        name=name,
        reader=data.get("reader", ""),
        keys=[label["key"] or label["symbol"] for label in data["labels"]],
        served=data["served"],
        ends=data.get("ends", True),
        summary=summary,
        intended_use=intended_use,
        notices=notices,
    )
    title = tr("Label beats: {name}", name=name)
    return inline_page(title, body, styles=STYLES, scripts=SCRIPTS, data=data, sheet=title, served=data["served"])
