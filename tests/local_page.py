"""Requests to a page that is served on this machine, as a browser or a stranger sends them."""

import http.client
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Page:
    """A served page, by its address."""

    address: str = field(default="", kw_only=True)

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].split("/")[0])

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, what: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Ask for something below the address; ``_`` in a header's name is a hyphen, an empty value leaves it out."""
        given = {"Origin": self.origin, "Content-Type": "application/json"} if method == "POST" else {}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        path = what if what.startswith("/") else self.address.removeprefix(self.origin) + what
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, path, skip_host="Host" in given)
        for name, value in given.items():
            if value:
                connection.putheader(name, value)
        if body is not None and "Content-Length" not in given:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        told = json.loads(text) if answer.headers.get_content_type() == "application/json" else text.decode()
        return answer.status, told, dict(answer.headers)

    def post(self, what: str, value: object, **headers: str) -> tuple[int, Any]:
        status, told, _ = self.ask("POST", what, json.dumps(value).encode(), **headers)
        return status, told
