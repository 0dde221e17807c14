"""Texts of pages: times as links, formatted numbers."""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class PageTimes:
    """How the times of a page are written: as time of day where the start is known, else counted from the start.

    Attributes:
        start_s: the recording's start in seconds from midnight; None where it is not known.
        linked: whether the page has a timeline, to which times lead.
    """

    start_s: float | None = None
    linked: bool = True

    def text(self, seconds: float, digits: int = 1) -> str:
        """Write a time in a recording: ``09:20:07.3``, after the first midnight ``day 2 00:20:07.3``; or ``5:07.3``."""
        if self.start_s is None:
            return clock(seconds, digits)
        unit = 10**digits
        day, units = divmod(round((self.start_s + seconds) * unit), 86400 * unit)
        minutes, rest = divmod(units, 60 * unit)
        last = f"{rest // unit:02d}" + (f".{rest % unit:0{digits}d}" if digits else "")
        return f"{f'day {day + 1} ' if day else ''}{minutes // 60:02d}:{minutes % 60:02d}:{last}"

    def moment(self, seconds: float, *, digits: int = 1) -> Markup:
        """Return a time as a link that shows it on the timeline, where there is one."""
        if not self.linked:
            return escape(self.text(seconds, digits))
        return Markup('<a href="#timeline" data-at="{:.3f}">{}</a>').format(seconds, self.text(seconds, digits))


#: Times count from the start.
ELAPSED = PageTimes()


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
