"""Layers against PyTorch's own 1-D operations."""

import pytest
import torch
import torch.nn.functional as F

from ecgfed.core.nets.layers import channels_last, conv, mapped_over_clients, mean_over_time, norm


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "steps"), [(1, 7, 4, 256), (5, 5, 2, 64), (8, 3, 1, 17), (4, 1, 2, 9)]
)
def test_conv_is_conv1d_and_so_are_its_gradients(channels: int, kernel: int, stride: int, steps: int) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(3, channels, steps), torch.randn(6, channels, kernel)
    found, expected = [], []
    for out, store in (
        (lambda x, w: conv({"c.weight": w}, "c", channels_last(x), stride=stride)[:, :, 0], found),
        (lambda x, w: F.conv1d(x, w, stride=stride, padding=kernel // 2), expected),
    ):
        leaves = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = out(*leaves)
        store.extend([y.detach(), *torch.autograd.grad((y * torch.cos(y)).sum(), leaves)])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_gradient_of_a_strided_skip_of_few_channels(threads: int) -> None:
    """oneDNN's own is half wrong, or a crash, on two threads (``layers.SAFE_CHANNELS``); the formula in float64."""
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for channels, batch in [(4, 3), (4, 5), (12, 7)]:
            x, w = torch.randn(batch, channels, 128), torch.randn(16, channels, 1, requires_grad=True)
            y = conv({"c.weight": w}, "c", channels_last(x), stride=2)[:, :, 0]
            g = torch.randn_like(y)
            (found,) = torch.autograd.grad(y, [w], g)
            expected = torch.einsum("bot,bit->oi", g.double(), x[:, :, ::2].double())
            torch.testing.assert_close(found[..., 0].double(), expected, atol=1e-4, rtol=1e-5)
    finally:
        torch.set_num_threads(before)


def test_channels_are_the_fastest_axis_even_where_there_is_one() -> None:
    for channels in (1, 6):
        laid = channels_last(torch.randn(2, channels, 32))
        assert laid.shape == (2, channels, 1, 32)
        assert (laid.stride(1), laid.stride(3)) == (1, channels)
        assert laid.is_contiguous(memory_format=torch.channels_last)
    with mapped_over_clients():
        assert channels_last(torch.randn(2, 6, 32)).stride(1) == 32


def test_mean_over_time() -> None:
    x = torch.randn(4, 6, 1, 33)
    torch.testing.assert_close(mean_over_time(x), x.mean((2, 3)))


def test_batch_norm_of_some_rows_is_batch_norm_of_those_rows_alone() -> None:
    torch.manual_seed(0)
    x, rows = torch.randn(5, 6, 1, 7), torch.tensor([1.0, 0, 1, 1, 0])
    params = {
        "n.weight": torch.rand(6) + 0.5,
        "n.bias": torch.randn(6),
        "n.running_mean": torch.randn(6),
        "n.running_var": torch.rand(6),
    }
    alone, masked = {}, {}
    expected = norm(params, "n", x[rows.bool()], "batch", alone)
    found = norm(params, "n", x, "batch", masked, rows)[rows.bool()]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    module = torch.nn.BatchNorm1d(6)
    module.load_state_dict({**{k[2:]: v for k, v in params.items()}, "num_batches_tracked": torch.tensor(0)})
    torch.testing.assert_close(module(x[rows.bool(), :, 0]), expected[:, :, 0], atol=1e-5, rtol=1e-4)
    for stats in (alone, masked):
        torch.testing.assert_close(stats["n.running_mean"], module.running_mean)
        torch.testing.assert_close(stats["n.running_var"], module.running_var)
