"""``export --target mcu``: export a model of a run as C sources."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import BundleError, OptionError, param
from ecgfed.base.text import count_of
from ecgfed.core.config import ACCURACY, ExportOptions
from ecgfed.core.federation.data import training_data
from ecgfed.core.methods.models import Ensemble, Model
from ecgfed.core.personal.apply import PersonalModels, personal_of
from ecgfed.core.personal.registry import personal_by_name
from ecgfed.core.runs.run import Run
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.int8_reading import layers_of, prototype_shapes
from ecgfed.exports.bundles.int8_variants import Int8Rule
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.int8 import INT8
from ecgfed.exports.device.manifest import DIGEST
from ecgfed.exports.mcu.golden import make_golden
from ecgfed.exports.mcu.image import image_of
from ecgfed.exports.mcu.model import McuModel, check_spec, make_model, quantized_prototypes
from ecgfed.exports.mcu.rate import check_rate
from ecgfed.exports.mcu.writer import check_sources_folder, write_mcu
from ecgfed.tasks.evaluate import cohort_of
from ecgfed.tasks.opening import Passed, PassedNet, single_run
from ecgfed.tasks.progress import SILENT, ProgressReporter

#: Roles of stages that the C sources support; a kernel machine or a gate would need an exponential per stored beat.
RUN_IN_C = ("model", "extractor", "head")


@dataclass(frozen=True)
class McuExport:
    """Result of an export as C sources.

    Attributes:
        path: the folder of C sources, or the zip file of a library.
        model: the exported model.
        files: sorted names of the files in the folder, or paths in the zip file.
    """

    path: Path
    model: McuModel
    files: tuple[str, ...]

    def __repr__(self) -> str:
        classes = count_of(len(self.model.classes), "class")
        return f"McuExport({str(self.path)!r}: {self.model.metadata['model']}, {classes})"


@renamed_parameters("0.3", "0.5", watch="progress")
def export_mcu(
    run: Run | Path | str,
    out: Path | str,
    *,
    patient: str | None = None,
    cohort: Cohort | Path | str | None = None,
    personal: str | type | None = None,
    accuracy: float = ACCURACY,
    int8_loss: float | None = None,
    fs_hz: int = 360,
    overwrite: bool = False,
    method: Passed = None,
    net: PassedNet = None,
    progress: ProgressReporter = SILENT,
) -> McuExport:
    """Export a model of a run as C sources: filter, R peaks, windows, RR features and the net in int8.

    The int8 variant is made and checked as in ``export(..., int8=True)``, in a temporary bundle.

    Args:
        run: a run or its folder.
        out: the folder to make, or a library for Arduino, PlatformIO and Zephyr if the name ends in ``.zip``.
        patient: id of the patient in the cohort; None for the global model.
        cohort: the run's cohort, if it was moved.
        personal: as in ``export``.
        accuracy: as in ``export``.
        int8_loss: as in ``export``.
        fs_hz: sampling frequency of the device in Hz, a whole number; the C code resamples to 360 Hz.
        overwrite: replace an existing ``out``.
        method: the run's method, if it is custom.
        net: the same of a net of your own, ``FILE.py:CLASS``, its class or a function that returns a module.
        progress: receives progress, notes and warnings.

    Raises:
        EcgfedError: an invalid argument or input, as a single line: an unsupported net, a refused int8 variant.
    """
    _check_options(personal, patient, accuracy, int8_loss)
    check_rate(fs_hz)
    check_sources_folder(Path(out), overwrite=overwrite)
    opened = single_run(run, method, progress, net)
    check_spec(opened.net.spec)
    trained_on = cohort_of(opened, cohort)
    if patient is not None:
        trained_on.client_by_id(patient)
    params = _params(_requested_model(opened, trained_on, patient, personal))  # errors are raised before the work
    rule = Int8Rule() if int8_loss is None else Int8Rule(loss=int8_loss)
    with tempfile.TemporaryDirectory(prefix="ecgfed-mcu-") as folder:
        bundle = _bundle(opened, trained_on, Path(folder) / "bundle", patient, personal, accuracy, rule, progress)
        classifier = bundle.classifier(patient, int8=True)
        model = make_model(
            opened.net.spec,
            params,
            layers_of(bundle, patient),
            bundle.classes,
            classifier.calibration,
            quantized_prototypes(prototype_shapes(bundle)),
            _metadata(bundle, patient),
        )
        golden = make_golden(classifier)
        image = image_of(model, golden, bundle.manifest[DIGEST], patient)
        names = write_mcu(Path(out), model, golden, image, fs_hz=fs_hz, overwrite=overwrite)
    return McuExport(Path(out), model, names)


def _check_options(personal: str | type | None, patient: str | None, accuracy: float, int8_loss: float | None) -> None:
    if personal is not None:
        personal_by_name(personal)
        if patient is None:
            problem = f"{personal} for the global model"
            raise OptionError("personal", problem, f"{param('patient=ID')}", "leave it out", code="conflict")
    ExportOptions(accuracy=accuracy, int8=True, int8_loss=int8_loss)


def _bundle(
    run: Run,
    cohort: Cohort,
    out: Path,
    patient: str | None,
    personal: str | type | None,
    accuracy: float,
    rule: Int8Rule,
    progress: ProgressReporter,
) -> Bundle:
    """Write a bundle as ``export(..., int8=True)``: temperatures are fitted for all patients together."""
    export_bundle(
        run,
        cohort,
        run.state(),
        out,
        personal=personal,
        global_only=patient is None,
        accuracy=accuracy,
        int8=rule,
        on_progress=lambda completed, total: progress.update("patients", completed, total),
    )
    bundle = open_bundle(out)
    variant = (bundle.manifest["global"] if patient is None else bundle.manifest["patients"][patient])[INT8]
    if variant["chain"] is None:
        owner = "the global model" if patient is None else f"patient {patient!r}"
        problem = f"the int8 form of {owner} was refused: it {variant['reason']:.200}"
        action = f"train longer, allow more by {param('int8_loss')}"
        action += "" if patient is None else f", or leave {param('patient')} out"
        raise BundleError(f"{param('target')} mcu", problem, "a variant as accurate as the float model", action)
    return bundle


def _requested_model(run: Run, cohort: Cohort, patient: str | None, personal: str | type | None) -> Model:
    """Return the model to export."""
    state = run.state()
    if patient is None:
        client_states = (run.client_state(state, client.index) for client in cohort.federation)
        return run.method.global_model(state.server, client_states, "ensemble")
    _, how = personal_of(run, personal)
    rr, leave_out = run.net.spec.rr, run.plan.leave_out
    models = PersonalModels(run, state, how, lambda: training_data(cohort, rr=rr, leave_out=leave_out))
    return models.of(cohort.client_by_id(patient).index)


def _params(model: Model) -> dict[str, NDArray[np.float32]]:
    if isinstance(model, Ensemble):
        problem = f"a global model that is an ensemble of {len(model.members)} nets"
        action = f"pass {param('patient=ID')} for a patient's own, or train a method that has a global model"
        raise BundleError(f"{param('target')} mcu", problem, "one net", action)
    if odd := [part.role for part in model.stages if part.role not in RUN_IN_C]:
        problem = f"a model of other parts than a net's ({', '.join(odd)})"
        action = f"choose another {param('personal')}, or leave {param('patient')} out for the global model"
        raise BundleError(f"{param('target')} mcu", problem, "one extractor and one head", action)
    return {name: value.detach().numpy() for part in model.stages for name, value in part.params.items()}


def _metadata(bundle: Bundle, patient: str | None) -> dict[str, str]:
    manifest = bundle.manifest
    return {
        "model": "the global model" if patient is None else f"patient {patient}",
        "method": str(manifest["method"]),
        "lead": " or ".join(manifest["leads"]) or "the lead it was trained on",
        "bundle": f"SHA-256 {manifest[DIGEST]}",
        "intended use": str(manifest["intended_use"]),
    }
