"""Charts of a run's page: where things stand against numbers worked by hand, and text that stays text."""

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from ecgfed.reports.charts import Curve, Panel, brief, line_chart, steps, thinned
from ecgfed.reports.class_map import class_map
from ecgfed.reports.patient_charts import Bar, bar_chart, map_chart

WILD = "</svg><script>alert(1)</script>&\x1b"


def attributes(drawn: str, look: str) -> list[dict[str, str]]:
    return [one.attrib for one in ElementTree.fromstring(drawn).iter() if one.get("class") == look]


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path)]


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-0.25, 0.6, [-0.2, 0.0, 0.2, 0.4, 0.6]),
        (1.0, 514.0, [100.0, 200.0, 300.0, 400.0, 500.0]),
        (3.0, 3.0, [3.0]),
    ],
)
def test_steps_are_round(low: float, high: float, found: list[float]) -> None:
    assert steps(low, high) == found


def test_a_long_curve_is_drawn_as_means() -> None:
    curve = [(float(i), float(i % 2)) for i in range(1000)]
    drawn = thinned(curve)
    assert len(drawn) <= 400
    assert drawn[0] == (1.0, pytest.approx(1 / 3))  # of 0, 1, 0
    assert thinned(curve[:400]) == curve[:400]


def test_lines_stand_where_their_numbers_are() -> None:
    """From 1 to 5 in x, 0 to 1 in y: steps in y are steps on the chart; by factors, factors are."""
    plain = Panel("t", "x", (Curve("c", ((1, 0.0), (2, 0.25), (5, 1.0))),), span=(0.0, 1.0))
    (line,) = (one["d"] for one in attributes(line_chart(plain), "chart-line chart-line-0") if "L" in one["d"])
    (x0, y0), (x1, y1), (x2, y2) = points(line)
    assert (x1 - x0) / (x2 - x0) == pytest.approx(0.25, abs=0.001)
    assert (y1 - y0) / (y2 - y0) == pytest.approx(0.25, abs=0.001)
    assert y2 < y0  # up is less
    factors = Panel("t", "x", (Curve("c", ((1, 0.01), (2, 0.1), (3, 1.0), (4, 0.0))),), log=True)
    (line,) = (one["d"] for one in attributes(line_chart(factors), "chart-line chart-line-0") if "L" in one["d"])
    (_, y0), (_, y1), (_, y2) = points(line)  # what has no logarithm is left out
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert line_chart(Panel("t", "x", (Curve("c", ()),))) == ""


def test_bars_are_as_high_as_the_difference() -> None:
    bars = [Bar("a", 0.25, 0.75), Bar("b", 0.5, 0.5, marked=True), Bar("c", 1.0, 0.75)]
    drawn = bar_chart(bars, "said", "change", "before", "after")
    up, none = attributes(drawn, "chart-more")
    (down,) = attributes(drawn, "chart-less")
    assert float(up["height"]) == pytest.approx(2 * float(down["height"]), rel=0.001)
    assert float(none["height"]) < 1
    assert float(up["y"]) + float(up["height"]) == pytest.approx(float(down["y"]), abs=0.01)  # both begin at 0
    # the first circle of each look is the legend's, and a point without a place is the mark's triangle
    rings, full = (
        [one for one in attributes(drawn, look) if "cy" in one][1:] for look in ("chart-ring", "chart-point")
    )
    for one, other, bar in zip(rings, full, bars, strict=True):
        assert (float(one["cy"]) - float(other["cy"])) == pytest.approx(170 * bar.change, abs=0.01)
    (column,) = attributes(drawn, "chart-marked")
    assert float(column["x"]) <= float(rings[1]["cx"]) <= float(column["x"]) + float(column["width"])


def test_near_on_the_map_is_near_in_what_clients_have() -> None:
    """Of two classes a map of two dimensions keeps Hellinger's distances as they are."""
    counts = np.array([[10, 0], [9, 1], [5, 5], [0, 7]])
    found = class_map(counts, ("N", "V"))
    assert found is not None
    assert sum(found.shares) == pytest.approx(1)
    roots = np.sqrt(counts / counts.sum(1, keepdims=True))
    for i, j in itertools.combinations(range(4), 2):
        assert np.hypot(*np.subtract(found.points[i], found.points[j])) == pytest.approx(
            np.linalg.norm(roots[i] - roots[j])
        )
    assert found.corners["N"] == pytest.approx(found.points[0])
    assert found.corners["V"] == pytest.approx(found.points[3])
    assert class_map(counts[:2], ("N", "V")) is None
    assert class_map(np.array([[5, 5], [1, 1], [2, 2]]), ("N", "V")) is None


def test_a_map_marks_the_worst_and_covers_no_name() -> None:
    counts = np.random.default_rng(0).integers(0, 50, (200, 5)) + 1
    found = class_map(counts, tuple("abcde"))
    assert found is not None
    names = [f"client {i}" for i in range(200)]
    drawn = map_chart(found, names, counts.sum(1).tolist(), [i < 20 for i in range(200)], "said")
    assert len(attributes(drawn, "chart-client")) == 200
    assert len(attributes(drawn, "chart-worst")) == 20
    boxes = [
        (float(one.get("x", 0)), float(one.get("y", 0)), 6.4 * len(one.text or ""))
        for one in ElementTree.fromstring(drawn)
        if one.get("class") == "chart-label"
    ]
    assert boxes
    for (x0, y0, wide0), (x1, y1, wide1) in itertools.combinations(boxes, 2):
        assert abs(y0 - y1) >= 11 or x0 + wide0 <= x1 or x1 + wide1 <= x0


def test_a_long_name_keeps_its_end() -> None:
    assert brief("hospital-01-patient-0307") == "hos…ent-0307"
    assert brief("exactly-12-c") == "exactly-12-c"
    assert len(brief("x" * 100, 56)) == 56


def test_any_name_is_text() -> None:
    panel = Panel(WILD, WILD, (Curve(WILD, ((0, 1), (1, 2))), Curve("b", ((0, 1), (1, 2)))))
    bars = bar_chart([Bar(WILD, 0.0, 1.0)], WILD, WILD, WILD, WILD)
    found = class_map(np.array([[1, 0], [0, 1], [1, 1]]), (WILD, "V"))
    assert found is not None
    for drawn in (line_chart(panel), bars, map_chart(found, [WILD] * 3, [1, 1, 1], [False] * 3, WILD)):
        assert "<script" not in drawn
        assert "\x1b" not in drawn
        ElementTree.fromstring(drawn)
