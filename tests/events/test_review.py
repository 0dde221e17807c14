"""Which series are certain, what runs go across, what they are called, and which counts are withheld; by hand."""

import dataclasses

import numpy as np
import pytest

from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.ectopy import Ectopy, ectopy
from ecgfed.domain.events.find import find_events
from ecgfed.domain.events.kinds import Kind, kind_of
from ecgfed.domain.events.rules import EventRules
from ecgfed.reports.headline import ectopy_headline

FS = 100.0
CLASSES = ("N", "V", "A", "F")
KINDS = tuple(kind_of(name) for name in CLASSES)
RULES = EventRules()
FAST, SLOW = 0.5, 0.7  # 120 and 86 beats a minute


def beats_of(
    labels: str,
    rr_s: list[float] | float = FAST,
    *,
    sure: float = 0.99,
    unsure: float = 0.5,
    second: str = "N",
    far: tuple[int, ...] = (),
    unusable: tuple[tuple[int, int], ...] = (),
) -> Beats:
    """A model's beats: small letters are of low confidence.

    Probabilities are ``sure`` and ``unsure``; the rest of one goes to ``second``, or to F where the label is that.
    """
    steps = [rr_s] * (len(labels) - 1) if isinstance(rr_s, float) else rr_s
    sample = np.rint((1.0 + np.concatenate([[0.0], np.cumsum(steps)])) * FS).astype(np.int64)
    label = np.array([CLASSES.index(one.upper()) for one in labels], np.int64)
    low = np.array([one.islower() for one in labels])
    probability = np.zeros((len(labels), len(CLASSES)))
    of_label = np.where(low, unsure, sure)
    for at, (number, value) in enumerate(zip(label.tolist(), of_label.tolist(), strict=True)):
        other = CLASSES.index(second) if CLASSES[number] != second else CLASSES.index("F")
        probability[at, number], probability[at, other] = value, 1 - value
    return Beats(
        sample,
        label,
        CLASSES,
        KINDS,
        FS,
        int(sample[-1]) + 100,
        merged(unusable),
        low,
        probability=probability,
        out_of_distribution=np.isin(np.arange(len(labels)), far),
        provisional=True,
    )


def counted(beats: Beats, kind: Kind = Kind.VENTRICULAR, rules: EventRules = RULES) -> Ectopy:
    found = ectopy(beats, kind, rules)
    assert found is not None
    return found


def reviews(beats: Beats, kind: Kind = Kind.VENTRICULAR) -> list[bool]:
    return [run.review for run in counted(beats, kind).runs]


def test_a_run_without_a_low_confidence_beat_is_certain_at_any_rate() -> None:
    assert reviews(beats_of("NVVVN", FAST)) == [False]
    assert reviews(beats_of("NVVVN", SLOW)) == [False]
    assert reviews(beats_of("NAAAN", SLOW), Kind.SUPRA) == [False]


@pytest.mark.parametrize(
    ("labels", "rr_s", "unsure", "far", "review"),
    [
        ("NVVvN", FAST, 0.5, (), True),  # mean of the three (0.99 + 0.99 + 0.5) / 3 = 0.83
        ("NVVvN", FAST, 0.82, (), False),  # 0.933
        ("NVVvN", FAST, 0.80, (), True),  # 0.927
        ("NVVvN", SLOW, 0.82, (), True),  # 86 a minute: too slow for that rule
        ("NVVvN", FAST, 0.82, (1,), False),  # one of three beats unlike training
        ("NVVvN", FAST, 0.82, (1, 2), True),  # two of three
        ("NVVVvvN", FAST, 0.4, (), False),  # three in a row decide
        ("NVvVvVN", FAST, 0.4, (), True),  # no three in a row
        ("NVvVvVN", FAST, 0.80, (), True),  # (0.99 + 0.8 + 0.99) / 3 = 0.927
        ("NVvVvVN", FAST, 0.90, (), False),  # (0.99 + 0.9 + 0.99) / 3 = 0.96
    ],
)
def test_a_fast_ventricular_run_is_certain_by_its_probabilities(
    labels: str, rr_s: float, unsure: float, far: tuple[int, ...], review: bool
) -> None:
    assert reviews(beats_of(labels, rr_s, unsure=unsure, far=far)) == [review]


def test_a_supraventricular_run_with_a_low_confidence_beat_is_reviewed() -> None:
    assert reviews(beats_of("NAAaN", unsure=0.92), Kind.SUPRA) == [True]


def test_couplets_follow_the_same_rule() -> None:
    found = counted(beats_of("NVVNNVvNNVvN", [FAST] * 8 + [0.5, SLOW, 0.5], unsure=0.9))
    assert [one.review for one in found.couplets] == [False, False, True]  # the third is slow
    assert [one.review for one in counted(beats_of("NVvN", unsure=0.6)).couplets] == [True]


