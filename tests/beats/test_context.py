"""RR features of versions 2 and 3: against counted references, whatever the cut, and on rhythms made by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.core.nets import context_net
from ecgfed.core.nets.net import RR_COUNT
from ecgfed.domain.beats import strip
from ecgfed.domain.beats.context import FEATURES, HISTORY, LIMIT, LOOK_AHEAD
from ecgfed.domain.beats.context_stream import ContextStream, context_features, provisional_features
from ecgfed.domain.beats.patient_beat import LOG_UNIT
from ecgfed.domain.beats.windows import BESIDE, STRIP_SAMPLES, STRIP_STEP

Floats = NDArray[np.float64]
AT = {name: i for i, name in enumerate(FEATURES)}
AT_3 = {name: i for i, name in enumerate(strip.FEATURES)}
BESIDE_AT, DIFFERENCE = slice(17, 97), slice(97, 241)
TIME_S = (np.arange(256) - 100) / 360


def wave(at_s: float, width_s: float, mv: float) -> Floats:
    return np.asarray(mv * np.exp(-(((TIME_S - at_s) / width_s) ** 2)))


NORMAL = wave(-0.16, 0.02, 0.15) + wave(0, 0.015, 1.0) - wave(0.03, 0.012, 0.25) + wave(0.25, 0.05, 0.3)
ATRIAL = NORMAL - wave(-0.16, 0.02, 0.15) + wave(-0.20, 0.03, 0.1)  # the P wave comes early, on the T wave before
VENTRICULAR = wave(0.02, 0.05, 1.4) - wave(0.3, 0.06, 0.5)
SHAPES = {"N": NORMAL, "A": ATRIAL, "V": VENTRICULAR}


def windows(symbols: str, noise_mv: float = 0.01, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    shapes = np.array([SHAPES[symbol] for symbol in symbols]).reshape(-1, 256)
    return (shapes + noise_mv * rng.standard_normal(shapes.shape)).astype(np.float32)[:, None]


def features(symbols: str, before_s: Floats) -> NDArray[np.float32]:
    interval_s = np.append(before_s, np.nan)
    return context_features(interval_s, windows(symbols), np.ones(len(symbols), bool))


def random_recording(beats: int, seed: int = 3) -> tuple[Floats, NDArray[np.float32], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    symbols = "".join(rng.choice(["N", "N", "N", "A", "V"], beats))
    before = 0.8 * np.exp(0.1 * rng.standard_normal(beats)) * np.where(np.array(list(symbols)) == "N", 1, 0.7)
    before[rng.random(beats) < 0.03] = np.nan
    before[:1] = np.nan
    return before, windows(symbols, 0.05), rng.random(beats) < 0.95


def test_names_are_each_once_and_values_bounded() -> None:
    assert len(set(FEATURES)) == len(FEATURES)
    before, window, usable = random_recording(700)
    before[5:9] = [1e-3, 9.9, 0.2, 5.0]
    found = context_features(np.append(before, np.nan), window * 50, usable)
    assert found.shape == (700, len(FEATURES))
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= LIMIT


@pytest.mark.parametrize("beats", [0, 1, 2, 7, 9])
def test_short_recordings_have_features(beats: int) -> None:
    found = features("N" * beats, np.concatenate([[np.nan], np.full(max(0, beats - 1), 0.8)])[:beats])
    assert found.shape == (beats, len(FEATURES))
    assert np.isfinite(found).all()
    if beats in (1, 2):  # not three intervals, so no reference
        assert (found[:, AT["void_reference"]] == 1).all()
        assert (found[:, AT["void_shape"]] == 1).all()
        assert (found[:, AT["premature"]] == 0).all()


@pytest.mark.parametrize(("piece", "version"), [(13, 2), (97, 2), (1000, 2), (13, 3), (97, 3)])
def test_a_stream_gives_the_same_bits_as_the_whole(piece: int, version: int) -> None:
    before, window, usable = random_recording(1601)
    beside = strips("N" * 1601)[1] if version == 3 else None
    whole = context_features(np.append(before, np.nan), window, usable, version, beside)
    stream, parts = ContextStream(version), []
    for at in range(0, len(before), piece):
        rows = slice(at, at + piece)
        more = None if beside is None else beside[rows]
        parts.append(stream.push(before[rows], window[rows], usable[rows], more))
        given = sum(map(len, parts))
        assert min(at + piece, 1601) - given <= LOOK_AHEAD + 8
        assert len(stream._held.before_s) <= HISTORY + LOOK_AHEAD + piece + 8
    parts.append(stream.finish())
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_features_depend_on_bounded_neighbours_only() -> None:
    before, window, usable = random_recording(3000)
    whole = context_features(np.append(before, np.nan), window, usable)
    changed = before.copy(), window.copy()
    far = np.r_[0 : 1500 - HISTORY, 1500 + LOOK_AHEAD : 3000]
    changed[0][far], changed[1][far] = 0.5, VENTRICULAR
    other = context_features(np.append(changed[0], np.nan), changed[1], usable)
    np.testing.assert_array_equal(other[1500], whole[1500])
    assert (other[1500 - HISTORY + 40] != whole[1500 - HISTORY + 40]).any()


def test_references_are_the_quantiles_of_intervals_between_own_beats() -> None:
    """Beat 403 lies in block 50 (beats 400 to 407): blocks 19 to 53 decide, beats 152 to 431."""
    rng = np.random.default_rng(4)
    symbols = list("N" * 600)
    for at in range(5, 600, 9):
        symbols[at] = "V"
    before = 0.8 * np.exp(0.1 * rng.standard_normal(600))
    before[0] = before[300] = np.nan
    found = features("".join(symbols), before)[403]
    own = np.array(symbols) == "N"
    between = own & np.append(False, own[:-1])
    around = np.where(between, before, np.nan)[152:432]
    around = around[np.isfinite(around)]
    typical, sinus = np.quantile(around, 0.5), np.quantile(around, 0.9)
    assert found[AT["previous_over_typical"]] == pytest.approx(np.log(before[403] / typical) / LOG_UNIT, abs=1e-5)
    assert found[AT["next_over_sinus"]] == pytest.approx(np.log(before[404] / sinus) / LOG_UNIT, abs=1e-5)
    assert found[AT["next_over_previous"]] == pytest.approx(np.log(before[404] / before[403]) / LOG_UNIT, abs=1e-5)


def test_intervals_across_a_gap_are_masked_and_leave_the_references_alone() -> None:
    before = np.full(300, 0.8) * np.exp(0.02 * np.random.default_rng(1).standard_normal(300))
    before[0] = before[150] = np.nan
    found = features("N" * 300, before)
    for name, at in (("void_previous", (0, 150)), ("void_next", (149, 299))):
        assert np.flatnonzero(found[:, AT[name]]).tolist() == list(at)
    for name in ("previous_over_typical", "premature", "premature_unlike", "next_over_previous"):
        assert found[150, AT[name]] == 0
    assert found[149, AT["next_over_sinus"]] == found[149, AT["next_over_previous"]] == 0
    assert np.abs(found[:, AT["previous_over_typical"]]).max() < 0.5


def test_a_premature_atrial_beat_is_told_from_a_ventricular_one() -> None:
    symbols, before = list("N" * 400), np.full(400, 0.8)
    for at, symbol in ((200, "A"), (250, "V")):
        symbols[at], before[at], before[at + 1] = symbol, 0.5, 1.0
    before[0] = np.nan
    found = features("".join(symbols), before)
    normal = np.delete(found, [200, 250], axis=0)
    assert found[200, AT["premature"]] < -1
    assert found[200, AT["premature_without_p"]] < -1
    assert found[200, AT["p_lost"]] > 0.5
    assert np.abs(found[200, AT["premature_unlike"]]) < 0.3
    assert found[250, AT["premature"]] == 0
    assert found[250, AT["premature_unlike"]] < -1
    assert found[250, AT["width"]] > 1
    for name in ("premature", "premature_without_p", "premature_unlike"):
        assert np.abs(normal[:, AT[name]]).max() < 0.2


@pytest.mark.parametrize(
    ("pattern", "sinus_s", "early_s"), [("NAAA", 2.0, 0.8), ("NA", 1.2, 0.65), ("NAAAAAA", 1.4, 0.7)]
)
def test_where_most_beats_are_premature_the_sinus_is_still_known(pattern: str, sinus_s: float, early_s: float) -> None:
    """As in MIT-BIH record 232: most beats are atrial, and the median is theirs; or every second one is early."""
    symbols = pattern * 100
    rng = np.random.default_rng(7)
    before = np.where(np.array(list(symbols)) == "N", sinus_s, early_s) * np.exp(
        0.02 * rng.standard_normal(len(symbols))
    )
    before[0] = np.nan
    found = features(symbols, before)[100:]
    normal = np.array(list(symbols[100:])) == "N"
    assert found[~normal, AT["premature"]].max() < -1
    assert found[~normal, AT["premature_without_p"]].max() < -1
    assert found[normal, AT["premature"]].min() > -0.2
    assert found[normal, AT["p_lost"]].max() < 0.3


def test_pauses_after_ventricular_beats_are_not_the_sinus_interval() -> None:
    """Trigeminy: every third interval is a compensatory pause, and no normal beat is premature for it."""
    symbols = "NNV" * 150
    before = np.tile([1.1, 0.8, 0.5], 150)
    before[0] = np.nan
    found = features(symbols, before)[50:]
    beat = np.array(list(symbols[50:]))
    assert np.abs(found[beat == "N", AT["premature"]]).max() < 0.1
    assert found[beat == "V", AT["premature_unlike"]].max() < -1


def test_in_atrial_fibrillation_nothing_is_premature_and_no_p_wave_is_lost() -> None:
    rng = np.random.default_rng(5)
    before = rng.uniform(0.45, 1.1, 500)
    before[0] = np.nan
    flat = NORMAL - wave(-0.16, 0.02, 0.15)
    window = (flat + 0.05 * rng.standard_normal((500, 256))).astype(np.float32)[:, None]
    found = context_features(np.append(before, np.nan), window, np.ones(500, bool))[100:]
    assert np.abs(found[:, AT["premature"]]).max() < 1
    assert np.abs(found[:, AT["premature"]]).mean() < 0.3
    assert found[:, AT["p_lost"]].max() < 0.4
    assert found[:, AT["irregular"]].min() > 0


def strips(symbols: str, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return windows (beats, 1, 256) mV, and what lies beside them (beats, 80)."""
    rng = np.random.default_rng(seed)
    beside = rng.standard_normal((3, sum(BESIDE)))[["NAV".index(symbol) for symbol in symbols]]
    return windows(symbols, 0.05, seed), (beside + 0.05 * rng.standard_normal(beside.shape)).astype(np.float32)


