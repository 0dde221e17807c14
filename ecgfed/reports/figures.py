"""The figures of a recording's report, each with its unit, its code, and why it was not assessed where it was not.

Where the LOINC codes were looked up: docs/decisions/0091-report-for-other-programs.md.
"""

from collections.abc import Iterator

from ecgfed.base.language import tr, tr_later, translated
from ecgfed.base.text import count_of
from ecgfed.domain.events.axis import AXES
from ecgfed.domain.events.certainty import SHORTEST_S
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.figure import Figure, Measurement
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.rate_episodes import BRADYCARDIA, TACHYCARDIA
from ecgfed.domain.events.rhythm import At
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.reports.headline import AF, FEW_INTERVALS, STANDSTILL, is_strip, rhythms_assessed
from ecgfed.reports.interval_table import TITLES, Overall, error_text
from ecgfed.reports.markup import clock
from ecgfed.reports.recording_parts import RecordingParts
from ecgfed.reports.st_trend import st_figures

NO_BEAT, NO_CLASS = tr_later("no beat was counted"), tr_later("the labels have no such class")
_NO_INTERVAL = tr_later("not measured")
_PACED, _SHORT = "not detected in a paced rhythm", f"not detected in recordings shorter than {SHORTEST_S:g} s"
_UNREAD = "no part of the signal can be assessed"
_FEW, _NO_RUN = "too few intervals can be used", "no certain run"
_SYMPTOMS = "the patient's events are listed; what the patient felt is not assessed"
#: Times of patient events beside their count at most.
_TIMES = 20
#: A recording of about a day has rates of 24 hours in LOINC.
_DAY_S = (23 * 3600.0, 25 * 3600.0)
_MEAN, _MEAN_24H = ("103205-1", "Mean heart rate"), ("41924-2", "Heart rate 24 hour mean")
_LOWEST_24H, _HIGHEST_24H = ("8883-1", "Heart rate 24 hour minimum"), ("8873-2", "Heart rate 24 hour maximum")
_AXIS_CODES = {"qrs_axis_deg": ("8632-2", "QRS axis")}
_SDNN = ("80404-7", "R-R interval.standard deviation (Heart rate variability)")
#: What a rhythm is called in a report and in files of labels -> the rhythm that is looked for, and its figure's name.
_RHYTHMS = {
    "AF or flutter": (AF, "af"),
    "AF": (AF, "af"),
    "atrial flutter": (AF, "af"),
    BRADYCARDIA: (BRADYCARDIA, BRADYCARDIA),
    TACHYCARDIA: (TACHYCARDIA, TACHYCARDIA),
    "no beats": (STANDSTILL, STANDSTILL),
}
#: How the names of figures begin of rhythms that only some recordings have.
OTHER_RHYTHM = "rhythm "


def not_assessed(parts: RecordingParts) -> list[tuple[str, str]]:
    """Return the findings that a report does not assess, each with the reason, in the current language."""
    events = parts.events
    ectopic = ((Kind.VENTRICULAR, tr("Ventricular ectopy")), (Kind.SUPRA, tr("Supraventricular ectopy")))
    marked = any(rhythm.source == "labels" for rhythm in parts.rhythms)
    return [
        *((title, translated(_no_ectopy(parts, kind))) for kind, title in ectopic if events.ectopic[kind] is None),
        (
            tr("Atrial fibrillation and flutter"),
            tr("only as marked in the labels' file") if marked else _fibrillation_limits(parts),
        ),
        (
            tr("Ventricular flutter and fibrillation"),
            tr("typical waves raise a warning, others may be counted as beats"),
        ),
        (
            tr("AV block"),
            tr("possible second-degree block is named where blocked P waves lie half-way; no other AV block is"),
        ),
        (tr("ST changes and the T wave"), tr("the ST level is an experimental trend that nothing is concluded from")),
        *((tr("{interval} interval", interval=title), translated(why)) for title, why in _no_intervals(parts)),
        (tr("Pacemaker function"), tr("capture and sensing are not assessed")),
        (
            tr("Symptoms and activity"),
            tr("the patient's events are listed; what the patient felt is not assessed")
            if parts.patient_events
            else tr("not part of the recording"),
        ),
    ]


