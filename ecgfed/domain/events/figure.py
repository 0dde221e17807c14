"""One figure of a report, with its unit and its code, and one measurement of the average beat."""

from dataclasses import dataclass

#: Code system of what has no code in LOINC. An OID of a UUID needs no registration (ITU-T X.667).
OWN_SYSTEM = "2.25.132120273078761608079340214760085214252"
LOINC = "LOINC"


@dataclass(frozen=True)
class Figure:
    """A figure of a report.

    Attributes:
        name: its stable name, with its unit at the end.
        title: what it is, in words.
        unit: a UCUM code, ``1`` for a count.
        value: None where it was not assessed.
        reason: why it was not assessed; ``""`` where it was.
        loinc: its LOINC code and display name; None where LOINC has none for it.
        remark: what limits the value, such as ``not confirmed``; ``""`` for nothing.
        start_s: where in the recording it was measured, in seconds; None for the whole of it.
    """

    name: str
    title: str
    unit: str
    value: float | None
    reason: str = ""
    loinc: tuple[str, str] | None = None
    remark: str = ""
    start_s: float | None = None

    @property
    def code(self) -> tuple[str, str, str]:
        """Code system (``LOINC`` or ``OWN_SYSTEM``), code and display name."""
        return (LOINC, *self.loinc) if self.loinc else (OWN_SYSTEM, self.name, self.title)


@dataclass(frozen=True)
class Measurement:
    """An interval (ms) or a level (mV) of the average beat.

    Attributes:
        value: of the average beat; None where it was not assessed.
        sd: standard deviation of the single beats; None where not assessed.
        beats: single beats in which it was measured.
        not_assessed: why there is no value; ``""`` where there is one.
    """

    value: float | None
    sd: float | None
    beats: int
    not_assessed: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        rounded = {name: None if x is None else round(x, 3) for name, x in (("value", self.value), ("sd", self.sd))}
        return {**rounded, "beats": self.beats, **({"not_assessed": self.not_assessed} if self.not_assessed else {})}
