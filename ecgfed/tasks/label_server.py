"""``label --serve``: a local server for the labelling page, which writes the label file after every label.

It listens on 127.0.0.1 only. Every path begins with a random token, known only from the page's address; requests with
another Host header (DNS rebinding), from another origin, or above the size limit are refused. Peers without the token
cannot delay the page (``ecgfed.tasks.label_connections``). The server ends on request of the page or after a time
without requests.
"""

import hmac
import io
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeGuard

from ecgfed.base.errors import EcgfedError, OptionError, RecordError, StorageError, param
from ecgfed.base.files import read_json, write_together
from ecgfed.base.safe_io import check_links, parse_json
from ecgfed.domain.labels.user_labels import SOURCES, UserLabel, label_table, read_user_labels
from ecgfed.tasks.label_connections import Connections, RestOfRequest

#: Seconds without a request after which the server ends; an open page sends one every 20 s.
IDLE_S = 300.0
#: Maximum size of a request in bytes: enough for 20,000 actions.
MAX_BYTES = 4_000_000
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Served:
    """Result of serving a page.

    Attributes:
        file: the label file.
        labels: number of labels in it; 0 if it does not exist because no beat was labelled.
        ended: ``done`` by the page, ``idle`` if no page was open any more, ``interrupted`` by the keyboard.
    """

    file: Path
    labels: int
    ended: str


def actions_file(labels_file: Path) -> Path:
    """Return the file beside the label file that stores every action, so that undo works in a later session."""
    return labels_file.with_suffix(".answers.json")


def labels_csv(data: Mapping[str, Any], rows: list[list[Any]]) -> bytes:
    """Return the label file (RFC 4180), identical to the page's download.

    Args:
        data: the page's data (``labels.page.page_data``).
        rows: sample, label, beats and source of each label, in order of time.
    """
    labels = [UserLabel(sample, label, beats, source, data["recording"]) for sample, label, beats, source in rows]
    return label_table(labels, data["fs"])


