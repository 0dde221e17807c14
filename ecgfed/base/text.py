"""Escape untrusted text for terminals, JSON and CSV; format counts and lists; suggest similar names."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

#: Characters that a terminal interprets or that are invisible: control characters (C0, DEL, C1), direction marks and
#: overrides, invisible and tag characters, and lone surrogates, which cannot be encoded. The joiners U+200C and U+200D
#: are allowed, since some languages need them.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
#: First characters that make a spreadsheet treat a cell as a formula.
_FORMULA = "=+-@\t\r\n"
#: Names that other frameworks use -> ours, both without hyphens and underscores.
_ELSEWHERE = {
    "learningrate": "lr",
    "stepsize": "lr",
    "eta": "lr",
    "clientlr": "lr",
    "serverlearningrate": "serverlr",
    "wd": "weightdecay",
    "l2": "weightdecay",
    "loss": "risk",
    "criterion": "risk",
    "epochs": "localepochs",
    "bs": "batchsize",
    "model": "net",
    "algorithm": "method",
    "strategy": "method",
    "randomstate": "seed",
    "njobs": "workers",
}
_LINE_ENDS = re.compile("\r\n|[\t\n\r\x85\u2028\u2029]")


def safe_text(text: str) -> str:
    """Return text as a single line without characters that a terminal would interpret.

    Line ends and tabs become spaces; the characters in ``_HIDDEN`` become Python escapes: ``\\x1b``, ``\\u202e``. Text
    that is already safe is returned unchanged.
    """
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), _LINE_ENDS.sub(" ", text))


def shortened(text: str, max_length: int = 100) -> str:
    """Return ``safe_text`` truncated to ``max_length`` characters, for a ``repr``."""
    safe = safe_text(text)
    return safe if len(safe) <= max_length else f"{safe[: max_length - 3]}..."


def safe_json(text: str) -> str:
    """Return an equivalent JSON document with the characters in ``_HIDDEN`` escaped; line ends are unchanged."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] in "\n\r\t" else _json_escape(match[0]), text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def safe_cell(text: str) -> str:
    """Return text for a CSV cell, prefixed with an apostrophe if a spreadsheet would evaluate it.

    That is text of at least two characters that starts with ``=``, ``+``, ``-`` or ``@``. A single character evaluates
    to nothing and may be a WFDB symbol. Numbers need no escaping.
    """
    return f"'{text}" if len(text) > 1 and text[0] in _FORMULA else text


def safe_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return a CSV row with ``safe_cell`` applied to its texts."""
    return {name: safe_cell(value) if isinstance(value, str) else value for name, value in row.items()}


def cell_text(cell: str) -> str:
    """Return the original text of a ``safe_cell``."""
    return cell[1:] if len(cell) > 2 and cell[0] == "'" and cell[1] in _FORMULA else cell


def count_of(count: float, singular: str, plural: str = "") -> str:
    """Format a count with its noun: ``1 run``, ``2 runs``, ``1,234 classes``, ``2.5 minutes``.

    Args:
        count: the number.
        singular: the noun's singular.
        plural: the noun's plural; default ``singular`` with an s, or with es after an s.
    """
    plural_form = plural or (f"{singular}es" if singular.endswith("s") else f"{singular}s")
    number = f"{count:g}" if isinstance(count, float) else f"{count:,}"
    return f"{number} {singular if count == 1 else plural_form}"


def listed(names: Sequence[str], max_names: int = 3) -> str:
    """Format a list of names, at most ``max_names`` of them: ``a, b, c and 25 more``."""
    rest = f" and {len(names) - max_names:,} more" if len(names) > max_names else ""
    return f"{', '.join(names[:max_names])}{rest}"


def closest(word: str, known: Iterable[str], count: int = 2) -> list[str]:
    """Return at most ``count`` known words similar to ``word``, best first.

    Letter case, hyphens, underscores and spaces are ignored. What other frameworks call a known word comes first, then
    words that start with ``word``.
    """
    names: dict[str, str] = {}
    for name in known:
        names.setdefault(_plain(name), name)
    target = _plain(word)
    for exact in (target, _ELSEWHERE.get(target, "")):
        if exact in names:
            return [names[exact]]
    prefixed = [name for name in names if len(target) > 1 and name.startswith(target)]
    similar = difflib.get_close_matches(target, names, n=count)
    return [names[name] for name in dict.fromkeys([*prefixed, *similar])][:count]


def same_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known word equal to ``word`` up to the differences ``closest`` ignores; None if there is none."""
    names = list(known)
    return word if word in names else next((name for name in names if _plain(name) == _plain(word)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean ...?`` with the known word most similar to ``word``, or ``""`` if none is similar."""
    matches = closest(word, known, count=1)
    return f"did you mean {matches[0]}?" if matches else ""


def _plain(word: str) -> str:
    return re.sub(r"[-_\s]", "", word.casefold())
