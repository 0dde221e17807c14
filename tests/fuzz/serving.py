"""What a browser may send to ``label --serve``: a page's server in this process, and requests to it, spoiled."""

import http.client
import json
import socket
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FOLDER = Path("served")
DATA: dict[str, Any] = {
    "recording": "ab" * 16,
    "digest": "cd" * 16,
    "beats": 10,
    "labels": [{"symbol": symbol} for symbol in ("N", "V", "|", "?")],
    "fs": 360,
    "points": {"3": {"sample": 900, "time_s": 2.5}, "7": {"sample": 2101, "time_s": 5.836}},
}
_ACTION = {"do": "answer", "group": 0, "label": "N"}
_ABOUT = {"version": 1, "recording": DATA["recording"], "groups": DATA["digest"]}
_TIMEOUT_S = 5.0


def write_served(world: Path) -> None:
    """Write an earlier day's answers, what the page posts next, and a request as it stands on the wire."""
    from ecgfed.tasks.label_server import labels_csv

    folder = world / FOLDER
    folder.mkdir()
    first = [[900, "N", 10, "clinician"]]
    earlier = {**_ABOUT, "revision": 1, "cursor": 1, "actions": [_ACTION], "given": [[900, "N"]]}
    (folder / "r-labels.csv").write_bytes(labels_csv(DATA, first))
    (folder / "r-labels.answers.json").write_text(json.dumps(earlier) + "\n")
    kept = {
        **_ABOUT,
        "revision": 2,
        "cursor": 2,
        "actions": [_ACTION, {**_ACTION, "group": 1, "label": "V"}],
        "given": [],
    }
    body = {"base": 2, "kept": kept, "rows": [[900, "N", 7, "clinician"], [2101, "V", 3, "merged"]]}
    (folder / "post.json").write_text(json.dumps(body, indent=1) + "\n")
    text = json.dumps({**body, "kept": {**kept, "revision": 2}, "base": 1})
    head = ("POST /TOKEN/save HTTP/1.1", "Host: 127.0.0.1:PORT", "Origin: http://127.0.0.1:PORT",
            "Content-Type: application/json", f"Content-Length: {len(text)}")  # fmt: skip
    (folder / "request.http").write_bytes(("\r\n".join(head) + "\r\n\r\n" + text).encode())


def serve_spoiled() -> None:
    """Serve a page, send it what lies in the folder, and hold that the labels' file is what the server says it is."""
    from ecgfed.base.errors import EcgfedError, RecordError
    from ecgfed.domain.labels.user_labels import read_user_labels
    from ecgfed.tasks.label_server import serve

    file, said = FOLDER / "r-labels.csv", []

    def opened(address: str) -> None:
        threading.Thread(target=_ask, args=(address, said), daemon=True).start()

    try:
        serve("<!DOCTYPE html><title>beats</title>", DATA, file, opened=opened, idle_s=3 * _TIMEOUT_S)
    except EcgfedError as problem:
        sys.stderr.write(f"ecgfed: {problem.line}\n")
        raise SystemExit(2) from problem
    *statuses, state = said
    sys.stdout.write(json.dumps(said) + "\n")
    if 500 in statuses or state["kept"] is None:
        raise AssertionError(f"the server answered {statuses} and holds {state}")
    try:
        rows = [[answer.sample, answer.label] for answer in read_user_labels(file)]
    except RecordError:  # a table without a label
        rows = []
    if rows != state["kept"]["given"]:
        raise AssertionError(f"the file holds {rows}, the server {state['kept']['given']}")


def _ask(address: str, said: list[object]) -> None:
    """Send the request as it stands, then the page's post; ask for the state, and end the server."""
    place = urlsplit(address)
    port = int(place.port or 0)
    raw = _contents(FOLDER / "request.http")
    raw = raw.replace(b"TOKEN", place.path.strip("/").encode()).replace(b"PORT", str(port).encode())
    said.append(_raw(port, raw))
    said.append(_post(address, "save", _contents(FOLDER / "post.json"))[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    connection.request("GET", f"{place.path}state")
    state = json.loads(connection.getresponse().read())
    connection.close()
    said.append(state)  # before the end, which serve_spoiled goes on from
    _post(address, "done", b"{}")


def _contents(path: Path) -> bytes:
    """Return what the harness itself sends; a link is not followed, since the server never reads these files."""
    regular = path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 30
    return path.read_bytes() if regular else b""


def _raw(port: int, data: bytes) -> int:
    """Return the status that bytes on the wire get, 0 where they get none."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as wire:
        try:
            wire.sendall(data)
            wire.shutdown(socket.SHUT_WR)
            with wire.makefile("rb") as reply:
                words = reply.readline(1000).split()
        except OSError:  # it hung up before all was sent
            return 0
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _post(address: str, what: str, body: bytes) -> tuple[int, bytes]:
    place = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=_TIMEOUT_S)
    headers = {"Origin": f"http://127.0.0.1:{place.port}", "Content-Type": "application/json"}
    try:
        connection.request("POST", f"{place.path}{what}", body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (BrokenPipeError, ConnectionResetError):  # too large: refused before all was sent
        return 0, b""
    finally:
        connection.close()
