"""Names of points in a figure, none over another."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

#: Half the side of the square that a point keeps free, in pixels.
FREE = 6


def name_points(axes: "Axes", points: Sequence[tuple[str, float, float]]) -> None:
    """Write each point's name beside it, or farther off with a line to it, where it covers no point and no name.

    Where every place is covered, the one with the least of it is taken. The figure has to be laid out before.

    Args:
        axes: where the points are.
        points: name, x and y of each, in the units of the axes.
    """
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    renderer = axes.get_figure(root=True).canvas.get_renderer()
    where = axes.transData.transform([(x, y) for _, x, y in points])
    taken = [Bbox.from_extents(x - FREE, y - FREE, x + FREE, y + FREE) for x, y in where]
    for name, x, y in sorted(points, key=lambda point: -point[2]):
        found: list[tuple[float, Annotation, Bbox]] = []
        for right, up, side in _places():
            line = {"arrowstyle": "-", "linewidth": 0.5, "color": "0.5"} if abs(up) > 10 else None
            text = axes.annotate(
                name, (x, y), (right, up), textcoords="offset points", ha=side, va="center", fontsize=8, arrowprops=line
            )
            text.set_in_layout(False)
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer)  # without the line
            found.append((_covered(box, taken, axes.bbox), text, box))
            if found[-1][0] < 1:  # a square pixel
                break
        _, kept, box = min(found, key=lambda one: one[0])
        taken.append(box)
        for _, text, _ in found:
            if text is not kept:
                text.remove()


def _places() -> Iterator[tuple[float, float, str]]:
    """Where a name may stand: right and up of its point, in points, and how it is set."""
    yield from ((7, 0, "left"), (-7, 0, "right"), (0, 10, "center"), (0, -10, "center"))
    for up in (14, -14, 24, -24, 36, -36):
        yield from ((8, up, "left"), (-8, up, "right"), (24, up, "left"), (-24, up, "right"))


def _covered(box: "Bbox", taken: Sequence["Bbox"], inside: "Bbox") -> float:
    """Area of a name that lies on what is there, or outside of the panel."""
    from matplotlib.transforms import Bbox

    def shared(one: Bbox) -> float:
        part = Bbox.intersection(box, one)
        return 0.0 if part is None else part.width * part.height

    return sum(shared(one) for one in taken) + box.width * box.height - shared(inside)
