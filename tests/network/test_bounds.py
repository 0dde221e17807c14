"""What is too long is refused unread, whatever it says of itself; what a site may send in all has a bound."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from ecgfed.network.bounds import INITIAL_LIMIT, KEY_HEADER, MAX_REQUEST_BYTES, PUSH_MESSAGES, PUSH_OBJECT, UploadLimit
from ecgfed.network.processes import FLEET


class SuperLinkHere:
    """Reads every request whole, and says how much it has read."""

    def __init__(self, status: int = 200) -> None:
        self.read, self.status = 0, status

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            self.read += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def asked(app: Any, path: str, headers: dict[bytes, bytes], body: Iterator[bytes]) -> int:
    """Send a request, the body only as far as somebody reads it; returns the status."""
    said: list[int] = []

    async def receive() -> dict[str, Any]:
        part = next(body, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            said.append(message["status"])

    scope = {"type": "http", "path": path, "headers": list(headers.items())}
    asyncio.run(app(scope, receive, send))
    return said[0]


def piece(app: Any, length: int, key: bytes = b"a", path: str = PUSH_OBJECT) -> int:
    headers = {b"content-length": str(length).encode(), KEY_HEADER: key}
    return asked(app, path, headers, iter([b"x" * length] if length <= MAX_REQUEST_BYTES else []))


def endless() -> Iterator[bytes]:
    for _ in range(10_000):  # 10 GB
        yield b"x" * 1_000_000


def test_ten_gigabytes_are_not_read(tmp_path: Path) -> None:
    for path in (PUSH_OBJECT, "/v1/fleet/push-messages", "/v1/fleet/anything"):
        there = SuperLinkHere()
        app = UploadLimit(there, FLEET, tmp_path / "bound.json")
        assert asked(app, path, {b"content-length": b"10000000000"}, endless()) == 413
        assert asked(app, path, {b"transfer-encoding": b"chunked"}, endless()) == 411
        assert asked(app, path, {b"content-length": b"-1"}, endless()) == 413
        assert asked(app, path, {b"content-length": b"ten"}, endless()) == 411
        assert there.read == 0


def test_a_site_may_send_what_its_answer_may_have(tmp_path: Path) -> None:
    bound = tmp_path / "bound.json"
    there = SuperLinkHere()
    app = UploadLimit(there, FLEET, bound)
    half = INITIAL_LIMIT // 2
    assert [piece(app, half) for _ in range(4)] == [200, 200, 413, 413]
    assert piece(app, half, key=b"b") == 200  # another site is not held to it
    assert piece(app, half, path="/v1/fleet/pull-messages") == 200
    bound.write_text(json.dumps({"bytes": 3 * INITIAL_LIMIT}))
    assert piece(app, half) == 413
    assert asked(app, PUSH_MESSAGES, {}, iter(())) == 200  # the server asks: everybody begins anew
    assert [piece(app, half) for _ in range(7)] == [200] * 6 + [413]
    assert there.read == (2 + 1 + 1 + 6) * half


def test_what_is_refused_is_not_held_against_anybody(tmp_path: Path) -> None:
    there = SuperLinkHere(401)
    app = UploadLimit(there, FLEET, tmp_path / "bound.json")
    assert {piece(app, INITIAL_LIMIT) for _ in range(3)} == {401}
    there.status = 200
    assert piece(app, INITIAL_LIMIT) == 200


@pytest.mark.parametrize("text", ["", "{", "{}", '{"bytes": "x"}', '{"bytes": null}'])
def test_a_bound_that_cannot_be_read_is_the_first_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "bound.json").write_text(text)
    app = UploadLimit(SuperLinkHere(), FLEET, tmp_path / "bound.json")
    assert asked(app, PUSH_MESSAGES, {}, iter(())) == 200
    assert piece(app, INITIAL_LIMIT) == 200
    assert piece(app, 1) == 413


def test_names_are_flower_s() -> None:
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

    assert FLEET_HTTP_PUBLIC_KEY_HEADER.encode() == KEY_HEADER
    assert {("POST", PUSH_OBJECT), ("POST", PUSH_MESSAGES)} <= set(PROTOBUF_REQUEST_TYPES)
