"""The nets for images against torch's own modules, their sizes by hand, and one interface for all nets."""

import pytest
import torch
from torch import nn

from ecgfed.base.errors import OptionError
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.images import ConvNet, ResNet30
from ecgfed.core.nets.layers import mapped_over_clients, trainable
from ecgfed.core.nets.net import NETS, Inputs, NetSpec, net_spec
from ecgfed.core.nets.parts import count_parameters, extractor_of
from ecgfed.core.nets.resnet1d import ResNet1d

IMAGE_PLANS = NETS["image"]


def images(count: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_sizes() -> None:
    # by hand: stem 432; 10 convolutions of 16 (2,304 each); 32: 4,608 + 9 of 9,216 + skip 512; 64: 18,432 + 7 of 36,864
    # + skip 2,048; norms 2 (16 + 160 + 320 + 512); head 4,160 + 650
    convolutions = 432 + 23_040 + (4_608 + 82_944 + 512) + (18_432 + 258_048 + 2_048)
    resnet = make_net(NetSpec(10, "resnet30", "group"))
    assert count_parameters(resnet.initial(0)) == convolutions + 2_016 + 4_810
    # 5x5 convolutions with bias 4,864 + 2 of 102,464; 1,024 -> 64: 65,600; head 650
    three = make_net(NetSpec(10, "convnet3", "none"))
    assert count_parameters(extractor_of(three.initial(0))) == 275_392
    assert count_parameters(three.initial(0)) == 275_392 + 650
    # 4,864 + 102,464; 4,096 -> 120: 491,640; head 120 -> 64 -> 10: 7,744 + 650
    assert count_parameters(make_net(NetSpec(10, "convnet2", "none")).initial(0)) == 598_968 + 8_394


def test_resnet30_has_thirty_layers_less_its_head() -> None:
    net = make_net(NetSpec(10, "resnet30"))
    weights = [
        name for name in net.initial(0) if name.endswith(".weight") and "norm" not in name and "skip" not in name
    ]
    assert sum(name.startswith("extractor") for name in weights) == 29  # and the linear layer; here two of them
    assert sum(name.startswith("head") for name in weights) == 2


class _Block(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(into, out, 3, stride, padding=1, bias=False)
        self.norm0 = nn.BatchNorm2d(out)
        self.conv1 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.skip = nn.Conv2d(into, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm0(self.conv0(x)))
        return torch.relu(self.norm1(self.conv1(y)) + self.skip(x))


def _normalised(image: torch.Tensor) -> torch.Tensor:
    mean = torch.tensor([0.4914, 0.4822, 0.4465]).reshape(3, 1, 1)
    std = torch.tensor([0.2470, 0.2435, 0.2616]).reshape(3, 1, 1)
    return (image / 255 - mean) / std


def test_resnet30_with_batchnorm_is_torchs_modules_in_training_and_in_use() -> None:
    shapes = [(16, 16, 1)] * 5 + [(16, 32, 2)] + [(32, 32, 1)] * 4 + [(32, 64, 2)] + [(64, 64, 1)] * 3
    extractor = nn.ModuleDict({"stem": nn.Conv2d(3, 16, 3, padding=1, bias=False), "stem_norm": nn.BatchNorm2d(16)})
    for i, shape in enumerate(shapes):
        extractor[f"block{i}"] = _Block(*shape)
    modules = nn.ModuleDict(
        {"extractor": extractor, "head": nn.ModuleDict({"hidden": nn.Linear(64, 64), "out": nn.Linear(64, 10)})}
    )
    net = make_net(NetSpec(10, "resnet30", "batch"))
    params = net.initial(3)
    missing = modules.load_state_dict(params, strict=False)
    assert all(name.endswith("num_batches_tracked") for name in missing.missing_keys)
    assert not missing.unexpected_keys

    def expected() -> torch.Tensor:
        x = torch.relu(extractor["stem_norm"](extractor["stem"](_normalised(images()))))
        for i in range(14):
            x = extractor[f"block{i}"](x)
        return modules["head"]["out"](torch.relu(modules["head"]["hidden"](x.mean((2, 3)))))

    for training in (True, False):
        modules.train(training)
        stats: dict[str, torch.Tensor] = {}
        found = net.logits(params, Inputs(images()), stats if training else None)
        torch.testing.assert_close(found, expected(), atol=2e-4, rtol=1e-4)
        for name, value in stats.items():
            torch.testing.assert_close(value, dict(modules.named_buffers())[name], atol=1e-4, rtol=1e-4)
        params = {**params, **stats}


@pytest.mark.parametrize(("plan", "widths"), [("convnet3", (64, 64, 64)), ("convnet2", (64, 64))])
def test_the_convnets_are_torchs_modules(plan: str, widths: tuple[int, ...]) -> None:
    net = make_net(NetSpec(10, plan, "none"))
    params = net.initial(1)
    x, into = _normalised(images()), 3
    for i, out in enumerate(widths):
        layer = nn.Conv2d(into, out, 5, padding=2)
        layer.load_state_dict({n: params[f"extractor.conv{i}.{n}"] for n in ("weight", "bias")})
        x, into = torch.max_pool2d(torch.relu(layer(x)), 2), out
    x = torch.relu(x.reshape(6, -1) @ params["extractor.linear.weight"].T + params["extractor.linear.bias"])
    torch.testing.assert_close(net.extract(params, Inputs(images())), x, atol=1e-4, rtol=1e-4)
    if plan == "convnet2":
        x = torch.relu(x @ params["head.hidden.weight"].T + params["head.hidden.bias"])
    assert ("head.hidden.weight" in params) == (plan == "convnet2")
    logits = x @ params["head.out.weight"].T + params["head.out.bias"]
    torch.testing.assert_close(net.logits(params, Inputs(images())), logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("norm", ["group", "batch", "none"])
@pytest.mark.parametrize("plan", IMAGE_PLANS)
def test_rows_that_only_fill_up_change_nothing_and_mapping_changes_nothing(plan: str, norm: str) -> None:
    net = make_net(NetSpec(10, plan, norm, width=0.25))
    params = net.initial(0)
    filled = torch.cat([images(), torch.zeros(2, 3, 32, 32, dtype=torch.uint8)])
    weight = torch.tensor([1.0] * 6 + [0.0] * 2)
    alone, stats = net.logits(params, Inputs(images()), one := {}), {}
    together = net.logits(params, Inputs(filled, None, weight), stats)[:6]
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
    for name, value in one.items():
        torch.testing.assert_close(value, stats[name], atol=1e-5, rtol=1e-4)
    stacked = {name: torch.stack([value, value]) for name, value in params.items()}
    with mapped_over_clients():
        many = torch.func.vmap(lambda p, x: net.logits(p, Inputs(x)))(stacked, torch.stack([images(), images(seed=1)]))
    torch.testing.assert_close(many[1], net.logits(params, Inputs(images(seed=1))), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("plan", [plan for plans in NETS.values() for plan in plans])
def test_every_net_has_every_role_and_the_same_seed_the_same_bits(plan: str) -> None:
    rr_version = {"context": 3}.get(plan, 1)
    net = make_net(NetSpec(4, plan, width=0.35, rr=rr_version == 3, rr_version=rr_version))
    params, again = net.initial(7), net.initial(7)
    assert all(torch.equal(value, again[name]) for name, value in params.items())
    rr = torch.zeros(2, net.spec.rr_count) if net.spec.rr else None
    inputs = Inputs(torch.zeros(2, *net.input_shape, dtype=net.input_type), rr)
    features = net.roles["extractor"](params, inputs)
    assert features.shape == (2, net.features)
    assert net.roles["head"](params, features).shape == net.roles["model"](params, inputs).shape == (2, 4)
    personal = {"personal.weight": torch.zeros(4, net.features), "personal.bias": torch.ones(4)}
    both = net.roles["decoupled"]({**params, **personal}, inputs)
    torch.testing.assert_close(both, net.logits(params, inputs) + 1)
    assert {name.split(".")[0] for name in trainable(params)} == {"extractor", "head"}


def test_a_net_is_chosen_by_modality() -> None:
    assert isinstance(make_net(net_spec(10, "image")), ResNet30)
    assert isinstance(make_net(net_spec(10, "image", architecture="convnet2")), ConvNet)
    assert isinstance(make_net(net_spec(12, "ecg")), ResNet1d)
    assert net_spec(10, "image").norm == "group"
    assert net_spec(10, "image", architecture="convnet3").norm == "none"
    assert net_spec(10, "image", architecture="convnet3", norm="batch").norm == "batch"
    assert net_spec(12, "ecg") == NetSpec(12, rr=True)
    assert net_spec(12, "ecg", rr_version=3) == NetSpec(12, "context", rr=True, rr_version=3)
    assert net_spec(12, "ecg", rr_version=3, rr=False) == NetSpec(12)
    with pytest.raises(OptionError):
        net_spec(12, "ecg", rr_version=2, architecture="context")
    for bad in ({"architecture": "default"}, {"rr": True}, {"architecture": "vgg"}, {"norm": "layer"}):
        with pytest.raises(OptionError):
            net_spec(10, "image", **bad)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="resnet30"):
        net_spec(12, "ecg", architecture="resnet30", rr=False)
