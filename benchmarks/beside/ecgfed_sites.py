"""Three sites of ecgfed with a patient of MIT-BIH each, and the same beats as arrays for other tools.

    python benchmarks/beside/ecgfed_sites.py --source MITDB --work DIR

Runs FedAvg over the loopback with TLS and keys, in processes of their own; prints what ``results.json`` has of ecgfed
and writes ``DIR/data/site-N.npz``. Needs Flower (``make flower``) and Linux.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "network"))
import common

common.needs_flower()
from loopback import Loopback, descendants
from relay import Memory, Relay

import ecgfed
from ecgfed.base.files import read_json
from ecgfed.core.runs.history import TIMING, read_lines
from ecgfed.network.launch import free_port

RECORDS, ROUNDS = ("119", "208", "209"), 5


def prepared(source: Path, work: Path) -> Path:
    """Return a cohort of the three records; writes their training beats as arrays."""
    folder, records, data = work / "cohort", work / "records", work / "data"
    if folder.is_dir():
        return folder
    records.mkdir(parents=True, exist_ok=True)
    data.mkdir(exist_ok=True)
    for name in RECORDS:
        for file in source.glob(f"{name}.*"):
            shutil.copyfile(file, records / file.name)
    cohort = ecgfed.prepare_folder(records, folder, leads="MLII", classes="aami5")
    for place in range(len(cohort.clients)):
        rows = np.flatnonzero((cohort.arrays["client"] == place) & (cohort.arrays["split"] == 0))
        beats, labels = cohort.arrays["beats"][rows][:, 0], cohort.arrays["label"][rows]
        np.savez(data / f"site-{place + 1}.npz", x=beats.astype(np.float32), y=labels.astype(np.int64))
    return folder


def main(given: argparse.Namespace) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    cohort, folder = prepared(given.source, given.work), given.work / "federation"
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--method", "fedavg", "--rounds", str(ROUNDS), "--local-epochs", "1", "--batch-size", "32"]
    made = Loopback(folder, cohort, 3, [*options, "--no-rr"])
    relay = Relay(free_port(), made.port)
    relay.start()
    load = os.getloadavg()[0]
    try:
        server = made.start_server()
        started = time.monotonic()
        made.port = relay.port
        sites = [made.start_site(place) for place in range(2)]
        groups = {"server": lambda: descendants(server.pid), "site": lambda: descendants(sites[0].pid)}
        memory = Memory(groups)
        memory.start()
        made.wait("two sites", lambda: "Waiting for site-3." in made.said("server"), 300)
        idle, waited = len(descendants(sites[0].pid)), time.monotonic()
        before = relay.up, relay.down
        made.start_site(2)
        made.wait_rounds(1, 400)
        first = time.monotonic() - waited
        made.wait_rounds(ROUNDS, 400)
        up, down = relay.up - before[0], relay.down - before[1]
        made.wait("the end", lambda: server.poll() is not None, 400)
        memory.close()
    finally:
        made.close()
    timing = read_lines(made.server / "run" / TIMING, ROUNDS)
    leaves = read_json(made.server / "leaves.json", RuntimeError)["leaves"]
    found = {
        "version": ecgfed.__version__,
        "seconds_to_first_round": first,
        "seconds_until_two_sites_wait": waited - started,
        "seconds_per_round": statistics.median(line["seconds"] for line in timing[1:]),
        "model_bytes": sum(leaf["bytes"] for leaf in leaves if leaf["way"] == "down"),
        "bytes_up_per_site_and_round": up / 3 / ROUNDS,
        "bytes_down_per_site_and_round": down / 3 / ROUNDS,
        "peak_mib": memory.peak_mib,
        "idle_processes_of_a_site": idle,
        "load": [load, os.getloadavg()[0]],
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    common.benchmark(
        main,
        common.option("--work", type=Path, required=True),
        common.option("--source", type=Path, required=True, help="folder with the 48 MIT-BIH records"),
        standard=False,
    )
