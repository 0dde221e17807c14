"""XML from untrusted files as an ElementTree: no entities, nothing fetched, bounded depth and number of elements."""

from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException, DTDForbidden
from defusedxml.ElementTree import XMLParser

#: HL7 documents of ECGs have 15 levels and a few thousand elements; the samples of a lead are the text of one.
MAX_DEPTH, MAX_ELEMENTS = 64, 400_000
#: Maximum length of a text or attribute in characters, except for samples.
MAX_TEXT = 1 << 16


class _BoundedBuilder(TreeBuilder):
    """Tree builder that limits the depth and the number of elements."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = self.count = 0

    def start(self, tag: str, attrs: dict[Any, Any], /) -> Element:
        self.depth, self.count = self.depth + 1, self.count + 1
        if self.depth > MAX_DEPTH or self.count > MAX_ELEMENTS:
            raise ValueError(f"deeper than {MAX_DEPTH} levels or more than {MAX_ELEMENTS:,} elements")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self.depth -= 1
        return super().end(tag)


def _reject_declarations(name: str, system: str | None, public: str | None, declares: bool) -> None:
    if declares:
        raise DTDForbidden(name, system, public)


def parse(data: bytes, *, allow_doctype: bool = False) -> Element:
    """Return the root of a document.

    Args:
        data: the file, of limited size.
        allow_doctype: accept a document type that declares nothing itself; it is not fetched.

    Raises:
        ValueError: no XML, a document type or entities, too deep, too many elements.
    """
    parser = XMLParser(target=_BoundedBuilder(), forbid_dtd=not allow_doctype)
    if allow_doctype:  # defusedxml would accept declarations other than entities, and reject entities not fetched
        parser.parser.StartDoctypeDeclHandler = _reject_declarations
        parser.parser.DefaultHandlerExpand = None
    try:
        parser.feed(data)
        root: Element = parser.close()
    except DefusedXmlException:
        raise ValueError("a document type, or entities of its own") from None
    except ParseError as problem:
        raise ValueError(str(problem)) from None
    except (LookupError, UnicodeError) as problem:  # an unknown encoding, or bytes that are not of it
        raise ValueError(f"its encoding ({problem})") from None
    return root


def find_all(element: Element, path: str) -> list[Element]:
    """Return the elements at a path of names without name space, ``component/series``."""
    return element.findall("/".join(f"{{*}}{name}" for name in path.split("/")))


def first(element: Element, path: str, attribute: str = "") -> str:
    """Return an attribute, or the text, of the first element at a path; ``""`` without one. At most ``MAX_TEXT``."""
    match = next(iter(find_all(element, path)), None)
    if match is None:
        return ""
    return ((match.get(attribute) if attribute else match.text) or "")[:MAX_TEXT]
