"""Texts of pages: times as links, formatted numbers."""

from dataclasses import dataclass
from datetime import date

from markupsafe import Markup, escape

from ecgfed.base.language import (
    Message,
    conventions,
    date_text,
    looked_up,
    number,
    parts_of,
    shown,
    tr,
    tr_later,
    translated,
)
from ecgfed.base.text import safe_text

#: Text of a value that was not assessed.
NOT_ASSESSED = tr_later("not assessed")

Cell = str | int | None


def page_text(value: object) -> object:
    """Return a value as a page displays it: integers with separators, None as not assessed, text as ``safe_text``."""
    if value is None:
        return translated(NOT_ASSESSED)
    if isinstance(value, str):
        text = translated(value) if isinstance(value, Message) else value
        return text if isinstance(text, Markup) else safe_text(text)
    return number(value) if isinstance(value, int) else value


def not_assessed_text(reason: str) -> str:
    """Return in the current language that something was not assessed, and why."""
    return tr("{where}: {reason}", where=translated(NOT_ASSESSED), reason=translated(reason))


def clock(seconds: float, digits: int = 1) -> str:
    """Write a time in a recording: ``5:07.3``, from an hour on ``1:05:07.3``."""
    unit = 10**digits
    units = round(seconds * unit)
    minutes, rest = divmod(units, 60 * unit)
    hours, minutes = divmod(minutes, 60)
    last = f"{rest // unit:02d}" + (f"{conventions().decimal}{rest % unit:0{digits}d}" if digits else "")
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
        last = f"{rest // unit:02d}" + (f"{conventions().decimal}{rest % unit:0{digits}d}" if digits else "")
        time = f"{minutes // 60:02d}:{minutes % 60:02d}:{last}"
        return tr("day {day} {time}", day=day + 1, time=time) if day else time

    def moment(self, seconds: float, *, digits: int = 1) -> Markup:
        """Return a time as a link that shows it on the timeline, where there is one."""
        if not self.linked:
            return escape(self.text(seconds, digits))
        return Markup('<a href="#timeline" data-at="{:.3f}">{}</a>').format(seconds, self.text(seconds, digits))


#: Times count from the start.
ELAPSED = PageTimes()


@dataclass(frozen=True)
class PageTime:
    """A time in a recording as a value of a ``message``: written in the language in which the message is read."""

    times: PageTimes
    seconds: float

    def __str__(self) -> str:
        return self.times.text(self.seconds)


def joined(*parts: Cell) -> Markup:
    """Return several pieces as one."""
    return Markup("").join(escape(page_text(part)) for part in parts)


def tr_markup(text: str, /, **values: object) -> Markup:
    """Return a sentence in the current language; text is escaped, values that are ``Markup`` are not."""
    return Markup("").join(
        escape(literal) + escape(page_text(shown(value, spec) if spec else value))
        for literal, value, spec in parts_of(looked_up(text), values)
    )


def tr_html(text: str, /, **values: object) -> Markup:
    """Return a sentence with HTML in it, of this package alone, in the current language; its values are escaped."""
    return Markup("").join(
        Markup(literal) + escape(page_text(shown(value, spec) if spec else value))
        for literal, value, spec in parts_of(looked_up(text), values)
    )


def minute_text(moment: str) -> str:
    """Return a moment in ISO format with the offset from UTC, to the minute, as the current language writes it."""
    day, _, time = moment.partition(" ")
    return f"{day_text(day)} {time}" if time else moment


def day_text(day: str) -> str:
    """Return a date in ISO format as the current language writes it; any other text unchanged."""
    try:
        return date_text(date.fromisoformat(day))
    except ValueError:
        return translated(day)


def per_cent(value: float | None) -> str | None:
    """Write a share in percent: ``12.3%``, ``0.04%``, and smaller shares ``<0.01%``."""
    if value is None:
        return None
    percent = conventions().percent
    if 0 < value < 0.01:
        return f"<{number(0.01)}{percent}"
    return f"{number(value, '.2f' if 0 < value < 1 else '.1f')}{percent}"
