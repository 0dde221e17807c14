"""The detector's networks while they are trained, and their way to fixed point."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from shown import Example, rhythm_examples
from torch import nn

from ecgfed.domain.signal import qrs_net
from ecgfed.domain.signal.qrs_features import LEAD_FEATURES, LEVELS, PEAK_FEATURES, PEAK_SHAPE_AT, SHAPE_AT, UNIT
from ecgfed.domain.signal.qrs_rhythm import MIXED, NEIGHBOURS, RHYTHM_FEATURES

Loss = Callable[[torch.Tensor], torch.Tensor]
#: How much the kinds of copies count: the rarer and the harder, the more; the others count 1.
KIND_WEIGHTS = {
    "as it is": 2.0,
    "one lead": 1.5,
    "slow": 2.5,
    "fast": 1.5,
    "low-pass": 2.0,
    "clipped": 2.0,
    "wearable": 1.5,
    "V run": 1.5,
    "bigeminy": 2.5,
    "V larger": 3.0,
    "mixed sizes": 2.0,
    "tall T": 3.0,
    "spikes": 3.0,
    "paced": 3.0,
    "pauses": 3.0,
    "AV block": 5.0,
}
#: Log odds below which a candidate that is no beat is an easy one.
EASY = -5.0
_EACH = 5


def _bounded(sums: torch.Tensor) -> torch.Tensor:
    return torch.clamp(sums, 0, qrs_net.HIGHEST)


class FirstNet(nn.Module):
    """Each lead through the same layer, then mean and maximum over the leads, then the odds of a beat."""

    def __init__(self, width: int = 56) -> None:
        super().__init__()
        self.lead, self.mix = nn.Linear(LEAD_FEATURES, width), nn.Linear(2 * width, MIXED)
        self.first = nn.Linear(MIXED, 1)

    def forward(self, features: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
        """Return log odds (candidates,)."""
        hidden = _bounded(self.lead(features)) * counted[..., None]
        pooled = torch.cat([hidden.sum(0) / counted.sum(0)[:, None], hidden.amax(0)], 1)
        return self.first(_bounded(self.mix(pooled)))[:, 0]


class SecondNet(nn.Module):
    """A candidate and its neighbours, and the odds of a beat."""

    def __init__(self, width: int = 64, tied: int = 24) -> None:
        super().__init__()
        self.around, self.tie = nn.Linear(RHYTHM_FEATURES, width), nn.Linear(width, tied)
        self.beat = nn.Linear(tied, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return log odds (candidates,)."""
        return self.beat(_bounded(self.tie(_bounded(self.around(features)))))[:, 0]


