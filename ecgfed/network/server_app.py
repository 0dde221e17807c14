"""The ServerApp that Flower starts for a run; its inputs are in the server's folder."""

import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.base.text import safe_text
from ecgfed.network.bounds import upload_limit
from ecgfed.network.checked_grid import CheckedGrid
from ecgfed.network.objects import ObjectLimits
from ecgfed.network.policy import read_policy
from ecgfed.network.programs import BOUND, SERVER
from ecgfed.network.server_run import serve

#: Files in the server's folder: the sites' node ids, status messages, and how the session ended.
NODES, MESSAGES, ENDED = "nodes.json", "messages.txt", "ended.json"
#: Largest record of a reply that holds no weights, bytes: names of all leaves, and for each patient a few numbers.
RECORD_BYTES, RECORD_BYTES_OF_PATIENT = 1 << 16, 64

app = ServerApp()


def main(grid: Grid, context: Context) -> None:
    """Start or resume the federation in its folder."""
    folder, problem = Path(os.environ[SERVER]), ""
    with (folder / MESSAGES).open("a", buffering=1, encoding="utf-8") as stream:

        def log(line: str) -> None:
            stream.write(safe_text(line) + "\n")

        try:
            names = {int(node): str(name) for node, name in read_json(folder / NODES, StorageError).items()}
            record_bytes = RECORD_BYTES + RECORD_BYTES_OF_PATIENT * read_policy(folder).max_patients

            def limits() -> ObjectLimits:
                return ObjectLimits(record_bytes, upload_limit(folder / BOUND))

            serve(folder, CheckedGrid(grid, limits), names, log)
        except EcgfedError as error:
            problem = error.line
            raise
        except BaseException as error:
            problem = f"the server: {type(error).__name__}: {error!s:.300}"
            raise
        finally:
            write_json(folder / ENDED, {"problem": problem})


app.main()(main)
