"""Each fault tried against the real processes: a SuperLink, SuperNodes, TLS and keys on this machine.

    python benchmarks/network/faults.py --work DIR

Seven synthetic patients at three sites, SCAFFOLD, ``--min-sites 2 --wait 20``. While the run goes on, strangers knock,
a second server and a second site with the same key are started, a site is killed, another one is stopped for longer
than ``--wait``, the server is killed. At the end what the server has is compared, bit for bit, with one machine that
had the missing sites' patients left out of the same rounds; then the run goes on with a key taken away. Writes
``faults.json``: what was tried, what happened, whether it held. Exit code 1 where something did not hold.

Processes are the question here: sites and server are the command line, each in processes of its own. Needs Flower
(``make flower``) and Linux.
"""

import argparse
import json
import os
import shutil
import signal
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

common.needs_flower()
import httpx
import numpy as np
import torch
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from loopback import Loopback, descendants, kill, peak_of, send

import ecgfed
from ecgfed.base.files import read_json
from ecgfed.core.federation import train as training
from ecgfed.core.federation.trees import flatten
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.runs.run import open_run
from ecgfed.network.certificates import make_certificates, make_site_key, read_site_key
from ecgfed.network.launch import read_address, site_flower, start_supernode

ROUNDS, STEPS, WAIT_S = 12, 2, 20
POLICY = ["--min-sites", "2", "--wait", str(WAIT_S)]
SETTINGS: dict[str, str | float] = {"lr": 5e-3, **PLAIN_MEAN}
PARTS = ("strangers", "bytes", "doubles", "sites", "revoked")
PATIENTS = {"site-1": (0, 1), "site-2": (2, 3), "site-3": (4, 5, 6)}


def federation(work: Path, name: str, *, rounds: int = ROUNDS, steps: int = STEPS) -> Loopback:
    """Return a new federation in a folder of ``work``, its server and its sites not yet started."""
    shutil.rmtree(work / name, ignore_errors=True)
    options = ["--name", "localhost", "--method", "scaffold", "--rounds", str(rounds), "--local-steps", str(steps)]
    options += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    return Loopback(work / name, cohort_of(work), len(PATIENTS), options)


def cohort_of(work: Path) -> Path:
    """Return the synthetic cohort in ``work``, made where it is not there yet."""
    if not (work / "cohort").is_dir():
        ecgfed.prepare_demo(work / "cohort", patients=sum(map(len, PATIENTS.values())), minutes=1.5)
    return work / "cohort"


