"""Golden vectors in Node and in Chromium: the stages, tolerances and faults of Python's own check."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from golden_vectors import CHANGES, SPOILT, Golden, put
from golden_vectors import golden as read_golden
from models_in_js import WHERE, golden, in_models
from node_runtime import Refused
from support import change_manifest, copied, exported

from ecgfed.core.runs.run import open_run
from ecgfed.device import check_golden, open_bundle
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.int8_variants import Int8Rule
from ecgfed.exports.device.shipped import shipped_model

pytestmark = pytest.mark.browser
OLD = Path(__file__).parents[1] / "data" / "version-0.1" / "bundle"


@pytest.fixture(scope="module")
def both_forms(fedavg_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with patients whose every model has an int8 form too."""
    run, out = open_run(fedavg_run), tmp_path_factory.mktemp("int8") / "bundle"
    export_bundle(run, run.cohort(), run.state(), out, int8=Int8Rule(loss=1.0, agreement=0.0))
    return out


@pytest.mark.parametrize("where", WHERE)
def test_every_stage_of_every_model_agrees(
    where: str, fedavg_run: Path, local_run: Path, context_run: Path, both_forms: Path
) -> None:
    """The model in the package, patients with RR features of versions 2 and 3 and without, int8 forms."""
    bundles = [shipped_model(), *map(exported, (fedavg_run, local_run, context_run)), both_forms]
    names = []
    for bundle, found in zip(bundles, in_models(where, *map(golden, bundles)), strict=True):
        python = check_golden(open_bundle(bundle))
        assert found["agrees"], found["text"]
        assert found["first"] is None
        assert found["text"] == str(python)
        for one, other in zip(found["stages"], python.stages, strict=True):
            assert (one["name"], one["tolerance"], one["unit"]) == (other.name, other.tolerance, other.unit)
            assert one["difference"] <= one["tolerance"]
        names += [stage.name for stage in python.stages]
    told = " ".join(names)
    for part in ("RR features over minutes", "distance from typical", "labels of p4", "logits of p4, int8"):
        assert part in told


#: What Python's own check is asked too, and a logit of an int8 form.
ALTERED: dict[str, Callable[[Golden], object]] = {
    **{name: change for name, (change, _) in CHANGES.items() if name != "far"},
    "int8": lambda g: g["patients"]["p1"]["int8"]["logits"][0].__setitem__(0, 9.0),
}


def test_the_first_stage_that_differs_is_the_one_that_python_names(both_forms: Path, tmp_path: Path) -> None:
    bundles = []
    for name, change in ALTERED.items():
        said = read_golden(both_forms)
        change(said)
        bundles.append(put(copied(both_forms, tmp_path / name), said))
    stages = set()
    for bundle, found in zip(bundles, in_models("node", *map(golden, bundles)), strict=True):
        python = check_golden(open_bundle(bundle))
        assert python.first is not None
        assert not found["agrees"]
        assert found["first"] == python.first.name
        assert found["text"].split(", by ")[0] == str(python).split(", by ")[0]
        wrong = [one["name"] for one in found["stages"] if not one["agrees"]]
        assert wrong == [one.name for one in python.stages if not one.agrees]
        stages.add(found["first"])
    assert len(stages) == len(ALTERED) - 1  # what was recorded, and what was filtered


def test_a_spoiled_stage_is_named_in_chromium_too(both_forms: Path, tmp_path: Path) -> None:
    said = read_golden(both_forms)
    ALTERED["probability"](said)
    (found,) = in_models("chromium", golden(put(copied(both_forms, tmp_path / "b"), said)))
    assert found["first"] == "probability of p3"


#: And what a page must not be hurt by.
HARMFUL: dict[str, Callable[[Golden], object]] = {
    **SPOILT,
    "deep lists": lambda g: g["recordings"][0].update(padded=json.loads("[" * 90 + "]" * 90)),
    "a markup": lambda g: g["recordings"][0].update(name="<b>\n\u202e"),
}


def test_golden_vectors_of_another_form_are_one_line(both_forms: Path, tmp_path: Path) -> None:
    bundles = []
    for number, spoil in enumerate(HARMFUL.values()):
        said = read_golden(both_forms)
        spoil(said)
        bundles.append(put(copied(both_forms, tmp_path / str(number)), said))
    bundles.append(put(copied(both_forms, tmp_path / "json"), b"{"))
    bundles.append(put(copied(both_forms, tmp_path / "list"), []))
    for bundle, found in zip(bundles, in_models("node", *map(golden, bundles)), strict=True):
        line = found.line if isinstance(found, Refused) else found["text"]
        assert "golden" in line, bundle
        assert "\n" not in line
        assert "\u202e" not in line


def test_bundles_without_golden_vectors_are_refused_in_one_line(both_forms: Path, tmp_path: Path) -> None:
    other = copied(both_forms, tmp_path / "other")
    change_manifest(other, golden="global.onnx")
    old, named = in_models("node", golden(OLD), golden(other))
    assert isinstance(old, Refused)
    assert "holds no golden vectors; expected a bundle of version 2" in old.line
    assert isinstance(named, Refused)
    assert "lacks a file of the bundle that is its golden" in named.line
