"""The pictures of single ideas: what is written in them is what was computed, and each is what its script draws."""

import json
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from browser_driver import chromium_path
from loaded_scripts import load_script
from picture_checks import IMAGES, ROOT, assert_read_without_seeing_it, said_in
from sklearn.metrics import f1_score

#: Each picture and its page.
SHOWN_ON = {
    "bundle": "bundle.md",
    "databases": "results.md",
    "gate": "personal-or-global.md",
    "groups": "labels.md",
    "label-page": "labels.md",
    "macro-f1": "macro-f1.md",
    "peers": "qrs.md",
    "quality": "quality.md",
    "round-bytes": "hospitals.md",
    "scored": "what-is-scored.md",
    "stream": "stream.md",
    "three-ways": "results.md",
}
#: A photograph of a page; the others are drawn.
PHOTOGRAPH = "label-page"
DRAWN = sorted({*SHOWN_ON} - {PHOTOGRAPH})
#: A list of more whole numbers than this is a signal.
LONG = 20


def picture(name: str) -> Path:
    return IMAGES / name / f"{name}.svg"


def script(name: str, what: str = "draw") -> ModuleType:
    return load_script(IMAGES / name / f"{what}.py")


def numbers(name: str) -> Any:
    return json.loads((IMAGES / name / "numbers.json").read_text("utf-8"))


def words(name: str) -> str:
    if name == PHOTOGRAPH:
        said: dict[str, str] = json.loads((IMAGES / name / f"{name}.json").read_text("utf-8"))
        return "\n".join(said.values())
    return "\n".join(said_in(picture(name)))


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_its_script_draws(name: str) -> None:
    assert picture(name).read_text("utf-8") == script(name).drawn(), f"python docs/images/{name}/draw.py"
    assert_read_without_seeing_it(picture(name))


@pytest.mark.parametrize("name", SHOWN_ON)
def test_the_page_describes_the_picture_and_says_what_to_look_at(name: str) -> None:
    """Every number of the alternative text stands in the picture; a sentence follows it."""
    page = (ROOT / "docs" / SHOWN_ON[name]).read_text("utf-8")
    found = re.search(rf"!\[([^\]]+)\]\(images/{name}/{name}\.(?:svg|png)\)\n\n([^\n]+)", page)
    alt, below = found.groups()
    assert len(alt) > 80
    assert below.endswith((".", ")"))
    assert below[0] not in "#|!`<"
    written = set(re.findall(r"\d[\d,.:]*\d|\d", words(name)))
    assert set(re.findall(r"\d[\d,.:]*\d|\d", alt)) <= written


def test_macro_f1_is_scikit_learns() -> None:
    draw = script("macro-f1")
    truth, answers = list(draw.TRUTH), list(draw.ANSWERS)
    each = f1_score(truth, answers, labels=list(draw.CLASSES), average=None)
    any_class = f1_score(truth, answers, average="macro")
    in_truth = f1_score(truth, answers, labels=sorted(set(truth)), average="macro")
    text = words("macro-f1")
    for score in (*each, any_class, in_truth):
        assert f"{score:.3f}" in text
    assert f"= {any_class:.3f}" in text
    assert f"= {in_truth:.3f}" in text


def test_the_four_scores_are_those_of_evaluate() -> None:
    """T_g, T_p, T_r and T_l as ``ecgfed.evaluate`` gave them, from the cells by scikit-learn."""
    said = numbers("scored")
    one_for_all, *own = said["answers"]
    pool = list("".join(said["truth"]))

    def macro(truth: list[str], answers: list[str]) -> float:
        return float(f1_score(truth, answers, average="macro"))

    t_g = macro(pool, list("".join(one_for_all)))
    t_p = np.mean([macro(list(said["truth"][i]), list(answers[i])) for i, answers in enumerate(own)])
    t_r = np.mean([macro(pool, list("".join(answers))) for answers in own])
    found = {"T_g": t_g, "T_p": t_p, "T_r": t_r, "T_l": 2 * t_p * t_r / (t_p + t_r)}
    assert found == pytest.approx(said["scores"])
    worst = int(np.argmin([macro(pool, list("".join(answers))) for answers in own]))
    assert said["clients"][worst] == "demo04", "docs/what-is-scored.md names it"
    assert own[worst][worst] == said["truth"][worst]
    lines = said_in(picture("scored"))
    for name, score in found.items():
        assert lines[lines.index(name) + 1] == f"{score:.2f}"


