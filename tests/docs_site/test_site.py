"""The documentation site: built strictly, complete, and usable from its files without a network.

``make docs`` brings MkDocs into an environment of its own, ``.venv-docs``; without it these tests skip.
"""

import html
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from browser_driver import HERE, chromium_path, driver_path
from ecgfed_cli.main import app

import ecgfed
from ecgfed.core.methods.registry import methods

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parent.parent.parent
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build a site strictly, without a network as far as variables can say that."""
    if not MKDOCS.is_file():
        pytest.skip("no .venv-docs: make docs")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [MKDOCS, "build", "--strict", "--config-file", config, "--site-dir", out],
        cwd=config.parent,
        env={**plain, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site's folder."""
    out = tmp_path_factory.mktemp("site") / "site"
    done = build(ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def pages(site: Path) -> list[str]:
    """Every page, from the site's folder."""
    return sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html") if page.name != "404.html")


class _Read(HTMLParser):
    """What a page's navigation links to, its text without code, and its equations."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.sources: list[str] = []
        self.text: list[str] = []
        self.equations: list[str] = []
        self.loose = 0
        self._inside: list[str] = []
        self._paragraphs = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        self._paragraphs += tag in ("p", "td", "li")
        self.loose += tag == "math" and said.get("display") == "inline" and not self._paragraphs
        if tag in ("code", "pre", "script", "style", "math"):
            self._inside.append(tag)
        if tag == "a" and "md-nav__link" in (said.get("class") or ""):
            self.links.append(said.get("href") or "")
        if tag in ("img", "script") and said.get("src"):
            self.sources.append(str(said["src"]))

    def handle_endtag(self, tag: str) -> None:
        self._paragraphs -= tag in ("p", "td", "li")
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text.append(data)
        elif "math" in self._inside:
            self.equations.append(data)


def read(page: Path) -> _Read:
    reader = _Read()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def commands(group: typer.core.TyperGroup, before: str = "") -> list[str]:
    found = []
    for name, command in group.commands.items():
        found.append(before + name)
        if hasattr(command, "commands"):
            found += commands(command, f"{before}{name} ")
    return found


def test_every_method_has_a_page_with_its_settings(site: Path) -> None:
    from ecgfed.core.methods.settings import settings_of

    for name, kind in methods().items():
        text = (site / "methods" / f"{name}.html").read_text(encoding="utf-8")
        assert kind.communication.title.split()[0] in text, name
        risks = [str(setting.limits) for setting in settings_of(kind.settings_type) if setting.name == "risk"]
        balanced = any("meta-bsm" in one for one in risks)
        assert ("travel to every client" in text) is balanced, f"{name}: whether beats leave their patient"
        for setting in settings_of(kind.settings_type):
            assert f"<code>{setting.name}</code>" in text, f"{name}: {setting.name}"


def test_every_command_has_a_page_with_its_options(site: Path) -> None:
    group = typer.main.get_command(app)
    names = commands(group)
    assert len(names) > 25
    for name in names:
        text = (site / "commands" / f"{name.replace(' ', '-')}.html").read_text(encoding="utf-8")
        command = group
        for word in name.split():
            command = command.commands[word]
        if not hasattr(command, "commands"):
            for option in (one.opts[0] for one in command.params if one.param_type_name == "option" and not one.hidden):
                assert re.search(rf"<code>[^<]*{re.escape(option)}\b", text), f"{name} {option}"


def test_every_notebook_has_a_page_with_its_cells_and_pictures(site: Path) -> None:
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    assert len(notebooks) >= 3
    for path in notebooks:
        page = path.with_suffix(".html").name
        text = (site / "notebooks" / page).read_text(encoding="utf-8")
        code = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
        outputs = [one for cell in code for one in cell["outputs"]]
        as_text = [one for one in outputs if set(one.get("data", {"text/plain": ""})) == {"text/plain"}]
        assert text.count('<div class="highlight">') == len(code) + len(as_text), page
        for alt in (cell["metadata"]["alt"] for cell in code if "alt" in cell["metadata"]):
            assert html.escape(alt) in text or alt in text, alt
        assert (site / "notebooks" / path.name).read_bytes() == path.read_bytes()
        assert f'href="{path.name}"' in text
        assert f"notebooks/{page}" in (site / "whole-path.html").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    for name in ecgfed.__all__:
        assert f"ecgfed.{name}" in text, name


def test_every_page_is_in_the_navigation(site: Path, pages: list[str]) -> None:
    listed = {link.partition("#")[0] for link in read(site / "index.html").links}
    assert not [page for page in pages if page not in listed and page != "index.html"]
    assert len(pages) > 120


def test_no_markup_is_left_over_and_every_file_is_there(site: Path, pages: list[str]) -> None:
    for page in pages:
        seen = read(site / page)
        text = "".join(seen.text)
        for left in (":math:", ".. math::", "](", "**", "```", "::: "):
            assert left not in text, f"{page}: {left} in {text[max(0, text.index(left) - 60) :][:120]!r}"
        assert not seen.loose, f"{page}: an equation that is out of its sentence"
        assert not [part for part in seen.equations if "\\" in part], f"{page}: LaTeX that was not understood"
        for source in seen.sources:
            assert not re.match("https?:", source), f"{page}: {source}"
            assert (site / page).parent.joinpath(source.partition("?")[0]).is_file(), f"{page}: {source}"


@pytest.mark.slow
def test_a_broken_link_and_a_forgotten_page_fail_the_build(tmp_path: Path) -> None:
    """Of a page, of an anchor, out of docs/, and a page that no navigation names."""
    for one in ROOT.iterdir():
        if one.name not in ("docs", "mkdocs.yml", "build", ".git"):
            (tmp_path / one.name).symlink_to(one)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "faq.md").open("a", encoding="utf-8") as page:
        page.write("\n[a](nowhere.md) [b](privacy.md#no-such-part) [c](../ecgfed/nothing.py)\n")
    (tmp_path / "docs" / "forgotten.md").write_text("# Forgotten\n", encoding="utf-8")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "out")
    assert done.returncode != 0
    for named in ("nowhere.md", "no-such-part", "../ecgfed/nothing.py", "forgotten.md"):
        assert named in done.stderr, named


@pytest.mark.browser
@pytest.mark.slow
def test_pages_open_from_files_and_nothing_leaves_them(site: Path, pages: list[str]) -> None:
    """Each page on a light desktop and a dark phone, some the other way round, by axe, on paper; the search finds."""
    command = [driver_path(), str(HERE / "site.mjs"), chromium_path(), str(site)]
    done = subprocess.run(command, input=json.dumps(pages), capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["opened"] >= 2.2 * len(pages)
    for kind in ("errors", "requests", "wide", "unlike", "faults", "printed"):
        assert not told[kind], f"{kind}: {told[kind][:10]}"
    assert any("fed-rod-hyper" in found for found in told["found"])
