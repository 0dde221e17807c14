"""The picture of what leaves a site in a round (docs/hospitals.md), measured again."""

import json
from pathlib import Path

import pytest
from loaded_scripts import load_script
from needs import flower

flower()

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "round-bytes"


@pytest.mark.slow
def test_a_site_sends_and_keeps_as_much_again(tmp_path: Path) -> None:
    """A federation of three sites, in processes of their own; some files may be a little longer."""
    look = load_script(FOLDER / "look.py")
    look.run(tmp_path)
    old, new = json.loads((FOLDER / "numbers.json").read_text("utf-8")), look.numbers(tmp_path)
    for name in ("patients", "sites", "down", "up"):
        assert new[name] == old[name]
    for name, size in old["stays"].items():
        assert new["stays"][name] == pytest.approx(size, rel=0.02), name
