"""``federate``: run a server, run a site, or try a whole federation on one machine."""

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import check_new_folder, read_json, remove, write_json
from ecgfed.base.locks import locked
from ecgfed.base.text import count_of
from ecgfed.core.methods.registry import method_by_name
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.network.certificates import (
    CA,
    check_certificate,
    check_names,
    check_public_key,
    make_certificates,
    make_site_key,
    read_site_key,
)
from ecgfed.network.config import AUTO, NONE, FederationConfig, SiteOptions
from ecgfed.network.control import Control, key_bytes
from ecgfed.network.errors import NetworkError
from ecgfed.network.gate import write_admitted
from ecgfed.network.launch import (
    LOG,
    Address,
    check_free,
    free_port,
    read_address,
    site_flower,
    start_supernode,
    stopping,
)
from ecgfed.network.limits import DEFAULT_OPTIONS
from ecgfed.network.lines import Lines
from ecgfed.network.listening import Listening
from ecgfed.network.metrics import Health, reporting
from ecgfed.network.partition import blocks, partition_cohort
from ecgfed.network.policy import ALL_SITES, Policy, write_policy
from ecgfed.network.private import write_private
from ecgfed.network.refusals import FILE_NAME as REFUSED
from ecgfed.network.roster import FILE_NAME as ROSTER
from ecgfed.network.server_app import ENDED, MESSAGES, NODES
from ecgfed.network.server_folder import RESULT, make_server
from ecgfed.network.serving import ServerWatch, serving
from ecgfed.network.site_folder import Site, make_site
from ecgfed.network.site_loop import SiteLoop
from ecgfed.tasks.progress import SILENT, ProgressReporter

TLS, KEY, PUBLIC = "tls", "key", ".pub"
#: Seconds between two checks of a process or a file.
CHECK_S = 0.5
#: Seconds between two checks for connected sites.
WAIT_S = 1.0
#: Seconds between two checks whether Flower has ended the run.
EXIT_GRACE_S = 10.0


def site_keys(places: Sequence[Path], sites: int, min_sites: int | None = None) -> dict[str, Path]:
    """Return the sites' public keys by the sites' names, sorted by name.

    Args:
        places: public keys, and folders that hold one file ``*.pub`` per site.
        sites: number of sites.
        min_sites: the smallest acceptable number of keys; None requires all.

    Returns:
        Name -> file. The name is the file's without its suffix; of a site's own ``key.pub``, its folder's.

    Raises:
        OptionError: the number of keys is wrong, two have the same name, or a file is not a key.
    """
    files = [file for place in places for file in ([place] if place.is_file() else place.glob(f"*{PUBLIC}"))]
    if not (sites if min_sites is None else min_sites) <= len(files) <= sites:
        reason = f"{', '.join(map(str, places)):.200}: {count_of(len(files), 'public key')} (*{PUBLIC})"
        raise OptionError("keys", reason, f"{sites}, one for each site", "collect each site's key.pub under any name")
    named: dict[str, Path] = {}
    for file in files:
        check_public_key(file)
        name = file.name.removesuffix(PUBLIC)
        if file in places and name == KEY:
            name = file.absolute().parent.name
        if name in named:
            reason = f"{named[name]} and {file} are both of a site {name}"
            raise OptionError("keys", reason, "a name of its own for each site", "copy one under another name")
        named[name] = file
    return dict(sorted(named.items(), key=lambda item: f"{item[0]}{PUBLIC}"))


def prepare_server(folder: Path, config: FederationConfig, listening: Listening) -> Path:
    """Create a server's folder and certificates, unless they exist; returns ``ca.crt``, which the sites need.

    Raises:
        OptionError: the folder has another configuration, or the certificates have other names or have expired.
        StorageError: the folder cannot be created.
    """
    make_server(folder, config)
    make_certificates(folder / TLS, [*listening.names, listening.local_address.host])
    check_names(folder / TLS, listening.names)
    check_names(folder / TLS, [listening.local_address.host], "host")
    return folder / TLS / CA


