"""RR features of version 4 beside a reference that goes from beat to beat, in pieces and as a whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecgfed.domain.beats.context_stream import context_features, provisional_features
from ecgfed.domain.beats.past import DECAY, FEATURES, INTERVALS, LONGEST_S, PastStream

Floats = NDArray[np.float64]
UNIT = 0.2


def recording(beats: int, seed: int) -> tuple[Floats, NDArray[np.float32], NDArray[np.bool_]]:
    """Intervals before beats and after the last (beats + 1,), windows and which may make a reference."""
    rng = np.random.default_rng(seed)
    time = np.arange(256) - 100
    normal = np.exp(-0.5 * (time / 5) ** 2) + 0.15 * np.exp(-0.5 * ((time + 60) / 9) ** 2)
    wide = 1.4 * np.exp(-0.5 * (time / 16) ** 2) - 0.5 * np.exp(-0.5 * ((time - 40) / 14) ** 2)
    is_wide = rng.random(beats) < 0.12
    window = np.where(is_wide[:, None], wide, normal) * rng.uniform(0.9, 1.1, (beats, 1))
    window = window + 0.02 * rng.standard_normal((beats, 256))
    interval = np.rint(360 * 0.8 * (1 + 0.06 * rng.standard_normal(beats + 1))) / 360
    interval[:-1][is_wide] *= 0.6
    interval[rng.random(beats + 1) < 0.03] = np.nan
    interval[rng.random(beats + 1) < 0.02] = 2.5
    interval[0] = interval[-1] = np.nan
    return interval, window[:, None].astype(np.float32), rng.random(beats) > 0.05


def known_quantile(values: list[float], share: float) -> float:
    known = [value for value in values[-INTERVALS:] if np.isfinite(value)]
    return float(np.quantile(known, share)) if len(known) >= 3 else np.nan


class Mean:
    """Weighted mean of vectors, the weights falling by ``DECAY`` from the last backwards."""

    def __init__(self) -> None:
        self.rows: list[Floats] = []

    def mean(self) -> Floats | None:
        if len(self.rows) < 3:
            return None
        weights = DECAY ** np.arange(len(self.rows))[::-1]
        return np.asarray(np.average(self.rows, axis=0, weights=weights))


def duration(window: Floats) -> float:
    slope = np.convolve(np.abs(np.diff(window[50:170])), np.ones(5), "valid")
    steep = np.flatnonzero(slope > 0.15 * slope.max())
    return float(max(steep[-1] - steep[0], 1))


def by_hand(interval_s: Floats, window_mv: NDArray[np.float32], usable: NDArray[np.bool_]) -> Floats:
    """The features, beat by beat, from docs/bundle-format.md."""
    interval = [value if value <= LONGEST_S else np.nan for value in interval_s.tolist()]
    every: list[float] = []
    between: list[float] = []
    changes: list[float] = []
    draft, own, was_own, found = Mean(), Mean(), False, []
    for i, (mv, good) in enumerate(zip(window_mv[:, 0].astype(np.float64), usable, strict=True)):
        x = mv - np.median(mv)
        size = np.sqrt(np.mean(x[75:136] ** 2))
        q, p = x[75:136] / size, x[10:72] / size
        p = p - p.mean()
        row = np.concatenate([q, p, [np.sum(p**2), np.log(size), np.log(duration(x))]])
        now, following = interval[i], interval[i + 1]
        usual = known_quantile(every, 0.5)
        reference = draft.mean()
        is_own = bool(good) and reference is not None and np.corrcoef(q, reference[:61])[0, 1] > 0.7
        is_between, was_own = is_own and was_own, is_own
        typical, sinus = known_quantile(between, 0.5), known_quantile(between, 0.9)
        typical = usual if np.isnan(typical) else typical
        sinus = typical if np.isnan(sinus) else sinus
        shape = own.mean() if own.mean() is not None else reference
        steps = [abs(np.log(now / interval[i - k])) for k in (1, 2) if i >= k]
        known = [step for step in steps if np.isfinite(step)]
        changes.append(min(known) if known else np.nan)
        last = [step for step in changes[-60:] if np.isfinite(step)]
        change = float(np.median(last)) if len(last) >= 3 else 0.0
        values = dict.fromkeys(FEATURES, np.nan)
        values["previous_over_typical"] = np.log(now / typical) / UNIT
        values["next_over_sinus"] = np.log(following / sinus) / UNIT
        values["next_over_previous"] = np.log(following / now) / UNIT
        values["irregular"] = np.log(max(change, 0.005) / 0.05)
        for name, undefined in (("previous", now), ("next", following), ("reference", typical)):
            values[f"void_{name}"] = float(np.isnan(undefined))
        values["void_shape"] = float(shape is None)
        if shape is not None:
            unlike = 1 - np.corrcoef(q, shape[:61])[0, 1]
            lost = min(np.sum(shape[61:123] ** 2) / shape[123], 1) * (1 - np.corrcoef(p, shape[61:123])[0, 1])
            early = min(np.log(now / sinus) / UNIT + 0.25, 0) if np.isfinite(now / sinus) else np.nan
            regular, like = 1 / (1 + np.exp((change - 0.05) / 0.0125)), np.clip((1 - unlike - 0.88) / 0.08, 0, 1)
            values |= {"qrs_unlike": 2 * unlike, "qrs_apart": np.sqrt(np.mean((q - shape[:61]) ** 2)), "p_lost": lost}
            values |= {"size": (row[124] - shape[124]) / 0.4, "width": (row[125] - shape[125]) / 0.4}
            values |= {"premature": early * regular * like, "premature_without_p": early * regular * like * lost}
            values["premature_unlike"] = early * (1 - like)
        found.append(list(values.values()))
        if good and now >= usual * (1 - 1e-9):
            draft.rows.append(row)
        if is_between and now >= sinus * (1 - 1e-9):
            own.rows.append(row)
        every.append(now)
        between.append(now if is_between else np.nan)
    return np.clip(np.nan_to_num(np.array(found), nan=0.0), -5, 5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_features_by_hand(seed: int) -> None:
    interval_s, window_mv, usable = recording(400, seed)
    found = context_features(interval_s, window_mv, usable, 4)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_hand(interval_s, window_mv, usable), atol=2e-5)
    assert (np.abs(found).max(axis=0) > 0).all()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=12))
def test_pieces_give_the_same_bits(lengths: list[int]) -> None:
    interval_s, window_mv, usable = recording(300, 3)
    stream, at, parts = PastStream(), 0, []
    for length in [*lengths, 300]:
        part = slice(at, min(at + length, 300))
        parts.append(stream.push(interval_s[:-1][part], window_mv[part], usable[part]))
        at = part.stop
        assert sum(map(len, parts)) == max(at - 1, 0)  # one beat late
    np.testing.assert_array_equal(
        np.concatenate([*parts, stream.finish()]), context_features(interval_s, window_mv, usable, 4)
    )


def test_a_beat_depends_on_one_interval_after_it_and_on_nothing_else_that_follows() -> None:
    interval_s, window_mv, usable = recording(200, 4)
    whole = context_features(interval_s, window_mv, usable, 4)
    for beats in (1, 2, 50, 151):
        # nothing follows, then one more R peak
        alone = provisional_features(np.append(interval_s[:beats], np.nan), window_mv[:beats], usable[:beats], 4)
        followed = provisional_features(interval_s[: beats + 1], window_mv[:beats], usable[:beats], 4, last=1)
        np.testing.assert_array_equal(followed, whole[beats - 1 : beats])
        after = [FEATURES.index(name) for name in ("next_over_sinus", "next_over_previous", "void_next")]
        np.testing.assert_array_equal(np.delete(alone[-1], after), np.delete(whole[beats - 1], after))
        assert alone[-1][after].tolist() == [0, 0, 1]


def test_no_beats_have_no_features() -> None:
    nothing = np.empty((0, 1, 256), np.float32)
    assert context_features(np.empty(1), nothing, np.empty(0, bool), 4).shape == (0, len(FEATURES))
    assert provisional_features(np.full(1, np.nan), nothing, np.empty(0, bool), 4).shape == (0, len(FEATURES))
