"""A manifest spoiled in every field, its digest made anew: JavaScript refuses what Python refuses, and nothing else."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from node_runtime import Refused, in_node, own

import ecgfed
from ecgfed.device import open_bundle
from ecgfed.device.canonical import digest_of
from ecgfed.device.container import container_of
from ecgfed.device.manifest import read_manifest
from ecgfed.errors import BundleError

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "model"
RUNNER = ("onnxruntime-node",)
Place = tuple[str | int, ...]
#: Of a list of more only the first ones, one in the middle and the last are spoiled.
FEW = 6
#: What version 2 says and version 1 does not.
SECOND = ("digest", "run", "class_table", "preprocessing", "golden", "card", "card_facts")


def parts_of(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every value of a document with its place, the whole not."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        numbers = range(len(value))
        some = numbers if len(value) <= FEW else [*numbers[:3], len(value) // 2, *numbers[-2:]]
        inner = [(number, value[number]) for number in some]
    else:
        return
    for name, one in inner:
        yield (*place, name), one
        yield from parts_of(one, (*place, name))


def others(value: Any) -> Iterator[Any]:
    """Yield values of other kinds, and others of the same kind."""
    yield from (None, "x", -1, [], {}, [5], {"x": 5})
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, str(value))
    elif isinstance(value, str):
        yield from (f"{value}x", f"{value}\n", "", "../x", "\u202e", "x" * 5000)
    elif isinstance(value, list) and value:
        yield from (value[:-1], [*value, value[-1]], value[::-1], [value[-1], *value[1:-1], value[0]])
    elif isinstance(value, dict) and value:
        (first, one), *rest = value.items()
        yield {**value, "more": one}
        yield {**dict(rest), f"{first} ": one}


def edits_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every way in which it is spoiled."""
    found: list[dict[str, Any]] = []
    for place, value in parts_of(manifest):
        if place == ("digest",):
            continue
        if isinstance(place[-1], str):
            found.append({"place": list(place), "remove": True})
        found += [{"place": list(place), "value": one} for one in others(value) if one != value]
    return found


def spoiled(manifest: dict[str, Any], edit: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest that was edited, with its own digest where it had one."""
    made = copy.deepcopy(manifest)
    *way, last = edit["place"]
    inner: Any = made
    for name in way:
        inner = inner[name]
    if edit.get("remove"):
        del inner[last]
    else:
        inner[last] = edit["value"]
    return {**made, "digest": digest_of(made, "digest")} if "digest" in made else made


@pytest.fixture(scope="module")
def personal(fedavg_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a model for each of the four synthetic patients."""
    out = tmp_path_factory.mktemp("personal") / "bundle"
    ecgfed.export(fedavg_run, out)
    return out


def manifests(personal: Path) -> dict[str, dict[str, Any]]:
    """Return manifests of several kinds: the model in the package, patients, int8 forms, version 1."""
    shipped = json.loads((MODEL / "manifest.json").read_text())
    patients = json.loads((personal / "manifest.json").read_text())
    int8 = copy.deepcopy(patients)
    judged = {"macro_f1_float": 0.9, "macro_f1": 0.89, "agreement": 0.99}
    entries = [int8["global"], *int8["patients"].values()]
    for number, entry in enumerate(entries):
        accepted = number != 1
        chain = list(entry["chain"]) if accepted else None
        reason = None if accepted else "it answers worse"
        entry["int8"] = {"accepted": accepted, "chain": chain, "reason": reason, "certainty": None, **judged}
    entries[0]["int8"]["certainty"] = shipped["global"]["certainty"]
    int8["int8"] = {"loss": 0.01, "agreement": 0.95}
    int8["certainty"] = {**shipped["certainty"], "far": None}
    first = {name: value for name, value in patients.items() if name not in SECOND} | {"schema_version": 1}
    return {"shipped": shipped, "patients": patients, "int8": int8, "first": first}


def by_python(manifest: dict[str, Any], folder: Path) -> str:
    """Return the line with which Python refuses a manifest, "" where it takes it."""
    (folder / "manifest.json").write_text(json.dumps(manifest))
    try:
        read_manifest(container_of(folder))
    except BundleError as problem:
        return problem.line
    return ""


@pytest.mark.parametrize("kind", ["shipped", "patients", "int8", "first"])
def test_every_field_that_is_spoiled_is_refused_where_python_refuses_it(
    kind: str, personal: Path, tmp_path: Path
) -> None:
    manifest = manifests(personal)[kind]
    edits = edits_of(manifest)
    (found,) = in_node(own("manifests", manifest, [{"place": [], "same": True}, *edits]))
    assert found[0] == ""
    assert by_python(manifest, tmp_path) in ("",)
    apart = []
    for edit, javascript in zip(edits, found[1:], strict=True):
        python = by_python(spoiled(manifest, edit), tmp_path)
        assert "\n" not in javascript
        if bool(python) != bool(javascript):
            apart.append((edit, python, javascript))
    assert apart == []
    refused = sum(map(bool, found))
    assert refused > len(found) // 4
    assert refused < len(found)
