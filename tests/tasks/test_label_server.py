"""Serving the labelling page: whom it answers, what it writes, and when it ends."""

import csv
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fuzz.serving import DATA
from local_page import Page

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.tasks.label_server import Served, actions_file, labels_csv, serve
from ecgfed.tasks.local_connections import MAX_HEAD_BYTES, MAX_WAITING
from ecgfed.tasks.local_server import MAX_BYTES

PAGE = "<!DOCTYPE html><title>beats</title>"
ROWS = [[900, "N", 7, "clinician"], [2101, "|", 3, "merged"]]


def kept(revision: int = 1, **more: Any) -> dict[str, Any]:
    actions = [{"do": "answer", "group": 0, "label": "N"}] * revision
    about = {"version": 1, "recording": DATA["recording"], "groups": DATA["digest"]}
    return {**about, "revision": revision, "cursor": revision, "actions": actions, "given": [[900, "N"]], **more}


@dataclass
class Running(Page):
    """A server in a thread."""

    file: Path = Path()
    idle_s: float = 60.0
    overwrite: bool = False
    ended: list[Served] = field(default_factory=list)

    def start(self) -> "Running":
        there = threading.Event()

        def opened(address: str) -> None:
            self.address = address
            there.set()

        def work() -> None:
            found = serve(PAGE, DATA, self.file, opened=opened, idle_s=self.idle_s, overwrite=self.overwrite)
            self.ended.append(found)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()
        assert there.wait(10)
        return self

    def end(self) -> Served:
        self.post("done", {})
        self.thread.join(10)
        return self.ended[0]


def answered(file: Path, revision: int = 1, rows: list[Any] = ROWS) -> None:
    """Serve the page once, and save answers."""
    server = Running(file).start()
    server.post("save", {"base": 0, "kept": kept(revision), "rows": rows})
    server.end()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path / "208-labels.csv").start()
    yield server
    if not server.ended:
        server.end()


def test_it_listens_on_loopback_alone_with_a_secret_address(running: Running, tmp_path: Path) -> None:
    other = Running(tmp_path / "other.csv").start()
    assert running.address.startswith("http://127.0.0.1:")
    tokens = [one.address.split("/")[3] for one in (running, other)]
    assert tokens[0] != tokens[1]
    assert all(len(one) >= 43 for one in tokens)  # 256 bits
    other.end()


def test_it_gives_the_page_and_says_how_a_browser_may_use_it(running: Running) -> None:
    status, told, headers = running.ask("GET", "")
    assert (status, told) == (200, PAGE)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert running.ask("GET", "state")[1] == {"kept": None}


@contextmanager
def strangers(port: int, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections of who does not know the token, each of which has sent something and no whole request."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            one.sendall(sent)
            opened.append(one)
        yield opened


def send_slowly(connection: socket.socket) -> None:
    """Send a byte now and then, for ten seconds."""
    for _ in range(200):
        connection.sendall(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize("count", [16, 40, 2 * MAX_WAITING])
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /",
        b"GET /wrong/ HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /wrong/save HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000000\r\n\r\n{",
    ],
    ids=["nothing", "a little", "half a head", "a body that does not come"],
)
def test_slow_connections_without_the_token_do_not_hold_up_the_page(running: Running, count: int, sent: bytes) -> None:
    """However many there are: before, sixteen took every place for twenty seconds and longer."""
    with strangers(running.port, count, sent):
        assert running.ask("GET", "")[:2] == (200, PAGE)
        assert running.post("save", {"base": 0, "kept": kept(), "rows": ROWS}) == (200, {"revision": 1})
        assert running.ask("GET", "state")[1]["kept"]["revision"] == 1
    assert running.file.exists()


