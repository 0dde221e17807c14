"""Code from outside: a person's own ``FILE.py:NAME`` or ``package.module:NAME``, and packages' entry points.

Loading is running. A name that was read from a file (a cohort's, a run's, a bundle's) must not come here; only what a
person typed in this very call may. Who offers an option decides that, and says so where it calls. A file that was
pinned (its SHA-256 noted when it was used first) is compared before it runs, and the very bytes that were compared are
what runs: no compiled copy beside it is looked at.
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
#: The attribute of such a file's module that holds the SHA-256 of what was run.
_DIGEST = "_ecgfed_sha256"


@dataclass(frozen=True)
class Loaded:
    """What a name led to.

    Attributes:
        value: the object itself.
        short: ``FILE.py:NAME`` without the folder, or ``package.module:NAME``: fit to be shown and stored.
        origin: the same with the file's whole path: where it is found again on this machine.
        sha256: of the file that holds it, ``""`` where there is none.
    """

    value: object
    short: str
    origin: str
    sha256: str


def names_code(name: str) -> bool:
    """Whether a name asks for code to be loaded, and is none that is registered."""
    return ":" in name


def load_code(name: str, option: str, pinned: str | None = None) -> Loaded:
    """Load the object that a person named in this call.

    Args:
        name: ``path/to/file.py:NAME`` or ``package.module:NAME``.
        option: the option it was given with, for messages.
        pinned: the SHA-256 its file must have; None for any.

    Raises:
        OptionError: no such file or module, one that is not the pinned one or fails, or one without that name.
    """
    where, _, attribute = name.rpartition(":")
    own = where.endswith(".py")
    module = _file(Path(where), name, option, pinned) if own else _module(where, name, option, pinned)
    if not attribute or not hasattr(module, attribute):
        raise OptionError(option, f"{name!r}", f"a name in {where}", f"it has no {attribute!r}")
    path = Path(where).resolve()
    return Loaded(
        getattr(module, attribute),
        f"{path.name}:{attribute}" if own else name,
        f"{path}:{attribute}" if own else name,
        _digest_of(module),
    )


def digest_of(kind: type) -> str:
    """Return the SHA-256 of the file a class was loaded from, ``""`` where there is none (a notebook's)."""
    module = sys.modules.get(kind.__module__)
    return _digest_of(module) if module is not None else ""


def check_pin(where: object, found: str, pinned: str | None) -> None:
    """Refuse a file that is not the pinned one, before it runs; raises OptionError."""
    if pinned is not None and found != pinned:
        raise OptionError(
            where,
            f"has SHA-256 {found or 'none, no file'}",
            f"{pinned}, the file it was made with",
            "put that file back, or make it again with this one",
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


def _digest_of(module: ModuleType) -> str:
    """SHA-256 of what was run; of a module that Python found itself, of its source."""
    known = getattr(module, _DIGEST, None)
    if isinstance(known, str):
        return known
    file = getattr(module, "__file__", None)
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    except OSError:
        return ""


def _module(where: str, name: str, option: str, pinned: str | None) -> ModuleType:
    try:
        if pinned is not None and where not in sys.modules:
            spec = importlib.util.find_spec(where)
            source = Path(spec.origin) if spec is not None and spec.origin else None
            found = hashlib.sha256(source.read_bytes()).hexdigest() if source is not None and source.is_file() else ""
            check_pin(f"{option} {name}", found, pinned)
        module = importlib.import_module(where)
    except OptionError:
        raise
    except (Exception, SystemExit) as problem:
        told = str(problem) if isinstance(problem, ImportError) else f"{type(problem).__name__}: {problem}"
        raise OptionError(option, f"{name!r} ({told})", "a module that can be imported") from problem
    check_pin(f"{option} {name}", _digest_of(module), pinned)
    return module


def _file(path: Path, name: str, option: str, pinned: str | None) -> ModuleType:
    """Run a file as a module of a name that no other file has; once in a process, unless another one is pinned."""
    path = path.resolve()
    # two files of one name, in two folders, are two modules
    module_name = f"{_OWN_FILES}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    known = sys.modules.get(module_name)
    if known is not None and (pinned is None or _digest_of(known) == pinned):
        return known
    spec = importlib.util.spec_from_file_location(module_name, path)
    if not path.is_file() or spec is None:
        raise OptionError(option, f"{name!r}: no file {path}", "a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        source = path.read_bytes()
    except OSError as problem:
        raise OptionError(option, f"{path} cannot be read ({problem.strerror})", "a Python file") from problem
    digest = hashlib.sha256(source).hexdigest()
    check_pin(path, digest, pinned)
    setattr(module, _DIGEST, digest)
    sys.modules[module_name] = module  # dataclasses look their own module up
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as problem:
        del sys.modules[module_name]
        raise OptionError(
            option, f"{path} fails with {type(problem).__name__}: {problem}", "a file that runs"
        ) from problem
    return module
