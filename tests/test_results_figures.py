"""What the figures of the results page show."""

from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import load_script

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    return load_script(ROOT / "benchmarks" / "table1" / "figures.py")


def test_the_frontier_has_every_row_once(figures: ModuleType) -> None:
    def row(name: str, own: float, everybody: float) -> dict[str, object]:
        return {"name": name, "scores": {"T_p": {"mean": own}, "T_r": {"mean": everybody}}}

    found = figures.frontier_of_table([row("FedAvg", 0.6, 0.7), row("FedAvg, head", 0.8, 0.1)])
    assert found == [("FedAvg", False, 0.6, 0.7), ("head", True, 0.8, 0.1)]


def test_the_committed_figures_are_of_the_committed_numbers(figures: ModuleType) -> None:
    results, flagship = figures.results_of("table1"), figures.results_of("flagship")
    known = figures.known_drawn()
    assert sorted(known) == ["beta", "cases", "clients", "frontier", "losses"]
    assert known == figures.drawn_from(results, flagship), "run table1/figures.py"
    assert all((figures.IMAGES / f"results-{name}.{kind}").is_file() for name in known for kind in ("png", "svg"))
    other = figures.drawn_from({**results, "passes": results["passes"][1:]}, flagship)
    assert [name for name in known if known[name] != other[name]] == ["frontier"], "the others do not show those rows"


def test_no_name_of_the_frontier_lies_on_another_or_on_a_point(figures: ModuleType) -> None:
    from matplotlib.text import Text

    figure = figures.frontier_figure(figures.results_of("table1"), figures.results_of("flagship"))
    figure.canvas.draw()
    for axes in figure.axes:
        points = axes.transData.transform([line.get_xydata()[0] for line in axes.lines if len(line.get_xydata())])
        boxes = [Text.get_window_extent(text).padded(-1) for text in axes.texts]  # a pixel's edge may touch
        assert len(boxes) == len(points)
        for number, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:number]), axes.texts[number].get_text()
            assert not any(box.contains(x, y) for x, y in points), axes.texts[number].get_text()
