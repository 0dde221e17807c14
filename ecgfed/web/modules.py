"""ES modules of this folder as one script: for a page in one file, which can import nothing.

Each module becomes a function that is called once, in the order in which they need one another. Only the forms that our
modules are written in are understood; any other is an error of ours, and a test says so.
"""

import re
from pathlib import PurePosixPath

from ecgfed.web.page import asset

_IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_AGAIN = re.compile(r'^export \{([^{}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def _names(text: str) -> list[str]:
    """Return the names between braces, ``a as b`` as ``a: b``."""
    return [re.sub(r"\s+as\s+", ": ", one.strip()) for one in text.split(",") if one.strip()]


def _beside(module: str, other: str) -> str:
    """Return the path of a module that another one imports."""
    parts: list[str] = []
    for part in (PurePosixPath(module).parent / other).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def bundled(entry: str, name: str) -> str:
    """Return a script that runs a module and all it imports, and calls what it exports ``name``.

    Args:
        entry: path of the module in this folder: ``live/main.js``.
        name: the constant of the script that holds the module's exports.

    Raises:
        ValueError: a module that imports or exports in another form.
    """
    done: dict[str, str] = {}
    parts: list[str] = []

    def add(module: str) -> str:
        if module not in done:
            text = asset(module)
            needs = [(_names(one[1]), add(_beside(module, one[2]))) for one in _IMPORT.finditer(text)]
            again = [(_names(one[1]), add(_beside(module, one[2]))) for one in _AGAIN.finditer(text)]
            exported = [one[1] for one in _EXPORT.finditer(text)] + [given for names, _ in again for given in names]
            body = _EXPORT.sub("", _AGAIN.sub("", _IMPORT.sub("", text)))
            if left := _LEFT.search(body):
                raise ValueError(f"{module}: {left[0][:80]!r} is of a form that is not bundled")
            taken = "".join(f"const {{ {', '.join(names)} }} = {held};\n" for names, held in needs + again)
            done[module] = f"${len(done)}"
            given = ", ".join(exported)
            parts.append(
                f'const {done[module]} = (() => {{\n"use strict";\n{taken}{body}return {{ {given} }};\n}})();\n'
            )
        return done[module]

    last = add(entry)
    return f"{''.join(parts)}const {name} = {last};\n"