def test_labels_of_a_person_need_no_review_and_those_of_a_model_without_confidence_do() -> None:
    plain = beats_of("NVVVN")
    person = Beats(plain.sample, plain.label, CLASSES, KINDS, FS, plain.samples, plain.unusable)
    model = Beats(plain.sample, plain.label, CLASSES, KINDS, FS, plain.samples, plain.unusable, provisional=True)
    assert reviews(person) == [False]
    assert reviews(model) == [True]


def run_lengths(beats: Beats, kind: Kind = Kind.VENTRICULAR) -> list[tuple[int, int]]:
    return [(run.beats, run.bridged) for run in counted(beats, kind).runs]


def test_a_run_goes_across_one_low_confidence_beat_in_its_rhythm() -> None:
    """Intervals of the run 0.50 s; the beat between them is N, surely not V."""
    assert run_lengths(beats_of("NVVVnVVVN", second="F")) == [(7, 1)]
    assert run_lengths(beats_of("NVVVNVVVN")) == [(3, 0), (3, 0)]  # a beat of high confidence parts them
    assert run_lengths(beats_of("NVVVnnVVVN", second="F")) == [(3, 0), (3, 0)]  # and so do two
    assert run_lengths(beats_of("NAAAnAAAN", second="F"), Kind.SUPRA) == [(7, 1)]


def test_two_runs_with_a_pause_or_an_early_beat_between_stay_two() -> None:
    """A beat whose intervals are more than 25% from the run's own 0.5 s ends the run: 0.63 s and 0.36 s do."""
    for before, after, runs in ((0.62, 0.5, 1), (0.64, 0.5, 2), (0.5, 0.64, 2), (0.38, 0.5, 1), (0.36, 0.5, 2)):
        rr_s = [0.5, 0.5, 0.5, before, after, 0.5, 0.5, 0.5]
        assert len(run_lengths(beats_of("NVVVnVVVN", rr_s, second="F"))) == runs, (before, after)


def test_a_beat_that_may_be_of_the_kind_is_bridged_at_any_interval() -> None:
    """Its second choice is V, probability 0.5, or 0.19 where the rule asks for 0.2."""
    rr_s = [0.5, 0.4, 0.7, 0.5]
    assert run_lengths(beats_of("NVnVN", rr_s, second="V")) == [(3, 1)]
    assert run_lengths(beats_of("NVnVN", rr_s, second="V", unsure=0.81)) == []
    found = counted(beats_of("NVnVN", rr_s, second="V"))
    assert (found.total, found.singles, found.runs[0].review) == (2, 0, True)  # bridged beats are in no total


def test_a_couplet_beside_a_beat_that_may_be_ventricular_is_a_run_to_review() -> None:
    """The third beat's second choice is V, probability 0.5; 0.19 is too little, and one such beat is enough."""
    for labels in ("NVVnN", "NnVVN", "NnVVnN"):
        found = counted(beats_of(labels, second="V"))
        assert [(run.beats, run.bridged, run.review) for run in found.runs] == [(3, 1, True)], labels
        assert (found.total, found.couplets) == (2, ())
    assert len(counted(beats_of("NVVnN", second="V", unsure=0.81)).couplets) == 1
    assert run_lengths(beats_of("NVVVnN", second="V")) == [(3, 0)]  # a run is a run without it
    assert run_lengths(beats_of("NAAnN", second="A"), Kind.SUPRA) == []


def test_no_more_than_one_beat_in_three_is_bridged() -> None:
    """Bigeminy whose normal beats might be ectopic stays bigeminy."""
    found = counted(beats_of("NVnVnVnVN", second="V"))
    assert (found.runs, [one.beats for one in found.bigeminy]) == ((), [4])
    assert run_lengths(beats_of("NVVnVVnVVN", second="V")) == [(8, 2)]


def test_a_paced_beat_is_no_bridge_and_its_class_needs_no_probability() -> None:
    """The class of paced beats was added to the model's four, as the report of a partly paced record does."""
    plain = beats_of("NVVVnVVVN", second="V")
    label = np.where(np.arange(9) == 4, len(CLASSES), plain.label)
    paced = dataclasses.replace(plain, label=label, classes=(*CLASSES, "/"), kinds=(*KINDS, kind_of("/")))
    assert run_lengths(plain) == [(7, 1)]
    assert run_lengths(paced) == [(3, 0), (3, 0)]


def test_a_bridge_does_not_cross_an_unusable_stretch() -> None:
    """The stretch between the last V before and the low-confidence beat, at 2.5 and 3.0 s."""
    beats = beats_of("NVVVnVVVN", second="V", unusable=((260, 290),))
    assert run_lengths(beats) == [(3, 0), (3, 0)]


