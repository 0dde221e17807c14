"""Deprecated import paths: a module that moved is still imported under its old path, as the same module object.

``ecgfed.device`` and ``ecgfed.methods`` are public and stay; any other old path gives a DeprecationWarning that names
the new one.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

#: The version that no longer has the old paths.
REMOVED = "0.5"
#: Old path below ``ecgfed`` -> new path.
PLACE_OF = {
    **{name: f"base.{name}" for name in ("deprecation", "errors", "extras", "files", "locks", "plugins", "text")},
    **{"durable": "base.fsync", "gate": "base.safe_io", "system": "base.platform"},
    **{name: f"domain.{name}" for name in ("beats", "cohort", "events", "labels", "record", "signal")},
    **{name: f"core.{name}" for name in ("evaluation", "federation", "methods", "nets", "personal", "privacy", "runs")},
    **{name: f"exports.{name}" for name in ("bundles", "device", "mcu")},
}
PUBLIC = {"device", "methods"}


class _Alias:
    """Loads a module under its old name: the module of the new name itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of the new name."""
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, in whose place the import system has put that of the old name."""
        module.__spec__ = self._spec

    def get_code(self, name: str) -> CodeType | None:
        """Return the code for ``python -m`` with the old name."""
        loader = import_module(self._name).__spec__.loader  # type: ignore[union-attr]
        return loader.get_code(self._name)  # type: ignore[union-attr, no-any-return]


class _Finder:
    """Finds old names below ``ecgfed``; stands before the other finders, for these would load a submodule again."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return a spec for an old name that there is a module for, None for any other name."""
        package, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if package != "ecgfed" or room not in PLACE_OF:
            return None
        new = f"ecgfed.{PLACE_OF[room]}{rest.removeprefix(room)}"
        try:
            import_module(new)
        except ModuleNotFoundError as problem:
            if problem.name != new:
                raise
            return None
        if room not in PUBLIC:
            text = f"{name} is {new} now; the old name goes with ecgfed {REMOVED}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return ModuleSpec(name, _Alias(new), is_package=hasattr(sys.modules[new], "__path__"))  # type: ignore[arg-type]


def install() -> None:
    """Let old names be imported, once however often this is called."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
