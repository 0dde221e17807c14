"""A page that is served on this machine: ``label --serve`` and ``serve``.

The server listens on 127.0.0.1 only. Every path begins with a random token, known only from the page's address;
requests with another Host header (DNS rebinding), from another origin, or above the size limit are refused. Peers
without the token cannot delay the page (``ecgfed.tasks.local_connections``). The server ends on request of the page or
after a time without requests.
"""

import hmac
import io
import json
import secrets
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from ecgfed.base.errors import OptionError
from ecgfed.base.language import message, page_language, translated
from ecgfed.base.safe_io import parse_json
from ecgfed.tasks.local_connections import REQUEST_S, Connections, RestOfRequest

#: Seconds without a request after which the server ends; an open page sends one every 20 s.
IDLE_S = 300.0
#: Maximum size of a JSON request in bytes: enough for 20,000 actions.
MAX_BYTES = 4_000_000
#: Types of what is posted.
JSON, OCTETS = "application/json", "application/octet-stream"
#: Bytes of a body that are read at once; they must arrive within ``REQUEST_S``.
_PIECE = 1 << 20
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RefusedError(Exception):
    """A refused request, with the status and message of the response, in the language of the page."""

    def __init__(self, status: HTTPStatus, reason: str, **more: Any) -> None:
        super().__init__(reason)
        self.status, self.response = status, {"said": translated(reason), **more}


class CutShortError(RefusedError):
    """A request whose peer closed the connection before its body was complete."""


@dataclass(frozen=True)
class Download:
    """A response that a browser saves as a file of this name."""

    data: bytes
    name: str


#: A response: a page, a file, or JSON.
Body = bytes | Download | dict[str, Any]


@dataclass(frozen=True)
class Route:
    """What answers a request.

    Attributes:
        respond: returns the response; raises RefusedError.
        content: the type of what is posted.
        ends: the server ends after the response.
        language: of the page that asks.
    """

    respond: "Callable[[Request], Body]"
    content: str = JSON
    ends: bool = False
    language: str = "en"


#: Returns what answers a method, GET or POST, and a resource below the token; None for nothing.
FindRoute = Callable[[str, str], Route | None]


def check_length(text: str, max_bytes: int) -> int:
    """Return a stated Content-Length; raises RefusedError for none, or one above the limit."""
    if not (text.isascii() and text.isdigit()):
        raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "the size is not stated")
    if len(text) > 15 or int(text) > max_bytes:
        raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {max_bytes:,} bytes")
    return int(text)


class LocalServer:
    """A server of a page, from its creation on; ``run`` waits for its end.

    Args:
        find: what answers a request.

    Raises:
        OptionError: no port is available.
    """

    def __init__(self, find: FindRoute) -> None:
        self.find = find
        self.token = secrets.token_urlsafe(32)
        self.ended = threading.Event()
        self.why = "idle"
        self.last = time.monotonic()
        try:
            self.connections = Connections(self._is_authorized, self._respond)
        except OSError as problem:
            raise OptionError("serve", f"no port of 127.0.0.1 can be had ({problem.strerror})") from problem

    @property
    def address(self) -> str:
        """The page's address; anyone who knows it can use the page."""
        return f"http://127.0.0.1:{self.connections.port}/{self.token}/"

    def run(self, opened: Callable[[str], object], *, idle_s: float, busy: Callable[[], bool] = lambda: False) -> str:
        """Serve until the page ends it, nobody uses it for ``idle_s``, or the keyboard interrupts it; return why.

        Args:
            opened: called with the page's address.
            idle_s: seconds without a request after which the server ends.
            busy: whether it is at work, so that it does not end.
        """
        try:
            opened(self.address)
            while not self.ended.wait(min(1.0, idle_s / 4)):
                if time.monotonic() - self.last > idle_s and not busy():
                    self.end("idle")
        except KeyboardInterrupt:
            self.end("interrupted")
        finally:
            self.connections.close()
        return self.why

    def end(self, why: str) -> None:
        """End it: ``done``, ``idle`` or ``interrupted``."""
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
        Request(connection, head, until, self)


