"""The ServerApp that Flower starts for a run; its inputs are in the server's folder."""

import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.base.text import safe_text
from ecgfed.network.programs import SERVER
from ecgfed.network.server_run import serve

#: Files in the server's folder: the sites' node ids, status messages, and how the session ended.
NODES, MESSAGES, ENDED = "nodes.json", "messages.txt", "ended.json"

app = ServerApp()


def main(grid: Grid, context: Context) -> None:
    """Start or resume the federation in its folder."""
    folder, problem = Path(os.environ[SERVER]), ""
    with (folder / MESSAGES).open("a", buffering=1, encoding="utf-8") as stream:

        def log(line: str) -> None:
            stream.write(safe_text(line) + "\n")

        try:
            names = {int(node): str(name) for node, name in read_json(folder / NODES, StorageError).items()}
            serve(folder, grid, names, log)
        except EcgfedError as error:
            problem = error.line
            raise
        except BaseException as error:
            problem = f"the server: {type(error).__name__}: {error!s:.300}"
            raise
        finally:
            write_json(folder / ENDED, {"problem": problem})


app.main()(main)
