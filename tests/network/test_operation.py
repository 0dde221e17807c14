"""What an operator sees: a site's console, preflight, health and metrics."""

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

import httpx
from attack import Attacked, Notes, attacked, until

from ecgfed.base.errors import OptionError
from ecgfed.network import preflight as module
from ecgfed.network.certificates import make_certificates, make_site_key
from ecgfed.network.launch import Address, free_port
from ecgfed.network.metrics import METRICS, Health, reporting
from ecgfed.network.preflight import Check, preflight, read_body
from ecgfed.network.site_events import MESSAGES, counts_of
from ecgfed.network.site_loop import SiteLoop

PORT = free_port()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with attacked(tmp_path_factory.mktemp("attacked"), metrics_port=PORT) as made:
        yield made


def checked(made: Attacked, cohort: Path, **others: Any) -> dict[str, Check]:
    site = made.folder.parent / "a"
    given = {"server": Address("localhost", made.port), "ca": made.ca, "key": site / "key", **others}
    return {check.name: check for check in preflight(site, cohort, **given)}


def failed(checks: dict[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if check.ok is False]


def test_preflight_of_a_site_that_may_connect(server: Attacked, parts: list[Path]) -> None:
    checks = checked(server, parts[0])
    assert failed(checks) == []
    assert {"cohort", "disk", "ca", "key", "connection", "clock", "admission", "version"} <= set(checks)


def test_preflight_names_the_cause(
    server: Attacked, parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_site_key(tmp_path / "unknown")
    make_certificates(tmp_path / "other", [])
    assert failed(checked(server, parts[0], key=tmp_path / "unknown")) == ["admission"]
    assert failed(checked(server, parts[0], ca=tmp_path / "other" / "ca.crt")) == ["certificate"]
    assert failed(checked(server, parts[0], server=Address("localhost", free_port()))) == ["connection"]
    assert failed(checked(server, parts[0], server=Address("127.0.0.2", server.port))) != []
    assert failed(checked(server, parts[0], server=Address("nowhere.invalid", 9092))) == ["name"]
    assert failed(checked(server, tmp_path / "none")) == ["cohort"]
    assert failed(checked(server, parts[0], key=tmp_path / "none")) == ["key"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    assert failed(checked(server, parts[0])) == ["disk"]
    monkeypatch.undo()
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://somebody:password@127.0.0.1:{free_port()}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    checks = checked(server, parts[0])
    assert failed(checks) == ["proxy"]
    assert not any("password" in check.line for check in checks.values())


@pytest.mark.parametrize(("hours", "held"), [(24, "ahead of"), (-24, "behind")])
def test_preflight_of_a_wrong_clock(
    hours: int, held: str, server: Attacked, parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr(module, "datetime", Wrong)
    checks = checked(server, parts[0])
    assert failed(checks) == ["clock", "admission"]
    assert held in checks["clock"].observed
    seconds = int(re.sub(r"\D", "", checks["clock"].observed.partition(" s ")[0]))
    assert abs(seconds - 86400) < 10


def test_preflight_compares_classes_and_leads(server: Attacked, parts: list[Path]) -> None:
    roster = {"classes": ["N", "V"], "modality": "ecg", "sites": [{"leads": ["V5"]}]}
    (server.folder / "roster.json").write_text(json.dumps(roster))
    try:
        checks = checked(server, parts[0])
    finally:
        (server.folder / "roster.json").unlink()
    assert failed(checks) == ["classes"]
    assert "N, V" in checks["classes"].fix
    assert (checks["leads"].ok, "V5" in checks["leads"].observed) == (None, True)


def test_an_answer_without_an_end_is_cut_off() -> None:
    """A server that never stops sending takes no more than the bound and one part, and none of it is taken apart."""
    parts = 0

    def endless() -> Iterator[bytes]:
        nonlocal parts
        while True:
            parts += 1
            yield bytes(1 << 16)

    body = read_body(httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Endless(endless)))
    assert (len(body), parts) == (17 << 16, 17)  # 1 MiB and one part more


class Endless(httpx.SyncByteStream):
    """A body whose parts come from a function."""

    def __init__(self, parts: Callable[[], Iterator[bytes]]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return self.parts()


def test_preflight_on_the_command_line(
    server: Attacked, parts: list[Path], ecgfed: Callable[..., Any], tmp_path: Path
) -> None:
    words = ["federate", "preflight", server.folder.parent / "a", "--cohort", parts[0], "--ca", server.ca]
    said = ecgfed(*words, "--server", f"localhost:{server.port}", "--json")
    assert said.code == 0, said.err
    assert all(check["ok"] is not False for check in json.loads(said.out)["checks"])
    assert ecgfed(*words, "--server", f"localhost:{free_port()}").code == 1


def samples(text: str) -> dict[str, float]:
    """Read Prometheus' text format by its grammar: comments, and a name with labels, a space, a number."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line)
            continue
        match = re.fullmatch(r'([a-z_]+(?:\{[a-z]+="[^"\\\n]*"\})?) (\S+)', line)
        assert match, line
        found[match[1]] = float(match[2])
    return found


def test_health_and_metrics_of_a_server(server: Attacked) -> None:
    def get(path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{PORT}{path}", timeout=5)

    assert until(lambda: get("/healthz").status_code == 200)
    # a stranger with a key that nobody knows
    headers = {"flwr-public-key": "AAAA"}
    url = f"https://localhost:{server.port}/v1/fleet/get-run"
    assert httpx.post(url, headers=headers, verify=server.tls()).status_code == 401
    until(lambda: any(name.startswith("ecgfed_refused_total{") for name in samples(get("/metrics").text)))
    found = samples(get("/metrics").text)
    assert found["ecgfed_up"] == 1
    assert (found["ecgfed_sites"], found["ecgfed_sites_connected"], found["ecgfed_round"]) == (2, 0, 0)
    assert get("/").status_code == 404


def test_health_of_what_does_not_run() -> None:
    health, port = Health(), free_port()
    with reporting(port, health):
        url = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{url}/healthz").status_code == 503
        health.values = {name: 1.0 for name in METRICS if name != "ecgfed_up"}
        assert set(samples(httpx.get(f"{url}/metrics").text)) == set(METRICS)
        with pytest.raises(OptionError, match="cannot listen at"), reporting(port, health):
            pass
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz")


def test_a_site_s_console(server: Attacked, parts: list[Path], tmp_path: Path) -> None:
    """Connected, or why not: the server is there and knows one of two keys, or nothing listens at its address."""
    for name, wanted, listens_at in (
        ("a", "Connected: ", server.port),
        ("stranger", "does not know this site's key", server.port),
        ("early", "not connected: ", free_port()),
    ):
        folder = tmp_path / name
        make_site_key(folder / "key")
        key = server.folder.parent / "a" / "key" if name == "a" else folder / "key"
        notes, stop, port = Notes(), threading.Event(), free_port()
        loop = SiteLoop(folder, Address("localhost", listens_at), server.ca, key, notes, stop.is_set)
        thread = threading.Thread(target=loop.run, args=(port,))
        thread.start()
        try:
            assert until(lambda notes=notes, wanted=wanted: any(wanted in line for line in notes.lines)), name
            status = httpx.get(f"http://127.0.0.1:{port}/healthz").status_code
            assert status == (200 if name == "a" else 503)
        finally:
            stop.set()
            thread.join(60)


@pytest.mark.usefixtures("at_once")
def test_a_site_reports_rounds_refusals_and_results(federation: Callable[..., Any]) -> None:
    made = federation("fedavg", rounds=2, local_steps=1, end=True)
    made.serve()
    lines = (made.sites[0] / MESSAGES).read_text().splitlines()
    wanted = ["registered", "run ", "round 1 of 2: training 2 patients", "round 1: answered", "round 2 of 2"]
    places = [next(place for place, line in enumerate(lines) if line.startswith(start)) for start in wanted]
    assert places == sorted(places)
    assert lines[-1].startswith("the result and the bundle are stored")
    found = counts_of(made.sites[0])
    assert (found["rounds"], found["results"], found["round"]) == (2, 1, 2)
    at = datetime.fromtimestamp(found["last_answer"], UTC)
    assert abs((datetime.now(UTC) - at).total_seconds()) < 600


@pytest.mark.usefixtures("at_once")
def test_a_site_reports_what_it_refuses(federation: Callable[..., Any]) -> None:
    from ecgfed.network.errors import NetworkError

    made = federation("fedavg", rounds=2, local_steps=1)
    site = json.loads((made.sites[0] / "site.json").read_text())
    (made.sites[0] / "site.json").write_text(json.dumps({**site, "most_rounds": 1}))
    with pytest.raises(NetworkError):
        made.serve()
    assert "refused: the run exceeds the number of runs or rounds" in (made.sites[0] / MESSAGES).read_text()
    assert counts_of(made.sites[0])["refusals"] == 1