class _RefusedError(Exception):
    """A refused request, with the status and message of the response."""

    def __init__(self, status: HTTPStatus, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.response = status, {"said": message, **more}


class _LabelStore:
    """The label file of a page's data, and the action file beside it, for one writer at a time."""

    def __init__(self, data: Mapping[str, Any], file: Path, *, overwrite: bool) -> None:
        self.data, self.file, self.actions_path = data, file, actions_file(file)
        self.state: dict[str, Any] | None = None
        self.labels = 0
        self.lock = threading.Lock()
        self._samples = {point["sample"] for point in data["points"].values()}
        self._symbols = {entry["symbol"] for entry in data["labels"]}
        if file.is_dir() or (file.parent.exists() and not file.parent.is_dir()):
            raise OptionError("out", f"{file} cannot be a file", "a folder to write labels into")
        check_links(file.parent, [file.name, self.actions_path.name], OptionError)
        if file.exists() or self.actions_path.exists():
            self._resume(overwrite)

    def _resume(self, overwrite: bool) -> None:
        """Load the actions of an earlier session; refuse to overwrite labels that do not match them."""
        action = f"choose another {param('out')}, or pass {param('overwrite=True')}"
        stored = None
        if self.actions_path.is_file():
            try:
                stored = read_json(self.actions_path, StorageError)
            except StorageError:
                if not overwrite:
                    raise
        if self._is_valid(stored):
            if not overwrite and self.file.exists() and not self._file_matches(stored["given"]):
                expected = f"the labels of its {self.actions_path.name}, which the next answer would write there"
                reason = f"{self.file} has been changed since it was written"
                raise OptionError("out", reason, expected, action, code="exists")
            self.state, self.labels = stored, len(stored["given"])
        elif not overwrite and stored is not None:
            expected = "answers about this recording and its present groups"
            reason = f"{self.actions_path} holds answers of another page"
            raise OptionError("out", reason, expected, action, code="exists")
        elif not overwrite:
            problem = f"{self.file} is there, without its {self.actions_path.name}"
            allowed = f"a new file, or labels made with {param('serve')}"
            raise OptionError("out", problem, allowed, action, code="exists")

    def _is_valid(self, state: object) -> TypeGuard[dict[str, Any]]:
        return (
            isinstance(state, dict)
            and state.get("version") == 1
            and state.get("recording") == self.data["recording"]
            and state.get("groups") == self.data["digest"]
            and _is_count(state.get("revision"))
            and _is_count(state.get("cursor"))
            and isinstance(state.get("actions"), list)
            and isinstance(state.get("given"), list)
        )

    def _file_matches(self, labels: list[Any]) -> bool:
        """Return whether the label file contains exactly these labels, even if another program saved it."""
        if not labels:  # everything was undone: the file has only its header
            return self.file.read_bytes() == labels_csv(self.data, [])
        try:
            return [[label.sample, label.label] for label in read_user_labels(self.file)] == labels
        except RecordError:
            return False

    def _checked_rows(self, rows: object) -> list[list[Any]]:
        """Return rows that belong to this page; raises _RefusedError."""
        if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "no rows of labels")
        for sample, label, beats, source in rows:
            fits = _is_count(sample) and sample in self._samples and _is_count(beats) and isinstance(label, str)
            if not fits or label not in self._symbols or source not in SOURCES:
                raise _RefusedError(HTTPStatus.BAD_REQUEST, "a row that is not of this page")
        samples = [row[0] for row in rows]
        if samples != sorted(set(samples)) or sum(row[2] for row in rows) not in (0, self.data["beats"]):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "rows that do not add up")
        return rows

    def save(self, sent: object) -> dict[str, Any]:
        """Write the labels sent by a page durably, and only then confirm; raises _RefusedError."""
        if not isinstance(sent, dict) or not self._is_valid(sent.get("kept")) or not _is_count(sent.get("base")):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "no answers of this page")
        rows = self._checked_rows(sent.get("rows"))
        with self.lock:
            if self.state is not None and sent["base"] < self.state["revision"]:
                raise _RefusedError(HTTPStatus.CONFLICT, "another page has newer answers", kept=self.state)
            state = {**sent["kept"], "given": [[sample, label] for sample, label, *_ in rows]}
            document = json.dumps(state, allow_nan=False).encode() + b"\n"
            try:
                write_together({self.actions_path: document, self.file: labels_csv(self.data, rows)})
            except (EcgfedError, OSError) as problem:
                message = problem.line if isinstance(problem, EcgfedError) else str(problem)
                raise _RefusedError(HTTPStatus.INSUFFICIENT_STORAGE, message) from problem
            self.state, self.labels = state, len(rows)
        return {"revision": state["revision"]}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


class _Server:
    """A page, its labels, and the time of the last request."""

    def __init__(self, page: str, store: _LabelStore) -> None:
        self.page, self.store = page.encode(), store
        self.token = secrets.token_urlsafe(32)
        self.ended = threading.Event()
        self.why = "idle"
        self.last = time.monotonic()
        self.connections = Connections(self._is_authorized, self._respond)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.connections.port}/{self.token}/"

    def end(self, why: str) -> None:
        self.why = why
        self.ended.set()

    def holds(self, token: bytes) -> bool:
        """Compare a token with the page's in constant time."""
        return hmac.compare_digest(token, self.token.encode())

    def _is_authorized(self, head: bytes) -> bool:
        """Return whether a request's first line, ``GET /TOKEN/resource HTTP/1.1``, has the page's token."""
        path = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
        return bool(path) and self.holds(path[0].removeprefix(b"/").partition(b"/")[0])

    def _respond(self, connection: socket.socket, head: bytes, until: float) -> None:
        _Handler(connection, head, until, self)


