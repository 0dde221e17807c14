"""Building blocks of HTML: accessible tables, times as links, formatted numbers."""

from collections.abc import Iterable, Sequence

from ecgfed.web.page import escaped

#: Text of a value that was not assessed.
NOT_ASSESSED = "not assessed"


class Markup(str):
    """Safe HTML; any other text is escaped on use."""

    __slots__ = ()


Cell = str | int | None


def markup(cell: Cell) -> str:
    """Return a cell as HTML: numbers with commas, None as not assessed, text escaped."""
    if cell is None:
        return NOT_ASSESSED
    if isinstance(cell, Markup):
        return str(cell)
    return escaped(f"{cell:,}" if isinstance(cell, int) else cell)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Cell]], *, kind: str = "") -> str:
    """Return a table whose first column heads its rows; the page's script makes wide tables scrollable by keyboard.

    Args:
        caption: what it shows.
        head: the columns' headings.
        rows: as many cells each.
        kind: a class for the style sheet; ``numbers`` aligns all but the first column to the right.
    """
    columns = "".join(f'<th scope="col">{markup(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{markup(first)}</th>{"".join(f"<td>{markup(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="wide" role="group" aria-label="{escaped(caption)}"><table class="{escaped(kind)}">'
        f"<caption>{escaped(caption)}</caption><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def key_values(pairs: Iterable[tuple[str, Cell]]) -> str:
    """Return names and values as a list."""
    return (
        '<dl class="facts">'
        + "".join(f"<div><dt>{escaped(name)}</dt><dd>{markup(value)}</dd></div>" for name, value in pairs)
        + "</dl>"
    )


def section(name: str, title: str, *parts: str, kind: str = "") -> str:
    """Return a section with its heading; ``name`` is its id."""
    look = f' class="{escaped(kind)}"' if kind else ""
    inside = "\n".join(part for part in parts if part)
    heading = f'<h2 id="{name}-title">{escaped(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title"{look}>\n{heading}\n{inside}\n</section>'


def paragraph(text: str, *, kind: str = "") -> str:
    """Return a paragraph of text."""
    look = f' class="{escaped(kind)}"' if kind else ""
    return f"<p{look}>{markup(text)}</p>"


def clock(seconds: float, digits: int = 1) -> str:
    """Write a time in a recording: ``5:07.3``, from an hour on ``1:05:07.3``."""
    unit = 10**digits
    units = round(seconds * unit)
    minutes, rest = divmod(units, 60 * unit)
    hours, minutes = divmod(minutes, 60)
    last = f"{rest // unit:02d}" + (f".{rest % unit:0{digits}d}" if digits else "")
    return f"{hours}:{minutes:02d}:{last}" if hours else f"{minutes}:{last}"


def moment(seconds: float, *, digits: int = 1) -> Markup:
    """Return a time as a link that shows it on the timeline."""
    text = clock(seconds, digits)
    return Markup(f'<a href="#timeline" data-at="{seconds:.3f}">{text}</a>')


def joined(*parts: Cell) -> Markup:
    """Return several pieces as one."""
    return Markup("".join(map(markup, parts)))


def per_cent(value: float | None) -> str | None:
    """Write a share in percent: ``12.3%``, ``0.04%``, and smaller shares ``<0.01%``."""
    if value is None:
        return None
    if 0 < value < 0.01:
        return "<0.01%"
    return f"{value:.2f}%" if 0 < value < 1 else f"{value:.1f}%"
