"""The labelling page in headless Chromium: a real record is clicked through, by keys, by mouse, with every way back.

``make browser`` brings Chromium and the packages of ``tests/browser``.
"""

import csv
import dataclasses
import io
import json
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from browser_driver import HERE, chromium_path, driver_path
from label_pages import page_of, reference

from ecgfed.domain.labels.choose import next_group
from ecgfed.domain.labels.page import LABELS, LabelPage
from ecgfed.domain.labels.spread import spread
from ecgfed.tasks.label import Labelling
from ecgfed.tasks.label_parts import label_page
from ecgfed.tasks.label_server import Served

pytestmark = [pytest.mark.browser, pytest.mark.mitdb]
COUNT = 20
HOSTILE = "</script><script>window.hacked = true</script><img src=x onerror='window.hacked=true'>\"=1+1,"


def given_labels(page: LabelPage, symbol: Any) -> dict[int, str]:
    """What a person would answer: the reference, where the page has its symbol."""
    known = {one for one, _, _ in LABELS}
    return {beat: one if one in known else "?" for beat, one in reference(page.groups, symbol).items()}


@dataclasses.dataclass(frozen=True)
class Setting:
    page: LabelPage
    truth: dict[int, str]
    small: LabelPage
    small_truth: dict[int, str]
    told: dict[str, Any]
    served: Served
    labels: str


