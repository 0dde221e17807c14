"""Bundle the ES modules of this folder and of exports/js into one script, for self-contained pages that cannot import
files.

Each module becomes a function that is called once, in dependency order. Only the import and export forms used in this
folder are supported; others raise an error, which a test checks.
"""

import posixpath
import re

from ecgfed.web.page import asset

_IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_AGAIN = re.compile(r'^export \{([^{}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_UNSUPPORTED = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def _names(text: str) -> list[str]:
    """Return the names in an import or export list, with ``a as b`` as ``a: b``."""
    return [re.sub(r"\s+as\s+", ": ", name.strip()) for name in text.split(",") if name.strip()]


def _beside(module: str, imported: str) -> str:
    """Return the path of a module imported by another module."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(module), imported))


def bundled(entry: str, name: str) -> str:
    """Return a script that runs a module with its imports, and binds its exports to the constant ``name``.

    Args:
        entry: path of the module, from this folder: ``live/main.js``.
        name: the script's constant with the module's exports.

    Raises:
        ValueError: a module uses an unsupported import or export form.
    """
    constants: dict[str, str] = {}
    parts: list[str] = []

    def add(module: str) -> str:
        if module not in constants:
            text = asset(module)
            needs = [(_names(match[1]), add(_beside(module, match[2]))) for match in _IMPORT.finditer(text)]
            reexports = [(_names(match[1]), add(_beside(module, match[2]))) for match in _AGAIN.finditer(text)]
            exported = [match[1] for match in _EXPORT.finditer(text)]
            exported += [name for names, _ in reexports for name in names]
            body = _EXPORT.sub("", _AGAIN.sub("", _IMPORT.sub("", text)))
            if unsupported := _UNSUPPORTED.search(body):
                raise ValueError(f"{module}: {unsupported[0][:80]!r} is not a supported import or export form")
            imports = "".join(f"const {{ {', '.join(names)} }} = {one};\n" for names, one in needs + reexports)
            constants[module] = f"${len(constants)}"
            exports = ", ".join(exported)
            function = f'(() => {{\n"use strict";\n{imports}{body}return {{ {exports} }};\n}})()'
            parts.append(f"const {constants[module]} = {function};\n")
        return constants[module]

    last = add(entry)
    return f"{''.join(parts)}const {name} = {last};\n"
