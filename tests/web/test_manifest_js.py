"""A manifest spoiled in every field, its digest made anew: JavaScript refuses what Python refuses, and nothing else."""

import copy
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write_record
from node_runtime import in_node, of, own
from support import exported, manifest_of

import ecgfed
from ecgfed.base.errors import BundleError
from ecgfed.base.text import safe_text
from ecgfed.device import open_bundle, preprocessing
from ecgfed.domain.record.reader import open_recording
from ecgfed.exports.device.canonical import digest_of
from ecgfed.exports.device.container import container_of
from ecgfed.exports.device.manifest import read_manifest

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
RUNNER = ("onnxruntime-node",)
Place = tuple[str | int, ...]
#: Of a list of more only the first, one in the middle and the last are spoiled.
FEW = 6
#: What one rule compares, or none at all: there a few kinds of other values do.
TOLD = {"preprocessing", "class_table", "settings", "net", "cohort", "ops", "graph"}
#: What is spoiled of each manifest, nothing named is all; that takes a minute, so that by default it is what says most.
FIELDS: dict[str, tuple[str, ...]] = {
    "shipped": ("class_table", "label_map", "certainty", "leads", "trained_on", "golden", "weights"),
    "patients": ("patients", "global", "weights"),
    "int8": ("patients", "int8"),
    "first": ("label_map", "leads", "schema_version", "inputs", "modality", "files"),
    "whole": (),
}
KINDS = ["shipped", "patients", "int8", "first", pytest.param("whole", marks=pytest.mark.slow)]
#: What of preprocessing is told and not compared.
NOT_COMPARED = [(name,) for name in preprocessing.INFORMATIVE]
#: What version 2 says and version 1 does not.
SECOND = ("digest", "run", "class_table", "preprocessing", "golden", "card", "card_facts")


