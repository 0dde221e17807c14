"""What a site can check before it connects: cohort, disk, proxy, address, certificate, clock, key, version, classes.

The server's gate answers a signed request (``gate.PREFLIGHT``), so that the cause of a refusal is known: a SuperNode
that is refused ends with the same code whatever the cause.
"""

import os
import shutil
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from ecgfed import __version__
from ecgfed.base.errors import EcgfedError
from ecgfed.base.safe_io import parse_json
from ecgfed.base.text import count_of, safe_text
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.network.certificates import check_certificate, read_site_key
from ecgfed.network.config import PROTOCOL
from ecgfed.network.gate import PREFLIGHT, REASON_HEADER
from ecgfed.network.launch import Address
from ecgfed.network.protocol import protocol_difference
from ecgfed.network.provenance import provenance_of, version_difference

#: Free space that a site needs: this much, or this many times its cohort, bytes.
FREE_BYTES, FREE_COHORTS = 1 << 30, 2
_TIMEOUT_S = 10.0
_MAX_ANSWER = 1 << 20


@dataclass(frozen=True)
class Check:
    """One thing that was checked.

    Attributes:
        name: what.
        ok: whether it is as it must be; None if it is a difference that a person should know of.
        observed: what was observed.
        fix: what to do, "" if nothing.
    """

    name: str
    ok: bool | None
    observed: str
    fix: str = ""

    @property
    def line(self) -> str:
        """The check as a line."""
        mark = {True: "ok", False: "failed", None: "note"}[self.ok]
        return f"{mark:6} {self.name}: {self.observed}{f'; {self.fix}' if self.fix else ''}"


def preflight(folder: Path, cohort: Path, server: Address, ca: Path, key: Path) -> list[Check]:
    """Check a site against its server; nothing is written, and nothing but a signed request is sent.

    Args:
        folder: the site's folder, which need not exist.
        cohort: its cohort.
        server: the server's address.
        ca: the server's ``ca.crt``.
        key: the site's private key.

    Returns:
        The checks in order; those that a failed one prevents are left out.
    """
    opened, of_cohort = _cohort(cohort)
    checks = [of_cohort, _disk(folder, cohort)]
    try:
        check_certificate(ca)
        checks.append(Check("ca", True, f"{ca} is a certificate authority's, and has not expired"))
        private = read_site_key(key)
        checks.append(Check("key", True, f"{key} is a private key"))
    except EcgfedError as problem:
        return [*checks, Check("key" if len(checks) > 2 else "ca", False, problem.line)]
    connection = check_connection(server, ca, private)
    return [*checks, *connection.checks, *_compared(opened, connection.answer)]


@dataclass(frozen=True)
class Connection:
    """What came of a request to the server: the checks, and its answer, None without one."""

    checks: list[Check]
    answer: dict[str, Any] | None


def check_connection(server: Address, ca: Path, private: Any) -> Connection:
    """Check everything between a site and its server: proxy, name, certificate, clock, key."""
    proxy = getproxies().get("https", "")
    through = bool(proxy) and not proxy_bypass(server.host.strip("[]"))
    checks = []
    if through:  # without what may be a password
        checks.append(Check("proxy", None, f"requests go through HTTPS_PROXY, {proxy.rpartition('@')[2]:.100}"))
    else:
        try:
            socket.getaddrinfo(server.host.strip("[]"), server.port)
        except OSError as problem:
            observed = f"{server.host} has no address ({problem.strerror or problem})"
            return Connection([Check("name", False, observed, "check --server, or ask for the server's address")], None)
    at = datetime.now(UTC).isoformat()
    headers = {
        FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public_key_to_bytes(private.public_key())).decode(),
        TIMESTAMP_HEADER: at,
        FLEET_HTTP_SIGNATURE_HEADER: b64encode(sign_message(private, at.encode())).decode(),
    }
    try:
        context = ssl.create_default_context(cafile=str(ca))
        with (
            httpx.Client(verify=context, timeout=_TIMEOUT_S) as client,
            client.stream("POST", f"https://{server}/v1/fleet/{PREFLIGHT}", headers=headers) as response,
        ):
            body = read_body(response)
    except (httpx.HTTPError, OSError) as problem:
        return Connection([*checks, _unreachable(server, ca, problem, through)], None)
    checks.append(Check("connection", True, f"{server} has a certificate of {ca}"))
    return Connection([*checks, *_answered(response)], _answer(response, body))


def _unreachable(server: Address, ca: Path, problem: Exception, through: bool) -> Check:
    """Return why there is no answer: the certificate, the proxy, or the network."""
    text = safe_text(f"{problem}")[:200]
    if "CERTIFICATE_VERIFY_FAILED" in text:
        if "mismatch" in text or "not valid for" in text:
            fix = "the server's --name must be what --server says"
            return Check("certificate", False, f"{server} has a certificate for other names", fix)
        if "expired" in text:
            return Check("certificate", False, f"{server}'s certificate has expired", "ask for a new ca.crt")
        fix = "ask for the current ca.crt; or a proxy reads the connection, which it must let through unchanged"
        return Check("certificate", False, f"{server} has a certificate that {ca} does not confirm", fix)
    if through and isinstance(problem, httpx.ProxyError | httpx.ConnectError):
        fix = "let the proxy CONNECT to that host and port, or put the host into NO_PROXY"
        return Check("proxy", False, f"the proxy does not connect to {server} ({text})", fix)
    fix = "is the server running, and does the firewall let this machine reach that port?"
    return Check("connection", False, f"{server} cannot be reached ({type(problem).__name__}: {text})", fix)