def run_server(
    folder: Path,
    config: FederationConfig,
    keys: Sequence[Path],
    listening: Listening,
    *,
    policy: Policy = ALL_SITES,
    proxy: str = AUTO,
    metrics_port: int | None = None,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
    on_listening: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run a federation's server until the run is finished, or resume one that was stopped or killed.

    Args:
        config: the federation's configuration.
        keys: as ``places`` of ``site_keys``; other sites are rejected.
        listening: the address to listen at.
        policy: how to handle sites that fail; may change from session to session.
        proxy: one of ``config.PROXIES``.
        metrics_port: port of the loopback for ``/healthz`` and ``/metrics``; None for none.
        progress: receives status messages.
        should_stop: polled regularly; True ends the session, after the last finished round was saved.
        on_listening: called when sites can connect.

    Returns:
        The content of ``result.json``; empty if the session was stopped.

    Raises:
        EcgfedError: the session failed; every finished round is saved.
    """
    needs = method_by_name(config.method).requirements
    policy.check(config.sites, needs, secure=config.secure_aggregation)
    resumed = (folder / ROSTER).is_file()
    fewest = config.sites - len(policy.without) if policy.min_sites is None else policy.min_sites
    public = site_keys(keys, config.sites, fewest if resumed else None)
    check_free(listening.port, listening.host)
    ca = prepare_server(folder, config, listening)
    with locked(folder / TLS):  # one server per folder; the process of its run locks the folder itself
        write_policy(folder, policy)
        start_policy = policy if resumed else replace(ALL_SITES, without=policy.without)
        for name in (ENDED, MESSAGES, REFUSED):
            remove(folder / name)
        admitted = write_admitted(folder, map(key_bytes, public.values()))
        health = Health()
        with (
            reporting(metrics_port, health),
            serving(folder, listening, admitted, proxy, progress) as programs,
            Control(str(programs.address), ca) as control,
        ):
            names = control.register(public)
            write_json(folder / NODES, {str(node): name for node, name in names.items()})
            sites = f"{count_of(len(names), 'site')}: {', '.join(names.values())}"
            progress.note(f"Listening at {Address(listening.host, listening.port)} for {sites}.")
            on_listening()
            watch = ServerWatch(folder, programs, control.online, len(names), health, progress)

            def stop() -> bool:
                watch.look()
                return should_stop()

            if not _wait_for_sites(control, names, start_policy, progress, stop, programs.ended):
                return {}
            run = control.start_run(programs.flower.home / "app")
            ended = _follow(folder, control, run, progress, stop, programs.ended)
        if ended is None:
            return {}
        if ended:
            raise NetworkError(folder, ended, action="every finished round is saved; start the server again to go on")
        return dict(read_json(folder / RESULT, StorageError))


def _wait_for_sites(
    control: Control,
    names: dict[int, str],
    policy: Policy,
    progress: ProgressReporter,
    should_stop: Callable[[], bool],
    ended: Callable[[], str],
) -> bool:
    """Wait until all sites are connected, or enough of them after the timeout; False if a stop was requested.

    Raises:
        NetworkError: one of the server's programs has ended.
    """
    missing: set[str] = set()
    start = time.monotonic()
    while not should_stop():
        if name := ended():
            raise NetworkError("the server", f"{name} ended; see its {LOG}", action="start the server again")
        try:
            online = control.online()
        except NetworkError:  # it answers late on a busy machine, and this may wait for days
            time.sleep(WAIT_S)
            continue
        offline = {name for node, name in names.items() if node not in online and name not in policy.without}
        timed_out = time.monotonic() - start >= policy.timeout_s
        if not offline or (timed_out and len(names) - len(offline) >= policy.needed(len(names))):
            return True
        if offline != missing:
            progress.note(f"Waiting for {', '.join(sorted(offline))}.")
        missing = offline
        time.sleep(WAIT_S)
    return False


def _follow(
    folder: Path,
    control: Control,
    run: int,
    progress: ProgressReporter,
    should_stop: Callable[[], bool],
    ended: Callable[[], str],
) -> str | None:
    """Forward the run's messages until it ends; returns its error, "" on success, None if a stop was requested."""
    lines, last_check = Lines(folder / MESSAGES), time.monotonic()
    while True:
        stop = should_stop()
        for line in lines.new():
            progress.note(line)
        if (folder / ENDED).is_file():  # checked before the stop, so that a finished run is not lost
            for line in lines.new():
                progress.note(line)
            return str(read_json(folder / ENDED, StorageError).get("problem", ""))
        if stop:
            return None
        if name := ended():
            return f"{name} ended; see {folder / LOG}"
        if time.monotonic() - last_check > EXIT_GRACE_S:
            last_check = time.monotonic()
            if control.is_over(run):
                time.sleep(1.0)
                if not (folder / ENDED).is_file():
                    return f"Flower ended the run; see {folder / LOG}"
        time.sleep(CHECK_S)


def prepare_site(
    folder: Path, cohort: Path, options: SiteOptions = DEFAULT_OPTIONS, *, key: Path | None = None
) -> tuple[Site, Path]:
    """Create a site's folder and key, unless they exist.

    Args:
        options: the operator's options.
        key: an existing private key; default ``key`` in the folder, created if missing.

    Returns:
        The site, and its private key's file.

    Raises:
        EcgfedError: the cohort, an option or the key cannot be used.
    """
    with locked(folder / KEY):  # a running site's cohort and limits must not change
        return _open_site(folder, cohort, options, key)


def _open_site(folder: Path, cohort: Path, options: SiteOptions, key: Path | None) -> tuple[Site, Path]:
    if key is not None:
        read_site_key(key)
    site = make_site(folder, cohort, options)
    private = folder / KEY if key is None else key
    make_site_key(private)
    return site, private


def run_site(
    folder: Path,
    cohort: Path,
    server: str,
    ca: Path,
    options: SiteOptions = DEFAULT_OPTIONS,
    *,
    key: Path | None = None,
    metrics_port: int | None = None,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Run a site: connect to the server and handle its requests until a stop is requested.

    Args:
        server: ``HOST:PORT``.
        ca: the server's ``ca.crt``.
        options: as in ``prepare_site``.
        key: as in ``prepare_site``.
        metrics_port: port of the loopback for ``/healthz`` and ``/metrics``; None for none.
        progress: receives status messages.
        should_stop: polled regularly.

    Raises:
        EcgfedError: the cohort, an option, the key or the certificate cannot be used.
    """
    address = read_address(server)
    check_certificate(ca)
    with locked(folder / KEY):  # one process per site; its replies lock the folder itself
        _, private = _open_site(folder, cohort, options, key)
        SiteLoop(folder, address, ca, private, progress, should_stop).run(metrics_port)


def try_federation(
    cohort: Path,
    out: Path,
    config: FederationConfig,
    *,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Try a federation on this machine: partition a cohort, create certificates and keys, train, score, export.

    Server and sites are separate processes with separate folders, as between hospitals.

    Args:
        cohort: a cohort of ECG beats.
        out: a new folder: ``server``, ``site-1`` and so on, each with its ``cohort``.
        config: the federation's configuration.
        overwrite: replace ``out`` if it exists.
        progress: receives status messages.
        should_stop: polled regularly.

    Returns:
        The content of ``result.json``; empty if the trial was stopped.

    Raises:
        EcgfedError: the trial failed.
    """
    opened = open_cohort(cohort)
    blocks(len(opened.clients), config.sites)
    check_new_folder(out, overwrite=overwrite)
    source, target = opened.path.resolve(), out.resolve()
    if target == source or target in source.parents:
        raise OptionError("out", f"{out} is or contains the cohort", "a new folder", "nothing was removed")
    folders = [out / f"site-{target + 1}" for target in range(config.sites)]
    if out.exists():
        remove(out)
    partition_cohort(opened, [folder / "cohort" for folder in folders])
    patients = count_of(len(opened.clients), "patient")
    progress.note(f"Divided {patients} among {count_of(config.sites, 'site')} in {out}.")
    server, keys, port = out / "server", out / "keys", free_port()
    listening = Listening("127.0.0.1", port, ())
    ca = prepare_server(server, config, listening)
    sites = []
    for folder in folders:
        _, private = prepare_site(folder, folder / "cohort", SiteOptions(numbers="cohort"))
        public = private.with_name(private.name + PUBLIC).read_bytes()
        write_private(keys / f"{folder.name}{PUBLIC}", public, mode=0o644)
        sites.append((folder, private))
    progress.note(f"Created certificates in {server / TLS} and a key for each site.")
    processes: list[subprocess.Popen[bytes]] = []

    def start_sites() -> None:
        for folder, private in sites:
            address = Address("127.0.0.1", port)
            processes.append(start_supernode(site_flower(folder, private), address, ca.resolve(), private.resolve()))

    def exited() -> tuple[Path, int] | None:
        """Return a site whose process has ended, and its exit code; the server would wait for it forever."""
        codes = ((folder, process.poll()) for folder, process in zip(folders, processes, strict=False))
        return next(((folder, code) for folder, code in codes if code is not None), None)

    def stop_requested() -> bool:
        return should_stop() or exited() is not None

    with stopping(processes):
        outcome = run_server(
            server,
            config,
            [keys],
            listening,
            proxy=NONE,
            progress=progress,
            should_stop=stop_requested,
            on_listening=start_sites,
        )
        if not outcome and not should_stop() and (exit_info := exited()):
            site, code = exit_info
            reason = f"its process ended with code {code} before the run was finished"
            raise NetworkError(site, reason, action=f"see {site / LOG}")
    for folder in folders if outcome else []:
        progress.note(f"{folder.name}: its patients' run is {folder / 'result'}, their bundle {folder / 'bundle'}.")
    return outcome
