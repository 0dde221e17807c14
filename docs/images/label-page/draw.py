"""Draws label-page.png, a question of the labelling page: ``python docs/images/label-page/draw.py``. Needs Chromium.

A synthetic patient of ten minutes, to whose first questions the truth was answered. What the page says is written into
``label-page.json``. Nothing of the page is changed: a script answers in a reader's place, and the rest is cut off.
"""

import json
import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

import numpy as np
from PIL import Image

import ecgfed

HERE = Path(__file__).parent
OUT = HERE / "label-page.png"
#: The patient, and how many questions are answered before the one that is shown.
PATIENT, ANSWERED = "demo04", 3
#: Pixels of the picture; the page goes on below.
WIDTH, HEIGHT = 1280, 868
#: Colours of the picture, so that it is small.
COLOURS = 48
#: Ids of what the page says of the question.
SAID = ("progress-said", "question-title", "question-said", "average-said", "odd-said")
#: Answers as a reader does who takes their time: the page takes no answer to what has only just appeared.
ANSWER = """<script>
performance.now = () => 1000 * Date.now();
addEventListener("load", () => {
  const truth = %s;
  for (let i = 0; i < %d; i += 1) {
    const { beat } = document.querySelector("#question").dataset;
    document.querySelector(`#answers [data-label="${truth[beat]}"]`).click();
  }
  document.activeElement.blur();
  scrollTo(0, 0);
});
</script></head>"""


def page(folder: Path) -> Path:
    """Make recording and labelling page in an empty folder; return the page, with a reader in it."""
    ecgfed.prepare_demo(folder / "cohort", records=folder / "records", patients=4, minutes=10)
    record = folder / "records" / PATIENT
    labelling = ecgfed.label(record, folder / "labels")
    marks = ecgfed.read_annotation(ecgfed.read_recording(record, ("MLII",)), "atr").beats()
    nearest = np.abs(marks.sample[None] - labelling.page.sample[:, None]).argmin(1)
    truth = [str(marks.symbol[one]) for one in nearest]
    made = folder / "labels" / f"{PATIENT}-label.html"
    text = made.read_text("utf-8").replace("Content-Security-Policy", "nothing", 1)  # it lets in no script but its own
    made.write_text(text.replace("</head>", ANSWER % (json.dumps(truth), ANSWERED), 1), "utf-8")
    return made


def chromium(made: Path, *more: str) -> str:
    """Open the page; return what Chromium writes."""
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={WIDTH},{HEIGHT + 110}",
    ]
    command = ["chromium", *options, "--virtual-time-budget=9000", *more, made.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def said(made: Path) -> dict[str, str]:
    """Return what the page says of its question."""
    text = chromium(made, "--dump-dom")
    found = {}
    for name in SAID:
        (inside,) = re.findall(rf'<(\w+)[^>]* ?id="{name}"[^>]*>(.*?)</\1>', text, re.DOTALL)
        found[name] = unescape(re.sub(r"<[^>]+>", "", inside[1])).strip()
    return found


def main() -> None:
    """Draw it."""
    with tempfile.TemporaryDirectory() as folder:
        made = page(Path(folder))
        (HERE / "label-page.json").write_text(json.dumps(said(made), indent=1) + "\n", "utf-8")
        chromium(made, f"--screenshot={OUT}")
    with Image.open(OUT) as whole:
        small = whole.convert("RGB").crop((0, 0, WIDTH, HEIGHT)).quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(OUT, optimize=True)
    print(f"Wrote {OUT}.", file=sys.stderr)


if __name__ == "__main__":
    main()
