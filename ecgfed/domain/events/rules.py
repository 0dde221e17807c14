"""The rules by which events are counted. Sources disagree, so every rule is a setting and is printed with its count."""

from dataclasses import dataclass, fields, replace

from ecgfed.base.errors import OptionError

#: name -> the least and the most that a rule may be.
_LIMITS: dict[str, tuple[float, float]] = {
    "pause_s": (1.0, 60.0),
    "rate_intervals": (1, 100),
    "minute_usable_s": (1.0, 60.0),
    "run_beats": (3, 100),
    "fast_run_per_min": (30.0, 300.0),
    "cycles": (2, 100),
    "nn_least_s": (0.1, 2.0),
    "nn_most_s": (0.3, 10.0),
    "hrv_intervals": (3, 1_000_000),
    "high_burden_percent": (0.0, 100.0),
    "svt_beats": (3, 100),
    "withheld_percent": (0.0, 100.0),
    "withheld_beats": (1, 1_000_000),
    "bridge_percent": (0.0, 100.0),
    "bridge_probability": (0.0, 1.0),
    "certain_probability": (0.0, 1.0),
    "certain_unlike_percent": (0.0, 100.0),
}


@dataclass(frozen=True, repr=False)
class EventRules:
    """How events are counted; docs/report.md has the sources in full.

    Attributes:
        pause_s: an interval between two beats of so many seconds and more is a pause. 3.0: CardioScan's urgent finding;
            Zio counts pauses above 3 s in sinus rhythm, 5 s in atrial fibrillation (PMC4756401).
        rate_intervals: lowest and highest rate are means over so many intervals in a row. 8: ours; LifeWatch ACT III
            takes 16, WFDB's ``hrstats`` windows of 6 s. The fewer, the further apart the two rates lie.
        minute_usable_s: a minute has a rate when its usable intervals add up to so many seconds. 30: ours.
        run_beats: so many ectopic beats of one kind in a row are a run, two are a couplet. 3: Spacelabs' monitors, and
            the table of the European Society of Cardiology for ventricular tachycardia; Zio takes 4.
        fast_run_per_min: runs above this rate are counted by themselves; ventricular ones are tachycardias (VT). 100: a
            study by GE's MARS (authorea.com/users/468192/articles/561954).
        cycles: so many ectopic beats, one in every two (three) beats, are bigeminy (trigeminy). 3: Mortara's HScribe.
        nn_least_s: a normal-to-normal interval below is left out of the variability: a double detection. 0.3: ours.
        nn_most_s: one above is left out: a missed beat or a pause. 2.0: ours.
        hrv_intervals: below so many normal-to-normal intervals the variability is not assessed. 30: ours.
        high_burden_percent: ventricular beats above this share of all beats are a high burden. 10: a major finding in
            1,000 Holter recordings (JAHA 2022, PMC9683671), and CardioScan's.
        svt_beats: a supraventricular run of so many beats above ``fast_run_per_min`` is a tachycardia (SVT). 5:
            Spacelabs' monitors.
        withheld_percent: where more than this share of a kind's beats is of low confidence, its counts are withheld.
            70: ours, chosen on DS1 of MIT-BIH (docs/decisions/0059), as all that follow.
        withheld_beats: but not for fewer low-confidence beats than these.
        bridge_percent: a run goes across a low-confidence beat of another class where the intervals to it differ from
            the run's own by no more than this share.
        bridge_probability: and across one that is of the run's kind with this probability or more.
        certain_probability: three beats in a row of this mean probability make a fast ventricular run certain, low
            confidence of some of its beats notwithstanding.
        certain_unlike_percent: but not where a larger share of its beats is unlike those the model was trained on.

    Raises:
        OptionError: a rule outside its limits.
    """

    pause_s: float = 3.0
    rate_intervals: int = 8
    minute_usable_s: float = 30.0
    run_beats: int = 3
    fast_run_per_min: float = 100.0
    cycles: int = 3
    nn_least_s: float = 0.3
    nn_most_s: float = 2.0
    hrv_intervals: int = 30
    high_burden_percent: float = 10.0
    svt_beats: int = 5
    withheld_percent: float = 70.0
    withheld_beats: int = 5
    bridge_percent: float = 25.0
    bridge_probability: float = 0.2
    certain_probability: float = 0.93
    certain_unlike_percent: float = 34.0

    def __post_init__(self) -> None:
        for name, (lower, upper) in _LIMITS.items():
            if not lower <= getattr(self, name) <= upper:  # NaN too
                raise OptionError(f"--rule {name}", f"{getattr(self, name):g}", f"{lower:g} to {upper:g}")
        if self.nn_least_s >= self.nn_most_s:
            problem = f"{self.nn_least_s:g} is not below nn_most_s, {self.nn_most_s:g}"
            raise OptionError("--rule nn_least_s", problem, "less than that")

    def __repr__(self) -> str:
        """Name the rules that differ from the default, as scikit-learn does."""
        changed = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return f"EventRules({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in changed)})"

    def withholds(self, low_confidence: int, total: int) -> bool:
        """Say whether a count of which so many beats are of low confidence is withheld."""
        return low_confidence >= self.withheld_beats and 100 * low_confidence > self.withheld_percent * total

    def changed(self, settings: tuple[str, ...]) -> "EventRules":
        """Return the rules with some changed.

        Args:
            settings: each ``NAME=VALUE``.

        Raises:
            OptionError: no such rule, or a value that is none.
        """
        known = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        values: dict[str, float | int] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            name = name.strip().replace("-", "_")
            if not equals or name not in known:
                raise OptionError("--rule", f"{setting!r:.100}", f"NAME=VALUE with one of {', '.join(known)}")
            try:
                values[name] = known[name](text)
            except (ValueError, OverflowError):
                what = "a whole number" if known[name] is int else "a number"
                raise OptionError(f"--rule {name}", f"{text!r:.100}", what) from None
        return replace(self, **values)  # type: ignore[arg-type]  # each of its field's own type
