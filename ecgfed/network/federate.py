"""``federate``: a server, a site, how either stands, and all of it on one machine as a trial."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ecgfed.cohort.cohort import open_cohort
from ecgfed.errors import OptionError, StorageError
from ecgfed.files import check_new_folder, read_json, remove, write_json
from ecgfed.locks import locked
from ecgfed.methods.registry import method_by_name
from ecgfed.network.certificates import (
    CA,
    check_certificate,
    check_names,
    check_public_key,
    make_certificates,
    make_site_key,
    read_site_key,
)
from ecgfed.network.control import Control
from ecgfed.network.divide import blocks, divide_cohort
from ecgfed.network.errors import NetworkError
from ecgfed.network.launch import (
    LOG,
    Address,
    check_free,
    free_port,
    read_address,
    server_flower,
    site_flower,
    start_superlink,
    start_supernode,
    stopping,
    wait_listening,
)
from ecgfed.network.limits import AS_IT_IS, Terms
from ecgfed.network.listening import Listening
from ecgfed.network.policy import EVERY_SITE, Policy, write_policy
from ecgfed.network.private import write_private
from ecgfed.network.roster import FILE_NAME as ROSTER
from ecgfed.network.server_app import ENDED, NODES, TOLD
from ecgfed.network.server_folder import RESULT, Asked, make_server
from ecgfed.network.site_folder import Site, make_site
from ecgfed.tasks.watch import NOBODY, Watch
from ecgfed.text import count_of

TLS, KEY = "tls", "key"
#: Flower starts a process for every message, so a site that is there answers within minutes.
LOOK_S = 0.5
#: Between two looks for who is connected, and before a site that was not let in dials again.
WAIT_S, AGAIN_S = 1.0, 10.0
#: After a run has ended its last words are waited for so long.
LAST_WORDS_S = 10.0


def site_keys(folder: Path, sites: int, least: int | None = None) -> list[Path]:
    """Return the sites' public keys of a folder, in the order of the files' names.

    Args:
        folder: with a file ``*.pub`` for each.
        sites: how many there are.
        least: how many may be left of them; None is all.

    Raises:
        OptionError: as many as sites are not there, or one is no key.
    """
    keys = sorted(folder.glob("*.pub")) if folder.is_dir() else []
    if not (sites if least is None else least) <= len(keys) <= sites:
        found = f"{folder} holds {len(keys)} public keys (*.pub)"
        raise OptionError(
            "--keys", found, f"{sites}, one of each site", "collect each site's key.pub, named as you like"
        )
    for key in keys:
        check_public_key(key)
    return keys


def prepare_server(folder: Path, asked: Asked, listening: Listening) -> Path:
    """Make a server's folder and certificates, unless they are there; returns ``ca.crt``, which sites need.

    Raises:
        OptionError: the folder was begun for something else, or the certificates are for other names, or have expired.
        StorageError: it cannot be made.
    """
    make_server(folder, asked)
    make_certificates(folder / TLS, [*listening.names, listening.here.host])
    check_names(folder / TLS, listening.names)
    check_names(folder / TLS, [listening.here.host], "--host")
    return folder / TLS / CA


def run_server(
    folder: Path,
    asked: Asked,
    keys: Path,
    listening: Listening,
    *,
    policy: Policy = EVERY_SITE,
    watch: Watch = NOBODY,
    should_stop: Callable[[], bool] = lambda: False,
    when_listening: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run a federation's server until the run is over, or go on with one that was stopped or killed.

    Args:
        folder: the server's.
        asked: what is run.
        keys: folder of the sites' public keys; nobody else gets in.
        listening: where.
        policy: what is done about sites that fail; may be another one each time.
        watch: told of what happens.
        should_stop: asked now and then; True ends the session, the last finished round is saved.
        when_listening: called when sites can dial in.

    Returns:
        What ``result.json`` says; empty where it was stopped.

    Raises:
        EcgfedError: in one line, what went wrong; every finished round is saved.
    """
    policy.check(asked.sites, method_by_name(asked.method).requirements)
    begun = (folder / ROSTER).is_file()
    public = site_keys(keys, asked.sites, policy.min_sites if begun else None)
    check_free(listening.port, listening.host)
    ca = prepare_server(folder, asked, listening)
    with locked(folder / TLS):  # one server a folder; its run's process holds the folder itself
        write_policy(folder, policy)
        waited_for = policy if begun else EVERY_SITE
        return _serve(folder, public, listening, ca, waited_for, watch, should_stop, when_listening)


