"""The sentences of the pages, taken out of the code, and the catalogues of their translations.

``python tests/catalogue.py`` (``make languages``) brings each ``ecgfed/locale/LANGUAGE/LC_MESSAGES/ecgfed.po`` up to
date: new sentences are added without a translation, those that the code no longer has are removed.
"""

import io
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po

from ecgfed.base.language import LANGUAGES

ROOT = Path(__file__).parents[1]
#: Functions that take a sentence (``base/language.py``, ``reports/markup.py``, ``web/language.js``), and where.
KEYWORDS = {
    **dict.fromkeys(("tr", "tr_markup", "tr_html", "tr_later", "message", "trParts", "trLater"), None),
    **dict.fromkeys(("trn", "trn_later", "messages", "trnParts"), (1, 2)),
}
#: Packages that write no page; functions of theirs may have the same names.
WITHOUT_PAGES = ("core", "network")
#: Plural forms of languages for counts below a million; Babel's own have one more for whole millions.
PLURALS = {"fr": "nplurals=2; plural=(n > 1);", "es": "nplurals=2; plural=(n != 1);"}
METHODS = {".py": "python", ".js": "javascript", ".j2": "jinja2"}


def extracted() -> Catalog:
    """Return all marked sentences with the files that have them."""
    catalogue = Catalog(project="ecgfed", fuzzy=False)
    for path in sorted((ROOT / "ecgfed").rglob("*")):
        if path.suffix not in METHODS or path.relative_to(ROOT / "ecgfed").parts[0] in WITHOUT_PAGES:
            continue
        options = {"encoding": "utf-8", "silent": "false", "parse_template_string": "true"}
        for _, text, _, _ in extract_from_file(METHODS[path.suffix], path, KEYWORDS, options=options):
            singular = text if isinstance(text, str) else text[0]
            if singular not in ("", "{separator}"):
                catalogue.add(text, locations=[(path.relative_to(ROOT).as_posix(), None)])
    return catalogue


def path_of(language: str) -> Path:
    return ROOT / "ecgfed" / "locale" / language / "LC_MESSAGES" / "ecgfed.po"


def catalogue_in(language: str) -> Catalog:
    with path_of(language).open("rb") as file:
        return read_po(file, locale=language)


def written(catalogue: Catalog) -> bytes:
    text = io.BytesIO()
    write_po(text, catalogue, width=0, sort_output=True, ignore_obsolete=True)
    volatile = (
        "Project-Id",
        "Report-Msgid",
        "POT-Creation",
        "PO-Revision",
        "Last-Trans",
        "Language-Team",
        "Generated-By",
    )
    lines = text.getvalue().decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(tuple(f'"{name}' for name in volatile))).encode()


def new_catalogue(language: str, before: Catalog | None) -> Catalog:
    """Return the sentences of the code with the translations that there are."""
    catalogue = Catalog(language, project="ecgfed", fuzzy=False, last_translator="", language_team="", charset="utf-8")
    catalogue.mime_headers = [  # no dates and no versions: the same sentences, the same bytes
        ("Language", language),
        ("Plural-Forms", PLURALS.get(language, catalogue.plural_forms)),
        ("MIME-Version", "1.0"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Transfer-Encoding", "8bit"),
    ]
    catalogue.header_comment = f"# Pages of ecgfed in {language}. Translated without review by a clinician."
    for message in extracted():
        if message.id:
            old = None if before is None else before.get(message.id)
            string = old.string if old is not None and old.id == message.id else ""
            catalogue.add(message.id, string, locations=sorted({(name, None) for name, _ in message.locations}))
    return catalogue


if __name__ == "__main__":
    for language in LANGUAGES[1:]:
        path = path_of(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        catalogue = new_catalogue(language, catalogue_in(language) if path.is_file() else None)
        path.write_bytes(written(catalogue))
        missing = sum(
            not (message.string if isinstance(message.string, str) else all(message.string))
            for message in catalogue
            if message.id
        )
        print(f"{language}: {len(catalogue)} sentences, {missing} without a translation")
