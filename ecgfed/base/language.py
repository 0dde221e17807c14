"""The language of a page: its sentences from one gettext catalogue, its numbers and dates as that language writes them.

    tr("{share:.1f}% of {lead}", share=12.3, lead="II")   in the language of the page that is being made
    trn("{n} beat", "{n} beats", 3)                       with the plural forms of that language
    message("{n} beats are uncertain.", n=3)              English text for JSON and terminals, translated on a page
    tr_later("normal beat")                               a constant that a page translates with ``translated``

The English sentence is the key of the catalogue (``locale/LANGUAGE/LC_MESSAGES/ecgfed.po``); its placeholders are
Python's, and ``web/language.js`` reads the same. Outside ``page_language`` everything is English.
"""

import datetime as dt
import gettext
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any

from ecgfed.base.errors import OptionError, spelled


@dataclass(frozen=True)
class Conventions:
    """How a language writes numbers and dates (CLDR).

    Attributes:
        decimal: the decimal separator.
        group: the separator of thousands.
        grouped_from: the smallest number that has separators of thousands.
        percent: what stands behind a percentage.
        date: format of a date (``strftime``).
        lowers: whether a sentence that continues another one begins with a small letter.
    """

    decimal: str = "."
    group: str = ","
    grouped_from: int = 1000
    percent: str = "%"
    date: str = "%Y-%m-%d"
    lowers: bool = True


#: Languages of pages; each but English has a catalogue.
CONVENTIONS = {
    "en": Conventions(),
    "de": Conventions(",", ".", 1000, "\N{NO-BREAK SPACE}%", "%d.%m.%Y", lowers=False),
    "fr": Conventions(",", "\N{NARROW NO-BREAK SPACE}", 1000, "\N{NO-BREAK SPACE}%", "%d/%m/%Y"),
    "es": Conventions(",", ".", 10000, "\N{NO-BREAK SPACE}%", "%d/%m/%Y"),
}
LANGUAGES = tuple(CONVENTIONS)
_ENTRY = re.compile(r'^(msgid_plural|msgid|msgstr(?:\[\d\])?) ("(?:.*)"(?:\n".*")*)', re.MULTILINE)
_current: ContextVar[str] = ContextVar("language", default="en")


def check_language(language: str) -> str:
    """Return a language of ``LANGUAGES``; raises OptionError for any other."""
    if language not in LANGUAGES:
        raise OptionError("language", f"{language!r:.40}", f"one of {', '.join(LANGUAGES)}", code="unknown-choice")
    return language


@contextmanager
def page_language(language: str) -> Iterator[None]:
    """Make pages in a language; threads started inside need ``contextvars.copy_context``."""
    before = _current.set(check_language(language))
    try:
        yield
    finally:
        _current.reset(before)


def current_language() -> str:
    """Return the language of the page that is being made."""
    return _current.get()


def conventions() -> Conventions:
    """Return how the current language writes numbers and dates."""
    return CONVENTIONS[_current.get()]


@dataclass(frozen=True)
class Catalogue:
    """The sentences of a language.

    Attributes:
        messages: the English sentence (of a plural its singular) -> its translations, one for each plural form.
        form: the number of the plural form of a count.
    """

    messages: Mapping[str, tuple[str, ...]]
    form: Callable[[int], int]


def read_catalogue(text: str) -> Catalogue:
    """Return the catalogue of a ``.po`` file's text, without fuzzy and untranslated sentences."""
    messages: dict[str, tuple[str, ...]] = {}
    header = ""
    for block in text.split("\n\n"):
        if "\n#, fuzzy" in f"\n{block}":
            continue
        entry = {name: "".join(map(json.loads, quoted.split("\n"))) for name, quoted in _ENTRY.findall(block)}
        forms = tuple(value for name, value in entry.items() if name.startswith("msgstr"))
        if not entry.get("msgid"):
            header = header or "".join(forms)
        elif all(forms):
            messages[entry["msgid"]] = forms
    plural = re.search(r"plural=([^;]+);", header)
    return Catalogue(messages, gettext.c2py(plural[1] if plural else "n != 1"))


@cache
def catalogue_of(language: str) -> Catalogue:
    """Return the catalogue of a language, read when it is first needed; English has none."""
    if language == "en":
        return Catalogue({}, lambda n: int(n != 1))
    path = files("ecgfed") / "locale" / language / "LC_MESSAGES" / "ecgfed.po"
    return read_catalogue(path.read_text("utf-8"))


def localized(text: str, value: float) -> str:
    """Return a number that Python formatted, with the separators of the current language."""
    of = conventions()
    if abs(value) < of.grouped_from:
        text = text.replace(",", "")
    text = text.translate({ord(","): of.group, ord("."): of.decimal})
    return f"{text[:-1]}{of.percent}" if text.endswith("%") else text


def number(value: float, spec: str = "") -> str:
    """Format a number by a format specification, as the current language writes it; integers have separators."""
    return localized(format(value, spec or ("," if isinstance(value, int) else "")), value)


