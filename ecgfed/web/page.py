"""One self-contained page: styles, scripts and data inside it, and nothing that a recording says can become markup."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ecgfed.text import safe_text, shortened

_FOLDER = Path(__file__).parent
#: The id of the element that holds a page's data.
DATA_ID = "page-data"
#: Letters at the foot of a sheet.
_SHEET = 120


def asset(name: str) -> str:
    """Return the text of a file of this folder: ``paper.js``."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def escaped(text: object) -> str:
    """Return text as HTML that shows it, in an element or a quoted attribute, on one line (``safe_text``)."""
    return html.escape(safe_text(str(text)))


def script_json(value: Any) -> str:
    """Return JSON that can stand in a script element: no ``<``, no ``&``, no line separator, NaN refused."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # all of it ASCII
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _css_string(text: str) -> str:
    """Return text as a CSS string: whatever is no plain letter, digit or space as its code, so that nothing ends it."""
    plain = "".join(one if one.isascii() and (one.isalnum() or one == " ") else f"\\{ord(one):x} " for one in text)
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
    """Return a whole HTML document that needs no other file and no network.

    Its own policy lets nothing be loaded or run but what stands here, so that even text that slipped through could do
    nothing.

    Args:
        title: of the document, as text.
        body: HTML, from which every text of a recording has gone through ``escaped``.
        styles: names of style sheets in this folder, in order.
        scripts: names of scripts in this folder, in order; they run when the body is there.
        data: what the scripts read from the element ``page-data``, JSON-ready.
        sheet: what stands at the foot of every printed sheet, as text.
        served: the page may talk to the server that it came from, and to no other.
        module: a script of its own that runs last, as a module; it may compile WebAssembly.

    Raises:
        ValueError: a module that would end its own element.
    """
    style, script = "\n".join(map(asset, styles)), "\n".join(map(asset, scripts))
    if sheet:
        told = _css_string(shortened(safe_text(sheet), _SHEET))
        style += f"\n@page {{ @bottom-left {{ content: {told}; font: 8pt Arial, sans-serif; }} }}\n"
    if "</script" in module.casefold() or "<!--" in module:
        raise ValueError("a module that holds the end of a script element")
    runs = f"{_hash(script)} {_hash(module)} 'wasm-unsafe-eval'" if module else _hash(script)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {runs}; img-src data:; base-uri 'none'; "
        "form-action 'none'" + ("; connect-src 'self'" if served else "")
    )
    last = f'<script type="module">{module}</script>\n' if module else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="{DATA_ID}">{script_json(data)}</script>\n'
        f"<script>{script}</script>\n{last}</body>\n</html>\n"
    )
