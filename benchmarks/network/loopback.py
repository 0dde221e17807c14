"""A federation in processes of their own on this machine, and what these processes use; Linux only."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ecgfed.core.runs.history import HISTORY, read_lines
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.network.federate import prepare_site
from ecgfed.network.launch import free_port
from ecgfed.network.limits import SiteOptions
from ecgfed.network.partition import partition_cohort
from ecgfed.network.private import write_private

#: The command line.
CLI = [sys.executable, "-c", "from ecgfed_cli.main import main; main()"]
_TICKS = os.sysconf("SC_CLK_TCK")


class Loopback:
    """A server and its sites, each the command line in a process of its own.

    Args:
        folder: a new folder.
        cohort: divided among the sites.
        sites: how many.
        options: of ``ecgfed federate server``.
    """

    def __init__(self, folder: Path, cohort: Path, sites: int, options: list[str]) -> None:
        self.folder, self.port, self.options = folder, free_port(), ["--sites", str(sites), *options]
        self.sites = [folder / f"site-{place + 1}" for place in range(sites)]
        self.server, self.keys = folder / "server", folder / "keys"
        partition_cohort(open_cohort(cohort), [site / "cohort" for site in self.sites])
        for site in self.sites:
            _, private = prepare_site(site, site / "cohort", SiteOptions(numbers="cohort"))
            public = private.with_name(f"{private.name}.pub").read_bytes()
            write_private(self.keys / f"{site.name}.pub", public, mode=0o644)
        self.started: list[subprocess.Popen[bytes]] = []
        self.run_cli("federate", "server", self.server, *self.options, "--prepare")

    def run_cli(self, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run([*CLI, *map(str, words)], capture_output=True, text=True, check=check, timeout=300)

    def start(self, name: str, *words: object) -> subprocess.Popen[bytes]:
        """Start a command; what it says goes to ``NAME.said``."""
        with (self.folder / f"{name}.said").open("ab") as said:
            process = subprocess.Popen(
                [*CLI, *map(str, words)], stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        self.started.append(process)
        return process

    def start_server(self, *more: object) -> subprocess.Popen[bytes]:
        """Start the server, or go on with it."""
        words = ("federate", "server", self.server, "--keys", self.keys, "--host", "127.0.0.1", "--port", self.port)
        return self.start("server", *words, *self.options, *more)

    def start_site(self, place: int) -> subprocess.Popen[bytes]:
        """Start the site at a place, or go on with it."""
        site = self.sites[place]
        words = ("federate", "site", site, "--cohort", site / "cohort", "--server", f"127.0.0.1:{self.port}")
        return self.start(site.name, *words, "--ca", self.server / "tls" / "ca.crt")

    def said(self, name: str) -> str:
        """Return what a process has said so far."""
        file = self.folder / f"{name}.said"
        return file.read_text(errors="replace") if file.is_file() else ""

    def told(self) -> str:
        """Return what the run says to who looks on."""
        file = self.server / "messages.txt"
        return file.read_text(errors="replace") if file.is_file() else ""

    def history(self) -> list[dict[str, Any]]:
        """Return the lines of the rounds so far."""
        with contextlib.suppress(FileNotFoundError):
            return read_lines(self.server / "run" / HISTORY, None)
        return []

    def wait(self, what: str, holds: Callable[[], bool], seconds: float = 240.0) -> None:
        """Wait until something holds; raises TimeoutError."""
        begun = time.monotonic()
        while not holds():
            if time.monotonic() - begun > seconds:
                raise TimeoutError(f"{what}: not after {seconds:.0f} s; the server says: {self.said('server')[-600:]}")
            time.sleep(0.25)

    def wait_rounds(self, rounds: int, seconds: float = 240.0) -> None:
        """Wait until so many rounds are done; raises TimeoutError."""
        self.wait(f"round {rounds}", lambda: len(self.history()) >= rounds, seconds)

    def close(self) -> None:
        """End everything that was started here."""
        for process in self.started:
            kill(process)


def descendants(process: int) -> list[int]:
    """Return a process and all it has started, as /proc has them now."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process and all it has started, at once, as a power cut would."""
    for one in descendants(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all it has started."""
    if process.poll() is None:
        send(process, signal.SIGKILL)
        process.wait()


class Usage(threading.Thread):
    """Looks every half second at what the server's programs use.

    Args:
        server: the server's process.

    Attributes:
        peak_mib: program -> peak resident memory, MiB.
        cpu_s: program -> processor time so far.
    """

    PROGRAMS = ("flower-superlink", "flwr-serverapp")

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.peak_mib: dict[str, float] = {}
        self.cpu_s: dict[str, float] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            for process in descendants(self.server.pid):
                with contextlib.suppress(OSError, IndexError, ValueError):
                    self._look(process)

    def _look(self, process: int) -> None:
        place = Path(f"/proc/{process}")
        words = (place / "cmdline").read_bytes().split(b"\0")
        program = next((name for name in self.PROGRAMS if name.encode() in words[1:4]), None)
        if program is None or b"ecgfed.network.processes" not in words:
            return
        times = (place / "stat").read_text().rpartition(")")[2].split()
        self.peak_mib[program] = max(peak_of(process), self.peak_mib.get(program, 0.0))
        self.cpu_s[program] = max((int(times[11]) + int(times[12])) / _TICKS, self.cpu_s.get(program, 0.0))

    def close(self) -> None:
        """Stop looking."""
        self._over.set()
        self.join()


def peak_of(process: int) -> float:
    """Return a process's peak resident memory so far, MiB, 0 while it ends; raises OSError when it has ended."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