def test_the_gate_decides_as_its_equation_says() -> None:
    """Each shown beat's mixture from its distance and logits alone: (1 - s) own + s softmax(g - r), and 0.001."""
    said, draw = numbers("gate"), script("gate")
    gate = {name: np.array(value) for name, value in said["gate"].items()}
    for beat in said["beats"]:
        own, others = np.array(beat["own"]), np.array(beat["global_logits"]) - gate["reserve"]
        against = others.max() - own @ others
        assert beat["distance"] > 0.25, "below it the distance counts as 0.25"
        lean = gate["slope"][0] * math.log(beat["distance"]) + gate["trust"][0] * against - gate["threshold"][0]
        share = 1 / (1 + math.exp(-lean))
        softmax = np.exp(others - others.max()) / np.exp(others - others.max()).sum()
        assert (1 - share) * own + share * softmax + 1e-3 == pytest.approx(np.array(beat["mixture"]), abs=1e-5)
        assert draw.weighed(beat, said["gate"]) == pytest.approx((beat["distance"], against, lean, share), abs=1e-4)
        assert said["classes"][int(np.argmax(beat["mixture"]))] == beat["marked"]
        assert f"share of the global model: s = {share:.4f}" in words("gate")


@pytest.mark.browser
def test_the_labelling_page_still_says_what_the_photograph_shows(tmp_path: Path) -> None:
    draw = script(PHOTOGRAPH)
    chromium_path()
    assert "\n".join(draw.said(draw.page(tmp_path)).values()) == words(PHOTOGRAPH)


def assert_alike(old: object, new: object) -> None:
    """Words and counts are equal; another machine rounds otherwise, so numbers are nearly."""
    if isinstance(old, dict):
        assert isinstance(new, dict)
        assert list(old) == list(new)
        for key, value in old.items():
            assert_alike(value, new[key])
    elif isinstance(old, list):
        assert isinstance(new, list)
        assert len(old) == len(new)
        if len(old) > LONG and all(isinstance(one, int) for one in old):  # a signal in whole numbers
            assert new == pytest.approx(old, abs=1)
            return
        for one, other in zip(old, new, strict=True):
            assert_alike(one, other)
    elif isinstance(old, float):
        assert new == pytest.approx(old, rel=1e-3, abs=1e-3)
    else:
        assert old == new


@pytest.mark.slow
@pytest.mark.parametrize("name", ["groups", "gate", "quality", "stream"])
def test_the_numbers_are_found_again(name: str, tmp_path: Path) -> None:
    assert_alike(numbers(name), json.loads(json.dumps(script(name, "look").numbers(tmp_path))))


@pytest.mark.slow
def test_the_answers_are_found_again(tmp_path: Path) -> None:
    """Another processor rounds otherwise, 25 rounds long: two of a hundred answers may be others (seen: 1 of 2,151)."""
    old, new = numbers("scored"), script("scored", "look").numbers(tmp_path)
    assert {key: new[key] for key in ("clients", "classes", "truth")} == {
        key: old[key] for key in ("clients", "classes", "truth")
    }
    before, now = ("".join("".join(model) for model in one["answers"]) for one in (old, new))
    assert len(now) == len(before)
    assert sum(a != b for a, b in zip(now, before, strict=True)) <= 0.02 * len(before)
    assert new["scores"] == pytest.approx(old["scores"], abs=0.03)


@pytest.mark.slow
@pytest.mark.browser
def test_the_bundle_answers_everywhere_again(tmp_path: Path) -> None:
    """Sizes may change by the few bytes of a time or a name."""
    chromium_path()
    old, new = numbers("bundle"), script("bundle", "look").numbers(tmp_path)
    assert new["places"] == old["places"]
    assert list(new["files"]) == list(old["files"])
    for file, size in old["files"].items():
        assert new["files"][file] == pytest.approx(size, rel=0.02), file
    assert new["sources"] == pytest.approx(old["sources"], rel=0.02)
