"""EC57 comparison against cases worked by hand, wfdb's own comparison, and the published counts of MIT-BIH."""

from pathlib import Path

import numpy as np
import pytest
from wfdb.processing import compare_annotations

from ecgfed.core.evaluation.ec57 import CLASSES, MAPPINGS, BeatComparison, aggregate, compare
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_files import read_annotation

FS_HZ = 360.0
START = 300 * 360


def marks(*pairs: tuple[int, str], subtype: dict[int, int] | None = None) -> Annotation:
    """Marks by (samples after 5:00, symbol)."""
    sample = np.array([START + at for at, _ in pairs], dtype=np.int64)
    subtypes = np.array([(subtype or {}).get(at, 0) for at, _ in pairs], dtype=np.int64)
    return Annotation(sample, np.array([symbol for _, symbol in pairs], dtype=np.str_), subtype=subtypes)


def counted(reference: Annotation, test: Annotation, **options: object) -> dict[str, int]:
    """The cells of the confusion matrix that are not 0, as bxb names them: ``Nn``, ``Vo``, ``On``."""
    found = compare(reference, test, FS_HZ, samples=START + 100_000, **options)  # type: ignore[arg-type]
    cells = {f"{CLASSES[i]}{CLASSES[j].lower()}": int(found.counts[i, j]) for i, j in np.argwhere(found.counts)}
    assert sum(cells.values()) == found.counts.sum()
    return cells


def test_matched_missed_extra_and_mislabelled_beats() -> None:
    reference = marks((100, "N"), (400, "V"), (700, "A"), (1000, "F"), (1300, "N"))
    test = marks((102, "N"), (395, "V"), (701, "N"), (1000, "V"), (1600, "V"))
    assert counted(reference, test) == {"Nn": 1, "Vv": 1, "Sn": 1, "Fv": 1, "No": 1, "Ov": 1}


@pytest.mark.parametrize(("distance", "paired"), [(54, True), (-54, True), (55, False), (-55, False)])
def test_the_match_window_is_150_ms_both_ways_inclusive(distance: int, paired: bool) -> None:
    found = counted(marks((1000, "N")), marks((1000 + distance, "N")))
    assert found == ({"Nn": 1} if paired else {"No": 1, "On": 1})


def test_of_two_test_beats_the_nearer_one_is_paired() -> None:
    assert counted(marks((1000, "N")), marks((960, "V"), (1010, "N"))) == {"Ov": 1, "Nn": 1}
    assert counted(marks((1000, "N")), marks((990, "V"), (1040, "N"))) == {"Nv": 1, "On": 1}


def test_of_two_reference_beats_the_nearer_one_is_paired() -> None:
    assert counted(marks((960, "V"), (1010, "N")), marks((1000, "N"))) == {"Vo": 1, "Nn": 1}


def test_equally_near_neighbours_are_not_paired_with_the_first() -> None:
    """Bxb asks for a strictly better match than the next one."""
    assert counted(marks((1000, "N")), marks((980, "V"), (1020, "N"))) == {"Ov": 1, "Nn": 1}


def test_the_window_is_rounded_to_samples_not_truncated() -> None:
    """0.15 s are 37.5 samples at 250 Hz: a beat 38 away is a match, one 39 away is none."""
    at = 300 * 250 + 1000
    for distance, paired in ((38, 1), (39, 0)):
        reference = Annotation(np.array([at]), np.array(["N"]))
        test = Annotation(np.array([at + distance]), np.array(["N"]))
        assert compare(reference, test, 250.0, samples=at + 500).counts[0, 0] == paired


def test_a_rival_that_belongs_to_a_nearer_beat_is_none() -> None:
    """The case of James Pardey in bxb.c: above 200/min, two rivals as near, one with a nearer partner.

    At 250 Hz, window 38: 32 samples from the first reference beat to the first test beat, 32 on to the second
    reference beat, which has a test beat at 25.
    """

    def counts(*test: int) -> object:
        theirs, ours = (Annotation(75_000 + np.array(at), np.full(len(at), "N")) for at in ([196, 260], test))
        return compare(theirs, ours, 250.0, samples=80_000).counts[[0, 5]][:, [0, 5]].tolist()

    assert counts(228, 285) == [[2, 0], [0, 0]]
    assert counts(228) == [[1, 1], [0, 0]]  # without it the first is missed, the second paired
    assert counts(228, 292) == [[1, 1], [1, 0]]  # as far as the other: the rival stays one


