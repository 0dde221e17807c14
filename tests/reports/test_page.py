"""One self-contained page: nothing of a recording becomes markup, a script or a request."""

import base64
import hashlib
import json
import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import pytest
from markupsafe import Markup

import ecgfed
from ecgfed.reports.comparison_page import ComparisonParts, Pairs, comparison_page
from ecgfed.reports.markup import ELAPSED, clock, joined, page_text, per_cent
from ecgfed.reports.recording_page import recording_page
from ecgfed.reports.rendering import render
from ecgfed.web.page import DATA_ID, asset, inline_page, script_json

#: What would end a script, begin one, open a comment, break a line of JavaScript or a quoted attribute.
HOSTILE = [
    "</script><script>window.hacked = true</script>",
    "<!--<script>",
    "a\u2028b\u2029c",
    "\"><img src=x onerror='window.hacked=true'>",
    "&lt;b&gt;",
    "'};window.hacked=true;//",
    "\x00\x1b[2J\ud800",
    "]]>",
]


class Reader(HTMLParser):
    """Notes the elements of a page, and the text inside of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.inside, []).append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str) -> None:
    pairs = (Pairs(text, text, text, ((text, 0.5, 0.25),)),)
    rows = [(text, text, 1)]
    parts = ComparisonParts(((text, text),), text, ((text, text),), text, rows, (text,), (text, text), rows, pairs, ())
    for page in (
        comparison_page(parts),
        inline_page(
            text, "<p></p>", styles=["paper.css"], scripts=["paper.js"], data={"text": text, text: 1}, sheet=text
        ),
    ):
        names = [tag for tag, _ in read(page).tags]
        assert names.count("script") == 2
        assert "img" not in names
        assert not re.search(r"[\u2028\u2029\x00\x1b]", page)
        page.encode()  # no half of a surrogate pair is left
    found = read(page)
    held = next("".join(found.texts["script"][:1]) for tag, about in found.tags if about.get("id") == DATA_ID)
    assert json.loads(held) == {"text": text, text: 1}


def spoiled(value: Any, text: str) -> Any:
    """Append ``text`` to every string of some parts."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return value + text
    if isinstance(value, tuple):
        return tuple(spoiled(item, text) for item in value)
    if isinstance(value, dict):
        return {key: spoiled(item, text) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: spoiled(getattr(value, field.name), text) for field in fields(value)})
    return value


def test_hostile_text_changes_no_element_of_a_recordings_page(records: Path) -> None:
    """Every text of the parts, from the name of the record to the meaning of a class."""
    parts = ecgfed.report(records / "p1").parts
    plain = read(recording_page(parts))
    for text in HOSTILE:
        own = {"lead": parts.lead, "leads": parts.leads, "language": parts.language}
        page = recording_page(replace(spoiled(replace(parts, lead="", leads=()), text), **own))
        assert [tag for tag, _ in read(page).tags] == [tag for tag, _ in plain.tags]
        assert not re.search(r"[\u2028\u2029\x00\x1b]", page)
        page.encode()


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("base.html.j2")


def test_json_in_a_script_is_plain() -> None:
    value = {"a": HOSTILE, "b": [1.5, None, True, "ü"]}
    text = script_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&\u2028\u2029") & set(text)
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_the_pages_own_policy_names_its_own_script_and_nothing_else() -> None:
    page = inline_page("t", "<p>b</p>", styles=["paper.css"], scripts=["paper.js", "report.js"], data={})
    (policy,) = (about["content"] for tag, about in read(page).tags if "http-equiv" in about)
    assert policy is not None
    script = "\n".join(asset(name) for name in ("paper.js", "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert f"<script>{script}</script>" in page


def test_scripts_and_styles_ask_for_nothing() -> None:
    for name in ("paper.js", "paper.css", "report.js", "report.css"):
        text = asset(name).replace("http://www.w3.org/2000/svg", "")
        for word in ("http:", "https:", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval(", "url(h"):
            assert word not in text, (name, word)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0:00.0"), (59.96, "1:00.0"), (307.34, "5:07.3"), (3599.99, "1:00:00.0"), (86399.94, "23:59:59.9")],
)
def test_times(seconds: float, written: str) -> None:
    assert clock(seconds) == written


def test_small_pieces() -> None:
    assert clock(75, 0) == "1:15"
    assert (per_cent(None), per_cent(0.0), per_cent(0.004), per_cent(0.04), per_cent(12.34)) == (
        None,
        "0.0%",
        "<0.01%",
        "0.04%",
        "12.3%",
    )
    assert page_text(None) == "not assessed"
    assert page_text(1234567) == "1,234,567"
    assert page_text(Markup("<b>")) == "<b>"
    assert joined("<", ELAPSED.moment(61.5)) == '&lt;<a href="#timeline" data-at="61.500">1:01.5</a>'