def test_one_who_goes_on_sending_slowly_is_dropped(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time; the whole of it does not."""
    monkeypatch.setattr("ecgfed.tasks.local_connections.HEAD_S", 0.5)
    with strangers(running.port, 1, b"GET /") as (slow,), pytest.raises(OSError, match=r"Broken pipe|reset"):
        send_slowly(slow)


def test_a_head_without_an_end_is_dropped(running: Running) -> None:
    sent = b"GET /" + b"x" * (MAX_HEAD_BYTES + 1)
    with strangers(running.port, 1, sent) as (long,), suppress(ConnectionError):  # not all of it may have been read
        assert long.recv(100) == b""
    assert running.ask("GET", "")[0] == 200


def test_the_owners_body_has_its_time_too(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecgfed.tasks.local_connections.REQUEST_S", 0.5)
    path = running.address.removeprefix(running.origin)
    head = f"POST {path}save HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nOrigin: {running.origin}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    with strangers(running.port, 1, head.encode()) as (slow,), pytest.raises(OSError, match=r"Broken pipe|reset"):
        send_slowly(slow)
    assert not running.file.exists()
    assert running.ask("GET", "")[0] == 200


@pytest.mark.parametrize("junk", [b"\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_no_request_ends_nothing(running: Running, junk: bytes) -> None:
    with strangers(running.port, 3, junk) as opened:
        for one in opened:
            with suppress(ConnectionError):
                one.recv(1000)
        assert running.ask("GET", "")[:2] == (200, PAGE)


def test_an_answer_is_on_the_disk_when_it_is_told_so(running: Running) -> None:
    assert not running.file.exists()
    assert running.post("save", {"base": 0, "kept": kept(), "rows": ROWS}) == (200, {"revision": 1})
    assert running.file.read_bytes() == (
        b"recording,sample,time_s,label,beats,source\r\n"
        + f"{DATA['recording']},900,2.500,N,7,clinician\r\n{DATA['recording']},2101,5.836,|,3,merged\r\n".encode()
    )
    assert [row["label"] for row in csv.DictReader(io.StringIO(running.file.read_text()))] == ["N", "|"]
    assert running.ask("GET", "state")[1]["kept"]["revision"] == 1
    ended = running.end()
    assert (ended.labels, ended.ended, ended.file) == (2, "done", running.file)


def test_newer_answers_are_not_written_over(running: Running) -> None:
    running.post("save", {"base": 0, "kept": kept(1), "rows": ROWS})
    running.post("save", {"base": 1, "kept": kept(2), "rows": [[900, "V", 10, "clinician"]]})
    status, told = running.post("save", {"base": 1, "kept": kept(2), "rows": ROWS})
    assert status == 409
    assert told["kept"]["revision"] == 2
    assert b",V,10," in running.file.read_bytes()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),  # DNS rebinding
        ({"Host": "127.0.0.1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),  # what a form of another site can send
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Length": "many"}, 411),
        ({"Content_Length": str(MAX_BYTES + 1)}, 413),
        ({"Transfer_Encoding": "chunked"}, 411),
    ],
)
def test_who_may_not_is_refused_and_nothing_is_written(running: Running, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"base": 0, "kept": kept(), "rows": ROWS}).encode()
    assert running.ask("POST", "save", body, **headers)[0] == status
    assert not running.file.exists()


@pytest.mark.parametrize(
    "path", ["/", "/save", "/state", "/wrong-token/", "/wrong-token/state", "//", "/../etc/passwd"]
)
def test_without_the_token_there_is_nothing(running: Running, path: str) -> None:
    status, told, _ = running.ask("GET", path)
    assert (status, told) == (404, {"said": "nothing here"})
    body = json.dumps({"base": 0, "kept": kept(), "rows": ROWS}).encode()
    assert running.ask("POST", path, body)[0] == 404
    assert running.ask("GET", running.address.removeprefix(running.origin)[:-1])[0] == 404
    assert not running.file.exists()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD"])
def test_other_methods_are_refused(running: Running, method: str) -> None:
    assert running.ask(method, "")[0] == 501


@pytest.mark.parametrize(
    "spoiled",
    [
        [],
        {"base": 0, "kept": kept()},
        {"base": -1, "kept": kept(), "rows": ROWS},
        {"base": 0, "kept": kept(recording="other"), "rows": ROWS},
        {"base": 0, "kept": kept(groups="other"), "rows": ROWS},
        {"base": 0, "kept": kept(revision=1, cursor=True), "rows": ROWS},
        {"base": 0, "kept": kept(), "rows": [[901, "N", 10, "clinician"]]},  # no beat that is asked for
        {"base": 0, "kept": kept(), "rows": [[900, "=cmd()", 10, "clinician"]]},
        {"base": 0, "kept": kept(), "rows": [[900, ["N"], 10, "clinician"]]},
        {"base": 0, "kept": kept(), "rows": [[900, "N", 10, "somebody"]]},
        {"base": 0, "kept": kept(), "rows": [[900, "N", 11, "clinician"]]},
        {"base": 0, "kept": kept(), "rows": [[900, "N", -1, "clinician"], [2101, "N", 11, "clinician"]]},
        {"base": 0, "kept": kept(), "rows": ROWS[::-1]},
        {"base": 0, "kept": kept(), "rows": [ROWS[0], ROWS[0]]},
    ],
)
def test_what_is_not_of_the_page_is_refused(running: Running, spoiled: object) -> None:
    assert running.post("save", spoiled)[0] == 400
    assert not running.file.exists()
    assert running.ask("POST", "save", b"{")[0] == 400


def test_it_goes_on_another_day(tmp_path: Path) -> None:
    file = tmp_path / "208-labels.csv"
    answered(file, 3)
    second = Running(file).start()
    assert second.ask("GET", "state")[1]["kept"]["actions"] == kept(3)["actions"]
    assert second.end().labels == 2


def test_labels_of_somebody_else_are_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "208-labels.csv"
    file.write_text("mine\n")
    with pytest.raises(OptionError, match=r"without its 208-labels\.answers\.json"):
        serve(PAGE, DATA, file, opened=lambda _: None)
    actions_file(file).write_text(json.dumps(kept(groups="other")))
    with pytest.raises(OptionError, match="answers of another page"):
        serve(PAGE, DATA, file, opened=lambda _: None)
    assert file.read_text() == "mine\n"
    server = Running(file, overwrite=True).start()
    assert server.ask("GET", "state")[1] == {"kept": None}
    assert file.read_text() == "mine\n"
    server.post("save", {"base": 0, "kept": kept(), "rows": ROWS})
    assert file.read_bytes() == labels_csv(DATA, ROWS)
    server.end()
    again = Running(file, overwrite=True).start()  # its own answers are gone on with
    assert again.ask("GET", "state")[1]["kept"]["given"] == [[900, "N"], [2101, "|"]]
    again.end()
    actions_file(file).write_text("{")
    with pytest.raises(StorageError, match="cannot be read as JSON"):
        serve(PAGE, DATA, file, opened=lambda _: None)
    Running(file, overwrite=True).start().end()
    assert file.read_bytes() == labels_csv(DATA, ROWS)


@pytest.mark.parametrize("which", ["labels", "answers"])
def test_labels_are_no_link_out_of_their_folder(tmp_path: Path, which: str) -> None:
    file = tmp_path / "here" / "208-labels.csv"
    answered(file)
    linked = file if which == "labels" else actions_file(file)
    away = linked.rename(tmp_path / "away")
    linked.symlink_to(away)
    before = away.read_bytes()
    with pytest.raises(OptionError, match="is a link out of its folder"):
        serve(PAGE, DATA, file, opened=lambda _: None)
    assert away.read_bytes() == before


def test_labels_that_were_corrected_by_hand_are_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "208-labels.csv"
    answered(file)
    by_us = file.read_text()
    file.write_text(by_us.replace(",", ";"))  # a spreadsheet has saved it: the labels are the same
    assert Running(file).start().end().labels == 2
    file.write_text(by_us.replace(",N,", ",V,"))
    with pytest.raises(OptionError, match="has been changed since it was written"):
        serve(PAGE, DATA, file, opened=lambda _: None)
    assert ",V," in file.read_text()
    assert Running(file, overwrite=True).start().end().labels == 2
    file.unlink()  # moved away: nothing lies there, whatever is kept beside
    assert Running(file).start().end().labels == 0


def test_all_undone_is_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "208-labels.csv"
    answered(file, 2, [])
    assert Running(file).start().end().labels == 0
    file.write_text("mine\n")
    with pytest.raises(OptionError, match="has been changed since it was written"):
        serve(PAGE, DATA, file, opened=lambda _: None)


def test_a_disk_that_refuses_is_told_and_nothing_is_lost(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    running.post("save", {"base": 0, "kept": kept(1), "rows": ROWS})
    before = running.file.read_bytes()

    full = OSError(28, "No space left on device", str(running.file))
    for problem in (full, StorageError(running.file, "could not be written (No space left on device)")):

        def refuse(contents: object, problem: Exception = problem) -> None:
            raise problem

        with monkeypatch.context() as patched:
            patched.setattr("ecgfed.tasks.label_server.write_together", refuse)
            status, told = running.post("save", {"base": 1, "kept": kept(2), "rows": [[900, "V", 10, "clinician"]]})
        assert status == 507
        assert "No space left" in told["said"]
        assert str(running.file.parent) not in told["said"]
    assert running.file.read_bytes() == before
    assert running.post("save", {"base": 1, "kept": kept(2), "rows": [[900, "V", 10, "clinician"]]})[0] == 200


def test_it_ends_by_itself_when_nobody_asks(tmp_path: Path) -> None:
    server = Running(tmp_path / "labels.csv", idle_s=0.8).start()
    begun = time.monotonic()
    while time.monotonic() - begun < 1.6:  # an open page asks
        server.ask("GET", "alive")
        time.sleep(0.1)
    assert server.thread.is_alive()
    server.thread.join(10)
    assert server.ended[0] == Served(server.file, 0, "idle")
    assert not server.file.exists()
    with pytest.raises(OSError, match="refused"):
        server.ask("GET", "alive")


def test_ctrl_c_ends_it_and_keeps_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"

    def opened(address: str) -> None:
        running = Running(file, address=address)
        running.post("save", {"base": 0, "kept": kept(), "rows": ROWS})
        raise KeyboardInterrupt

    assert serve(PAGE, DATA, file, opened=opened) == Served(file, 2, "interrupted")
    assert file.read_bytes() == labels_csv(DATA, ROWS)
