"""Draws report.png, the head and a strip of a report of a synthetic patient: ``python docs/images/draw_report.py``.

Needs Chromium. What is not shown is left out by a style sheet; nothing of the page is changed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ecgfed

OUT = Path(__file__).with_name("report.png")
SHOWN = """<style>
main > section:not(#short, #strips), #strips figure:nth-of-type(1) ~ * { display: none }
</style></head>"""


def main() -> None:
    """Draw it."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        ecgfed.prepare_demo(work / "hearts", records=work / "records", minutes=10.0)
        page = work / "report.html"
        ecgfed.report(work / "records" / "demo01", out=page)
        text = page.read_text("utf-8").replace(
            "Content-Security-Policy", "nothing", 1
        )  # it lets in no style but its own
        page.write_text(text.replace("</head>", SHOWN, 1), "utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,1080"]
        subprocess.run(
            ["chromium", *options, f"--screenshot={OUT}", page.as_uri()], check=True, stderr=subprocess.DEVNULL
        )
    print(f"Wrote {OUT}.", file=sys.stderr)


if __name__ == "__main__":
    main()
