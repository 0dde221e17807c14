"""GRP-FED in pictures: drawn from the run's numbers, which obey the paper's equations, and described as they are."""

import json
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
