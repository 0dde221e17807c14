"""What every drawn picture of the docs has to be: read without seeing it, in the dark, and on a telephone."""

import re
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
_SPACE = "{http://www.w3.org/2000/svg}"
#: Pixels; docs/site/site.css lets pictures scroll rather than shrink, so this is what a reader gets.
LEAST_TEXT = 12


def said_in(picture: Path) -> list[str]:
    """The lines of text of a picture."""
    root = ElementTree.fromstring(picture.read_text("utf-8"))
    return [line.text or "" for line in root.iter(f"{_SPACE}text")]


def assert_read_without_seeing_it(picture: Path) -> None:
    """Well-formed, with a title, no script and nothing from elsewhere, on a card; large text inside the picture."""
    root = ElementTree.fromstring(picture.read_text("utf-8"))
    assert root.findtext(f"{_SPACE}title")
    first = root.find(f"{_SPACE}rect")
    assert first is not None
    assert first.get("fill") == "#ffffff"
    assert not re.search(r"<script|href|@import|url\(http", picture.read_text("utf-8"))
    width, height = (float(one) for one in str(root.get("viewBox")).split()[2:])
    for line in root.iter(f"{_SPACE}text"):
        size, x, y = (float(line.get(name, 0)) for name in ("font-size", "x", "y"))
        assert size >= LEAST_TEXT, line.text
        wide = 0.52 * size * len(line.text or "")  # Helvetica is about half as wide as high
        start = {"start": x, "middle": x - wide / 2, "end": x - wide}[str(line.get("text-anchor"))]
        assert start >= 0, line.text
        assert start + wide <= width, line.text
        assert size <= y <= height - 4, line.text
