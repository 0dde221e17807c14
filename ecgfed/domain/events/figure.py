"""One figure of a report, with its unit and its code."""

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
