"""A page for each notebook: its cells as Markdown, with the outputs that are kept in it. Nothing is run here."""

import base64
import json
from pathlib import Path
from typing import Any

from repository import DOCS

FOLDER = "notebooks"


def notebook_pages() -> dict[str, str | bytes]:
    """Return every notebook's page and its pictures, by their place on the site."""
    found: dict[str, str | bytes] = {}
    for path in sorted((DOCS / FOLDER).glob("*.ipynb")):
        found |= _page(path)
    return found


def _page(path: Path) -> dict[str, str | bytes]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    parts: list[str] = []
    pictures: dict[str, str | bytes] = {}
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace(".ipynb)", ".md)"))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            text, picture = _shown(output)
            if picture is not None:
                ending, content = picture
                place = f"{FOLDER}/{path.stem}-{len(pictures) + 1}.{ending}"
                pictures[place] = content
                text = f"![{cell['metadata']['alt']}]({place.rpartition('/')[2]})"
            parts.append(text)
    about = f"The notebook itself, to be run in Jupyter: [{path.name}]({path.name})."
    heading, *rest = parts[0].split("\n", 1)
    parts[0] = "\n\n".join([heading, about, *rest])
    return {f"{FOLDER}/{path.stem}.md": "\n\n".join(part.strip() for part in parts) + "\n", **pictures}


def _shown(output: dict[str, Any]) -> tuple[str, tuple[str, str | bytes] | None]:
    """Return an output as Markdown, or its picture: how its file ends, and the file."""
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```", None
    data = output["data"]
    if "image/svg+xml" in data:
        return "", ("svg", "".join(data["image/svg+xml"]))
    if "image/png" in data:
        return "", ("png", base64.b64decode(data["image/png"]))
    if "text/html" in data:
        return "".join(data["text/html"]), None
    return f"```text\n{''.join(data['text/plain'])}\n```", None
