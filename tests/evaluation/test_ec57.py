"""EC57 scores by hand, and the published counts of MIT-BIH; the matching itself: ``test_ec57_pairs.py``."""

from pathlib import Path

import numpy as np
import pytest

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


def test_vf_before_5_00_does_not_count_and_without_an_end_lasts_to_the_records() -> None:
    reference = marks((-7200, "["), (-3600, "]"), (-360, "["), (720, "]"), (3600, "["))
    found = compare(reference, marks((-7200, "["), (-3600, "]")), FS_HZ, samples=START + 7200).flutter
    assert (found.episodes, found.detected, found.called, found.duration_s) == (2, 0, 0, 2.0 + 10.0)
    assert found.scores["vf_episode_ppv"].percent is None


def rhythm_changes(*pairs: tuple[float, str]) -> Annotation:
    """Rhythm changes by (seconds after 5:00, note), between two beats."""
    at = np.array([START - 100_000, *(START + round(second * FS_HZ) for second, _ in pairs), START + 180_000])
    return Annotation(at, np.array(["N", *"+" * len(pairs), "N"]), ("", *(note for _, note in pairs), ""))


def test_atrial_fibrillation_by_episode_and_duration() -> None:
    """EC57's rules as epicmp has them: by hand, 500 s; flutter of the reference is no error, before 5:00 nothing."""
    reference = rhythm_changes((-60, "(AFIB"), (20, "(N"), (100, "(AFIB"), (150, "(AFL"), (200, "(N"), (400, "(AFIB\0"))
    test = rhythm_changes((-200, "(AFIB"), (-100, "(N"), (120, "(AFIB"), (210, "(U"), (300, "(AFIB"), (330, "(N"))
    scores = compare(reference, test, FS_HZ, samples=START + round(500 * FS_HZ)).fibrillation.as_json()
    assert scores["af_episode_se"] == {"percent": 33.3333, "part": 1, "whole": 3}  # of 0-20, 100-150, 400-500
    assert scores["af_episode_ppv"] == {"percent": 50.0, "part": 1, "whole": 2}  # of 120-210, 300-330
    assert scores["af_duration_se"] == {"percent": 17.6471, "part": 30.0, "whole": 170.0}
    assert scores["af_duration_ppv"] == {"percent": 42.8571, "part": 30.0, "whole": 70.0}  # 120-150, 200-210, 300-330


def test_fibrillation_called_in_flutter_alone_is_no_episode() -> None:
    reference = rhythm_changes((100, "(AFL"), (200, "(N"))
    scores = compare(reference, rhythm_changes((120, "(AFIB"), (160, "(N")), FS_HZ).fibrillation
    assert (scores.called, scores.called_s, scores.episodes) == (0, 0.0, 0)


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


def test_with_start_0_every_beat_counts() -> None:
    reference = marks((-START + 20, "N"), (-1000, "V"), (50, "N"))
    assert counted(reference, reference, start_s=0.0) == {"Nn": 2, "Vv": 1}


@pytest.mark.parametrize(("mapping", "j", "n"), [("aami5", "N", "N"), ("aami5-bxb", "S", "S")])
def test_where_the_escape_beats_go(mapping: str, j: str, n: str) -> None:
    symbols, classes = "jenJaASLRBrEVF/fQ?", (j, j, n, *"SSSSNNNVVVFQQQQ")
    for symbol, expected in zip(symbols, classes, strict=True):
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