def test_a_flutter_wave_outside_flutter_is_a_qrs_of_no_class() -> None:
    assert counted(marks((100, "!"), (500, "N")), marks((100, "V"), (500, "!"))) == {"Ov": 1, "No": 1}
    assert counted(marks((100, "!"), (500, "N")), marks((500, "N"))) == {"Nn": 1}
    assert counted(marks((100, "["), (300, "!"), (400, "]"), (500, "N")), marks((500, "N"))) == {"Nn": 1}


def test_vf_by_episodes_and_by_duration() -> None:
    """Reference 10 s and 20 s, test 4 s into the first and 6 s of nothing; at 360 Hz."""
    reference = marks((3600, "["), (7200, "]"), (18000, "["), (25200, "]"))
    test = marks((5760, "["), (9000, "]"), (36000, "["), (38160, "]"))
    found = compare(reference, test, FS_HZ, samples=START + 50_000).flutter
    assert (found.detected, found.episodes, found.right, found.called) == (1, 2, 1, 2)
    assert (found.shared_s, found.duration_s, found.called_s) == (4.0, 30.0, 15.0)
    assert found.scores["vf_duration_se"].percent == pytest.approx(100 * 4 / 30)
    assert found.scores["vf_duration_ppv"].percent == pytest.approx(100 * 4 / 15)


def test_vf_before_5_00_does_not_count_and_without_an_end_lasts_to_the_records() -> None:
    reference = marks((-7200, "["), (-3600, "]"), (-360, "["), (720, "]"), (3600, "["))
    found = compare(reference, marks((-7200, "["), (-3600, "]")), FS_HZ, samples=START + 7200).flutter
    assert (found.episodes, found.detected, found.called, found.duration_s) == (2, 0, 0, 2.0 + 10.0)
    assert found.scores["vf_episode_ppv"].percent is None


def test_what_was_missed_in_shutdown() -> None:
    reference = marks((100, "N"), (600, "V"), (700, "N"), (1800, "N"))
    test = marks((100, "N"), (500, "~"), (1500, "~"), subtype={500: 0x30, 1500: 0})
    found = compare(reference, test, FS_HZ, samples=START + 5000)
    told = {name: (share.part, share.total) for name, share in found.missed_in_shutdown.items()}
    assert told == {"all": (2, 4), "N": (1, 3), "S": (0, 0), "V": (1, 1), "F": (0, 0)}
    assert found.as_json()["missed_in_shutdown"]["all"] == {"percent": 50.0, "part": 2, "whole": 4}


def test_comparisons_of_two_mappings_are_not_summed() -> None:
    ones = [compare(marks((100, "j")), marks((100, "j")), FS_HZ, mapping=mapping) for mapping in MAPPINGS]
    assert [one.as_json()["mapping"] for one in ones] == ["aami5", "aami5-bxb"]
    with pytest.raises(ValueError, match="several mappings: aami5, aami5-bxb"):
        aggregate(ones)


def test_the_learning_period_does_not_count_but_a_beat_just_before_its_end_may_match_one_after() -> None:
    assert counted(marks((-500, "V"), (10, "N")), marks((-500, "N"), (-5, "N"), (300, "N"))) == {"Nn": 1, "On": 1}
    # an extra beat within 150 ms after the start, the next one being nearer, is not held against the detector
    assert counted(marks((30, "N")), marks((2, "V"), (28, "N"))) == {"Nn": 1}
    assert counted(marks((400, "N")), marks((100, "V"), (400, "N"))) == {"Ov": 1, "Nn": 1}


def test_with_start_0_every_beat_counts() -> None:
    reference = marks((-START + 20, "N"), (-1000, "V"), (50, "N"))
    assert counted(reference, reference, start_s=0.0) == {"Nn": 2, "Vv": 1}


def test_flutter_of_the_reference_is_left_out() -> None:
    reference = marks((100, "N"), (500, "["), (700, "V"), (900, "!"), (1500, "]"), (1800, "N"))
    test = marks((100, "N"), (500, "V"), (700, "N"), (1400, "V"), (1500, "N"), (1600, "V"), (1800, "N"))
    assert counted(reference, test) == {"Nn": 2, "Ov": 1}


def test_flutter_without_an_end_lasts_to_the_end() -> None:
    assert counted(marks((100, "N"), (500, "["), (700, "V")), marks((100, "N"), (9000, "V"))) == {"Nn": 1}


def test_flutter_of_the_test_hides_its_own_beats_only() -> None:
    reference = marks((100, "N"), (700, "V"), (1800, "N"))
    assert counted(reference, marks((100, "N"), (500, "["), (700, "V"), (900, "]"), (1800, "N"))) == {"Nn": 2, "Vo": 1}


