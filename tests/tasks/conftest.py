"""Fixtures of the tests of ``serve``."""

from served_work import demo, work

__all__ = ["demo", "work"]
