"""GRP-FED in pictures: drawn from the run's numbers, which obey the paper's equations, and described as they are."""

import json
import re
import statistics
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loaded_scripts import load_script
from picture_checks import assert_read_without_seeing_it

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "images" / "grp-fed"
PAGE = ROOT / "docs" / "grp-fed-in-pictures.md"
PICTURES = sorted(FOLDER.glob("*.svg"))


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    return load_script(FOLDER / "draw.py")


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "round.json").read_text())
    return found


def shares(said: dict[str, Any]) -> list[float]:
    """Equation 3, as printed."""
    q = said["q"][1]
    total = sum(loss**q for loss in said["loss"])
    return [loss**q / total for loss in said["loss"]]


def test_the_pictures_are_of_these_numbers(draw: ModuleType) -> None:
    drawn = draw.drawn()
    assert sorted(drawn) == [picture.name for picture in PICTURES], "python docs/images/grp-fed/draw.py"
    for picture in PICTURES:
        assert picture.read_text("utf-8") == drawn[picture.name], f"{picture.name}: python docs/images/grp-fed/draw.py"


def test_the_round_obeys_the_equations(said: dict[str, Any], draw: ModuleType) -> None:
    sigma = statistics.pstdev(said["loss"])
    assert sigma == pytest.approx(said["sigma"][1])
    change = 2 * (said["sigma"][1] - said["sigma"][0]) / sum(said["sigma"])
    assert said["q"][1] == pytest.approx(said["q"][0] + said["settings"]["eta_q"] * change)
    assert said["q"] == pytest.approx(said["q_all"][said["round"] - 2 : said["round"]])
    weights = shares(said)
    assert draw.weights(said["loss"], said["q"][1]) == pytest.approx(weights)
    assert said["effective_clients"] == pytest.approx(1 / sum(one**2 for one in weights))
    assert said["bytes"]["up"] == said["bytes"]["down"] + 8, "one number more goes up"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_a_picture_is_read_without_seeing_it(picture: Path) -> None:
    assert_read_without_seeing_it(picture)


def test_the_page_shows_every_picture_and_says_its_numbers(said: dict[str, Any]) -> None:
    """Each figure that the page names stands in the run's numbers, rounded as it is there."""
    text = PAGE.read_text("utf-8")
    shown = re.findall(r"!\[([^\]]+)\]\(images/grp-fed/([^)]+)\)", text)
    assert [name for _, name in shown] == [picture.name for picture in PICTURES]
    alt = {name[0]: words for words, name in shown}
    at, weights = said["client"], shares(said)
    most, least = said["loss"].index(max(said["loss"])), said["loss"].index(min(said["loss"]))
    assert said["clients"][most] in alt["4"]
    assert said["clients"][least] in alt["4"]
    expected = {
        "2": [f"{said['bytes'][name]:,}" for name in ("down", "up", "kept")],
        "3": [
            f"{said['this_round']['loss'][at]:.3f}",
            f"{said['this_round']['local_loss'][at]:.2f}",
            *(f"{said['verdicts'][name][at]:.3f}" for name in ("of_global", "of_local")),
        ],
        "4": [f"{one[who]:.3f}" for who in (most, least) for one in (said["loss"], weights)] + ["0.125"],
        "5": [f"{said['lengths'][what][part]:.4f}" for part in ("extractor", "head") for what in ("mean", "step")],
        "7": [f"{one[name]:.2f}" for name in ("T_p", "T_r") for one in said["answers"]],
    }
    for number, figures in expected.items():
        found = re.findall(r"\d+(?:,\d{3})+|\d+\.\d+", alt[number])
        assert found == figures, number
    assert f"round {said['round']} of {said['rounds']}" in text
