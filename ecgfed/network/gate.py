"""What a request for the sites' API must have before its body is read: a known key, a current signature, a free slot.

Flower 1.41 reads and parses a request's body before it looks at the key. So anybody could have it read 8 MiB for each
of a thousand connections. Here a request is refused from its headers alone, and counted.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

from ecgfed import __version__
from ecgfed.base.errors import StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.network.bounds import ASGIApp, Receive, Scope, Send, refuse
from ecgfed.network.config import PROTOCOL
from ecgfed.network.programs import ROSTER
from ecgfed.network.refusals import Refusals

#: File in the server's folder: the keys that are let in, base64.
KEYS = "admitted.json"
#: Names of the requests that a site sends, below the prefix.
REQUESTS = frozenset(
    {
        *("register-node", "activate-node", "deactivate-node", "unregister-node", "send-node-heartbeat"),
        *("pull-messages", "push-messages", "get-run", "get-fab", "push-object", "pull-object"),
        "confirm-message-received",
    }
)
#: Request that the gate answers itself: what a site is to be compared with before it connects.
PREFLIGHT = "preflight"
#: Unfinished requests of one site, and seconds until a body must have arrived: 8 MiB at 47 kB/s.
MAX_UNFINISHED, BODY_S = 4, 180.0
#: Header of a refusal: a key of ``refusals.REASONS``.
REASON_HEADER = b"x-ecgfed-refused"
STATUS = {"path": 404, "key": 401, "clock": 401, "signature": 401, "busy": 503, "slow": 408}


def write_admitted(folder: Path, keys: Iterable[bytes]) -> list[str]:
    """Write the public keys that are let in, in Flower's format; returns them as in its header; raises StorageError."""
    admitted = [b64encode(key).decode() for key in keys]
    write_json(folder / KEYS, admitted)
    return admitted


def reason_to_refuse(headers: Mapping[bytes, bytes], admitted: frozenset[bytes], now: datetime) -> str:
    """Return why a request is refused from its headers, "" if it is not; a key of ``REASONS``."""
    key = headers.get(FLEET_HTTP_PUBLIC_KEY_HEADER.encode(), b"")
    if key not in admitted:
        return "key"
    try:
        timestamp = headers[TIMESTAMP_HEADER.encode()].decode("ascii")
        age = (now - datetime.fromisoformat(timestamp)).total_seconds()
        if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
            return "clock"
        signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER.encode()], validate=True)
        valid = verify_signature(bytes_to_public_key(b64decode(key)), timestamp.encode(), signature)
    except (KeyError, ValueError, TypeError):  # binascii.Error and UnicodeError are ValueErrors
        return "signature"
    return "" if valid else "signature"


class KeyGate:
    """ASGI middleware that refuses requests for the sites' API from their headers.

    Args:
        app: the next middleware.
        fleet: path prefix of the sites' API; other requests pass.
        folder: the server's folder.
    """

    def __init__(self, app: ASGIApp, fleet: str, folder: Path) -> None:
        self.app, self.fleet, self.folder = app, fleet, folder
        self.refusals = Refusals(folder)
        self._unfinished = Counter[bytes]()
        try:
            self._admitted = frozenset(str(key).encode() for key in read_json(folder / KEYS, StorageError))
        except StorageError:  # no server's folder: nobody is let in
            self._admitted = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, answer it, or refuse it."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not path.startswith(self.fleet):
            await self.app(scope, receive, send)
            return
        name = path.removeprefix(self.fleet)
        headers = {bytes(header).lower(): bytes(value) for header, value in scope["headers"]}
        if scope["method"] != "POST" or (name not in REQUESTS and name != PREFLIGHT):
            await self._refuse(send, "path")
            return
        if reason := reason_to_refuse(headers, self._admitted, datetime.now(UTC)):
            await self._refuse(send, reason)
            return
        if name == PREFLIGHT:
            await self._answer_preflight(send)
            return
        key = headers[FLEET_HTTP_PUBLIC_KEY_HEADER.encode()]
        if self._unfinished[key] >= MAX_UNFINISHED:
            await self._refuse(send, "busy")
            return
        await self._forward(scope, receive, send, key)

    async def _forward(self, scope: Scope, receive: Receive, send: Send, key: bytes) -> None:
        """Forward a request, whose body has to arrive in time."""
        deadline, arriving, started = asyncio.get_running_loop().time() + BODY_S, True, False
        self._unfinished[key] += 1

        def arrived() -> None:
            nonlocal arriving
            if arriving:
                arriving = False
                self._unfinished[key] -= 1

        async def in_time() -> Scope:
            if not arriving:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                arrived()
                return {"type": "http.disconnect"}
            if message["type"] != "http.request" or not message.get("more_body", False):
                arrived()
            return message

        async def noted(message: Scope) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, in_time, noted)
        finally:
            arrived()
            if not started and asyncio.get_running_loop().time() >= deadline:
                await self._refuse(send, "slow")

    async def _refuse(self, send: Send, reason: str) -> None:
        self.refusals.add(reason)
        await refuse(send, STATUS[reason], (REASON_HEADER, reason.encode()))

    async def _answer_preflight(self, send: Send) -> None:
        """Send the server's versions and time, and the classes and leads of the federation if the sites are known."""
        answer = {"version": __version__, "protocol": PROTOCOL, "time": datetime.now(UTC).isoformat()}
        with suppress(StorageError, KeyError, TypeError):
            roster = read_json(self.folder / ROSTER, StorageError)
            leads = sorted({str(lead) for site in roster["sites"] for lead in site.get("leads", ())})
            answer |= {"classes": roster["classes"], "modality": roster["modality"], "leads": leads}
        body = json.dumps(answer).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
