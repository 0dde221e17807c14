"""The local models of generic methods as personal models (Fed-RoD, section 3.2).

A method with a single global model yields a local model for each client after local training. These are not stored
during training: each client trains the final global model for one more round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.meta_set import with_meta_set
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import client_work
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.runs.run import Run


def local_models(
    run: Run, data: TrainingData, state: State, clients: Sequence[int], workers: int
) -> Iterator[tuple[int, Pipeline]]:
    """Yield number and local model of clients with training beats, for methods with local models.

    Args:
        run: a finished run.
        data: the training beats of its cohort.
        state: its checkpoint; unchanged.
        clients: client numbers.
        workers: threads; twice as many models are in memory.

    Raises:
        RunError: a client's training was not finite.
    """
    data = replace(data, most_per_class=run.plan.most_per_class)  # an epoch draws what one of the run does
    method, initial = with_meta_set(run.method, data, run.plan.seed), run.net.initial(run.plan.seed)
    trained = [client for client in clients if client in data.rows]
    with ThreadEngine(data, run.plan, workers) as engine:
        for start in range(0, len(trained), 2 * workers):
            some = trained[start : start + 2 * workers]
            work = [
                client_work(
                    method, data, run.plan, state, client, initial=initial, number=state.round + 1, progress=1.0
                )
                for client in some
            ]
            for client, result in zip(some, engine.run(method, work), strict=True):
                model = method.local_model(result.returned)
                if model is None:
                    return
                yield client, model
