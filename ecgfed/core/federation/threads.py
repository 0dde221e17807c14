"""The engine for a CPU: worker threads, one client per thread.

torch releases the interpreter lock inside its kernels, so one thread per core with one torch thread each keeps
the cores busy without copies between processes. A client's arithmetic does not depend on the thread it runs in, so
results are bit-identical for any number of workers.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import torch

from ecgfed.core.federation.client_round import ClientResult, ClientRunner, ClientWork, run_client
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.memory import keep_freed_memory
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Method


class ThreadEngine:
    """One worker thread per core, one client each; a context manager.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
        workers: threads.
        runner: runs one client's round.
    """

    def __init__(self, data: TrainingData, plan: TrainPlan, workers: int, runner: ClientRunner = run_client) -> None:
        keep_freed_memory()
        self.data, self.plan, self.workers, self.runner = data, plan, workers, runner
        self._pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> "ThreadEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult]:
        """Run all clients, those with most steps first, so that no core idles for long at the end."""
        order = sorted(range(len(work)), key=lambda i: -work[i].info.steps)
        run: Callable[[int], ClientResult] = lambda i: self.runner(method, self.data, self.plan, work[i])  # noqa: E731
        futures = {i: self._pool.submit(run, i) for i in order}
        try:
            return [futures[i].result() for i in range(len(work))]
        except BaseException:
            for future in futures.values():
                future.cancel()
            raise