class Request(BaseHTTPRequestHandler):
    """The single request of a connection, and its response."""

    server: LocalServer  # type: ignore[assignment]  # not a socketserver
    server_version, sys_version = "ecgfed", ""

    def __init__(self, connection: socket.socket, head: bytes, until: float, server: LocalServer) -> None:
        self._request = RestOfRequest(head, connection, until)
        super().__init__(connection, connection.getpeername(), server)  # type: ignore[arg-type]

    def setup(self) -> None:
        """Read the request from its first byte, although its head was received before."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(self._request)

    def do_GET(self) -> None:
        """Send a page, a file, or a state."""
        self._answer("GET")

    def do_POST(self) -> None:
        """Take something."""
        self._answer("POST")

    def _answer(self, method: str) -> None:
        self.close_connection = True
        try:
            resource = self._checked_resource(post=method == "POST")
            route = self.server.find(method, resource)
            content = JSON if route is None else route.content
            if method == "POST" and self.headers.get_content_type() != content:
                what = "JSON is expected" if content == JSON else f"{content} is expected"
                raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, what)
            if route is None:
                raise RefusedError(HTTPStatus.NOT_FOUND, "nothing here")
            self.server.last = time.monotonic()
            with page_language(route.language):
                body = self._body(route)
            self._send(HTTPStatus.OK, body)
            if route.ends:  # the response has been sent
                self.server.end("done")
        except RefusedError as refused:
            self._send(refused.status, refused.response)
            if method == "POST":  # a browser that still sends reads the response only if everything is taken
                with suppress(OSError):  # it was too slow, or is gone
                    self.connection.shutdown(socket.SHUT_WR)
                    while self.rfile.read(_PIECE):
                        pass

    def _body(self, route: Route) -> Body:
        """Return the response; an error in ecgfed has its traceback in the terminal, and is a refusal in one line."""
        try:
            return route.respond(self)
        except (RefusedError, ConnectionError, TimeoutError):  # the peer is gone, or too slow
            raise
        except Exception as problem:
            traceback.print_exc()
            error = " ".join(f"{type(problem).__name__}: {problem!s:.200}".split())
            what = message("an internal error of ecgfed ({error}); the terminal shows more", error=error)
            raise RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, what) from problem

    def _checked_resource(self, *, post: bool) -> str:
        """Return what is asked for, below the token; raises RefusedError."""
        allowed_hosts = [f"{name}:{self.server.connections.port}" for name in ("127.0.0.1", "localhost")]
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0] not in allowed_hosts:
            raise RefusedError(HTTPStatus.FORBIDDEN, "another host")
        token, slash, resource = self.path.removeprefix("/").partition("/")
        if not self.server.holds(token.encode()) or not slash:
            raise RefusedError(HTTPStatus.NOT_FOUND, "nothing here")
        origins = self.headers.get_all("Origin") or []
        if any(origin != f"http://{hosts[0]}" for origin in origins) or (post and len(origins) != 1):
            raise RefusedError(HTTPStatus.FORBIDDEN, "another origin")
        if self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise RefusedError(HTTPStatus.FORBIDDEN, "another site")
        return resource

    def sent(self) -> object:
        """Return the JSON body of the request with a bounded Content-Length; raises RefusedError."""
        data = self.rfile.read(self._length(MAX_BYTES))
        try:
            return parse_json(data)
        except ValueError as problem:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "no JSON") from problem

    def parts(self, size: int) -> Iterator[bytes]:
        """Yield the body of the request part by part; raises RefusedError unless ``size`` bytes are announced.

        Raises:
            CutShortError: the connection was closed before all of them had arrived.
            TimeoutError: a part did not arrive within ``REQUEST_S``.
        """
        if self._length(size) != size:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"a size other than {size:,} bytes")
        while size:
            self._request.extend(REQUEST_S)
            part = self.rfile.read(min(size, _PIECE))
            if not part:
                raise CutShortError(HTTPStatus.BAD_REQUEST, "the body ended early")
            size -= len(part)
            self.server.last = time.monotonic()
            yield part

    def _length(self, max_bytes: int) -> int:
        if self.headers.get("Transfer-Encoding"):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "the size is not stated")
        return check_length(self.headers.get("Content-Length", ""), max_bytes)

    def _send(self, status: HTTPStatus, body: Body) -> None:
        self.send_response(status)
        for name, value in _headers(body).items():
            self.send_header(name, value)
        data = body if isinstance(body, bytes) else body.data if isinstance(body, Download) else None
        data = json.dumps(body).encode() if data is None else data
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log: the address is secret."""


def _headers(body: Body) -> Mapping[str, str]:
    """Return the headers of a response; a page has a content security policy of its own."""
    if isinstance(body, bytes):
        return {**_HEADERS, "Content-Type": "text/html; charset=utf-8"}
    policy = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
    if isinstance(body, dict):
        return {**_HEADERS, **policy, "Content-Type": JSON}
    plain = "".join(mark if mark.isascii() and (mark.isalnum() or mark in "._-") else "_" for mark in body.name)
    return {**_HEADERS, **policy, "Content-Type": OCTETS, "Content-Disposition": f'attachment; filename="{plain}"'}