def date_text(day: dt.date) -> str:
    """Return a date as the current language writes it."""
    return day.strftime(conventions().date) if conventions().date != "%Y-%m-%d" else day.isoformat()


def shown(value: object, spec: str = "") -> str:
    """Return a value as a sentence shows it: numbers and messages in the current language."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value, spec)
    return translated(value) if isinstance(value, Message) else str(value)


def parts_of(text: str, values: Mapping[str, object]) -> Iterator[tuple[str, object, str]]:
    """Yield the pieces of a sentence: text, the value behind it (``""`` for none), and its format specification."""
    for literal, name, spec, _ in Formatter().parse(text):
        yield literal, "" if name is None else values[name], spec or ""


def _filled(text: str, values: Mapping[str, object]) -> str:
    return "".join(f"{literal}{shown(value, spec)}" for literal, value, spec in parts_of(text, values))


def looked_up(text: str, plural: str = "", n: int | None = None) -> str:
    """Return the sentence of the current language, its placeholders not filled."""
    catalogue = catalogue_of(_current.get())
    forms = catalogue.messages.get(text)
    if forms is None:
        return text if n is None or n == 1 else plural
    return forms[0 if n is None else min(catalogue.form(n), len(forms) - 1)]


def tr(text: str, /, **values: object) -> str:
    """Return a sentence in the current language, its placeholders filled."""
    return _filled(looked_up(text), values)


def trn(singular: str, plural: str, n: int, /, **values: object) -> str:
    """Return a sentence in the current language in the form for ``n``, its placeholders and ``{n}`` filled."""
    return _filled(looked_up(singular, plural, n), {"n": n, **values})


class Message(str):
    """English text that a page translates: the text itself goes to JSON and terminals.

    Attributes:
        form: the sentence with placeholders, its plural (``""`` without one), and the count.
        values: of the placeholders.
    """

    form: tuple[str, str, int | None]
    values: Mapping[str, object]
    case: Callable[[str], str] | None = None


def message(text: str, /, **values: object) -> Message:
    """Return a sentence for machines and pages, its placeholders filled."""
    return _message((text, "", None), values)


def messages(singular: str, plural: str, n: int, /, **values: object) -> Message:
    """Return a sentence for machines and pages in the form for ``n``; ``{n}`` is filled too."""
    return _message((singular, plural, n), {"n": n, **values})


def _message(form: tuple[str, str, int | None], values: Mapping[str, object]) -> Message:
    with page_language("en"):
        result = Message(_filled(looked_up(*form), values))
    result.form, result.values = form, values
    return result


@dataclass(frozen=True)
class Spelled:
    """A part of an error, or a parameter, as a value of a ``message``: spelled where it is read, in that language."""

    text: str

    def __str__(self) -> str:
        return " ".join(spelled(translated(self.text)).split())


def name_message(text: str) -> Message:
    """Return a marked constant, or any other name, as a value of messages: a page translates it."""
    return message(text.replace("{", "{{").replace("}", "}}"))


def tr_later(text: str) -> str:
    """Mark a constant for the catalogue; ``translated`` translates it on a page."""
    return text


def trn_later(singular: str, plural: str) -> tuple[str, str]:
    """Mark a constant with its plural for the catalogue, as ``trn`` takes both."""
    return singular, plural


def translated(text: str) -> str:
    """Return a message, or a marked constant, in the current language; any other text unchanged."""
    if _current.get() == "en":
        return str(text)
    if not isinstance(text, Message):
        return looked_up(text)
    result = _filled(looked_up(*text.form), text.values)
    return result if text.case is None else text.case(result)


def uncapitalized(text: str) -> str:
    """Return a sentence that continues another one: it begins with a small letter where its language does so."""
    small = f"{text[:1].lower()}{text[1:]}"
    if isinstance(text, Message):
        return _cased(text, small, uncapitalized)
    return small if conventions().lowers else text


def capitalized(text: str) -> str:
    """Return a text as a sentence begins."""
    large = f"{text[:1].upper()}{text[1:]}"
    return _cased(text, large, capitalized) if isinstance(text, Message) else large


def _cased(text: Message, english: str, case: Callable[[str], str]) -> Message:
    result = Message(english)
    result.form, result.values, result.case = text.form, text.values, case
    return result


def joined_message(texts: Sequence[str], separator: str) -> Message:
    """Return several messages or texts as one; the separator may be a message too."""
    names = [f"part{at}" for at in range(len(texts))]
    form = "{separator}".join(f"{{{name}}}" for name in names)
    return message(form, separator=separator, **dict(zip(names, texts, strict=True)))


def script_data() -> dict[str, Any] | None:
    """Return the current language for the scripts of a page, JSON-ready; None for English."""
    language = _current.get()
    if language == "en":
        return None
    catalogue, of = catalogue_of(language), conventions()
    return {
        "language": language,
        "decimal": of.decimal,
        "group": of.group,
        "grouped_from": of.grouped_from,
        "percent": of.percent,
        "date": of.date,
        "forms": [catalogue.form(n) for n in range(200)],  # rules of plurals look at n and at n mod 100
        "messages": {text: list(forms) for text, forms in catalogue.messages.items()},
    }