def _fibrillation_limits(parts: RecordingParts) -> str:
    """Return which fibrillation and flutter a report misses."""
    if parts.duration_s < SHORTEST_S:
        return tr("not assessed in a recording shorter than {seconds:g} s", seconds=SHORTEST_S)
    if parts.fibrillation_from_s is None:
        return tr("no part of the signal can be assessed")
    if is_strip(parts.fibrillation_from_s, parts.duration_s):
        return tr(
            "the recording is judged as a whole: episodes in a part of it, in a paced rhythm, and flutter with regular "
            "intervals are missed, none is excluded before or after it; the two are not told apart"
        )
    return tr(
        "episodes shorter than 30 s, in a paced rhythm, and flutter with regular intervals are missed; the two are not "
        "told apart"
    )


def _no_ectopy(parts: RecordingParts, kind: Kind) -> str:
    return parts.events.withheld.get(kind, NO_CLASS if parts.events.counted else NO_BEAT)


def figures(parts: RecordingParts, lead: str = "one lead") -> tuple[Figure, ...]:
    """Return every figure of a report, in its order. Names and their order are the same for every recording.

    The figures of rhythms that only some recordings have, ``OTHER_RHYTHM``, come last.

    Args:
        parts: the content of the report.
        lead: what the lead in use is called, in remarks; the recording's own name of it may name the patient.
    """
    return (
        *_recording(parts),
        *_rates(parts),
        *_variability(parts),
        *_ectopy(parts, Kind.VENTRICULAR),
        *_ectopy(parts, Kind.SUPRA),
        *_intervals(parts, lead),
        *_axes(parts),
        *st_figures(parts.st),
        *_rhythms(parts),
    )


def _recording(parts: RecordingParts) -> Iterator[Figure]:
    (lead,) = (row for row in parts.leads if row.name == parts.lead)
    yield Figure("duration_s", "Length of the recording", "s", round(parts.duration_s, 3))
    yield Figure("usable_s", "Usable time of the lead that was read", "s", round(lead.usable_s, 3))
    yield Figure("usable_percent", "Usable share of the lead that was read", "%", lead.percent)
    yield Figure("beats", "Beats", "1", parts.events.total)
    yield Figure("beats_counted", "Beats counted", "1", parts.events.counted)
    events = parts.patient_events
    times = ", ".join(clock(event.time_s) for event in events[:_TIMES])
    more = f" and {len(events) - _TIMES:,} more" if len(events) > _TIMES else ""
    remark = f"at {times}{more} from the start of the recording" if events else ""
    missing = "" if events else "no event marker in the recording's files, and no diary"
    yield Figure("patient_events", "Patient events", "1", len(events) or None, missing, remark=remark)


def _rates(parts: RecordingParts) -> Iterator[Figure]:
    rates, pauses = parts.events.rates, parts.events.pauses
    day = _DAY_S[0] <= parts.duration_s <= _DAY_S[1]
    few = f"of {count_of(rates.intervals, 'interval')} alone" if rates.intervals < FEW_INTERVALS else ""
    code = _MEAN_24H if day else _MEAN
    mean = Figure("heart_rate_mean_per_min", "Mean heart rate", "/min", rates.mean, loinc=code, remark=few)
    yield mean if rates.mean is not None else _missing(mean, _FEW)
    extremes: tuple[tuple[str, str, At | None, At | None, tuple[str, str] | None], ...] = (
        ("lowest", "Lowest heart rate", rates.lowest, rates.lowest_possible, _LOWEST_24H),
        ("highest", "Highest heart rate", rates.highest, rates.highest_possible, _HIGHEST_24H),
        ("slowest_minute", "Heart rate of the slowest minute", rates.slowest_minute, None, None),
        ("fastest_minute", "Heart rate of the fastest minute", rates.fastest_minute, None, None),
    )
    for name, title, at, possible, loinc in extremes:
        remark = "" if possible is None else f"possibly {possible.value:.0f}/min"
        yield _at(f"heart_rate_{name}_per_min", title, "/min", at, _FEW, remark, loinc if day else None)
    count = Figure("pauses", "Pauses", "1", len(pauses.intervals), remark=_unsure(parts))
    yield count if pauses.longest is not None else _missing(count, _FEW)
    yield _at("longest_interval_s", "Longest interval between two beats", "s", pauses.longest, _FEW)