def test_shutdown_is_x_and_counts_like_o() -> None:
    noise = {500: 0x30, 1500: 0}
    reference = marks((100, "N"), (500, "~"), (1500, "~"), (1800, "N"), subtype=noise)
    test = marks((100, "N"), (1000, "V"), (1800, "N"))
    assert counted(reference, test) == {"Nn": 2, "Xv": 1}
    down = compare(test, reference, FS_HZ, samples=START + 100_000)
    assert down.counts[CLASSES.index("V"), CLASSES.index("X")] == 1
    assert down.shutdown_s == pytest.approx(1000 / 360)
    assert down.scores["qrs_se"].percent == pytest.approx(200 / 3)
    # one bad lead of two is no shutdown
    assert counted(marks((100, "N"), (500, "~"), subtype={500: 0x10}), test)["Ov"] == 1


def test_a_shutdown_before_the_start_has_its_seconds_and_no_beats() -> None:
    """As ``bxb``, which adds up the seconds as it reads, and looks for a start in the pairing alone."""
    noise = {-20_000: 0x30, -16_400: 0}
    test = marks((-20_000, "~"), (-16_400, "~"), (100, "N"), (1800, "N"), subtype=noise)
    found = compare(marks((-18_000, "N"), (100, "N"), (1800, "N")), test, FS_HZ, samples=START + 100_000)
    assert found.shutdown_s == pytest.approx(10)
    share = found.missed_in_shutdown["all"]
    assert (share.part, share.total) == (0, 2)


def test_a_single_shutdown_mark_as_in_the_aha_database() -> None:
    """From 150 ms after the beat before it to 150 ms before the mark after it."""
    reference = marks((100, "N"), (1000, "~"), (2000, "N"), subtype={1000: 0x30})
    assert counted(reference, marks((100, "N"), (155, "V"), (2000, "N"))) == {"Nn": 2, "Xv": 1}
    assert counted(reference, marks((100, "N"), (1947, "V"), (2000, "N"))) == {"Nn": 2, "Ov": 1}


@pytest.mark.parametrize(("mapping", "j", "n"), [("aami5", "N", "N"), ("aami5-bxb", "S", "S")])
def test_where_the_escape_beats_go(mapping: str, j: str, n: str) -> None:
    for symbol, expected in {
        "j": j,
        "e": j,
        "n": n,
        "J": "S",
        "a": "S",
        "A": "S",
        "S": "S",
        "L": "N",
        "R": "N",
        "B": "N",
        "r": "V",
        "E": "V",
        "V": "V",
        "F": "F",
        "/": "Q",
        "f": "Q",
        "Q": "Q",
        "?": "Q",
    }.items():
        cells = counted(marks((100, symbol)), marks((100, "N")), mapping=mapping)
        assert cells == {f"{expected}n": 1}, symbol
    assert not {"+", "~", "|", '"', "x", "!", "[", "]"} & set(MAPPINGS[mapping])


def test_an_unknown_mapping_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of aami5, aami5-bxb"):
        compare(marks(), marks(), FS_HZ, mapping="aami4")


def filled() -> BeatComparison:
    """Each cell another number, so that no two sums agree by chance."""
    counts = (2 ** np.arange(49, dtype=np.int64)).reshape(7, 7)
    counts[5:, 5:] = 0
    return BeatComparison("r", counts)


def test_the_scores_count_the_cells_that_bxb_counts() -> None:
    """Cell by cell, from the rules in bxb(1): which of the 45 cells are in each numerator and denominator."""
    found, counts = filled(), filled().counts

    def cells(text: str) -> int:
        return sum(int(counts[CLASSES.index(c[0]), CLASSES.index(c[1].upper())]) for c in text.split())

    qrs = "Nn Ns Nv Nf Nq Sn Ss Sv Sf Sq Vn Vs Vv Vf Vq Fn Fs Fv Ff Fq Qn Qs Qv Qf Qq"
    scores = found.scores
    assert scores["qrs_se"].part == cells(qrs)
    assert scores["qrs_se"].total == cells(qrs + " No So Vo Fo Qo Nx Sx Vx Fx Qx")
    assert scores["qrs_ppv"].total == cells(qrs + " On Os Ov Of Oq Xn Xs Xv Xf Xq")
    assert scores["veb_se"].part == scores["veb_ppv"].part == cells("Vv")
    assert scores["veb_se"].total == cells("Vn Vs Vv Vf Vq Vo Vx")
    assert scores["veb_ppv"].total == cells("Vv Nv Sv Ov Xv")  # F and Q called V are no false VEBs
    assert scores["veb_fpr"].part == cells("Nv Sv Ov Xv")
    true_negative = "Nn Ns Nf Nq Sn Ss Sf Sq Fn Fs Ff Fq Qn Qs Qf Qq On Os Of Oq Xn Xs Xf Xq"
    assert scores["veb_fpr"].total == cells("Nv Sv Ov Xv " + true_negative)
    assert scores["sveb_se"].total == cells("Sn Ss Sv Sf Sq So Sx")
    assert scores["sveb_ppv"].total == cells("Ss Ns Vs Fs Os Xs")  # Q called S is no false SVEB


