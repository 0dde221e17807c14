"""int8 variants in a manifest: their graphs, validation results, and reasons for rejection."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ecgfed.base.errors import BundleError, param

#: Field with the int8 variant of the global or a patient's model, and of the manifest with the acceptance rule.
INT8 = "int8"
_FLOAT = f"leave {param('int8')} out for the float model"


def chains_of(entry: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the chains of graphs of an entry: float, and int8 if it exists."""
    yield entry["chain"]
    if (variant := entry.get(INT8)) is not None and variant["chain"] is not None:
        yield variant["chain"]


def int8_variant(path: Path, manifest: Mapping[str, Any], patient: str | None) -> Mapping[str, Any]:
    """Return the int8 variant of the global model (None) or a patient's.

    Args:
        path: path of the bundle, for errors.
        manifest: validated (``check_int8``).
        patient: a patient of the bundle, or None.

    Raises:
        BundleError: it has none, with the reason.
    """
    entry, owner = manifest["global"], "the global model"
    if patient is not None:
        entry, owner = manifest["patients"][patient], f"patient {patient!r}"
    variant: Mapping[str, Any] | None = entry.get(INT8)
    if variant is None:
        raise BundleError(path, f"has no int8 form of {owner}", "one of 'ecgfed export --int8'", _FLOAT)
    if variant["chain"] is None:
        actual = f"refused the int8 form of {owner}: {variant['reason']:.200}"
        raise BundleError(path, actual, "an accepted one", _FLOAT)
    return variant


def check_int8(manifest: Mapping[str, Any]) -> None:
    """Validate all int8 entries of a manifest; raises KeyError, TypeError or ValueError."""
    if (rule := manifest.get(INT8)) is not None:
        _number(rule["loss"], "loss")
        _number(rule["agreement"], "agreement")
    for entry in (manifest["global"], *manifest["patients"].values()):
        if (variant := entry.get(INT8)) is None:
            continue
        if rule is None:
            raise ValueError("how its int8 forms were judged")
        if variant["accepted"] is not (variant["chain"] is not None):
            raise ValueError("graphs of the int8 forms that were accepted, and of no others")
        if variant["chain"] is None and not isinstance(variant["reason"], str):
            raise TypeError("a reason why an int8 form was refused")
        for name in ("macro_f1_float", "macro_f1", "agreement"):
            if variant[name] is not None:
                _number(variant[name], name)


def _number(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise TypeError(f"a {name} of int8 from 0 to 1")
