"""What a header states of patient and recording: on the page only when requested, and always as text."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import ecgfed
from ecgfed.reports.recording_page import recording_page
from ecgfed.reports.recording_report import RecordingReport

NAME = "Anna Mueller 04-MAR-1951"
HOSTILE = (
    NAME,
    "</li></ul><script>window.hacked = 1</script>",
    "<img src=x onerror='hacked()'>",
    "a\u2028b\x00\x1b[2J",
)


class Tags(HTMLParser):
    """Counts the elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)


def test_header_lines_are_shown_on_request_as_text(records: Path) -> None:
    plain = ecgfed.report(records / "p1")
    assert isinstance(plain, RecordingReport)
    assert plain.to_dict()["header_lines"] is None
    named = replace(plain.recording, comments=HOSTILE)
    hidden = ecgfed.report(named)
    assert NAME not in hidden.html + json.dumps(hidden.to_dict())
    shown = ecgfed.report(named, header=True)
    assert shown.to_dict()["header_lines"] == list(HOSTILE)
    assert NAME in shown.html
    names = Tags(shown.html).names
    harmless = Tags(recording_page(replace(shown.parts, header_lines=("a", "b", "c", "d")))).names
    assert names == harmless
    assert not {"\u2028", "\x00", "\x1b"} & set(shown.html)


def test_print_has_lines_for_handwriting(records: Path) -> None:
    page = ecgfed.report(records / "p1").html
    block = page.split('<div class="handwriting">')[1].split("</div>")[0]
    assert [text.split(":")[0] for text in block.split("<p>")[1:]] == [
        "Indication",
        "Comments",
        "Reviewed by",
        "Date and time",
    ]
