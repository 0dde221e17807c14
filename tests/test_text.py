"""Text from files and people, made fit to be printed; counts in words; and words somebody may have meant."""

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecgfed.base.text import closest, count_of, listed, safe_json, safe_text, visible_text

#: Python's own tables of Unicode, not ours: what turns the writing direction.
TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
anything = st.text(st.characters(exclude_categories=()), max_size=40)


def obeyed(text: str) -> list[str]:
    """Characters that a terminal acts on, that turn the text around it, or that no encoding can write."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in TURNING]


@given(anything)
@example("\x1b[31mred\x9b2J\r\n\x00\u202e\ud800")
def test_a_terminal_obeys_nothing_of_it(text: str) -> None:
    shown = safe_text(text)
    assert obeyed(shown) == []
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert safe_text(shown) == shown


@given(anything)
@example("12 \u202e34\u202c\r\n\t\x0b56\x00\u2028\U000e0041")
def test_text_of_several_lines_is_in_the_order_it_is_read(text: str) -> None:
    shown = visible_text(text)
    assert set(obeyed(shown)) <= {"\n", "\t"}
    assert visible_text(shown) == shown
    assert len(shown.splitlines()) <= len(text.split("\n")) + text.count("\r")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("MLII", "MLII"),
        ("[red]a[/red] :heart:", "[red]a[/red] :heart:"),
        ("Ableitung Ü, 导联, نوار‌قلب", "Ableitung Ü, 导联, نوار‌قلب"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("two\r\nlines\nand\ttab", "two lines and tab"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
        ("a\u200bb", "a\\u200bb"),
        ("\x9b31m", "\\x9b31m"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.dictionaries(anything, st.one_of(anything, st.none(), st.integers()), max_size=4))
def test_json_means_the_same_and_is_safe(value: dict[str, object]) -> None:
    for indent in (None, 1):
        document = safe_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(document) == json.loads(json.dumps(value))  # which joins halves of a pair that meet
        assert obeyed(document.replace("\n", "")) == []
        document.encode()


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("trian", ["train"]),
        ("TRAIN", ["train"]),
        ("grpfed", ["grp-fed"]),
        ("GRP_FED", ["grp-fed"]),
        ("--LocalSteps", ["--local-steps"]),
        ("--local", ["--local-epochs", "--local-steps"]),
        ("--sead", ["--seed"]),
        ("quite something else", []),
        ("", []),
    ],
)
def test_the_word_that_was_meant(word: str, meant: list[str]) -> None:
    known = ["train", "evaluate", "grp-fed", "fedavg", "--local-epochs", "--local-steps", "--seed", "--set"]
    assert closest(word, known) == meant


@pytest.mark.parametrize(
    ("many", "one", "written"),
    [
        *((0, "beat", "0 beats"), (1, "beat", "1 beat"), (2, "beat", "2 beats"), (1, "class", "1 class")),
        *((12, "class", "12 classes"), (2.5, "minute", "2.5 minutes"), (1.0, "minute", "1 minute")),
        (1234, "finished round", "1,234 finished rounds"),
    ],
)
def test_a_number_of_things(many: float, one: str, written: str) -> None:
    assert count_of(many, one) == written


def test_a_number_of_things_with_a_word_of_their_own() -> None:
    assert [count_of(many, "beat lies", "beats lie") for many in (1, 2)] == ["1 beat lies", "2 beats lie"]


@pytest.mark.parametrize(
    ("many", "written"),
    [(0, ""), (1, "n0"), (3, "n0, n1, n2"), (4, "n0, n1, n2 and 1 more"), (28, "n0, n1, n2 and 25 more")],
)
def test_some_names_and_how_many_more(many: int, written: str) -> None:
    assert listed([f"n{i}" for i in range(many)], 3) == written
