"""The pages in other languages: complete catalogues, numbers by CLDR, and no text that is left in English."""

import ast
import datetime as dt
import re
from collections.abc import Iterable
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from babel import Locale
from babel.numbers import format_decimal, format_percent
from babel.plural import PluralRule
from catalogue import KEYWORDS, ROOT, catalogue_in, extracted, new_catalogue, path_of, written
from conftest import PATIENTS, write_record
from edits_files import document_of
from edits_files import written as written_edits
from served_work import Work
from twelve_lead_records import dipole_leads, write_twelve

import ecgfed
from ecgfed.base import language as languages
from ecgfed.base.errors import OptionError
from ecgfed.base.language import (
    CONVENTIONS,
    LANGUAGES,
    Catalogue,
    catalogue_of,
    date_text,
    message,
    number,
    page_language,
    tr,
    translated,
    trn,
)
from ecgfed.domain.beats.exclusions import REASONS, Exclusions
from ecgfed.reports.label_page import SCRIPTS as LABEL_SCRIPTS
from ecgfed.reports.recording_page import recording_page
from ecgfed.reports.recording_report import RecordingReport
from ecgfed.tasks.label_parts import label_page
from ecgfed.tasks.second_reader import second_reader_page
from ecgfed.tasks.serve import SCRIPTS as SERVE_SCRIPTS
from ecgfed.web.page import asset

WEB = ROOT / "ecgfed" / "web"
OTHERS = [language for language in LANGUAGES if language != "en"]
#: Words that are the same in every language: units, waves, leads, names of files, methods, commands and keys.
SAME = re.compile(
    r"\b(mV|mm|ms|min|s|h|Hz|p|P|QRS|T|PR|QT|QTc|RR|NN|R|X|U|SDNN|RMSSD|Bazett|Fridericia|F1|ECG|EKG|QTDB|CSV|JSON|"
    r"MLII|I{2,3}|aV[RLF]|V\d|Cabrera|[NSVFQAJLRB]|ecgfed|report|RECORDING|edits|FILE|personalize|language|en|Enter|Page|Home|End|Up|Down)\b"
)


def placeholders(text: str) -> list[tuple[str, str]]:
    return sorted({(name, spec or "") for _, name, spec, _ in Formatter().parse(text) if name is not None})


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_has_exactly_the_sentences_of_the_code(language: str) -> None:
    catalogue = catalogue_in(language)
    assert {m.id for m in catalogue if m.id} == {m.id for m in extracted() if m.id}, "run: make languages"
    for entry in catalogue:
        strings = entry.string if isinstance(entry.string, tuple) else (entry.string,)
        assert not entry.fuzzy, entry.id
        assert all(strings), entry.id
    assert path_of(language).read_bytes() == written(new_catalogue(language, catalogue)), "run: make languages"


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_placeholders_and_plural_forms_of_its_sentence(language: str) -> None:
    catalogue = catalogue_in(language)
    for entry in catalogue:
        if not entry.id:
            continue
        originals = entry.id if isinstance(entry.id, tuple) else (entry.id,)
        strings = entry.string if isinstance(entry.string, tuple) else (entry.string,)
        assert len(strings) == (catalogue.num_plurals if len(originals) > 1 else 1), entry.id
        for string in strings:
            names = [[name for name, _ in placeholders(text)] for text in (originals[-1], string)]
            assert names[0] == names[1], entry.id
            tags = [sorted(re.findall(r"<[^>]*>", text)) for text in (originals[0], string)]
            assert tags[0] == tags[1], entry.id


@pytest.mark.parametrize("language", OTHERS)
def test_our_reader_has_what_babel_reads(language: str) -> None:
    ours = catalogue_of(language).messages
    for entry in catalogue_in(language):
        if entry.id:
            key = entry.id[0] if isinstance(entry.id, tuple) else entry.id
            assert ours[key] == (entry.string if isinstance(entry.string, tuple) else (entry.string,))


@pytest.mark.parametrize("language", OTHERS)
def test_plural_forms_are_those_of_cldr_below_a_million(language: str) -> None:
    rule: PluralRule = catalogue_in(language).locale.plural_form
    one = [n for n in range(5000) if rule(n) == "one"]
    assert [n for n in range(5000) if catalogue_of(language).form(n) == 0] == one


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("value", [0.0, 3.25, -0.5, 999.94, 1234.5, 9999.5, 12345.675, 1234567.0])
def test_numbers_are_written_as_cldr_says(language: str, value: float) -> None:
    percent = Locale(language).percent_formats[None].pattern.replace("#,##0", "#,##0.0")
    decimal = format_decimal(Decimal(f"{value:.2f}"), "#,##0.00", locale=language)
    whole = format_decimal(int(value), locale=language)
    if abs(value) < CONVENTIONS[language].grouped_from:  # four digits in Spanish: minimumGroupingDigits, not in Babel
        decimal, whole = (text.replace(CONVENTIONS[language].group, "") for text in (decimal, whole))
    with page_language(language):
        assert number(value, ",.2f") == decimal.replace("\N{MINUS SIGN}", "-")
        assert number(int(value)) == whole
        assert number(value / 1e6, ".1%").removeprefix("-") == format_percent(abs(value) / 1e6, percent, language)


