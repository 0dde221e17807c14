"""A conclusion of at most three lines, drafted from a report's figures; ``web/conclusion.js`` has the same rules.

Its sentences are never surer than the figures: what is withheld, not confirmed or not assessed is named as such, and
sinus rhythm is stated only where a file of labels marks it or a reviewer named it.
"""

from collections.abc import Iterator, Sequence

from ecgfed.base.language import capitalized, number, tr, tr_later, translated
from ecgfed.domain.events.certainty import by_certainty
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.kinds import Kind
from ecgfed.domain.events.rhythm import Rates
from ecgfed.domain.events.rhythm_episodes import FIBRILLATION, POSSIBLE, RhythmEpisodes, to_review
from ecgfed.domain.events.series import Series
from ecgfed.reports.headline import FEW_INTERVALS, is_strip
from ecgfed.reports.markup import clock, per_cent

#: What marks a draft, a conclusion that a reader accepted or wrote, and one of these whose draft differs by now.
CONCLUSION_NOTES = {
    "draft": tr_later("Draft, generated from the figures; edit before signing."),
    "written": tr_later("Accepted or written by the reader."),
    "changed": tr_later("The figures have changed since this conclusion was accepted or written. The draft is now:"),
}
#: A rhythm with this share of the recording and more is its underlying rhythm.
_UNDERLYING_PERCENT = 50.0
#: Unusable shares from this one on are stated: smaller ones would be written 0.0%.
_UNUSABLE_PERCENT = 0.05
#: Whole sentences, which ``web/conclusion.js`` fills in too.
SENTENCES = {
    "rhythm": tr_later("{rhythm} for {percent} of the recording."),
    "rhythm_review": tr_later("{rhythm} for {percent} of the recording, to be reviewed."),
    "rhythm_open": tr_later("Underlying rhythm not classified: to be stated by the reader."),
    "rate": tr_later("Mean heart rate {mean:.0f}/min, lowest {lowest:.0f}/min, highest {highest:.0f}/min."),
    "rate_lowest_open": tr_later(
        "Mean heart rate {mean:.0f}/min, highest {highest:.0f}/min; the lowest not confirmed, to be reviewed."
    ),
    "rate_highest_open": tr_later(
        "Mean heart rate {mean:.0f}/min, lowest {lowest:.0f}/min; the highest not confirmed, to be reviewed."
    ),
    "rate_both_open": tr_later("Mean heart rate {mean:.0f}/min; lowest and highest not confirmed, to be reviewed."),
    "rate_mean": tr_later("Mean heart rate {mean:.0f}/min; lowest and highest not assessed."),
    "rate_few": tr_later("Heart rate to be reviewed: too few intervals for a mean."),
    "rate_open": tr_later("Heart rate not confirmed, to be reviewed."),
    "rate_none": tr_later("Heart rate not assessed."),
    "ventricular": tr_later("Ventricular ectopic beats: {beats} ({percent})."),
    "ventricular_low": tr_later(
        "Ventricular ectopic beats: {beats} ({percent}), {low} of them of low confidence, to be reviewed."
    ),
    "ventricular_none": tr_later("No ventricular ectopic beats detected."),
    "ventricular_withheld": tr_later("Ventricular ectopic beats: count withheld, to be reviewed."),
    "ventricular_open": tr_later("Ventricular ectopic beats: not assessed."),
    "supraventricular": tr_later("Supraventricular ectopic beats: {beats} ({percent})."),
    "supraventricular_low": tr_later(
        "Supraventricular ectopic beats: {beats} ({percent}), {low} of them of low confidence, to be reviewed."
    ),
    "supraventricular_none": tr_later("No supraventricular ectopic beats detected."),
    "supraventricular_withheld": tr_later("Supraventricular ectopic beats: count withheld, to be reviewed."),
    "supraventricular_open": tr_later("Supraventricular ectopic beats: not assessed."),
    "runs": tr_later("Runs: {count}, {fast} of them {name}; longest {beats} beats, fastest {per_min:.0f}/min."),
    "runs_review": tr_later("Runs to be reviewed: {count}; longest {beats} beats, fastest {per_min:.0f}/min."),
    "short": tr_later("Series of three beats and more that are too short for a run: {count}."),
    "couplets": tr_later("Couplets: {count}."),
    "couplets_review": tr_later("Couplets to be reviewed: {count}."),
    "cycles": tr_later("Episodes of bigeminy or trigeminy: {count}."),
    "cycles_review": tr_later("Episodes of bigeminy or trigeminy to be reviewed: {count}."),
    "singles": tr_later("Single beats only."),
    "pauses": tr_later("Pauses of {pause:g} s or more: {count}, longest interval {longest:.2f} s."),
    "pauses_open": tr_later("Pauses of {pause:g} s or more: {count}; the longest interval is not confirmed."),
    "pauses_none": tr_later("No pause of {pause:g} s or more."),
    "pauses_none_counted": tr_later(
        "No pause of {pause:g} s or more in the {percent} of the recording in which beats are counted."
    ),
    "pauses_none_open": tr_later("No confirmed pause of {pause:g} s or more."),
    "pauses_none_open_counted": tr_later(
        "No confirmed pause of {pause:g} s or more in the {percent} of the recording in which beats are counted."
    ),
    "pauses_not_assessed": tr_later("Pauses not assessed."),
    "intervals_review": tr_later("Long intervals not confirmed, to be reviewed: {count}."),
    "intervals_unusable": tr_later("Long intervals that touch unusable stretches, not assessed: {count}."),
    "ends": tr_later("No beat for {seconds:.1f} s at the start or the end of the recording, to be reviewed."),
    "episodes": tr_later("{rhythm}: {percent} of the recording, longest episode {longest}."),
    "episodes_review": tr_later("{rhythm}: {percent} of the recording, longest episode {longest}, to be reviewed."),
    "no_af": tr_later(
        "No atrial fibrillation of {seconds:g} s or longer detected; flutter with regular intervals not assessed."
    ),
    "no_af_strip": tr_later(
        "No atrial fibrillation detected in this recording of {seconds:.0f} s, none excluded before or after it; "
        "flutter with regular intervals not assessed."
    ),
    "no_af_marked": tr_later("No atrial fibrillation marked in the labels' file."),
    "af_paced": tr_later("Atrial fibrillation not assessed where the rhythm is paced."),
    "af_open": tr_later("Atrial fibrillation not assessed."),
    "block": tr_later("AV block not excluded."),
    "unusable": tr_later("{percent} of {lead} is not usable and in no count."),
}
_KINDS = ((Kind.VENTRICULAR, "ventricular", "VT"), (Kind.SUPRA, "supraventricular", "SVT"))