def parts_of(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every value of a document with its place, the whole not."""
    if isinstance(value, dict):
        inner = list(value.items())[: 2 if place == ("patients",) else None]  # of patients the first ones
    elif isinstance(value, list):
        numbers = range(len(value))
        some = numbers if len(value) <= FEW else [0, len(value) // 2, len(value) - 1]
        inner = [(number, value[number]) for number in some]
    else:
        return
    for name, one in inner:
        yield (*place, name), one
        yield from parts_of(one, (*place, name))


def others(value: Any, *, few: bool) -> Iterator[Any]:
    """Yield values of other kinds, and others of the same kind; fewer where one rule compares all that stands there."""
    yield from (None, "x", []) if few else (None, "x", -1, [], {}, [5], {"x": 5})
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, str(value))
    elif isinstance(value, str):
        yield f"{value}x"
        yield from () if few else (f"{value}\n", "", "../x", "\u202e", "x" * 5000)
    elif isinstance(value, list) and value:
        yield from (value[:-1], [*value, value[-1]], value[::-1], [value[-1], *value[1:-1], value[0]])
    elif isinstance(value, dict) and value:
        (first, one), *rest = value.items()
        yield {**value, "more": one}
        yield {**dict(rest), f"{first} ": one}


def edits_of(manifest: dict[str, Any], fields: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return every way in which some of its fields are spoiled, or all where none is named."""
    found: list[dict[str, Any]] = []
    for place, value in parts_of(manifest):
        if place == ("digest",) or (fields and place[0] not in fields):
            continue
        if isinstance(place[-1], str):
            found.append({"place": list(place), "remove": True})
        few = not TOLD.isdisjoint(place)
        found += [{"place": list(place), "value": one} for one in others(value, few=few) if one != value]
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
def personal(fedavg_run: Path) -> Path:
    """A bundle with a model for each of the four synthetic patients."""
    return exported(fedavg_run)


def manifests(personal: Path) -> dict[str, dict[str, Any]]:
    """Return manifests of several kinds: the model in the package, patients, int8 forms, version 1."""
    shipped = manifest_of(MODEL)
    patients = manifest_of(personal)
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
    int8["digest"] = digest_of(int8, "digest")
    first = {name: value for name, value in patients.items() if name not in SECOND} | {"schema_version": 1}
    return {"shipped": shipped, "whole": shipped, "patients": patients, "int8": int8, "first": first}


def by_python(manifest: dict[str, Any], folder: Path, *, opened: bool = False) -> str:
    """Return the line with which Python refuses a manifest, or ``opened`` the whole bundle; "" where it takes it."""
    (folder / "manifest.json").write_text(json.dumps(manifest))
    try:
        if opened:
            open_bundle(folder)
        else:
            read_manifest(container_of(folder))
    except BundleError as problem:
        return problem.line
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_that_is_spoiled_is_refused_where_python_refuses_it(
    kind: str, personal: Path, tmp_path: Path
) -> None:
    """What stands for names of leads is text in Python, and compared with the graphs' when the bundle is opened."""
    folder = tmp_path / "bundle"
    shutil.copytree(MODEL if kind in ("shipped", "whole") else personal, folder)
    manifest = manifests(personal)[kind]
    edits = edits_of(manifest, FIELDS[kind])
    (found,) = in_node(own("manifests", manifest, [{"place": [], "same": True}, *edits]))
    assert found[0] == by_python(manifest, folder) == ""
    apart = []
    for edit, javascript in zip(edits, found[1:], strict=True):
        python = by_python(spoiled(manifest, edit), folder)
        if javascript and not python and edit["place"][0] == "leads":
            python = by_python(spoiled(manifest, edit), folder, opened=True)
        assert "\n" not in javascript
        if bool(python) != bool(javascript):
            apart.append((edit, python, javascript))
    assert apart == []
    refused = sum(map(bool, found))
    assert len(found) // 5 < refused < len(found)


@pytest.mark.parametrize("rr_version", [2, 3])
def test_preprocessing_that_is_not_what_is_run_is_refused(rr_version: int, personal: Path) -> None:
    """Every number of it that is compared, and the first of each list of texts: none may be another one."""
    manifest = manifest_of(MODEL if rr_version == 3 else personal)
    assert manifest["rr_features"]["version"] == rr_version
    edits = [
        {"place": list(place), "value": value + 1 if isinstance(value, int | float) else f"{value}x"}
        for place, value in parts_of(manifest)
        if place[0] == "preprocessing" and isinstance(value, int | float | str) and place[1:2] not in NOT_COMPARED
    ]
    (found,) = in_node(own("manifests", manifest, edits))
    assert len(edits) > 80
    for edit, line in zip(edits, found, strict=True):
        assert ".".join(map(str, edit["place"][:2])) in line, edit


def test_graphs_that_are_not_as_the_manifest_says_are_refused(personal: Path, tmp_path: Path) -> None:
    """Versions, inputs and outputs of a graph are compared when a model is made of it, in both languages."""
    manifest = manifest_of(personal)
    chain = manifest["global"]["chain"]
    facts = ["files", chain[0], "graph"]
    inputs = manifest["files"][chain[0]]["graph"]["inputs"]
    edits: list[dict[str, Any]] = [
        {"place": [*facts, "opset"], "value": 17},
        {"place": [*facts, "ir_version"], "value": 1},
        {"place": [*facts, "inputs"], "value": []},
        {"place": [*facts, "inputs", 0, "name"], "value": "x"},
        {"place": [*facts, "inputs", 0, "dtype"], "value": "int8"},
        {"place": [*facts, "inputs", 0, "shape"], "value": [32, *inputs[0]["shape"][1:]]},
        {"place": [*facts, "outputs"], "value": []},
        {"place": facts, "remove": True},
    ]
    folders = [tmp_path / str(number) for number in range(len(edits))]
    for folder, edit in zip(folders, edits, strict=True):
        shutil.copytree(personal, folder)
        (folder / "manifest.json").write_text(json.dumps(spoiled(manifest, edit)))
    found = in_node(*(own("all_models", str(folder)) for folder in [personal, *folders]), packages=RUNNER)
    assert found[0] == {"answer": 4}
    for edit, folder, one in zip(edits, folders, found[1:], strict=True):
        assert "of itself, its manifest" in one["refused"], edit
        with pytest.raises(BundleError, match="of itself, its manifest"):
            open_bundle(folder).classifier()


#: A temperature, the distance from which on beats are far, and whether both are in their bounds.
BOUNDS: list[tuple[float, float, bool]] = [
    (1.0, 0.5, True),
    (0.001, 0.0, True),
    (1000.0, 1e6, True),
    (0.0009, 0.5, False),
    (1e-300, 0.5, False),
    (0.0, 0.5, False),
    (1000.5, 0.5, False),
    (1.0, 1.1e6, False),
    (1.0, 1e300, False),
]


def test_temperatures_and_distances_out_of_their_bounds_are_refused() -> None:
    manifest = manifest_of(MODEL)
    edits = []
    for temperature, far, _ in BOUNDS:
        certainty = {**manifest["certainty"], "far": {**manifest["certainty"]["far"], "threshold": far}}
        own_certainty = {**manifest["global"]["certainty"], "temperature": temperature}
        value = {"certainty": certainty, "global": {**manifest["global"], "certainty": own_certainty}}
        edits.append({"place": [], "value": value})
    (found,) = in_node(own("manifests", manifest, edits))
    for (temperature, far, inside), line in zip(BOUNDS, found, strict=True):
        assert (line == "") == inside, (temperature, far)


@pytest.mark.parametrize("beats", [7])
def test_a_bundle_of_a_fixed_batch_answers_as_python(beats: int, fedavg_run: Path, tmp_path: Path) -> None:
    """What takes so many beats at once, no more and no fewer, is filled up with the last beat."""
    ecgfed.export(fedavg_run, tmp_path / "bundle", batch=beats)
    record = write_record(tmp_path, "a", "NNNNV" * 14, seed=1)
    recording = open_recording(record, (), every_lead=True)
    told = {"fsHz": recording.fs_hz, "leads": list(recording.leads), "signalsMv": np.asarray(recording.signals_mv)}
    patients = [None, *open_bundle(tmp_path / "bundle").patients]
    which = [{"bundle": str(tmp_path / "bundle"), "patient": patient} for patient in patients]
    found = in_node(*(own("classified", one, told, {}) for one in which), packages=RUNNER)
    for patient, answers in zip(patients, found, strict=True):
        python = ecgfed.predict(tmp_path / "bundle", record, patient=patient, force=True)
        assert len(python) > 60
        assert [one["class"] for one in answers] == list(python.names)
        assert [one["far"] for one in answers] == python.out_of_distribution.tolist()
        probability = np.stack([one["probabilities"] for one in answers])
        assert np.abs(probability - python.probability).max() < 1e-4


def test_names_in_any_script_are_taken_as_in_python(personal: Path, tmp_path: Path) -> None:
    """Joiners belong to the spelling of some languages, and a character beyond the first 65,536 is one."""
    folder = tmp_path / "bundle"
    shutil.copytree(personal, folder)
    manifest = manifest_of(personal)
    names = (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\u2695",
        "\U00010348" * 200,
        "\ue000",
        "\u0378",
    )
    names += ("\U00010348" * 256, "a\u202eb", "a\u200bb", "\x7f", " ", "")
    edits: list[dict[str, Any]] = [{"place": ["patients", "p1", "patient"], "value": name} for name in names]
    (found,) = in_node(own("manifests", manifest, edits))
    python = [by_python(spoiled(manifest, edit), folder) for edit in edits]
    assert [bool(line) for line in found] == [bool(line) for line in python] == [False] * 5 + [True] * 6


def test_what_cannot_be_shown_is_what_python_does_not_show() -> None:
    """Every character there is."""
    every = [one for one in map(chr, range(sys.maxunicode + 1)) if one not in " \ufffd\n\r\t\x85\u2028\u2029"]
    (found,) = in_node(of("errors.js", "safeText", " ".join(every), 10**8))
    hidden = {one for one, shown in zip(every, found.split(" "), strict=True) if shown == "\ufffd"}
    assert hidden == {one for one in every if safe_text(one) != one}


def test_an_error_of_onnx_runtime_is_one_line() -> None:
    (found,) = in_node(own("error_line", "two\nlines\r\nand\ttabs \u2028 more \x1b[31m"))
    assert found == "x: two lines and tabs more \ufffd[31m"
