"""How close the net's convolutions come to the core's matrix product, one thread.

    python benchmarks/throughput/gemm.py --out gemm.json

For every convolution at a batch of 64: the matrix product of its im2col size (forward) and of both backward sizes, and
the convolution as ecgfed runs it (``ecgfed.core.nets.layers.conv``, weight layout included), in GFLOP/s; beside it
torch's own conv1d. The product is measured twice, because torch.mm is MKL's, which on an AMD core stays far below
oneDNN's: the faster of the two is the yardstick. Then a whole local step of FedAvg and, by torch.profiler, the share of
it that convolutions take.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import processes
import task as t
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from ecgfed.core.federation.memory import keep_freed_memory
from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.local_sgd import SgdSettings, train_full_model, zeros_like
from ecgfed.core.nets.layers import channels_last, conv
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d

NETS = {"reference": NetSpec(t.CLASSES, architecture="reference", norm="batch"), "default": NetSpec(t.CLASSES)}
PRODUCTS, CONVOLUTIONS = ("mm", "onednn"), ("ours", "conv1d")
WAYS = (*PRODUCTS, "gemm", *CONVOLUTIONS)


@dataclass(frozen=True)
class Shape:
    """One convolution of a net; ``steps`` is the length of its input."""

    name: str
    channels: int
    out: int
    kernel: int
    stride: int
    steps: int

    @property
    def products(self) -> int:
        """Multiplications with addition of the forward pass at a full batch."""
        return t.BATCH * self.out_steps * self.channels * self.kernel * self.out

    @property
    def out_steps(self) -> int:
        """Length of its output."""
        return -(-self.steps // self.stride)


def shapes(net: ResNet1d) -> list[Shape]:
    """Return a net's convolutions in order."""
    channels, kernel, stride = net.stem
    found = [Shape("stem", 1, channels, kernel, stride, t.SAMPLES)]
    steps = found[0].out_steps
    for i, (out, kernel, stride) in enumerate(net.blocks):
        first = Shape(f"block{i}.conv0", channels, out, kernel, stride, steps)
        found += [
            first,
            Shape(f"block{i}.conv1", out, out, kernel, 1, first.out_steps),
            Shape(f"block{i}.skip", channels, out, 1, stride, steps),
        ]
        channels, steps = out, first.out_steps
    return found


def seconds(work: Callable[[], object], budget_s: float) -> float:
    """Return the median time of one call, over about ``budget_s`` and at least ten calls."""
    work()
    work()
    start, times = time.perf_counter(), []
    while len(times) < 10 or time.perf_counter() - start < budget_s:
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def product_seconds(m: int, k: int, n: int, budget_s: float) -> tuple[float, float]:
    """Return the time of (m, k) times (k, n) by torch.mm and by oneDNN (infinite where torch was built without it)."""
    a, b = torch.randn(m, k), torch.randn(k, n)
    transposed = b.t().contiguous()
    library = seconds(lambda: torch.mm(a, b), budget_s)
    if not torch.backends.mkldnn.is_available():
        return library, math.inf
    linear = torch.ops.mkldnn._linear_pointwise
    return library, seconds(lambda: linear(a, transposed, None, "none", [], ""), budget_s)


def gemm_seconds(shape: Shape, budget_s: float) -> dict[str, tuple[float, float]]:
    """Return the times of the forward product and of both backward ones, by torch.mm, by oneDNN, by the better of both.

    The stem needs no gradient of its input.
    """
    m, k, n = t.BATCH * shape.out_steps, shape.channels * shape.kernel, shape.out
    forward = product_seconds(m, k, n, budget_s)
    backward = [product_seconds(k, m, n, budget_s)]
    if shape.name != "stem":
        backward.append(product_seconds(m, n, k, budget_s))
    found = {way: (forward[i], sum(each[i] for each in backward)) for i, way in enumerate(("mm", "onednn"))}
    return {**found, "gemm": (min(forward), sum(map(min, backward)))}


def conv_seconds(
    shape: Shape, run: Callable[..., torch.Tensor], x: torch.Tensor, budget_s: float
) -> tuple[float, float]:
    """Return the time of a convolution's forward and of its backward pass."""
    weight = torch.randn(shape.out, shape.channels, shape.kernel, requires_grad=True)
    wanted = [weight] if shape.name == "stem" else [weight, x.requires_grad_()]
    forward = seconds(lambda: run(x, weight), budget_s)
    y = run(x, weight)
    direction = torch.randn_like(y)
    backward = seconds(lambda: torch.autograd.grad(y, wanted, direction, retain_graph=True), budget_s)
    return forward, backward


