"""``federate server --back-to``: make an earlier round of a run the current one again."""

from pathlib import Path

from ecgfed.base.errors import OptionError, param
from ecgfed.base.files import remove
from ecgfed.base.locks import locked
from ecgfed.core.runs.document import FILE_NAME as RUN_FILE
from ecgfed.core.runs.run import open_run
from ecgfed.network.engine import SKIPPED_FILE
from ecgfed.network.federate import TLS
from ecgfed.network.kept_rounds import KeptRounds
from ecgfed.network.server_app import ENDED
from ecgfed.network.server_folder import RESULT, RUN, read_config


def go_back(folder: Path, number: int) -> int:
    """Make the state after a kept round the run's state again; sites go back with the next request.

    Rounds after it are forgotten at the server. Their updates were sent all the same.

    Args:
        folder: the server's folder.
        number: a round that is kept, at most the current one.

    Returns:
        The round that the run was at.

    Raises:
        OptionError: there is no run, the round is not kept, or the run adds noise whose epsilon counts each round once.
        StorageError: a server is running, or the files cannot be written.
    """
    config = read_config(folder)
    if not (folder / RUN / RUN_FILE).is_file():
        raise OptionError("back_to", f"{number}", "the server's folder of a run that has begun")
    with locked(folder / TLS), locked(folder):
        run = open_run(folder / RUN)
        if run.plan.clips:
            expected = "a run without: what its rounds disclosed stays disclosed, and noise must not repeat"
            reason = f"{number} of a run with {param('dp_clip')}"
            raise OptionError("back_to", reason, expected, "begin in a new folder", code="conflict")
        if config.secure_aggregation:
            expected = "a run without: sites reveal no second sum of a round, since the difference of two is an update"
            reason = f"{number} of a run with {param('secure_aggregation')}"
            raise OptionError("back_to", reason, expected, "begin in a new folder", code="conflict")
        kept = KeptRounds(run.store)
        current = run.store.rounds() if run.store.exists() else 0
        possible = [earlier for earlier in kept.rounds() if earlier <= current]
        if number not in possible:
            rounds = ", ".join(map(str, possible)) or "none"
            raise OptionError("back_to", f"{number}", f"a round that is kept: {rounds}")
        kept.restore(number)
        for name in (SKIPPED_FILE, RESULT, ENDED):
            remove(folder / name)
        kept.forget_after(number)
    return current
