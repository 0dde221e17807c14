"""The rules by which events are counted. Sources disagree, so every rule is a setting and reported with its count."""

from dataclasses import asdict, dataclass, fields, replace

from ecgfed.base.deprecation import renamed_fields
from ecgfed.base.errors import OptionError, param

#: name -> the lowest and the highest value of a rule.
_LIMITS: dict[str, tuple[float, float]] = {
    "pause_s": (1.0, 60.0),
    "rate_intervals": (1, 100),
    "minute_usable_s": (1.0, 60.0),
    "run_beats": (3, 100),
    "fast_run_per_min": (30.0, 300.0),
    "cycles": (2, 100),
    "nn_min_s": (0.1, 2.0),
    "nn_max_s": (0.3, 10.0),
    "hrv_intervals": (3, 1_000_000),
    "high_burden_percent": (0.0, 100.0),
    "svt_beats": (3, 100),
    "withheld_percent": (0.0, 100.0),
    "withheld_beats": (1, 1_000_000),
    "bridge_percent": (0.0, 100.0),
    "bridge_probability": (0.0, 1.0),
    "certain_probability": (0.0, 1.0),
    "certain_unlike_percent": (0.0, 100.0),
    "bradycardia_per_min": (10.0, 100.0),
    "tachycardia_per_min": (50.0, 300.0),
    "rate_episode_s": (5.0, 3600.0),
}
#: field -> its key in JSON and its name of 0.2 after ``--rule``, which both stay.
_KEYS = {"nn_min_s": "nn_least_s", "nn_max_s": "nn_most_s"}


