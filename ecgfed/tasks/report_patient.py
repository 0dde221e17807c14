"""What a report states of patient and recording: what the user states, or allows of what the file states."""

from collections.abc import Sequence
from dataclasses import dataclass

from ecgfed.base.errors import OptionError
from ecgfed.base.language import tr_later
from ecgfed.domain.record.anonymous import age_text
from ecgfed.domain.record.exchange import stated_start
from ecgfed.domain.record.metadata import RecordingMetadata, Start
from ecgfed.reports.options import ReportOptions

#: What ``show`` may name, in the order of the page.
SHOWN = ("date", "age", "sex", "recorder", "notes")
#: Their names on the page, and that of the indication.
_NAMES = (tr_later("Date"), tr_later("Age"), tr_later("Sex"), tr_later("Recorder"), tr_later("Indication"))
_SEXES = {"M": tr_later("male"), "F": tr_later("female")}
_NOT_STATED = tr_later("not stated by the recording's file")


@dataclass(frozen=True)
class Shown:
    """What a report may state.

    Attributes:
        names: which of ``SHOWN`` the user allows.
        start: the start that the user states; None for what the file states.
        indication: why the recording was made; ``""`` for nothing.
    """

    names: tuple[str, ...]
    start: Start | None
    indication: str

    def start_of(self, metadata: RecordingMetadata) -> Start:
        """Return the start for the files beside the page: the user's in full, the file's without an unasked date."""
        return self.page_start(metadata) if self.start is None else self.start

    def page_start(self, metadata: RecordingMetadata) -> Start:
        """Return the start for the page, which has its date only where it is asked for."""
        start = metadata.start if self.start is None else self.start
        return start if "date" in self.names else Start(time=start.time)

    def patient(self, metadata: RecordingMetadata) -> tuple[tuple[str, str], ...]:
        """Return names and values of the page's block of patient and recording."""
        start = metadata.start if self.start is None else self.start
        values = {
            "date": start.date.isoformat() if start.date else "",
            "age": "" if metadata.age is None else age_text(metadata.age),
            "sex": _SEXES.get(metadata.sex, ""),
            "recorder": metadata.recorder,
        }
        rows = [(name.capitalize(), values[name] or _NOT_STATED) for name in values if name in self.names]
        return (*rows, *([("Indication", self.indication)] if self.indication else []))


def shown_of(options: ReportOptions) -> Shown:
    """Return what a report may state; raises OptionError for what cannot be shown, or a start that is no time."""
    texts: Sequence[str] = [options.show] if isinstance(options.show, str) else options.show
    names = tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))
    for name in names:
        if name not in SHOWN:
            raise OptionError("show", f"{name!r:.60}", f"some of {', '.join(SHOWN)}", code="unknown-choice")
    return Shown(names, stated_start(options.start), options.indication.strip())
