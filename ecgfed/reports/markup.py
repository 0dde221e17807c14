"""Texts of pages: times as links, formatted numbers."""

from markupsafe import Markup, escape

from ecgfed.base.text import safe_text

#: Text of a value that was not assessed.
NOT_ASSESSED = "not assessed"

Cell = str | int | None


def page_text(value: object) -> object:
    """Return a value as a page displays it: integers with commas, None as not assessed, text as ``safe_text``."""
    if value is None:
        return NOT_ASSESSED
    if isinstance(value, str):
        return value if isinstance(value, Markup) else safe_text(value)
    return f"{value:,}" if isinstance(value, int) else value


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
    return Markup('<a href="#timeline" data-at="{:.3f}">{}</a>').format(seconds, clock(seconds, digits))


def joined(*parts: Cell) -> Markup:
    """Return several pieces as one."""
    return Markup("").join(escape(page_text(part)) for part in parts)


def per_cent(value: float | None) -> str | None:
    """Write a share in percent: ``12.3%``, ``0.04%``, and smaller shares ``<0.01%``."""
    if value is None:
        return None
    if 0 < value < 0.01:
        return "<0.01%"
    return f"{value:.2f}%" if 0 < value < 1 else f"{value:.1f}%"
