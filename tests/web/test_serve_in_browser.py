"""The page of ``serve`` in headless Chromium: from a board's table to its report and replay, by keyboard.

``make browser`` brings Chromium and the packages of ``tests/browser``.
"""

import threading
from typing import Any

import numpy as np
import pytest
from browser_driver import chromium_path, driven, driver_path

import ecgfed
from ecgfed.tasks.serve import serve

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    chromium_path(), driver_path()
    folder = tmp_path_factory.mktemp("serve")
    ecgfed.prepare_demo(folder / "cohort", records=folder / "records", patients=1, minutes=1, workers=1)
    record = folder / "records" / "demo01"
    signal = ecgfed.read_recording(record).signal_mv
    board = folder / "board.csv"
    # a board that states the time of each sample in whole milliseconds, and steps of its converter
    rows = [f"{round(i * 1000 / 360)},{round(float(v) * 200) + 512}" for i, v in enumerate(np.asarray(signal))]
    board.write_text("\n".join(["millis,ecg", *rows]) + "\n")
    bad = folder / "<img src=x onerror=window.hacked=1>.dat"
    bad.write_bytes(b"no recording")
    address: list[str] = []
    there = threading.Event()

    def opened(where: str) -> None:
        address.append(where)
        there.set()

    thread = threading.Thread(target=lambda: serve(folder / "work", opened=opened, idle_s=240), daemon=True)
    thread.start()
    assert there.wait(60)
    files = [str(record.with_suffix(end)) for end in (".hea", ".dat")]
    given = {"address": address[0], "board": [str(board)], "recording": files, "bad": [str(bad)]}
    result = driven("serve.mjs", given, folder, timeout_s=500)
    thread.join(30)
    assert not thread.is_alive()
    return result


def test_it_asks_for_everything_and_reads_the_clock(told: dict[str, Any]) -> None:
    assert told["invalid"] == ["units"]
    assert len(told["missing"]) == 1
    assert "ecg" in told["previewed"]


def test_the_report_and_the_replay_are_reached_by_keyboard(told: dict[str, Any]) -> None:
    assert told["reached"]
    assert "board" in told["report"]
    assert sum(int(row[1]) for row in told["replayed"]) > 50


def test_two_tabs_have_each_a_replay_and_see_the_present_form(told: dict[str, Any]) -> None:
    assert told["ended"][0] == told["ended"][1]
    (line,) = told["stale"]
    assert "\n" not in line


def test_a_sample_recording_is_added_by_keyboard(told: dict[str, Any]) -> None:
    assert told["sample"]


def test_no_accessibility_problem_and_no_error(told: dict[str, Any]) -> None:
    assert told["axe"] == {"empty": [], "form": [], "reported": [], "replayed": [], "sample": []}
    assert [error for error in told["errors"] if "status of 4" not in error] == []
    assert all(width <= 390 for width in told["widths"].values())
    assert told["widths"]["small"] <= 320


def test_no_link_leads_to_a_program_that_has_ended(told: dict[str, Any]) -> None:
    assert told["links"] > 0
    assert told["linksAtEnd"] == 0


def test_it_asks_its_own_server_alone(told: dict[str, Any]) -> None:
    assert len(set(told["requests"])) == 1
    assert "\n" not in told["problem"]
