"""``ecgfed federate``: the same training across sites, on Flower."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.extras import require
from ecgfed.base.platform import require_fork
from ecgfed.network.config import FederationConfig, MonitoringOptions, ServerOptions, SiteOptions

from .complete import method_names
from .expand import takes_options
from .options import SetOption, settings_of
from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, stderr, table
from .reporter import Output
from .stop import graceful_stop

if TYPE_CHECKING:
    from ecgfed.tasks.progress import ProgressReporter

app = typer.Typer(
    help="The same training across hospitals, on Flower: recordings stay where they are.", no_args_is_help=True
)


def _require(**_values: object) -> None:
    require_fork("ecgfed federate")
    for package in ("flwr", "torch"):
        require(package, "ecgfed federate")


@app.command("server")
@takes_options("options", ServerOptions, before=_require, insert={"port": ("name", "prepare", "back_to")})
@takes_options(
    "config",
    FederationConfig,
    without=("settings",),
    before=_require,
    complete={"method": method_names},
    defaults={"sites": 2},
)
def server_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The server's folder; made, or gone on with.")],
    *,
    keys: Annotated[
        list[Path] | None,
        typer.Option(help="Each site's public key, or a folder with them (*.pub); repeatable. Nobody else gets in."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Host name or address that sites dial, for the certificate; repeatable.")
    ] = None,
    prepare: Annotated[bool, typer.Option("--prepare", help="Make the folder and the certificates, and end.")] = False,
    back_to: Annotated[
        int | None, typer.Option("--back-to", metavar="ROUND", help="Make this round the run's last again, and end.")
    ] = None,
    options: ServerOptions,
    config: FederationConfig,
    set_: SetOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a federation's server until its run is over; the same command goes on with one that was stopped."""
    from ecgfed.network.federate import prepare_server, run_server
    from ecgfed.network.listening import Listening
    from ecgfed.network.policy import Policy

    if back_to is not None:
        from ecgfed.network.going_back import go_back

        current = go_back(folder, back_to)
        if json_output:
            print_json({"server": str(folder), "round": back_to, "was": current})
        else:
            note(f"The run is at round {back_to} again, and was at {current}. Start the server to go on.", quiet=quiet)
        return
    config = replace(config, settings=settings_of(set_))
    policy = Policy(**options.shared_with(Policy))
    listening = Listening(options.host, options.port, tuple(name or ()))
    if prepare:
        ca = prepare_server(folder, config, listening)
        if json_output:
            print_json({"server": str(folder), "ca": str(ca)})
        else:
            note(f"Made {folder}. Give each site {ca}, and collect each site's key.pub in one folder.", quiet=quiet)
        return
    if not keys:
        expected = "each site's public key, or a folder with them"
        raise OptionError("--keys", "was not given", expected, "or pass --prepare first")
    _run(
        lambda progress, stop_requested: run_server(
            folder,
            config,
            keys,
            listening,
            policy=policy,
            proxy=options.proxy,
            metrics_port=options.metrics_port,
            progress=progress,
            should_stop=stop_requested,
        ),
        folder,
        "every finished round is saved, the same 'ecgfed federate server' goes on",
        Output(json_output=json_output, quiet=quiet),
    )


@app.command("site")
@takes_options("options", SiteOptions, before=_require)
@takes_options("monitoring", MonitoringOptions)
def site_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The site's folder; made, or gone on with.")],
    *,
    cohort: Annotated[Path, typer.Option(help="The site's cohort, made by 'ecgfed prepare'.")],
    server: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The server to dial.")] = None,
    ca: Annotated[Path | None, typer.Option(help="The server's ca.crt.")] = None,
    key: Annotated[Path | None, typer.Option(help="A private key (OpenSSH, ECDSA); default FOLDER/key, made.")] = None,
    options: SiteOptions,
    monitoring: MonitoringOptions,
    prepare: Annotated[bool, typer.Option("--prepare", help="Make the folder and the key, and end.")] = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a site: it dials the server, trains on its own patients and answers, until Ctrl-C."""
    from ecgfed.network.federate import prepare_site, run_site

    if prepare:
        _, private = prepare_site(folder, cohort, options, key=key)
        public = private.with_name(private.name + ".pub")
        if json_output:
            print_json({"site": str(folder), "public_key": str(public)})
        else:
            note(f"Made {folder}. Give the server {public}; {private} stays here.", quiet=quiet)
        return
    if server is None or ca is None:
        missing = "--server" if server is None else "--ca"
        raise OptionError(missing, "was not given", "the server's address and its ca.crt", "or pass --prepare first")
    with graceful_stop(quiet=True) as stop, Output(json_output=json_output, quiet=quiet).reporter() as progress:
        run_site(
            folder,
            cohort,
            server,
            ca,
            options,
            key=key,
            metrics_port=monitoring.metrics_port,
            progress=progress,
            should_stop=stop.requested,
        )
    if stop.code is not None:
        raise SystemExit(stop.code)


@app.command("preflight")
def preflight_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The site's folder, where its key is.")],
    *,
    cohort: Annotated[Path, typer.Option(help="The site's cohort, made by 'ecgfed prepare'.")],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="The server to dial.")],
    ca: Annotated[Path, typer.Option(help="The server's ca.crt.")],
    key: Annotated[Path | None, typer.Option(help="A private key (OpenSSH, ECDSA); default FOLDER/key.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Check a site before it connects: cohort, disk, proxy, certificate, clock, key, version, classes, leads."""
    _require()
    from ecgfed.network.launch import read_address
    from ecgfed.network.preflight import preflight

    checks = preflight(folder, cohort, read_address(server), ca, folder / "key" if key is None else key)
    if json_output:
        print_json({"checks": [asdict(check) for check in checks]})
    for check in [] if json_output else checks:
        note(check.line)
    if any(check.ok is False for check in checks):
        raise SystemExit(1)


