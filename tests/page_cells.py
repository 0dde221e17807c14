"""The tables, facts and paragraphs of a report's page."""

from html.parser import HTMLParser


class Cells(HTMLParser):
    """Collects the cells of each table by its caption, names and values of lists, and paragraphs of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.facts: dict[str, str] = {}
        self.paragraphs: list[str] = []
        self.name, self.text = "", ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("caption", "th", "td", "dt", "dd", "p"):
            self.text = ""
        if tag == "tr":
            self.tables[self.name].append([])

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        text = " ".join(self.text.split())
        if tag == "caption":
            self.name = text
            self.tables[text] = []
        elif tag in ("th", "td"):
            self.tables[self.name][-1].append(text)
        elif tag == "dt":
            self.name = text
        elif tag == "dd":
            self.facts[self.name] = text
        elif tag == "p":
            self.paragraphs.append(text)
