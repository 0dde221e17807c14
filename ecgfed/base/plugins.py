"""Load user code: ``FILE.py:NAME`` or ``package.module:NAME``, and entry points of installed packages.

Loading code executes it. Names read from a file (a cohort, a run, a bundle) must never be passed here, only names the
user gave in the current call; the caller is responsible for this and documents it. A pinned file (its SHA-256 was
recorded at its first use) is compared before it runs, and exactly the compared bytes are executed, never a compiled
copy beside it.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from ecgfed.base.errors import OptionError, param

_FILE_MODULES = "ecgfed_own_file_"
#: Attribute of such a file's module with the SHA-256 of the executed source.
_DIGEST = "_ecgfed_sha256"


@dataclass(frozen=True)
class Loaded:
    """A loaded object.

    Attributes:
        value: the object.
        short: ``FILE.py:NAME`` without the folder, or ``package.module:NAME``, for display and storage.
        origin: the same with the file's full path, to load it again on this machine.
        sha256: SHA-256 of its source file, ``""`` if there is none.
    """

    value: object
    short: str
    origin: str
    sha256: str


def names_code(name: str) -> bool:
    """Return whether a name refers to code to load rather than to a registered name."""
    return ":" in name


def load_code(name: str, option: str, pinned: str | None = None) -> Loaded:
    """Load an object named by the user in the current call.

    Args:
        name: ``path/to/file.py:NAME`` or ``package.module:NAME``.
        option: the parameter it was given with, for messages.
        pinned: the required SHA-256 of its file; None for any.

    Raises:
        OptionError: the file or module does not exist, is not the pinned one, fails, or has no such name.
    """
    where, _, attribute = name.rpartition(":")
    is_file = where.endswith(".py")
    module = _file(Path(where), name, option, pinned) if is_file else _module(where, name, option, pinned)
    if not attribute or not hasattr(module, attribute):
        raise OptionError(option, f"{name!r}", f"a name in {where}", f"it has no {attribute!r}")
    path = Path(where).resolve()
    short = f"{path.name}:{attribute}" if is_file else name
    return Loaded(getattr(module, attribute), short, f"{path}:{attribute}" if is_file else name, _digest_of(module))


def digest_of(kind: type | Callable[..., object]) -> str:
    """Return the SHA-256 of the file a class or function was loaded from, ``""`` without one (as in a notebook)."""
    module = sys.modules.get(kind.__module__)
    return _digest_of(module) if module is not None else ""


def check_pin(where: object, sha256: str, pinned: str | None) -> None:
    """Refuse a file that is not the pinned one, before it is executed; raises OptionError."""
    if pinned is not None and sha256 != pinned:
        problem = f"has SHA-256 {sha256 or 'none, no file'}"
        action = "restore that file, or start again with this one"
        raise OptionError(where, problem, f"{pinned}, the file used before", action, code="code-not-loaded")


def is_of_script(kind: object) -> bool:
    """Say whether a class or function is of the running script, which a spawned worker calls ``__mp_main__``."""
    return getattr(kind, "__module__", "") in ("__main__", "__mp_main__")


def origin_of(kind: type) -> str:
    """Return the name by which ``load_code`` loads a class again: ``FILE.py:NAME`` or ``package.module:NAME``."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)  # None in a notebook
    if kind.__module__.startswith(_FILE_MODULES) and file:
        return f"{Path(file).resolve()}:{kind.__qualname__}"
    return f"{'__main__' if is_of_script(kind) else kind.__module__}:{kind.__qualname__}"


def entries(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group, by name, without loading them.

    Raises:
        OptionError: two packages define the same name.
    """
    by_name: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name in by_name and by_name[entry.name].value != entry.value:
            previous = by_name[entry.name]
            problem = f"{entry.name!r} is defined by {_package(previous)} and {_package(entry)}"
            raise OptionError(f"entry points of {group}", problem, "different names", "uninstall one of them")
        by_name[entry.name] = entry
    return by_name


def load_entry(entry: EntryPoint) -> object:
    """Load an entry point; raises OptionError if the package fails."""
    try:
        return entry.load()
    except (Exception, SystemExit) as problem:
        reason = f"fails with {type(problem).__name__}: {problem}"
        action = f"repair or uninstall {_package(entry)}"
        raise OptionError(f"entry point {entry.value}", reason, action=action, code="code-not-loaded") from problem


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value


def _digest_of(module: ModuleType) -> str:
    """Return the SHA-256 of the executed source, or of the source file of a module that Python imported."""
    digest = getattr(module, _DIGEST, None)
    if isinstance(digest, str):
        return digest
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
            sha256 = hashlib.sha256(source.read_bytes()).hexdigest() if source is not None and source.is_file() else ""
            check_pin(f"{param(option)} {name}", sha256, pinned)
        module = importlib.import_module(where)
    except OptionError:
        raise
    except (Exception, SystemExit) as problem:
        description = str(problem) if isinstance(problem, ImportError) else f"{type(problem).__name__}: {problem}"
        raise OptionError(option, f"{name!r} ({description})", "a module that can be imported") from problem
    check_pin(f"{param(option)} {name}", _digest_of(module), pinned)
    return module


def _file(path: Path, name: str, option: str, pinned: str | None) -> ModuleType:
    """Execute a file as a module with a unique name, once per process unless another version is pinned."""
    path = path.resolve()
    # files with the same name in different folders are different modules
    module_name = f"{_FILE_MODULES}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    loaded = sys.modules.get(module_name)
    if loaded is not None and (pinned is None or _digest_of(loaded) == pinned):
        return loaded
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
    sys.modules[module_name] = module  # dataclasses look up their own module
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as problem:
        del sys.modules[module_name]
        reason = f"{path} fails with {type(problem).__name__}: {problem}"
        raise OptionError(option, reason, "a file that runs", code="code-not-loaded") from problem
    return module
