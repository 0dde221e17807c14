"""Limits on what clients may upload to the server, enforced before a request is read into memory.

Flower splits arrays into 5 MiB chunks and sends each in a separate request, which the SuperLink reads completely before
it checks the sender. So every request must declare its length, at most ``MAX_REQUEST_BYTES``, and the total a site may
upload between two requests of the server is limited to the size of a valid reply, which the server writes to a file
before it sends its request.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

#: Largest request, bytes: one chunk of an array with its headers, or the list of a message's chunks.
MAX_REQUEST_BYTES = 8 << 20
#: Largest announcement of a reply: the identifiers of its objects, bytes.
MAX_ANNOUNCEMENT_BYTES = 1 << 20
#: Upload limit per site until the server has written one, bytes: enough for a registration.
INITIAL_LIMIT = 4 << 20
#: Sites upload the chunks of a reply to the first path; the server sends its requests to the second.
PUSH_OBJECT, PUSH_MESSAGES = "/v1/fleet/push-object", "/v1/runtime/push-messages"
#: Sites announce a reply to this path.
ANNOUNCE = "/v1/fleet/push-messages"
#: Flower's header with a site's public key.
KEY_HEADER = b"flwr-public-key"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class UploadLimit:
    """ASGI middleware that rejects oversized uploads: 411 without a content length, 413 above the limit.

    Args:
        app: the SuperLink.
        fleet: path prefix of the sites' API.
        bound: the file in which the server stores the upload limit.
    """

    def __init__(self, app: ASGIApp, fleet: str, bound: Path) -> None:
        self.app, self.fleet, self.bound = app, fleet, bound
        self._limit = INITIAL_LIMIT
        self._sent: dict[bytes, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = str(scope["path"])
        if path == PUSH_MESSAGES:
            self._limit, self._sent = upload_limit(self.bound), {}
        if not path.startswith(self.fleet):
            await self.app(scope, receive, send)
            return
        headers = {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}
        try:
            length = int(headers.get(b"content-length", b""))
        except ValueError:
            await refuse(send, 411)
            return
        site = headers.get(KEY_HEADER, b"")
        received = self._sent.get(site, 0)
        if not 0 <= length <= (MAX_ANNOUNCEMENT_BYTES if path == ANNOUNCE else MAX_REQUEST_BYTES) or (
            path == PUSH_OBJECT and received + length > self._limit
        ):
            await refuse(send, 413)
            return

        async def counted(message: Scope) -> None:
            # rejected requests do not count: anyone can put another site's public key into the header
            if message["type"] == "http.response.start" and path == PUSH_OBJECT and message["status"] == 200:
                self._sent[site] = self._sent.get(site, 0) + length
            await send(message)

        await self.app(scope, receive, counted)


def upload_limit(bound: Path) -> int:
    """Return how many bytes a site may upload in answer to a request, from the file that the server writes."""
    try:
        return max(INITIAL_LIMIT, int(json.loads(bound.read_bytes())["bytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return INITIAL_LIMIT


async def refuse(send: Send, status: int, *more: tuple[bytes, bytes]) -> None:
    """Respond without reading the request body, and close the connection; ``more`` are headers."""
    headers = [(b"content-length", b"0"), (b"connection", b"close"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
