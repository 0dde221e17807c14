"""Short rounds: what share of a round's CPU time is the clients' own gradient work.

    python benchmarks/throughput/short_rounds.py --out short_rounds.json

Default net with GroupNorm, 46 clients, one and four local steps of 64 beats, two worker threads. A round is the
product's own loop: begin, batches, steps, finish, stacking, aggregation, history record; once more with a checkpoint.
The bare gradient work is what such a round computed, caught from the method itself and repeated with the same batches
and weights on the same number of threads: forward and backward, for GRP-FED also the features shown to its
discriminator. Rounds and repetitions take turns.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import processes
import task as t
import torch
from make_task import draw_beats, training_data

from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.state import State
from ecgfed.core.federation.threads import ThreadEngine
from ecgfed.core.federation.train import Callback, RoundOutcome, initial_state, train
from ecgfed.core.methods import grp_fed, local_sgd
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings
from ecgfed.core.nets.layers import Params, is_buffer, trainable
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.core.runs.callbacks import SaveCheckpoint
from ecgfed.core.runs.checkpoint import CheckpointStore

WORKERS, WARM_UP, GOAL = 2, 3, 0.80
#: name -> (method, settings, gradients a step, forward passes without gradient a step).
CASES: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "fedavg": ("fedavg", {"lr": 5e-3, **PLAIN_MEAN}, 1, 0),
    "grp-fed, local steps on": ("grp-fed", {"personal_start": 0}, 3, 2),
    "grp-fed, personalise=false": ("grp-fed", {"personalise": False}, 1, 0),
}
Work = Callable[[], object]


class Caught:
    """The gradient work of one round, by worker thread and client, ready to be repeated."""

    def __init__(self) -> None:
        self.gradients: list[tuple[int, Work]] = []
        self.forwards: list[tuple[int, Work]] = []
        self.answers: list[tuple[Work, Params]] = []
        self._client = threading.local()

    def begin(self, client: int) -> None:
        """Note that this thread goes on with a client."""
        self._client.index = client

    def gradient(self, loss: Callable[[Params], tuple[torch.Tensor, Params]], params: Params, answer: Params) -> None:
        """Keep a loss, the point where it was differentiated and, of the first client, what came out."""
        fixed = {name: value for name, value in params.items() if is_buffer(name)}
        leaves = {name: value.detach().requires_grad_() for name, value in trainable(params).items()}
        wanted = list(leaves.values())

        def work() -> object:
            return torch.autograd.grad(loss({**fixed, **leaves})[0], wanted, materialize_grads=True)

        self.gradients.append((self._client.index, work))
        if self._client.index == 0:
            self.answers.append((work, answer))

    def check(self) -> None:
        """Make sure that repeating gives the bits that the method got."""
        for work, answer in self.answers:
            again = work()
            if not all(torch.equal(a, b) for a, b in zip(again, answer.values(), strict=True)):  # type: ignore[call-overload]
                sys.exit("the repeated gradients are not those of the round")

    def forward(self, extract: Callable[..., torch.Tensor], params: Params, inputs: Inputs) -> None:
        """Keep a forward pass without gradient."""

        def work() -> object:
            with torch.no_grad():
                return extract(params, inputs, {})

        self.forwards.append((self._client.index, work))

    def by_client(self) -> list[list[Work]]:
        """Return everything, a list a client."""
        clients: dict[int, list[Work]] = {}
        for client, work in self.gradients + self.forwards:
            clients.setdefault(client, []).append(work)
        return list(clients.values())


@contextmanager
def catching(method: Method) -> Iterator[Caught]:
    """Catch what a method differentiates, and what it computes without gradient."""
    caught, gradients, begin, extract = Caught(), local_sgd.gradients, method.init_round, method.net.extract

    def caught_gradients(loss: Any, params: Params) -> Any:
        found = gradients(loss, params)
        caught.gradient(loss, params, found[0])
        return found

    def caught_begin(shared: Any, kept: Any, info: Any) -> Any:
        caught.begin(info.index)
        return begin(shared, kept, info)

    def caught_extract(params: Params, inputs: Inputs, stats: Params | None = None) -> torch.Tensor:
        if not torch.is_grad_enabled():
            caught.forward(extract, params, inputs)
        return extract(params, inputs, stats)

    local_sgd.gradients = grp_fed.gradients = caught_gradients
    method.init_round, method.net.extract = caught_begin, caught_extract  # type: ignore[method-assign]
    try:
        yield caught
    finally:
        local_sgd.gradients = grp_fed.gradients = gradients
        del method.init_round, method.net.extract


def stopwatch(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of some work, all threads of this process together."""
    cpu, start = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


