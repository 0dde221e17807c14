"""On a GPU: a sequential loop over clients against ecgfed's batched engine, and a whole run timed.

    PYTHONPATH=. python benchmarks/throughput/gpu.py --out gpu.json

First the task of ``run.py`` (46 clients of 512 beats, reference net, FedAvg, one local epoch): the loop is nn.Module
and torch.optim.SGD with all beats on the GPU. Both start from the same weights and take the same batches; the averaged
weights are compared and rounds take turns. Then the engine in variants: clients per stack, steps without CUDA graphs,
TF32, bfloat16 and torch.compile; and whole runs of 100 rounds of five local epochs. float32 with
TF32 off, unless the variant says otherwise.

Needs torch with CUDA, numpy, scipy, scikit-learn, typer, rich, safetensors; without CUDA it says so and exits 2.
"""

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import task as t
import torch
from make_task import build_task, one_epoch, reference_net, training_data
from net import net_with, train_client
from torch import Tensor

from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.train import initial_state, train
from ecgfed.core.methods.fedavg import FedAvg
from ecgfed.core.methods.grp_fed import GrpFedSettings
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.server_sgd import PlainMeanSettings
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

LOOP, ENGINE = "loop", "batched"
#: A whole run's method and net.
RUNS = {
    "fedavg, reference net": (
        "fedavg",
        PlainMeanSettings(lr=5e-3),
        NetSpec(t.CLASSES, architecture="reference", norm="batch"),
    ),
    "grp-fed, default net": ("grp-fed", GrpFedSettings(), NetSpec(t.CLASSES)),
}
SAMPLE_MS = 200
#: Clients per stack that are timed, besides all.
SLOTS = (1, 4, 12, 23)
Round = Callable[[], Params]


