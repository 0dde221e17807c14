"""A server of ``serve`` in a thread, and a recording for it."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from local_page import Page

import ecgfed
from ecgfed.tasks.serve import ServedWork, serve


@dataclass
class Work(Page):
    """A server in a thread."""

    folder: Path = Path()
    idle_s: float = 60.0
    ended: list[ServedWork] = field(default_factory=list)

    def start(self) -> "Work":
        there = threading.Event()

        def opened(address: str) -> None:
            self.address = address
            there.set()

        def work() -> None:
            self.ended.append(serve(self.folder, opened=opened, idle_s=self.idle_s))

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()
        assert there.wait(60)
        return self

    def end(self) -> ServedWork:
        self.post("done", {})
        self.thread.join(30)
        return self.ended[0]

    def send(self, number: str, at: int, data: bytes, **headers: str) -> tuple[int, Any]:
        headers.setdefault("Content_Type", "application/octet-stream")
        status, reply, _ = self.ask("POST", f"upload/{number}/{at}", data, **headers)
        return status, reply

    def add(self, *files: Path) -> tuple[int, Any]:
        sizes = [{"name": file.name, "size": file.stat().st_size} for file in files]
        number = self.post("upload", {"files": sizes})[1]["upload"]
        for at, file in enumerate(files):
            assert self.send(number, at, file.read_bytes())[0] == 200
        return self.post(f"upload/{number}/done", {})

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.ask("GET", "state")[1]
        return state

    def entry(self, recording: str) -> dict[str, Any]:
        return next(entry for entry in self.state()["recordings"] if entry["id"] == recording)

    def job(self, recording: str, what: str) -> dict[str, Any]:
        """Do a job, and wait for its end."""
        status, job = self.post(f"recordings/{recording}/{what}", {})
        assert status == 200, job
        while True:
            now: dict[str, Any] = next(one for one in self.state()["jobs"] if one["id"] == job["id"])
            if now["state"] not in ("waiting", "running"):
                return now
            time.sleep(0.05)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic recording of a minute."""
    folder = tmp_path_factory.mktemp("demo")
    ecgfed.prepare_demo(folder / "cohort", records=folder / "records", patients=1, minutes=1, workers=1)
    return folder / "records" / "demo01"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    server = Work(folder=tmp_path / "work").start()
    yield server
    if not server.ended:
        server.end()


def files_of(record: Path) -> tuple[Path, Path]:
    return record.with_suffix(".hea"), record.with_suffix(".dat")


def announce(work: Work, *names: object, size: object = 3) -> tuple[int, Any]:
    return work.post("upload", {"files": [{"name": name, "size": size} for name in names]})
