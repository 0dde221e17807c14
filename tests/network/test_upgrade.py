"""Two installed versions of ecgfed in one federation, and a run that goes on after both ends were upgraded.

``before`` is the last commit that spoke protocol 2, ``now`` this one, and ``next`` this one with a later protocol. Each
is installed into a folder of its own.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from test_same_numbers import same

from ecgfed.core.runs.run import open_run
from ecgfed.network.certificates import make_site_key
from ecgfed.network.config import PROTOCOL
from ecgfed.network.launch import free_port

ROOT = Path(__file__).parents[2]
#: The last commit before protocol 3.
PROTOCOL_2 = "24450c6bde2fcdf608849252d26db5d1dbad4076"
SITE, SERVER = "upgrade ecgfed at th(at|is) site", "upgrade ecgfed at the server"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder that a version is installed in."""
    folder = tmp_path_factory.mktemp("versions")

    def install(name: str) -> Path:
        source, target = folder / f"{name}-source", folder / name
        if target.is_dir():
            return target
        source.mkdir()
        if name == "before":
            known = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", PROTOCOL_2], capture_output=True, check=False)
            if known.returncode:
                pytest.skip(f"needs the repository with commit {PROTOCOL_2[:10]}, the last of protocol 2")
            archive = subprocess.run(["git", "-C", ROOT, "archive", PROTOCOL_2], capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
        else:
            for part in ("ecgfed", "cli"):
                shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
            for part in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copyfile(ROOT / part, source / part)
        if name == "next":
            config = source / "ecgfed" / "network" / "config.py"
            text = config.read_text()
            assert f"\nPROTOCOL = {PROTOCOL}\n" in text
            config.write_text(text.replace(f"\nPROTOCOL = {PROTOCOL}\n", f"\nPROTOCOL = {PROTOCOL + 1}\n"))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*pip, "--target", target, source], check=True, cwd=folder)
        return target

    return install


class Ends:
    """A server and its sites, each the command line of an installed version in a process of its own.

    Args:
        folder: a new folder.
        cohorts: one of each site.
        installed: name of a version -> folder that it is installed in.
    """

    def __init__(self, folder: Path, cohorts: list[Path], installed: Callable[[str], Path]) -> None:
        self.folder, self.port, self.installed = folder, free_port(), installed
        self.cohorts = {f"site-{place}": cohort for place, cohort in enumerate(cohorts)}
        self.said: dict[str, Path] = {}
        (folder / "keys").mkdir(parents=True)
        for name in self.cohorts:
            public = make_site_key(folder / name / "key")
            shutil.copyfile(public, folder / "keys" / f"{name}.pub")

    @contextmanager
    def running(self, version: str, name: str, *words: object) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command of a version until the block ends; what it says goes to ``said[name]``."""
        environment = {**os.environ, "PYTHONPATH": str(self.installed(version)), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", "from ecgfed_cli.main import main; main()", *map(str, words)]
        self.said[name] = self.folder / f"{name}-{version}.said"
        with self.said[name].open("ab") as out:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @contextmanager
    def federation(
        self, server: str, site: str, rounds: int, settings: Mapping[str, object] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a server of one version and all sites of another, with the server's defaults or given settings."""
        options = ["--sites", len(self.cohorts), "--method", "fedavg", "--rounds", rounds, "--local-steps", 2]
        for name, value in (settings or {}).items():
            options += ["--set", f"{name}={value}"]
        words = ("federate", "server", "server", *options, "--host", "127.0.0.1", "--port", self.port)
        with ExitStack() as stack:
            process = stack.enter_context(self.running(server, "server", *words, "--keys", "keys"))
            ca = self.folder / "server" / "tls" / "ca.crt"
            wait("the certificates", ca.is_file, process)
            for name, cohort in self.cohorts.items():
                dials = ("federate", "site", name, "--cohort", cohort, "--numbers", "cohort")
                where = ("--server", f"127.0.0.1:{self.port}", "--ca", ca)
                stack.enter_context(self.running(site, name, *dials, *where))
            yield process

    def rounds(self) -> int:
        """Return how many rounds are done."""
        history = self.folder / "server" / "run" / "history.jsonl"
        return len(history.read_text().splitlines()) if history.is_file() else 0


def wait(what: str, holds: Callable[[], bool], server: subprocess.Popen[bytes] | None = None) -> None:
    until = time.monotonic() + 500
    while not holds():
        assert time.monotonic() < until, f"{what}: not after 500 s"
        assert server is None or server.poll() is None, f"{what}: the server has ended"
        time.sleep(0.2)


def lines_with(file: Path, pattern: str) -> list[str]:
    return [line for line in file.read_text().splitlines() if re.search(pattern, line)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "site", "at_server", "at_site"),
    [
        ("now", "before", SITE, ""),  # what that site says cannot be changed any more
        ("before", "now", "", SERVER),
        ("next", "now", SITE, SITE),
        ("now", "next", SERVER, SERVER),
    ],
)
def test_one_line_says_which_end_to_upgrade(
    server: str,
    site: str,
    at_server: str,
    at_site: str,
    installed: Callable[[str], Path],
    parts: list[Path],
    tmp_path: Path,
) -> None:
    ends = Ends(tmp_path / "ends", parts[:1], installed)
    with ends.federation(server, site, 1) as process:
        wait("the server's end", lambda: process.poll() is not None)
    assert process.returncode == 2
    assert ends.rounds() == 0
    for name, pattern in (("server", at_server), ("site-0", at_site)):
        found = lines_with(ends.said[name], "upgrade ecgfed")
        assert len(found) == bool(pattern), ends.said[name].read_text()
        assert all(re.search(pattern, line) for line in found)
    assert "Traceback" not in ends.said["server"].read_text() + ends.said["site-0"].read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("begun", "upgraded"), [("before", "now"), ("now", "next")])
def test_a_run_goes_on_after_both_ends_were_upgraded(
    begun: str, upgraded: str, installed: Callable[[str], Path], parts: list[Path], tmp_path: Path
) -> None:
    """To the bits of a run that was never stopped, and its models state the sites as those of the new version do."""
    ends = Ends(tmp_path / "ends", parts[:2], installed)
    with ends.federation(begun, begun, 4) as process:
        wait("two rounds", lambda: ends.rounds() >= 2, process)
    assert 2 <= ends.rounds() < 4
    with ends.federation(upgraded, upgraded, 4) as process:
        wait("the end", lambda: process.poll() is not None)
    assert process.returncode == 0, ends.said["server"].read_text()
    # A run keeps the settings it was begun with; the defaults of the new version may be others.
    settings = json.loads((ends.folder / "server" / "run" / "run.json").read_text())["settings"]
    whole = Ends(tmp_path / "whole", parts[:2], installed)
    with whole.federation(upgraded, upgraded, 4, settings) as process:
        wait("the end", lambda: process.poll() is not None)
    runs = [open_run(folder / "server" / "run") for folder in (ends.folder, whole.folder)]
    assert same(*(run.state().server for run in runs))
    assert ends.rounds() == 4
    stated = [sites_of(folder / "site-1" / "bundle") for folder in (ends.folder, whole.folder)]
    assert stated[0] == stated[1]
    assert all(site["leads"] for site in stated[0])


def sites_of(bundle: Path) -> Any:
    return json.loads((bundle / "manifest.json").read_text())["federation"]["sites"]
