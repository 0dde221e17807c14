"""A few shapes of SVG on a white card, so that text is readable on a light and a dark page alike.

The pictures of a folder beside this file are drawn by its ``draw.py``, from what its ``look.py`` or ``round.py`` found.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

INK, GREY, LINE = "#1d2730", "#44525e", "#5b6b7a"
#: What belongs to everybody, what to one patient, what warns.
COMMON, OWN, THIRD = "#1b6ca8", "#c05a00", "#2e8b57"
FILL = {COMMON: "#e8f1fa", OWN: "#fdf1e3", THIRD: "#e7f4ec"}
WIDTH = 860
FONT = 'font-family="Helvetica, Arial, sans-serif"'
Shapes = Iterable[str]


def card(title: str, height: int, shapes: Shapes) -> str:
    """Return a picture: its title, read aloud by screen readers, and shapes on a white card."""
    arrows = "".join(
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
        for name, colour in (("common", COMMON), ("own", OWN), ("third", THIRD), ("line", LINE))
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {FONT}>'
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title>",
            f"<defs>{arrows}</defs>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def text(
    x: float, y: float, said: str, *, size: float = 13, colour: str = INK, at: str = "start", bold: bool = False
) -> str:
    """Return a line of text; ``at`` is start, middle or end."""
    weight = ' font-weight="bold"' if bold else ""
    look = f'font-size="{size:g}" fill="{colour}" text-anchor="{at}"{weight}'
    return f'<text x="{x:g}" y="{y:g}" {look}>{escape(said)}</text>'


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return a filled bar."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:g}" fill="{colour}"/>'


def box(x: float, y: float, width: float, height: float, colour: str, *lines: str) -> list[str]:
    """Return a rounded box with lines of text, the first one bold."""
    fill = FILL.get(colour, "#f4f6f8")
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{fill}" stroke="{colour}"/>'
    top = y + height / 2 - 8.5 * (len(lines) - 1) + 4.5
    said = [
        text(x + width / 2, top + 17 * row, one, size=14 if row == 0 else 12, at="middle", bold=row == 0)
        for row, one in enumerate(lines)
    ]
    return [shape, *said]


def arrow(x1: float, y1: float, x2: float, y2: float, colour: str = LINE, *, dashed: bool = False) -> str:
    """Return an arrow from one point to another."""
    name = {COMMON: "common", OWN: "own", THIRD: "third"}.get(colour, "line")
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return (
        f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" fill="none" stroke="{colour}" stroke-width="1.8"{dash} '
        f'marker-end="url(#{name})"/>'
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str = LINE, *, width: float = 1, dash: str = "") -> str:
    """Return a straight line; ``dash`` as SVG has it, "6 4"."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def trace(points: Sequence[tuple[float, float]], colour: str = INK, *, width: float = 1.4, dash: str = "") -> str:
    """Return a line through points (x, y)."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    (x, y), *_ = tenths
    steps = (f"{(b[0] - a[0]) / 10:g} {(b[1] - a[1]) / 10:g}" for a, b in pairwise(tenths))
    way = f"M{x / 10:g} {y / 10:g}l{' '.join(steps)}"  # from point to point: half as long as places
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    look = f'stroke="{colour}" stroke-width="{width:g}" stroke-linejoin="round"{dashed}'
    return f'<path d="{way}" fill="none" {look}/>'


def area(x: float, y: float, width: float, height: float, fill: str, edge: str = "none", *, thick: float = 1) -> str:
    """Return a rectangle with an edge."""
    at = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {at} fill="{fill}" stroke="{edge}" stroke-width="{thick:g}"/>'
