"""Output files of a page: HTML, and optionally a PDF beside it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ecgfed.base.errors import OptionError, param
from ecgfed.base.files import check_free, write_together
from ecgfed.tasks.pdf import print_pdf

_SUFFIXES = (".html", ".htm")


def page_targets(
    out: Path | str | None, *, pdf: bool = False, overwrite: bool = False, more: Sequence[Path] = ()
) -> list[Path]:
    """Return the page and its PDF, to be written; raises OptionError for unusable files before the work begins.

    Args:
        out: the page; None for none.
        pdf: also a PDF beside it.
        overwrite: existing files are replaced.
        more: other files to write beside it, which are checked as well.
    """
    if out is None:
        if pdf:
            action = f"name one with {param('out')}"
            raise OptionError("pdf", f"without {param('out')}", "a page to print", action, code="missing")
        return []
    page = Path(out)
    if page.suffix.casefold() not in _SUFFIXES:
        raise OptionError("out", f"{page}", "a name that ends in .html")
    targets = [page, page.with_suffix(".pdf")] if pdf else [page]
    folders = [target.name for target in (*targets, *more) if target.is_dir()]
    if folders:
        raise OptionError("out", f"{', '.join(folders)} is a folder", "a file to write")
    check_free([*targets, *more], overwrite=overwrite)
    return targets


def earlier_files(page: Path, suffixes: Iterable[str], written: Collection[Path]) -> list[Path]:
    """Return the files of an earlier page of this name, with one of the suffixes, that are not written again."""
    beside = [page.with_suffix(suffix) for suffix in suffixes]
    return [file for file in beside if file.is_file() and file not in written]


def write_page(
    targets: Sequence[Path], page: str, browser: Path | None, more: Mapping[Path, bytes] | None = None
) -> None:
    """Write a page, its PDF if ``browser`` is given, and more files beside it: all or none; raises StorageError."""
    contents = [page.encode()]
    if browser is not None:
        contents.append(print_pdf(page, browser))
    write_together({**dict(zip(targets, contents, strict=True)), **(more or {})})
