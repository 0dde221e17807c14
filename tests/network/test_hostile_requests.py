"""A hostile server asks a real site, over the network, what ``hostile_requests`` lists.

The site refuses with a code that tells nothing, goes on answering, and its honest answers before, between and after are
those of a site that was asked nothing else, bit for bit. What leaks of a patient is in ``test_leaks``, questions that
come too often in ``test_audit``.
"""

import json
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

import hostile_requests
from attack import Notes, until
from flwr.app import RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from ecgfed.network.audit import check_log
from ecgfed.network.certificates import make_certificates, make_site_key
from ecgfed.network.control import Control, key_bytes
from ecgfed.network.gate import write_admitted
from ecgfed.network.launch import LOG, Address, free_port, server_flower, start_superlink, stopping, wait_listening
from ecgfed.network.limits import SiteOptions
from ecgfed.network.site_folder import make_site
from ecgfed.network.site_loop import SiteLoop

MIB = 1 << 20
LISTS = {**hostile_requests.BEFORE, **hostile_requests.DURING, **hostile_requests.AFTER}


def keep(folder: Path, content: RecordDict) -> None:
    """Write a request down, object by object."""
    folder.mkdir(parents=True)
    for name, one in get_all_nested_objects(content).items():
        (folder / name).write_bytes(one.deflate())
    (folder / "root").write_text(content.object_id)


def test_there_are_twenty_five_kinds() -> None:
    assert len(LISTS) >= 25


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_a_hostile_server_gets_refusals_and_the_site_goes_on(
    federation: Callable[..., Any], parts: list[Path], tmp_path: Path
) -> None:
    wish: dict[str, Any] = {"rounds": 2, "local_steps": 1, "width": 0.2}
    made = federation("fedavg", end=True, **wish)
    made.serve()
    asked = [content for kind, node, content in made.grid.sent if node == 11 and kind != "query.hello"]
    came = [content for kind, node, content in made.grid.came if node == 11 and kind == "train"]
    for name, content in zip(("1", "2", "end"), asked, strict=True):
        keep(tmp_path / "honest" / name, content)
    server, site, key = tmp_path / "server", tmp_path / "site", tmp_path / "site" / "key"
    make_site(site, parts[0], SiteOptions(numbers="cohort", max_questions=2))
    public = make_site_key(key)
    make_certificates(server / "tls", [])
    write_admitted(server, [key_bytes(public)])
    here, notes, ends = Address("127.0.0.1", free_port()), Notes(), threading.Event()
    programs = server_flower(server)
    script = programs.home.resolve() / "bin" / "flwr-serverapp"
    program = Path(hostile_requests.__file__).resolve()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
    processes = [start_superlink(programs, server / "tls", here.host, here.port)]
    with stopping(processes):
        wait_listening(processes[0], here, server / LOG)
        loop = SiteLoop(site, Address("localhost", here.port), server / "tls" / "ca.crt", key, notes, ends.is_set)
        thread = threading.Thread(target=loop.run)
        with Control(str(here), server / "tls" / "ca.crt") as control:
            control.register({"site": public})
            thread.start()
            try:
                until(control.online, 300)
                control.start_run(programs.home / "app")
                until((tmp_path / "done").is_file, 1500)
            finally:
                ends.set()
                thread.join(60)
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    by_kind = {line["kind"]: line for line in lines}
    wrong = [line for line in lines if line.get("refused") != line["expected"]]
    assert not wrong
    for number, content in enumerate(came, 1):
        assert by_kind[f"round {number}"]["weights"] == hostile_requests.digest(content)
    assert by_kind["round 1 again"]["weights"] == by_kind["round 1"]["weights"]
    log = check_log(site)
    assert len(log.lines) == len(lines)
    assert sum(file.stat().st_size for file in site.glob("*log*")) < MIB
    begun = sum(line["expected"] == "internal" for line in lines)  # weights that only training shows to be wrong
    assert 1 <= len(list((site / "runs").iterdir())) <= 1 + begun
    assert sorted(path.name for path in site.glob("result*")) == ["result"]
    shutil.rmtree(server)
