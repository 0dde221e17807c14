"""``ecgfed federate``: the same training across sites, on Flower."""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.extras import require
from ecgfed.base.platform import require_fork

from .complete import method_names
from .options import settings_of
from .output import JsonOption, OverwriteOption, QuietOption, console, note, print_json, seconds, stderr, table
from .stop import graceful_stop
from .train import AggregationOption, ClipOption, NoiseAtOption, NoiseOption
from .watch import watching

if TYPE_CHECKING:
    from ecgfed.network.server_folder import FederationConfig
    from ecgfed.tasks.watch import Watch

app = typer.Typer(
    help="The same training across hospitals, on Flower: recordings stay where they are.", no_args_is_help=True
)

MethodOption = Annotated[
    str, typer.Option("--method", help="A name from 'ecgfed methods'.", autocompletion=method_names)
]
RoundsOption = Annotated[int | None, typer.Option(help="Communication rounds, in place of passes.")]
PassesOption = Annotated[float | None, typer.Option(help="Passes over all training beats; default 20.")]
EpochsOption = Annotated[
    int | None, typer.Option(help="A patient's passes over its beats in a round, in place of steps.")
]
StepsOption = Annotated[int | None, typer.Option(help="A patient's optimizer steps in a round; default 4.")]
ClientsOption = Annotated[int | None, typer.Option(help="Patients that take part in a round; default all.")]
BatchOption = Annotated[int | None, typer.Option(help="Beats of a step; default 16.")]
SeedOption = Annotated[int, typer.Option(help="Decides everything random.")]
RrOption = Annotated[bool | None, typer.Option("--rr/--no-rr", help="Feed RR intervals to the net; default on.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; repeatable.")
]
TransportOption = Annotated[
    str, typer.Option(help="How updates travel up: plain, or smaller as fp16 or int8, which rounds them.")
]


@app.command("server")
def server_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The server's folder; made, or gone on with.")],
    keys: Annotated[
        Path | None, typer.Option(help="Folder with each site's public key (*.pub); nobody else gets in.")
    ] = None,
    sites: Annotated[int, typer.Option(help="How many sites there are.")] = 2,
    host: Annotated[
        str, typer.Option(help="An address of this machine to listen at; 0.0.0.0 is all IPv4 ones, :: all IPv6 ones.")
    ] = "0.0.0.0",
    port: Annotated[int, typer.Option(help="Port to listen at; the only one that sites need.")] = 9092,
    name: Annotated[
        list[str] | None, typer.Option(help="Host name or address that sites dial, for the certificate; repeatable.")
    ] = None,
    prepare: Annotated[bool, typer.Option("--prepare", help="Make the folder and the certificates, and end.")] = False,
    min_sites: Annotated[
        int | None, typer.Option(help="Sites that are enough for a round; default all, which are waited for.")
    ] = None,
    wait: Annotated[
        float | None, typer.Option(help="Seconds that a round waits for the other sites; default 300.")
    ] = None,
    max_beats: Annotated[
        int | None,
        typer.Option("--most-beats", help="Training beats that a site may claim for a patient; default 1,000,000."),
    ] = None,
    max_patients: Annotated[
        int | None, typer.Option("--most-patients", help="Patients that a site may claim; default 10,000.")
    ] = None,
    method: MethodOption = "grp-fed",
    rounds: RoundsOption = None,
    passes: PassesOption = None,
    local_epochs: EpochsOption = None,
    local_steps: StepsOption = None,
    clients_per_round: ClientsOption = None,
    batch_size: BatchOption = None,
    seed: SeedOption = 0,
    rr: RrOption = None,
    set_: SetOption = None,
    transport: TransportOption = "plain",
    eval_every: Annotated[
        int, typer.Option(help="Have the sites score every n-th round on their validation beats; 0 is never.")
    ] = 0,
    aggregation: AggregationOption = None,
    dp_clip: ClipOption = None,
    dp_noise: NoiseOption = None,
    dp_at: NoiseAtOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a federation's server until its run is over; the same command goes on with one that was stopped."""
    _require()
    from ecgfed.network.federate import prepare_server, run_server
    from ecgfed.network.listening import Listening
    from ecgfed.network.policy import MAX_BEATS, MAX_PATIENTS, Policy
    from ecgfed.network.server_folder import FederationConfig

    config = FederationConfig(
        sites=sites,
        settings=settings_of(set_),
        method=method,
        rounds=rounds,
        passes=passes,
        local_epochs=local_epochs,
        local_steps=local_steps,
        clients_per_round=clients_per_round,
        batch_size=batch_size,
        seed=seed,
        rr=rr,
        transport=transport,
        eval_every=eval_every,
    )
    config = _with_privacy(config, aggregation, dp_clip, dp_noise, dp_at)
    policy = Policy(
        min_sites,
        wait,
        MAX_BEATS if max_beats is None else max_beats,
        MAX_PATIENTS if max_patients is None else max_patients,
    )
    listening = Listening(host, port, tuple(name or ()))
    if prepare:
        ca = prepare_server(folder, config, listening)
        if json_output:
            print_json({"server": str(folder), "ca": str(ca)})
        else:
            note(f"Made {folder}. Give each site {ca}, and collect each site's key.pub in one folder.", quiet=quiet)
        return
    if keys is None:
        raise OptionError(
            "--keys", "was not given", "the folder with each site's public key", "or pass --prepare first"
        )
    _run(
        lambda progress, stop_requested: run_server(
            folder, config, keys, listening, policy=policy, progress=progress, should_stop=stop_requested
        ),
        folder,
        "every finished round is saved, the same 'ecgfed federate server' goes on",
        json_output=json_output,
        quiet=quiet,
    )


