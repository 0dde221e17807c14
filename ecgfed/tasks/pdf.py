"""Printing a page of ours to PDF through the Chromium there is."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ecgfed.base.errors import OptionError, StorageError

#: What Chromium is called on PATH, the first one found is used.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: A page of 24 hours is printed in a few seconds; a browser that hangs is ended.
_MOST_S = 180.0


def find_browser() -> Path:
    """Return the browser that prints; raises OptionError where there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        names = ", ".join(BROWSERS[:3])
        action = "or print the page from any browser"
        raise OptionError("--pdf", "finds no browser that prints", f"{names} on PATH", action)
    return Path(found)


def print_pdf(page: str, browser: Path) -> bytes:
    """Print an HTML document that needs no other file, and return the PDF.

    Raises:
        StorageError: the browser failed, or took too long.
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
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # its sandbox refuses to run for root
            command.insert(1, "--no-sandbox")
        try:
            done = subprocess.run(command, capture_output=True, timeout=_MOST_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise StorageError(browser, f"did not print ({problem})", action="leave --pdf out") from None
        if not target.is_file():
            said = done.stderr.decode(errors="replace").strip().splitlines()
            why = said[-1] if said else f"exit code {done.returncode}"
            raise StorageError(browser, f"did not print ({why})", action="leave --pdf out")
        return target.read_bytes()
