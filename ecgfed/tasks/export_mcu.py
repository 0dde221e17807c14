"""``export --target mcu``: a run in, the C sources of one model out."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from ecgfed.bundles.calibration import ACCURACY
from ecgfed.bundles.quantise import Int8Layer, int8_layers
from ecgfed.cohort.cohort import Cohort
from ecgfed.device.bundle import Bundle
from ecgfed.device.int8 import int8_form
from ecgfed.device.manifest import DIGEST
from ecgfed.errors import BundleError
from ecgfed.federation.data import training_data
from ecgfed.files import check_new_folder
from ecgfed.mcu.golden import make_golden
from ecgfed.mcu.model import McuModel, check_spec, make_model
from ecgfed.mcu.writer import write_mcu
from ecgfed.methods.answers import Answer, Ensemble
from ecgfed.personal.apply import PersonalAnswers, chosen_name
from ecgfed.personal.registry import personal_by_name
from ecgfed.runs.run import Run
from ecgfed.tasks.evaluate import cohort_of
from ecgfed.tasks.export import export
from ecgfed.tasks.opening import Passed, one_run
from ecgfed.tasks.watch import NOBODY, Watch


@dataclass(frozen=True)
class McuExport:
    """What was written.

    Attributes:
        path: the folder of C sources.
        model: the model in them.
        files: names in the folder, in order.
    """

    path: Path
    model: McuModel
    files: tuple[str, ...]

    def __repr__(self) -> str:
        return f"McuExport({str(self.path)!r}: {self.model.about['model']}, {len(self.model.classes)} classes)"


def export_mcu(
    run: Run | Path | str,
    out: Path | str,
    *,
    patient: str | None = None,
    cohort: Cohort | Path | str | None = None,
    personal: str | None = None,
    accuracy: float = ACCURACY,
    int8_loss: float | None = None,
    overwrite: bool = False,
    method: Passed = None,
    watch: Watch = NOBODY,
) -> McuExport:
    """Export one model of a run as C sources: filter, R peaks, windows, RR features and the net in int8.

    The model's int8 form is made and judged as ``export(..., int8=True)`` does, in a bundle that is not kept.

    Args:
        run: a run or its folder.
        out: the folder to make.
        patient: whose model, an id of the cohort; None for the global model.
        cohort: the run's cohort, where it has moved.
        personal: the personal answers, as ``export`` takes it.
        accuracy: as ``export`` takes it.
        int8_loss: as ``export`` takes it.
        overwrite: replace ``out`` where it exists.
        method: the run's own method, where it is somebody's own.
        watch: told of the progress.

    Raises:
        EcgfedError: in one line, what cannot be used: a net that C does not run, an int8 form that was refused.
    """
    check_new_folder(Path(out), overwrite=overwrite)
    opened = one_run(run, method, watch)
    check_spec(opened.net.spec)
    of = cohort_of(opened, cohort)
    if patient is not None:
        of.client_by_id(patient)
    answer = _answer(opened, of, patient, personal)
    with tempfile.TemporaryDirectory(prefix="ecgfed-mcu-") as folder:
        bundle = export(
            opened,
            Path(folder) / "bundle",
            cohort=of,
            personal=None if patient is None else personal,
            global_only=patient is None,
            accuracy=accuracy,
            int8=True,
            int8_loss=int8_loss,
            method=method,
            watch=watch,
        )
        classifier = bundle.classifier(patient, int8=True)
        layers = _layers(bundle, patient)
        params = _params(answer)
        model = make_model(
            opened.net.spec, params, layers, bundle.classes, classifier.certainty, _about(bundle, patient)
        )
        write_mcu(Path(out), model, make_golden(classifier), overwrite=overwrite)
    return McuExport(Path(out), model, tuple(sorted(path.name for path in Path(out).iterdir())))


def _answer(run: Run, cohort: Cohort, patient: str | None, personal: str | None) -> Answer:
    """Return the model whose parameters are asked for."""
    state = run.state()
    if patient is None:
        return run.method.global_answer(
            state.server, (run.kept(state, client.index) for client in cohort.federation), "ensemble"
        )
    how = personal_by_name(chosen_name(run, personal))
    rr, leave_out = run.net.spec.rr, run.plan.leave_out
    answers = PersonalAnswers(run, state, how, lambda: training_data(cohort, rr=rr, leave_out=leave_out))
    return answers.of(cohort.client_by_id(patient).index)


def _params(answer: Answer) -> dict[str, NDArray[np.float32]]:
    if isinstance(answer, Ensemble):
        raise BundleError(
            "--target mcu",
            f"a global model that is an ensemble of {len(answer.members)} nets",
            "one net",
            "pass --patient ID for a patient's own, or train a method that has a global model",
        )
    return {name: value.detach().numpy() for part in answer.parts for name, value in part.params.items()}


def _layers(bundle: Bundle, patient: str | None) -> list[Int8Layer]:
    """Return the layers of a model's int8 form; raises BundleError where it was refused, or is partly in float."""
    chain = int8_form(bundle.path, bundle.manifest, patient)["chain"]
    return [layer for name in chain for layer in int8_layers(onnx.load(bundle.path / name))]


def _about(bundle: Bundle, patient: str | None) -> dict[str, str]:
    manifest = bundle.manifest
    return {
        "model": "the global model" if patient is None else f"patient {patient}",
        "method": str(manifest["method"]),
        "lead": " or ".join(manifest["leads"]) or "the lead it was trained on",
        "bundle": f"SHA-256 {manifest[DIGEST]}",
        "intended use": str(manifest["intended_use"]),
    }
