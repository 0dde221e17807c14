"""A bundle's card: made of the manifest's figures, and of no stranger's markup."""

import json
import re
from pathlib import Path

import pytest
from support import Command, exported, manifest_of

from ecgfed.device import open_bundle
from ecgfed.exports.bundles.card import card_of, markdown, plain

WILD = "<script>alert(1)</script> [x](http://evil) **b** `c` | d\n# head ![i](javascript:x) www.evil.org a@b.c"


def test_it_says_what_the_manifest_and_the_evaluation_say(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    import shutil

    run = tmp_path / "run"
    shutil.copytree(fedavg_run, run)
    assert ecgfed("evaluate", run).code == 0
    assert ecgfed("export", run, "--out", tmp_path / "bundle").code == 0
    bundle = open_bundle(tmp_path / "bundle")
    card = json.loads(bundle.read("card.json"))
    page = bundle.read("CARD.md").decode()
    scores = json.loads((run / "evaluation-test" / "scores.json").read_text())
    assert card["scores"]["T_g"] == scores["scores"]["T_g"]
    by_class = {row["class"]: row for row in scores["per_class"]}
    for row in card["classes"]:
        assert row["test"] == by_class[row["name"]]
        assert row["training_examples"] == bundle.manifest["trained_on"]["class_counts"][row["name"]]
    assert f"{scores['scores']['T_g']:.3f}" in page
    for row in scores["per_patient"]:
        assert card["patients"][row["client"]]["macro_f1"] == row["personal_f1"]
    assert card["data"]["clients"] == 4
    assert "over-read" in page
    assert bundle.manifest["run"] in page
    assert card_of(bundle.manifest) == card
    assert markdown(card) == page


def test_examples_of_other_leads_are_no_beats(fedavg_run: Path) -> None:
    manifest = manifest_of(exported(fedavg_run))
    beats = sum(manifest["trained_on"]["class_counts"].values())
    manifest["trained_on"]["other_leads"] = {"V1": 1200, "V5": 34}
    page = markdown(card_of(manifest))
    assert f"{beats} examples of 4 clients, lead MLII, and 1,234 examples of other leads (V1 1,200, V5 34)" in page


def test_a_run_that_nobody_scored_says_so(fedavg_run: Path) -> None:
    page = (exported(fedavg_run) / "CARD.md").read_text()
    assert "Nobody has scored this run" in page
    assert re.search(r"\| 0 \| N \| N \| normal beat \| [\d,]+ \| - \| - \| - \|", page)


@pytest.mark.parametrize("where", ["class", "method", "patient", "lead", "kind", "setting"])
def test_text_of_strangers_is_text(fedavg_run: Path, where: str) -> None:
    manifest = manifest_of(exported(fedavg_run))
    if where == "class":
        manifest["class_table"][0] |= {"name": WILD, "words": WILD}
    elif where == "method":
        manifest["method"] = manifest["personal"] = WILD
    elif where == "patient":
        manifest["patients"] = {WILD: {"scores": {"beats": 3, "macro_f1": 0.5}}}
    elif where == "lead":
        manifest["leads"] = [WILD]
    elif where == "kind":
        manifest["cohort"] |= {"kind": WILD, "split": WILD}
    else:
        manifest["settings"] = {WILD: WILD}
    page = markdown(card_of(manifest))
    shown = re.sub(r"\\[!-/:-@\[-`{-~]", "", page)  # what a backslash stands before is a character and no markup
    for mark in ("<script", "](http", "![i]", "**b**", "`c`", "javascript:", "www.evil", "a@b", "\n# head"):
        assert mark not in shown, mark
    assert "<" not in page


def test_plain_by_hand() -> None:
    assert plain("a_b|c\n<d>") == r"a_b\|c &lt;d&gt;"
    assert plain("_a_ 0.1.0 www.x") == r"\_a\_ 0.1.0 www\.x"
    assert plain("at 10: http://x") == r"at 10: http\://x"
    assert plain("premature (atrial)") == "premature (atrial)"
    assert plain("\x1b[2J") == r"\\x1b\[2J"
