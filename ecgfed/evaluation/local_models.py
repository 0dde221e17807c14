"""The local models of generic methods as personal models (Fed-RoD, section 3.2).

A method with one model for everybody has, after each client's local training, a model of that client's own. Nobody
needs to keep them while a run trains: each client takes the final global model through one more round of local work,
as it would on the day it is given that model.
"""

from collections.abc import Iterator, Sequence

from ecgfed.federation.data import TrainingData
from ecgfed.federation.meta_set import with_meta_set
from ecgfed.federation.state import State
from ecgfed.federation.threads import ThreadEngine
from ecgfed.federation.train import client_work
from ecgfed.methods.answers import Chain
from ecgfed.runs.run import Run


def local_models(
    run: Run, data: TrainingData, state: State, clients: Sequence[int], workers: int
) -> Iterator[tuple[int, Chain]]:
    """Yield a client's number and its local model, for clients that have training beats and methods that have such.

    Args:
        run: a finished run.
        data: the training beats of its cohort.
        state: its checkpoint; not changed.
        clients: client numbers.
        workers: threads; memory holds twice as many clients' models.

    Raises:
        RunError: a client's training was not finite.
    """
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
                model = method.local_answer(result.returned)
                if model is None:
                    return
                yield client, model
