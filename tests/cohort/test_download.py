"""Fetching the database from a server of our own: resumed, verified, and nothing kept that is wrong."""

import hashlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses

from ecgfed.base.errors import CohortError, MissingExtraError, StorageError
from ecgfed.domain.cohort import cifar_files, download
from ecgfed.domain.cohort.databases import MITBIH, QTDB
from ecgfed.tasks.prepare_databases import prepare_mitbih

FILES = {"100.atr": b"short", "100.dat": np.random.default_rng(0).bytes(300_000), "100.hea": b"100 2 360 650000\n"}


@dataclass
class Server:
    """What the server holds, how it behaves, and what it was asked: (name, its Range header)."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    ranges: bool = True
    break_off_after: int | None = None


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine that knows Range, and can break off in the middle of a file."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, asked = self.path.rsplit("/", 1)[1], self.headers.get("Range")
            state.asked.append((name, asked))
            if name not in state.files:
                self.send_error(404)
                return
            body, code = state.files[name], 200
            if asked and state.ranges:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                if start >= len(body):
                    self.send_error(416)
                    return
                body, code = body[start:], 206
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if state.break_off_after is None else body[: state.break_off_after])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}/mitdb"
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield state
        http.shutdown()


@pytest.fixture(autouse=True)
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    monkeypatch.setattr(download, "package_sha256", lambda database: table if database is MITBIH else {})
    monkeypatch.setenv("no_proxy", "*")


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fails(server: Server, folder: Path, url: str | None = None) -> tuple[str, str | None]:
    with pytest.raises(StorageError) as caught:
        download.download_database(MITBIH, folder, base_url=url or server.url)
    return caught.value.code, caught.value.parameter


@pytest.mark.parametrize("slash", ["", "/"])
def test_every_file_is_fetched_whole_and_progress_is_told(server: Server, tmp_path: Path, slash: str) -> None:
    told: list[tuple[str, int, int]] = []
    fetched = download.download_database(
        MITBIH, tmp_path / "new" / "mitdb", base_url=server.url + slash, on_progress=lambda *about: told.append(about)
    )
    assert fetched == 3
    assert held(tmp_path / "new" / "mitdb") == FILES
    assert told == [("100.atr", 1, 3), ("100.dat", 2, 3), ("100.hea", 3, 3)]
    assert server.asked == [(name, None) for name in FILES]


def test_files_that_are_right_are_left_alone_and_wrong_ones_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "100.atr").write_bytes(FILES["100.atr"])
    (tmp_path / "100.hea").write_bytes(b"an older header\n")
    assert download.download_database(MITBIH, tmp_path, base_url=server.url) == 2
    assert held(tmp_path) == FILES
    assert [name for name, _ in server.asked] == ["100.dat", "100.hea"]
    assert download.download_database(MITBIH, tmp_path, base_url=server.url) == 0


@pytest.mark.parametrize(("size", "ranges"), [(123_456, True), (123_456, False), (300_000, True)])
def test_a_part_is_continued_where_it_stopped(server: Server, tmp_path: Path, size: int, ranges: bool) -> None:
    """A server without Range sends it all again; what is whole already is only verified."""
    server.ranges = ranges
    (tmp_path / "100.dat.part").write_bytes(FILES["100.dat"][:size])
    download.download_database(MITBIH, tmp_path, base_url=server.url)
    assert ("100.dat", f"bytes={size}-") in server.asked
    assert held(tmp_path) == FILES


@pytest.mark.parametrize("size", [1000, 300_000, 400_000])
def test_a_part_of_another_file_is_fetched_anew(server: Server, tmp_path: Path, size: int) -> None:
    (tmp_path / "100.dat.part").write_bytes(b"x" * size)
    download.download_database(MITBIH, tmp_path, base_url=server.url)
    assert held(tmp_path) == FILES
    assert [asked for name, asked in server.asked if name == "100.dat"] == [f"bytes={size}-", None]


def test_a_connection_that_breaks_off_keeps_what_came_and_the_next_run_goes_on(server: Server, tmp_path: Path) -> None:
    server.break_off_after = 100_000
    assert fails(server, tmp_path) == ("storage", None)
    assert held(tmp_path) == {"100.atr": FILES["100.atr"], "100.dat.part": FILES["100.dat"][:100_000]}
    assert fails(server, tmp_path) == ("storage", None)
    server.break_off_after = None
    server.asked.clear()
    download.download_database(MITBIH, tmp_path, base_url=server.url)
    assert server.asked == [("100.dat", "bytes=200000-"), ("100.hea", None)]
    assert held(tmp_path) == FILES


def sums(files: dict[str, bytes]) -> bytes:
    """A list of digests as PhysioNet serves it, with files that are none of a record."""
    files = {"sel30.qt1": b"", "../sel31.dat": b"", "ANNOTATORS": b"", **files}
    return "".join(f"{hashlib.sha256(data).hexdigest()} {name}\n" for name, data in files.items()).encode()


def test_without_all_digests_the_served_list_decides_and_the_package_over_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = {"sel30.atr": b"marks", "sel30.hea": b"sel30 2 250\n"}
    server.files = {**records, "SHA256SUMS.txt": sums(records)}
    assert download.download_database(QTDB, tmp_path, base_url=server.url) == 2
    assert held(tmp_path) == server.files
    assert download.download_database(QTDB, tmp_path, base_url=server.url) == 0
    published = {"sel30.atr": hashlib.sha256(b"other marks").hexdigest()}
    monkeypatch.setattr(download, "package_sha256", lambda _: published)
    with pytest.raises(StorageError, match=r"sel30\.atr: is not the published file"):
        download.download_database(QTDB, tmp_path, base_url=server.url)
    server.files["SHA256SUMS.txt"] = b"<html>no list</html>"
    with pytest.raises(CohortError, match="lists no record of the QT Database"):
        download.download_database(QTDB, tmp_path, base_url=server.url)


def test_a_file_that_is_not_the_published_one_is_not_kept(server: Server, tmp_path: Path) -> None:
    """One that was there before, wrong too, stays until the right one has come."""
    (tmp_path / "100.dat").write_bytes(b"mine")
    server.files["100.dat"] = b"x" + FILES["100.dat"][1:]
    assert fails(server, tmp_path) == ("storage", None)
    assert held(tmp_path) == {"100.atr": FILES["100.atr"], "100.dat": b"mine"}
    assert [name for name, _ in server.asked].count("100.dat") == 1


def test_a_missing_file_on_the_server(server: Server, tmp_path: Path) -> None:
    del server.files["100.dat"]
    assert fails(server, tmp_path) == ("storage", None)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mitdb", "nonsense", "http://", "http://a b/", "ftpx://host/"])
def test_an_address_without_a_server_is_one_line(server: Server, tmp_path: Path, url: str) -> None:
    assert fails(server, tmp_path / "mitdb", url) == ("storage", None)
    assert held(tmp_path / "mitdb") == {}


def test_a_server_that_speaks_no_http(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        BaseHTTPRequestHandler, "handle_one_request", lambda self: self.wfile.write(b"SSH-2.0-none\r\n\r\n")
    )
    monkeypatch.setattr(BaseHTTPRequestHandler, "handle", lambda self: self.handle_one_request())
    assert fails(server, tmp_path) == ("storage", None)


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "mitdb"):
        assert fails(server, folder) == ("storage", None)
    assert server.asked == []


def test_the_cifar_archive_is_resumed_and_compared_with_its_md5(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, body = cifar_files.BINARY_ARCHIVE, np.random.default_rng(1).bytes(200_000)
    monkeypatch.setitem(cifar_files.ARCHIVE_MD5, name, hashlib.md5(body).hexdigest())
    server.files[name] = body
    server.break_off_after = 70_000
    told: list[tuple[str, int, int]] = []
    with refuses(StorageError, "storage"):
        cifar_files.download_cifar10(tmp_path / "new", base_url=server.url)
    server.break_off_after = None
    found = cifar_files.download_cifar10(tmp_path / "new", base_url=server.url, on_progress=lambda *a: told.append(a))
    assert found.read_bytes() == body
    assert server.asked[-1] == (name, "bytes=70000-")
    assert told[-1] == (name, 200_000, 200_000)
    asked = len(server.asked)
    cifar_files.download_cifar10(tmp_path / "new", base_url=server.url)
    assert len(server.asked) == asked  # it is there, and right
    monkeypatch.setitem(cifar_files.ARCHIVE_MD5, name, "0" * 32)
    with refuses(StorageError, "storage"):
        cifar_files.download_cifar10(tmp_path / "other", base_url=server.url)
    assert held(tmp_path / "other") == {}


def test_nothing_is_fetched_where_it_could_not_be_read(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wfdb", None)
    with refuses(MissingExtraError, "missing-extra"):
        prepare_mitbih(tmp_path / "records", tmp_path / "cohort", download=True, url=server.url)
    assert server.asked == []
    assert list(tmp_path.iterdir()) == []
