"""The quality of a lead judged chunk by chunk is the whole lead's, whatever lies at a chunk's edge."""

from pathlib import Path

import numpy as np
import pytest
from conftest import synthetic_signal
from numpy.typing import NDArray
from spoiled_signals import rails_by_median

from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.chunked_quality import gaps_of, lead_quality, quality_of, spikes_of
from ecgfed.domain.signal.filters import band_pass_taps, convolved, reach_of
from ecgfed.domain.signal.quality import Reason, Stretch, runs
from ecgfed.domain.signal.spans import Spans

FS = 128.0
#: Chunks of so many seconds; the least that is judged at once is twelve.
CHUNKS = (12.0, 26.0, 44.0)


def lead(signal: NDArray[np.float64], fs_hz: float = FS) -> Recording:
    return Recording("x", Path("x"), "a", ("a",), fs_hz, signal[None], ())


def beats(count: int = 320, fs_hz: float = FS, seed: int = 0) -> NDArray[np.float64]:
    return synthetic_signal("NNVN" * (count // 4), fs_hz=fs_hz, seed=seed)[0]


def check(signal: NDArray[np.float64], fs_hz: float = FS) -> set[Reason]:
    whole = lead_quality(signal, fs_hz)
    for chunk_s in CHUNKS:
        found = quality_of(lead(signal, fs_hz), "a", chunk_s=chunk_s)
        assert found.stretches == whole.stretches, chunk_s
        spikes = tuple((part.start, part.stop) for part in whole.stretches if part.reason is Reason.SPIKE)
        assert spikes_of(lead(signal, fs_hz), "a", chunk_s=chunk_s) == spikes
        gaps = gaps_of(lead(signal, fs_hz), "a", chunk_s=chunk_s)
        assert list(gaps) == list(runs(~np.isfinite(signal)))
    return {part.reason for part in whole.stretches}


@pytest.mark.parametrize("fs_hz", [100.0, 128.0, 257.3])
def test_every_reason_at_every_kind_of_place(fs_hz: float) -> None:
    rng = np.random.default_rng(int(fs_hz))
    found: set[Reason] = set()
    for seed in range(4):
        signal = beats(seed=seed, fs_hz=fs_hz)
        for kind, length_s in enumerate(rng.permutation([0.01, 0.3, 1.5, 5, 9, 31])):
            at, many = int(rng.integers(0, len(signal))), round(length_s * fs_hz) + 1
            part = signal[at : at + many]
            if kind == 0:
                part[:] = np.nan
            elif kind == 1:
                part[:] = 0.3
            elif kind == 2:
                part[:] = -9.0
            elif kind == 3:
                part[: round(0.02 * fs_hz) + 1] += rng.choice([-1, 1]) * 30
            elif kind == 4:
                part += rng.normal(0, 0.4, len(part))
            else:
                signal[at:] += rng.choice([-1, 1]) * 2.5
        found |= check(signal, fs_hz)
    assert found == set(Reason)


@pytest.mark.parametrize("chunk_s", CHUNKS)
def test_a_gap_that_begins_or_ends_at_the_edge_of_a_chunk(chunk_s: float) -> None:
    chunk = round(chunk_s * FS)
    for start, stop in ((chunk, chunk + 9), (chunk - 9, chunk), (chunk - 1, 3 * chunk + 1), (chunk, 3 * chunk)):
        signal = beats()
        signal[start:stop] = np.nan
        signal[stop : stop + 4] += 20  # the electrode comes back with a spike
        assert check(signal) >= {Reason.GAP, Reason.SPIKE}


def test_a_gap_longer_than_chunks_and_a_lead_without_any_sample() -> None:
    signal = beats()
    signal[: len(signal) // 2] = np.nan
    check(signal)
    check(signal[::-1].copy())
    signal[:] = np.nan
    assert check(signal) == {Reason.GAP}
    assert check(np.full(20_000, 0.2)) == {Reason.FLAT}
    flat = np.full(20_000, 0.2)
    flat[9_000:9_003] = 40.0
    check(flat)


def test_a_lead_shorter_than_a_chunk_is_judged_whole() -> None:
    for seconds in (0.5, 3.0, 20.0):
        signal = beats(60)[: round(seconds * FS)]
        assert quality_of(lead(signal), "a").stretches == lead_quality(signal, FS).stretches


@pytest.mark.parametrize("step", [0.0, 0.5, 1.0, 1.25])
@pytest.mark.parametrize("even", [0, 1])
def test_a_rail_is_told_by_the_median_of_the_rest(step: float, even: int) -> None:
    """Half of the rest on each side of the millivolt that makes a rail: the median lies between them."""
    rest = np.repeat([0.2, 0.2 + step], 6_000)[: 12_000 - even]
    rest[::700] = 0.21
    signal = np.concatenate([rest, np.full(40, -0.9), np.full(40, 1.6), rest])
    assert (Reason.RAIL in check(signal)) == bool(rails_by_median(signal))


@pytest.mark.parametrize("fs_hz", [100, 250, 360, 1000])
def test_a_part_is_convolved_as_it_is_in_the_whole(fs_hz: int) -> None:
    rng, taps = np.random.default_rng(fs_hz), band_pass_taps(float(fs_hz))
    signal = rng.normal(size=200 * fs_hz)
    whole, reach = convolved(signal, taps), reach_of(taps)
    for first in (0, 1, int(rng.integers(2, 60 * fs_hz)), 100 * fs_hz):
        for last in (len(signal), len(signal) - int(rng.integers(1, fs_hz))):
            part = convolved(signal[first:last], taps, first)
            inner = slice(reach if first else 0, None if last == len(signal) else last - first - reach)
            assert np.array_equal(part[inner], whole[first:last][inner])


def test_spans_say_what_a_mask_says() -> None:
    rng = np.random.default_rng(5)
    mask = np.zeros(500, bool)
    edges = [(int(a), int(a + b)) for a, b in rng.integers(0, 60, (12, 2)) * [8, 1]]
    for start, stop in edges:
        mask[start:stop] = True
    spans, before = Spans.merged(edges), np.concatenate([[0], np.cumsum(mask)])
    assert (list(spans), spans.total) == (list(runs(mask)), int(mask.sum()))
    at = np.arange(-20, 560)
    assert np.array_equal(spans.before(at), before[np.clip(at, 0, 500)])
    assert np.array_equal(spans.inside(np.arange(500)), mask)
    assert np.array_equal(spans.mask(13, 411), mask[13:411])
    assert Spans.merged([]).total == 0
    assert not Spans.merged([]).overlap(np.array([3]), np.array([9])).any()


def test_seconds_of_stretches_that_overlap() -> None:
    found = lead_quality(beats(), FS)
    parts = (Stretch(10, 138, Reason.GAP), Stretch(100, 200, Reason.NOISE), Stretch(150, 300, Reason.NOISE))
    made = type(found)(1280, FS, parts)
    assert made.usable_s == (1280 - 290) / FS
    assert made.seconds() == {"gap": 1.0, "noise": round(200 / FS, 3)}
