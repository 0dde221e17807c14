"""The programs of a server: Flower's SuperLink, and HAProxy before it where it is installed."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import RunError
from ecgfed.core.runs.document import finished_rounds
from ecgfed.network.errors import NetworkError
from ecgfed.network.launch import (
    LOG,
    Address,
    Flower,
    free_port,
    server_flower,
    start_proxy,
    start_superlink,
    stopping,
    wait_listening,
)
from ecgfed.network.listening import Listening
from ecgfed.network.metrics import Health
from ecgfed.network.proxy import Proxy, find_haproxy
from ecgfed.network.refusals import REASONS, counted
from ecgfed.network.server_folder import RUN
from ecgfed.tasks.progress import ProgressReporter

#: Seconds between two reports of what was refused.
TELL_S = 60.0
#: Seconds between two looks at the state.
LOOK_S = 5.0
#: Folder of the certificates in a server's folder.
TLS = "tls"


@dataclass(frozen=True)
class Programs:
    """A server's running programs.

    Attributes:
        folder: the server's folder.
        flower: starts Flower's programs.
        address: where the SuperLink is reached from this machine.
        processes: the programs by name.
        proxy: HAProxy, None without.
    """

    folder: Path
    flower: Flower
    address: Address
    processes: dict[str, subprocess.Popen[bytes]]
    proxy: Proxy | None

    def refused(self) -> dict[str, int]:
        """Return what was refused since the start, by reason: a key of ``REASONS``, or HAProxy's."""
        behind = {} if self.proxy is None else self.proxy.refused()
        of_proxy = {f"proxy {name}": count for name, count in behind.items() if name != "open"}
        return {name: count for name, count in {**counted(self.folder), **of_proxy}.items() if count}

    def ended(self) -> str:
        """Return the name of a program that has ended, "" if all are running."""
        return next((name for name, process in self.processes.items() if process.poll() is not None), "")


@contextlib.contextmanager
def serving(
    folder: Path, listening: Listening, keys: Sequence[str], choice: str, progress: ProgressReporter
) -> Iterator[Programs]:
    """Start a server's programs, wait until they listen, and stop them when the block ends.

    Args:
        folder: the server's folder.
        listening: where sites connect.
        keys: the public keys that are let in, base64.
        choice: one of ``config.PROXIES``.
        progress: is told if there is no HAProxy.

    Raises:
        OptionError: HAProxy is asked for and not installed.
        NetworkError: a program does not start.
        StorageError: a file cannot be written.
    """
    tls, haproxy, outside = (folder / TLS).resolve(), find_haproxy(choice), listening.local_address
    inside = Address("127.0.0.1", free_port()) if haproxy else Address(listening.host, listening.port)
    address = inside if haproxy else outside
    flower = server_flower(folder, address.host, proxied=haproxy is not None)
    proxy = Proxy(flower.home, haproxy) if haproxy else None
    if proxy is not None:
        proxy.write(tls, Address(listening.host, listening.port), inside, keys)
    processes = {"Flower's SuperLink": start_superlink(flower, tls, inside.host, inside.port)}
    started = list(processes.values())
    with stopping(started):
        wait_listening(started[0], address, folder / LOG)
        if proxy is None:
            progress.note(
                "HAProxy is not installed or not wanted: whoever reaches the port can hold its connections open "
                "(apt install haproxy)."
            )
        else:
            processes["HAProxy"] = start_proxy(flower, proxy.command)
            started.append(processes["HAProxy"])
            wait_listening(processes["HAProxy"], outside, folder / LOG)
        yield Programs(folder, flower, address, processes, proxy)


class ServerWatch:
    """Reports, while a server runs, what was refused, and its state for monitoring.

    Args:
        folder: the server's folder.
        programs: its programs.
        online: returns the connected sites.
        sites: number of sites with a key.
        health: is updated.
        progress: receives the messages.
    """

    def __init__(
        self,
        folder: Path,
        programs: Programs,
        online: Callable[[], Collection[int]],
        sites: int,
        health: Health,
        progress: ProgressReporter,
    ) -> None:
        self.folder, self.programs, self.online, self.sites = folder, programs, online, sites
        self.health, self.progress = health, progress
        self._looked_at, self._told_at, self._told = -LOOK_S, time.monotonic(), dict[str, int]()

    def look(self) -> None:
        """Update the state, and report what was refused since the last report; called again and again."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        refused = self.programs.refused()
        if now - self._told_at >= TELL_S:
            self._tell(refused)
            self._told_at, self._told = now, refused
        ended = self.programs.ended()
        with contextlib.suppress(NetworkError):  # it answers late on a busy machine
            self.health.values = {
                "ecgfed_sites": self.sites,
                "ecgfed_sites_connected": len(self.online()),
                "ecgfed_round": self._round(),
                "ecgfed_refused_total": refused,
            }
        self.health.healthy, self.health.detail = not ended, f"{ended} ended" if ended else "running"

    def _tell(self, refused: Mapping[str, int]) -> None:
        new = {name: count - self._told.get(name, 0) for name, count in refused.items()}
        if parts := [f"{count:,} {REASONS.get(name, name)}" for name, count in new.items() if count > 0]:
            self.progress.note(f"Refused in the last {TELL_S:.0f} s: {'; '.join(parts)}.")

    def _round(self) -> int:
        try:
            return finished_rounds(self.folder / RUN, "")
        except RunError:  # it is being written, or there is none yet
            return 0
