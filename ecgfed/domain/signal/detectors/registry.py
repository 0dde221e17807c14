"""Finding detectors by name: the files of this folder, packages that offer some, and anybody's own file.

A package offers a detector with an entry point of the group ``ecgfed.detectors``, whose value is a ``Detector``; a
person names one as ``path/to/file.py:NAME`` or ``package.module:NAME``. Only ``detector_option`` loads the latter: what
a person typed in this call. Every other door takes registered names and ``Detector`` values alone, so that a name in a
file from a stranger never makes code run.
"""

import copyreg
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ecgfed.base.errors import CohortError, EcgfedError, OptionError, param
from ecgfed.base.extras import EXTRA_OF, require
from ecgfed.base.plugins import entries, load_code, load_entry, names_code
from ecgfed.domain.signal.detectors.base import OURS, Detector, check_mains

ENTRY_POINTS = "ecgfed.detectors"
OPTION = "detector"


@cache
def built_in() -> dict[str, Detector]:
    """Return the detectors of this folder by name, ours first; a file offers the tuple ``DETECTORS``."""
    package = __name__.rpartition(".")[0]
    detectors: list[Detector] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        detectors += getattr(importlib.import_module(f"{package}.{module.name}"), "DETECTORS", ())
    detectors.sort(key=lambda detector: (detector.name != OURS, detector.name))
    return {detector.name: replace(detector, origin=detector.name) for detector in detectors}


def detector_names() -> list[str]:
    """Return the names of all registered detectors, ours first; no package is loaded for it."""
    return [*built_in(), *sorted(name for name in entries(ENTRY_POINTS) if name not in built_in())]


def detectors() -> dict[str, Detector]:
    """Return every registered detector by name, installed or not: ours, the others here, those of packages."""
    return {name: built_in().get(name) or _offered(name) for name in detector_names()}


def detector_by_name(detector: str | Detector) -> Detector:
    """Return a registered detector that can run here; a ``Detector`` stands for itself.

    Raises:
        OptionError: an unknown name, or one that names code.
        MissingExtraError: a package it needs is not installed.
    """
    if isinstance(detector, Detector):
        return _runnable(detector)
    if not isinstance(detector, str):
        raise OptionError(
            OPTION, f"{detector!r:.100}", "a Detector, or the name of one", "wrap a function in a Detector"
        )
    if names_code(detector):
        problem = f"{detector!r:.100} names code, not a registered detector"
        raise OptionError(OPTION, problem, action="load it with detector_option first")
    if detector in built_in():  # first: no package can put itself in the place of one of these
        return _runnable(built_in()[detector])
    if detector in entries(ENTRY_POINTS):
        return _runnable(_offered(detector))
    known = ", ".join(detector_names())
    raise OptionError(
        OPTION, f"{detector!r:.100}", f"one of {known}", "or your own as FILE.py:NAME", code="unknown-choice"
    )


def detector_option(detector: str | Detector) -> Detector:
    """Return the detector that a person asks for in this call; this runs their code where they name some.

    Args:
        detector: a registered name, ``path/to/file.py:NAME`` or ``package.module:NAME``. Never a name that was read
            from a file: ``stored_detector`` is for those.

    Raises:
        OptionError: no such detector, or what is there is none.
    """
    if not isinstance(detector, str) or not names_code(detector):
        return detector_by_name(detector)
    loaded = load_code(detector, OPTION)
    loaded_detector = _checked(loaded.value, f"{param(OPTION)} {detector}")
    return _runnable(replace(loaded_detector, name=loaded.short, origin=loaded.origin))


def stored_detector(name: object, where: object, action: str = f"pass it again with {param('detector')}") -> Detector:
    """Return the detector that a file names; no code is loaded because a file names it.

    Args:
        name: what stands in the file.
        where: the file, for messages.
        action: what to do where the file cannot decide.

    Raises:
        CohortError: a name that is code of somebody's own, or of no detector that is installed here.
    """
    if isinstance(name, str) and names_code(name):
        raise CohortError(
            where,
            f"its detector {name!r:.100} is somebody's own code",
            "a registered name",
            action,
            code="code-not-loaded",
        )
    if not isinstance(name, str):
        raise CohortError(where, f"its detector is {name!r:.100}", "a name", action)
    try:
        return detector_by_name(name)
    except EcgfedError as problem:
        raise CohortError(
            where, f"its detector {name!r:.100} is not here ({problem.marked})", action=action
        ) from problem


def stored_mains(mains_hz: object, where: object) -> float | None:
    """Return the mains' frequency in Hz that a file says, None where it says none; raises CohortError."""
    try:
        return check_mains(mains_hz)  # type: ignore[arg-type]
    except OptionError as problem:
        raise CohortError(where, f"its mains_hz is {mains_hz!r:.100}", "50 or 60") from problem


@cache
def _offered(name: str) -> Detector:
    """Load an installed package's detector."""
    entry = entries(ENTRY_POINTS)[name]
    return replace(_checked(load_entry(entry), f"entry point {entry.value}"), name=name, origin=name)


def _checked(value: object, where: str) -> Detector:
    if not isinstance(value, Detector):
        raise OptionError(where, f"{type(value).__name__} is no detector", "an ecgfed.domain.signal.detectors.Detector")
    if not callable(value.find):
        raise OptionError(where, "its find cannot be called", "a function; see docs/extend.md")
    return value


def _runnable(detector: Detector) -> Detector:
    for module in detector.modules:
        if module in EXTRA_OF:
            require(module, f"{param(OPTION)} {detector.name}")
        elif find_spec(module) is None:
            problem = f"{detector.name} needs {module}, not installed here"
            raise OptionError(OPTION, problem, action=f"pip install {module}, or name another")
    return detector


def _reduced(detector: Detector) -> tuple[Callable[..., Detector], tuple[object, ...]]:
    """A detector travels to a worker process by where it is found; one made in place by its fields."""
    if detector.origin:
        return detector_option, (detector.origin,)
    return Detector, tuple(getattr(detector, field.name) for field in fields(detector))


# a worker process is this same call: what its caller was allowed to load, it may
copyreg.pickle(Detector, _reduced)