def _unsure(parts: RecordingParts) -> str:
    """Return what may be pauses and was counted as none."""
    pauses = parts.events.pauses
    counts = {"not confirmed": len(pauses.not_confirmed), "in or beside unusable stretches": pauses.not_assessed}
    return ", ".join(f"{count} more {what}" for what, count in counts.items() if count)


def _at(
    name: str, title: str, unit: str, at: At | None, reason: str, remark: str = "", loinc: tuple[str, str] | None = None
) -> Figure:
    """Return the figure of a value at a place, which may be missing or not confirmed."""
    if at is None:
        return Figure(name, title, unit, None, f"{reason}{'; ' * bool(remark)}{remark}", loinc)
    remarks = ", ".join(filter(None, ("" if at.confirmed else "not confirmed", remark)))
    return Figure(name, title, unit, at.value, loinc=loinc, remark=remarks, start_s=at.start_s)


def _missing(figure: Figure, reason: str) -> Figure:
    return Figure(figure.name, figure.title, figure.unit, None, reason, figure.loinc)


def _variability(parts: RecordingParts) -> Iterator[Figure]:
    of = parts.events.variability
    reason = f"fewer than {parts.events.rules.hrv_intervals} normal-to-normal intervals"
    if of.other_rhythm:
        reason += f" in sinus rhythm, {of.other_rhythm:,} more in other rhythms"
    if of.low_confidence:
        reason = "most beats of the normal-to-normal intervals are of low confidence"
    paced = parts.provisional and "paced" in (code for code, _ in parts.warnings)
    remark = "the rhythm is paced, and a model calls paced beats normal: do not read it" if paced else ""
    for name, title, value, loinc in (
        ("nn_mean_ms", "Mean normal-to-normal interval", of.mean_nn_ms, None),
        ("sdnn_ms", "SDNN", of.sdnn_ms, _SDNN),
        ("rmssd_ms", "RMSSD", of.rmssd_ms, None),
    ):
        yield (
            Figure(name, title, "ms", value, reason, loinc)
            if value is None
            else Figure(name, title, "ms", value, loinc=loinc, remark=remark)
        )


def _ectopy(parts: RecordingParts, kind: Kind) -> Iterator[Figure]:
    """Yield the figures of a kind of ectopic beats: certain series, and those to be reviewed."""
    word, ectopy = KIND_WORDS[kind], parts.events.ectopic[kind]
    fast = "VT" if kind is Kind.VENTRICULAR else "SVT"
    values = {} if ectopy is None else _ectopy_values(ectopy, fast.lower())
    for key, title, unit, missing in (
        ("beats", "ectopic beats", "1", ""),
        ("percent", "burden in percent of all counted beats", "%", ""),
        ("low_confidence", "beats of low confidence", "1", "labels without confidence"),
        ("couplets", "couplets", "1", ""),
        ("couplets_to_review", "couplets, to review", "1", ""),
        ("runs", "runs", "1", ""),
        ("runs_to_review", "runs, to review", "1", ""),
        (fast.lower(), f"runs that are {fast}", "1", ""),
        (f"{fast.lower()}_to_review", f"runs that are {fast}, to review", "1", ""),
        ("longest_run_beats", "run, beats of the longest", "1", _NO_RUN),
        ("fastest_run_per_min", "run, rate of the fastest", "/min", _NO_RUN),
    ):
        value = values.get(key)
        reason = "" if value is not None else missing if ectopy is not None else _no_ectopy(parts, kind)
        yield Figure(f"{word}_{key}", f"{word.capitalize()} {title}", unit, value, reason)


def _ectopy_values(ectopy: Ectopy, fast: str) -> dict[str, float | None]:
    """Return the figures of a kind by their key; longest and fastest are of certain runs."""
    values: dict[str, float | None] = {
        "beats": ectopy.total,
        "percent": ectopy.percent,
        "low_confidence": ectopy.uncertain,
    }
    for key, series in (("couplets", ectopy.couplets), ("runs", ectopy.runs), (fast, ectopy.tachycardias)):
        review = sum(item.review for item in series)
        values |= {key: len(series) - review, f"{key}_to_review": review}
    certain = [run for run in ectopy.runs if not run.review]
    values["longest_run_beats"] = max((run.beats for run in certain), default=None)
    values["fastest_run_per_min"] = max((run.per_min for run in certain), default=None)
    return values


