"""The same three sites in NVFlare, in an environment of its own, which is not this project's.

    python benchmarks/beside/nvflare_sites.py --python VENV/bin/python --work DIR

``DIR/data`` is what ``ecgfed_sites.py`` wrote. Prints what ``results.json`` has of NVFlare. Linux only.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from relay import Memory, Relay, processes_of

ROUNDS, SITES, PORT, RELAYED = 5, 3, 8002, 8102


def wait(what: str, holds: Callable[[], bool], seconds: float = 500) -> None:
    """Wait until something holds; raises TimeoutError."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.25)


def rounds_of(data: Path, site: int) -> list[float]:
    """Return when a site had trained each round, POSIX seconds."""
    file = data / f"site-{site}.rounds"
    return [float(line) for line in file.read_text().split()] if file.is_file() else []


class Nvflare:
    """NVFlare's trial on one machine (``nvflare poc``), whose sites connect through the relay."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.program = given.python.parent / "nvflare"
        self.kits = given.work / "poc" / "example_project" / "prod_00"
        self.python, self.given, self.begun = given.python, given, 0.0
        self.environment = {
            **os.environ,
            "HOME": str(given.work / "home"),
            "PATH": f"{given.python.parent}:{os.environ['PATH']}",
            "NVFLARE_POC_WORKSPACE": str(given.work / "poc"),
            "BESIDE_DATA": str(given.work / "data"),
            "OMP_NUM_THREADS": "1",
        }
        (given.work / "home").mkdir(exist_ok=True)

    def run(self, *words: str) -> None:
        """Run a command of NVFlare to its end."""
        subprocess.run([self.program, *words], env=self.environment, check=True)

    def start(self) -> None:
        """Make certificates and folders, start server and sites, and wait until all are connected."""
        self.run("poc", "prepare", "-n", str(SITES), "--force")
        for site in range(1, SITES + 1):
            file = self.kits / f"site-{site}" / "startup" / "fed_client.json"
            file.write_text(file.read_text().replace(f"localhost:{PORT}", f"localhost:{RELAYED}"))
        self.run("poc", "start", "--no-wait")
        log = self.kits / "server" / "log.txt"
        wait("the sites", lambda: log.is_file() and f"Total clients: {SITES}" in log.read_text())

    def submit(self) -> None:
        """Submit the job."""
        self.begun = time.time()
        command = [self.python, "job.py", self.kits / "admin@nvidia.com", str(ROUNDS)]
        subprocess.Popen(list(map(str, command)), cwd=HERE / "nvflare_job", env=self.environment)

    def close(self) -> None:
        """Stop everything."""
        subprocess.run([self.program, "poc", "stop"], env=self.environment, check=False)

    def group(self, name: str) -> list[int]:
        """Return the processes of the server or a site."""
        return processes_of(f"{self.kits / name}/", f"{self.kits / name} ")


def main(given: argparse.Namespace) -> None:
    """Measure NVFlare."""
    data = given.work / "data"
    for file in data.glob("*.rounds"):
        file.unlink()
    tool = Nvflare(given)
    relay = Relay(RELAYED, PORT)
    relay.start()
    memory = Memory({"server": lambda: tool.group("server"), "site": lambda: tool.group("site-1")})
    load = os.getloadavg()[0]
    try:
        tool.start()
        memory.start()
        idle, up, down = len(tool.group("site-1")), relay.up, relay.down
        tool.submit()
        sites = range(1, SITES + 1)
        wait("the rounds", lambda: all(len(rounds_of(data, site)) >= ROUNDS for site in sites))
        time.sleep(5)
        up, down = relay.up - up, relay.down - down
        memory.close()
    finally:
        tool.close()
    ends = [max(at) for at in zip(*(rounds_of(data, site) for site in sites), strict=True)]
    found = {
        "seconds_to_first_round": ends[0] - tool.begun,
        "seconds_per_round": statistics.median(after - before for before, after in itertools.pairwise(ends)),
        "model_bytes": 4 * (256 * 160 + 160 + 160 * 5 + 5),
        "bytes_up_per_site_and_round": up / SITES / ROUNDS,
        "bytes_down_per_site_and_round": down / SITES / ROUNDS,
        "peak_mib": memory.peak_mib,
        "idle_processes_of_a_site": idle,
        "load": [load, os.getloadavg()[0]],
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", type=Path, required=True, help="of NVFlare's environment")
    arguments.add_argument("--work", type=Path, required=True, help="folder of ecgfed_sites.py")
    main(arguments.parse_args())
