"""What a federation between sites costs, and what a thousand hospitals of a thousand patients would need.

    python benchmarks/network/cost.py --work DIR --source MITDB

*Loopback*: GRP-FED's three rounds on eight synthetic patients at 2, 4 and 8 sites, each in processes of its own with
TLS and keys, beside the same rounds on one machine in the same script: bytes as Flower's SuperLink counts them
(messages with headers, without TLS and HTTP's own), seconds a round, processor time and peak memory of the server's two
programs.
*Transport*: GRP-FED on MIT-BIH with updates sent plain, as fp16 and as int8, T_g and T_p on the validation split: what
a client returns is packed and unpacked as between a site and the server (tests/network/test_transport.py), in threads.
*Scale*: arithmetic on these figures, no measurement: what the server would receive, hold and answer, and what gives way
first.

Seconds depend on the machine and on what else it does: its load is written down, and the ratio to one machine is what
to look at. Writes ``cost.json``. Needs Flower (``make flower``) and Linux.
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

common.needs_flower()
from loopback import Loopback, Usage

import ecgfed
from ecgfed.base.files import read_json
from ecgfed.core.federation.client_round import ClientResult, ClientWork
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.methods.base import Method
from ecgfed.core.runs.history import TIMING, read_lines
from ecgfed.network.transport import TRANSPORTS, pack, unpack

PATIENTS, ROUNDS = 8, 3
HOSPITALS, EACH, DRAWN = 1000, 1000, 1000
#: What a fast line carries, and what a large server holds: assumptions, not figures.
LINE_BITS_S, MEMORY_BYTES = 1e9, 128 * 2**30


def on_loopback(work: Path, cohort: Path, sites: int) -> dict[str, Any]:
    """Run a federation; return what it cost."""
    folder = work / f"sites-{sites}"
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--name", "localhost", "--method", "grp-fed", "--rounds", str(ROUNDS), "--set", "personal_start=0"]
    made = Loopback(folder, cohort, sites, options)
    load = os.getloadavg()[0]
    try:
        server = made.start_server()
        usage = Usage(server)
        usage.start()
        for place in range(sites):
            made.start_site(place)
        made.wait_rounds(1, 300)
        at_first, since = dict(usage.cpu_s), time.monotonic()
        made.wait("the end", lambda: server.poll() is not None, 420)
        seconds = time.monotonic() - since
        usage.close()
    finally:
        made.close()
    if server.returncode:
        raise SystemExit(made.said("server"))
    down, up = traffic(made.server / "flower" / "superlink.db")
    leaves = read_json(made.server / "leaves.json", RuntimeError)["leaves"]
    per_patient = {way: sum(leaf["bytes"] for leaf in leaves if leaf["way"] == way) for way in ("down", "up", "end")}
    timing = read_lines(made.server / "run" / TIMING, ROUNDS)
    return {
        "sites": sites,
        "bytes_down": down,
        "bytes_up": up,
        "leaf_bytes": per_patient,
        "bytes_up_per_site_and_round": up / sites / ROUNDS,
        "bytes_down_per_site_and_round": down / sites / ROUNDS,
        # the first one waits for the sites' programs to start
        "seconds_per_round": statistics.median(line["seconds"] for line in timing[1:]),
        "peak_mib": usage.peak_mib,
        "cpu_s_after_round_1": {name: usage.cpu_s[name] - at_first.get(name, 0.0) for name in usage.cpu_s},
        "seconds_after_round_1": seconds,
        "load_before": load,
    }


def traffic(database: Path) -> tuple[int, int]:
    """Return the bytes the SuperLink has sent to sites and received from them, as it counts them."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as open_database:
        (found,) = open_database.execute("select sum(bytes_sent), sum(bytes_recv) from run").fetchall()
    return int(found[0]), int(found[1])


def alone(work: Path, cohort: Path) -> float:
    """Return the seconds of a round of the same training on this machine alone."""
    run = ecgfed.train(
        cohort,
        work / "alone",
        method="grp-fed",
        rounds=ROUNDS,
        settings={"personal_start": 0.0},
        engine="threads",
        eval_every=0,
        checkpoint_every=1,
        overwrite=True,
    )
    timing = read_lines(run.path / TIMING, ROUNDS)
    return statistics.median(line["seconds"] for line in timing[1:])


