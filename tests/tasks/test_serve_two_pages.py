"""``serve`` with two pages open, pages that are gone, errors of ecgfed itself, and the sample recording."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import served_work
from served_work import Work, announce, files_of

import ecgfed
from ecgfed.tasks import serve_folder, serve_replay
from ecgfed.tasks.progress import ProgressReporter
from ecgfed.tasks.serve_jobs import Jobs
from ecgfed.tasks.serve_replay import Replays
from ecgfed.web.samples import packed

demo, work = served_work.demo, served_work.work


@pytest.fixture
def recording(work: Work, demo: Path) -> str:
    identifier: str = work.add(*files_of(demo))[1]["recordings"][0]
    return identifier


def test_two_pages_replay_one_recording_each_from_its_beginning(work: Work, demo: Path, recording: str) -> None:
    signal = ecgfed.read_recording(demo, "MLII").signal_mv
    what = f"recordings/{recording}/replay"
    first, second = (work.post(what, {"begin": True})[1]["replay"] for _ in range(2))
    for at, replay in ((0, first), (0, second), (360, first), (720, first), (360, second)):
        status, part = work.post(what, {"replay": replay, "at": at, "seconds": 1})
        assert (status, part["at"]) == (200, at + 360)
        assert part["samples"] == packed(np.array(signal[at : at + 360]))
    assert work.post(what, {"replay": first, "end": True})[0] == 200
    assert work.post(what, {"replay": first, "at": 1080, "seconds": 1})[0] == 409
    assert work.post(what, {"replay": second, "pause": True})[0] == 200
    assert work.post(f"recordings/{recording}/read", {"lead": "V1"})[0] == 200
    assert work.post(what, {"replay": second, "at": 720, "seconds": 1})[0] == 409


def test_a_replay_is_forgotten_with_its_page_and_there_are_not_too_many(
    work: Work, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[Replays] = []
    monkeypatch.setattr(Replays, "end_abandoned", _noting(Replays.end_abandoned, known))
    what = f"recordings/{recording}/replay"
    begun = [work.post(what, {"begin": True}) for _ in range(serve_replay.MAX_REPLAYS + 1)]
    assert [status for status, _ in begun] == [200] * serve_replay.MAX_REPLAYS + [409]
    assert len(known[0]) == serve_replay.MAX_REPLAYS
    monkeypatch.setattr(serve_replay, "REPLAY_IDLE_S", -1.0)
    work.state()
    assert len(known[0]) == 0


def _noting(method: Callable[[Replays], None], known: list[Replays]) -> Callable[[Replays], None]:
    def end_abandoned(self: Replays) -> None:
        known.append(self)
        method(self)

    return end_abandoned


def test_a_page_that_shows_an_earlier_reading_is_refused_and_sees_the_present_one(work: Work, recording: str) -> None:
    shown = work.entry(recording)["revision"]
    status, read = work.post(f"recordings/{recording}/read", {"lead": "V1", "revision": shown})
    assert (status, read["revision"] > shown) == (200, True)
    for what, sent in (("read", {"lead": "MLII"}), ("report", {}), ("replay", {"begin": True})):
        status, refused = work.post(f"recordings/{recording}/{what}", {**sent, "revision": shown})
        assert (status, refused["stale"]) == (409, True)
        assert "\n" not in refused["said"]
    entry = work.entry(recording)
    assert (entry["revision"], entry["how"]["lead"], work.state()["jobs"]) == (read["revision"], "V1", [])
    # the same values again are no other reading
    assert work.post(f"recordings/{recording}/read", {"lead": "V1", "revision": read["revision"]})[1] == read


def test_an_upload_that_is_cut_leaves_nothing(work: Work) -> None:
    number = announce(work, "a.edf", "b.edf")[1]["upload"]
    assert work.send(number, 0, b"abc")[0] == 200
    path = work.address.removeprefix(work.origin) + f"upload/{number}/1"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{work.port}\r\nOrigin: {work.origin}\r\n"
    with socket.create_connection(("127.0.0.1", work.port), timeout=10) as wire:
        wire.sendall(f"{head}Content-Type: application/octet-stream\r\nContent-Length: 3\r\n\r\na".encode())
    _wait(lambda: not list((work.folder / "uploads").iterdir()))
    assert work.post(f"upload/{number}/done", {})[0] == 404


def test_an_upload_whose_page_is_gone_is_removed_and_finished_ones_stay(
    work: Work, demo: Path, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _contents(work.folder)
    announce(work, "a.edf")
    assert _contents(work.folder) == before
    assert len(list((work.folder / "uploads").iterdir())) == 2
    work.state()
    assert len(list((work.folder / "uploads").iterdir())) == 2  # it may go on
    monkeypatch.setattr(serve_folder, "UPLOAD_IDLE_S", -1.0)
    work.state()
    assert [folder.name for folder in (work.folder / "uploads").iterdir()] == ["0001"]
    monkeypatch.undo()
    # and at the next start what a kill left, whatever the recordings' own files say
    number = announce(work, "a.edf")[1]["upload"]
    assert work.send(number, 0, b"abc")[0] == 200
    work.end()
    (work.folder / "uploads" / "mine.part").mkdir()
    again = Work(folder=work.folder).start()
    assert sorted(folder.name for folder in (work.folder / "uploads").iterdir()) == ["0001", "mine.part"]
    assert _contents(work.folder) == before
    assert again.entry(recording)["stated"]
    again.end()


def test_files_that_are_no_recording_are_not_stored(work: Work, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("nothing")
    assert work.add(tmp_path / "notes.md")[0] == 400
    assert list((work.folder / "uploads").iterdir()) == []


def _contents(folder: Path) -> dict[str, bytes]:
    hidden = ("server", ".")
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(hidden)]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def _wait(reached: Callable[[], bool]) -> None:
    for _ in range(500):
        if reached():
            return
        time.sleep(0.02)
    raise AssertionError


def test_an_error_of_ecgfed_is_answered_in_a_line_with_its_traceback_in_the_terminal(
    work: Work, recording: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("ecgfed.tasks.serve_tasks.file_summary", lambda *_, **__: 1 / 0)
        status, refused = work.post(f"recordings/{recording}/read", {})
    assert (status, "\n" in refused["said"]) == (500, False)
    terminal = capfd.readouterr().err
    assert "Traceback" in terminal
    assert "ZeroDivisionError" in terminal
    assert work.address not in terminal
    assert work.post(f"recordings/{recording}/read", {})[0] == 200


def test_of_two_jobs_sent_at_once_for_a_recording_one_is_done(
    work: Work, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr("ecgfed.tasks.serve_tasks.report", lambda *_, **__: go_on.wait(20) and 1 / 0)
    together = threading.Barrier(6)

    def send(_: int) -> int:
        together.wait()
        return work.post(f"recordings/{recording}/report", {})[0]

    with ThreadPoolExecutor(6) as pool:
        statuses = sorted(pool.map(send, range(6)))
    assert statuses == [200, 409, 409, 409, 409, 409]
    assert work.post(f"recordings/{recording}/read", {"lead": "V1"})[0] == 409
    # the end of the program is refused once while a job runs, and stops it on the second request
    status, refused = work.post("done", {})
    assert (status, refused["busy"]) == (409, True)
    go_on.set()
    assert work.post("done", {"stop": True})[0] == 200
    work.thread.join(30)
    assert work.ended[0].ended == "done"


def test_jobs_that_wait_at_the_end_are_stopped_and_none_is_added_after_it() -> None:
    jobs, running, done = Jobs(), threading.Event(), []

    def work(progress: ProgressReporter) -> dict[str, Any]:
        running.set()
        while True:
            progress.update("steps", 1, 2)

    first, second = jobs.add("a", "report", work), jobs.add("b", "report", lambda _: done.append(1) or {})
    running.wait(10)
    jobs.close()
    assert (first.state, second.state, done, jobs.busy) == ("stopped", "stopped", [], False)
    with pytest.raises(Exception, match="ends"):
        jobs.add("c", "report", work)


def test_the_sample_recording_is_the_first_of_prepare_demo(work: Work, tmp_path: Path) -> None:
    status, added = work.post("sample", {})
    assert status == 200
    entry = work.entry(added["recordings"][0])
    assert (entry["stated"], entry["facts"]["synthetic"], entry["facts"]["duration_s"]) == (True, True, 300)
    ecgfed.prepare_demo(tmp_path / "cohort", records=tmp_path / "records", patients=1, minutes=5, workers=1)
    for file in (work.folder / "uploads" / "0001").iterdir():
        assert file.read_bytes() == (tmp_path / "records" / file.name).read_bytes()