@pytest.fixture(scope="module")
def setting(mitdb: Path, tmp_path_factory: pytest.TempPathFactory) -> Setting:
    chromium, node = chromium_path(), driver_path()
    folder = tmp_path_factory.mktemp("label")
    page, symbol = page_of(mitdb / "208", count=COUNT, notices=("The lead is noisy in places.",))
    small, _ = page_of(mitdb / "208", count=COUNT, leaves=5)
    truth, small_truth = given_labels(page, symbol), given_labels(small, symbol)
    hostile = dataclasses.replace(small, record=HOSTILE, model=HOSTILE, notices=(HOSTILE,), leads=(HOSTILE, "V1"))
    for name, one in (("page", page), ("small", small), ("hostile", hostile)):
        (folder / f"{name}.html").write_text(label_page(one))
    made = Labelling(page.groups, page, folder)  # type: ignore[arg-type]  # nothing but the page is served
    file = made.labels_file
    ended: list[Served] = []
    address: list[str] = []
    there = threading.Event()

    def opened(where: str) -> None:
        address.append(where)
        there.set()

    def work() -> None:
        ended.append(made.serve(opened, idle_s=240))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert there.wait(10)
    asked: dict[str, Any] = {name: str(folder / f"{name}.html") for name in ("page", "small", "hostile")}
    asked |= {"truth": truth, "smallTruth": small_truth, "count": COUNT, "served": address[0], "file": str(file)}
    (folder / "given.json").write_text(json.dumps(asked))
    command = [node, str(HERE / "label.mjs"), chromium, str(folder / "given.json"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    thread.join(10)
    assert ended, told["errors"]
    return Setting(page, truth, small, small_truth, told, ended[0], file.read_text())


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def python_asks(page: LabelPage, truth: dict[int, str], many: int) -> tuple[list[int], dict[int, str]]:
    """Return the groups that Python asks for, and the answers."""
    label: dict[int, str] = {}
    asked = []
    for _ in range(many):
        group = next_group(page.groups, label, rule=page.rule)
        assert group is not None
        asked.append(group)
        label[int(page.groups.beat[group])] = truth[int(page.groups.beat[group])]
    return asked, label


def expected_csv(page: LabelPage, label: dict[int, str], merged: tuple[int, ...] = ()) -> str:
    """The labels' file, from Python's own spreading."""
    _, origin = spread(page.groups, label)
    lines = ["recording,sample,time_s,label,beats,source"]
    for beat in sorted(label):
        sample = int(page.sample[beat])
        source = "merged" if beat in merged else "clinician"
        about = f"{sample},{sample / page.fs_hz:.3f},{label[beat]},{int((origin == beat).sum())},{source}"
        lines.append(f"{page.recording},{about}")
    return "".join(f"{line}\r\n" for line in lines)


def test_nothing_fails_and_nothing_is_asked_of_a_network(setting: Setting) -> None:
    # two browsers answered at once, and the server could not be reached for a while
    expected = ("status of 409 (Conflict)", "net::ERR_INTERNET_DISCONNECTED")
    assert [one for one in setting.told["errors"] if not one.endswith(expected)] == []
    assert set(setting.told["requests"]) <= {"file", "blob", "http"}  # http: the served page, from this machine


def test_twenty_answers_by_keyboard_alone(setting: Setting) -> None:
    told = setting.told["keyboard"]
    asked, label = python_asks(setting.page, setting.truth, COUNT)
    assert told["groups"] == asked
    assert told["begin"]["title"] == "Label beats: 208"
    assert told["begin"]["live"].startswith("Question 1: what is this beat?")
    assert told["begin"]["progress"] == "0 of 20 answered"
    assert told["finished"]["seen"]
    assert told["focused"] == "finished-title"
    progress = told["finished"]["progress"]
    share = re.search(
        r"^20 of 20 answered; covers ([\d.]+)% of the beats(?: \([\d.]+% before the last answer\))?$", progress
    )
    assert share
    assert 80 < float(share[1]) < 100
    assert told["file"] == {"name": "208-labels.csv", "text": expected_csv(setting.page, label)}
    assert told["answering"] == COUNT
    assert told["strokes"] == COUNT + 3  # one for an answer; Tab twice to the button, and Enter
    assert told["on"]["seen"]
    assert told["on"]["progress"].startswith("20 of 25 answered")


def test_twenty_answers_by_mouse_are_the_same(setting: Setting) -> None:
    told = setting.told["mouse"]
    assert told["groups"] == setting.told["keyboard"]["groups"]
    assert told["file"] == setting.told["keyboard"]["file"]
    assert told["clicks"] == COUNT + 1


def test_undo_and_redo_outlive_a_reload(setting: Setting) -> None:
    told = setting.told["undo"]
    asked, label = python_asks(setting.page, setting.truth, 6)
    symbols = "".join(label.values())
    found = [(one["asked"], one["answered"]) for one in told["steps"]]
    assert found[:5] == [
        (asked[4], symbols[:4]),
        (asked[2], symbols[:2]),
        (asked[3], symbols[:3]),
        (asked[3], symbols[:3]),
        (asked[4], symbols[:4]),
    ]
    assert found[5][1] == symbols[:3] + "F"
    assert told["redo"] is True
    assert told["reopened"]["answered"] == symbols[:3] + "F"
    assert told["reopened"]["asked"] == found[5][0]
    assert (told["control"]["asked"], told["control"]["answered"]) == (asked[3], symbols[:3])
    assert told["steps"][1]["did"].startswith("Undone: ")


def test_back_and_forth_and_another_answer(setting: Setting) -> None:
    told = setting.told["back"]
    one, two, three = told["groups"]
    symbols = [setting.truth[int(setting.page.groups.beat[group])] for group in (one, two, three)]
    assert [at["group"] for at in told["seenBack"]] == [three, two, three]
    assert [at["pressed"] for at in told["seenBack"]] == [[symbols[2]], [symbols[1]], [symbols[2]]]
    assert told["seenBack"][0]["title"].startswith("Answer 3: ")
    assert told["changed"]["answered"] == "".join(symbols[:2]) + "?"
    assert told["changed"]["asked"] not in (one, two, three)
    assert told["changed"]["live"].startswith("? (cannot tell) for the beat at")
    assert told["again"] == {"group": one, "beat": int(setting.page.groups.beat[one]), "focused": "question-title"}


def test_what_is_put_off_comes_in_the_end(setting: Setting) -> None:
    told = setting.told["later"]
    groups = setting.small.groups
    put_off = [told["first"]["beat"], told["second"]["beat"]]
    assert told["progress"] == "0 of 20 answered; 2 put off"
    beats = [int(groups.beat[group]) for group in told["rest"]]
    assert len(set(beats)) == len(beats)  # nothing is asked for twice
    if set(put_off) <= set(beats):
        assert beats[-2:] == put_off
    # in the end every group holds an answered beat
    inside = {group for beat in beats for group in groups.path(int(groups.leaf[beat]))}
    assert inside == set(range(len(groups)))
    assert told["rows"] == len(beats)
    assert told["said"].startswith("Every group has an answer: ")
    assert "They cover 100% of the beats." in told["said"]
    assert told["more"] is False


def branch(page: LabelPage, group: int, top: int) -> int | None:
    """Return the child of ``top`` that holds a group, None where none does."""
    path = page.groups.path(group)
    return next((one for one in path if int(page.groups.parent[one]) == top), None)


def test_a_mixed_group_is_split(setting: Setting) -> None:
    told, page = setting.told["split"], setting.page
    groups = page.groups
    assert told["whole"]["group"] == 0
    held = branch(page, int(groups.leaf[told["whole"]["beat"]]), 0)
    found = branch(page, told["part"]["group"], 0)
    assert {held, found} == {1, 2}
    parts = [branch(page, one, told["then"]["group"]) for one in told["parts"]]
    assert None not in parts
    assert len(set(parts)) == 2


def test_groups_are_merged(setting: Setting) -> None:
    told = setting.told["merge"]
    one, two, three = told["beats"]
    assert told["chosen"] == ["N", "V", "F"]
    assert told["merged"] == ["N", "V", "V"]
    assert told["file"]["text"] == expected_csv(setting.page, {one: "N", two: "V", three: "V"}, (three,))
    assert told["at"] == two
    assert told["followed"] == ["N", "A", "A"]
    assert told["undone"] == ["N", "V", "F"]
    assert told["choices"] == [3, 3, 3]


def test_another_tab_is_heard_and_never_written_over(setting: Setting) -> None:
    told = setting.told["tabs"]
    assert told["heard"]["answered"] == "N"
    assert told["heard"]["said"].startswith("Another tab of this page changed the answers.")
    assert told["stale"]["answered"] == "NV"
    assert "your last change was not made" in told["stale"]["said"]
    assert told["goesOn"] == "NVF"


def test_a_browser_that_keeps_nothing_is_said(setting: Setting) -> None:
    told = setting.told["unkept"]
    assert told["said"].startswith("This browser keeps nothing for this page")
    assert told["many"] == 2
    for one in told["left"]:
        assert one["there"] is True
        assert one["asked"] is True
        assert one["said"].startswith("What this browser had kept for this recording could not be read")
    moved = told["moved"]
    taken = re.search(r"held 8 answers .* for beats of this page too, and taken over: (\d)\.", moved["said"])
    assert taken
    assert 0 < int(taken[1]) == len(moved["after"])
    assert set(moved["after"]) <= set(moved["before"])
    assert moved["kept"] == 2


def test_a_double_click_answers_once(setting: Setting) -> None:
    told = setting.told["double"]
    assert (told["many"], told["then"]) == (1, 2)
    assert told["said"].startswith("Not taken")


def test_single_keys_can_be_turned_off(setting: Setting) -> None:
    told = setting.told["keys"]
    codes = told.pop("codes")
    assert told == {"off": 0, "capital": 1, "chorded": 1, "artifact": ["N", "|"], "slash": ["N", "|", "/"]}
    assert codes == ["N", "|", "/", "a", "J", "j", "e"]  # E, a ventricular escape beat, is no answer of the page


def test_the_scale_of_the_paper_is_the_same_for_every_question(setting: Setting) -> None:
    scales = setting.told["scale"]
    assert len(scales["strip"]) == COUNT
    for name, measured in scales.items():
        assert len(measured) > 1, name
        assert measured == pytest.approx([measured[0]] * len(measured), rel=1e-3), name
    assert scales["average"][0] == pytest.approx(scales["odd"][0], rel=1e-3)


def test_it_fits_desktop_tablet_and_phone(setting: Setting) -> None:
    for name, one in setting.told["sizes"].items():
        assert one["overflow"] == one["width"], name
        assert one["targets"] == [], name
        assert one["strip"]["inside"], name
        assert one["turned"], name
        assert one["strip"]["mm"] >= 164.9, name
        assert "the one asked about at" in one["strip"]["said"]
        assert one["buttons"], name  # answers are in sight without scrolling


def test_the_accessibility_checker_finds_nothing(setting: Setting) -> None:
    assert len(setting.told["accessible"]) == 6
    for when, found in setting.told["accessible"].items():
        assert found == [], when


def test_words_of_a_recording_are_words(setting: Setting) -> None:
    told = setting.told["hostile"]
    assert told["hacked"] is False
    assert told["images"] == 0
    assert told["heading"] == f"Label beats: {HOSTILE}"
    assert len(rows(told["file"]["text"])) == 2


def test_it_respects_less_motion_and_prints_the_answers(setting: Setting) -> None:
    told = setting.told["motion"]
    assert told["usual"] != "0s"
    assert told["reduced"] == "0s"
    assert told["printed"] == {"question": False, "answered": True, "use": True}


def test_served_every_answer_is_in_the_file_at_once(setting: Setting) -> None:
    told = setting.told["served"]
    assert told["lines"] == [1, 2, 3, 4]
    file = setting.served.file
    assert file.name == "208-labels.csv"
    assert told["begin"] == f"Every answer is written to {file} at once."
    assert told["file"]["text"] == expected_csv(setting.page, python_asks(setting.page, setting.truth, 4)[1])
    assert "your last change was not made" in told["raced"]["said"]
    assert len(told["raced"]["answered"]) == 5
    assert told["raced"]["answered"][-1] == "V"
    assert told["offline"]["kept"].startswith(f"Not yet in {file}: the program that opened this page")
    assert (told["offline"]["csv"], told["offline"]["then"]) == (5, 6)
    assert len(rows(told["end"]["csv"])) == COUNT
    assert told["closed"]["said"].startswith("The program has ended: nothing can be changed here.")
    assert (told["closed"]["question"], told["closed"]["more"]) == (False, False)
    assert told["closed"]["before"] == told["closed"]["after"] == COUNT
    assert told["end"]["csv"].replace("\r\n", "\n") == setting.labels
    assert (setting.served.labels, setting.served.ended) == (COUNT, "done")
