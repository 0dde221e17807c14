"""Code from outside: a person's own ``FILE.py:NAME`` or ``package.module:NAME``, and packages' entry points.

Loading is running. A name that was read from a file (a cohort's, a run's, a bundle's) must not come here; only what a
person typed in this very call may. Who offers an option decides that, and says so where it calls.
"""

import hashlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from ecgfed.errors import OptionError

_OWN_FILES = "ecgfed_own_file_"


@dataclass(frozen=True)
class Loaded:
    """What a name led to.

    Attributes:
        value: the object itself.
        short: ``FILE.py:NAME`` without the folder, or ``package.module:NAME``: fit to be shown and stored.
        origin: the same with the file's whole path: where it is found again on this machine.
    """

    value: object
    short: str
    origin: str


def names_code(name: str) -> bool:
    """Whether a name asks for code to be loaded, and is none that is registered."""
    return ":" in name


def load_code(name: str, option: str) -> Loaded:
    """Load the object that a person named in this call.

    Args:
        name: ``path/to/file.py:NAME`` or ``package.module:NAME``.
        option: the option it was given with, for messages.

    Raises:
        OptionError: no such file or module, one that fails, or one without that name.
    """
    where, _, attribute = name.rpartition(":")
    own = where.endswith(".py")
    module = _file(Path(where), name, option) if own else _module(where, name, option)
    if not attribute or not hasattr(module, attribute):
        raise OptionError(option, f"{name!r}", f"a name in {where}", f"it has no {attribute!r}")
    path = Path(where).resolve()
    return Loaded(
        getattr(module, attribute), f"{path.name}:{attribute}" if own else name, f"{path}:{attribute}" if own else name
    )


def origin_of(kind: type) -> str:
    """The name by which ``load_code`` finds a class again: ``FILE.py:NAME`` or ``package.module:NAME``."""
    file = sys.modules[kind.__module__].__file__
    if kind.__module__.startswith(_OWN_FILES) and file:
        return f"{Path(file).resolve()}:{kind.__qualname__}"
    return f"{kind.__module__}:{kind.__qualname__}"


def entries(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages offer in a group, by name; nothing is loaded.

    Raises:
        OptionError: two packages offer the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name in found and found[entry.name].value != entry.value:
            other = found[entry.name]
            raise OptionError(
                f"entry points of {group}",
                f"{entry.name!r} is offered by {_package(other)} and {_package(entry)}",
                "a name of its own for each",
                "uninstall one of them",
            )
        found[entry.name] = entry
    return found


def load_entry(entry: EntryPoint) -> object:
    """Load what an entry point names; raises OptionError where the package fails."""
    try:
        return entry.load()
    except (Exception, SystemExit) as problem:
        raise OptionError(
            f"entry point {entry.value}",
            f"fails with {type(problem).__name__}: {problem}",
            action=f"repair or uninstall {_package(entry)}",
        ) from problem


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value


def _module(where: str, name: str, option: str) -> ModuleType:
    try:
        return importlib.import_module(where)
    except (Exception, SystemExit) as problem:
        told = str(problem) if isinstance(problem, ImportError) else f"{type(problem).__name__}: {problem}"
        raise OptionError(option, f"{name!r} ({told})", "a module that can be imported") from problem


def _file(path: Path, name: str, option: str) -> ModuleType:
    """Run a file as a module of a name that no other file has; once in a process."""
    path = path.resolve()
    # two files of one name, in two folders, are two modules
    module_name = f"{_OWN_FILES}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise OptionError(option, f"{name!r}: no file {path}", "a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        del sys.modules[module_name]
        raise OptionError(
            option, f"{path} fails with {type(problem).__name__}: {problem}", "a file that runs"
        ) from problem
    return module
