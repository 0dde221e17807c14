"""Charts of patients: bars of a gain with both scores, and a map of clients by their classes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ecgfed.reports.charts import brief, element, steps, svg
from ecgfed.reports.class_map import ClassMap

#: Up to this many bars have their names below.
NAMED = 80
#: Columns narrower than this have thin outlines.
_THIN = 8.0
_WIDE, _LEFT, _TOP, _GAIN, _BETWEEN, _SCORES = 1040, 46, 26, 150, 34, 170


@dataclass(frozen=True)
class Bar:
    """One patient of a chart of bars.

    Attributes:
        name: the patient.
        before: the first score, from 0 to 1.
        after: the second score.
        marked: draw a grey column with a triangle on top.
    """

    name: str
    before: float
    after: float
    marked: bool = False

    @property
    def change(self) -> float:
        """``after`` minus ``before``."""
        return self.after - self.before


@dataclass(frozen=True)
class _LabelBoxes:
    """Geometry of a bar chart: x and width of a column, y of a change and of a score."""

    each: float
    low: float
    high: float

    def x(self, number: int, part: float = 0.0) -> float:
        return _LEFT + (number + part) * self.each

    def change(self, value: float) -> float:
        return _TOP + (self.high - value) / (self.high - self.low) * _GAIN

    def score(self, value: float) -> float:
        return _TOP + _GAIN + _BETWEEN + (1 - min(1.0, max(0.0, value))) * _SCORES


def bar_chart(bars: Sequence[Bar], label: str, change: str, before: str, after: str) -> Markup:
    """Return a chart with a bar from 0 for each patient, and both scores below.

    Args:
        bars: one or more, in order.
        label: description for screen readers; a table has the values.
        change: name of the bars' axis.
        before: name of the first score, an open ring.
        after: name of the second one, a full point.
    """
    changes = [bar.change for bar in bars]
    at = _LabelBoxes((_WIDE - _LEFT) / len(bars), 1.08 * min(-0.03, *changes), 1.08 * max(0.03, *changes))
    named = len(bars) <= NAMED
    foot = 14 + 7 * max(len(brief(bar.name)) for bar in bars) if named else 10
    height = _TOP + _GAIN + _BETWEEN + _SCORES + foot
    bottom = at.score(0.0)
    parts = []
    for i, bar in enumerate(bars):
        if bar.marked:
            high = bottom - _TOP
            parts.append(element("rect", x=at.x(i), y=_TOP, width=at.each, height=high, class_="chart-marked"))
            middle, half = at.x(i, 0.5), min(5.0, max(2.0, 0.4 * at.each))
            path = f"M{middle - half:.1f} {_TOP - 9}h{2 * half:.1f}l{-half:.1f} 8z"
            parts.append(element("path", d=path, class_="chart-point"))
    parts += _axis(steps(at.low, at.high, 5), at.change, "+g") + _axis(steps(0.0, 1.0, 5), at.score, "g")
    parts.append(element("text", change, x=0, y=12, class_="chart-name"))
    above = _TOP + _GAIN + 20
    for start, look, name in ((6, "chart-ring", before), (326, "chart-point", after)):
        parts.append(element("circle", cx=start, cy=above - 4, r=4, class_=look))
        parts.append(element("text", name, x=start + 10, y=above, class_="chart-name"))
    for i, bar in enumerate(bars):
        parts += _column(bar, i, at)
        if named:
            x, y = at.x(i, 0.5) + 4, bottom + 8
            turned = f"rotate(-90 {x:.1f} {y:.1f})"
            parts.append(element("text", brief(bar.name), x=x, y=y, transform=turned, class_="chart-side"))
    return svg(_WIDE, int(height), label, parts, "chart chart-wide")


def _axis(values: Sequence[float], to_y: Callable[[float], float], form: str) -> list[str]:
    parts = []
    for value in values:
        y = to_y(value)
        look = "chart-zero" if value == 0 else "chart-grid"
        parts.append(element("path", d=f"M{_LEFT} {y:.1f}H{_WIDE}", class_=look))
        parts.append(element("text", format(value, form if value else "g"), x=_LEFT - 5, y=y + 4, class_="chart-value"))
    return parts


def _column(bar: Bar, number: int, at: _LabelBoxes) -> list[str]:
    top, bottom = sorted((at.change(bar.change), at.change(0.0)))
    thin = " chart-thin" if at.each < _THIN else ""
    look = "chart-more" if bar.change >= 0 else f"chart-less{thin}"
    middle, size = at.x(number, 0.5), min(4.0, max(1.4, 0.3 * at.each))
    before, after = at.score(bar.before), at.score(bar.after)
    return [
        element("rect", x=at.x(number, 0.15), y=top, width=0.7 * at.each, height=max(0.6, bottom - top), class_=look),
        element("path", d=f"M{middle:.1f} {before:.1f}V{after:.1f}", class_="chart-stem"),
        element("circle", cx=middle, cy=before, r=size, class_=f"chart-ring{thin}"),
        element("circle", cx=middle, cy=after, r=0.8 * size, class_="chart-point"),
    ]


#: Up to this many clients have circles of full size.
_FEW = 80
_MAP_WIDE, _MAP_HIGH, _EDGE = 760, 520, 46


def map_chart(
    layout: ClassMap, names: Sequence[str], beats: Sequence[int], marked: Sequence[bool], label: str
) -> Markup:
    """Return clients as circles sized by their beats, and the position of a client with one class only.

    Names that would overlap are omitted; the table has them all.
    """
    xs = [x for x, _ in [*layout.points, *layout.corners.values()]]
    ys = [y for _, y in [*layout.points, *layout.corners.values()]]
    room = ((_MAP_WIDE, xs), (_MAP_HIGH, ys))
    scale = min((size - 2 * _EDGE) / ((max(of) - min(of)) or 1.0) for size, of in room)

    def pixel(point: tuple[float, float]) -> tuple[float, float]:
        return _EDGE + (point[0] - min(xs)) * scale, _EDGE + (max(ys) - point[1]) * scale

    wide, height = (round(2 * _EDGE + (max(of) - min(of)) * scale) for of in (xs, ys))
    max_beats = max(max(beats), 1)
    spots = [pixel(point) for point in layout.points]
    crowd = max(0.4, min(1.0, (_FEW / len(beats)) ** 0.5))
    sizes = [crowd * (2 + 4.5 * (count / max_beats) ** 0.5) for count in beats]
    parts: list[str] = []
    taken: list[_Box] = []
    for (x, y), radius, ring in zip(spots, sizes, marked, strict=True):
        parts.append(element("circle", cx=x, cy=y, r=radius, class_="chart-client"))
        if ring:
            side = 2 * radius + 6
            parts.append(element("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, class_="chart-worst"))
        taken.append((x - radius, y - radius, x + radius, y + radius))
    for name, corner in layout.corners.items():
        x, y = pixel(corner)
        parts.append(element("path", d=f"M{x - 4:.1f} {y:.1f}h8m-4 -4v8", class_="chart-zero"))
        _name_at(parts, taken, wide, f"only {brief(name)}", (x, y), (6.0, 18.0, 32.0), "chart-corner")
    for i in sorted(range(len(names)), key=lambda i: (not marked[i], -beats[i])):
        away = sizes[i] + (3 if marked[i] else 0)
        _name_at(parts, taken, wide, brief(names[i]), spots[i], (away,), "chart-label")
    return svg(wide, height, label, parts, "chart chart-map")


_Box = tuple[float, float, float, float]


def _name_at(
    parts: list[str],
    taken: list[_Box],
    edge: float,
    text: str,
    spot: tuple[float, float],
    aways: Sequence[float],
    look: str,
) -> None:
    """Write a name to the right, left, above or below a point where it covers nothing; else omit it."""
    (x, y), wide = spot, 6.4 * len(text)
    for away in aways:
        middle = x - wide / 2
        right, before, above, below = (x + away + 2, y + 4), (x - away - 2 - wide, y + 4), y - away - 3, y + away + 12
        for start, base in (right, before, (middle, above), (middle, below)):
            box = x0, y0, x1, y1 = start, base - 9, start + wide, base + 2
            free = all(x0 >= other[2] or other[0] >= x1 or y0 >= other[3] or other[1] >= y1 for other in taken)
            if start >= 0 and x1 <= edge and free:
                parts.append(element("text", text, x=start, y=base, class_=look))
                taken.append(box)
                return