class Report:
    """What was tried, and what happened."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, fault: str, happened: str, held: bool) -> None:
        """Note a fault."""
        self.rows.append({"fault": fault, "happened": happened, "held": bool(held)})
        print(f"{'held' if held else 'FAILED'}: {fault}: {happened}", flush=True)


class Knock:
    """A caller at the fleet's part of the server, with a key, a time and a node of one's choice."""

    def __init__(self, made: Loopback, key: Path) -> None:
        self.made, self.key = made, read_site_key(key)
        self.context = ssl.create_default_context(cafile=str(made.server / "tls" / "ca.crt"))
        self.url = f"https://localhost:{made.port}/v1/fleet/"

    def headers(self, age_s: float = 0.0, said: str = "") -> dict[str, str]:
        """Flower's signed headers; ``said`` puts another time beside the signature."""
        at = (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat()
        return {
            "content-type": "application/protobuf",
            "flwr-public-key": b64encode(public_key_to_bytes(self.key.public_key())).decode(),
            "flwr-timestamp": said or at,
            "flwr-signature": b64encode(sign_message(self.key, at.encode())).decode(),
        }

    def pull(self, node: int, headers: dict[str, str]) -> int:
        """Ask for a node's messages; returns the status."""
        body = PullMessagesRequest(node=Node(node_id=node)).SerializeToString()
        return httpx.post(self.url + "pull-messages", content=body, headers=headers, verify=self.context).status_code

    def push(self, length: int | None, headers: dict[str, str]) -> tuple[int, int]:
        """Send ten gigabytes, with this length in the header or none; returns the status and the bytes taken."""
        sent = 0

        def body() -> Iterator[bytes]:
            nonlocal sent
            for _ in range(10_000):
                sent += 1_000_000
                yield b"x" * 1_000_000

        more = {} if length is None else {"content-length": str(length)}
        try:
            found = httpx.post(
                self.url + "push-object", content=body(), headers={**headers, **more}, verify=self.context, timeout=30
            ).status_code
        except httpx.HTTPError:  # the server answers and closes while there is more to send
            found = 0
        return found, sent


def strangers(made: Loopback, report: Report) -> None:
    """Keys, certificates and messages that are not to be taken."""
    nodes = {name: int(node) for node, name in read_json(made.server / "nodes.json", RuntimeError).items()}
    node = nodes["site-1"]
    make_site_key(made.folder / "stranger")
    make_certificates(made.folder / "other", [])
    address = read_address(f"127.0.0.1:{made.port}")
    process = start_supernode(
        site_flower(made.folder / "site-of-stranger"), address, made.server / "tls" / "ca.crt", made.folder / "stranger"
    )
    code = process.wait(180)
    report.add("a site with an unknown key", f"its SuperNode ends with code {code}", code != 0)
    process = start_supernode(
        site_flower(made.folder / "site-of-other"), address, made.folder / "other" / "ca.crt", made.folder / "stranger"
    )
    time.sleep(20)
    log = (made.folder / "site-of-other" / "flower.log").read_text(errors="replace")
    told = "CERTIFICATE_VERIFY_FAILED" in log or "certificate verify failed" in log
    kill(process)
    report.add("a server whose certificate another authority has signed", "the site shakes no hands with it", told)
    own, stranger = Knock(made, made.sites[0] / "key"), Knock(made, made.folder / "stranger")
    found = own.pull(node, own.headers())
    report.add("(for comparison: a message as a site's own program sends it)", f"HTTP {found}", found == 200)
    found = stranger.pull(node, stranger.headers())
    report.add("a message in a site's name, signed with another key", f"HTTP {found}", found == 401)
    found = own.pull(nodes["site-2"], own.headers())
    report.add("a message altered to another site's name", f"HTTP {found}", found == 401)
    found = own.pull(node, own.headers(said=(datetime.now(UTC) + timedelta(seconds=1)).isoformat()))
    report.add("a message whose signed time was altered", f"HTTP {found}", found == 401)
    found = own.pull(node, own.headers(age_s=310.0))
    report.add("a message of a site, replayed after five minutes", f"HTTP {found}", found == 401)
    found = own.pull(node, own.headers(age_s=120.0))
    report.add(
        "a message of a site, replayed within five minutes by somebody who has broken TLS",
        f"HTTP {found}: Flower takes it, its signature is over the time alone; TLS is what keeps it from anybody",
        found == 200,
    )


def too_many_bytes(made: Loopback, server: Any, report: Report) -> None:
    """Ten gigabytes, announced and not announced."""
    (superlink,) = (
        one
        for one in descendants(server.pid)
        if b"ecgfed.network.processes\0flower-superlink" in Path(f"/proc/{one}/cmdline").read_bytes()
    )
    own = Knock(made, made.sites[0] / "key")
    for length, what in ((10_000_000_000, "10 GB announced in one request"), (None, "10 GB without a length")):
        before = peak_of(superlink)
        found, sent = own.push(length, own.headers())
        grown = peak_of(superlink) - before
        answer = f"HTTP {found}" if found else "refused"
        happened = (
            f"{answer}; of {sent / 1e6:,.0f} MB that were sent all the same nothing is kept, "
            f"the SuperLink's peak memory grew by {grown:.0f} MiB"
        )
        report.add(what, happened, found in (0, 411, 413) and grown < 64)


def doubles(made: Loopback, report: Report) -> None:
    """A second server on the folder, a second site in the folder, a second site with the key."""
    words = ("federate", "server", made.server, "--keys", made.keys, *made.options, "--host", "127.0.0.1", "--port")
    said = made.run_cli(*words, made.port + 1, check=False)
    report.add("a second server on the folder", _short(said.stderr, made), said.returncode == 2)
    site = made.sites[0]
    words = ("federate", "site", site, "--cohort", site / "cohort", "--server", f"127.0.0.1:{made.port}")
    said = made.run_cli(*words, "--ca", made.server / "tls" / "ca.crt", check=False)
    report.add("a second site in a site's folder", _short(said.stderr, made), said.returncode == 2)
    flower = site_flower(made.folder / "site-twin")
    shutil.copyfile(site / "site.json", made.folder / "site-twin" / "site.json")
    address = read_address(f"127.0.0.1:{made.port}")
    process = start_supernode(flower, address, made.server / "tls" / "ca.crt", site / "key")
    code = process.wait(180)
    report.add("a second site with a site's key", f"its SuperNode ends with code {code}", code != 0)


def _short(said: str, made: Loopback) -> str:
    """What a command said, without where this folder lies."""
    return said.strip().replace(f"{made.folder}/", "")[-160:]


def missed(made: Loopback, name: str, since: int) -> list[int]:
    """Rounds after one that a site took no part in."""
    return [line["round"] for line in made.history()[since:] if name in line.get("left_out", {})]


def compare(made: Loopback, cohort: Path) -> tuple[bool, dict[int, tuple[int, ...]]]:
    """Whether server and sites have what one machine has without the missing patients, bit for bit."""
    lines = made.history()
    gone = {
        line["round"]: tuple(one for name in line["left_out"] for one in PATIENTS[name])
        for line in lines
        if line.get("left_out")
    }
    chosen = training.participants

    def fewer(plan: Any, clients: Any, number: int) -> Any:
        return np.array([one for one in chosen(plan, clients, number) if one not in gone.get(number, ())])

    with mock.patch.object(training, "participants", fewer):
        one = ecgfed.train(
            cohort,
            made.folder / "alone",
            method="scaffold",
            settings=SETTINGS,
            rounds=ROUNDS,
            local_steps=STEPS,
            engine="threads",
            eval_every=0,
            overwrite=True,
        )
    found, expected = open_run(made.server / "run").state(), one.state()
    equal = alike(found.server, expected.server)
    for site, (first, *_) in zip(made.sites, PATIENTS.values(), strict=True):
        there = open_run(site / "result").state()
        equal &= all(alike(there.client_states[k], expected.client_states[first + k]) for k in there.client_states)
    return equal, gone


def alike(one: Any, other: Any) -> bool:
    a, b = flatten(one), flatten(other)
    return list(a) == list(b) and all(torch.equal(a[path], b[path]) for path in a)


def run(work: Path, report: Report, only: Sequence[str]) -> None:
    """Try everything in one run of a federation, or a part of it."""
    made = federation(work, "federation")
    try:
        server = made.start_server(*POLICY)
        sites = [made.start_site(place) for place in range(3)]
        made.wait_rounds(1)
        if "strangers" in only:
            strangers(made, report)
        if "bytes" in only:
            too_many_bytes(made, server, report)
        if "doubles" in only:
            doubles(made, report)
        if "sites" in only:
            failing_sites(made, server, sites, cohort_of(work), report)
    finally:
        made.close()


def failing_sites(made: Loopback, server: Any, sites: list[Any], cohort: Path, report: Report) -> None:
    """A site killed, a site too slow, the server killed; then the end, and the comparison."""
    done = len(made.history())
    kill(sites[1])
    made.wait("a round without site-2", lambda: bool(missed(made, "site-2", done)))
    why = made.history()[missed(made, "site-2", done)[0] - 1]["left_out"]["site-2"]
    sites[1] = made.start_site(1)
    made.wait(
        "site-2 again",
        lambda: "site-2" not in made.history()[-1].get("left_out", {}) and "site site-2 is back" in made.told(),
    )
    rounds = missed(made, "site-2", done)
    report.add(
        "a site killed in mid-round (kill -9, all of its processes)",
        f"{len(rounds)} rounds went on without it, which {why}; started again it took part again",
        len(rounds) > 0,
    )

    done = len(made.history())
    send(sites[2], signal.SIGSTOP)
    made.wait("a round without site-3", lambda: bool(missed(made, "site-3", done)))
    why = made.history()[missed(made, "site-3", done)[0] - 1]["left_out"]["site-3"]
    send(sites[2], signal.SIGCONT)
    made.wait("site-3 again", lambda: "site-3" not in made.history()[-1].get("left_out", {}))
    rounds = missed(made, "site-3", done)
    report.add(
        f"a site that is slower than --wait ({WAIT_S} s)",
        f"{len(rounds)} rounds went on without it, which {why}; its late answer was thrown away, and it took part "
        "again",
        len(rounds) > 0,
    )

    done = len(made.history())
    time.sleep(1.0)
    kill(server)
    server = made.start_server(*POLICY)
    made.wait_rounds(done + 1)
    report.add("the server killed (kill -9, all of its processes)", "the same command goes on", True)
    made.wait("the end", lambda: server.poll() is not None, 420)
    equal, gone = compare(made, cohort)
    report.add(
        "all of these together, at the end",
        f"server and sites have, bit for bit, what one machine has without the patients that were missing in "
        f"{len(gone)} of {ROUNDS} rounds",
        equal and server.returncode == 0,
    )


def revoked(work: Path, report: Report) -> None:
    """A key taken out of the folder while its site still dials."""
    last = 6
    made = federation(work, "revoked", rounds=last, steps=1)
    try:
        server = made.start_server(*POLICY)
        for place in range(3):
            made.start_site(place)
        made.wait_rounds(2)
        kill(server)
        (made.keys / "site-3.pub").unlink()
        refused = made.run_cli(
            *("federate", "server", made.server, "--keys", made.keys, *made.options, "--host", "127.0.0.1"),
            *("--port", made.port),
            check=False,
        )
        server = made.start_server(*POLICY)
        made.wait("the end", lambda: server.poll() is not None, 420)
        without = missed(made, "site-3", 0)
        held = refused.returncode == 2 and without[-1:] == [last] and server.returncode == 0
        report.add(
            "a revoked key",
            f"without --min-sites the server does not start ({_short(refused.stderr, made)}); with it rounds "
            f"{', '.join(map(str, without)) or 'none'} went on without that site, which is not let in",
            held,
        )
    finally:
        made.close()


def main(given: argparse.Namespace) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    given.work.mkdir(parents=True, exist_ok=True)
    report = Report()
    try:
        if set(given.only) != {"revoked"}:
            run(given.work, report, given.only)
        if "revoked" in given.only:
            revoked(given.work, report)
    finally:
        rows = report.rows
        if len(given.only) < len(PARTS) and given.results.is_file():
            rows = merged(json.loads(given.results.read_text())["faults"], rows)
        given.results.write_text(json.dumps({"flwr": version("flwr"), "faults": rows}, indent=1) + "\n")
    sys.exit(0 if all(row["held"] for row in rows) else 1)


def merged(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return earlier rows with those that were tried again in their places, and new ones at the end."""
    again = {row["fault"]: row for row in rows}
    return [again.pop(row["fault"], row) for row in before] + list(again.values())


if __name__ == "__main__":
    common.benchmark(
        main,
        common.option("--work", type=Path, required=True),
        common.option("--only", nargs="+", choices=PARTS, default=PARTS, help="parts; their rows replace those there"),
        common.option("--results", type=Path, default=Path(__file__).with_name("faults.json")),
        standard=False,
    )
