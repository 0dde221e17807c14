"""Which annotation symbol is which class: MIT-BIH's twelve, AAMI's five, or a user's own file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, param
from ecgfed.base.safe_io import MAX_TOML_BYTES, check_labels, parse_json, parse_toml, read_bounded
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.record.recording import BEAT_SYMBOLS

#: The classes with more than 17 beats on the 46 MIT-BIH records that have MLII, by falling count.
_MITBIH12 = ("N", "L", "R", "V", "/", "A", "F", "f", "j", "a", "E", "J")
#: de Chazal, O'Dwyer and Reilly, IEEE Trans Biomed Eng 51(7):1196-1206, 2004, table 1.
_AAMI5 = {"N": "NLRej", "S": "AaJS", "V": "VE", "F": "F", "Q": "/fQ"}
#: WFDB's bxb puts both escape beats of supraventricular origin into S.
_AAMI5_BXB = {"N": "NLR", "S": "AaJSej", "V": "VE", "F": "F", "Q": "/fQ"}


@dataclass(frozen=True, repr=False)
class LabelMap:
    """A set of classes and the symbols that belong to each.

    Attributes:
        name: ``mitbih12``, ``aami5``, ``aami5-bxb`` or the file it came from.
        classes: class names, in order of their number.
        symbols: WFDB symbol -> class name; symbols that are not here are left out of a cohort.
    """

    name: str
    classes: tuple[str, ...]
    symbols: dict[str, str]

    def __repr__(self) -> str:
        name, classes = shortened(self.name, 60), shortened(", ".join(self.classes))
        return f"LabelMap({name!r}: {count_of(len(self.classes), 'class')}: {classes})"

    def encode(self, symbol: NDArray[np.str_]) -> NDArray[np.int16]:
        """Return the class number of each symbol, -1 where a symbol has none; (marks,) int16."""
        number = {name: i for i, name in enumerate(self.classes)}
        unique, inverse = np.unique(symbol, return_inverse=True)
        codes = np.array([number[self.symbols[s]] if s in self.symbols else -1 for s in unique], dtype=np.int16)
        return codes[inverse] if len(unique) else np.empty(0, np.int16)

    def symbol_of(self, class_name: str) -> str:
        """Return the WFDB symbol that stands for a class in an annotation file (its own name where it is one)."""
        if self.symbols.get(class_name) == class_name:
            return class_name
        return next(symbol for symbol, name in self.symbols.items() if name == class_name)

    def as_json(self) -> dict[str, Any]:
        """Return the map as it is written into cohort and manifest files."""
        return {"name": self.name, "classes": list(self.classes), "symbols": self.symbols}

    @staticmethod
    def from_json(value: dict[str, Any]) -> "LabelMap":
        """Read what ``as_json`` wrote."""
        return LabelMap(str(value["name"]), tuple(value["classes"]), dict(value["symbols"]))


def _by_class(name: str, table: dict[str, str]) -> LabelMap:
    return LabelMap(name, tuple(table), {symbol: cls for cls, symbols in table.items() for symbol in symbols})


BUILT_IN = {
    "mitbih12": LabelMap("mitbih12", _MITBIH12, {symbol: symbol for symbol in _MITBIH12}),
    "aami5": _by_class("aami5", _AAMI5),
    "aami5-bxb": _by_class("aami5-bxb", _AAMI5_BXB),
}


def load_label_map(name_or_file: str) -> LabelMap:
    """Return a built-in label map, or read one from a JSON or TOML file.

    A file holds ``classes``, a table of class name -> list of WFDB symbols, in the order wanted::

        [classes]
        normal = ["N", "L", "R"]
        ventricular = ["V", "E"]

    Raises:
        OptionError: unknown name, unreadable file, a class without symbols, a symbol in two classes, under two
            classes, a symbol that is no WFDB beat.
    """
    if name_or_file in BUILT_IN:
        return BUILT_IN[name_or_file]
    path = Path(name_or_file)
    expected = f"one of {', '.join(BUILT_IN)}, or a JSON or TOML file with a table 'classes'"
    try:
        is_file = path.is_file()
    except OSError:  # a name too long for a file, such as the map itself
        is_file = False
    if not is_file:
        raise OptionError(
            "classes", f"{name_or_file!r:.200} is no known class map and no file", expected, code="unknown-choice"
        )
    try:
        data = read_bounded(path, MAX_TOML_BYTES, OptionError, f"{param('classes')} {path}")
        value = parse_toml(data) if path.suffix.lower() == ".toml" else parse_json(data)
        table = value["classes"]
        items = [(str(cls), [str(symbol) for symbol in symbols]) for cls, symbols in table.items()]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as problem:
        raise OptionError(f"{param('classes')} {path}", f"cannot be read ({problem})", expected) from problem
    check_labels((cls for cls, _ in items), "class", f"{param('classes')} {path}", OptionError)
    class_of_symbol: dict[str, str] = {}
    for cls, symbols in items:
        if not symbols:
            raise OptionError(f"{param('classes')} {path}", f"class {cls!r} has no symbols", "at least one")
        for symbol in symbols:
            if symbol not in BEAT_SYMBOLS:
                known = " ".join(sorted(BEAT_SYMBOLS))
                expected = f"a WFDB beat symbol, one of {known}"
                raise OptionError(f"{param('classes')} {path}", f"symbol {symbol!r}", expected)
            if symbol in class_of_symbol:
                raise OptionError(
                    f"{param('classes')} {path}",
                    f"symbol {symbol!r} is in {class_of_symbol[symbol]!r} and {cls!r}",
                    "one",
                )
            class_of_symbol[symbol] = cls
    if len(items) < 2:
        raise OptionError(f"{param('classes')} {path}", count_of(len(items), "class"), "two or more")
    return LabelMap(path.name, tuple(cls for cls, _ in items), class_of_symbol)
