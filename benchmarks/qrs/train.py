"""Train the QRS detector's two small networks on the DS1 records of MIT-BIH; no other is read here.

    python benchmarks/qrs/train.py --source MITDB                 # writes ecgfed/signal/qrs_weights.npz
    python benchmarks/qrs/train.py --source MITDB --folds 4       # cross-validation by record, writes nothing

Each record is seen as it is, and again with noise, wander, hum, pops and dead stretches added, played faster or slower,
and through one lead only. A second seed gives other weights of the same quality; the shipped ones are seed 0.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import DS1

from ecgfed.record.wfdb_files import read_annotation, read_recording
from ecgfed.signal import qrs, qrs_net, qrs_signal
from ecgfed.signal.qrs_signal import LEAD_FEATURES, LEVELS, PEAK_FEATURES, PEAK_SHAPE_AT, RATE_HZ, SHAPE_AT, UNIT

FS_HZ = 360.0
COPIES = ("as it is", "noisy", "noisy", "noisy", "one lead", "one noisy lead", "the other lead")
WEIGHTS = Path(qrs_net.__file__).with_name(qrs_net.FILE)


@dataclass
class Example:
    """One record or copy of it: its candidates, and what the networks see of them."""

    record: str
    copy: int
    speed: float  # sampling frequency it pretends to have, over 360 Hz
    at: np.ndarray  # (candidates,) 200 Hz samples
    features: np.ndarray  # (leads, candidates, LEAD_FEATURES)
    counted: np.ndarray  # (leads, candidates)
    beat: np.ndarray  # (candidates,) 1 for a beat
    weight: np.ndarray  # (candidates,) 0 in flutter
    peaks: tuple[np.ndarray, np.ndarray, np.ndarray]  # of beats: extrema there, their features, the annotated one


class _Watching:
    """Stands in for the decision, and keeps what it would have seen."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __call__(self, made, at, level):
        self.calls.append((made, at, level))
        return np.empty(0, np.int64), np.empty(0)


def watch(signals_mv: np.ndarray, fs_hz: float) -> list[tuple]:
    """Return (traces, candidates, levels) of every piece of a recording."""
    watching, before = _Watching(), qrs._beats
    qrs._beats = watching
    try:
        qrs.detect_qrs(signals_mv, fs_hz)
    finally:
        qrs._beats = before
    return watching.calls


