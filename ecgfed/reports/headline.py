"""The headline of a recording's report in words: certain findings first, then those to review."""

from collections.abc import Iterable, Mapping

from ecgfed.base.language import number, tr, tr_later, translated, trn, trn_later
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rate_episodes import BRADYCARDIA, TACHYCARDIA
from ecgfed.domain.events.rhythm import Pauses, Rates
from ecgfed.domain.events.series import Series
from ecgfed.reports.markup import ELAPSED, PageTimes, per_cent
from ecgfed.reports.recording_parts import LeadRow

#: So much of a lead that cannot be used is named beside what was not found.
LEFT_OUT_PERCENT = 10.0
#: Two shares of the recording that differ by less are written the same.
_DIFFERS_PERCENT = 0.05
#: Rhythms that are looked for, beside those of the rate.
AF, STANDSTILL = tr_later("atrial fibrillation or flutter"), tr_later("standstill")
#: A mean rate of fewer intervals may be that of one misdetected beat.
FEW_INTERVALS = 3


#: Series that are counted -> words for none, for none that is certain, for one and for several; ``web/words.js`` has
#: the same.
_SERIES: Mapping[str, tuple[str, str, tuple[str, str]]] = {
    "run": (*(tr_later("no run"), tr_later("no certain run, {n} to review")), trn_later("{n} run", "{n} runs")),
    "couplet": (
        *(tr_later("no couplet"), tr_later("no certain couplet, {n} to review")),
        trn_later("{n} couplet", "{n} couplets"),
    ),
    "episode": (
        *(tr_later("no episode"), tr_later("no certain episode, {n} to review")),
        trn_later("{n} episode", "{n} episodes"),
    ),
    "series": (
        *(tr_later("no series"), tr_later("no certain series, {n} to review")),
        trn_later("{n} series", "{n} series"),
    ),
    "VT": (tr_later("no VT"), tr_later("no certain VT, {n} to review"), trn_later("{n} VT", "{n} VT")),
    "SVT": (tr_later("no SVT"), tr_later("no certain SVT, {n} to review"), trn_later("{n} SVT", "{n} SVT")),
}


def ectopy_headline(events: Events, kind: Kind, times: PageTimes = ELAPSED, *, burden: bool = True) -> str | None:
    """Return the counts of one kind of ectopic beats in a line, with their share; None where they were not assessed."""
    ectopy = events.ectopic[kind]
    if ectopy is not None:
        return _counts(ectopy, burden=burden)
    if kind not in events.withheld:
        return None
    withheld = tr("Withheld. {reason}", reason=translated(events.withheld[kind]))
    review = events.to_review.get(kind)
    return withheld if review is None else f"{withheld}{_candidates(review, times)}"


def _counts(ectopy: Ectopy, *, burden: bool) -> str:
    if not ectopy.total:
        return tr("none detected")
    low = tr(", {n} of low confidence", n=ectopy.uncertain) if ectopy.uncertain else ""
    share = f" ({per_cent(ectopy.percent)})" if burden else ""
    parts = [f"{number(ectopy.total)}{share}{low}"]
    if ectopy.runs:
        fast = ectopy.tachycardias
        tachycardias = certain_first(fast, "VT" if ectopy.kind is Kind.VENTRICULAR else "SVT")
        if rates := [run.per_min for run in fast if not run.review]:
            tachycardias = tr("{runs} (fastest {rate:.0f}/min)", runs=tachycardias, rate=max(rates))
        parts += [certain_first(ectopy.runs, "run"), tachycardias]
    if ectopy.couplets:
        parts.append(certain_first(ectopy.couplets, "couplet"))
    return tr("; ").join(parts)


def certain_first(series: Iterable[Series], noun: str) -> str:
    """Return the number of certain series, and of those to review: ``5 runs, 195 more to review``.

    Args:
        series: they.
        noun: what they are, ``run``, ``couplet``, ``episode``, ``series``, ``VT`` or ``SVT``.
    """
    every = list(series)
    review = sum(item.review for item in every)
    certain, (none, uncertain, forms) = len(every) - review, _SERIES[noun]
    if not every:
        return tr(none)
    if not certain:
        return tr(uncertain, n=review)
    count = trn(*forms, certain)
    return tr("{count}, {n} more to review", count=count, n=review) if review else count


def _candidates(ectopy: Ectopy, times: PageTimes) -> str:
    """Return the runs and couplets of a withheld kind, for review."""
    parts = []
    if (run := ectopy.longest) is not None:
        longest = trn(
            "longest {n} beat at {rate:.0f}/min, from {time}",
            "longest {n} beats at {rate:.0f}/min, from {time}",
            run.beats,
            rate=run.per_min,
            time=times.text(run.start_s),
        )
        runs = trn("{n} possible run ({longest})", "{n} possible runs ({longest})", len(ectopy.runs), longest=longest)
        parts.append(runs)
    if ectopy.couplets:
        parts.append(trn("{n} possible couplet", "{n} possible couplets", len(ectopy.couplets)))
    return tr(" To be reviewed: {series}.", series=both(parts)) if parts else ""


def both(parts: list[str]) -> str:
    """Return one text, or two joined with an and."""
    return parts[0] if len(parts) == 1 else tr("{one} and {other}", one=parts[0], other=parts[1])