class _Packed:
    """``ThreadEngine.run`` with what clients return packed and unpacked on the way."""

    def __init__(self, transport: str) -> None:
        self.transport, self.run = transport, ThreadEngine.run

    def __call__(self, engine: ThreadEngine, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        results = self.run(engine, method, work)
        shared = [one.shared for one in work]
        leaves, scales = pack([result.returned for result in results], shared, self.transport)
        trees = unpack(leaves, scales, shared, self.transport)
        return [
            ClientResult(tree, result.client_state, result.losses, result.examples)
            for tree, result in zip(trees, results, strict=True)
        ]


def with_transport(work: Path, cohort: Path, transport: str, passes: float) -> dict[str, Any]:
    """Train with updates packed; return scores on the validation split."""
    packed = _Packed(transport)
    with mock.patch.object(ThreadEngine, "run", lambda engine, method, work: packed(engine, method, work)):
        run = ecgfed.train(
            cohort,
            work / f"transport-{transport}",
            method="grp-fed",
            passes=passes,
            engine="threads",
            eval_every=0,
            overwrite=True,
        )
    scores = ecgfed.evaluate(run, split="valid", local_models=False)
    return {"transport": transport, "passes": passes, "rounds": run.plan.rounds, "T_g": scores.T_g, "T_p": scores.T_p}


def at_scale(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what 1,000 hospitals of 1,000 patients would need, from the measured figures and nothing else."""
    leaf = measured[-1]["leaf_bytes"]
    sites = [one["sites"] for one in measured]
    # what a site costs the SuperLink by being there and asked: the slope over the numbers of sites
    share = [one["cpu_s_after_round_1"]["flower-superlink"] / one["seconds_after_round_1"] for one in measured]
    slope, _ = statistics.linear_regression(sites, share)
    memory, _ = statistics.linear_regression(sites, [one["peak_mib"]["flwr-serverapp"] for one in measured])
    # a thousand draws among a thousand hospitals of the same size meet this many of them
    met = HOSPITALS * (1 - (1 - 1 / HOSPITALS) ** DRAWN)
    rounds = [
        _round("every patient, every round", HOSPITALS * EACH, HOSPITALS, leaf),
        _round(f"--clients-per-round {DRAWN}", DRAWN, met, leaf),
        _round("one sum a hospital in place of its patients (not built)", HOSPITALS, HOSPITALS, leaf),
    ]
    return {
        "hospitals": HOSPITALS,
        "patients_each": EACH,
        "line_bits_per_s": LINE_BITS_S,
        "server_memory_bytes": MEMORY_BYTES,
        "superlink_cores_per_site": slope,
        "sites_for_one_core": 1 / slope if slope > 0 else None,
        "superlink_cores": slope * HOSPITALS,
        "serverapp_mib_per_site_measured": memory,
        "rounds": rounds,
    }


def _round(what: str, patients: float, sites: float, leaf: dict[str, int]) -> dict[str, Any]:
    up, down = patients * leaf["up"], sites * leaf["down"]
    held = 2 * up  # the replies, and the stack that ``aggregate`` is given
    return {
        "what": what,
        "patients": patients,
        "sites": sites,
        "bytes_up": up,
        "bytes_down": down,
        "line_s": 8 * max(up, down) / LINE_BITS_S,
        "held_bytes": held,
        "fits_in_memory": held <= MEMORY_BYTES,
    }


def main(given: argparse.Namespace) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.work.mkdir(parents=True, exist_ok=True)
    cohort = given.work / "demo"
    if not cohort.is_dir():
        ecgfed.prepare_demo(cohort, patients=PATIENTS, minutes=2)
    before = read_json(given.results, RuntimeError) if given.results.is_file() else {}
    results: dict[str, Any] = {"cores": os.cpu_count(), "patients": PATIENTS, "rounds": ROUNDS}
    if given.sites:
        seconds = alone(given.work, cohort)
        measured = []
        for sites in given.sites:
            one = on_loopback(given.work, cohort, sites)
            measured.append({**one, "times_one_machine": one["seconds_per_round"] / seconds})
            print(measured[-1], flush=True)
        results |= {"one_machine_seconds_per_round": seconds, "loopback": measured, "scale": at_scale(measured)}
    else:
        kept = ("one_machine_seconds_per_round", "loopback", "scale")
        results |= {name: before[name] for name in kept if name in before}
    if given.source:
        mitdb = given.work / "mitdb-cohort"
        if not mitdb.is_dir():
            ecgfed.prepare_mitbih(given.source, mitdb)
        results["transport"] = [with_transport(given.work, mitdb, name, given.passes) for name in TRANSPORTS]
        print(results["transport"], flush=True)
    elif "transport" in before:
        results["transport"] = before["transport"]
    common.save(given, results)


if __name__ == "__main__":
    common.benchmark(
        main,
        common.option("--work", type=Path, required=True),
        common.option("--source", type=Path, help="folder with the 48 MIT-BIH records; without it, no transport"),
        common.option("--sites", type=int, nargs="*", default=[2, 4, 8]),
        common.option("--passes", type=float, default=2.0),
        common.option("--results", type=Path, default=Path(__file__).with_name("cost.json")),
        standard=False,
    )