def test_gross_sums_counts_and_average_means_the_records_that_have_the_score() -> None:
    one = compare(marks((100, "N"), (400, "V")), marks((100, "N"), (400, "V")), FS_HZ, samples=START + 5000)
    two = compare(marks(*((300 * i, "N") for i in range(1, 5))), marks((300, "N")), FS_HZ, samples=START + 5000)
    both = aggregate([one, two])
    assert both.gross.scores["qrs_se"].percent == pytest.approx(100 * 3 / 6)
    assert both.average["qrs_se"] == pytest.approx((100 + 25) / 2)
    assert both.average["veb_se"] == 100.0  # the second record has no VEB
    assert both.average["sveb_se"] is None
    with pytest.raises(ValueError, match="no comparison"):
        aggregate([])


def test_offsets_f1_and_rr_error() -> None:
    reference = marks((100, "N"), (460, "N"), (820, "N"), (1180, "N"))
    test = marks((118, "N"), (460, "N"), (820, "N"), (1180, "N"))
    found = compare(reference, test, FS_HZ, samples=START + 5000)
    np.testing.assert_allclose(found.offset_ms, [50, 0, 0, 0])
    np.testing.assert_allclose(found.rr_error_ms, [50, 0, 0])  # intervals 1000 and 950 ms
    assert found.rr_rms_ms == pytest.approx(50 / np.sqrt(3))
    assert found.qrs_f1 == 100.0
    half = compare(reference, marks((100, "N"), (460, "N"), (2000, "N")), FS_HZ, samples=START + 5000)
    assert half.qrs_f1 == pytest.approx(200 * 2 / (4 + 3))  # Se 2/4, +P 2/3


def test_empty_files() -> None:
    nothing = compare(marks(), marks(), FS_HZ, samples=START + 5000)
    assert nothing.counts.sum() == 0
    assert nothing.qrs_f1 is None
    assert nothing.as_json()["scores"]["qrs_se"]["percent"] is None
    assert counted(marks((100, "N")), marks()) == {"No": 1}
    assert counted(marks(), marks((100, "N"))) == {"On": 1}


@pytest.mark.parametrize("seed", range(5))
def test_beats_far_apart_agree_with_wfdbs_own_comparison(seed: int) -> None:
    rng = np.random.default_rng(seed)
    beats = START + 200 + np.cumsum(rng.integers(150, 500, 400))
    shown = beats[rng.random(400) > 0.05]
    test = np.unique(np.concatenate([shown + rng.integers(-50, 51, len(shown)), beats[:40] + 100 + 90 * (seed % 2)]))
    theirs = compare_annotations(beats, test, 54)
    ours = compare(
        Annotation(beats, np.full(len(beats), "N")), Annotation(test, np.full(len(test), "N")), FS_HZ, samples=10**6
    )
    assert ours.counts[0, 0] == pytest.approx(theirs.tp, abs=2)  # wfdb's pairing is greedy where beats crowd
    assert ours.counts[0].sum() == len(beats)
    assert ours.counts[:, 0].sum() == len(test)


@pytest.mark.mitdb
def test_the_counts_of_mitbih_from_5_00_on(mitdb: Path) -> None:
    """The whole database against itself: 91,285 beats outside flutter; all 48 records."""
    compared = []
    for header in sorted(mitdb.glob("[12]??.hea")):
        annotation = read_annotation(header)
        compared.append(compare(annotation, annotation, FS_HZ, samples=650_000, record=header.stem))
    gross = aggregate(compared).gross
    assert len(compared) == 48
    assert gross.scores["qrs_se"].total == 91_285
    assert (gross.counts == np.diag(np.diag(gross.counts))).all()
    assert not gross.offset_ms.any()
    assert (gross.rr_rms_ms, gross.qrs_f1) == (0.0, 100.0)
    assert gross.counts[5:].sum() == 0
