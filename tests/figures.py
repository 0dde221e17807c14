"""Figures of a page that come from a results file of ``benchmarks``: where they stand, and where they are read."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

#: How a figure is read from a results file: the keys that lead to it, a dictionary choosing the one element of a list
#: that has these values; or a function of the file.
Way = tuple[str | int | Mapping[str, Any], ...] | Callable[[Any], float]
_PLACE = re.compile(r"\{(\d|e)(%?)\}")


def flat(text: str) -> str:
    """Return a text on one line, as it is searched."""
    return " ".join(text.split())


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
        first, *rest = _PLACE.split(flat(self.text))
        parts = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        pattern = re.escape(first) + "".join(f"({_number(d)}){share}{re.escape(words)}" for d, share, words in parts)
        found = list(re.finditer(pattern, flat(page)))
        assert len(found) == 1, f"{self.page} has {len(found)} times, not once: {self.text}"
        return found[0]

    def check(self, page: str, results: Any) -> None:
        """Compare a page's text with a results file; raises AssertionError, or LookupError where the file lacks one."""
        for written, (_, share), way in zip(self.find(page).groups(), self.places(), self.ways, strict=True):
            number = Decimal(written.replace(",", ""))
            value = _read(way, results) * (100 if share else 1)
            half = Decimal(1).scaleb(int(number.as_tuple().exponent)) / 2
            assert abs(number - value) <= half, f"{self.page}: {written} in {self.text!r}; {self.source} has {value}"

    def places(self) -> Iterator[tuple[str, str]]:
        """Yield with how many decimals each figure is written, and whether as a share."""
        yield from _PLACE.findall(self.text)


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