def test_dates_have_day_and_month_in_the_order_of_the_language() -> None:
    texts = {}
    for language in LANGUAGES:
        with page_language(language):
            texts[language] = date_text(dt.date(2026, 3, 4))
    assert texts == {"en": "2026-03-04", "de": "04.03.2026", "fr": "04/03/2026", "es": "04/03/2026"}


def test_a_message_is_english_for_machines_and_translated_on_a_page() -> None:
    text = message("{n} of {total} beats, evenly spread", n=1234, total=20000)
    with page_language("de"):
        assert str(text) == "1,234 of 20,000 beats, evenly spread"
        assert translated(text) == "1.234 von 20.000 Schlägen, gleichmäßig verteilt"
        assert trn("{n} beat", "{n} beats", 1) == "1 Schlag"
        assert tr("a sentence that no catalogue has") == "a sentence that no catalogue has"


def test_an_unknown_language_is_refused(records: Path) -> None:
    with pytest.raises(OptionError, match="one of en, de, fr, es"):
        ecgfed.report(records / "p1", language="xx")


class _Texts(HTMLParser):
    """The visible texts of a page, and those read aloud."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.hidden = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden = tag if tag in ("script", "style") else self.hidden
        self.texts += [value or "" for name, value in attrs if name in ("aria-label", "title", "alt", "placeholder")]

    def handle_endtag(self, tag: str) -> None:
        self.hidden = "" if tag == self.hidden else self.hidden

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.texts.append(data)


def with_brackets(sentence: str) -> str:
    """Return a sentence with each piece between its placeholders in brackets."""
    return "".join(
        f"⟦{text}⟧" if text and not text.startswith("{") else text
        for text in re.split(r"((?<!\{)\{\w+(?::[^}]*)?\}(?!\}))", sentence)
    )


def bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a catalogue of German in which the text of every sentence stands between ⟦ and ⟧, its values outside."""
    messages = {}
    for entry in extracted():
        if entry.id:
            forms = entry.id if isinstance(entry.id, tuple) else (entry.id,)
            messages[forms[0]] = tuple(map(with_brackets, forms))
    monkeypatch.setattr(languages, "catalogue_of", lambda language: Catalogue(messages, lambda n: int(n != 1)))


def words_outside_brackets(texts: Iterable[str]) -> list[str]:
    """Return what texts have outside brackets and is a word."""
    text = "\x00".join(texts)
    while "⟦" in text:
        text, before = re.sub(r"⟦[^⟦⟧]*⟧", " ", text), text
        assert text != before, text
    return [part for part in text.split("\x00") if re.search(r"[^\W\d_]{2,}", SAME.sub("", part))]


def unmarked(page: str) -> list[str]:
    return words_outside_brackets(_Texts(page).texts)


def left_in_english(report: RecordingReport, *own: str) -> list[str]:
    # what a bundle states of itself: its name, its training and test sets, its filter
    own = (report.parts.record, "demo", "fedavg", "CARD.md", "ecgfed/model", "joined random", "FIR band-pass", *own)
    return [text for text in unmarked(recording_page(report.parts)) if not any(name in text for name in own)]


def test_no_text_of_a_report_is_left_in_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bracketed(monkeypatch)
    record = write_record(tmp_path / "records", "p1", PATIENTS["p1"] * 2)
    diary = tmp_path / "diary.csv"
    diary.write_text("time_s,text\n20,palpitations\n70,dizzy\n900,too late\n")
    how: dict[str, Any] = {"diary": diary, "full_disclosure": True, "show": "date,age,sex,recorder,notes"}
    report = ecgfed.report(record, language="de", force=True, **how)
    assert left_in_english(report, "palpitations", "dizzy") == []


def test_no_text_of_a_resting_ecg_is_left_in_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bracketed(monkeypatch)
    leads = dipole_leads(-45.0)
    leads["aVF"] = -leads["aVF"]  # the limb leads do not agree
    report = ecgfed.report(write_twelve(tmp_path, "ecg", leads), language="de", force=True)
    assert report.parts.short_form
    assert left_in_english(report) == []


