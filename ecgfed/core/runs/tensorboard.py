"""TensorBoard callback; the package is an optional extra."""

from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.core.federation.state import State
from ecgfed.core.federation.train import Callback, RoundOutcome


def require_tensorboard() -> Any:
    """Return TensorBoard's scalar writer; raises OptionError if the package is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        actual = "the package tensorboard is not installed"
        raise OptionError("tensorboard", actual, action="install it with: pip install 'ecgfed[tensorboard]'") from None
    return SummaryWriter


class WriteTensorBoard(Callback):
    """Writes every number of a round's record as a scalar over rounds.

    Args:
        folder: TensorBoard log folder of this run (``--logdir``).

    Raises:
        OptionError: the package tensorboard is not installed.
        StorageError: the folder cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kind = require_tensorboard()
        self._writer: Any = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            actual = f"cannot be made ({problem.strerror})"
            raise StorageError(folder, actual, action="choose another folder") from problem

    def on_start(self, state: State) -> None:
        """Open the file; TensorBoard hides records of an earlier session after the checkpoint."""
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