@pytest.mark.parametrize(
    ("labels", "kind", "rr_s", "name"),
    [
        ("NVVVN", Kind.VENTRICULAR, 0.5, "VT"),  # 120 a minute
        ("NVVVN", Kind.VENTRICULAR, 0.6, "slow ventricular run"),  # 100 a minute is not above 100
        ("NVVVN", Kind.VENTRICULAR, 0.59, "VT"),
        ("NAAAAAN", Kind.SUPRA, 0.5, "SVT"),
        ("NAAAAN", Kind.SUPRA, 0.5, "supraventricular run"),  # four beats
        ("NAAAAAAAAN", Kind.SUPRA, 0.86, "supraventricular run"),  # eight beats at 70 a minute
    ],
)
def test_runs_are_named_by_rate_and_length(labels: str, kind: Kind, rr_s: float, name: str) -> None:
    found = counted(beats_of(labels, rr_s), kind)
    assert [run.name for run in found.runs] == [name]
    assert len(found.tachycardias) == int(name in ("VT", "SVT"))


def test_a_count_of_low_confidence_is_withheld() -> None:
    """Eight of ten V of low confidence are 80%, seven 70%: not more than 70%. Four are too few to withhold."""
    kind = Kind.VENTRICULAR
    eight, seven, four = (
        find_events(beats_of(labels)) for labels in ("NVNvN" + "NvN" * 7 + "NV", "NVNVNV" + "NvN" * 7, "NvNvNvNv")
    )
    assert (eight.ventricular, list(eight.withheld), eight.to_review[kind].total) == (None, [kind], 10)
    assert "10" in eight.withheld[kind]
    assert (seven.ventricular.total, seven.ventricular.uncertain, dict(seven.withheld)) == (10, 7, {})
    assert four.ventricular is not None
    assert find_events(beats_of("NVNvN" + "NvN" * 7 + "NV"), EventRules(withheld_percent=80)).ventricular is not None


@pytest.mark.parametrize(("symbols", "assessed"), [("nn", False), ("nnnN", False), ("nnNN", True), ("N", True)])
def test_none_detected_is_not_assessed_where_most_beats_are_of_low_confidence(symbols: str, assessed: bool) -> None:
    """However few there are: more than 70%, counted by hand."""
    found = find_events(beats_of(symbols))
    for kind, counts in found.ectopic.items():
        assert (counts is not None, kind in found.withheld) == (assessed, not assessed)
    assert not found.to_review


@pytest.mark.parametrize(("low", "certain", "withheld"), [(15, 0, True), (14, 0, False), (15, 4, True), (15, 5, False)])
def test_a_low_count_beside_beats_of_low_confidence_is_withheld(low: int, certain: int, withheld: bool) -> None:
    """15 of 20 beats are 75%, 14 are 70%: not more than 70%. Five certain beats are a count."""
    found = find_events(beats_of("n" * low + "A" * certain + "N" * (20 - low - certain)))
    assert (Kind.SUPRA in found.withheld, found.supra is None, Kind.SUPRA in found.to_review) == (
        withheld,
        withheld,
        withheld and certain > 0,
    )


@pytest.mark.parametrize("reason", ["low confidence", "flutter"])
def test_a_run_of_a_withheld_count_is_listed_for_review(reason: str) -> None:
    """Ten beats at 120/min from 11 s on, whatever withholds their count; a paced rhythm's own wide beats are none."""
    kind, given = Kind.VENTRICULAR, {} if reason == "low confidence" else {Kind.VENTRICULAR: "Flutter."}
    beats = beats_of("N" * 20 + "v" * 10 + "N" * 20)
    found = find_events(beats, withheld=given)
    assert found.ventricular is None
    [run] = found.to_review[kind].runs
    assert (run.beats, run.start_s, run.stop_s, run.per_min, run.review) == (10, 11.0, 15.5, 120.0, True)
    assert "longest 10 beats at 120/min, from 0:11.0" in (ectopy_headline(found, kind) or "")
    paced = dataclasses.replace(beats, kinds=(Kind.PACED, *KINDS[1:]))
    assert find_events(paced, withheld={kind: "The rhythm is paced."}).to_review == {}


def test_another_reason_comes_before_low_confidence() -> None:
    found = find_events(beats_of("Nv" * 9), withheld={Kind.VENTRICULAR: "The rhythm is paced."})
    assert found.withheld[Kind.VENTRICULAR] == "The rhythm is paced."


def test_rules_show_what_was_changed() -> None:
    assert repr(EventRules()) == "EventRules()"
    assert repr(EventRules(pause_s=2.0, svt_beats=4)) == "EventRules(pause_s=2.0, svt_beats=4)"