def _answered(response: httpx.Response) -> Iterator[Check]:
    """Yield what the server's answer says of clock, key and version."""
    reason = response.headers.get(REASON_HEADER.decode(), "")
    offset = _clock_offset(response)
    if offset is not None:
        ok = -TIMESTAMP_TOLERANCE < offset < SYSTEM_TIME_TOLERANCE
        direction = "ahead of" if offset > 0 else "behind"
        observed = f"this machine's is {abs(offset):,.0f} s {direction} the server's"
        yield Check("clock", ok, observed, "" if ok else "set the wrong one of the two (NTP)")
    if response.status_code == 200:
        yield Check("admission", True, "the server knows this site's key")
    elif reason == "clock":
        yield Check("admission", False, "the server refuses the time of the signature", "correct the clocks")
    elif response.status_code == 401:
        fix = "send key.pub to the server's operator, who puts it into --keys and starts the server again"
        yield Check("admission", False, "the server does not know this site's key", fix)
    elif response.status_code in (404, 405):
        fix = "it has an older version of ecgfed, or is no federation's server"
        yield Check("admission", False, "the server does not answer this check", fix)
    else:
        yield Check("admission", False, f"the server answers with HTTP {response.status_code}", "ask its operator")


def _clock_offset(response: httpx.Response) -> float | None:
    """Return by how many seconds this machine's clock is ahead of the server's, None if it is not known."""
    try:
        server = parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError, TypeError):
        return None
    offset = (datetime.now(UTC) - server).total_seconds()
    return 0.0 if abs(offset) < 2.0 else offset  # the header has whole seconds


def read_body(response: httpx.Response) -> bytes:
    """Return an answer's body as it was sent, not decompressed; what is too long, or takes too long, is cut off."""
    body, until = b"", time.monotonic() + _TIMEOUT_S
    for part in response.iter_raw():
        body += part
        if len(body) > _MAX_ANSWER or time.monotonic() > until:
            break
    return body


def _answer(response: httpx.Response, body: bytes) -> dict[str, Any] | None:
    if response.status_code != 200 or len(body) > _MAX_ANSWER:
        return None
    try:
        value = parse_json(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _cohort(path: Path) -> tuple[Cohort | None, Check]:
    try:
        cohort = open_cohort(path)
    except EcgfedError as problem:
        return None, Check("cohort", False, problem.line)
    clients = len(cohort.federation) + len(cohort.weak_clients)
    if not clients:
        return None, Check("cohort", False, f"{path} has no patient to train on", "prepare one that has")
    return cohort, Check("cohort", True, f"{count_of(clients, 'patient')}, {count_of(len(cohort.classes), 'class')}")


def _disk(folder: Path, cohort: Path) -> Check:
    place = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    size = sum(path.stat().st_size for path in cohort.glob("*") if path.is_file()) if cohort.is_dir() else 0
    needed = max(FREE_BYTES, FREE_COHORTS * size)
    free = shutil.disk_usage(place).free
    observed = f"{free / 1e9:.1f} GB free at {place}"
    if not os.access(place, os.W_OK):
        return Check("disk", False, f"{place} cannot be written", "choose another folder, or run as another user")
    fix = "" if free >= needed else f"free {needed / 1e9:.1f} GB"
    return Check("disk", free >= needed, observed, fix)


def _compared(cohort: Cohort | None, answer: dict[str, Any] | None) -> Iterator[Check]:
    """Yield what differs between this site and the federation: protocol, version, classes, leads."""
    if answer is None:
        return
    server = str(answer.get("version", "unknown"))
    if difference := protocol_difference(answer.get("protocol"), server):
        yield Check("version", False, difference)
    elif version_difference(server):
        yield Check("version", None, version_difference(server))
    else:
        yield Check("version", True, f"ecgfed {__version__}, protocol {PROTOCOL}, at both ends")
    classes = answer.get("classes")
    if cohort is None or not isinstance(classes, list):
        yield Check("classes", None, "not compared: the server knows them once all sites have registered")
        return
    same = list(cohort.classes) == classes
    observed = f"this cohort's are {', '.join(cohort.classes):.200}"
    fix = f"the federation's are {safe_text(', '.join(map(str, classes)))[:200]}: prepare the cohort with these"
    yield Check("classes", same, observed, "" if same else fix)
    leads, own = answer.get("leads"), provenance_of(cohort)["leads"]
    if isinstance(leads, list) and leads and not set(own) & set(map(str, leads)):
        there = safe_text(", ".join(map(str, leads)))[:200]
        yield Check("leads", None, f"this cohort's are {', '.join(own)}, the other sites' {there}")
