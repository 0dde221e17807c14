"""The headline of a recording's report in words: certain findings first, then those to review."""

from collections.abc import Iterable

from ecgfed.base.text import count_of
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rate_episodes import BRADYCARDIA, TACHYCARDIA
from ecgfed.domain.events.rhythm import Pauses, Rates
from ecgfed.domain.events.series import Series
from ecgfed.reports.markup import ELAPSED, PageTimes, per_cent

#: So much of a lead that cannot be used is named beside what was not found.
LEFT_OUT_PERCENT = 10.0
#: Rhythms that are looked for, beside those of the rate.
AF, STANDSTILL = "atrial fibrillation or flutter", "standstill"
#: Shorter episodes of atrial fibrillation are not detected.
FIBRILLATION_S = 30.0
#: A mean rate of fewer intervals may be that of one misdetected beat.
FEW_INTERVALS = 3


def ectopy_headline(events: Events, kind: Kind, times: PageTimes = ELAPSED, *, burden: bool = True) -> str | None:
    """Return the counts of one kind of ectopic beats in a line, with their share; None where they were not assessed."""
    ectopy = events.ectopic[kind]
    if ectopy is not None:
        return _counts(ectopy, burden=burden)
    if kind in events.to_review:
        return f"Withheld. {events.withheld[kind]}{_candidates(events.to_review[kind], times)}"
    return f"Withheld. {events.withheld[kind]}" if kind in events.withheld else None


def _counts(ectopy: Ectopy, *, burden: bool) -> str:
    if not ectopy.total:
        return "none detected"
    low = f", {ectopy.uncertain:,} of low confidence" if ectopy.uncertain else ""
    share = f" ({per_cent(ectopy.percent)})" if burden else ""
    parts = [f"{ectopy.total:,}{share}{low}"]
    if ectopy.runs:
        name = "VT" if ectopy.kind is Kind.VENTRICULAR else "SVT"
        fast = ectopy.tachycardias
        parts += [certain_first(ectopy.runs, "run"), certain_first(fast, name, name)]
        if rates := [run.per_min for run in fast if not run.review]:
            parts[-1] += f" (fastest {max(rates):.0f}/min)"
    if ectopy.couplets:
        parts.append(certain_first(ectopy.couplets, "couplet"))
    return "; ".join(parts)


def certain_first(series: Iterable[Series], singular: str, plural: str = "") -> str:
    """Return the number of certain series, and of those to review: ``5 runs, 195 more to review``."""
    every = list(series)
    review = sum(item.review for item in every)
    certain = len(every) - review
    if not every:
        return f"no {singular}"
    if not certain:
        return f"no certain {singular}, {review:,} to review"
    return count_of(certain, singular, plural) + (f", {review:,} more to review" if review else "")


def _candidates(ectopy: Ectopy, times: PageTimes) -> str:
    """Return the runs and couplets of a withheld kind, for review."""
    parts = []
    if (run := ectopy.longest) is not None:
        longest = f"longest {count_of(run.beats, 'beat')} at {run.per_min:.0f}/min, from {times.text(run.start_s)}"
        parts.append(f"{count_of(len(ectopy.runs), 'possible run')} ({longest})")
    if ectopy.couplets:
        parts.append(count_of(len(ectopy.couplets), "possible couplet"))
    return f" To be reviewed: {' and '.join(parts)}." if parts else ""


def rates_text(rates: Rates) -> str | None:
    """Return the mean, lowest and highest heart rate, and which of these is not confirmed."""
    if rates.mean is None:
        return f"not confirmed: possibly {possible}" if (possible := possible_rates(rates)) else None
    mean = f"{rates.mean:.0f}/min"
    parts = [] if rates.intervals >= FEW_INTERVALS else [f"of {count_of(rates.intervals, 'interval')} alone"]
    if rates.lowest is not None and rates.highest is not None:
        parts.append(f"{rates.lowest.value:.0f} to {rates.highest.value:.0f}")
        ends = {"lowest": rates.lowest.confirmed, "highest": rates.highest.confirmed}
        if unconfirmed := " and ".join(name for name, confirmed in ends.items() if not confirmed):
            parts.append(f"{unconfirmed} not confirmed")
    if possible := possible_rates(rates):
        parts.append(f"possibly {possible}")
    return f"{mean} ({'; '.join(parts)})" if parts else mean


def possible_rates(rates: Rates) -> str:
    """Return how far the rate may fall and rise by intervals that are not confirmed; ``""`` no further."""
    lowest, highest = rates.lowest_possible, rates.highest_possible
    parts = [] if lowest is None else [f"down to {lowest.value:.0f}/min"]
    return " and ".join(parts if highest is None else [*parts, f"up to {highest.value:.0f}/min"])


def rhythms_assessed(events: Events, duration_s: float) -> tuple[str, ...]:
    """Return which rhythms were looked for in a recording of this length; none where no beat counts."""
    if not events.counted:
        return ()
    assessed = [AF] if duration_s >= FIBRILLATION_S else []
    if events.rates.lowest is not None and duration_s >= events.rules.rate_episode_s:
        assessed += [BRADYCARDIA, TACHYCARDIA]
    return (*assessed, STANDSTILL) if duration_s >= 2 * events.rules.pause_s else tuple(assessed)


def none_detected(events: Events, duration_s: float, usable_percent: float) -> str | None:
    """Return which rhythms were looked for where none was found; None where no beat counts.

    Args:
        events: of the recording.
        duration_s: of the recording.
        usable_percent: of the lead in use.
    """
    assessed = rhythms_assessed(events, duration_s)
    if not assessed:
        return None
    *first, last = assessed
    text = f"no {', '.join(first)} or {last} detected" if first else f"no {last} detected"
    if usable_percent < 100 - LEFT_OUT_PERCENT:
        text += f" in the {usable_percent:.0f}% that can be used"
    open_ = [] if AF in assessed else ["atrial fibrillation"]
    open_ += [] if BRADYCARDIA in assessed else [BRADYCARDIA, TACHYCARDIA]
    return f"{text}; {' and '.join(filter(None, (', '.join(open_[:-1]), open_[-1])))} not assessed" if open_ else text


def longest_text(pauses: Pauses) -> str:
    """Return the length of the longest interval; requires one."""
    assert pauses.longest is not None
    value = f"{pauses.longest.value:.2f} s"
    return f"longest interval {value if pauses.longest.confirmed else f'not confirmed: {value} or more'}"


def pauses_text(pauses: Pauses) -> str:
    """Return the number of pauses, and of long intervals that were not assessed."""
    number = f"{len(pauses.intervals):,}" if pauses.intervals else "none found"
    if pauses.not_confirmed:
        number += f"; {count_of(len(pauses.not_confirmed), 'interval')} not confirmed"
    if not pauses.not_assessed:
        return number
    return f"{number}; {count_of(pauses.not_assessed, 'more touches', 'more touch')} an unusable stretch: not assessed"
