"""Counts by hand: beats at stated times, with stated labels, and what they add up to."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from ecgfed.base.errors import OptionError
from ecgfed.domain.events.beats import Beats, merged
from ecgfed.domain.events.ectopy import ectopy
from ecgfed.domain.events.find import find_events
from ecgfed.domain.events.hours import busiest, time_bins
from ecgfed.domain.events.kinds import Kind, kind_of, meaning_of, rhythm_name
from ecgfed.domain.events.rhythm import heart_rates, normal_intervals, pauses, variability
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.record.recording import BEAT_SYMBOLS

FS = 100.0
CLASSES = ("N", "V", "A", "F", "/")
KINDS = tuple(kind_of(name) for name in CLASSES)
RULES = EventRules()


def beats_of(
    labels: str, rr_s: list[float] | float = 1.0, *, unusable: tuple[tuple[int, int], ...] = (), last_s: float = 1.0
) -> Beats:
    """Beats of these labels, the first at 1 s, each ``rr_s`` after the one before."""
    steps = [rr_s] * (len(labels) - 1) if isinstance(rr_s, float) else rr_s
    time = 1.0 + np.concatenate([[0.0], np.cumsum(steps)])[: len(labels)]
    sample = np.rint(time * FS).astype(np.int64)
    end = int(sample[-1]) + round(last_s * FS) if len(sample) else 1000
    label = np.array([CLASSES.index(one) for one in labels], np.int64)
    return Beats(sample, label, CLASSES, KINDS, FS, end, merged(unusable))


def test_kinds_of_classes() -> None:
    assert [kind_of(one) for one in ("NLRej", "AaJS", "VE", "F", "/fQ")] == [
        Kind.NORMAL,
        Kind.SUPRA,
        Kind.VENTRICULAR,
        Kind.FUSION,
        Kind.OTHER,
    ]
    assert kind_of("AaJSej") is Kind.SUPRA  # as bxb
    assert kind_of("j") is Kind.OTHER  # an escape beat is no sinus beat
    assert kind_of("/f") is Kind.PACED
    assert kind_of("NV") is Kind.OTHER
    assert kind_of("") is Kind.OTHER
    assert all(meaning_of(symbol) for symbol in BEAT_SYMBOLS)
    assert meaning_of("+") == ""


def test_stretches_are_joined() -> None:
    assert merged([(5, 9), (1, 3), (3, 4), (6, 7), (2, 2)]).tolist() == [[1, 4], [5, 9]]
    assert merged([]).shape == (0, 2)


def test_rates() -> None:
    """Ten intervals of 1 s, ten of 0.5 s: 20 intervals in 15 s."""
    found = heart_rates(beats_of("N" * 21, [1.0] * 10 + [0.5] * 10), RULES)
    assert found.mean == pytest.approx(60 * 20 / 15)
    assert found.intervals == 20
    assert (found.lowest.value, found.lowest.start_s, found.lowest.stop_s) == (pytest.approx(60.0), 1.0, 9.0)
    assert (found.highest.value, found.highest.start_s, found.highest.stop_s) == (pytest.approx(120.0), 11.0, 15.0)
    assert found.slowest_minute is None  # 15 s are fewer than 30
    assert heart_rates(beats_of("N" * 8), RULES).lowest is None  # 7 intervals
    assert heart_rates(beats_of("N" * 9), RULES).lowest is not None


def test_no_lowest_or_highest_rate_goes_across_a_standstill() -> None:
    """Twelve intervals of 1 s and ten of 1.25 s, between them 6 s; with 5.9 s the lowest rate is across them."""
    beats = {at: beats_of("N" * 24, [1.0] * 12 + [at] + [1.25] * 10) for at in (6.0, 5.9)}
    rates = {at: heart_rates(of, RULES) for at, of in beats.items()}
    assert rates[6.0].lowest.value == pytest.approx(48.0)
    assert rates[6.0].mean == pytest.approx(60 * 23 / 30.5)  # all intervals, over the time they last
    assert rates[5.9].lowest.value == pytest.approx(60 * 8 / (7 * 1.25 + 5.9))
    unconfirmed = dataclasses.replace(beats[6.0], confirmed=np.arange(23) != 12)
    assert heart_rates(unconfirmed, RULES).lowest == rates[6.0].lowest
    assert heart_rates(beats_of("N" * 9, [1.0] * 4 + [6.0] + [1.0] * 3), RULES).lowest is None


def test_the_slowest_and_the_fastest_minute() -> None:
    """From 1 s on 59 intervals of 1 s, to 60 s; then 120 of 0.5 s, to 120 s; then 20 of 1 s, to 140 s."""
    found = heart_rates(beats_of("N" * 200, [1.0] * 59 + [0.5] * 120 + [1.0] * 20), RULES)
    # the interval that ends at 60.0 s belongs to the second minute, that at 120.0 to the third, which lasts 20.5 s
    assert (found.slowest_minute.start_s, found.slowest_minute.stop_s) == (0.0, 60.0)
    assert found.slowest_minute.value == pytest.approx(60.0)
    assert found.fastest_minute.start_s == 60.0
    assert found.fastest_minute.value == pytest.approx(60 * (1 + 119) / (1.0 + 59.5))


def test_no_rate_goes_across_an_unusable_stretch() -> None:
    whole = beats_of("N" * 12)
    cut = beats_of("N" * 12, unusable=((650, 660),))  # between the beats at 6 and 7 s
    assert heart_rates(whole, RULES).intervals == 11
    found = heart_rates(cut, RULES)
    assert found.intervals == 10
    assert found.lowest is None  # 5 and 5 in a row
    assert cut.known.tolist() == [True] * 5 + [False] + [True] * 5
    assert cut.assessed.all()
    on_a_beat = beats_of("N" * 12, unusable=((695, 705),))
    assert on_a_beat.known.tolist() == [True] * 5 + [False] * 2 + [True] * 4
    assert on_a_beat.assessed.tolist() == [True] * 6 + [False] + [True] * 5
    edges = beats_of("NNN", unusable=((201, 300),))  # the sample after one beat, up to the sample before the next
    assert edges.known.tolist() == [True, False]
    assert edges.assessed.tolist() == [True, True, True]
    assert edges.usable_s(0.0, 2.5) == pytest.approx(2.01)
    assert edges.usable_s(0.0, 99.0) == pytest.approx(4.0 - 0.99)


def test_pauses() -> None:
    found = pauses(beats_of("NNNNN", [1.0, 3.0, 2.99, 4.0]), RULES)
    assert [(one.value, one.start_s, one.stop_s) for one in found.intervals] == [(3.0, 2.0, 5.0), (4.0, 7.99, 11.99)]
    assert found.longest.value == 4.0
    assert found.not_assessed == 0
    lost = pauses(beats_of("NNNNN", [1.0, 3.0, 2.99, 4.0], unusable=((900, 1000),)), RULES)
    assert len(lost.intervals) == 1
    assert lost.longest.value == 3.0
    assert lost.not_assessed == 1
    short = pauses(beats_of("NNN", 2.0), EventRules(pause_s=2.0))
    assert len(short.intervals) == 2
    assert pauses(beats_of("N"), RULES).longest is None


def test_variability_by_hand() -> None:
    """NN intervals of 800, 900, 1000 ms: mean 900, SDNN 100; differences 100 and 100: RMSSD 100."""
    rules = EventRules(hrv_intervals=3)
    found = variability(beats_of("NNNN", [0.8, 0.9, 1.0]), rules)
    assert (found.intervals, found.seconds) == (3, pytest.approx(2.7))
    assert found.mean_nn_ms == pytest.approx(900)
    assert found.sdnn_ms == pytest.approx(100)
    assert found.rmssd_ms == pytest.approx(100)
    # an ectopic beat takes both its intervals away, and no difference is taken across it
    found = variability(beats_of("NNNVNNN", [0.8, 0.9, 0.4, 1.2, 1.0, 0.7]), rules)
    assert found.intervals == 4
    assert found.mean_nn_ms == pytest.approx(850)
    assert found.rmssd_ms == pytest.approx(np.sqrt((100**2 + 300**2) / 2))
    assert variability(beats_of("NNNN", [0.8, 0.9, 1.0]), RULES).sdnn_ms is None
    assert normal_intervals(beats_of("NNNN", [0.29, 2.01, 2.0]), RULES).tolist() == [False, False, True]
    assert variability(beats_of("/" * 40), RULES).intervals == 0
    half, most = (variability(replace(beats_of("NNNN"), uncertain=np.arange(4) < low), rules) for low in (2, 3))
    assert (half.mean_nn_ms, half.low_confidence) == (pytest.approx(1000), False)
    assert (most.intervals, most.mean_nn_ms, most.sdnn_ms, most.low_confidence) == (3, None, None, True)
    # a ventricular beat of low confidence is at the end of none
    assert not variability(replace(beats_of("NNNNV"), uncertain=np.arange(5) > 1), rules).low_confidence
    apart = variability(beats_of("NNVNNVNN"), rules)
    assert (apart.intervals, apart.sdnn_ms, apart.rmssd_ms) == (3, pytest.approx(0.0), None)


def ventricular(labels: str, rr_s: list[float] | float = 1.0, **more: tuple[tuple[int, int], ...]) -> dict[str, object]:
    found = ectopy(beats_of(labels, rr_s, **more), Kind.VENTRICULAR, RULES)
    return {
        "total": found.total,
        "singles": found.singles,
        "couplets": len(found.couplets),
        "runs": [one.beats for one in found.runs],
        "bigeminy": [one.beats for one in found.bigeminy],
        "trigeminy": [one.beats for one in found.trigeminy],
    }


def expected(total: int, **more: object) -> dict[str, object]:
    return {"total": total, "singles": 0, "couplets": 0, "runs": [], "bigeminy": [], "trigeminy": [], **more}


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("NNN", expected(0)),
        ("NVN", expected(1, singles=1)),
        ("V", expected(1, singles=1)),
        ("NVVNNVN", expected(3, couplets=1, singles=1)),
        ("VVVNVVVVV", expected(8, runs=[3, 5])),
        ("NVNVN", expected(2, singles=2)),  # two cycles are no bigeminy
        ("NVNVNVN", expected(3, bigeminy=[3])),
        ("NVNNVNNVNN", expected(3, trigeminy=[3])),
        ("NVNVNVNNVNNVNNV", expected(6, bigeminy=[3], trigeminy=[3])),
        ("NVNVNVNNVNNV", expected(5, bigeminy=[3], singles=2)),  # bigeminy claims the third before trigeminy
        ("VNVNVVNVNV", expected(6, couplets=1, singles=4)),  # a couplet parts two halves
        ("NVAVAVN", expected(3, singles=3)),  # what stands between is ectopic itself
        ("NVFVFVN", expected(3, bigeminy=[3])),
        ("VVANVAVN", expected(4, couplets=1, singles=2)),
    ],
)
def test_ectopy_by_hand(labels: str, found: dict[str, object]) -> None:
    assert ventricular(labels) == found
    swapped = labels.translate(str.maketrans("VA", "AV"))
    other = ectopy(beats_of(swapped), Kind.SUPRA, RULES)
    assert (other.total, other.singles, len(other.couplets)) == (found["total"], found["singles"], found["couplets"])


def test_an_unusable_stretch_parts_a_run_and_hides_its_beats() -> None:
    labels = "NVVVVVVN"  # beats at 1 to 8 s
    assert ventricular(labels) == expected(6, runs=[6])
    assert ventricular(labels, unusable=((450, 460),)) == expected(6, runs=[3, 3])
    assert ventricular(labels, unusable=((390, 410),)) == expected(5, couplets=1, runs=[3])
    assert ventricular("NVNVNVN", unusable=((450, 460),)) == expected(3, singles=3)


def test_runs_have_a_rate_and_a_place() -> None:
    found = ectopy(beats_of("NVVVNVVVVN", [1.0, 0.5, 0.5, 1.0, 1.0, 0.6, 0.6, 0.9, 1.0]), Kind.VENTRICULAR, RULES)
    assert (found.longest.beats, found.longest.start_s, found.longest.stop_s) == (4, 5.0, pytest.approx(7.1))
    assert found.longest.per_min == pytest.approx(60 * 3 / 2.1)
    assert (found.fastest.first, found.fastest.last, found.fastest.per_min) == (1, 3, pytest.approx(120.0))
    assert found.fast == 1
    assert found.percent == pytest.approx(70.0)
    four = ectopy(beats_of("NVVVNVVVVN"), Kind.VENTRICULAR, EventRules(run_beats=4))
    assert ([one.beats for one in four.short], [one.beats for one in four.runs]) == ([3], [4])


def test_what_no_class_stands_for_is_not_assessed() -> None:
    whole = beats_of("NNN")
    bare = Beats(
        whole.sample, np.zeros(3, np.int64), ("normal", "paced"), (Kind.NORMAL, Kind.PACED), FS, 600, whole.unusable
    )
    found = find_events(bare)
    assert found.ventricular is None
    assert found.supra is None
    assert find_events(whole).ventricular is not None


def test_hours() -> None:
    """An hour of a beat a second and half an hour of two; 3 V in the second, 1 in the first; 10 s of it unusable."""
    labels = ["N"] * (3600 + 3600)
    labels[100] = "V"
    for at in (4000, 4001, 5000):
        labels[at] = "V"
    beats = beats_of("".join(labels), [1.0] * 3599 + [0.5] * 3600, unusable=((1000, 2000),))
    first, second = time_bins(beats)
    assert (first.start_s, first.stop_s, second.start_s) == (0.0, 3600.0, 3600.0)
    assert second.stop_s == beats.duration_s
    assert first.usable_s == pytest.approx(3590)
    # the beats at 10 to 19 s are lost; the beat at 3600.0 s is the second hour's
    assert first.beats == 3599 - 10
    assert first.by_class[:2] == (3588, 1)
    assert (second.ventricular, second.supra) == (3, 0)
    assert first.rate == pytest.approx(60.0)
    assert (first.shortest_s, first.longest_s) == (1.0, 1.0)
    assert second.longest_s == 1.0
    assert sum(second.by_class) == second.beats == 3601
    assert busiest((first, second), Kind.VENTRICULAR) is second
    assert busiest((first, second), Kind.SUPRA) is None


def test_a_recording_without_beats() -> None:
    none = Beats(np.empty(0, np.int64), np.empty(0, np.int64), CLASSES, KINDS, FS, 6000, merged([(0, 6000)]))
    found = find_events(none)
    assert (found.total, found.counted) == (0, 0)
    assert found.rates.mean is None
    assert found.pauses.longest is None
    assert found.variability.sdnn_ms is None
    assert (found.ventricular, found.supra) == (None, None)  # not assessed, and not 0
    (hour,) = found.hours
    assert (hour.usable_s, hour.beats, hour.rate) == (0.0, 0, None)


def test_beats_in_unusable_stretches_are_in_no_count() -> None:
    found = find_events(beats_of("NVNNV", unusable=((190, 210),)))
    assert (found.total, found.counted) == (5, 4)
    assert found.by_class == {"N": 3, "V": 1, "A": 0, "F": 0, "/": 0}


def test_rules_are_settings() -> None:
    rules = RULES.changed(("pause_s=2.5", "run-beats=4"))
    assert (rules.pause_s, rules.run_beats, rules.cycles) == (2.5, 4, 3)
    for wrong, words in (
        ("pause=2", "NAME=VALUE"),
        ("pause_s", "NAME=VALUE"),
        ("pause_s=soon", "a number"),
        ("pause_s=nan", "1 to 60"),
        ("run_beats=3.5", "a whole number"),
        ("run_beats=2", "3 to 100"),
        ("nn_min_s=2", "less than that"),
        ("nn_least_s=2", "less than that"),  # its name before 0.3
    ):
        with pytest.raises(OptionError) as refused:
            RULES.changed((wrong,))
        assert words in refused.value.line


def test_ends_without_a_beat() -> None:
    """First beat at 1 s, the last one 5 s before the end, of which 3 s are usable: one end, no pause."""
    found = pauses(beats_of("NNN", last_s=5.0, unusable=((500, 700),)), RULES)
    assert [(one.value, one.start_s, one.stop_s) for one in found.ends] == [(5.0, 3.0, 8.0)]
    assert found.intervals == ()
    assert pauses(beats_of("NNN", last_s=5.0, unusable=((500, 701),)), RULES).ends == ()
    assert pauses(beats_of("NNN", last_s=2.9), RULES).ends == ()


def test_a_run_that_an_unusable_stretch_cuts_may_be_longer() -> None:
    """Six V, the stretch between the fourth and the fifth: a run of four, at least, and a couplet, cut too."""
    found = ectopy(beats_of("NVVVVVVN", unusable=((540, 560),)), Kind.VENTRICULAR, RULES)
    assert [(one.beats, one.cut) for one in found.runs] == [(4, True)]
    assert [(one.beats, one.cut) for one in found.couplets] == [(2, True)]
    whole = ectopy(beats_of("NVVVVVVN"), Kind.VENTRICULAR, RULES)
    assert [(one.beats, one.cut) for one in whole.runs] == [(6, False)]


def test_uncertain_beats_of_series() -> None:
    """Two of five V uncertain, one of them in the run of three; where nobody looked, nothing is said."""
    plain = beats_of("NVVVNVNVN")
    doubtful = dataclasses.replace(plain, uncertain=np.isin(np.arange(9), [2, 7]))
    found, unsaid = (ectopy(one, Kind.VENTRICULAR, RULES) for one in (doubtful, plain))
    assert (found.uncertain, [one.uncertain for one in found.runs]) == (2, [1])
    assert (unsaid.uncertain, [one.uncertain for one in unsaid.runs]) == (None, [None])


def unconfirmed(rr_s: list[float], *which: int) -> Beats:
    """Normal beats with these intervals, some of which a second analysis did not confirm."""
    beats = beats_of("N" * (len(rr_s) + 1), rr_s)
    return dataclasses.replace(beats, confirmed=~np.isin(np.arange(len(rr_s)), which))


def test_an_unconfirmed_interval_is_in_no_pause_and_no_rate() -> None:
    """Twenty intervals of 1 s with one of 5 s among them, number 10, which was not confirmed."""
    rr_s = [1.0] * 10 + [5.0] + [1.0] * 10
    assert [one.value for one in pauses(unconfirmed(rr_s), RULES).intervals] == [5.0]
    found = pauses(unconfirmed(rr_s, 10), RULES)
    assert (found.intervals, found.not_assessed) == ((), 0)
    assert found.longest.value == pytest.approx(1.0)
    assert [(one.value, one.start_s, one.stop_s) for one in found.not_confirmed] == [(5.0, 11.0, 16.0)]
    rates = heart_rates(unconfirmed(rr_s, 10), RULES)
    assert (rates.mean, rates.lowest.value, rates.intervals) == (pytest.approx(60.0), pytest.approx(60.0), 20)
    assert heart_rates(unconfirmed(rr_s), RULES).mean == pytest.approx(60 * 21 / 25)


def test_a_short_unconfirmed_interval_is_in_no_highest_rate() -> None:
    """An interval of 0.25 s, 240/min, among ones of 1 s, and too few others on one side of it for a rate."""
    rr_s = [1.0] * 9 + [0.25] + [1.0] * 3
    highest = heart_rates(unconfirmed(rr_s, 9), RULES).highest
    assert highest.value == pytest.approx(60.0)
    assert pauses(unconfirmed(rr_s, 9), RULES).not_confirmed == ()  # neither a pause nor the longest


def test_which_unconfirmed_intervals_are_listed() -> None:
    """Those of 3 s and more; of shorter ones the longest, where no confirmed interval is as long."""
    listed = [one.value for one in pauses(unconfirmed([1.0, 2.5, 2.0, 1.0], 1, 2), RULES).not_confirmed]
    assert listed == pytest.approx([2.5])
    assert pauses(unconfirmed([2.8, 2.5, 2.0, 1.0], 1, 2), RULES).not_confirmed == ()
    listed = [one.value for one in pauses(unconfirmed([3.0, 2.5, 4.0, 1.0], 0, 1, 2), RULES).not_confirmed]
    assert listed == pytest.approx([3.0, 4.0])
    nothing = pauses(unconfirmed([4.0], 0), RULES)
    assert (nothing.longest, len(nothing.not_confirmed)) == (None, 1)


def test_a_lowest_rate_that_unconfirmed_intervals_would_lower_is_not_confirmed() -> None:
    """Forty intervals of 1 s; one of 3 s among them would make 8 of them last 10 s: 48/min, 20% lower than 60."""
    rr_s = [1.0] * 20 + [3.0] + [1.0] * 20
    rates = heart_rates(unconfirmed(rr_s, 20), RULES)
    assert (rates.lowest.value, rates.lowest.confirmed) == (pytest.approx(60.0), False)
    assert (rates.highest.value, rates.highest.confirmed) == (pytest.approx(60.0), True)
    rr_s[20] = 1.6  # 8 in 8.6 s: 55.8/min, 7% lower
    lowest = heart_rates(unconfirmed(rr_s, 20), RULES).lowest
    assert lowest.confirmed
    assert heart_rates(beats_of("N" * 42, rr_s), RULES).lowest == dataclasses.replace(lowest, **found_at(rr_s))


def found_at(rr_s: list[float]) -> dict[str, float]:
    """The lowest rate over eight intervals in a row and where it is, by hand."""
    sums = [sum(rr_s[at : at + 8]) for at in range(len(rr_s) - 7)]
    first = int(np.argmax(np.round(sums, 6)))
    start = 1.0 + sum(rr_s[:first])
    return {
        "value": pytest.approx(480 / sums[first]),
        "start_s": pytest.approx(start),
        "stop_s": pytest.approx(start + sums[first]),
    }


def test_a_highest_rate_that_unconfirmed_intervals_would_raise_is_not_confirmed() -> None:
    """Two unconfirmed intervals of 0.5 s in place of one of 1 s: 8 of them in 7 s are 68.6/min, 14% more than 60."""
    rates = heart_rates(unconfirmed([1.0] * 20 + [0.5, 0.5] + [1.0] * 20, 20, 21), RULES)
    assert (rates.highest.value, rates.highest.confirmed) == (pytest.approx(60.0), False)
    assert rates.lowest.confirmed


def test_a_rate_above_220_is_never_confirmed() -> None:
    """Intervals of 0.25 s, 240/min; by the marks of a person, whom nothing second-guesses, they stand."""
    marks = beats_of("N" * 21, 0.25)
    looked_at = dataclasses.replace(marks, confirmed=np.ones(20, np.bool_))
    for beats, confirmed in ((marks, True), (looked_at, False)):
        highest = heart_rates(beats, RULES).highest
        assert (highest.value, highest.confirmed) == (pytest.approx(240.0), confirmed)
    slower = dataclasses.replace(beats_of("N" * 21, 0.3), confirmed=np.ones(20, np.bool_))  # 200/min
    highest = heart_rates(slower, RULES).highest
    assert highest.confirmed


def test_a_longest_interval_with_a_longer_unconfirmed_one_is_not_confirmed() -> None:
    found = pauses(unconfirmed([1.0, 2.5, 2.0, 1.0], 1), RULES)
    assert (found.longest.value, found.longest.confirmed) == (2.0, False)
    assert [(one.value, one.confirmed) for one in found.not_confirmed] == [(2.5, False)]
    found = pauses(unconfirmed([2.8, 2.5, 2.0, 1.0], 1), RULES)
    assert (found.longest.value, found.longest.confirmed) == (pytest.approx(2.8), True)


@pytest.mark.parametrize(("unusable_s", "confirmed"), [(10, True), (11, False)])
def test_extremes_of_a_recording_that_is_much_unusable_are_not_confirmed(unusable_s: int, confirmed: bool) -> None:
    """Of 100 s at 60/min so many cannot be used: what the rate was there is not known."""
    beats = beats_of("N" * 99, unusable=((3_000, 3_000 + round(unusable_s * FS)),))
    assert beats.samples == 100 * FS
    rates, longest = heart_rates(beats, RULES), pauses(beats, RULES).longest
    for at in (rates.lowest, rates.highest, rates.slowest_minute, rates.fastest_minute, longest):
        assert at.confirmed == confirmed
    assert (rates.mean, rates.lowest_possible, rates.highest_possible) == (pytest.approx(60.0), None, None)


def test_beats_that_a_second_analysis_takes_for_none() -> None:
    """Without the beats at 22 and 23 s one interval of 3 s is left, a possible pause, and 8 intervals last 10 s."""
    beats = unconfirmed([1.0] * 40, 20, 21, 22)
    doubted = np.isin(np.arange(41), [21, 22])
    beats = dataclasses.replace(beats, doubted=doubted)
    found, rates = pauses(beats, RULES), heart_rates(beats, RULES)
    assert [(one.value, one.start_s, one.stop_s) for one in found.not_confirmed] == [(3.0, 21.0, 24.0)]
    assert (found.intervals, found.longest.confirmed, rates.lowest.confirmed) == ((), False, False)
    assert rates.lowest.value == pytest.approx(60.0)
    across = dataclasses.replace(beats, unusable=merged([(2250, 2260)]))  # nothing is measured across it
    assert pauses(across, RULES).not_confirmed == ()


def test_withheld_counts() -> None:
    """A kind that is withheld has its reason in place of its counts; the other is counted."""
    found = find_events(beats_of("NVVVNAN"), withheld={Kind.VENTRICULAR: "The rhythm is paced."})
    assert (found.ventricular, found.withheld) == (None, {Kind.VENTRICULAR: "The rhythm is paced."})
    assert found.supra.total == 1
    assert find_events(beats_of("NVVVNAN")).withheld == {}


def test_rhythms_have_names_and_seconds() -> None:
    """The notes of MIT-BIH's rhythm annotations; two episodes of 3 and 4.5 s."""
    assert [rhythm_name(note) for note in ("(AFIB", "(P", "(VFL", "(XYZ")] == [
        "AF",
        "paced",
        "ventricular flutter",
        "XYZ",
    ]
    rhythm = RhythmEpisodes("paced", ((1.0, 4.0), (10.0, 14.5)))
    assert rhythm.to_dict() == {
        "rhythm": "paced",
        "seconds": 7.5,
        "episodes": [[1.0, 4.0], [10.0, 14.5]],
        "source": "signal",
    }
