"""Text that came from others, made fit to be printed; counts and lists in words; the words somebody may have meant."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

#: What a terminal acts on, or what a reader cannot see: control characters (C0, DEL, C1), marks and overrides of the
#: writing direction, invisible and tag characters, and halves of surrogate pairs, which no encoding can write. The
#: joiners U+200C and U+200D belong to the spelling of some languages and stay.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
#: What makes a spreadsheet take a cell for a formula.
_FORMULA = "=+-@\t\r\n"
_LINE_ENDS = re.compile("\r\n|[\t\n\r\x85\u2028\u2029]")


def safe_text(text: str) -> str:
    """Return text as one line that a terminal shows and does not obey.

    Line ends and tabs become spaces; what ``_HIDDEN`` names is written as Python escapes it: ``\\x1b``, ``\\u202e``.
    Text that is safe already comes back as it is.
    """
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), _LINE_ENDS.sub(" ", text))


def shortened(text: str, most: int = 100) -> str:
    """Return text that is safe (``safe_text``) and at most ``most`` characters long, for a ``repr``."""
    shown = safe_text(text)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def safe_json(text: str) -> str:
    """Return a JSON document that means the same, with what ``_HIDDEN`` names escaped; its own line ends stay."""
    return _HIDDEN.sub(lambda found: found[0] if found[0] in "\n\r\t" else _json_escape(found[0]), text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def safe_cell(text: str) -> str:
    """Return text for a cell of a CSV file: one that a spreadsheet would compute gets an apostrophe in front.

    That is text of two characters or more that begins with ``=``, ``+``, ``-`` or ``@``. Numbers are no text and are
    written as they are; one character alone computes nothing, and is a symbol of WFDB's.
    """
    return f"'{text}" if len(text) > 1 and text[0] in _FORMULA else text


def safe_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row of a CSV file whose texts a spreadsheet takes for texts (``safe_cell``)."""
    return {name: safe_cell(value) if isinstance(value, str) else value for name, value in row.items()}


def cell_text(cell: str) -> str:
    """Return the text that ``safe_cell`` wrote into a cell."""
    return cell[1:] if len(cell) > 2 and cell[0] == "'" and cell[1] in _FORMULA else cell


def count_of(many: float, one: str, more: str = "") -> str:
    """Write a number of things: ``1 run``, ``2 runs``, ``1,234 classes``, ``2.5 minutes``.

    Args:
        many: how many there are.
        one: the word for one of them.
        more: the word for several; default ``one`` with an s, or with es where it ends in one.
    """
    several = more or (f"{one}es" if one.endswith("s") else f"{one}s")
    number = f"{many:g}" if isinstance(many, float) else f"{many:,}"
    return f"{number} {one if many == 1 else several}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Write names one after the other, at most ``most`` of them: ``a, b, c and 25 more``."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def closest(word: str, known: Iterable[str], count: int = 2) -> list[str]:
    """Return the known words that ``word`` may have been meant as, best first, at most ``count``.

    Letter case, hyphens, underscores and spaces do not count; words that begin with ``word`` come first.
    """
    names: dict[str, str] = {}
    for name in known:
        names.setdefault(_plain(name), name)
    wanted = _plain(word)
    if wanted in names:
        return [names[wanted]]
    begun = [name for name in names if len(wanted) > 1 and name.startswith(wanted)]
    alike = difflib.get_close_matches(wanted, names, n=count)
    return [names[name] for name in dict.fromkeys([*begun, *alike])][:count]


def same_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` is, but for what ``closest`` does not count; None where there is none."""
    names = list(known)
    return word if word in names else next((name for name in names if _plain(name) == _plain(word)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean ...?`` with the known word nearest to ``word``, or ``""`` where none is near."""
    near = closest(word, known, count=1)
    return f"did you mean {near[0]}?" if near else ""


def _plain(word: str) -> str:
    return re.sub(r"[-_\s]", "", word.casefold())
