"""Errors on a served page, in the language of the page."""

from ecgfed.base.errors import EcgfedError
from ecgfed.base.language import Message, Spelled, message


def line_of(problem: EcgfedError) -> Message:
    """Return an error in one line, as ``str(problem)``; a page translates the parts that are messages."""
    where, reason, expected, action = map(Spelled, problem.parts)
    line = message("{where}: {reason}", where=where, reason=reason)
    if expected.text:
        line = message("{problem}; expected {expected}", problem=line, expected=expected)
    return message("{problem}; {action}", problem=line, action=action) if action.text else line
