"""How many beats, annotations or recordings were read, used and excluded, each with its reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from ecgfed.base.errors import param
from ecgfed.base.language import Spelled, joined_message, message, messages, name_message, tr_later, trn_later
from ecgfed.base.text import count_of

#: Above this share of what was read an exclusion is a warning, with advice.
WARN_SHARE = 0.10
#: Reason -> what it means after a number, and what to do where it excludes much; "" where nobody is warned.
REASONS: dict[str, tuple[str, str]] = {
    "other_class": ("of symbols that no class claims", f"choose other classes with {param('classes')}"),
    "calibration": (tr_later("that are calibration pulses"), tr_later("leave that part of the recording out")),
    "no_signal": (
        tr_later("whose window shows no signal"),
        message("see 'ecgfed inspect', or choose another lead with {option}", option=param("leads")),
    ),
    "end_noise": (
        tr_later("in noise before the first or after the last QRS complex"),
        tr_later("see 'ecgfed inspect'"),
    ),
    "split_gap": ("in the gap before a later part of the split", ""),
    "not_training": ("that are no training beat of the first lead", ""),
    "removed": (tr_later("that a reviewer removed"), ""),
    "poor_lead": (tr_later("of leads half of whose beats lie in stretches of poor quality"), ""),
    "unmarked": (tr_later("where the labels mark no beats"), tr_later("see the labels' flutter and shutdown marks")),
    "poor_quality": (
        tr_later("in stretches of poor quality"),
        message("see 'ecgfed inspect', or train without {option}", option=param("leave_out")),
    ),
    "no_annotation": (
        "detected where no beat is annotated",
        f"check the annotation, or use {param('peaks')} annotated",
    ),
    "no_peak": ("annotated where no beat is detected", f"see 'ecgfed inspect', or use {param('peaks')} annotated"),
    "beyond_end": (
        tr_later("annotated at or after the recording's end"),
        tr_later("check that the annotation is this recording's"),
    ),
    "not_read": (tr_later("that cannot be read beside the lead"), ""),
    "no_ecg": (tr_later("that are no ECG"), ""),
    "not_annotated": ("without annotations under test", f"check {param('test')} and {param('test_folder')}"),
    "unusable": ("that cannot be used", "mend those that the warnings name"),
    "no_lead": ("without the lead", f"choose another lead with {param('leads')}"),
    "copies": ("that are excerpts of another database", ""),
    "too_short": ("shorter than 10 s", ""),
    "all_noise": ("that are noise from end to end", ""),
    "none_detected": ("in which no beat is detected", ""),
    "no_beats": ("without a beat of any class", f"choose other classes with {param('classes')}"),
}

#: What is read of a single recording.
_NOUNS = {
    "beat": trn_later("{n} beat", "{n} beats"),
    "channel": trn_later("{n} channel", "{n} channels"),
    "annotation": trn_later("{n} annotation", "{n} annotations"),
}


class Counted(TypedDict):
    """``Exclusions`` as JSON: ``read`` is ``used`` and the sum of ``excluded``."""

    read: int
    used: int
    excluded: dict[str, int]


@dataclass(frozen=True)
class Exclusions:
    """How many of something were read, and how many of them were excluded for which reason.

    Attributes:
        what: the singular noun: ``beat``, ``annotation``, ``recording``, ``training beat``.
        read: how many there were.
        excluded: key of ``REASONS`` -> how many; no two reasons count the same one.
        symbols: WFDB symbol -> how many of the beats excluded as ``other_class`` have it.
    """

    what: str
    read: int
    excluded: Mapping[str, int] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """How many are left."""
        return self.read - sum(self.excluded.values())

    @property
    def line(self) -> str:
        """All of it in one line without full stop; ``""`` where nothing was excluded."""
        parts = [
            message("{n} {reason}", n=count, reason=name_message(f"{REASONS[reason][0]}{self._of(reason)}"))
            for reason, count in self._some()
        ]
        if not parts:
            return ""
        nouns, count = _NOUNS.get(self.what), self.read
        read = messages(*nouns, count) if nouns else name_message(count_of(count, self.what))
        return message(
            "{read} read, {used} used; excluded: {parts}", read=read, used=self.used, parts=joined_message(parts, ", ")
        )

    @property
    def warning(self) -> str:
        """The line with advice where more than ``WARN_SHARE`` was excluded, else ``""``."""
        counted = [(reason, count) for reason, count in self._some() if REASONS[reason][1]]
        share = sum(count for _, count in counted) / max(1, self.read)
        if share <= WARN_SHARE:
            return ""
        reason = max(counted, key=lambda item: item[1])[0]
        advice = Spelled(REASONS[reason][1])
        if self.what == "beat":
            return message(
                "{share:.0%} of the beats are not used ({line}); {advice}", share=share, line=self.line, advice=advice
            )
        return f"{share:.0%} of the {self.what}s are not used ({self.line}); {advice}"

    def as_json(self) -> Counted:
        """Return ``read``, ``used`` and ``excluded`` by reason."""
        return {"read": self.read, "used": self.used, "excluded": dict(self._some())}

    @classmethod
    def summed(cls, parts: Iterable["Exclusions"], what: str) -> "Exclusions":
        """Return several together."""
        read, excluded, symbols = 0, Counter[str](), Counter[str]()
        for part in parts:
            read += part.read
            excluded.update(part.excluded)
            symbols.update(part.symbols)
        return cls(what, read, dict(excluded), dict(symbols))

    def _some(self) -> list[tuple[str, int]]:
        return [(reason, self.excluded[reason]) for reason in REASONS if self.excluded.get(reason)]

    def _of(self, reason: str) -> str:
        if reason != "other_class" or not self.symbols:
            return ""
        by_count = sorted(self.symbols.items(), key=lambda item: (-item[1], item[0]))
        return f" ({', '.join(f'{count:,} {symbol}' for symbol, count in by_count)})"
