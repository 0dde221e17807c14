"""Opening a page of ours in headless Chromium: what ``make browser`` brings, or a test that skips."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ecgfed.tasks.pdf import BROWSERS

HERE = Path(__file__).parent / "browser"


def chromium_path() -> str:
    """Where Chromium is; skips where there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on PATH: make browser")
    return found


def driver_path() -> str:
    """Where node is; skips where it is not, or the packages of ``tests/browser`` are not."""
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / "puppeteer-core").is_dir():
        pytest.skip("no node, or not the packages of tests/browser: make browser")
    return node


def driven(script: str, given: dict[str, Any], folder: Path, *, timeout_s: float) -> dict[str, Any]:
    """What a script of ``tests/browser`` found on pages of ours, as it says itself; its files go into ``folder``."""
    (folder / "given.json").write_text(json.dumps(given))
    command = [driver_path(), str(HERE / script), chromium_path(), str(folder / "given.json"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def opened(page: Path, folder: Path) -> dict[str, Any]:
    """What happened when a page was opened and used (``page.mjs``), and its PDF; screenshots go into ``folder``."""
    command = [driver_path(), str(HERE / "page.mjs"), chromium_path(), str(page), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return {**answer, "pdf": (folder / "page.pdf").read_bytes()}
