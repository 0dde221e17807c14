"""A server that is killed while a site trains: the site stops, and the run ends with the bits of one left alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from attack import until
from test_same_numbers import same

from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.network.launch import free_port
from ecgfed.network.site_events import MESSAGES

#: Loaded at the start of every Python process of the site: a training takes long while a file is there.
SLOW = """
import os, sys
if sys.orig_argv[-1:] == ["warm"]:
    import time
    from ecgfed.core.methods.fedavg import FedAvg
    step = FedAvg.step
    def slowly(self, *given):
        if os.path.exists(os.environ["TRAINS_SLOWLY"]):
            time.sleep(3)
        return step(self, *given)
    FedAvg.step = slowly
"""


@contextmanager
def running(*words: object, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of ecgfed until the block ends."""
    program = [sys.executable, "-c", "from ecgfed_cli.main import main; main()", *map(str, words)]
    process = subprocess.Popen(program, env={**os.environ, **variables}, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@pytest.mark.slow
def test_a_server_killed_while_a_site_trains(
    ecgfed: Callable[..., Any], whole: Cohort, alone: Callable[..., Any], tmp_path: Path
) -> None:
    server, site, keys, slowly = (tmp_path / name for name in ("server", "site", "keys", "slowly"))
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(SLOW)
    assert ecgfed("federate", "site", site, "--cohort", whole.path, "--numbers", "cohort", "--prepare").code == 0
    keys.mkdir()
    (keys / "site.pub").write_bytes((site / "key.pub").read_bytes())
    plan = ("--sites", 1, "--method", "fedavg", "--rounds", 2, "--local-steps", 8)
    assert ecgfed("federate", "server", server, *plan, "--host", "127.0.0.1", "--prepare").code == 0
    port = free_port()
    serve = ("federate", "server", server, *plan, "--host", "127.0.0.1", "--port", port, "--keys", keys)
    to = ("--server", f"localhost:{port}", "--ca", server / "tls" / "ca.crt")
    variables = {"PYTHONPATH": str(tmp_path / "start"), "TRAINS_SLOWLY": str(slowly)}

    def said(text: str) -> Callable[[], bool]:
        return lambda: (site / MESSAGES).is_file() and text in (site / MESSAGES).read_text()

    with running("federate", "site", site, "--cohort", whole.path, *to, **variables):
        with running(*serve, "--proxy", "none") as killed:
            until(said("round 1: answered"), 900)
            slowly.touch()
            until(said("round 2 of 2: training"), 900)
            killed.kill()
        until(said("refused: the server had gone while it trained"), 300)
        assert "has refused connections" in (site / "log.txt").read_text()
        slowly.unlink()
        with running(*serve, "--proxy", "none"):
            until((server / "result.json").is_file, 900)
    run, one = open_run(server / "run"), alone("fedavg", rounds=2, local_steps=8)
    assert same(run.state().server, one.state().server)
    assert (run.path / "history.jsonl").read_bytes() == (one.path / "history.jsonl").read_bytes()