def layer(shape: Shape, budget_s: float) -> dict[str, Any]:
    """Measure one convolution."""
    flop = 2 * shape.products, (2 if shape.name == "stem" else 4) * shape.products
    signal = torch.randn(t.BATCH, shape.channels, shape.steps)
    ways = {
        **gemm_seconds(shape, budget_s),
        "ours": conv_seconds(
            shape, lambda x, w: conv({"c.weight": w}, "c", x, stride=shape.stride), channels_last(signal), budget_s
        ),
        "conv1d": conv_seconds(
            shape, lambda x, w: F.conv1d(x, w, stride=shape.stride, padding=shape.kernel // 2), signal, budget_s
        ),
    }
    row: dict[str, Any] = {"layer": shape.name, "forward_flop": flop[0], "backward_flop": flop[1]}
    for way, taken in ways.items():
        row |= {f"{way}_forward_s": taken[0], f"{way}_backward_s": taken[1]}
    return row


def rates(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return GFLOP/s of each way and its share of the matrix product's, over some layers."""
    found: dict[str, Any] = {}
    for part in ("forward", "backward"):
        flop = sum(row[f"{part}_flop"] for row in rows)
        taken = {way: sum(row[f"{way}_{part}_s"] for row in rows) for way in WAYS}
        found |= {f"{way}_{part}_gflops": flop / s / 1e9 for way, s in taken.items()}
        found |= {f"{way}_{part}_share": taken["gemm"] / taken[way] for way in CONVOLUTIONS}
    return found


def whole_step(net: ResNet1d, budget_s: float) -> dict[str, Any]:
    """Measure a local step of FedAvg, and how the profiler splits it."""
    batch = Batch(Inputs(torch.randn(t.BATCH, 1, t.SAMPLES)), torch.randint(0, t.CLASSES, (t.BATCH,)))
    model = net.initial(t.SEED)
    state = {"model": model, "velocity": zeros_like(model)}

    def step() -> object:
        return train_full_model(net, state, batch, SgdSettings())

    taken = seconds(step, budget_s * 5)
    steps = 20
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    own = {event.key: event.self_cpu_time_total / steps / 1e3 for event in profiler.key_averages()}
    total, convolutions = sum(own.values()), sum(ms for name, ms in own.items() if "conv" in name)
    largest = dict(sorted(own.items(), key=lambda item: -item[1])[:12])
    return {
        "step_ms": taken * 1e3,
        "samples_per_second": t.BATCH / taken,
        "profiled_ms": total,
        "conv_share": convolutions / total,
        "conv_ms": taken * 1e3 * convolutions / total,
        "rest_ms": taken * 1e3 * (1 - convolutions / total),
        "largest_ms": largest,
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print one net's table."""
    print(f"\n{name} net: GFLOP/s forward / backward (share of the faster matrix product's)\n")
    print("| layer | torch.mm | oneDNN's product | ecgfed's conv | conv1d |\n| --- | --- | --- | --- | --- |")
    for row in [*found["layers"], {"layer": "all", **found["all"]}]:
        cells = [f"{row[f'{way}_forward_gflops']:.0f} / {row[f'{way}_backward_gflops']:.0f}" for way in PRODUCTS]
        for way in CONVOLUTIONS:
            both = [(row[f"{way}_{part}_gflops"], row[f"{way}_{part}_share"]) for part in ("forward", "backward")]
            cells.append(" / ".join(f"{rate:.0f} ({share:.0%})" for rate, share in both))
        print(f"| {row['layer']} | {' | '.join(cells)} |")
    step = found["step"]
    print(f"\na local step: {step['step_ms']:.1f} ms, convolutions {step['conv_ms']:.1f}, rest {step['rest_ms']:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for each figure")
    parser.add_argument("--net", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(t.SEED)
    keep_freed_memory()  # as the engine does
    results: dict[str, Any] = {}
    for name in options.net:
        net = ResNet1d(NETS[name])
        rows = [layer(shape, options.budget) for shape in shapes(net)]
        results[name] = {
            "layers": [{**row, **rates([row])} for row in rows],
            "all": rates(rows),
            "step": whole_step(net, options.budget),
        }
        show(name, results[name])
    if options.out:
        options.out.write_text(
            json.dumps(
                {
                    "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                    "machine": processes.machine(),
                    "torch": torch.__version__,
                    "torch_threads": 1,
                    "batch": t.BATCH,
                    "nets": results,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