class PeakNet(nn.Module):
    """How likely an extremum is the R peak."""

    def __init__(self, width: int = 32, mixed: int = 16) -> None:
        super().__init__()
        self.place, self.near = nn.Linear(PEAK_FEATURES, width), nn.Linear(width, mixed)
        self.pick = nn.Linear(mixed, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return scores (beats, extrema)."""
        return self.pick(_bounded(self.near(_bounded(self.place(features)))))[..., 0]


def _minimise(net: nn.Module, loss: Loss, count: int, epochs: int, batch: int) -> None:
    steps = epochs * (count // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        order = torch.randperm(count)
        for i in range(count // batch):
            value = loss(order[i * batch : (i + 1) * batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()


def _surely(net: nn.Module) -> nn.Module:
    """Shrink a unit whose sums could reach 2^24, which the arithmetic would round."""
    with torch.no_grad():
        for number, layer in enumerate(net.children()):
            largest = 4 if number == 0 and not isinstance(net, SecondNet) else qrs_net.HIGHEST
            most = 0.98 * 2**24 / (qrs_net.SCORE_UNIT * largest)
            whole = layer.weight.abs().sum(1) + layer.bias.abs() / largest
            layer.weight *= torch.clamp(most / whole, max=1.0)[:, None]
    return net.eval()


def _weights(made: list[Example]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([e.weight * KIND_WEIGHTS.get(e.kind, 1.0) for e in made])).float()


def _two_leads(values: np.ndarray) -> torch.Tensor:
    found = torch.from_numpy(values)
    return found if len(found) == 2 else torch.cat([found, torch.zeros_like(found)])


@dataclass
class _Candidates:
    """All candidates of some examples, of two leads each (the second one not counted where there is one)."""

    features: torch.Tensor  # (2, candidates, LEAD_FEATURES) int16
    counted: torch.Tensor  # (2, candidates)
    beat: torch.Tensor
    weight: torch.Tensor

    @classmethod
    def of(cls, made: list[Example]) -> "_Candidates":
        counted = torch.cat([_two_leads(e.counted) for e in made], 1)
        beat = torch.from_numpy(np.concatenate([e.beat for e in made])).float()
        features = torch.cat([_two_leads(e.features) for e in made], 1)
        return cls(features, counted, beat, _weights(made) * counted.any(0))

    def some(self, which: torch.Tensor) -> "_Candidates":
        return _Candidates(self.features[:, which], self.counted[:, which], self.beat[which], self.weight[which])

    def loss(self, net: FirstNet, rows: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of some rows, their leads inverted and left out at random."""
        seen, use, count = self.features[:, rows].float() / UNIT, self.counted[:, rows].float(), len(rows)
        seen[..., : len(SHAPE_AT)] *= torch.where(torch.rand(2, count, 1) < 0.3, -1.0, 1.0)
        seen[..., -LEVELS:] += 0.03 * torch.randn(2, count, LEVELS)
        draw, both = torch.rand(count), use.sum(0) == 2
        use[0, both & (draw < 0.15)] = 0
        use[1, both & (draw > 0.8)] = 0
        use[0, use.sum(0) == 0] = 1
        asked = 0.98 * self.beat[rows] + 0.01
        per = nn.functional.binary_cross_entropy_with_logits(net(seen, use), asked, reduction="none")
        return (per * self.weight[rows]).mean()


def _hard(given: _Candidates) -> _Candidates:
    """Keep a third of what a net of one quick epoch is sure is no beat, and let it count three times."""
    net, count = FirstNet(), len(given.beat)
    some = given.some(torch.randperm(count)[: count // 4])
    _minimise(net, lambda rows: some.loss(net, rows), len(some.beat), 1, 256)
    with torch.no_grad():
        parts = torch.arange(count).split(20000)
        use = [torch.clamp(given.counted[:, rows].float(), min=1e-6) for rows in parts]
        score = torch.cat([net(given.features[:, rows].float() / UNIT, u) for rows, u in zip(parts, use, strict=True)])
    easy = (score < EASY) & (given.beat == 0)
    keep = ~easy | (torch.rand(count) < 1 / 3)
    given.weight[easy] *= 3
    return given.some(torch.nonzero(keep)[:, 0])


def fit_first(made: list[Example], epochs: int, seed: int) -> FirstNet:
    """Train the first look."""
    torch.manual_seed(seed)
    given, net = _hard(_Candidates.of(made)), FirstNet()
    _minimise(net, lambda rows: given.loss(net, rows), len(given.beat), epochs, 1024)
    return _surely(net)  # type: ignore[return-value]


def fit_second(made: list[Example], epochs: int, seed: int) -> SecondNet:
    """Train the second look on what the first one, in use already, makes of the examples."""
    torch.manual_seed(seed)
    given = [torch.from_numpy(part) for part in rhythm_examples(made)]
    features, beat, weight = given[0], given[1].float(), given[2].float()
    net = SecondNet()
    scores = torch.tensor([i * _EACH + 1 for i in range(NEIGHBOURS)] + [NEIGHBOURS * _EACH])

    def loss(rows: torch.Tensor) -> torch.Tensor:
        seen = features[rows].float() / UNIT
        there = torch.cat([seen[:, : NEIGHBOURS * _EACH : _EACH], torch.ones(len(rows), 1)], 1)
        seen[:, scores] += 0.12 * torch.randn(len(rows), len(scores)) * there
        per = nn.functional.binary_cross_entropy_with_logits(net(seen), 0.98 * beat[rows] + 0.01, reduction="none")
        return (per * weight[rows]).mean()

    _minimise(net, loss, len(beat), epochs, 512)
    return _surely(net)  # type: ignore[return-value]


def fit_peaks(made: list[Example], epochs: int, seed: int) -> PeakNet:
    """Train the choice among extrema, by the annotated one."""
    torch.manual_seed(seed)
    parts = zip(*(one.peaks for one in made if one.peaks), strict=True)
    there, features, chosen = (torch.from_numpy(np.concatenate(part)) for part in parts)
    net = PeakNet()

    def loss(rows: torch.Tensor) -> torch.Tensor:
        seen = features[rows].float() / UNIT
        seen[..., : len(PEAK_SHAPE_AT)] *= torch.where(torch.rand(len(rows), 1, 1) < 0.2, -1.0, 1.0)
        seen[..., : len(PEAK_SHAPE_AT)] *= torch.exp(0.1 * torch.randn(len(rows), 1, 1))
        return nn.functional.cross_entropy(net(seen).masked_fill(~there[rows], -1e9), chosen[rows])

    _minimise(net, loss, len(chosen), epochs, 512)
    return _surely(net)  # type: ignore[return-value]


def whole_numbers(*nets: nn.Module) -> dict[str, np.ndarray]:
    """Return weights and biases in fixed point, by the names ``qrs_net`` reads."""
    stored = {}
    for net in nets:
        for name, layer in net.named_children():
            stored[name] = np.rint(layer.weight.detach().numpy().T * qrs_net.WEIGHT_UNIT).astype(np.int16)
            stored[f"{name}_bias"] = np.rint(layer.bias.detach().numpy() * qrs_net.SCORE_UNIT).astype(np.int32)
    return stored


def use(weights: dict[str, np.ndarray]) -> None:
    """Let the detector use other weights in this process."""
    qrs_net._weights = lambda: {name: value.astype(np.float32) for name, value in weights.items()}  # type: ignore


def train(made: list[Example], epochs: int, seed: int) -> dict[str, np.ndarray]:
    """Train the three networks, the second look on what the first makes of the examples."""
    first = whole_numbers(fit_first(made, epochs, seed))
    use(first)
    second = whole_numbers(fit_second(made, epochs, seed))
    peaks = whole_numbers(fit_peaks(made, max(2, epochs // 4), seed))
    return first | second | peaks
