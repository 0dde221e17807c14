"""SVG charts inside a page, without script or matplotlib; series differ by dash, fill and shape, not only colour.

Every text goes through ``escaped``. Looks are classes of ``ecgfed/web/run.css``, since a page's policy refuses styles
that stand in an element.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ecgfed.web.page import escaped

#: Lines of more points are thinned.
_MOST_POINTS = 400
#: Length of names on a chart at most.
_LETTERS = 12


@dataclass(frozen=True)
class Curve:
    """A line: its name and its points (x, y), in order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    """Lines over one axis.

    Attributes:
        title: what it shows.
        across: name of the x axis.
        curves: the lines.
        log: whether y is logarithmic.
        span: lowest and highest y; None for the range of the lines.
    """

    title: str
    across: str
    curves: tuple[Curve, ...]
    log: bool = False
    span: tuple[float, float] | None = None


def element(name: str, text: str | None = None, **attributes: object) -> str:
    """Return an SVG element; ``_`` in a name is ``-``, and ``class_`` is ``class``."""
    attrs = "".join(f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items())
    return f"<{name}{attrs}/>" if text is None else f"<{name}{attrs}>{escaped(text)}</{name}>"


def _attribute(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else escaped(value)


def svg(width: int, height: int, description: str, parts: Sequence[str], kind: str = "chart") -> Markup:
    """Return a drawing that screen readers read as one picture described by ``description``."""
    return Markup(
        f'<svg class="{escaped(kind)}" viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(description)}">'
        f"{''.join(parts)}</svg>"
    )


def brief(name: str, max_letters: int = _LETTERS) -> str:
    """Return a name shortened for a chart, keeping more of its end, where ids differ."""
    begin = (max_letters - 1) // 3
    return name if len(name) <= max_letters else f"{name[:begin]}…{name[begin + 1 - max_letters :]}"


def steps(low: float, high: float, max_steps: int = 6) -> list[float]:
    """Return round numbers from ``low`` to ``high``, at most about ``max_steps``, with 0 if it lies between."""
    if not high - low > 1e-12 * max(abs(low), abs(high), 1e-100):
        return [low]
    raw = (high - low) / max_steps
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Return powers of ten from ``low`` to ``high``, with twos and fives in between if there are few."""
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    decades = [10.0**power for power in tens if low <= 10.0**power <= high]
    if len(decades) >= 4:
        return decades[:: max(1, math.ceil(len(decades) / 6))]
    return [factor * 10.0**power for power in tens for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return a curve thinned for a chart: means of equally many successive points."""
    each = math.ceil(len(points) / _MOST_POINTS)
    if each <= 1:
        return list(points)
    groups = [points[i : i + each] for i in range(0, len(points), each)]
    return [(sum(x for x, _ in of) / len(of), sum(y for _, y in of) / len(of)) for of in groups]


_WIDE, _HIGH, _LEFT, _RIGHT, _BOTTOM = 460, 250, 52, 12, 34
#: Height of a line of a legend.
_LEGEND = 17


def line_chart(panel: Panel) -> Markup:
    """Return lines over an axis with a legend above; ``""`` without points."""
    curves = [(line.name, thinned([(x, y) for x, y in line.points if not panel.log or y > 0])) for line in panel.curves]
    curves = [(name, points) for name, points in curves if points]
    if not curves:
        return Markup("")
    values = [y for _, points in curves for _, y in points]
    low, high = min(values), max(values)
    if panel.log:
        low, high = low / 1.15, high * 1.15
    else:
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        low, high = (0.0 if 0 <= low < 0.5 * high else low - room), high + room
    low, high = panel.span or (low, high)
    xs = [x for _, points in curves for x, _ in points]
    first, last = min(xs), max(xs)
    alone = len(curves) == 1 and curves[0][0] == panel.title  # the heading above says its name
    top = 8 + (0 if alone else _LEGEND * len(curves))
    height = _HIGH + top

    def to_x(x: float) -> float:
        return _LEFT + (x - first) / ((last - first) or 1.0) * (_WIDE - _LEFT - _RIGHT)

    def to_y(y: float) -> float:
        at = (math.log(y / low) / math.log(high / low)) if panel.log else (y - low) / (high - low)
        return top + (1 - min(1.0, max(0.0, at))) * (_HIGH - _BOTTOM)

    parts: list[str] = []
    for value in _decades(low, high) if panel.log else steps(low, high):
        parts.append(element("path", d=f"M{_LEFT} {to_y(value):.1f}H{_WIDE - _RIGHT}", class_="chart-grid"))
        parts.append(element("text", f"{value:g}", x=_LEFT - 6, y=to_y(value) + 4, class_="chart-value"))
    parts += [
        element("text", f"{value:,g}", x=to_x(value), y=height - 17, class_="chart-tick")
        for value in steps(first, last, 5)
    ]
    parts.append(element("text", panel.across, x=(_LEFT + _WIDE - _RIGHT) / 2, y=height - 3, class_="chart-tick"))
    for number, (name, points) in enumerate(curves):
        look = f"chart-line chart-line-{number % 6}"
        at = 12 + _LEGEND * number
        if not alone:
            parts.append(element("path", d=f"M{_LEFT} {at - 4}h34", class_=look))
            parts.append(element("text", brief(name, 56), x=_LEFT + 41, y=at, class_="chart-name"))
        path = "".join(f"{'L' if i else 'M'}{to_x(x):.1f} {to_y(y):.1f}" for i, (x, y) in enumerate(points))
        parts.append(element("path", d=path if len(points) > 1 else f"{path}h0.1", class_=look))
    names = " and ".join(name for name, _ in curves)
    return svg(_WIDE, height, f"{panel.title}: {names}, over {panel.across}", parts)