def conclusion_draft(
    events: Events, rhythms: Sequence[RhythmEpisodes], duration_s: float, lead: str, fibrillation_from_s: float | None
) -> tuple[str, ...]:
    """Return the lines of the draft: rhythm and rate; ectopy; episodes, pauses and what limits the figures.

    Args:
        events: the counts.
        rhythms: every rhythm of the report, those by the heart rate too.
        duration_s: length of the recording in seconds.
        lead: the lead that was read.
        fibrillation_from_s: the shortest episode of atrial fibrillation that is detected in the signal, in seconds; the
            whole of a strip; None where it was not assessed there.
    """
    named = [part for rhythm in rhythms for part in by_certainty(rhythm)]
    underlying = _underlying(named, duration_s)
    first = [_share("rhythm", underlying, duration_s) if underlying else _filled("rhythm_open"), _rate(events.rates)]
    second = [sentence for kind, word, fast in _KINDS for sentence in _ectopy(events, kind, word, fast)]
    others = [rhythm for rhythm in named if rhythm is not underlying]
    third = [_share("episodes", rhythm, duration_s) for rhythm in others if rhythm.source != "rates"]
    third += _pauses(events)
    third += [_share("episodes", rhythm, duration_s) for rhythm in others if rhythm.source == "rates"]
    if not any(rhythm.rhythm in FIBRILLATION for rhythm in rhythms):
        third.append(_no_fibrillation(rhythms, duration_s, fibrillation_from_s if events.counted else None))
    if not any("AV block" in rhythm.rhythm for rhythm in rhythms):
        third.append(_filled("block"))
    if _partly_counted(events):
        third.append(_filled("unusable", percent=per_cent(100 - events.usable_percent), lead=lead))
    return " ".join(first), " ".join(second), " ".join(third)


def _filled(sentence: str, /, **values: object) -> str:
    return tr(SENTENCES[sentence], **values)


def _partly_counted(events: Events) -> bool:
    """Return whether a share of the recording that is worth stating is in no count."""
    return 100 - events.usable_percent >= _UNUSABLE_PERCENT


def _underlying(rhythms: Sequence[RhythmEpisodes], duration_s: float) -> RhythmEpisodes | None:
    """Return the rhythm of half the recording and more; an absence of beats, a rate and a mere possibility is none."""
    able = [
        rhythm
        for rhythm in rhythms
        if rhythm.source != "rates" and rhythm.rhythm != "no beats" and not rhythm.rhythm.startswith(POSSIBLE)
    ]
    best = max(able, key=lambda rhythm: rhythm.seconds, default=None)
    return best if best is not None and 100 * best.seconds >= _UNDERLYING_PERCENT * duration_s else None