def version_3(symbols: str, usable: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    window_mv, beside_mv = strips(symbols)
    usable = np.ones(len(symbols), bool) if usable is None else usable
    return context_features(np.full(len(symbols) + 1, 0.8), window_mv, usable, 3, beside_mv)


def test_the_net_knows_where_the_features_lie() -> None:
    assert len(strip.FEATURES) == len(set(strip.FEATURES)) == RR_COUNT[3]
    assert len(FEATURES) == context_net.CONTEXT
    assert strip.FEATURES[context_net.CONTEXT] == "typical_mv"
    assert strip.FEATURES[context_net.BESIDE] == "beside_0"
    assert strip.FEATURES[context_net.DIFFERENCE] == "difference_0"
    assert (context_net.BEFORE, context_net.AFTER) == BESIDE
    assert context_net.STRIP == strip.SAMPLES == strip.WINDOW + sum(BESIDE)
    assert STRIP_SAMPLES == STRIP_STEP * strip.SAMPLES


@pytest.mark.parametrize("beats", [0, 1, 2, 9, 40])
def test_short_recordings_have_finite_features(beats: int) -> None:
    found = version_3("N" * beats)
    assert found.shape == (beats, len(strip.FEATURES))
    assert np.isfinite(found).all()
    if beats in (1, 2):  # not three beats, so no median strip
        assert not found[:, DIFFERENCE].any()
        own = np.sqrt(((NORMAL - np.median(NORMAL))[75:136] ** 2).mean())
        np.testing.assert_allclose(found[:, AT_3["typical_mv"]], own, rtol=0.2)


def test_the_median_strip_is_that_of_the_usable_beats_of_eight_blocks() -> None:
    """Beat 203 lies in block 25 (beats 200 to 207): blocks 21 to 28 decide, beats 168 to 231."""
    rng = np.random.default_rng(8)
    symbols = "".join(rng.choice(["N", "A", "V"], 300, p=[0.6, 0.1, 0.3]))
    usable = rng.random(300) < 0.8
    found = version_3(symbols, usable)
    window, beside = strips(symbols)
    middle = window.reshape(300, 64, 4).astype(np.float64).mean(axis=2)
    whole = np.concatenate([beside[:, : BESIDE[0]], middle, beside[:, BESIDE[0] :]], axis=1).astype(np.float64)
    qrs = window[:, 0].astype(np.float64) - np.median(window[:, 0].astype(np.float64), axis=1, keepdims=True)
    size = np.sqrt((qrs[:, 75:136] ** 2).mean(axis=1))
    for beat, near in ((203, slice(168, 232)), (5, slice(0, 32)), (299, slice(264, 300))):
        typical = np.median(size[near][usable[near]])
        assert found[beat, AT_3["typical_mv"]] == pytest.approx(typical, rel=1e-6)
        np.testing.assert_allclose(found[beat, BESIDE_AT], beside[beat] / typical, atol=1e-5)
        difference = whole[beat] - np.median(whole[near][usable[near]], axis=0)
        np.testing.assert_allclose(found[beat, DIFFERENCE], difference / typical, atol=1e-5)
    assert np.abs(found[:, DIFFERENCE]).max() > 2
    window[:] *= 1e-4  # no QRS: the size counts as 0.02 mV, and strips as no more than twice the limit
    flat = context_features(np.full(301, 0.8), window, usable, 3, 100 * beside)
    np.testing.assert_allclose(flat[:, AT_3["typical_mv"]], 0.02)
    assert np.abs(flat[:, AT_3["typical_mv"] + 1 :]).max() == 2 * LIMIT


def test_version_3_begins_with_version_2_and_unusable_beats_alone_have_no_median() -> None:
    before, window, usable = random_recording(300)
    usable[100:200] = False
    beside = strips("N" * 300)[1]
    found = context_features(np.append(before, np.nan), window, usable, 3, beside)
    own = context_features(np.append(before, np.nan), window, usable, 2)
    np.testing.assert_array_equal(found[:, : len(FEATURES)], own)
    void = np.flatnonzero(~found[:, DIFFERENCE].any(axis=1))
    assert void.tolist() == list(range(136, 176))  # blocks 17 to 21: of blocks 13 to 24 or fewer no beat is usable


@pytest.mark.parametrize("beats", [None, 0])
def test_a_stream_without_beats_in_a_step_gives_the_same(beats: int | None) -> None:
    window, beside = strips("NNAV" * 20)
    stream, none = ContextStream(3), np.empty(0)
    parts = [stream.push(none, window[:0], np.empty(0, bool), None if beats is None else beside[:0])]
    for at in range(0, 80, 20):
        rows = slice(at, at + 20)
        parts.append(stream.push(np.full(20, 0.8), window[rows], np.ones(20, bool), beside[rows]))
        parts.append(stream.push(none, window[:0], np.empty(0, bool), None if beats is None else beside[:0]))
    parts.append(stream.finish())
    np.testing.assert_array_equal(np.concatenate(parts), version_3("NNAV" * 20))


def test_early_features_are_those_of_a_recording_that_ends_with_the_next_peak() -> None:
    """Of the beat before the end all but what lies beside the next beat's window is known."""
    before, window, usable = random_recording(200)
    beside = strips("N" * 200)[1]
    early = provisional_features(before, window[:-1], usable[:-1], 3, beside[:-1])
    unknown = usable.copy()
    unknown[-1] = False
    whole = context_features(np.append(before, np.nan), window, unknown, 3, beside)
    np.testing.assert_array_equal(early, whole[:-1])