@renamed_fields("0.3", "0.5", nn_least_s="nn_min_s", nn_most_s="nn_max_s")
@dataclass(frozen=True, repr=False)
class EventRules:
    """How events are counted; docs/report.md has the sources in full.

    Attributes:
        pause_s: an RR interval of this many seconds or more is a pause. 3.0: CardioScan's urgent finding;
            Zio counts pauses above 3 s in sinus rhythm, 5 s in atrial fibrillation (PMC4756401).
        rate_intervals: lowest and highest rate are means over this many consecutive intervals. 8: ours; LifeWatch ACT
            III takes 16, WFDB's ``hrstats`` windows of 6 s. Fewer intervals spread the two rates.
        minute_usable_s: a minute has a rate when its usable intervals add up to this many seconds. 30: ours.
        run_beats: this many consecutive ectopic beats of one kind are a run, two are a couplet. 3: Spacelabs' monitors,
            and the table of the European Society of Cardiology for ventricular tachycardia; Zio takes 4.
        fast_run_per_min: runs above this rate are counted separately; ventricular ones are tachycardias (VT). 100: a
            study by GE's MARS (authorea.com/users/468192/articles/561954).
        cycles: this many ectopic beats, one in every two (three) beats, are bigeminy (trigeminy). 3: Mortara's HScribe.
        nn_min_s: shorter normal-to-normal intervals are excluded from the variability, as double detections. 0.3: ours.
        nn_max_s: longer ones are excluded, as missed beats or pauses. 2.0: ours.
        hrv_intervals: with fewer normal-to-normal intervals, the variability is not assessed. 30: ours.
        high_burden_percent: ventricular beats above this share of all beats are a high burden. 10: a major finding in
            1,000 Holter recordings (JAHA 2022, PMC9683671), and CardioScan's.
        svt_beats: a supraventricular run of this many beats above ``fast_run_per_min`` is a tachycardia (SVT). 5:
            Spacelabs' monitors.
        withheld_percent: where more than this share of a kind's beats is of low confidence, its counts are withheld.
            70: ours, chosen on DS1 of MIT-BIH (docs/decisions/0059), as all that follow.
        withheld_beats: fewer low-confidence beats withhold nothing, but a statement that none was detected.
        bridge_percent: a run continues across a low-confidence beat of another class where the intervals to it differ
            from the run's own by at most this share.
        bridge_probability: or across one that is of the run's kind with at least this probability.
        certain_probability: three consecutive beats of this mean probability make a fast ventricular run certain, even
            if some of its beats are of low confidence.
        certain_unlike_percent: unless a larger share of its beats is unlike those the model was trained on.
        bradycardia_per_min: a mean rate below it over ``rate_intervals`` consecutive intervals is slow. 50: guideline
            of ACC, AHA and HRS on bradycardia (Circulation 140:e382-e482, 2019).
        tachycardia_per_min: one above it is fast. 100: guideline of ACC, AHA and HRS on supraventricular tachycardia
            (Circulation 133:e506-e574, 2016).
        rate_episode_s: where the rate is slow (fast) for this many seconds without a break, it is an episode of
            bradycardia (tachycardia). 30: ours, as for atrial fibrillation.

    Raises:
        OptionError: a rule outside its limits.
    """

    pause_s: float = 3.0
    rate_intervals: int = 8
    minute_usable_s: float = 30.0
    run_beats: int = 3
    fast_run_per_min: float = 100.0
    cycles: int = 3
    nn_min_s: float = 0.3
    nn_max_s: float = 2.0
    hrv_intervals: int = 30
    high_burden_percent: float = 10.0
    svt_beats: int = 5
    withheld_percent: float = 70.0
    withheld_beats: int = 5
    bridge_percent: float = 25.0
    bridge_probability: float = 0.2
    certain_probability: float = 0.93
    certain_unlike_percent: float = 34.0
    bradycardia_per_min: float = 50.0
    tachycardia_per_min: float = 100.0
    rate_episode_s: float = 30.0

    def __post_init__(self) -> None:
        for name, (lower, upper) in _LIMITS.items():
            if not lower <= getattr(self, name) <= upper:  # NaN too
                raise OptionError(f"{param('rule')} {name}", f"{getattr(self, name):g}", f"{lower:g} to {upper:g}")
        if self.nn_min_s >= self.nn_max_s:
            problem = f"{self.nn_min_s:g} is not below nn_max_s, {self.nn_max_s:g}"
            raise OptionError(f"{param('rule')} nn_min_s", problem, "less than that")

    def __repr__(self) -> str:
        """Name the rules that differ from the default, as scikit-learn does."""
        changed = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return f"EventRules({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in changed)})"

    def to_dict(self) -> dict[str, float | int]:
        """Return the rules JSON-ready, under the keys they have in every report."""
        return {_KEYS.get(name, name): value for name, value in asdict(self).items()}

    def withholds(self, low_confidence: int, total: int) -> bool:
        """Return whether a count is withheld because too many of its beats are of low confidence."""
        return low_confidence >= self.withheld_beats and self.mostly_low(low_confidence, total)

    def mostly_low(self, low_confidence: int, total: int) -> bool:
        """Return whether the share of low-confidence beats, however few, is above ``withheld_percent``."""
        return 100 * low_confidence > self.withheld_percent * total

    def changed(self, settings: tuple[str, ...]) -> "EventRules":
        """Return a copy with some rules changed.

        Args:
            settings: each ``NAME=VALUE``.

        Raises:
            OptionError: an unknown rule, or a value that is not a number within its limits.
        """
        known = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        values: dict[str, float | int] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            name = name.strip().replace("-", "_")
            name = next((field for field, key in _KEYS.items() if name == key), name)
            if not equals or name not in known:
                raise OptionError("rule", f"{setting!r:.100}", f"NAME=VALUE with one of {', '.join(known)}")
            try:
                values[name] = known[name](text)
            except (ValueError, OverflowError):
                what = "a whole number" if known[name] is int else "a number"
                raise OptionError(f"{param('rule')} {name}", f"{text!r:.100}", what) from None
        return replace(self, **values)  # type: ignore[arg-type]  # each of its field's own type
