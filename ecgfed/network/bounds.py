"""How much anybody may send to the server: what is longer is refused before it is held in memory.

Flower cuts arrays into pieces of 5 MiB and sends each as a request of its own, which the SuperLink reads whole before
it looks at who sent it. So a request has a length, at most ``MAX_REQUEST_BYTES``; and what a site may send in all between
two questions of the server is what its answer may have, which the server writes down before it asks.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

#: Of one request, bytes: a piece of an array with its headers, or the list of a message's pieces.
MAX_REQUEST_BYTES = 8 << 20
#: Of one site before the server has said how much an answer may have, bytes: a hello.
INITIAL_LIMIT = 4 << 20
#: Pieces of an answer come in here; a question of the server's goes out there.
PUSH_OBJECT, PUSH_MESSAGES = "/v1/fleet/push-object", "/v1/runtime/push-messages"
#: Flower's header with a site's public key.
KEY_HEADER = b"flwr-public-key"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class UploadLimit:
    """Refuses what sites send beyond the bounds: 411 without a length, 413 with one that is too long.

    Args:
        app: the SuperLink.
        fleet: where sites send to.
        bound: the file in which the server writes down how much a site may send.
    """

    def __init__(self, app: ASGIApp, fleet: str, bound: Path) -> None:
        self.app, self.fleet, self.bound = app, fleet, bound
        self._limit = INITIAL_LIMIT
        self._sent: dict[bytes, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"])
        if path == PUSH_MESSAGES:
            self._limit, self._sent = self._read(), {}
        if not path.startswith(self.fleet):
            await self.app(scope, receive, send)
            return
        headers = {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}
        try:
            length = int(headers.get(b"content-length", b""))
        except ValueError:
            await _refuse(send, 411)
            return
        site = headers.get(KEY_HEADER, b"")
        received = self._sent.get(site, 0)
        if not 0 <= length <= MAX_REQUEST_BYTES or (path == PUSH_OBJECT and received + length > self._limit):
            await _refuse(send, 413)
            return

        async def counted(message: Scope) -> None:
            # what was refused, as of a stranger that names somebody else's key, is not held against anybody
            if message["type"] == "http.response.start" and path == PUSH_OBJECT and message["status"] == 200:
                self._sent[site] = self._sent.get(site, 0) + length
            await send(message)

        await self.app(scope, receive, counted)

    def _read(self) -> int:
        try:
            return max(INITIAL_LIMIT, int(json.loads(self.bound.read_text())["bytes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return INITIAL_LIMIT


async def _refuse(send: Send, status: int) -> None:
    """Answer without having read a byte of the request; the connection ends with it."""
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