def test_french_has_a_space_before_colons_and_semicolons(tmp_path: Path) -> None:
    """Those that join two texts too: "aucune trouvée ; plus long intervalle", "non évalué : trop peu de battements"."""
    diary = tmp_path / "diary.csv"
    diary.write_text("time_s,text\n20,palpitations\n")
    record = write_record(tmp_path / "records", "p1", PATIENTS["p1"] * 2)
    page = recording_page(ecgfed.report(record, language="fr", force=True, diary=diary).parts)
    assert [text for text in _Texts(page).texts if re.search(r"\w\)?[:;](?!\S)", text)] == []


#: Why a report leaves out beats, annotations and channels (``report_exclusions_of``).
LEFT_OUT_OF_REPORTS = ("calibration", "no_signal", "end_noise", "removed", "unmarked", "poor_quality", "beyond_end")


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("reason", [*LEFT_OUT_OF_REPORTS, "not_read", "no_ecg"])
def test_what_a_report_leaves_out_is_stated_in_the_language_of_the_page(language: str, reason: str) -> None:
    """On the page of serve: "1961 latidos leídos, 1960 usados; excluidos: 1 en tramos de mala calidad"."""
    line = Exclusions("beat", 1961, {reason: 1}).line
    with page_language(language):
        assert REASONS[reason][0] not in translated(line)
        advice = REASONS[reason][1]
        assert not advice or translated(advice) != str(advice)


def marked_in(path: Path) -> set[str]:
    """Return the first text of every call that marks a sentence, of calls within calls too."""
    pattern = rf"""\b(?:{"|".join(KEYWORDS)})\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+|'[^'\n]*')"""
    return {ast.literal_eval(f"({text})") for text in re.findall(pattern, path.read_text("utf-8"))}


def test_a_sentence_within_a_sentence_is_in_the_catalogue() -> None:
    """Babel passes over a call among the values of another one in a script."""
    known = {entry.id if isinstance(entry.id, str) else entry.id[0] for entry in extracted() if entry.id}
    folder = ROOT / "ecgfed"
    for path in sorted(folder.rglob("*.js")) + sorted(folder.rglob("*.j2")):
        assert marked_in(path) <= known, path.name


@pytest.mark.parametrize("name", sorted({*LABEL_SCRIPTS, *SERVE_SCRIPTS} - {"language.js", "paper.js"}))
def test_no_sentence_of_a_script_is_unmarked(name: str) -> None:
    text = re.sub(r"^\s*(//|\*|/\*).*", "", asset(name), flags=re.MULTILINE)
    assert marked_in(WEB / name) or name in ("choose.js", "answers.js")
    literal = r'"(?:[^"\\\n]|\\.)*"'
    text = re.sub(rf"\b(?:tr|trn)\(\s*{literal}(?:,\s*{literal})?", "", text)
    while (without := re.sub(r"\$\{(?:[^{}]|\{[^{}]*\})*\}", "", text)) != text:
        text = without
    words = [
        one for one in re.findall(rf"{literal}|`[^`\n]*`", text) if re.search(r"[A-Za-z]{2,}[,:;.]? [a-z]{2,}", one)
    ]
    technical = re.compile(r"use strict|not an action|notes lines|job lines|^.[a-z]+(:not|,)")  # classes, selectors
    assert [one for one in words if not technical.search(one)] == []


def test_no_text_of_a_labelling_page_is_left_in_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bracketed(monkeypatch)
    record = write_record(tmp_path / "records", "p1", PATIENTS["p1"])
    made = ecgfed.label(record, language="de", force=True, minutes=0.5)
    first = tmp_path / "first.csv"
    first.write_text(f"sample,label\n{made.page.sample[3]},N\n")
    with page_language("de"):
        served = label_page(made.page, file="labels.csv")
    second = second_reader_page(record, first, language="de").html
    for page in (made.html, served, second):
        assert [text for text in unmarked(page) if "ecgfed/model" not in text and "p1" not in text] == []


def test_no_text_of_the_page_of_serve_is_left_in_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bracketed(monkeypatch)
    work = Work(folder=tmp_path / "work").start()
    try:
        _, page, _ = work.ask("GET", "de/")
    finally:
        work.end()
    left = [text for text in unmarked(page) if str(work.folder) not in text]
    assert left == ["English", "Deutsch", "Français", "Español"]


def test_a_conclusion_accepted_in_one_language_is_not_older_in_another(records: Path, tmp_path: Path) -> None:
    german = ecgfed.report(records / "p1", language="de").parts
    accepted = "\n".join(german.draft_on_page)
    assert accepted != "\n".join(german.draft)
    base = ecgfed.report(records / "p1")
    document = document_of(base, conclusion=accepted, conclusion_draft="\n".join(german.draft))
    french = ecgfed.report(records / "p1", language="fr", edits=written_edits(tmp_path, document)).parts
    assert french.draft == base.parts.draft_on_page
    assert french.conclusion == accepted
    assert not french.conclusion_is_older
