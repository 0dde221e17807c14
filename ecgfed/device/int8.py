"""What a manifest says of int8 forms: which graphs they are, how they were judged, and who has none."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ecgfed.errors import BundleError

#: The field of an entry (the global model's, a patient's) that says its int8 form, and of the manifest that says how
#: such forms were judged.
INT8 = "int8"
_FLOAT = "leave --int8 out for the float model"


def chains_of(entry: Mapping[str, Any]) -> Iterator[Any]:
    """Yield an entry's chains of graphs: the float one, and that in int8 where it has one."""
    yield entry["chain"]
    if (form := entry.get(INT8)) is not None and form["chain"] is not None:
        yield form["chain"]


def int8_form(path: Path, manifest: Mapping[str, Any], patient: str | None) -> Mapping[str, Any]:
    """Return what a manifest says of the int8 form of the global model (None) or a patient's, which is there.

    Args:
        path: the bundle's, for errors.
        manifest: checked (``check_int8``).
        patient: one that the bundle knows, or None.

    Raises:
        BundleError: it has none; the line says why.
    """
    entry, whose = manifest["global"], "the global model"
    if patient is not None:
        entry, whose = manifest["patients"][patient], f"patient {patient!r}"
    form: Mapping[str, Any] | None = entry.get(INT8)
    if form is None:
        found = f"has no int8 form of {whose}"
        raise BundleError(path, found, "one of 'ecgfed export --int8'", _FLOAT)
    if form["chain"] is None:
        raise BundleError(path, f"refused the int8 form of {whose}: {form['reason']:.200}", "an accepted one", _FLOAT)
    return form


def check_int8(manifest: Mapping[str, Any]) -> None:
    """Check the form of all that a manifest says of int8; raises KeyError, TypeError or ValueError."""
    if (rule := manifest.get(INT8)) is not None:
        _number(rule["loss"], "loss")
        _number(rule["agreement"], "agreement")
    for entry in (manifest["global"], *manifest["patients"].values()):
        if (form := entry.get(INT8)) is None:
            continue
        if rule is None:
            raise ValueError("how its int8 forms were judged")
        if form["accepted"] is not (form["chain"] is not None):
            raise ValueError("graphs of the int8 forms that were accepted, and of no others")
        if form["chain"] is None and not isinstance(form["reason"], str):
            raise TypeError("a reason why an int8 form was refused")
        for name in ("macro_f1_float", "macro_f1", "agreement"):
            if form[name] is not None:
                _number(form[name], name)


def _number(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise TypeError(f"a {name} of int8 from 0 to 1")