@app.command("status")
def status_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A server's or a site's folder.")],
    json_output: JsonOption = False,
) -> None:
    """Say how a server or a site stands, from its folder: rounds, sites, what travels."""
    _require()
    from ecgfed.network.status import status_of

    status = status_of(folder)
    if json_output:
        print_json(status.as_json())
        return
    for line in status.sentences():
        note(line)
    if status.leaves:
        console.print(
            table(
                ("way", "leaf", "what", "shape", "bytes"),
                [
                    (leaf["way"], leaf["name"], leaf["what"], "x".join(map(str, leaf["shape"])) or "1", leaf["bytes"])
                    for leaf in status.leaves
                ],
                title="What travels, of one patient",
            )
        )


@app.command("audit")
def audit_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A site's folder.")],
    *,
    holds: Annotated[
        str | None, typer.Option(metavar="SHA256", help="Of a line written down earlier, which must still be there.")
    ] = None,
    last: Annotated[int, typer.Option(metavar="N", min=0, help="Show the last N lines; default 20.")] = 20,
    json_output: JsonOption = False,
) -> None:
    """Verify a site's audit log and show what the server asked and what was answered."""
    _require()
    from ecgfed.network.audit import check_log

    log = check_log(folder, holds)
    shown = log.lines[len(log.lines) - min(last, len(log.lines)) :]
    if json_output:
        print_json({"site": str(folder), "lines": log.lines, "last": log.last, "key": log.key})
        return
    columns = ("n", "time", "question", "run", "round", "patients", "steps", "weights", "answer", "seconds")
    rows = [[_cell(line.get(name)) for name in columns] for line in shown]
    console.print(table(columns, rows, title="What the server asked"))
    count = f"{len(log.lines)} lines, each signed by key {log.key[:16]} and in order"
    note(f"{count}. Write down the last line's SHA-256 elsewhere: {log.last}")


def _cell(value: object) -> str:
    """Return a value of the audit log for the table; digests are shortened."""
    return "" if value is None else str(value)[:16] if len(str(value)) == 64 else str(value)


@app.command("try")
@takes_options(
    "config",
    FederationConfig,
    without=("settings", "passes", "eval_every"),
    before=_require,
    complete={"method": method_names},
    defaults={"sites": 3, "rounds": 5},
)
def try_command(
    cohort: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort made by 'ecgfed prepare'.")],
    *,
    out: Annotated[Path, typer.Option("--out", help="The folder to make: server and sites.")] = Path("federation"),
    config: FederationConfig,
    set_: SetOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Try a federation on this machine: certificates, keys, sites, a run, scores and a bundle at each site."""
    from ecgfed.network.federate import try_federation

    config = replace(config, settings=settings_of(set_))
    _run(
        lambda progress, stop_requested: try_federation(
            cohort, out, config, overwrite=overwrite, progress=progress, should_stop=stop_requested
        ),
        out / "server",
        f"a trial begins anew: pass --overwrite to replace {out}",
        Output(json_output=json_output, quiet=quiet),
    )


def _run(
    work: Callable[["ProgressReporter", Callable[[], bool]], Mapping[str, object]],
    folder: Path,
    how_to_resume: str,
    output: Output,
) -> None:
    """Run a server and print the result, or how to resume if it was stopped."""
    with graceful_stop(quiet=True) as stop, output.reporter() as progress:
        result = work(progress, stop.requested)
    if not result:
        stderr.print(f"ecgfed: stopped; {how_to_resume}", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(stop.code or 1)
    after = f"ecgfed federate status {shlex.quote(str(folder))}"
    output.show(result, lambda: note(f"Done in {output.seconds}. Next: {after}"))