def _serve(
    folder: Path,
    public: list[Path],
    listening: Listening,
    ca: Path,
    policy: Policy,
    watch: Watch,
    should_stop: Callable[[], bool],
    when_listening: Callable[[], None],
) -> dict[str, Any]:
    flower, here = server_flower(folder, listening.here.host), listening.here
    for name in (ENDED, TOLD):
        remove(folder / name)
    processes = [start_superlink(flower, (folder / TLS).resolve(), listening.host, listening.port)]
    with stopping(processes):
        wait_listening(processes[0], here, folder / LOG)
        with Control(str(here), ca) as control:
            names = control.register(public)
            write_json(folder / NODES, {str(node): name for node, name in names.items()})
            watch.note(
                f"Listening at {Address(listening.host, listening.port)} for {count_of(len(names), 'site')}: "
                f"{', '.join(names.values())}."
            )
            when_listening()
            if not _wait_for_sites(control, names, policy, watch, should_stop):
                return {}
            run = control.start_run(flower.home / "app")
            ended = _follow(folder, control, run, watch, should_stop, lambda: processes[0].poll() is None)
    if ended is None:
        return {}
    if ended:
        raise NetworkError(folder, ended, action="every finished round is saved; start the server again to go on")
    found: dict[str, Any] = read_json(folder / RESULT, StorageError)
    return found


def _wait_for_sites(
    control: Control, names: dict[int, str], policy: Policy, watch: Watch, should_stop: Callable[[], bool]
) -> bool:
    """Wait until every site is connected, or enough of them for so long; False where somebody asked to stop."""
    missing: set[str] = set()
    begun = time.monotonic()
    while not should_stop():
        online = control.online()
        now = {name for node, name in names.items() if node not in online}
        late = time.monotonic() - begun >= policy.longest_s
        if not now or (late and len(names) - len(now) >= policy.needed(len(names))):
            return True
        if now != missing:
            watch.note(f"Waiting for {', '.join(sorted(now))}.")
        missing = now
        time.sleep(WAIT_S)
    return False


def _follow(
    folder: Path, control: Control, run: int, watch: Watch, should_stop: Callable[[], bool], alive: Callable[[], bool]
) -> str | None:
    """Pass on what the run says until it ends; returns what went wrong, or "", None where somebody asked to stop."""
    lines, looked = _Lines(folder / TOLD), time.monotonic()
    while True:
        stop = should_stop()
        for line in lines.new():
            watch.note(line)
        if (folder / ENDED).is_file():  # before the stop is heeded: what has ended is not lost to it
            for line in lines.new():
                watch.note(line)
            return str(read_json(folder / ENDED, StorageError).get("problem", ""))
        if stop:
            return None
        if not alive():
            return f"Flower's SuperLink ended; see {folder / LOG}"
        if time.monotonic() - looked > LAST_WORDS_S:
            looked = time.monotonic()
            if control.is_over(run):
                time.sleep(1.0)
                if not (folder / ENDED).is_file():
                    return f"Flower ended the run; see {folder / LOG}"
        time.sleep(LOOK_S)


class _Lines:
    """Lines that are appended to a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0

    def new(self) -> Iterator[str]:
        """Yield the whole lines since the last time."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as stream:
            stream.seek(self.at)
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                self.at += len(line)
                yield line.decode(errors="replace").rstrip("\n")


def prepare_site(folder: Path, cohort: Path, terms: Terms = AS_IT_IS, *, key: Path | None = None) -> tuple[Site, Path]:
    """Make a site's folder and key, unless they are there.

    Args:
        folder: the site's.
        cohort: its cohort.
        terms: what the operator asks for.
        key: a private key of its own; default ``key`` in the folder, made where there is none.

    Returns:
        The site, and its private key's file.

    Raises:
        EcgfedError: in one line, what cannot be used.
    """
    with locked(folder / KEY):  # what a site is begun with, and its bounds, are not changed under it while it runs
        return _prepared_site(folder, cohort, terms, key)


def _prepared_site(folder: Path, cohort: Path, terms: Terms, key: Path | None) -> tuple[Site, Path]:
    if key is not None:
        read_site_key(key)
    site = make_site(folder, cohort, terms)
    place = folder / KEY if key is None else key
    make_site_key(place)
    return site, place


