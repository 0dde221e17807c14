"""MkDocs' hook: adds the pages that a registry writes, fills the navigation, and turns links to where pages lie."""

import logging
from typing import Any

from command_pages import command_pages
from method_pages import method_pages, with_method_links
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebook_pages import notebook_pages
from reference_pages import reference_pages
from repository import ROOT, outside, with_site_links

_log = logging.getLogger("mkdocs.ecgfed")  # below mkdocs: a warning fails a strict build
_generated: dict[str, str | bytes] = {}
_places: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the generated pages, and put every page of a folder where the navigation says ``FOLDER/*``."""
    _places.update(outside())
    _generated.update({**method_pages(), **command_pages(), **reference_pages(), **notebook_pages()})
    inside = [path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    config.nav = _filled(config.nav, [*_generated, *sorted(_places.values()), *inside])
    return config


def _filled(nav: Any, pages: list[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _filled(inside, pages) for title, inside in nav.items()}
    if not isinstance(nav, list):
        return nav
    filled: list[Any] = []
    for one in nav:
        if isinstance(one, str) and one.endswith("/*"):
            folder = one[:-1]
            own = [page for page in pages if page.startswith(folder) and page.endswith(".md")]
            filled += [page for page in own if page.rpartition("/")[2] not in ("README.md", "index.md")]
        else:
            filled.append(_filled(one, pages))
    return filled


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository that lie outside docs/, and the generated ones."""
    for path, place in _places.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    for place, text in _generated.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn a page's links to where they lead on the site."""
    place = page.file.src_uri
    if place in _generated:
        return markdown
    origin = next((path for path, where in _places.items() if where == place), f"docs/{place}")

    def missing(target: str) -> None:
        _log.warning("%s links to %s, which is not there", origin, target)

    turned = with_site_links(markdown, origin, place, _places, missing)
    return with_method_links(turned) if place == "methods.md" else turned


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make a table's empty first header a plain cell: a header without text tells a screen reader nothing."""
    return html.replace("<th></th>", "<td></td>")
