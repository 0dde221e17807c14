"""Figures of a page that come from a results file of ``benchmarks``: where they stand, and where they are read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

#: How a figure is read from a results file: the keys that lead to it, a dictionary choosing the one element of a list
#: that has these values; or a function of the file.
Way = tuple[str | int | Mapping[str, Any], ...] | Callable[[Any], float]
_PLACE = re.compile(r"\{(\d|e)(%?)\}")


@dataclass(frozen=True)
class Figures:
    """A sentence or a row of a table.

    Attributes:
        page: the page.
        text: its words. ``{2}`` is a figure with two decimals, ``{0%}`` a share written as ``28%``, ``{e}`` one
            written as ``1.2e-5``.
        source: the results file, below ``benchmarks``.
        ways: how each figure is read.
    """

    page: str
    text: str
    source: str
    ways: tuple[Way, ...]

    def __post_init__(self) -> None:
        assert len(_PLACE.findall(self.text)) == len(self.ways) >= 1, self.text

    def find(self, page: str) -> re.Match[str]:
        """Return where the text stands in a page, a group for each figure; raises AssertionError."""
        first, *rest = _PLACE.split(self.text.strip())
        parts = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        pattern = _words(first) + "".join(f"({_number(d)}){share}{_words(words)}" for d, share, words in parts)
        matches = list(re.finditer(pattern, page))
        assert len(matches) == 1, f"{self.page} has {len(matches)} times, not once: {self.text}"
        return matches[0]

    def fill(self, page: str, results: Any) -> str:
        """Return a page's text with the figures of a results file; raises LookupError where the file lacks one.

        A figure that is right to its last digit stays as it is written.
        """
        match = self.find(page)
        for place, ((digits, share), way) in reversed(list(enumerate(zip(self.places(), self.ways, strict=True), 1))):
            value = _read(way, results) * (100 if share else 1)
            page = page[: match.start(place)] + _rounded(match[place], digits, value) + page[match.end(place) :]
        return page

    def places(self) -> list[tuple[str, str]]:
        """Return with how many decimals each figure is written, and whether as a share."""
        return _PLACE.findall(self.text)


def _words(text: str) -> str:
    """Return the pattern of words, which a page may break into lines anywhere."""
    return r"\s+".join(map(re.escape, re.split(r"\s+", text)))


def _rounded(written: str, digits: str, value: Decimal) -> str:
    number = Decimal(written.replace(",", ""))
    if abs(number - value) <= Decimal(1).scaleb(int(number.as_tuple().exponent)) / 2:
        return written
    sign = "+" if written.startswith("+") else ""
    return re.sub(r"e([-+])0", r"e\1", f"{value:{sign}.1e}") if digits == "e" else f"{value:{sign},.{digits}f}"


def _number(digits: str) -> str:
    decimals = (
        r"\d?\.\d+e-?\d+" if digits == "e" else r"\d[\d,]*" if digits == "0" else rf"(?:\d[\d,]*)?\.\d{{{digits}}}"
    )
    return rf"(?<![\d.])[-+]?{decimals}(?![.,]?\d)"


def _read(way: Way, results: Any) -> Decimal:
    if callable(way):
        return Decimal(repr(float(way(results))))
    for key in way:
        if isinstance(key, Mapping):
            (results,) = [one for one in results if all(one[name] == value for name, value in key.items())]
        else:
            results = results[key]
    assert isinstance(results, int | float), f"{way} leads to no number"
    return Decimal(repr(results))


def figures(page: str, source: str, texts: Mapping[str, tuple[Way, ...]]) -> list[Figures]:
    """Return the figures that a page has from one results file, by the sentence or row of a table they stand in."""
    return [Figures(page, text, source, ways) for text, ways in texts.items()]
