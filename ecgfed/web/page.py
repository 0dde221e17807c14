"""Build self-contained HTML pages with embedded styles, scripts and data, in which text from recordings is escaped."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ecgfed.base.language import current_language, script_data
from ecgfed.base.text import safe_text, shortened

_FOLDER = Path(__file__).parent
#: The id of the element that holds a page's data.
DATA_ID = "page-data"
#: The id of the element that holds the sentences of the page's scripts; an English page has none.
LANGUAGE_ID = "page-language"
#: Maximum length of the footer of a printed sheet, characters.
_SHEET = 120


def asset(name: str) -> str:
    """Return the text of a file in this folder: ``paper.js``."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def escaped(text: object) -> str:
    """Return text escaped for an HTML element or a quoted attribute, on one line (``safe_text``)."""
    return html.escape(safe_text(str(text)))


def script_json(value: Any) -> str:
    """Return JSON for a script element: without ``<``, ``&``, line separators or NaN."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII only
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _css_string(text: str) -> str:
    """Return text as a CSS string, with everything but letters, digits and spaces escaped."""
    plain = re.sub(r"[^0-9A-Za-z ]", lambda match: f"\\{ord(match[0]):x} ", text)
    return f'"{plain}"'


def inline_page(
    title: str,
    body: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Any,
    sheet: str = "",
    served: bool = False,
    module: str = "",
) -> str:
    """Return an HTML document that needs no other file and no network.

    It is in the language of ``base/language.py``, whose sentences its scripts have too (``language.js``).
    Its content security policy allows only the embedded scripts and styles, so even unescaped text could not execute.

    Args:
        title: the document's title, as text.
        body: HTML in which all text from recordings went through ``escaped``.
        styles: names of style sheets in this folder, in order.
        scripts: names of scripts in this folder, in order; they run after the body is parsed.
        data: JSON-ready data, which scripts read from the element ``page-data``.
        sheet: footer of every printed sheet, as text.
        served: allow the page to connect to the server it came from, and to no other.
        module: the text of a module script that runs last; it may compile WebAssembly.

    Raises:
        ValueError: the module would end its own script element.
    """
    style, script = "\n".join(map(asset, styles)), "\n".join(map(asset, scripts))
    if sheet:
        footer = _css_string(shortened(safe_text(sheet), _SHEET))
        style += f"\n@page {{ @bottom-left {{ content: {footer}; font: 8pt Arial, sans-serif; }} }}\n"
    if "</script" in module.casefold() or "<!--" in module:
        raise ValueError("the module contains the end of a script element")
    runs = f"{_hash(script)} {_hash(module)} 'wasm-unsafe-eval'" if module else _hash(script)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {runs}; img-src data:; base-uri 'none'; "
        "form-action 'none'" + ("; connect-src 'self'" if served else "")
    )
    last = f'<script type="module">{module}</script>\n' if module else ""
    texts = script_data()
    language = (
        "" if texts is None else f'<script type="application/json" id="{LANGUAGE_ID}">{script_json(texts)}</script>\n'
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{current_language()}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="{DATA_ID}">{script_json(data)}</script>\n'
        f"{language}<script>{script}</script>\n{last}</body>\n</html>\n"
    )