def rates_text(rates: Rates) -> str | None:
    """Return the mean, lowest and highest heart rate, and which of these is not confirmed."""
    possible = possible_rates(rates)
    if rates.mean is None:
        return tr("not confirmed: possibly {rates}", rates=possible) if possible else None
    mean = tr("{rate:.0f}/min", rate=rates.mean)
    few = rates.intervals < FEW_INTERVALS
    parts = [trn("of {n} interval alone", "of {n} intervals alone", rates.intervals)] if few else []
    if rates.lowest is not None and rates.highest is not None:
        parts.append(tr("{low:.0f} to {high:.0f}", low=rates.lowest.value, high=rates.highest.value))
        if not rates.lowest.confirmed and not rates.highest.confirmed:
            parts.append(tr("lowest and highest not confirmed"))
        elif not rates.lowest.confirmed:
            parts.append(tr("lowest not confirmed"))
        elif not rates.highest.confirmed:
            parts.append(tr("highest not confirmed"))
    if possible:
        parts.append(tr("possibly {rates}", rates=possible))
    return f"{mean} ({tr('; ').join(parts)})" if parts else mean


def possible_rates(rates: Rates) -> str:
    """Return how far the rate may fall and rise by intervals that are not confirmed; ``""`` no further."""
    lowest, highest = rates.lowest_possible, rates.highest_possible
    parts = [] if lowest is None else [tr("down to {rate:.0f}/min", rate=lowest.value)]
    parts += [] if highest is None else [tr("up to {rate:.0f}/min", rate=highest.value)]
    return both(parts) if parts else ""


def rhythms_assessed(events: Events, duration_s: float, fibrillation_from_s: float | None) -> tuple[str, ...]:
    """Return which rhythms were looked for in a recording of this length; none where no beat counts."""
    if not events.counted:
        return ()
    assessed = [] if fibrillation_from_s is None else [AF]
    if events.rates.lowest is not None and duration_s >= events.rules.rate_episode_s:
        assessed += [BRADYCARDIA, TACHYCARDIA]
    return (*assessed, STANDSTILL) if duration_s >= 2 * events.rules.pause_s else tuple(assessed)


def is_strip(fibrillation_from_s: float | None, duration_s: float) -> bool:
    """Return whether a recording was judged as a whole: nothing is known of other times."""
    return fibrillation_from_s is not None and fibrillation_from_s >= duration_s


#: Whether atrial fibrillation, and the rhythms of the rate, were looked for -> what is stated of those that were not.
_NOT_ASSESSED = {
    (True, True): "",
    (True, False): tr_later("{text}; bradycardia and tachycardia not assessed"),
    (False, True): tr_later("{text}; atrial fibrillation not assessed"),
    (False, False): tr_later("{text}; atrial fibrillation, bradycardia and tachycardia not assessed"),
}


def none_detected(events: Events, duration_s: float, fibrillation_from_s: float | None) -> str | None:
    """Return which rhythms were looked for where none was found; None where no beat counts.

    Args:
        events: of the recording.
        duration_s: of the recording.
        fibrillation_from_s: the shortest episode of atrial fibrillation that is detected; None where not assessed.
    """
    assessed = rhythms_assessed(events, duration_s, fibrillation_from_s)
    if not assessed:
        return None
    *first, last = map(translated, assessed)
    if first:
        text = tr("no {rhythms} or {last} detected", rhythms=", ".join(first), last=last)
    else:
        text = tr("no {rhythm} detected", rhythm=last)
    if events.usable_percent < 100 - LEFT_OUT_PERCENT:
        text = tr("{text} in the {share:.0%} that can be used", text=text, share=events.usable_percent / 100)
    if is_strip(fibrillation_from_s, duration_s):
        text = tr("{text}; none is excluded before or after these {seconds:.0f} s", text=text, seconds=duration_s)
    sentence = _NOT_ASSESSED[AF in assessed, BRADYCARDIA in assessed]
    return tr(sentence, text=text) if sentence else text


def with_counted_share(usable: str, lead: LeadRow, events: Events) -> str:
    """Return the usable time of the lead in use in words, and the share in which beats are counted where it differs.

    It does in possible ventricular flutter or fibrillation, where labels mark no beats, and at calibration pulses.
    """
    if abs(events.usable_percent - lead.percent) < _DIFFERS_PERCENT:
        return usable
    share = per_cent(events.usable_percent)
    return tr("{usable}; beats are counted in {share} of the recording", usable=usable, share=share)


def longest_text(pauses: Pauses) -> str:
    """Return the length of the longest interval; requires one."""
    assert pauses.longest is not None
    if pauses.longest.confirmed:
        return tr("longest interval {value:.2f} s", value=pauses.longest.value)
    return tr("longest interval not confirmed: {value:.2f} s or more", value=pauses.longest.value)


def pauses_text(pauses: Pauses) -> str:
    """Return the number of pauses, and of long intervals that were not assessed."""
    parts = [number(len(pauses.intervals)) if pauses.intervals else tr("none found")]
    if pauses.not_confirmed:
        parts.append(trn("{n} interval not confirmed", "{n} intervals not confirmed", len(pauses.not_confirmed)))
    if pauses.not_assessed:
        parts.append(
            trn(
                "{n} more touches an unusable stretch: not assessed",
                "{n} more touch an unusable stretch: not assessed",
                pauses.not_assessed,
            )
        )
    return tr("; ").join(parts)
