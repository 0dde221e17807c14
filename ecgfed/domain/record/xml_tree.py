"""XML from a stranger as a small tree: no document type, no entities, nothing fetched, bounded depth and number.

Python's expat reads it: a document type declaration is refused where it begins, or where it declares anything, so no
entity can be declared, and none is ever fetched or made longer.
"""

from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

#: HL7's documents of ECGs are 15 levels deep, and have a few thousand elements; their samples are one text each.
MAX_DEPTH, MAX_ELEMENTS = 64, 400_000
#: A longer text than this is kept of no element but those that are named.
MAX_TEXT = 1 << 16


@dataclass
class Element:
    """One element.

    Attributes:
        name: without its name space.
        space: the name space, or "".
        attributes: by their names without name space.
        children: in order.
        parts: what stands in it, in pieces.
    """

    name: str
    space: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element"] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What stands in it."""
        return "".join(self.parts)

    def all(self, path: str) -> list["Element"]:
        """Return the elements at a path of names, ``component/series``."""
        elements = [self]
        for name in path.split("/"):
            elements = [child for element in elements for child in element.children if child.name == name]
        return elements

    def first(self, path: str, attribute: str = "") -> str:
        """Return an attribute, or the text, of the first element at a path; ``""`` where there is none."""
        element = next(iter(self.all(path)), None)
        if element is None:
            return ""
        return element.attributes.get(attribute, "") if attribute else element.text


class _Builder:
    def __init__(self, long: frozenset[str]) -> None:
        self.top, self.long, self.count = Element(""), long, 0
        self.open, self.room = [self.top], [0]

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if len(self.open) > MAX_DEPTH or self.count > MAX_ELEMENTS:
            raise ValueError(f"deeper than {MAX_DEPTH} levels or more than {MAX_ELEMENTS:,} elements")
        space, _, local = name.rpartition(" ")
        plain = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        element = Element(local, space, plain)
        self.open[-1].children.append(element)
        self.open.append(element)
        self.room.append(MAX_TEXT)

    def end(self, _name: str) -> None:
        self.open.pop()
        self.room.pop()

    def text(self, text: str) -> None:
        last = self.open[-1]
        if last.name not in self.long:
            text = text[: self.room[-1]]
            self.room[-1] -= len(text)
        if text:
            last.parts.append(text)

    def refuse(self, *_arguments: Any) -> None:
        raise ValueError("a document type, or entities of its own")

    def only_named(self, _name: str, _system: str | None, _public: str | None, declares: bool) -> None:
        if declares:
            self.refuse()


def parse(data: bytes, long: frozenset[str], *, names_type: bool = False) -> Element:
    """Return the root of a document.

    Args:
        data: the file, already of a bounded size.
        long: names of elements whose texts are kept whole; of all others the first 65,536 characters.
        names_type: the document may name a document type, which is not fetched; it may declare nothing of its own.

    Raises:
        ValueError: no XML, a document type or entities of its own, too deep, too many elements.
    """
    builder, parser = _Builder(long), expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.only_named if names_type else builder.refuse
    parser.EntityDeclHandler = builder.refuse
    parser.UnparsedEntityDeclHandler = builder.refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as problem:
        raise ValueError(str(problem)) from None
    except (LookupError, UnicodeError) as problem:  # an encoding that Python does not know, or that is none
        raise ValueError(f"its encoding ({problem})") from None
    if len(builder.top.children) != 1:
        raise ValueError("no element")
    return builder.top.children[0]
