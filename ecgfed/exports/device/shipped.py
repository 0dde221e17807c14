"""The model in the package: a bundle like any other, for who names none. ``benchmarks/shipped`` trains it."""

from pathlib import Path

from ecgfed.base.errors import BundleError, param
from ecgfed.exports.device.container import ZIP
from ecgfed.exports.device.manifest import MANIFEST

#: Where it lies.
MODEL = Path(__file__).resolve().parents[1] / "model"
#: What files and pages call it; its folder's name alone would say nothing.
SHIPPED = "ecgfed/model"
#: What its folder holds beside the bundle: what it is, for a person and for a script.
CARD, CARD_DATA = "CARD.md", "card.json"


def shipped_model() -> Path:
    """Return the folder of the model in the package; raises BundleError (this ecgfed was built without one)."""
    if not (MODEL / MANIFEST).is_file():
        raise BundleError(MODEL, "this ecgfed came without a model", "a bundle", f"name one with {param('bundle')}")
    return MODEL


def is_bundle(path: Path) -> bool:
    """Say whether a path is a bundle's folder or a zip file (no recording is one), whatever is amiss in it."""
    manifest = path / MANIFEST
    if path.suffix.casefold() == ZIP and path.is_file():
        return True
    return path.is_dir() and (manifest.exists() or manifest.is_symlink())


def name_of(bundle: Path) -> str:
    """Return what files say of a bundle: its folder's name, for its path is of this machine."""
    return SHIPPED if bundle.resolve() == MODEL else bundle.resolve().name
