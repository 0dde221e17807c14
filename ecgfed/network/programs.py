"""Wrapper scripts that come before Flower's programs in ``PATH``, and their environment variables."""

import shlex
import sys
from pathlib import Path

from ecgfed.network.private import write_private

#: Environment variables that name a site's and a server's folder.
SITE, SERVER = "ECGFED_SITE", "ECGFED_SERVER"
#: File in a server's folder: the sites, once all have registered.
ROSTER = "roster.json"
#: Environment variable of a SuperLink that only a proxy on this machine can reach.
PROXIED = "ECGFED_PROXIED"
#: Environment variable that names a site's private key; default ``key`` in its folder.
SITE_KEY = "ECGFED_SITE_KEY"
#: File in a server's folder: how many bytes a site may upload between two requests.
BOUND = "bound.json"
#: Programs that ``ecgfed.network.processes`` runs.
RUN = ("ecgfed-proxy", "flower-superlink", "flower-supernode", "flower-superexec", "flwr-clientapp", "flwr-serverapp")
#: Programs that would run untrusted code, or are not needed.
REFUSED = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-simulation")


def write_programs(folder: Path) -> None:
    """Write the wrapper scripts; raises StorageError."""
    for name in (*RUN, *REFUSED):
        command = f"exec {shlex.quote(sys.executable)} -m ecgfed.network.processes {name}"
        write_private(folder / name, f'#!/bin/sh\n{command} "$@"\n'.encode(), mode=0o700)
