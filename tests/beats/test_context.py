"""RR features of versions 2 and 3: against counted references, whatever the cut, and on rhythms made by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.core.nets import context_net
from ecgfed.core.nets.net import RR_COUNT
from ecgfed.domain.beats import neighbours
from ecgfed.domain.beats.context import FEATURES, HISTORY, LIMIT, LOOK_AHEAD
from ecgfed.domain.beats.context_stream import ContextStream, context_features
from ecgfed.domain.beats.neighbours import ALIKE, INTERVALS, NEIGHBOURS, REFERENCE_SAMPLES
from ecgfed.domain.beats.patient_beat import BLOCK, LOG_UNIT

Floats = NDArray[np.float64]
AT = {name: i for i, name in enumerate(FEATURES)}
AT_3 = {name: i for i, name in enumerate(neighbours.FEATURES)}
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


@pytest.mark.parametrize(("piece", "version"), [(13, 2), (97, 2), (1000, 2), (97, 3)])
def test_a_stream_gives_the_same_bits_as_the_whole(piece: int, version: int) -> None:
    history, look_ahead = {2: (HISTORY, LOOK_AHEAD), 3: (neighbours.HISTORY, neighbours.LOOK_AHEAD)}[version]
    before, window, usable = random_recording(1601)
    whole = context_features(np.append(before, np.nan), window, usable, version)
    stream, parts = ContextStream(version), []
    for at in range(0, len(before), piece):
        parts.append(stream.push(before[at : at + piece], window[at : at + piece], usable[at : at + piece]))
        given = sum(map(len, parts))
        assert min(at + piece, 1601) - given <= look_ahead + 8
        assert len(stream._held.before_s) <= history + look_ahead + piece + 8
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


def version_3(symbols: str, before_s: Floats) -> NDArray[np.float32]:
    return context_features(np.append(before_s, np.nan), windows(symbols), np.ones(len(symbols), bool), 3)


def test_the_net_knows_where_the_features_lie() -> None:
    assert len(neighbours.FEATURES) == len(set(neighbours.FEATURES)) == RR_COUNT[3]
    assert len(neighbours.RHYTHM) == context_net.RHYTHM
    net_columns = (
        context_net.OWN + context_net.RHYTHM + context_net.NEIGHBOURS * context_net.OWN + context_net.INTERVALS
    )
    assert neighbours.FEATURES[net_columns] == "reference_mv"
    assert len(neighbours.FEATURES) == net_columns + 1 + context_net.REFERENCE


@pytest.mark.parametrize("beats", [0, 1, 2, 9, 40])
def test_short_recordings_have_finite_features(beats: int) -> None:
    features = version_3("N" * beats, np.concatenate([[np.nan], np.full(max(0, beats - 1), 0.8)])[:beats])
    assert features.shape == (beats, len(neighbours.FEATURES))
    assert np.isfinite(features).all()


def test_neighbours_and_intervals_are_those_of_the_beats_around() -> None:
    before, window, usable = random_recording(300)
    features = context_features(np.append(before, np.nan), window, usable, 3)
    own = context_features(np.append(before, np.nan), window, usable, 2)
    np.testing.assert_array_equal(features[:, : len(FEATURES)], own)
    for by in (-NEIGHBOURS, -1, 1, NEIGHBOURS):
        first = AT_3[f"{FEATURES[0]}_{by:+d}"]
        np.testing.assert_array_equal(features[20:280, first : first + own.shape[1]], own[20 + by : 280 + by])
    for by in (-INTERVALS, 0, INTERVALS):
        void = features[20:280, AT_3[f"void_interval_{by:+d}"]]
        np.testing.assert_array_equal(void == 1, np.isnan(before[20 + by : 280 + by]))
    assert not features[0, AT_3["interval_-1"]]  # nothing lies before the first beat


def test_the_most_frequent_interval_is_counted() -> None:
    rng = np.random.default_rng(5)
    before = np.where(rng.random(400) < 0.35, 0.5, 0.8) * np.exp(0.005 * rng.standard_normal(400))
    features = version_3("N" * 400, before)
    for beat in (100, 203, 330):
        first = beat // BLOCK * BLOCK - neighbours.RHYTHM_BACK * BLOCK
        around = np.log(before[first : first + (neighbours.RHYTHM_BACK + 1 + neighbours.RHYTHM_AHEAD) * BLOCK])
        agree = [(np.abs(around - value) <= ALIKE).sum() for value in around]
        mode = np.median(around[np.array(agree) == max(agree)])
        assert features[beat, AT_3["agreeing_all"]] == pytest.approx(4 * max(agree) / 64 - 2, abs=1e-5)
        assert features[beat, AT_3["previous_over_mode"]] == pytest.approx(
            (np.log(before[beat]) - mode) / LOG_UNIT, abs=1e-4
        )
        own = (np.abs(around - np.log(before[beat])) <= ALIKE).sum()
        assert features[beat, AT_3["agreeing_with_own"]] == pytest.approx(4 * own / 64 - 1.2, abs=1e-5)
        change = np.abs(np.diff(np.log(before[first - 1 : first + 64])))
        expected = np.log(max(np.quantile(change, 0.35), neighbours.LEAST_CHANGE) / ALIKE)
        assert features[beat, AT_3["change_35"]] == pytest.approx(expected, abs=1e-4)


def test_fibrillation_agrees_less_than_bigeminy_and_has_less_p_in_common() -> None:
    rng = np.random.default_rng(6)
    bigeminy = version_3("NA" * 200, np.tile([0.5, 1.0], 200))[100:300]
    irregular = 0.75 * np.exp(0.25 * rng.standard_normal(400))
    fibrillation = version_3("N" * 400, irregular)[100:300]
    assert bigeminy[:, AT_3["agreeing_all"]].min() > fibrillation[:, AT_3["agreeing_all"]].max()
    assert bigeminy[:, AT_3["nearest_change"]].max() < fibrillation[:, AT_3["nearest_change"]].min()
    window = windows("N" * 400)
    window[:, 0, 10:72] = 0.05 * rng.standard_normal((400, 62))
    noise = context_features(np.append(irregular, np.nan), window, np.ones(400, bool), 3)[100:300]
    assert noise[:, AT_3["p_common"]].max() < fibrillation[:, AT_3["p_common"]].min()


def test_the_patients_own_beat_is_the_mean_after_sinus_intervals() -> None:
    features = version_3("N" * 200, np.full(200, 0.8))[100]
    size = np.sqrt(((NORMAL - np.median(NORMAL))[75:136] ** 2).mean())
    reference = ((NORMAL - np.median(NORMAL)) / size).reshape(REFERENCE_SAMPLES, 4).mean(1)
    assert features[AT_3["reference_mv"]] == pytest.approx(size, rel=0.01)
    np.testing.assert_allclose(features[AT_3["reference_0"] :], reference, atol=0.05)
