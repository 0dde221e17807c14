"""An event that a patient marked on the recorder or wrote in a diary."""

from dataclasses import dataclass

from ecgfed.base.language import tr_later

#: Names of events by their source.
RECORDER, DIARY = tr_later("patient event"), tr_later("diary entry")


@dataclass(frozen=True)
class PatientEvent:
    """An event that a patient marked or wrote down.

    Attributes:
        time_s: when, in seconds from the start of the recording.
        text: what the file says of it, one printable line; it may name somebody.
        source: ``RECORDER`` or ``DIARY``.
    """

    time_s: float
    text: str = ""
    source: str = RECORDER