@app.command("site")
def site_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The site's folder; made, or gone on with.")],
    cohort: Annotated[Path, typer.Option(help="The site's cohort, made by 'ecgfed prepare'.")],
    server: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The server to dial.")] = None,
    ca: Annotated[Path | None, typer.Option(help="The server's ca.crt.")] = None,
    key: Annotated[Path | None, typer.Option(help="A private key (OpenSSH, ECDSA); default FOLDER/key, made.")] = None,
    numbers: Annotated[
        str | None,
        typer.Option(help="shuffled or cohort: the order in which the server numbers the patients; default shuffled."),
    ] = None,
    max_epsilon: Annotated[
        float | None,
        typer.Option(
            "--most-epsilon", help="Refuse runs that would bring what all of them tell of a patient above this epsilon."
        ),
    ] = None,
    max_runs: Annotated[
        int | None, typer.Option("--most-runs", help="Runs that the site keeps; a further one is refused. Default 20.")
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option("--most-rounds", help="Rounds of a run that the site takes part in; default 10,000.")
    ] = None,
    prepare: Annotated[bool, typer.Option("--prepare", help="Make the folder and the key, and end.")] = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a site: it dials the server, trains on its own patients and answers, until Ctrl-C."""
    _require()
    from ecgfed.network.federate import prepare_site, run_site
    from ecgfed.network.limits import SiteOptions

    options = SiteOptions(numbers, max_epsilon, max_runs, max_rounds)
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
    with graceful_stop(quiet=True) as stop, watching(quiet=quiet, json_output=json_output) as progress:
        run_site(folder, cohort, server, ca, options, key=key, progress=progress, should_stop=stop.requested)
    if stop.code is not None:
        raise SystemExit(stop.code)


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
        note(line, quiet=False)
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


@app.command("try")
def try_command(
    cohort: Annotated[Path, typer.Argument(metavar="COHORT", help="A cohort made by 'ecgfed prepare'.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to make: server and sites.")] = Path("federation"),
    sites: Annotated[int, typer.Option(help="How many sites the cohort is divided among.")] = 3,
    method: MethodOption = "grp-fed",
    rounds: RoundsOption = 5,
    local_epochs: EpochsOption = None,
    local_steps: StepsOption = None,
    clients_per_round: ClientsOption = None,
    batch_size: BatchOption = None,
    seed: SeedOption = 0,
    rr: RrOption = None,
    set_: SetOption = None,
    transport: TransportOption = "plain",
    aggregation: AggregationOption = None,
    dp_clip: ClipOption = None,
    dp_noise: NoiseOption = None,
    dp_at: NoiseAtOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Try a federation on this machine: certificates, keys, sites, a run, scores and a bundle at each site."""
    _require()
    from ecgfed.network.federate import try_federation
    from ecgfed.network.server_folder import FederationConfig

    config = FederationConfig(
        sites=sites,
        settings=settings_of(set_),
        method=method,
        rounds=rounds,
        local_epochs=local_epochs,
        local_steps=local_steps,
        clients_per_round=clients_per_round,
        batch_size=batch_size,
        seed=seed,
        rr=rr,
        transport=transport,
    )
    config = _with_privacy(config, aggregation, dp_clip, dp_noise, dp_at)
    _run(
        lambda progress, stop_requested: try_federation(
            cohort, out, config, overwrite=overwrite, progress=progress, should_stop=stop_requested
        ),
        out / "server",
        f"a trial begins anew: pass --overwrite to replace {out}",
        json_output=json_output,
        quiet=quiet,
    )


def _require() -> None:
    require_fork("ecgfed federate")
    for package in ("flwr", "torch"):
        require(package, "ecgfed federate")


def _with_privacy(
    config: "FederationConfig", aggregation: str | None, clip: float | None, noise: float | None, at: str | None
) -> "FederationConfig":
    """Return the configuration with these options; an option that is None keeps its default."""
    return replace(
        config,
        aggregation=config.aggregation if aggregation is None else aggregation,
        dp_clip=config.dp_clip if clip is None else clip,
        dp_noise=config.dp_noise if noise is None else noise,
        dp_at=config.dp_at if at is None else at,
    )


def _run(
    work: Callable[["Watch", Callable[[], bool]], Mapping[str, object]],
    folder: Path,
    how_to_resume: str,
    *,
    json_output: bool,
    quiet: bool,
) -> None:
    """Run a server and print the result, or how to resume if it was stopped."""
    started = time.perf_counter()
    with graceful_stop(quiet=True) as stop, watching(quiet=quiet, json_output=json_output) as progress:
        result = work(progress, stop.requested)
    if not result:
        stderr.print(f"ecgfed: stopped; {how_to_resume}", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(stop.code or 1)
    if json_output:
        print_json({**result, "seconds": round(time.perf_counter() - started, 2)})
        return
    note(
        f"Done in {seconds(time.perf_counter() - started)}. Next: ecgfed federate status {shlex.quote(str(folder))}",
        quiet=quiet,
    )
