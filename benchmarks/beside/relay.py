"""A relay between sites and a server that counts the bytes of each direction, and what groups of processes use."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path


class Relay(threading.Thread):
    """Forwards connections from a port of the loopback to another one, unchanged.

    Args:
        port: where the sites connect.
        target: the server's port.

    Attributes:
        up: bytes from sites to the server, TLS included.
        down: bytes from the server to sites.
    """

    def __init__(self, port: int, target: int) -> None:
        super().__init__(daemon=True)
        self.port, self.target, self.up, self.down = port, target, 0, 0
        self._listens = threading.Event()

    def run(self) -> None:
        asyncio.run(self._serve())

    def start(self) -> None:
        """Start, and wait until it listens."""
        super().start()
        self._listens.wait()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
        self._listens.set()
        async with server:
            await server.serve_forever()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._copy(reader, back, "up"), self._copy(there, writer, "down"))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                setattr(self, way, getattr(self, way) + len(data))
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()


class Memory(threading.Thread):
    """Looks every half second at what groups of processes use: proportional set size, so shared pages count once.

    Args:
        groups: name -> process ids of a group, called at each look.

    Attributes:
        peak_mib: name -> peak of the group's sum, MiB.
    """

    def __init__(self, groups: dict[str, Callable[[], list[int]]]) -> None:
        super().__init__(daemon=True)
        self.groups, self.peak_mib = groups, dict.fromkeys(groups, 0.0)
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            for name, group in self.groups.items():
                self.peak_mib[name] = max(self.peak_mib[name], sum(map(pss_mib, group())))

    def close(self) -> None:
        """Stop looking."""
        self._over.set()
        self.join()


def pss_mib(process: int) -> float:
    """Return a process's proportional set size, MiB; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def processes_of(*words: str) -> list[int]:
    """Return the processes in whose command line one of the words is, but this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                if any(word in command for word in words):
                    found.append(int(entry.name))
    return found
