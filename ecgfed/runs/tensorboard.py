"""TensorBoard as a callback, for who has it: the package is an extra of its own and nothing else asks for it."""

from pathlib import Path
from typing import Any

from ecgfed.errors import OptionError, StorageError
from ecgfed.federation.state import State
from ecgfed.federation.train import Callback, RoundOutcome


def require_tensorboard() -> Any:
    """Return TensorBoard's writer of scalars; raises OptionError where the package is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise OptionError(
            "--tensorboard",
            "the package tensorboard is not installed",
            action="install it with: pip install 'ecgfed[tensorboard]'",
        ) from None
    return SummaryWriter


class WriteTensorBoard(Callback):
    """Writes every number of a round's line in the history as a scalar over rounds.

    Args:
        folder: where TensorBoard shall look (``--logdir``), this run's own.

    Raises:
        OptionError: the package tensorboard is not installed.
        StorageError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kind = require_tensorboard()
        self._writer: Any = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise StorageError(
                folder, f"cannot be made ({problem.strerror})", action="choose another folder"
            ) from problem

    def on_start(self, state: State) -> None:
        """Open the file; what an earlier session wrote past the checkpoint is hidden by TensorBoard."""
        self._writer = self._kind(str(self.folder), purge_step=state.round + 1)

    def on_round(self, outcome: RoundOutcome) -> None:
        """Write the round's numbers."""
        for name, value in outcome.record.items():
            if isinstance(value, float) or (isinstance(value, int) and name not in ("round", "worst_client")):
                self._writer.add_scalar(name, value, outcome.state.round)

    def on_end(self, state: State) -> None:
        """Write out what is buffered."""
        if self._writer is not None:
            self._writer.close()

    def on_failure(self, state: State) -> None:
        """Write out what is buffered."""
        self.on_end(state)
