"""What one federated algorithm decides: one file each (torch).

Imported as ``ecgfed.methods`` it offers what a method needs (docs/extend.md lists the names). They are loaded when they
are first used, since a file of this folder may be imported without torch.
"""

import re
from importlib import import_module
from pathlib import Path

#: Public name -> the module that has it, from the stub that type checkers read.
_MODULE_OF = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+) as ", (Path(__file__).parents[2] / "methods.pyi").read_text("utf-8"), re.MULTILINE
    )
}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    """Import the module of a public name when the name is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ecgfed.methods' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
