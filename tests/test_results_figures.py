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


def test_the_flagships_panel_says_how_each_answers(figures: ModuleType) -> None:
    def runs(*own: float) -> list[dict[str, object]]:
        return [{"test": {"T_p": score, "T_r": score / 2}} for score in own]

    methods = {
        "FedGate": runs(0.8, 0.9),
        "FedAvg": runs(0.6, 0.6),
        "FedGate, windows alone": runs(0.1, 0.1),
        "FedGate's global model, head": runs(0.7, 0.7),
    }
    found = figures.frontier_of_flagship(methods, 20)
    assert [(name, simple) for name, simple, *_ in found] == [
        ("FedGate", True),
        ("FedAvg, masked", True),
        ("head", True),
    ]
    assert found[0][2:] == pytest.approx((0.85, 0.425))
    figure = figures.frontier_figure({"passes": []}, {"methods": methods})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["windows alone, 12 passes", "with RR intervals, 20 passes"]
    longer = methods | {"FedGate, 60 passes": runs(0.9), "FedGate's global model of 60 passes, head": runs(0.8)}
    assert [name for name, *_ in figures.frontier_of_flagship(longer, 20)] == ["FedGate", "FedAvg, masked", "head"]
    assert [(name, simple) for name, simple, *_ in figures.frontier_of_flagship(longer, 60)] == [
        ("FedGate", True),
        ("head", True),
    ]
    assert {text.get_text() for text in figure.axes[1].texts} == {"FedGate", "FedAvg, masked", "head"}
    sixty = [{"name": "AFL", "seeds": 1, "scores": {"T_p": {"mean": 0.5}, "T_r": {"mean": 0.4}}}]
    middle = figures.frontier_figure({"passes": [], "sixty": sixty}, {"methods": methods}).axes[1]
    assert middle.get_title() == "windows alone, 60 passes (1 seed)"
    assert {text.get_text() for text in middle.texts} == {"AFL"}


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
