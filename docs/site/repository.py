"""Where files of the repository lie on the site, and links between them.

The sources' links lead where a reader of the repository goes. On the site a link to another page leads to that page;
one to a file that is no page (a source, a results file) becomes that file's name, since the project has no public home
yet.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Pages outside docs/: file of the repository -> page of the site.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "benchmarks/README.md": "benchmarks/index.md",
}
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def outside() -> dict[str, str]:
    """Return every file outside docs/ that is on the site, and where: pages, and pictures beside them."""
    found = dict(OUTSIDE)
    for file in sorted((ROOT / "benchmarks").rglob("*")):
        path = file.relative_to(ROOT).as_posix()
        if file.name == "README.md" and path not in found:
            found[path] = f"{posixpath.dirname(path)}.md"
        elif file.suffix == ".svg":
            found[path] = path
    return found


def site_place(path: str, places: dict[str, str]) -> str | None:
    """Return where a file of the repository lies on the site, or None where it is not on it.

    Args:
        path: from the repository's root, with ``/``.
        places: as ``outside`` gives them.
    """
    if path in places:
        return places[path]
    inside = path.removeprefix("docs/")
    if inside != path and inside.endswith(".ipynb"):
        return f"{inside.removesuffix('.ipynb')}.md"  # its page, which links to it (notebook_pages.py)
    return inside if inside != path and Path(path).suffix in {".md", ".png", ".svg"} else None


def with_site_links(text: str, origin: str, page: str, places: dict[str, str], missing: Callable[[str], None]) -> str:
    """Return a page's Markdown with its links as they are on the site.

    Args:
        text: Markdown.
        origin: the page's file, from the repository's root.
        page: where it lies on the site.
        places: as ``outside`` gives them.
        missing: told of every link whose file is not there.
    """

    def turned(match: re.Match[str]) -> str:
        picture, label, target, anchor = match.groups()
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if not (ROOT / path).exists():
            missing(target)
            return match[0]
        place = site_place(path, places)
        if place is None:
            return label if path in label else f"{label} (`{path}`)"
        way = posixpath.relpath(place, posixpath.dirname(page) or ".")
        return f"{picture}[{label}]({way}{anchor or ''})"

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(turned, part) for part in parts)