def _share(name: str, rhythm: RhythmEpisodes, duration_s: float) -> str:
    """Return the sentence of a rhythm."""
    start, stop = rhythm.longest or (0.0, 0.0)
    return _filled(
        f"{name}_review" if to_review(rhythm) else name,
        rhythm=capitalized(translated(rhythm.rhythm)),
        percent=per_cent(100 * rhythm.seconds / duration_s),
        longest=clock(stop - start, 0),
    )


def _no_fibrillation(rhythms: Sequence[RhythmEpisodes], duration_s: float, from_s: float | None) -> str:
    """Return the sentence where no atrial fibrillation is among the rhythms."""
    if any(rhythm.source == "labels" for rhythm in rhythms):
        return _filled("no_af_marked")
    if any(rhythm.rhythm == "paced" for rhythm in rhythms):
        return _filled("af_paced")
    if from_s is None:
        return _filled("af_open")
    return _filled("no_af_strip" if is_strip(from_s, duration_s) else "no_af", seconds=from_s)


def _rate(rates: Rates) -> str:
    lowest, highest = rates.lowest, rates.highest
    possible = rates.lowest_possible is not None or rates.highest_possible is not None
    if rates.mean is None:
        return _filled("rate_open" if possible else "rate_none")
    if rates.intervals < FEW_INTERVALS:
        return _filled("rate_open" if possible else "rate_few")
    values = {"mean": rates.mean}
    if lowest is None or highest is None:
        return _filled("rate_both_open" if possible else "rate_mean", **values)
    values |= {"lowest": lowest.value, "highest": highest.value}
    names = {(True, True): "rate", (False, True): "rate_lowest_open", (True, False): "rate_highest_open"}
    low, high = lowest.confirmed and not rates.lowest_possible, highest.confirmed and not rates.highest_possible
    return _filled(names.get((low, high), "rate_both_open"), **values)


def _ectopy(events: Events, kind: Kind, word: str, fast: str) -> Iterator[str]:
    """Yield the count of a kind and its series: runs, couplets, else bigeminy and trigeminy, or single beats only."""
    ectopy, review = events.ectopic[kind], events.to_review.get(kind)
    if ectopy is None:
        yield _filled(f"{word}_withheld" if kind in events.withheld else f"{word}_open")
        if review is not None:
            yield from _series(review, fast)
    elif not ectopy.total:
        yield _filled(f"{word}_none")
    else:
        low, percent = ectopy.uncertain, per_cent(ectopy.percent)
        yield _filled(f"{word}_low" if low else word, beats=ectopy.total, percent=percent, low=low)
        series = list(_series(ectopy, fast))
        yield from series or ([] if low else [_filled("singles")])


def _series(ectopy: Ectopy, fast: str) -> Iterator[str]:
    for name, runs in _certain_and_review("runs", ectopy.runs):
        longest = max(runs, key=lambda run: run.beats)
        yield _filled(
            name,
            count=len(runs),
            fast=sum(run.name == fast for run in runs),
            name=translated(fast),
            beats=f"{'≥ ' * longest.cut}{number(longest.beats)}",
            per_min=max(run.per_min for run in runs),
        )
    if ectopy.short:
        yield _filled("short", count=len(ectopy.short))
    for name, couplets in _certain_and_review("couplets", ectopy.couplets):
        yield _filled(name, count=len(couplets))
    for name, cycles in _certain_and_review("cycles", (*ectopy.bigeminy, *ectopy.trigeminy)):
        yield _filled(name, count=len(cycles))


def _certain_and_review(name: str, series: Sequence[Series]) -> Iterator[tuple[str, list[Series]]]:
    for sentence, review in ((name, False), (f"{name}_review", True)):
        if some := [item for item in series if item.review is review]:
            yield sentence, some


def _pauses(events: Events) -> Iterator[str]:
    pauses, pause_s = events.pauses, events.rules.pause_s
    longest, count = pauses.longest, len(pauses.intervals)
    unsure = bool(pauses.not_confirmed or pauses.not_assessed or pauses.ends)
    if longest is None:
        yield _filled("pauses_not_assessed")
    elif count:
        name = "pauses" if longest.confirmed else "pauses_open"
        yield _filled(name, pause=pause_s, count=count, longest=longest.value)
    else:
        name = "pauses_none_open" if unsure or not longest.confirmed else "pauses_none"
        if _partly_counted(events):
            name = f"{name}_counted"
        yield _filled(name, pause=pause_s, percent=per_cent(events.usable_percent))
    if pauses.not_confirmed:
        yield _filled("intervals_review", count=len(pauses.not_confirmed))
    if pauses.not_assessed:
        yield _filled("intervals_unusable", count=pauses.not_assessed)
    if pauses.ends:
        yield _filled("ends", seconds=max(end.value for end in pauses.ends))
