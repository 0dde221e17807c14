"""Equations of docstrings as MathML, which browsers draw without a script or a font of ours."""

import html
import re
import textwrap

from latex2mathml.converter import convert

_ROLE = re.compile(r":math:`([^`]+)`")
_TAG = re.compile(r"\\tag\{([^}]*)\}")
_SIDES = re.compile(r"\\(?:left|right)(?![a-z])")
_BLOCK = re.compile(r"^\.\. math::(.*)\n((?:[ \t]+\S.*\n|[ \t]*\n)*)", re.MULTILINE)


def with_equations(text: str) -> str:
    """Return a docstring as Markdown: ``:math:`` and ``.. math::`` as MathML, the rest as it is."""
    drawn = _BLOCK.sub(lambda match: f"\n{_equations(match[1], match[2])}\n\n", text + "\n")
    # in a span: Markdown takes <math> at the start of a line for a block, and ends the paragraph
    return _ROLE.sub(lambda match: f"<span>{_mathml(match[1], 'inline')}</span>", drawn).strip()


def rows(first: str, body: str) -> list[str]:
    """Return the equations of a directive, a row each: rows end at a double backslash or at a tag."""
    lines = textwrap.dedent(body).splitlines()
    joined = " ".join(line.strip() for line in (first, *lines) if line.strip())
    parts = re.split(r"\\\\(?![a-zA-Z])|(?<=\x00)", _TAG.sub(lambda tag: f"{tag[0]}\x00", joined))
    return [row for part in parts if (row := part.replace("\x00", "").strip())]


def _equations(first: str, body: str) -> str:
    found = []
    for row in rows(first, body):
        tag = _TAG.search(row)
        parts = _parts(re.sub(r"(?<!\\)&", "", _TAG.sub("", row)))
        drawn = "".join(_mathml(part, "block") for part in parts)
        number = f'<span class="number">({html.escape(tag[1])})</span>' if tag else ""
        found.append(f'<div class="equation" tabindex="0">{drawn}{number}</div>')
    return "\n".join(found)


def _parts(row: str) -> list[str]:
    """Return what stands side by side in a row, so that a narrow page can put it one below the other."""
    parts = [part.strip() for part in re.split(r"\\qquad", row)]
    whole = all(part.count("{") == part.count("}") and len(_SIDES.findall(part)) % 2 == 0 for part in parts)
    return parts if whole else [row]


def _mathml(latex: str, display: str) -> str:
    """Return one equation, its source beside it for those who cannot see it."""
    plain = re.sub(r"\\arg\\min", r"\\operatorname{arg\\,min}", " ".join(latex.split()))
    drawn = convert(plain, display=display)
    return drawn.replace("<math ", f'<math aria-label="{html.escape(latex.strip(), quote=True)}" ', 1)
