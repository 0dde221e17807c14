"""The table of ectopic beats of a recording's report: certain series first, then those to be reviewed."""

from collections.abc import Callable

from ecgfed.base.text import count_of
from ecgfed.domain.events.ectopy import Ectopy
from ecgfed.domain.events.find import Events
from ecgfed.domain.events.hours import busiest
from ecgfed.domain.events.kinds import KIND_WORDS, Kind
from ecgfed.domain.events.rules import EventRules
from ecgfed.domain.events.series import Series
from ecgfed.reports.headline import certain_first
from ecgfed.reports.markup import Cell, joined, moment, per_cent, table
from ecgfed.reports.recording_parts import RecordingParts


def _longest(series: tuple[Series, ...]) -> Cell:
    """Return how many episodes there are, and the longest."""
    if not series:
        return "none"
    top = max(series, key=lambda item: (not item.review, item.beats))
    return joined(
        f"{certain_first(series, 'episode')}; {_review(top)}{_bound(top)}{top.beats:,} at ", moment(top.start_s)
    )


def _first(series: tuple[Series, ...], singular: str, plural: str = "") -> Cell:
    """Return how many series are certain, how many more have to be reviewed, and where the first is."""
    if not series:
        return "none"
    first = min(series, key=lambda item: (item.review, item.start_s))
    return joined(f"{certain_first(series, singular, plural)}; {_review(first)}first at ", moment(first.start_s))


def _review(series: Series) -> str:
    return "to review: " if series.review else ""


def _bound(series: Series) -> str:
    """A series that an unusable stretch cuts may be longer."""
    return "at least " if series.cut else ""


def _highest(runs: tuple[Series, ...], value: Callable[[Series], float]) -> Cell:
    """Return the certain run of the greatest value, then the one to review where it exceeds it."""
    certain = max((run for run in runs if not run.review), key=value, default=None)
    review = max((run for run in runs if run.review), key=value, default=None)
    if review is not None and certain is not None and value(review) <= value(certain):
        review = None
    cells = [_run(run) for run in (certain, review) if run is not None]
    return joined(*[joined("; " if at else "", cell) for at, cell in enumerate(cells)]) if cells else "no run"


def _run(run: Series) -> Cell:
    low = f", {run.uncertain:,} of low confidence" if run.uncertain else ""
    bridged = f", across {count_of(run.bridged, 'beat')} of another class" if run.bridged else ""
    text = f"{_review(run)}{_bound(run)}{count_of(run.beats, 'beat')}{low}{bridged}, {run.per_min:.0f}/min"
    return joined(f"{text} ({run.name}) at ", moment(run.start_s))


def _total(ectopy: Ectopy, events: Events) -> Cell:
    if not ectopy.total:
        return "none detected"
    approximately = "about " if ectopy.kind in events.withheld else ""
    low = f", {ectopy.uncertain:,} of low confidence" if ectopy.uncertain else ""
    return f"{approximately}{count_of(ectopy.total, 'beat')}{low}"


def _burden(ectopy: Ectopy, events: Events) -> Cell:
    if ectopy.kind in events.withheld:
        return "withheld"
    high = ectopy.kind is Kind.VENTRICULAR and ectopy.percent > events.rules.high_burden_percent
    return f"{per_cent(ectopy.percent)}{' (high)' if high else ''}"


def _busiest(ectopy: Ectopy, events: Events) -> Cell:
    hour = busiest(events.hours, ectopy.kind)
    if hour is None:
        return "none"
    count = hour.ventricular if ectopy.kind is Kind.VENTRICULAR else hour.supra
    return joined(f"{count:,} from ", moment(hour.start_s, digits=0))


def _tachycardia(ectopy: Ectopy) -> Cell:
    name = "VT" if ectopy.kind is Kind.VENTRICULAR else "SVT"
    return _first(ectopy.tachycardias, name, name)