class _Handler(BaseHTTPRequestHandler):
    """Handler of the single request of a connection."""

    server: _Server  # type: ignore[assignment]  # not a socketserver
    server_version, sys_version = "ecgfed", ""

    def __init__(self, connection: socket.socket, head: bytes, until: float, server: _Server) -> None:
        self._request = RestOfRequest(head, connection, until)
        super().__init__(connection, connection.getpeername(), server)  # type: ignore[arg-type]

    def setup(self) -> None:
        """Read the request from its first byte, although its head was received before."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(self._request)

    def do_GET(self) -> None:
        """Send the page, or the labels so far."""
        page, store = self.server.page, self.server.store
        self._respond({"": lambda: page, "state": lambda: {"kept": store.state}, "alive": lambda: {}}, post=False)

    def do_POST(self) -> None:
        """Save labels, or end the session."""
        self._respond({"save": lambda: self.server.store.save(self._sent()), "done": self._finish}, post=True)

    def _respond(self, handlers: Mapping[str, Callable[[], bytes | dict[str, Any]]], *, post: bool) -> None:
        self.close_connection = True
        try:
            allowed_hosts = [f"{name}:{self.server.connections.port}" for name in ("127.0.0.1", "localhost")]
            hosts = self.headers.get_all("Host") or []
            if len(hosts) != 1 or hosts[0] not in allowed_hosts:
                raise _RefusedError(HTTPStatus.FORBIDDEN, "another host")
            token, slash, resource = self.path.removeprefix("/").partition("/")
            if not self.server.holds(token.encode()) or not slash:
                raise _RefusedError(HTTPStatus.NOT_FOUND, "nothing here")
            origins = self.headers.get_all("Origin") or []
            if any(origin != f"http://{hosts[0]}" for origin in origins) or (post and len(origins) != 1):
                raise _RefusedError(HTTPStatus.FORBIDDEN, "another origin")
            if self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
                raise _RefusedError(HTTPStatus.FORBIDDEN, "another site")
            if post and self.headers.get_content_type() != "application/json":
                raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "JSON is expected")
            if resource not in handlers:
                raise _RefusedError(HTTPStatus.NOT_FOUND, "nothing here")
            self.server.last = time.monotonic()
            self._send(HTTPStatus.OK, handlers[resource]())
            if resource == "done":  # the response has been sent
                self.server.end("done")
        except _RefusedError as refused:
            self._send(refused.status, refused.response)

    def _sent(self) -> object:
        """Return the JSON body of a request with a bounded Content-Length; raises _RefusedError."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit()):
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "the size is not said")
        if len(length) > 9 or int(length) > MAX_BYTES:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BYTES:,} bytes")
        data = self.rfile.read(int(length))
        try:
            return parse_json(data)
        except ValueError as problem:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "no JSON") from problem

    def _finish(self) -> dict[str, Any]:
        self._sent()
        return {"labels": self.server.store.labels}

    def _send(self, status: HTTPStatus, body: bytes | dict[str, Any]) -> None:
        html = isinstance(body, bytes)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if not html:
            self.send_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.send_header("Content-Type", "text/html; charset=utf-8" if html else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log: the address is secret."""


def serve(
    page_html: str,
    data: Mapping[str, Any],
    labels_file: Path,
    *,
    opened: Callable[[str], None],
    idle_s: float = IDLE_S,
    overwrite: bool = False,
) -> Served:
    """Serve a labelling page on this machine until it is finished or idle; write the labels after every change.

    Args:
        page_html: the page, from ``label_page(page, file=...)``.
        data: its data (``page_data(page)``).
        labels_file: the label file to write, CSV. The actions are stored beside it (``actions_file``); if both exist
            and belong to the same groups, the session continues from them.
        opened: called with the page's address once it can be opened; anyone who knows it can label.
        idle_s: seconds without a request after which the server ends.
        overwrite: replace labels of another page at the first new label; labels of this page are continued in any case.

    Raises:
        OptionError: existing labels belong to another page or were changed since, or ``labels_file`` cannot be a file.
        StorageError: the actions cannot be read.
    """
    store = _LabelStore(data, labels_file, overwrite=overwrite)
    try:
        server = _Server(page_html, store)
    except OSError as problem:
        raise OptionError("serve", f"no port of 127.0.0.1 can be had ({problem.strerror})") from problem
    try:
        opened(server.address)
        while not server.ended.wait(min(1.0, idle_s / 4)):
            if time.monotonic() - server.last > idle_s:
                server.end("idle")
    except KeyboardInterrupt:
        server.end("interrupted")
    finally:
        server.connections.close()
    with store.lock:  # wait for a write in progress
        exists = labels_file.exists()  # the file of an earlier session may have been moved
        return Served(labels_file, store.labels if exists else 0, server.why)