def _no_intervals(parts: RecordingParts) -> Iterator[tuple[str, str]]:
    """Yield the intervals that are nowhere measured, and why."""
    for name, title in TITLES.items():
        overall = Overall(None, not_assessed=_NO_INTERVAL) if parts.intervals is None else parts.intervals.overall(name)
        if overall.value is None:
            yield title, overall.not_assessed


def _intervals(parts: RecordingParts, lead: str) -> Iterator[Figure]:
    """Yield the intervals of the average normal beat, the median of the hours."""
    missing = dict(_no_intervals(parts))
    for name, key, title, code in (
        ("pr_interval_ms", "pr_ms", "P-R Interval", "8625-6"),
        ("qrs_duration_ms", "qrs_ms", "QRS duration", "8633-0"),
        ("qt_interval_ms", "qt_ms", "Q-T interval", "8634-8"),
        ("qtc_bazett_ms", "qtc_bazett_ms", "Q-T interval corrected by Bazett", ""),
        ("qtc_fridericia_ms", "qtc_fridericia_ms", "Q-T interval corrected by Fridericia", ""),
    ):
        loinc, overall = (code, title) if code else None, parts.intervals and parts.intervals.overall(key)
        if not overall or overall.value is None:
            yield Figure(name, title, "ms", None, missing[TITLES[key]], loinc)
            continue
        remark = f"of the average normal beat in {lead}"
        if title.startswith("Q-T"):
            remark += f"; the end of T in one lead was {error_text('t_end')} ms late against a cardiologist's marks"
        yield Figure(name, title, "ms", overall.value, loinc=loinc, remark=remark)


def _axes(parts: RecordingParts) -> Iterator[Figure]:
    """Yield the axes of the average normal beat in the frontal plane."""
    for name, title in AXES.items():
        axis = Measurement(None, None, 0, "no twelve leads") if parts.twelve is None else parts.twelve.axes[name]
        remark = "" if axis.value is None else "of the average normal beat, by the net areas in I and aVF"
        yield Figure(name, title, "deg", axis.value, axis.not_assessed, _AXIS_CODES.get(name), remark)


def _rhythms(parts: RecordingParts) -> Iterator[Figure]:
    """Yield time and share of the rhythms that are looked for, then the time of all others."""
    assessed = rhythms_assessed(parts.events, parts.duration_s, parts.fibrillation_from_s)
    marked = any(rhythm.source == "labels" for rhythm in parts.rhythms)
    paced = any(rhythm.rhythm == "paced" and rhythm.source == "signal" for rhythm in parts.rhythms)
    not_detected = _SHORT if parts.duration_s < SHORTEST_S else _UNREAD if parts.fibrillation_from_s is None else ""
    not_detected = _PACED if paced else not_detected
    strip = is_strip(parts.fibrillation_from_s, parts.duration_s)
    seconds = dict.fromkeys(dict(_RHYTHMS.values()), 0.0)
    other: list[RhythmEpisodes] = []
    for rhythm in parts.rhythms:
        if rhythm.rhythm in _RHYTHMS:
            seconds[_RHYTHMS[rhythm.rhythm][0]] += rhythm.seconds
        else:
            other.append(rhythm)
    for title, name in dict(_RHYTHMS.values()).items():
        missing = not_detected if title == AF and not marked else ""
        looked_for = title in assessed or bool(title == AF and marked and parts.events.counted)
        known = (looked_for and not missing) or seconds[title] > 0
        reason = "" if known else NO_BEAT if not parts.events.counted else missing or _FEW
        remark = ""
        if known and title == AF and (marked or strip):
            remark = "as marked in the labels' file" if marked else "judged as a whole; nothing is known of other times"
        time, share = round(seconds[title], 3), 100 * seconds[title] / parts.duration_s
        words = title.capitalize()
        yield Figure(f"{name}_s", f"{words}, time", "s", time if known else None, reason, remark=remark)
        yield Figure(f"{name}_percent", f"{words}, share", "%", share if known else None, reason, remark=remark)
    for rhythm in other:
        name = f"{OTHER_RHYTHM}{rhythm.rhythm}"
        yield Figure(name, f"{rhythm.rhythm[:1].upper()}{rhythm.rhythm[1:]}, time", "s", round(rhythm.seconds, 3))
