"""int8 forms in Node and in Chromium: the labels of Python's ONNX Runtime; who has none is told why."""

from pathlib import Path

import numpy as np
import pytest
from models_in_js import WHERE, in_models, logits
from node_runtime import Refused, in_node, own
from support import change_manifest, copied, exported, manifest_of

from ecgfed.base.errors import BundleError
from ecgfed.core.runs.run import Run, open_run
from ecgfed.device import open_bundle
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.int8_variants import Int8Rule

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=["fedavg_run", "local_run", "context_run"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs with RR features of versions 2 and 3, and without."""
    return open_run(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def cohort(run: Run) -> Cohort:
    return run.cohort()


@pytest.fixture(scope="module")
def bundle(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles with an int8 form of every model."""
    out = tmp_path_factory.mktemp("int8") / "bundle"
    export_bundle(run, run.cohort(), run.state(), out, int8=Int8Rule(loss=1.0, agreement=0.0))
    return out


@pytest.mark.parametrize("where", WHERE)
def test_every_models_int8_form_has_pythons_labels(where: str, bundle: Path, cohort: Cohort) -> None:
    """A value between two steps of int8 may go to either (docs/int8.md): most logits are the same, some are not."""
    opened = open_bundle(bundle)
    jobs, expected = [], []
    for patient in (None, *opened.patients):
        window_mv = np.array(cohort.beats)
        rr = np.array(cohort.rr) if opened.rr_version else None
        for int8 in (False, True):
            jobs.append(logits(bundle, patient, window_mv, rr, int8=int8))
            classifier = opened.classifier(patient, int8=int8)
            expected.append((classifier.logits(window_mv, rr), classifier.calibration))
    found = in_models(where, *jobs)
    for job, one, (other, certainty) in zip(jobs, found, expected, strict=True):
        assert np.array_equal(one["found"].argmax(1), other.argmax(1))
        apart = np.abs(one["found"] - other).max(axis=1)
        assert apart.max() < (0.2 if job["int8"] else 1e-4)
        assert np.median(apart) < 1e-4
        assert (one["temperature"], one["threshold"]) == (certainty.temperature, certainty.threshold)
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert np.abs(one["found"] - other["found"]).max() > 1e-3  # it is the int8 form that ran


def test_who_has_no_int8_form_is_told_why_as_in_python(bundle: Path, local_run: Path, tmp_path: Path) -> None:
    refused = copied(bundle, tmp_path / "refused")
    patients = manifest_of(refused)["patients"]
    patients["p2"]["int8"] |= {"chain": None, "accepted": False, "reason": "loses 0.0500 of macro-F1"}
    change_manifest(refused, patients=patients)
    asked = [(refused, "p2"), (exported(local_run), "p1"), (exported(local_run), None), (refused, "nobody")]
    jobs = [own("opened", {"bundle": str(path), "patient": patient, "int8": True}) for path, patient in asked]
    found = in_node(*jobs, packages=("onnxruntime-node",))
    for (path, patient), one in zip(asked, found, strict=True):
        with pytest.raises(BundleError) as raised:
            open_bundle(path).classifier(patient, int8=True)
        assert isinstance(one, Refused)
        said, line = (text.partition(": ")[2].partition("; ")[0] for text in (one.line, raised.value.line))
        assert said == line
    assert "refused the int8 form of patient 'p2': loses 0.0500 of macro-F1" in found[0].line
