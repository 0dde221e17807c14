"""Tables of generated pages."""

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; a cell's own bars and paragraphs stay in their cell."""
    cells = [[cell.replace("|", "\\|").replace("\n\n", "<br>") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *cells))
