"""Names as people type them: case, hyphens and underscores make no difference, a near miss is answered with a guess."""

import difflib
from collections.abc import Iterable


def plain(name: str) -> str:
    """Return a name without case, hyphens and underscores: ``GRP_FED`` and ``grp-fed`` are ``grpfed``."""
    return name.lower().replace("-", "").replace("_", "")


def same_name(asked: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``asked`` is, but for case, hyphens and underscores; None where there is none."""
    names = list(known)
    return asked if asked in names else next((name for name in names if plain(name) == plain(asked)), None)


def did_you_mean(asked: str, known: Iterable[str]) -> str:
    """Return ``did you mean ...?`` with the known name nearest to ``asked``, or ``""`` where none is near."""
    names = {plain(name): name for name in known}
    near = difflib.get_close_matches(plain(asked), names, n=1)
    return f"did you mean {names[near[0]]}?" if near else ""
