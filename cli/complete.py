"""What the shell may complete an option's value with: names that can be told without loading torch."""

import re
from collections.abc import Callable
from pathlib import Path

import ecgfed
from ecgfed.base.plugins import entries

_NAME = re.compile(r'^    name: ClassVar\[str\] = "([^"]+)"', re.MULTILINE)


def choices(*names: str) -> Callable[[str], list[str]]:
    """Return a completion with fixed names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def method_names(incomplete: str) -> list[str]:
    """Return the methods that begin so: this package's, read from their files since importing them would load torch,
    and those that installed packages offer.
    """
    names = set(entries("ecgfed.methods"))
    for file in (Path(ecgfed.__file__).parent / "core" / "methods").glob("*.py"):
        names.update(_NAME.findall(file.read_text(encoding="utf-8")))
    return sorted(name for name in names if name.startswith(incomplete))


def detector_names(incomplete: str) -> list[str]:
    """Return the R-peak detectors that begin so: this package's, and those that installed packages offer."""
    from ecgfed.domain.signal.detectors.registry import ENTRY_POINTS, built_in

    names = dict.fromkeys([*built_in(), *entries(ENTRY_POINTS)])
    return [name for name in names if name.startswith(incomplete)]