class Loop:
    """A client after the other on one device, all beats in its memory.

    Args:
        task: beats, orders, initial weights.
        device: where.
    """

    def __init__(self, task: t.Task, device: torch.device) -> None:
        self.task, self.device = task, device
        self.windows, self.label = (torch.from_numpy(array).to(device) for array in (task.windows, task.label))
        self.net = net_with(task.initial).to(device)
        self.server = {name: value.clone() for name, value in self.net.state_dict().items()}
        self.number = 0

    def __call__(self) -> Params:
        """Do a round and return the averaged weights."""
        states = []
        for client in range(self.task.clients):
            self.net.load_state_dict(self.server)
            train_client(self.net, self._batches(client))
            states.append({name: value.clone() for name, value in self.net.state_dict().items()})
        self.server = {name: torch.stack([state[name].float() for state in states]).mean(0) for name in states[0]}
        self.number += 1
        return self.server

    def _batches(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        rows = torch.from_numpy(client * self.task.beats + self.task.orders[self.number, client]).to(self.device)
        for batch in rows.split(t.BATCH):
            yield self.windows[batch], self.label[batch]


def our_rounds(engine: BatchedEngine, data: TrainingData, plan: TrainPlan) -> Round:
    """Return ecgfed's round: the product's own loop, a round a call."""
    method = FedAvg(reference_net(), PlainMeanSettings(lr=t.LEARNING_RATE, momentum=t.MOMENTUM))
    state = initial_state(method, plan)

    def once() -> Params:
        train(method, data, replace(plan, rounds=state.round + 1), engine, state)
        return state.server["model"]

    return once


def finished(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def largest_difference(ours: Params, theirs: Params) -> float:
    """Return the largest difference of two sets of weights; infinite where one is not finite."""
    worst = max(float((value.cpu().double() - theirs[name].cpu().double()).abs().max()) for name, value in ours.items())
    return worst if np.isfinite(worst) else float("inf")


def compare(task: t.Task, data: TrainingData, device: torch.device, rounds: int) -> dict[str, Any]:
    """Time rounds of the loop and of the engine in turns, after one warm-up each."""
    plan = one_epoch(rounds + 1)
    with ExitStack() as stack:
        ways: dict[str, Round] = {LOOP: Loop(task, device)}
        ways[ENGINE] = our_rounds(stack.enter_context(BatchedEngine(data, plan, str(device))), data, plan)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        differences: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            weights = {}
            for name, do_round in ways.items():
                finished(device)
                start = time.perf_counter()
                weights[name] = do_round()
                finished(device)
                seconds[name].append(time.perf_counter() - start)
                differences[name].append(largest_difference(weights[name], weights[LOOP]) if name != LOOP else 0.0)
                print(f"round {number + 1} {name}: {seconds[name][-1]:.3f} s", file=sys.stderr)
    return {name: row(seconds, name, differences[name], task.samples) for name in ways}


@contextmanager
def tf32() -> Iterator[None]:
    """Let products and convolutions round their inputs to TF32."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


@contextmanager
def bfloat16() -> Iterator[None]:
    """Let products and convolutions compute in bfloat16."""
    with torch.autocast("cuda", dtype=torch.bfloat16):
        yield


@contextmanager
def compiled() -> Iterator[None]:
    """Let torch.compile fuse the kernels of the stacked step."""
    plain = torch.func.vmap
    torch.func.vmap = lambda step: torch.compile(plain(step))
    try:
        yield
    finally:
        torch.func.vmap = plain


def variants(clients: int) -> dict[str, tuple[int, bool, Callable[[], Any]]]:
    """Return what is timed: name -> clients per stack, whether CUDA graphs are replayed, arithmetic."""
    return {
        **{f"{slots} clients at once": (slots, True, nullcontext) for slots in SLOTS if slots < clients},
        "all at once": (clients, True, nullcontext),
        "without CUDA graphs": (clients, False, nullcontext),
        "torch.compile, without CUDA graphs": (clients, False, compiled),
        "TF32": (clients, True, tf32),
        "bfloat16": (clients, True, bfloat16),
    }


def timed_variant(
    data: TrainingData, device: torch.device, rounds: int, slots: int, replay: bool, arithmetic: Callable[[], Any]
) -> dict[str, float]:
    """Time rounds of one local epoch after three that are not timed; memory includes the beats."""
    torch.cuda.reset_peak_memory_stats()
    plan, seconds = one_epoch(rounds + 3), []
    with arithmetic(), BatchedEngine(data, plan, str(device), slots) as engine:
        engine.replay = replay
        once = our_rounds(engine, data, plan)
        for _ in range(rounds + 3):
            finished(device)
            start = time.perf_counter()
            once()
            finished(device)
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[3:])
    return {
        "seconds": median,
        "samples_per_second": float(data.train_examples.sum()) / median,
        "peak_memory_mib": torch.cuda.max_memory_allocated() / 2**20,
    }


def row(seconds: dict[str, list[float]], name: str, differences: list[float], samples: int) -> dict[str, Any]:
    """Return one way's medians; no ratio where its weights are not the loop's."""
    timed, loop = seconds[name][1:], seconds[LOOP][1:]
    median, equal = statistics.median(timed), max(differences) <= t.TOLERANCE
    ratios = [theirs / mine for mine, theirs in zip(timed, loop, strict=True)]
    return {
        "seconds": median,
        "samples_per_second": samples / median,
        "rounds": seconds[name],
        "weight_difference_by_round": differences,
        "same_mathematics": equal,
        "faster_than_loop": statistics.median(ratios) if equal else None,
    }


@contextmanager
def utilisation(device: torch.device) -> Iterator[dict[str, float]]:
    """Watch the GPU while something runs; fills the dictionary afterwards where nvidia-smi is there."""
    found: dict[str, float] = {}
    tool = shutil.which("nvidia-smi")
    if device.type != "cuda" or tool is None:
        yield found
        return
    command = [tool, "--query-gpu=utilization.gpu,power.draw", "--format=csv,noheader,nounits", f"-lms={SAMPLE_MS}"]
    torch.cuda.reset_peak_memory_stats()
    watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield found
    finally:
        watch.terminate()
        lines = [line.split(",") for line in watch.communicate()[0].splitlines()]
        samples = [[float(value) for value in line] for line in lines if len(line) == 2 and "N/A" not in "".join(line)]
        if samples:
            used, power = np.array(samples).T
            found |= {
                "gpu_busy_percent_mean": float(used.mean()),
                "gpu_busy_percent_median": float(np.median(used)),
                "power_w_mean": float(power.mean()),
            }
        found["peak_memory_mib"] = torch.cuda.max_memory_allocated() / 2**20


def whole_run(name: str, data: TrainingData, device: torch.device, rounds: int, epochs: int) -> dict[str, Any]:
    """Time a whole run, the engine's start included."""
    method_name, settings, spec = RUNS[name]
    method = method_by_name(method_name)(ResNet1d(spec), settings)
    plan = TrainPlan(rounds=rounds, local_epochs=epochs, batch_size=t.BATCH, seed=t.SEED)
    with utilisation(device) as found:
        start = time.perf_counter()
        with BatchedEngine(data, plan, str(device)) as engine:
            train(method, data, plan, engine, initial_state(method, plan))
        finished(device)
        seconds = time.perf_counter() - start
    samples = rounds * epochs * int(data.train_examples.sum())
    return {
        "run": name,
        "rounds": rounds,
        "local_epochs": epochs,
        "seconds": seconds,
        "samples_per_second": samples / seconds,
        **found,
    }


def tables(results: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of three tables: the loop and the engine, the engine's variants, whole runs."""
    yield f"{results['device']}, torch {results['torch']}, {results['date']}:\n"
    yield "| how | s/round | samples/s | faster than the loop | largest difference of weights |"
    yield "| --- | --- | --- | --- | --- |"
    for name, way in results["one_epoch"].items():
        faster = "other mathematics" if way["faster_than_loop"] is None else f"{way['faster_than_loop']:.1f} x"
        difference = max(way["weight_difference_by_round"])
        yield f"| {name} | {way['seconds']:.3f} | {way['samples_per_second']:,.0f} | {faster} | {difference:.1e} |"
    yield "\n| engine | s/round | samples/s | peak MiB |\n| --- | --- | --- | --- |"
    for name, variant in results["variants"].items():
        if "failed" in variant:
            yield f"| {name} | failed: {variant['failed']} | | |"
            continue
        memory = f"{variant['peak_memory_mib']:,.0f}"
        yield f"| {name} | {variant['seconds']:.3f} | {variant['samples_per_second']:,.0f} | {memory} |"
    yield "\n| run | rounds | local epochs | s | samples/s | GPU busy |\n| --- | --- | --- | --- | --- | --- |"
    for run in results["runs"]:
        busy = f"{run['gpu_busy_percent_mean']:.0f}%" if "gpu_busy_percent_mean" in run else "not measured"
        rate = f"{run['samples_per_second']:,.0f}"
        yield f"| {run['run']} | {run['rounds']} | {run['local_epochs']} | {run['seconds']:.1f} | {rate} | {busy} |"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try this script out")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of one local epoch, each way")
    parser.add_argument("--run-rounds", type=int, default=100, help="rounds of the whole runs; 0 leaves them out")
    parser.add_argument("--run-epochs", type=int, default=5)
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--clients", type=int, default=t.CLIENTS)
    parser.add_argument("--beats", type=int, default=t.BEATS)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here: this benchmark needs one (--device cpu tries the script out)", file=sys.stderr)
        sys.exit(2)
    device = torch.device(options.device)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    task = build_task(options.clients, options.beats, options.rounds + 1)
    data = training_data(task.windows, task.label, task.clients, task.beats)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "tf32": False,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "clients": task.clients,
        "beats": task.beats,
        "batch": t.BATCH,
        "tolerance": t.TOLERANCE,
        "variants": {},
        "runs": [],
    }
    with utilisation(device) as found:
        results["one_epoch"] = compare(task, data, device, options.rounds)
    results["one_epoch_gpu"] = found
    for name, variant in variants(task.clients).items() if device.type == "cuda" else ():
        try:
            results["variants"][name] = timed_variant(data, device, options.rounds, *variant)
        except RuntimeError as problem:  # what this version of torch cannot compile
            results["variants"][name] = {"failed": str(problem).splitlines()[0]}
        print(name, results["variants"][name], file=sys.stderr)
    for name in options.runs if options.run_rounds else ():
        run = whole_run(name, data, device, options.run_rounds, options.run_epochs)
        results["runs"].append(run)
        if options.out:  # as soon as it is known: a machine may be taken back
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(tables(results)))
    if not all(way["same_mathematics"] for way in results["one_epoch"].values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
