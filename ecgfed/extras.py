"""Which extra of ecgfed brings which package, and the one line a user reads where one is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ecgfed.errors import MissingExtraError

#: Package, as it is imported -> the extra that installs it (pyproject.toml says what each is for).
EXTRA_OF = {
    "wfdb": "records",
    "edfio": "records",
    "pydicom": "hospital",
    "torch": "train",
    "safetensors": "train",
    "onnx": "train",
    "onnxscript": "train",
    "matplotlib": "report",
    "neurokit2": "detectors",
    "sleepecg": "sleepecg",
    "ts2vg": "emrich2023",
    "tensorboard": "tensorboard",
    "cryptography": "sign",
    "flwr": "flower",
}


def _missing(package: str, purpose: str) -> MissingExtraError:
    return MissingExtraError(
        package, f"is not installed, but {purpose} needs it", action=f"pip install 'ecgfed[{EXTRA_OF[package]}]'"
    )


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    return find_spec(package) is not None


def require(package: str, purpose: str) -> None:
    """Refuse to go on where a package of an extra is not installed; to be called before it is imported lazily.

    Args:
        package: a key of ``EXTRA_OF``.
        purpose: what needs it, ``reading WFDB records``.

    Raises:
        MissingExtraError: one line with the package and the pip command that installs it.
    """
    if not is_installed(package):
        raise _missing(package, purpose)


@contextmanager
def naming_the_extra(purpose: str = "this") -> Iterator[None]:
    """Turn the import of a package that an extra installs, where it fails, into MissingExtraError.

    For a whole command or verb, whose imports lie anywhere below; as a decorator too. A package that no extra
    installs stays what it is, a ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        raise _missing(package, purpose) from problem