def beats_and_flutter(source: Path, record: str) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the annotated beats outside flutter, and the flutter segments."""
    marks = read_annotation(source / record)
    starts, ends = marks.sample[marks.symbol == "["], marks.sample[marks.symbol == "]"]
    flutter = list(zip(starts.tolist(), ends.tolist(), strict=True))
    beats = marks.beats().sample
    for start, end in flutter:
        beats = beats[(beats < start) | (beats > end)]
    return beats, flutter


def disturbed(signals_mv: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a copy (leads, samples) with muscle noise, hum, wander, pops and dead stretches, each lead on its own."""
    out = signals_mv.copy()
    count = out.shape[1]
    pieces = count // 3600 + 1  # of 10 s
    for lead in out:
        size = 4 * np.std(np.diff(lead[::4])) + 0.01
        if rng.random() < 0.6:
            amount = np.repeat(rng.random(pieces) ** 3 * size * rng.choice([0.3, 0.7, 1.2]), 3600)[:count]
            lead += amount * np.convolve(rng.normal(size=count), np.full(4, 0.5), "same")
        if rng.random() < 0.5:
            lead += size * 2 * rng.random() * np.sin(2 * np.pi * rng.choice([50, 60]) * np.arange(count) / FS_HZ)
        if rng.random() < 0.5:
            slow = rng.normal(size=count // 36 + 2).cumsum()
            walk = np.interp(np.arange(count) / 36, np.arange(len(slow)), slow)
            walk -= np.convolve(walk, np.full(360, 1 / 360), "same")
            lead += walk / walk.std() * size * 1.5 * np.repeat(rng.random(pieces) ** 2, 3600)[:count]
        if rng.random() < 0.4:
            for start in rng.integers(0, count, 40):
                lead[start:] += rng.normal() * 0.8
        if rng.random() < 0.4:
            for start in rng.integers(0, count, 6):
                lead[start : start + rng.integers(360, 7200)] = lead[start]
    return out


def labels(at: np.ndarray, beats: np.ndarray, flutter: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Label candidates: the nearest one to each annotated beat within 150 ms is a beat; its neighbours count less.

    All in samples at 360 Hz.
    """
    beat, weight = np.zeros(len(at)), np.ones(len(at))
    after = np.clip(np.searchsorted(at, beats), 1, len(at) - 1)
    before = after - 1
    nearest = np.where(np.abs(at[before] - beats) <= np.abs(at[after] - beats), before, after)
    for side in (before, after):
        weight[side[np.abs(at[side] - beats) <= 45]] = 0.3
    found = nearest[np.abs(at[nearest] - beats) <= 54]
    beat[found] = weight[found] = 1
    for start, end in flutter:
        weight[(at >= start - 360) & (at <= end + 360)] = 0
    return beat, weight


def examples(source: Path, records: Sequence[str]) -> list[Example]:
    """Read records and make every copy of each."""
    rng, made = np.random.default_rng(0), []
    for record in records:
        recording = read_recording(source / record, ("MLII", "V5"), every_lead=True)
        reference = recording.leads.index(recording.lead)
        signals = np.roll(recording.signals_mv, -reference, axis=0)  # the annotators' lead first
        beats, flutter = beats_and_flutter(source, record)
        for copy, kind in enumerate(COPIES):
            noisy = "noisy" in kind
            speed = float(np.exp(rng.uniform(-0.25, 0.25))) if noisy else 1.0
            shown = disturbed(signals, rng) if noisy else signals
            shown = shown[1:] if "other" in kind else shown[:1] if "one" in kind else shown
            made.append(_example(record, copy, shown, speed, beats, flutter, with_peaks="other" not in kind))
    return made


def _example(record, copy, signals, speed, beats, flutter, *, with_peaks) -> Example:
    parts, peaks = [], []
    for made, at, level in watch(signals, FS_HZ * speed):
        weight = qrs_signal.lead_weights(level)
        parts.append((at + made.start, qrs_signal.lead_features(made, at, level).astype(np.int16), weight > 0))
        there = np.rint(beats / speed * RATE_HZ / FS_HZ).astype(np.int64) - made.start  # 200 Hz samples of this piece
        nearest = there[np.clip(np.searchsorted(there, at), 0, len(there) - 1)]
        left = there[np.clip(np.searchsorted(there, at) - 1, 0, len(there) - 1)]
        nearest = np.where(np.abs(left - at) <= np.abs(nearest - at), left, nearest)
        near = (np.abs(nearest - at) <= 30) & (weight[0] > 0) & with_peaks
        place, present, features = qrs_signal.extrema(made, 0, at[near], level[0, 0, near])
        distance = np.where(present, np.abs(place - nearest[near, None]), 10**6)
        clear = distance.min(axis=1) <= 5
        peaks.append((present[clear], features[clear].astype(np.int16), distance.argmin(axis=1)[clear]))
    places, seen, asked = zip(*parts, strict=True)
    at, features, counted = np.concatenate(places), np.concatenate(seen, axis=1), np.concatenate(asked, axis=1)
    beat, weight = labels(at * speed * FS_HZ / RATE_HZ, beats, flutter)
    together = tuple(np.concatenate(part) for part in zip(*peaks, strict=True))
    return Example(record, copy, speed, at, features, counted, beat, weight, together)


class BeatNet(nn.Module):
    """Each lead through the same layer, then mean and maximum over the leads, then the odds of a beat."""

    def __init__(self, width: int = 48, mixed: int = 24) -> None:
        super().__init__()
        self.lead, self.mix = nn.Linear(LEAD_FEATURES, width), nn.Linear(2 * width, mixed)
        self.beat = nn.Linear(mixed, 1)

    def forward(self, features: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
        """Return log odds (candidates,)."""
        hidden = torch.relu(self.lead(features)) * counted[..., None]
        pooled = torch.cat([hidden.sum(0) / counted.sum(0)[:, None], hidden.amax(0)], 1)
        return self.beat(torch.relu(self.mix(pooled)))[:, 0]


class PeakNet(nn.Module):
    """How likely an extremum is the R peak."""

    def __init__(self, width: int = 32, mixed: int = 16) -> None:
        super().__init__()
        self.place, self.near = nn.Linear(PEAK_FEATURES, width), nn.Linear(width, mixed)
        self.pick = nn.Linear(mixed, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return scores (beats, extrema)."""
        return self.pick(torch.relu(self.near(torch.relu(self.place(features)))))[..., 0]


Loss = Callable[[torch.Tensor], torch.Tensor]


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


def fit_beats(made: list[Example], epochs: int, seed: int) -> BeatNet:
    """Train the detector: leads inverted, rescaled and left out at random."""
    torch.manual_seed(seed)
    features = torch.cat([_two_leads(torch.from_numpy(e.features)) for e in made], 1)
    counted = torch.cat([_two_leads(torch.from_numpy(e.counted)) for e in made], 1)
    beat = torch.from_numpy(np.concatenate([e.beat for e in made])).float()
    weight = torch.from_numpy(np.concatenate([e.weight for e in made])).float()
    net = BeatNet()

    def loss(rows: torch.Tensor) -> torch.Tensor:
        seen, use, count = features[:, rows].float() / UNIT, counted[:, rows].float(), len(rows)
        seen[..., : len(SHAPE_AT)] *= torch.where(torch.rand(2, count, 1) < 0.3, -1.0, 1.0)
        seen[..., : LEAD_FEATURES - LEVELS] *= torch.exp(0.1 * torch.randn(2, count, 1))
        draw = torch.rand(count)
        both = use.sum(0) == 2
        use[0, both & (draw < 0.15)] = 0
        use[1, both & (draw > 0.8)] = 0
        per = nn.functional.binary_cross_entropy_with_logits(net(seen, use), 0.98 * beat[rows] + 0.01, reduction="none")
        return (per * weight[rows]).mean()

    _minimise(net, loss, len(beat), epochs, 1024)
    return net.eval()


def _two_leads(values: torch.Tensor) -> torch.Tensor:
    return values if len(values) == 2 else torch.cat([values, torch.zeros_like(values)])


def fit_peaks(made: list[Example], epochs: int, seed: int) -> PeakNet:
    """Train the choice among extrema, by the annotated one."""
    torch.manual_seed(seed)
    parts = zip(*(one.peaks for one in made), strict=True)
    there, features, chosen = (torch.from_numpy(np.concatenate(part)) for part in parts)
    net = PeakNet()

    def loss(rows: torch.Tensor) -> torch.Tensor:
        seen = features[rows].float() / UNIT
        seen[..., : len(PEAK_SHAPE_AT)] *= torch.where(torch.rand(len(rows), 1, 1) < 0.15, -1.0, 1.0)
        seen[..., :-1] *= torch.exp(0.15 * torch.randn(len(rows), 1, 1))
        return nn.functional.cross_entropy(net(seen).masked_fill(~there[rows], -1e9), chosen[rows])

    _minimise(net, loss, len(chosen), epochs, 256)
    return net.eval()


def whole_numbers(*nets: nn.Module) -> dict[str, np.ndarray]:
    """Return weights and biases in fixed point, by the names ``qrs_net`` reads."""
    stored = {}
    for net in nets:
        for name, layer in net.named_children():
            stored[name] = np.rint(layer.weight.detach().numpy().T * qrs_net.WEIGHT_UNIT).astype(np.int16)
            stored[f"{name}_bias"] = np.rint(layer.bias.detach().numpy() * qrs_net.SCORE_UNIT).astype(np.int32)
    return stored


def train(made: list[Example], epochs: int, seed: int) -> dict[str, np.ndarray]:
    """Train both networks."""
    return whole_numbers(fit_beats(made, epochs, seed), fit_peaks([e for e in made if e.copy in (0, 1, 2)], 6, seed))


def use(weights: dict[str, np.ndarray]) -> None:
    """Let the detector use other weights in this process."""
    qrs_net._weights = lambda: {name: value.astype(np.float64) for name, value in weights.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--source", type=Path, required=True, help="folder of the MIT-BIH records")
    arguments.add_argument("--epochs", type=int, default=12)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--folds", type=int, default=0, help="cross-validate by record and write nothing")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    records = DS1
    made = examples(given.source, records)
    count = sum(one.beat.size for one in made)
    print(f"{count:,} candidates of {len(records)} records, {len(COPIES)} copies each", flush=True)
    if not given.folds:
        np.savez_compressed(WEIGHTS, **train(made, given.epochs, given.seed))
        print(f"wrote {WEIGHTS}, {WEIGHTS.stat().st_size} bytes")
        return
    from cross_validate import report

    report(given.source, made, records, given.folds, lambda part: use(train(part, given.epochs, given.seed)))


if __name__ == "__main__":
    main()