def _rules(events: Events, codes: dict[Kind, str]) -> dict[str, str]:
    """Return the rule of each figure."""
    rules = events.rules
    every = "every {} beat, " + f"{rules.cycles} times or more, no ectopic beat between"
    return {
        "Beats": f"ventricular: {codes[Kind.VENTRICULAR]}; supraventricular: {codes[Kind.SUPRA]}",
        "Burden": f"of {events.counted:,} counted beats; above {rules.high_burden_percent:g}% ventricular is high",
        "Single": "no neighbour of its kind, and in no bigeminy or trigeminy",
        "Couplets": "2 of a kind in a row",
        "Short series": f"more than 2 of a kind in a row, fewer than {rules.run_beats}",
        "Runs": f"{rules.run_beats} of a kind in a row or more, at any rate; one may go across single beats of low "
        "confidence that keep its rhythm or may be of its kind",
        "Tachycardias": f"runs above {rules.fast_run_per_min:g}/min between first and last beat: ventricular ones "
        f"(VT), supraventricular ones of {rules.svt_beats} beats or more (SVT)",
        "Longest run": "most beats; at least: an unusable stretch cuts it",
        "Fastest run": "rate between first and last beat",
        "Bigeminy": every.format("2nd"),
        "Trigeminy": every.format("3rd"),
        "Busiest hour": "hours from the start of the recording",
    }


def ectopy_table(parts: RecordingParts) -> str:
    """Return counts of ventricular and supraventricular ectopy; of a kind that is withheld, what is to be reviewed."""
    events = parts.events
    both = {kind: certain or events.to_review.get(kind) for kind, certain in events.ectopic.items()}
    figures: dict[str, Callable[[Ectopy], Cell]] = {
        "Beats": lambda ectopy: _total(ectopy, events),
        "Burden": lambda ectopy: _burden(ectopy, events),
        "Single": lambda ectopy: ectopy.singles,
        "Couplets": lambda ectopy: _first(ectopy.couplets, "couplet"),
        "Short series": lambda ectopy: _first(ectopy.short, "series", "series"),
        "Runs": lambda ectopy: _first(ectopy.runs, "run"),
        "Tachycardias": _tachycardia,
        "Longest run": lambda ectopy: _highest(ectopy.runs, lambda run: run.beats),
        "Fastest run": lambda ectopy: _highest(ectopy.runs, lambda run: run.per_min),
        "Bigeminy": lambda ectopy: _longest(ectopy.bigeminy),
        "Trigeminy": lambda ectopy: _longest(ectopy.trigeminy),
        "Busiest hour": lambda ectopy: _busiest(ectopy, events),
    }
    if not any(ectopy is not None and ectopy.short for ectopy in both.values()):
        del figures["Short series"]
    rule = _rules(
        events, {kind: " ".join(row.code for row in parts.classes if row.kind is kind) or "-" for kind in both}
    )
    rows = [
        (
            name,
            *(_absent(events, kind) if ectopy is None else cell(ectopy) for kind, ectopy in both.items()),
            rule[name],
        )
        for name, cell in figures.items()
    ]
    head = [
        f"{KIND_WORDS[kind].capitalize()}{' (to review, no finding)' if kind in events.to_review else ''}"
        for kind in both
    ]
    return table("Counts of ectopic beats", ("Figure", *head, "Rule"), rows, kind="rules")


def _absent(events: Events, kind: Kind) -> Cell:
    return "withheld" if kind in events.withheld else None


def review_rule(rules: EventRules) -> str:
    """Return which series are certain."""
    return (
        "A series is certain where none of its beats is of low confidence. A ventricular one above "
        f"{rules.fast_run_per_min:g}/min is certain too where at most {rules.certain_unlike_percent:g}% of its beats "
        "are unlike those the model was trained on and three in a row (of a couplet both) have a mean probability of "
        f"{rules.certain_probability:g} or more. All others are to be reviewed. A count is withheld where more than "
        f"{rules.withheld_percent:g}% of its beats, and {rules.withheld_beats} or more, are of low confidence."
    )