def run_site(
    folder: Path,
    cohort: Path,
    server: str,
    ca: Path,
    terms: Terms = AS_IT_IS,
    *,
    key: Path | None = None,
    watch: Watch = NOBODY,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Run a site: dial the server and answer it until somebody asks to stop.

    Args:
        folder: the site's.
        cohort: its cohort.
        server: ``HOST:PORT``.
        ca: the server's ``ca.crt``.
        terms: as in ``prepare_site``.
        key: as there.
        watch: told of what happens.
        should_stop: asked now and then.

    Raises:
        EcgfedError: in one line, what cannot be used.
    """
    address = read_address(server)
    check_certificate(ca)
    with locked(folder / KEY):  # one process a site; its answers hold the folder itself
        _, private = _prepared_site(folder, cohort, terms, key)
        flower = site_flower(folder)
        watch.note(f"Dialling {address}; this site answers it until Ctrl-C. Its log: {folder / LOG}")
        while not should_stop():
            process = start_supernode(flower, address, ca.resolve(), private.resolve())
            with stopping([process]):
                while process.poll() is None and not should_stop():
                    time.sleep(LOOK_S)
            if not should_stop():
                watch.warn(
                    f"{address} is not there, is not the server of {ca}, or does not know this site's key (or one of "
                    f"the two clocks is wrong); dialling again in {AGAIN_S:.0f} s"
                )
                _pause(AGAIN_S, should_stop)


def _pause(seconds: float, should_stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not should_stop():
        time.sleep(LOOK_S)


def try_federation(
    cohort: Path,
    out: Path,
    asked: Asked,
    *,
    overwrite: bool = False,
    watch: Watch = NOBODY,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Try a federation on this machine: a cohort divided among sites, certificates, keys, a run, scores, bundles.

    Everything is as between hospitals, each in processes and a folder of its own, but that one machine runs it.

    Args:
        cohort: of ECG beats.
        out: a new folder: ``server``, ``site-1`` and so on, each with its ``cohort``.
        asked: what is run.
        overwrite: replace ``out`` where it exists.
        watch: told of what happens.
        should_stop: asked now and then.

    Returns:
        What ``result.json`` says; empty where it was stopped.

    Raises:
        EcgfedError: in one line, what went wrong.
    """
    opened = open_cohort(cohort)
    blocks(len(opened.clients), asked.sites)
    check_new_folder(out, overwrite=overwrite)
    source, place = opened.path.resolve(), out.resolve()
    if place == source or place in source.parents:
        raise OptionError("--out", f"{out} is, or holds, the cohort", "a new folder", "nothing was removed")
    folders = [out / f"site-{place + 1}" for place in range(asked.sites)]
    if out.exists():
        remove(out)
    divide_cohort(opened, [folder / "cohort" for folder in folders])
    watch.note(f"Divided {count_of(len(opened.clients), 'patient')} among {count_of(asked.sites, 'site')} in {out}.")
    server, keys, port = out / "server", out / "keys", free_port()
    listening = Listening("127.0.0.1", port, ())
    ca = prepare_server(server, asked, listening)
    sites = []
    for folder in folders:
        _, private = prepare_site(folder, folder / "cohort", Terms(numbers="cohort"))
        _copy_key(private.with_name(private.name + ".pub"), keys / f"{folder.name}.pub")
        sites.append((folder, private))
    watch.note(f"Made certificates in {server / TLS} and a key for each site.")
    processes: list[subprocess.Popen[bytes]] = []

    def dial() -> None:
        for folder, private in sites:
            address = Address("127.0.0.1", port)
            processes.append(start_supernode(site_flower(folder), address, ca.resolve(), private.resolve()))

    def ended() -> tuple[Path, int] | None:
        """A site whose process is no more, and its code: it would be waited for without end."""
        codes = ((folder, process.poll()) for folder, process in zip(folders, processes, strict=False))
        return next(((folder, code) for folder, code in codes if code is not None), None)

    def over() -> bool:
        return should_stop() or ended() is not None

    with stopping(processes):
        result = run_server(server, asked, keys, listening, watch=watch, should_stop=over, when_listening=dial)
        if not result and not should_stop() and (found := ended()):
            site, code = found
            raise NetworkError(
                site, f"its process ended with code {code}, before the run did", action=f"see {site / LOG}"
            )
    for folder in folders if result else []:
        watch.note(f"{folder.name}: its patients' run is {folder / 'result'}, their bundle {folder / 'bundle'}.")
    return result


def _copy_key(source: Path, target: Path) -> None:
    write_private(target, source.read_bytes(), mode=0o644)
