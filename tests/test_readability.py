"""Rewritten pages are easy to read: short sentences, standard wording, and links to places that exist."""

import re
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parent.parent
#: Pages whose prose is checked; a page is added here once it has been rewritten.
REWRITTEN = (
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "docs/results.md",
    "docs/leaderboard.md",
    "docs/whole-path.md",
    "docs/researchers.md",
    "docs/training.md",
    "docs/methods.md",
    "docs/clinicians.md",
    "docs/report.md",
    "docs/labels.md",
    "docs/serve.md",
    "docs/quality.md",
    "docs/what-is-scored.md",
    "docs/macro-f1.md",
    "docs/personal-or-global.md",
    "docs/faq.md",
    "docs/glossary.md",
    "docs/languages.md",
    "docs/errors.md",
    "docs/cohort.md",
    "docs/data.md",
    "docs/formats.md",
    "docs/bundle.md",
    "docs/install.md",
    "docs/qrs.md",
    "docs/devices.md",
    "docs/phones.md",
    "docs/grp-fed.md",
    "docs/cifar10.md",
    "docs/how-to.md",
    "docs/int8.md",
    "docs/versions.md",
    "docs/deprecations.md",
    "docs/dependencies.md",
    "docs/command-line.md",
    "docs/graphs.md",
    "docs/executors.md",
    "docs/architecture.md",
    "docs/own-data.md",
    "docs/own-parts.md",
    "docs/extend.md",
    "docs/reproduce.md",
    "docs/microcontroller.md",
    "docs/javascript.md",
    "docs/bundle-format.md",
    "docs/stream.md",
    "docs/grp-fed-in-pictures.md",
    "benchmarks/network/README.md",
    "docs/federation-tools.md",
    "docs/hospital-it.md",
    "docs/hospitals.md",
    "docs/privacy.md",
    "docs/secure-aggregation.md",
    "docs/security.md",
    "docs/updates.md",
)
#: Words in a sentence: the median of a page, and the maximum.
MEDIAN_WORDS, MAX_WORDS = 20, 40
#: Wording of an earlier style that reads like a translation; a phrase matches whole words in any case.
BANNED = (
    "said",
    "told",
    "found",
    "nobody",
    "whoever",
    "of it",
    "one that",
    "in truth",
    "amiss",
    "mended",
    "where there is none",
    "where it is none",
    "where there are none",
    "speaks against",
    "comes of it",
    "to be known",
    "speaks for",
    "looks on",
    "s less",  # FedGate's less GRP-FED's
    "made up",
)

_FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`\n]+`")
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d+\.)[ \t]+")
#: A full stop, question or exclamation mark, then perhaps a closing quote, bracket or emphasis, then a new sentence.
_END = re.compile(r"(?<=[.!?])[\"”')*_]*\s+(?=[\"“'(*_]*(?:[A-Z0-9`/]|ecgfed\b))")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|et al|Dr|vs|approx|No)\.\s")


def blocks(markdown: str) -> list[str]:
    """Split a page into paragraphs and list items.

    Code blocks, tables, headings and comments are left out; a code span is one word, and a link is its text.
    """
    text = _COMMENT.sub("", _FENCE.sub("\n", markdown))
    text = _CODE.sub("X", _LINK.sub(r"\1", _IMAGE.sub(r"\n\n\1\n\n", text)))
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith(("|", "#")):
            parts.append([])
        elif _ITEM.match(line):
            parts.append([_ITEM.sub("", line)])
        else:
            parts[-1].append(line.lstrip("> \t"))
    return [" ".join(part) for part in parts if part]


def sentences(markdown: str) -> list[str]:
    """Split a page's prose into sentences."""
    split: list[str] = []
    for block in blocks(markdown):
        split += _END.split(_ABBREVIATIONS.sub(lambda match: match[0].replace(".", ""), block))
    return [sentence for sentence in split if re.search(r"\w", sentence)]


def words(sentence: str) -> int:
    """Count what is separated by spaces and holds a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def prose(markdown: str) -> str:
    """Return everything a reader reads but code: paragraphs, headings and cells of tables."""
    text = _CODE.sub("X", _COMMENT.sub("", _FENCE.sub("\n", markdown)))
    return re.sub(r"\s+", " ", _LINK.sub(r"\1", _IMAGE.sub(r"\1", text)))


def slug(heading: str) -> str:
    """Return the anchor that GitHub and the site give a heading."""
    plain = re.sub(r"[`*]", "", _LINK.sub(r"\1", heading)).strip().lower()
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", plain))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings and of its own ``<a id>``."""
    text = _FENCE.sub("\n", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {slug(heading) for heading in headings} | set(re.findall(r'<a id="([^"]+)">', text))


def test_prose_is_split_into_sentences() -> None:
    page = (
        '# A heading. Not read\n\nOne `code span here` and [a link](b.md#c). Two (see 3.5 mV)! "Three?" Four\n'
        "goes on.\n\n| a | table |\n| --- | --- |\n\n```sh\nnot. Read.\n```\n- **Item.** Five e.g. this.\n1. Six\n"
    )
    split = sentences(page)
    assert split[0] == "One X and a link."
    assert [words(sentence) for sentence in split] == [5, 4, 1, 3, 1, 3, 1]
    assert slug("What it is, and `why`") == "what-it-is-and-why"
    assert matches("s less", "FedGate's less GRP-FED's")
    assert not matches("found", "foundation")


@pytest.mark.parametrize("page", REWRITTEN)
def test_sentences_are_short(page: str) -> None:
    split = sentences((ROOT / page).read_text("utf-8"))
    assert not [sentence for sentence in split if words(sentence) > MAX_WORDS]
    assert median(map(words, split)) <= MEDIAN_WORDS


@pytest.mark.parametrize("page", REWRITTEN)
def test_no_banned_phrase(page: str) -> None:
    text = prose((ROOT / page).read_text("utf-8"))
    hits = [text[max(0, hit.start() - 40) : hit.end() + 40] for phrase in BANNED for hit in matches(phrase, text)]
    assert not hits


def matches(phrase: str, text: str) -> list[re.Match[str]]:
    """Return where a phrase stands as whole words, in any case."""
    return list(re.finditer(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE))


@pytest.mark.parametrize("page", ["clinicians", "labels", "serve", "report"])
def test_clinicians_need_no_federated_training(page: str) -> None:
    """A run's report, at the end of the page on reports, is for researchers."""
    text, *_ = (ROOT / "docs" / f"{page}.md").read_text("utf-8").split("## A run's report")
    assert not re.search(r"^ecgfed (train|federate|export)\b", text, re.MULTILINE)


@pytest.mark.parametrize("page", REWRITTEN)
def test_links_lead_to_anchors(page: str) -> None:
    """Of the repository's own Markdown; whether the files exist is ``test_docs.py``."""
    path = ROOT / page
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", path.read_text("utf-8")):
        other = (path.parent / target) if target else path
        if not target.startswith("http") and other.suffix == ".md":
            assert anchor in anchors(other), f"{page} links to {target}#{anchor}"