class Alternate(Callback):
    """After every round: its time, then the bare work's, then the round's clock begins anew.

    Args:
        bare: repeats the gradient work.
        inside: callbacks that belong to the round.
    """

    def __init__(self, bare: Work, inside: list[Callback]) -> None:
        self.bare, self.inside = bare, inside
        self.rounds: list[tuple[float, float]] = []
        self.repeats: list[tuple[float, float]] = []

    def on_start(self, state: State) -> None:
        """Start the clock."""
        for callback in self.inside:
            callback.on_start(state)
        self._begin()

    def on_round(self, outcome: RoundOutcome) -> None:
        """Stop the clock, repeat the bare work, start it again."""
        for callback in self.inside:
            callback.on_round(outcome)
            if isinstance(callback, SaveCheckpoint) and callback._writer:
                callback._writer.wait()  # what a background thread does belongs to this round, not to the bare work
        self.rounds.append((time.perf_counter() - self._wall, time.process_time() - self._cpu))
        self.repeats.append(stopwatch(self.bare))
        self._begin()

    def on_end(self, state: State) -> None:
        """End what belongs to the rounds."""
        for callback in self.inside:
            callback.on_end(state)

    def _begin(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()


def measure(case: str, steps: int, rounds: int, data: TrainingData, *, checkpoint: bool) -> dict[str, Any]:
    """Measure one method at one length of local work."""
    name, values, gradients_a_step, forwards_a_step = CASES[case]
    kind = method_by_name(name)
    method = kind(ResNet1d(NetSpec(t.CLASSES)), make_settings(kind.settings_type, values))
    plan = TrainPlan(rounds=WARM_UP + rounds, local_epochs=None, local_steps=steps, batch_size=t.BATCH)
    once = TrainPlan(rounds=1, local_epochs=None, local_steps=steps, batch_size=t.BATCH)
    with ThreadEngine(data, once, WORKERS) as engine, catching(method) as caught:
        train(method, data, once, engine, initial_state(method, once))
    found = len(caught.gradients), len(caught.forwards)
    wanted = t.CLIENTS * steps * gradients_a_step, t.CLIENTS * steps * forwards_a_step
    if found != wanted:
        sys.exit(f"{case}: caught {found} gradients and forward passes, expected {wanted}; has the method changed?")
    caught.check()
    clients = caught.by_client()
    with (
        ThreadPoolExecutor(WORKERS, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ThreadEngine(data, plan, WORKERS) as engine,
        tempfile.TemporaryDirectory() as folder,
    ):

        def client_work(works: list[Work]) -> None:
            for work in works:
                work()

        inside: list[Callback] = [SaveCheckpoint(CheckpointStore(Path(folder)), None)] if checkpoint else []
        watch = Alternate(lambda: list(pool.map(client_work, clients)), inside)
        train(method, data, plan, engine, initial_state(method, plan), [watch])
    return summary(case, steps, checkpoint, watch)


def summary(case: str, steps: int, checkpoint: bool, watch: Alternate) -> dict[str, Any]:
    """Return medians and shares over the rounds after the warm-up."""
    rounds, repeats = watch.rounds[WARM_UP:], watch.repeats[WARM_UP:]
    (wall, cpu), (bare_wall, bare_cpu) = (
        [statistics.median(column) for column in zip(*times, strict=True)] for times in (rounds, repeats)
    )
    return {
        "case": case,
        "local_steps": steps,
        "checkpoint": checkpoint,
        "rounds": len(rounds),
        "round_seconds": wall,
        "round_cpu_seconds": cpu,
        "bare_seconds": bare_wall,
        "bare_cpu_seconds": bare_cpu,
        "cpu_share": bare_cpu / cpu,
        "wall_share": bare_wall / wall,
        "cpu_share_by_round": [b[1] / r[1] for r, b in zip(rounds, repeats, strict=True)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds of each")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data, found = training_data(*draw_beats(t.CLIENTS, t.BEATS), t.CLIENTS, t.BEATS), []
    print("| method | local steps | s/round | CPU s/round | bare CPU s | share of CPU | with checkpoint |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case in options.only:
        for steps in options.steps:
            plain, saved = (measure(case, steps, options.rounds, data, checkpoint=yes) for yes in (False, True))
            found += [plain, saved]
            print(
                f"| {case} | {steps} | {plain['round_seconds']:.3f} | {plain['round_cpu_seconds']:.3f} | "
                f"{plain['bare_cpu_seconds']:.3f} | {plain['cpu_share']:.0%} | {saved['cpu_share']:.0%} |",
                flush=True,
            )
    if options.out:
        options.out.write_text(
            json.dumps(
                {
                    "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                    "machine": processes.machine(),
                    "torch": torch.__version__,
                    "workers": WORKERS,
                    "goal": GOAL,
                    "results": found,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
