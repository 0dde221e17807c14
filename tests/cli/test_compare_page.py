"""``ecgfed runs compare --out``: the comparison as a page, its numbers known beforehand."""

import json
from pathlib import Path

import pytest
from support import Command, assert_refused, snapshot
from test_report_run import Tables
from written_run import write_run, write_scores

#: Patient -> F1 of (own model, everybody's), with the first run and with the second.
FIRST = {"p1": (0.25, 0.5), "p2": (0.5, 0.5), "p3": (0.75, 0.5), "only-a": (0.1, 0.1)}
SECOND = {"p1": (0.75, 0.5), "p2": (0.5, 0.5), "p3": (0.5, 0.5), "only-b": (0.1, 0.1)}


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", method="grp-fed", settings={"lr": 0.02})
    write_scores(first, {"T_g": 0.5, "T_p": 0.6}, FIRST, classes={"N": (80, 90, 0.9), "V": (20, 10, None)})
    write_scores(second, {"T_g": 0.7, "T_p": 0.65}, SECOND, classes={"N": (80, 85, 0.95), "V": (20, 15, 0.75)})
    return first, second


def test_the_page_says_what_the_command_says(ecgfed: Command, two: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    before = snapshot(two[0])
    said = ecgfed("runs", "compare", *two, "--out", out)
    assert said.code == 0, said.err
    assert f"Wrote {out}." in said.out.replace("\n", "")
    assert snapshot(two[0]) == before
    text = out.read_text()
    page = Tables(text)
    main = {row[0]: row[1:] for row in page.starting("Settings that differ")}
    assert main["method"] == ["fedavg", "grp-fed"]
    assert main["lr"] == ["0.005", "0.02"]
    assert main["T_g"] == ["0.500", "0.700"]
    assert main["T_r"] == ["not evaluated", "not evaluated"]
    assert page.starting("F1 of each class")[1:] == [
        ["N", "80", "0.900", "0.950", "+0.050"],
        ["V", "20", "-", "0.750", "-"],
    ]
    _, *rows = page.starting("Patients by difference: B against A, own model")
    assert rows == [
        ["p1", "0.250", "0.750", "+0.500"],
        ["p2", "0.500", "0.500", "0.000"],
        ["p3", "0.750", "0.500", "-0.250"],
    ]
    assert "Of 3 patients, B scores higher for 1, lower for 1 and equal for 1; the mean difference is +0.083." in text
    assert "B against A, everybody&#x27;s" in text
    assert str(tmp_path) not in text


def test_own_and_everybodys_are_drawn_once_where_they_are_alike(ecgfed: Command, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name) for name in "ab"]
    for run, score in zip(runs, (0.5, 0.75), strict=True):
        write_scores(run, {"T_g": score}, {"p1": (score, score)})
    assert ecgfed("runs", "compare", *runs, "--out", tmp_path / "page.html", "--quiet").code == 0
    assert list(Tables((tmp_path / "page.html").read_text()).tables)[1] == (
        "Patients by difference: B against A, own model and everybody's alike"
    )


def test_curves_of_seeds_are_means(ecgfed: Command, tmp_path: Path) -> None:
    """Seeds with losses 1/n and 3/n: 2/n, in the three rounds that both have; over passes, a quarter a round."""
    one = write_run(tmp_path / "one")
    write_run(tmp_path / "several" / "seed-0", plan={"seed": 0})
    other = write_run(tmp_path / "several" / "seed-1", plan={"seed": 1}, done=3)
    lines = [json.loads(line) for line in (other / "history.jsonl").read_text().splitlines()]
    lines = [{**line, "loss_mean": 3 / line["round"]} for line in lines]
    (other / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = ecgfed("runs", "compare", one, tmp_path / "several", "--out", tmp_path / "page.html", "--quiet")
    assert said.code == 0, said.err
    text = (tmp_path / "page.html").read_text()
    curves = {row[0]: row[1:] for row in Tables(text).tables["Curves in numbers"]}
    assert curves["Training loss, mean over clients: A one"] == ["4", "1", "0.25", "0.25", "1"]
    assert curves["Training loss, mean over clients: B several"] == ["3", "2", "0.6667", "0.6667", "2"]
    assert "over passes over the training data" in text
    for words in ("Patients are not evaluated", "Classes are not evaluated", "A is not evaluated on test"):
        assert words in text


def test_classes_that_a_run_never_predicts_are_said(ecgfed: Command, two: tuple[Path, Path], tmp_path: Path) -> None:
    history = two[1] / "history.jsonl"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    lines[-1]["never_predicted"] = ["V"]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "page.html"
    assert ecgfed("runs", "compare", *two, "--out", out, "--quiet").code == 0
    assert "B: On validation beats of round" in out.read_text()
    assert "the global model never predicts: V." in out.read_text()


def test_what_it_refuses(ecgfed: Command, two: tuple[Path, Path], tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    assert_refused(ecgfed("runs", "compare", *two, "--out", tmp_path / "page.txt"), "--out", "ends in .html")
    assert_refused(ecgfed("runs", "compare", two[0], "--out", tmp_path / "page.html"), "two runs or more")
    (tmp_path / "page.html").write_text("mine")
    assert_refused(ecgfed("runs", "compare", *two, "--out", tmp_path / "page.html"), "--out", "page.html")
    assert (tmp_path / "page.html").read_text() == "mine"
    assert ecgfed("runs", "compare", *two, "--out", tmp_path / "page.html", "--overwrite", "--quiet").code == 0
    (tmp_path / "page.html").unlink()
    assert snapshot(tmp_path) == before
