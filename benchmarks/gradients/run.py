"""One local step on one core: autograd against torch.func, the two ways of ``ecgfed.core.methods.local_sgd.gradients``.

    python benchmarks/gradients/run.py

Default net, batch of 64, GroupNorm and BatchNorm; prints the median milliseconds of 100 steps each, interleaved.
"""

import argparse
import statistics
import time

import torch

from ecgfed.core.methods.base import Batch
from ecgfed.core.methods.local_sgd import SgdSettings, train_full_model, zeros_like
from ecgfed.core.nets.layers import mapped_over_clients
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d


def step_ms(net: ResNet1d, state: dict[str, object], batch: Batch) -> float:
    started = time.perf_counter()
    train_full_model(net, state, batch, SgdSettings())
    return (time.perf_counter() - started) * 1e3


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batch = Batch(Inputs(torch.randn(64, 1, 256)), torch.randint(0, 12, (64,)))
    for norm in ("group", "batch"):
        net = ResNet1d(NetSpec(12, norm=norm))
        model = net.initial(0)
        state: dict[str, object] = {"model": model, "velocity": zeros_like(model)}
        autograd, func = [], []
        for _ in range(120):
            autograd.append(step_ms(net, state, batch))
            with mapped_over_clients():
                func.append(step_ms(net, state, batch))
        a, f = statistics.median(autograd[20:]), statistics.median(func[20:])
        print(f"{norm}: autograd {a:.1f} ms, torch.func {f:.1f} ms, ratio {f / a:.2f}")


if __name__ == "__main__":
    main()
