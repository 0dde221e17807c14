"""Class probabilities of models over many beats."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import DivergedError, param
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.trees import tree_bytes
from ecgfed.core.methods.models import Model, Pipeline, Stage
from ecgfed.core.nets.net import Inputs, Net

BATCH = 512
#: Cache size of a predictor: predictions of all clients on MIT-BIH's pool take 30 MB.
CACHE_BYTES = 128 << 20


def chain_logits(net: Net, chain: Pipeline, inputs: Inputs | torch.Tensor) -> torch.Tensor:
    """Return the logits of a chain: its parts applied one after the other.

    Args:
        net: the net whose roles the parts have.
        chain: of one part at least, else a ValueError.
        inputs: what its first part takes: the beats (B, 1, 256) millivolt or images (B, 3, 32, 32), with RR features
            where the net takes some; or features or descriptions.

    Returns:
        (B, classes) float32.
    """
    value = inputs
    for part in chain.stages:
        value = net.roles[part.role](part.params, value)
    if not isinstance(value, torch.Tensor):
        raise ValueError("a chain needs at least one part")
    return value


class Predictor:
    """Predicts with several threads, one torch thread each; caches recent predictions.

    Args:
        net: the net's functions.
        data: windows and RR features (``TrainingData`` of the cohort).
        rows: (beats,) the rows to predict.
        workers: threads.
        memory_bytes: cache size, which bounds memory for thousands of clients.
    """

    def __init__(
        self, net: Net, data: TrainingData, rows: NDArray[np.int64], workers: int, memory_bytes: int = CACHE_BYTES
    ) -> None:
        self.net, self.data, self.rows, self.workers, self.memory_bytes = net, data, rows, workers, memory_bytes
        # identity of a chain -> (the chain, referenced so that its identity stays unique; predictions; bytes of both)
        self._known: OrderedDict[tuple[tuple[int, ...], ...], tuple[Pipeline, NDArray[np.float32], int]] = OrderedDict()
        self._held = 0
        #: a first part that all patients share, and its outputs for each chunk: computed once, not for every patient
        self._shared: tuple[Stage, list[torch.Tensor]] | None = None

    def _chunks(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, len(self.rows), BATCH):
            yield self.rows[start : start + BATCH]

    def probabilities(self, model: Model) -> NDArray[np.float32]:
        """Return (beats, classes) float32 probabilities in the order of ``rows``; DivergedError if not finite."""
        if isinstance(model, Pipeline):
            return self._of_chain(model)
        total = np.zeros((len(self.rows), self.net.spec.classes), dtype=np.float64)
        for member in model.members:
            total += self._of_chain(member)
        return (total / len(model.members)).astype(np.float32)

    def labels(self, model: Model) -> NDArray[np.int64]:
        """Return the most probable class (beats,) in the order of ``rows``."""
        return np.asarray(self.probabilities(model).argmax(1), dtype=np.int64)

    def _outputs(self, stages: tuple[Stage, ...], chunk: NDArray[np.int64] | torch.Tensor) -> torch.Tensor:
        """Return what stages compute of rows, or of the outputs of the stages before them."""
        with torch.inference_mode():
            # a copy: a part may change what it is given
            inputs = chunk.clone() if isinstance(chunk, torch.Tensor) else self.data.batch(chunk).inputs
            return chain_logits(self.net, Pipeline(stages), inputs)

    def _of_chain(self, chain: Pipeline) -> NDArray[np.float32]:
        key = tuple(part.identity for part in chain.stages)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key][1]

        first, *others = chain.stages
        # Use a pool for one worker too: on the caller's thread, torch's threads would change sums.
        with ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            chunks: Iterable[NDArray[np.int64] | torch.Tensor] = self._chunks()
            stages = chain.stages
            if others and first.shared and 4 * len(self.rows) * self.net.described <= self.memory_bytes:
                if self._shared is None or self._shared[0].identity != first.identity:
                    self._shared = first, list(pool.map(partial(self._outputs, (first,)), chunks))
                chunks, stages = self._shared[1], tuple(others)
            parts = list(pool.map(lambda chunk: torch.softmax(self._outputs(stages, chunk), dim=1).numpy(), chunks))
        probabilities = np.concatenate(parts) if parts else np.empty((0, self.net.spec.classes), np.float32)
        if not np.isfinite(probabilities).all():  # argmax would treat NaN as the first class
            actual = "answers with probabilities that are not finite"
            action = f"train again with a lower learning rate, {param('settings')} lr=..."
            raise DivergedError("the trained model", actual, "a training that converged", action)
        size = probabilities.nbytes + sum(tree_bytes(part.params) for part in chain.stages)
        self._known[key] = (chain, probabilities, size)
        self._held += size
        while self._held > self.memory_bytes and len(self._known) > 1:
            self._held -= self._known.popitem(last=False)[1][2]
        return probabilities
