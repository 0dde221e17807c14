"""``/healthz`` and Prometheus metrics of a server or a site, for programs of the same machine."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ecgfed.base.errors import OptionError

#: Where it listens: other machines do not reach it.
LOOPBACK = "127.0.0.1"
#: Metric -> what it counts, and its type.
METRICS = {
    "ecgfed_up": ("1 while the programs run and, at a site, the server answers", "gauge"),
    "ecgfed_sites": ("Sites with a key", "gauge"),
    "ecgfed_sites_connected": ("Sites that are connected", "gauge"),
    "ecgfed_round": ("Last round that was saved by the server, or answered by the site", "gauge"),
    "ecgfed_rounds_answered_total": ("Rounds that the site has answered", "counter"),
    "ecgfed_refused_total": ("What the server has refused, by reason", "counter"),
    "ecgfed_refusals_total": ("Questions that the site has refused", "counter"),
    "ecgfed_results_total": ("Results that the site has stored", "counter"),
    "ecgfed_last_answer_timestamp_seconds": ("When the site last answered the server", "gauge"),
}


@dataclass
class Health:
    """What is reported.

    Attributes:
        healthy: whether ``/healthz`` answers 200.
        detail: one line that it answers with.
        values: metric -> value, or reason -> value.
    """

    healthy: bool = False
    detail: str = "starting"
    values: Mapping[str, float | Mapping[str, int]] = field(default_factory=dict)

    def text(self) -> str:
        """Return the metrics in Prometheus' text format."""
        lines = []
        for name, value in {"ecgfed_up": float(self.healthy), **self.values}.items():
            what, kind = METRICS[name]
            lines += [f"# HELP {name} {what}.", f"# TYPE {name} {kind}"]
            if isinstance(value, Mapping):
                lines += [f'{name}{{reason="{reason}"}} {count}' for reason, count in value.items()]
            else:
                lines.append(f"{name} {value:.15g}")
        return "\n".join(lines) + "\n"


@contextmanager
def reporting(port: int | None, health: Health) -> Iterator[None]:
    """Answer ``/healthz`` and ``/metrics`` on the loopback until the block ends; does nothing without a port.

    Raises:
        OptionError: the port cannot be used.
    """
    if port is None:
        yield
        return

    class Handler(BaseHTTPRequestHandler):
        """Answers GET with the state of the moment."""

        timeout = 5

        def do_GET(self) -> None:
            if self.path == "/healthz":
                self._answer(200 if health.healthy else 503, f"{health.detail}\n")
            elif self.path == "/metrics":
                self._answer(200, health.text(), "; version=0.0.4")
            else:
                self._answer(404, "/healthz or /metrics\n")

        def _answer(self, status: int, text: str, version: str = "") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"text/plain{version}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    except (OSError, OverflowError) as problem:
        reason = f"cannot listen at {LOOPBACK}:{port} ({problem})"
        raise OptionError("metrics_port", reason, "a free port of this machine", "choose another") from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
