"""A site's program: it keeps a SuperNode running, and reports what comes of it on the console and for monitoring."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ecgfed.base.files import remove
from ecgfed.network.audit import check_at_start
from ecgfed.network.certificates import read_site_key
from ecgfed.network.launch import LOG, Address, site_flower, start_supernode, stopping
from ecgfed.network.lines import Lines
from ecgfed.network.metrics import Health, reporting
from ecgfed.network.preflight import Connection, check_connection
from ecgfed.network.site_events import MESSAGES, counts_of
from ecgfed.tasks.progress import ProgressReporter

#: Seconds between two looks at the SuperNode, and before a site that was not let in dials again.
CHECK_S, RETRY_S = 0.5, 10.0
#: Seconds between two checks of the connection.
CONNECTION_S = 60.0


class SiteLoop:
    """Keeps a site connected until a stop is requested.

    Args:
        folder: the site's folder.
        server: the server's address.
        ca: the server's ``ca.crt``.
        key: the site's private key.
        progress: receives the messages.
        should_stop: polled regularly.
    """

    def __init__(
        self,
        folder: Path,
        server: Address,
        ca: Path,
        key: Path,
        progress: ProgressReporter,
        should_stop: Callable[[], bool],
    ) -> None:
        self.folder, self.server, self.ca, self.key = folder, server, ca, key
        self.progress, self.should_stop = progress, should_stop
        self.health, self._connected, self._checked_at = Health(detail="connecting"), False, 0.0
        self._failed_checks = 0  # in a row

    def run(self, metrics_port: int | None = None) -> None:
        """Run until a stop is requested.

        Args:
            metrics_port: port of the loopback for ``/healthz`` and ``/metrics``; None for none.

        Raises:
            OptionError: the port or the key cannot be used.
            StorageError: a program cannot be started.
        """
        remove(self.folder / MESSAGES)
        if problem := check_at_start(self.folder):
            self.progress.warn(f"the audit log has been changed: {problem}")
        lines = Lines(self.folder / MESSAGES)
        with reporting(metrics_port, self.health):
            flower = site_flower(self.folder, self.key)
            self.progress.note(f"Connecting to {self.server} until Ctrl-C. Log: {self.folder / LOG}")
            while not self.should_stop():
                process = start_supernode(flower, self.server, self.ca.resolve(), self.key.resolve())
                with stopping([process]):
                    while process.poll() is None and not self.should_stop():
                        self._look(lines.new())
                        time.sleep(CHECK_S)
                self._look(lines.new())
                if not self.should_stop():
                    self._explain(process.returncode)
                    self._wait(RETRY_S)

    def _look(self, lines: Iterator[str]) -> None:
        """Report new messages, and check the connection from time to time."""
        for line in lines:
            if line.startswith("warning: "):
                self.progress.warn(line.removeprefix("warning: "))
            else:
                self.progress.note(line)
        if time.monotonic() - self._checked_at > (CONNECTION_S if self._connected else RETRY_S):
            self._set_connected(self._check())
        values = counts_of(self.folder)
        counts = {
            "ecgfed_rounds_answered_total": values.get("rounds", 0),
            "ecgfed_refusals_total": values.get("refusals", 0),
            "ecgfed_results_total": values.get("results", 0),
            "ecgfed_round": values.get("round", 0),
        }
        if "last_answer" in values:
            counts["ecgfed_last_answer_timestamp_seconds"] = values["last_answer"]
        self.health.values = {name: float(value) for name, value in counts.items() if isinstance(value, int | float)}

    def _check(self) -> Connection:
        self._checked_at = time.monotonic()
        return check_connection(self.server, self.ca, read_site_key(self.key))

    def _set_connected(self, connection: Connection) -> None:
        connected = connection.answer is not None
        self._failed_checks = 0 if connected else self._failed_checks + 1
        if connected and not self._connected:
            self.progress.note(f"Connected: {self.server} knows this site's key.")
        elif not connected and (self._connected or self._failed_checks == 2):  # a server may start a moment later
            self._explain_failed(connection)
        self._connected = connected
        self.health.healthy, self.health.detail = connected, "connected" if connected else "not connected"

    def _explain(self, code: int | None) -> None:
        """Report why the SuperNode has ended."""
        connection = self._check()
        self._connected, self._failed_checks = False, 2
        self.health.healthy, self.health.detail = False, "not connected"
        if connection.answer is None:
            self._explain_failed(connection)
        else:
            # a key may be used at one place at a time; Flower lets a lost connection lapse after a while
            self.progress.warn(
                f"the SuperNode ended with code {code}, though {self.server} knows this site's key: is it in use "
                f"elsewhere, or was the connection lost a moment ago? See {self.folder / LOG}; retrying in "
                f"{RETRY_S:.0f} s"
            )

    def _explain_failed(self, connection: Connection) -> None:
        for check in connection.checks:
            if check.ok is False:
                fix = f"; {check.fix}" if check.fix else ""
                self.progress.warn(f"not connected: {check.observed}{fix}; retrying in {RETRY_S:.0f} s")

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.should_stop():
            time.sleep(CHECK_S)
