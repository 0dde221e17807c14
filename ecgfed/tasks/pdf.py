"""Printing a page to PDF with an installed Chromium."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ecgfed.base.errors import OptionError, StorageError

#: Names of Chromium on PATH, in order of preference.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Timeout of the browser; the page of a 24 h recording prints in a few seconds.
_MOST_S = 180.0


def find_browser(option: str = "pdf") -> Path:
    """Return the path of Chromium; raises OptionError for ``option`` if none is installed."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        names = ", ".join(BROWSERS[:3])
        action = "or print the page from any browser"
        raise OptionError(option, "finds no browser that prints", f"{names} on PATH", action)
    return Path(browser)


def print_pdf(page: str, browser: Path) -> bytes:
    """Print a self-contained HTML document and return the PDF.

    Raises:
        StorageError: the browser failed or timed out.
    """
    with tempfile.TemporaryDirectory(prefix="ecgfed-pdf-") as name:
        folder = Path(name)
        source, target = folder / "page.html", folder / "page.pdf"
        source.write_text(page, encoding="utf-8")
        command = [
            str(browser),
            "--headless",
            "--disable-gpu",
            "--disable-extensions",
            "--no-first-run",
            "--window-size=1120,900",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder / 'profile'}",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # its sandbox does not run as root
            command.insert(1, "--no-sandbox")
        try:
            process = subprocess.run(command, capture_output=True, timeout=_MOST_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StorageError(browser, f"did not print ({error})", action="leave --pdf out") from None
        if not target.is_file():
            errors = process.stderr.decode(errors="replace").strip().splitlines()
            why = errors[-1] if errors else f"exit code {process.returncode}"
            raise StorageError(browser, f"did not print ({why})", action="leave --pdf out")
        return target.read_bytes()
