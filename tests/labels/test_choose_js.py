"""The page's choice and Python's are the same rule: both answer the same questions of real recordings."""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_pages import page_of, reference
from numpy.typing import NDArray

import ecgfed.web
from ecgfed.domain.labels.choose import LabelledTree, Rule, differ_features, next_group, shipped_rule
from ecgfed.domain.labels.contested import contested
from ecgfed.domain.labels.groups import Groups, group_beats
from ecgfed.domain.labels.label_errors import expected_errors
from ecgfed.domain.labels.likeness import Points
from ecgfed.domain.labels.page import LabelPage, page_data
from ecgfed.domain.labels.spread import spread

WEB = Path(ecgfed.web.__file__).parent
DRIVER = Path(__file__).parents[1] / "browser" / "choose.mjs"
QUESTIONS = 30
pytestmark = pytest.mark.browser


def by_script(page: LabelPage, folder: Path, driver: Path = DRIVER, **more: Any) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: make browser")
    given = folder / "given.json"
    given.write_text(json.dumps({"data": page_data(page) | {"strips": {}, "pictures": {}}, **more}))
    done = subprocess.run([node, str(driver), str(WEB), str(given)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def covered(groups: Groups, rule: Rule, label: dict[int, str]) -> int:
    """Count the beats that the page calls covered, from the rule's own features."""
    asked = LabelledTree.of(groups, label)
    found = 0
    for leaf in np.unique(groups.leaf).tolist():
        around, beat = asked.nearest(leaf)
        wrong = (
            0.0 if around == leaf else rule.differs(differ_features(groups, leaf, around, beat, label[beat])[None])[0]
        )
        if wrong <= 0.05 and label[beat] != "?":
            found += int((groups.leaf == leaf).sum())
    return found


def made_page() -> tuple[LabelPage, NDArray[np.str_]]:
    """Beats around six places, and labels that have little to do with them."""
    rng = np.random.default_rng(5)
    place = rng.integers(0, 6, 400)
    parts = {"answers": slice(0, 5), "shape": slice(5, 30), "rhythm": slice(30, 33), "context": slice(33, 49)}
    prior = rng.dirichlet(np.ones(5), 400).clip(0.02)
    points = Points(rng.normal(0, 1, (6, 49))[place] + rng.normal(0, 0.3, (400, 49)), parts, prior)
    about = ("made", "ab" * 16, "ecgfed/model", 360.0, 400.0, 20, ("MLII",))
    groups, interval_s = group_beats(points, 60), np.ones(400)
    page = LabelPage(*about, groups, np.arange(400) * 360, shipped_rule(), {}, {}, interval_s)
    return page, rng.choice(list("NLAVF/|"), 400)


def test_python_and_the_page_ask_alike_of_made_up_beats(tmp_path: Path) -> None:
    ask_both(*made_page(), tmp_path)


@pytest.mark.mitdb
@pytest.mark.parametrize("record", ["208", "213", "232"])
def test_python_and_the_page_ask_alike(record: str, mitdb: Path, tmp_path: Path) -> None:
    ask_both(*page_of(mitdb / record), tmp_path)


@pytest.mark.mitdb
@pytest.mark.slow
def test_python_and_the_page_ask_alike_of_every_record(mitdb: Path, tmp_path: Path) -> None:
    for header in sorted(mitdb.glob("*.hea")):
        ask_both(*page_of(header.with_suffix("")), tmp_path)


def ask_both(page: LabelPage, symbol: NDArray[np.str_], folder: Path) -> None:
    """Let Python and the page's scripts ask the same person, and compare each step."""
    groups, truth = page.groups, reference(page.groups, symbol)
    rng = np.random.default_rng(7)
    some = np.unique(groups.beat)
    truth |= {int(beat): "?" for beat in rng.choice(some, 6)}  # somebody cannot always tell
    passed = [rng.choice(some, 20).tolist() if i else [] for i in range(QUESTIONS)]
    within = rng.integers(0, len(groups), QUESTIONS).tolist()
    told = by_script(page, folder, truth=truth, questions=QUESTIONS, passed=passed, within=within)
    label: dict[int, str] = {}
    for i in range(QUESTIONS):
        assert told["within"][i] == next_group(groups, label, within=within[i], rule=page.rule), i
        group = next_group(groups, label, passed=frozenset(passed[i]), rule=page.rule)
        assert told["asked"][i] == group, i
        assert group is not None
        label[int(groups.beat[group])] = truth[int(groups.beat[group])]
        _, origin = spread(groups, label)
        beats, counts = np.unique(origin, return_counts=True)
        standing = dict(zip(beats.tolist(), counts.tolist(), strict=True))
        assert {int(beat): many for beat, many in told["beats"][i].items() if many} == standing
        assert sum(told["beats"][i].values()) == len(groups.leaf)
        assert told["covered"][i] == covered(groups, page.rule, label)
        expected = expected_errors(groups, label)
        assert told["expected"][i]["beats"] == pytest.approx(expected.beats, rel=1e-9)
        assert [told["expected"][i][key] for key in ("low", "high", "of")] == [expected.low, expected.high, expected.of]
        again = contested(groups, label, frozenset(passed[i]))
        assert told["contested"][i] == [dataclasses.asdict(one) for one in again]
    assert len(set(told["asked"])) == QUESTIONS
    assert told["covered"][-1] > 0


@pytest.mark.mitdb
def test_covered_beats_before_the_last_answer_are_those_of_the_answers_before_it(mitdb: Path, tmp_path: Path) -> None:
    page, symbol = page_of(mitdb / "200")
    truth, label, answers, counts = reference(page.groups, symbol), dict[int, str](), [], [0]
    for _ in range(QUESTIONS):
        group = next_group(page.groups, label, rule=page.rule)
        assert group is not None
        beat = int(page.groups.beat[group])
        label[beat] = truth[beat]
        answers.append((group, truth[beat]))
        counts.append(covered(page.groups, page.rule, label))
    steps = by_script(page, tmp_path, DRIVER.with_name("confirm.mjs"), answers=answers)
    assert [step["covered"] for step in steps] == counts[1:]
    assert [step["coveredBefore"] for step in steps] == counts[:-1]
    # beats that take the label of a new answer of another kind are uncertain
    assert any(step["covered"] < step["coveredBefore"] for step in steps)


def test_a_label_given_twice_is_confirmed_and_of_two_a_third_decides(tmp_path: Path) -> None:
    page, _ = made_page()
    one, other = page.groups.children[0]  # the two parts of the whole
    answers = [(one, "F"), (other, "V"), (one, "V"), (one, "F"), (other, "V"), (one, "N"), (one, "N")]
    steps = by_script(page, tmp_path, DRIVER.with_name("confirm.mjs"), answers=answers)
    assert [step["source"] for step in steps] == [
        *("clinician", "clinician", "clinician"),
        *("confirmed", "confirmed"),
        *("clinician", "confirmed"),
    ]
    # V after F is asked once more; N after F is a correction
    assert [step["differs"] for step in steps] == [False, False, True, False, False, False, False]
    assert [step["contested"] for step in steps] == [False, True, False, False, False, False, False]
