"""Optional dependencies: the extra that installs each package, and the error if a package is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ecgfed.base.errors import MissingExtraError

#: Import name of a package -> the extra that installs it (described in pyproject.toml).
EXTRA_OF = {
    **dict.fromkeys(("wfdb", "edfio"), "records"),
    "pydicom": "hospital",
    **dict.fromkeys(("torch", "safetensors", "onnx", "onnxscript"), "train"),
    "matplotlib": "report",
    "neurokit2": "detectors",
    "sleepecg": "sleepecg",
    "ts2vg": "emrich2023",
    "tensorboard": "tensorboard",
    "pandas": "frames",
    "cryptography": "sign",
    **dict.fromkeys(("flwr", "fastapi", "httpx"), "flower"),
}


def _missing(package: str, purpose: str) -> MissingExtraError:
    action = f"pip install 'ecgfed[{EXTRA_OF[package]}]'"
    return MissingExtraError(package, f"is not installed, but {purpose} needs it", action=action)


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    return find_spec(package) is not None


def require(package: str, purpose: str) -> None:
    """Check that a package of an extra is installed; call before a lazy import.

    Args:
        package: a key of ``EXTRA_OF``.
        purpose: what needs the package, ``reading WFDB records``.

    Raises:
        MissingExtraError: with the package and the pip command that installs it.
    """
    if not is_installed(package):
        raise _missing(package, purpose)


@contextmanager
def naming_the_extra(purpose: str = "this") -> Iterator[None]:
    """Turn a failed import of an extra's package into MissingExtraError; a context manager and decorator.

    For a whole command or verb, whose imports may happen anywhere below. A failed import of any other package stays a
    ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        raise _missing(package, purpose) from problem
