"""The nets as functions, against torch's own modules and the published sizes."""

import pytest
import torch
from torch import nn

from ecgfed.base.errors import OptionError
from ecgfed.core.nets.layers import norm, standardise, trainable
from ecgfed.core.nets.net import Inputs, NetSpec
from ecgfed.core.nets.parts import count_parameters, extractor_of, head_of
from ecgfed.core.nets.resnet1d import ResNet1d


def test_sizes() -> None:
    # the throughput benchmark's reference net has 92,908 parameters (shared design), the default about 42,000
    reference = ResNet1d(NetSpec(12, "reference", "batch")).initial(0)
    assert count_parameters(trainable(reference)) == 92_908
    # by hand: convolutions 168 + 4800 + 8000 + 960 + 7680 + 12288 + 2560, norms 2 (24 + 40 + 40 + 64 + 64),
    # head 4160 + 780
    assert count_parameters(ResNet1d(NetSpec(12)).initial(0)) == 41_860


class _Block(nn.Module):
    def __init__(self, into: int, out: int, kernel: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv1d(into, out, kernel, stride=2, padding=kernel // 2, bias=False)
        self.norm0 = nn.BatchNorm1d(out)
        self.conv1 = nn.Conv1d(out, out, kernel, padding=kernel // 2, bias=False)
        self.norm1 = nn.BatchNorm1d(out)
        self.skip = nn.Conv1d(into, out, 1, stride=2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm0(self.conv0(x)))
        return torch.relu(self.norm1(self.conv1(y)) + self.skip(x))


def _modules() -> nn.ModuleDict:
    extractor = nn.ModuleDict(
        {
            "stem": nn.Conv1d(1, 24, 7, stride=4, padding=3, bias=False),
            "stem_norm": nn.BatchNorm1d(24),
            "block0": _Block(24, 40, 5),
            "block1": _Block(40, 64, 3),
        }
    )
    return nn.ModuleDict(
        {"extractor": extractor, "head": nn.ModuleDict({"hidden": nn.Linear(64, 64), "out": nn.Linear(64, 12)})}
    )


def _module_logits(modules: nn.ModuleDict, window: torch.Tensor) -> torch.Tensor:
    extractor, head = modules["extractor"], modules["head"]
    std = torch.sqrt(window.var(-1, keepdim=True, unbiased=False) + 1e-4)
    x = (window - window.mean(-1, keepdim=True)) / std
    x = torch.relu(extractor["stem_norm"](extractor["stem"](x)))
    x = extractor["block1"](extractor["block0"](x)).mean(-1)
    return head["out"](torch.relu(head["hidden"](x)))


def test_batchnorm_net_is_torchs_modules_in_training_and_in_use() -> None:
    net = ResNet1d(NetSpec(12, norm="batch"))
    params = net.initial(3)
    modules = _modules()
    missing = modules.load_state_dict(params, strict=False)
    assert all(name.endswith("num_batches_tracked") for name in missing.missing_keys)
    assert not missing.unexpected_keys
    window = torch.randn(32, 1, 256)
    stats: dict[str, torch.Tensor] = {}
    modules.train()
    torch.testing.assert_close(net.logits(params, Inputs(window), stats), _module_logits(modules, window))
    after = modules.state_dict()
    assert len(stats) == 10
    for name, value in stats.items():
        torch.testing.assert_close(value, after[name])
    modules.eval()
    torch.testing.assert_close(net.logits({**params, **stats}, Inputs(window)), _module_logits(modules, window))


def test_group_norm_is_torchs() -> None:
    x = torch.randn(5, 24, 16)
    module = nn.GroupNorm(8, 24)
    nn.init.normal_(module.weight)
    params = {"n.weight": module.weight, "n.bias": module.bias}
    torch.testing.assert_close(norm(params, "n", x, "group", {}), module(x))


def test_group_norm_net_sees_each_beat_alone() -> None:
    net = ResNet1d(NetSpec(12))
    params, window = net.initial(0), torch.randn(6, 1, 256)
    together = net.logits(params, Inputs(window), {})
    alone = torch.cat([net.logits(params, Inputs(window[i : i + 1]), {}) for i in range(6)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_standardise_by_hand() -> None:
    out = standardise(torch.tensor([[[1.0, 3.0]], [[2.0, 2.0]]]))
    torch.testing.assert_close(out[0, 0], torch.tensor([-1.0, 1.0]) / (1.0001**0.5))
    assert out[1].abs().max() == 0  # a flat window stays flat


def test_amplitude_and_offset_do_not_matter() -> None:
    net = ResNet1d(NetSpec(12))
    params, window = net.initial(0), torch.randn(4, 1, 256)
    torch.testing.assert_close(
        net.logits(params, Inputs(window)), net.logits(params, Inputs(3 * window + 2)), atol=2e-3, rtol=1e-3
    )


def test_rr_reaches_the_logits_and_is_asked_for() -> None:
    net = ResNet1d(NetSpec(5, rr=True))
    params, window = net.initial(0), torch.randn(2, 1, 256)
    early, normal = torch.tensor([[0.4, 1.2, 0.8, 0.5]] * 2), torch.tensor([[0.8, 0.8, 0.8, 1.0]] * 2)
    assert not torch.allclose(net.logits(params, Inputs(window, early)), net.logits(params, Inputs(window, normal)))
    with pytest.raises(ValueError, match="RR"):
        net.logits(params, Inputs(window))


def test_same_seed_same_bits_and_parts_make_the_whole() -> None:
    net = ResNet1d(NetSpec(12, width=0.5))
    one, two, other = net.initial(1), net.initial(1), net.initial(2)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["extractor.stem.weight"], other["extractor.stem.weight"])
    assert {**extractor_of(one), **head_of(one)}.keys() == one.keys()
    x = Inputs(torch.randn(3, 1, 256))
    features = net.roles["extractor"](extractor_of(one), x)
    assert features.shape == (3, 32)
    assert torch.equal(net.roles["head"](head_of(one), features), net.logits(one, x))


@pytest.mark.parametrize(("field", "value"), [("architecture", "huge"), ("norm", "layer"), ("width", 0.0)])
def test_unknown_net_options_are_named(field: str, value: object) -> None:
    with pytest.raises(OptionError, match=str(value)):
        NetSpec(12, **{field: value})  # type: ignore[arg-type]
