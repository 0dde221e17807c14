"""Write a bundle: graphs, weights, manifest, and a parity check against the trained model."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed import __version__
from ecgfed.base.errors import BundleError, OptionError, RunError
from ecgfed.base.files import read_json
from ecgfed.base.language import tr_later
from ecgfed.base.options import flat_options, merged
from ecgfed.core.config import HELD_OUT, BundleOptions
from ecgfed.core.federation.data import training_data
from ecgfed.core.federation.state import State
from ecgfed.core.methods.models import Ensemble, Model, Pipeline, with_offsets
from ecgfed.core.nets.net import Inputs
from ecgfed.core.personal.apply import PersonalModels, personal_of
from ecgfed.core.runs.document import FILE_NAME as RUN_FILE
from ecgfed.core.runs.evaluations import check_result
from ecgfed.core.runs.run import Run
from ecgfed.core.runs.tree_files import save_tree
from ecgfed.domain.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import VALID
from ecgfed.exports.bundles.calibration import CalibrationFitter, ValidationLogits, held_out_logits, validation_logits
from ecgfed.exports.bundles.describe import finish_bundle
from ecgfed.exports.bundles.graph_writer import GraphWriter, merged_model
from ecgfed.exports.bundles.graphs import input_shapes
from ecgfed.exports.bundles.int8_variants import Int8Rule, Int8Variants
from ecgfed.exports.bundles.packing import replacing_bundle
from ecgfed.exports.bundles.parity import Parity, parity_inputs, some_inputs, some_rows
from ecgfed.exports.bundles.prototypes import NEAR_SHARE, fit_prototypes, in_int8, prototype_part
from ecgfed.exports.bundles.tflite import TfliteVariants
from ecgfed.exports.bundles.training_metadata import classes_of, training_metadata
from ecgfed.exports.device.calibration import FAR
from ecgfed.exports.device.federation import FEDERATION, federation_in
from ecgfed.exports.device.manifest import BOUND, NORMALISATION, RR_METADATA, SCHEMA_VERSION
from ecgfed.exports.device.signatures import Signer

#: Fields of the scores per class.
_OF_CLASS = ("class", "beats", "predicted", "sensitivity", "positive_predictivity", "f1")
#: Largest offset of a class's logit: odds of 1 to 22,000.
MAX_OFFSET = 10.0
INTENDED_USE = tr_later("Research use only, not for diagnosis; needs physician over-read.")


@flat_options(BundleOptions)
def export_bundle(
    run: Run,
    cohort: Cohort,
    state: State,
    out: Path,
    *,
    int8: Int8Rule | None = None,
    tflite: Path | None = None,
    signer: Signer | None = None,
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    **options: object,
) -> dict[str, Any]:
    """Write a bundle with a run's global model and all personal models.

    Args:
        cohort: its cohort; beats of its valid split are used for the parity check.
        state: its checkpoint.
        out: folder to create, or zip file if its name ends in ``.zip``.
        int8: rule for int8 variants; None: none are written.
        tflite: Python interpreter that writes TensorFlow Lite files in int8 (``ecgfed.exports.bundles.tflite``); None:
            none.
        signer: signs the manifest.
        overwrite: replace an existing ``out``.
        on_progress: called with the numbers of finished and all patients.
        options: the fields of ``BundleOptions``.

    Returns:
        The manifest.

    Raises:
        BundleError: a graph differs from the trained model by more than the tolerance; nothing is written.
        OptionError: a certainty of held-out patients, of whom there are too few.
    """
    chosen = merged(BundleOptions, None, options, "export_bundle")
    clients = () if chosen.global_only else cohort.federation
    how, fitter = personal_of(run, chosen.personal)
    personal_models = PersonalModels(
        run, state, fitter, lambda: training_data(cohort, rr=run.net.spec.rr, leave_out=run.plan.leave_out)
    )
    scores = _scores(run, state, chosen.protocol, how)

    def patients() -> Iterator[PatientModel]:
        """Yield one personal model after the other."""
        for i, client in enumerate(clients):
            chain = personal_models.of(client.index)
            inputs = some_inputs(cohort, some_rows(cohort, client), run.net)
            classes = classes_of(cohort, client, run.plan.leave_out)
            valid = validation_logits(run.net, cohort, client, chain)
            yield PatientModel(client.id, client.patient, chain, inputs, scores.get(client.id), classes, valid)
            if on_progress:
                on_progress(i + 1, len(clients))

    return write_bundle(
        run,
        cohort,
        state,
        out,
        patients(),
        scores.get(""),
        chosen,
        personal=how,
        int8=int8,
        tflite=tflite,
        signer=signer,
        overwrite=overwrite,
    )


@dataclass(frozen=True)
class PatientModel:
    """One patient's model in a bundle.

    Attributes:
        id: used for file names.
        patient: name of the patient.
        chain: the personal model.
        inputs: beats of the patient for the parity check.
        scores: for the manifest, or None.
        classes: classes of its training beats, or None without any.
        valid: logits on the patient's validation beats, or None without any: the calibration of the global model is
            used then.
    """

    id: str
    patient: str
    chain: Pipeline
    inputs: Inputs
    scores: dict[str, Any] | None
    classes: tuple[str, ...] | None = None
    valid: ValidationLogits | None = None


def write_bundle(
    run: Run,
    cohort: Cohort,
    state: State,
    out: Path,
    patients: Iterable[PatientModel],
    scores: dict[str, Any] | None,
    options: BundleOptions,
    *,
    personal: str,
    int8: Int8Rule | None = None,
    tflite: Path | None = None,
    signer: Signer | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write a bundle with a run's global model and personal models, of which one is in memory at a time.

    Args, result and errors are those of ``export_bundle``, and:
        patients: the personal models.
        scores: of the run, for the manifest, or None.
        personal: kind of the personal models, for the manifest.
    """
    net, method = run.net, run.method
    if cohort.modality == "array":
        shape = " x ".join(map(str, net.input_shape))
        expected = "windows of 1 x 256 or images of 3 x 32 x 32, which a bundle describes to a device"
        raise BundleError(run.path, f"takes examples of {shape}", expected, "write it as ONNX with torch.onnx.export")
    global_model = method.global_model(
        state.server, (run.client_state(state, client.index) for client in cohort.federation), options.protocol
    )
    offsets = class_offsets(options.class_offsets, cohort.classes)
    if offsets and not isinstance(global_model, Pipeline):
        problem = f"{options.class_offsets:.60} for {method.name}, whose global answer is an ensemble"
        raise OptionError("class_offsets", problem, "a method with a global model", code="conflict")
    if offsets and isinstance(global_model, Pipeline):
        global_model = with_offsets(global_model, [offsets.get(name, 0.0) for name in cohort.classes])
    with replacing_bundle(out, overwrite=overwrite) as folder:
        bound = _fingerprint(run, state, global_model)
        writer = GraphWriter(folder, net, _properties(run, cohort, bound), batch=options.batch)
        parity = Parity(net, folder, cohort.classes)
        global_chain = writer.global_chain(global_model)
        parity.check(
            "global", global_chain, global_model, parity_inputs(some_inputs(cohort, cohort.pool(VALID), net), net)
        )
        calibration = CalibrationFitter(options.accuracy)
        if options.certainty == HELD_OUT:
            calibration.held_out_logits = held_out_logits(net, cohort, global_model)
        calibration.global_logits += [
            validation_logits(net, cohort, client, global_model) for client in cohort.federation
        ]
        variants = _quantized_variants(writer, run, cohort, int8, tflite)
        for variant in variants:
            variant.add_global(global_chain, global_model, calibration.global_logits)
        chains: dict[str, dict[str, Any]] = {}
        for patient in patients:
            names = writer.patient_chain(patient.chain, patient.id, patient.patient)
            parity.check(patient.id, names, patient.chain, parity_inputs(patient.inputs, net))
            chains[patient.id] = {"patient": patient.patient, "chain": names, "scores": patient.scores}
            if patient.classes is not None:
                chains[patient.id]["classes"] = list(patient.classes)
            if patient.valid is not None:
                calibration.personal_logits[patient.id] = patient.valid
                for variant in variants:
                    variant.add_patient(patient.id, names, patient.chain, patient.valid)
        file = None if options.global_only else _write_weights(writer, global_model)
        global_calibration, calibrations = calibration.fitted(list(chains))
        for name, patient_calibration in calibrations.items():
            chains[name]["certainty"] = patient_calibration
        variant_entries, variant_overviews = dict[str, Any](), dict[str, Any]()
        for variant in variants:
            variant_entries |= variant.finish_entries(chains, options.accuracy, global_calibration)
            variant_overviews |= variant.overview()
        manifest = {
            **_manifest_metadata(run, cohort, state),
            BOUND: bound,
            "inputs": {k: list(v) for k, v in input_shapes(net, "model").items()},
            "files": writer.files,
            "global": {
                "chain": global_chain,
                "protocol": "one model" if method.has_global_model else options.protocol,
                "certainty": global_calibration,
                **({"class_offsets": offsets} if offsets else {}),
                **variant_entries,
            },
            "personal": personal,
            "trained_on": training_metadata(cohort, run.plan.leave_out, run.plan.most_per_class),
            "certainty": {**calibration.overview(calibrations), FAR: _ood_entry(run, cohort, writer)},
            **variant_overviews,
            "weights": file,
            "scores": scores,
            "parity": parity.report(),
            "patients": chains,
        }
        return finish_bundle(folder, manifest, signer)


def class_offsets(text: str | None, classes: Sequence[str]) -> dict[str, float]:
    """Return the logit offset of each class that ``CLASS=X,...`` names.

    Raises:
        OptionError: a class that the cohort does not have or that was named before, or no number from -10 to 10.
    """
    offsets = dict[str, float]()
    for item in (text or "").split(",") if text is not None else ():
        name, _, number = item.partition("=")
        if name in offsets:
            raise OptionError("class_offsets", f"{text!r:.60} names {name} twice", "each class once")
        try:
            offsets[name] = float(number)
        except ValueError:
            offsets[name] = np.nan
        if name not in classes or not abs(offsets[name]) <= MAX_OFFSET:
            need = f"CLASS=X, a class of {', '.join(classes)} and X from -{MAX_OFFSET:g} to {MAX_OFFSET:g}, say S=0.5"
            raise OptionError("class_offsets", f"{item!r:.60}", need)
    return offsets


def _quantized_variants(
    writer: GraphWriter, run: Run, cohort: Cohort, int8: Int8Rule | None, tflite: Path | None
) -> list[Int8Variants | TfliteVariants]:
    """Return the writers of the requested quantised variants."""
    variants: list[Int8Variants | TfliteVariants] = []
    if int8 is not None:
        variants.append(Int8Variants(writer, run.net, cohort, run.plan.leave_out, int8))
    if tflite is not None:
        variants.append(TfliteVariants(writer, run.net, cohort, run.plan.leave_out, int8 or Int8Rule(), tflite))
    return variants


def _write_weights(writer: GraphWriter, model: Model) -> str | None:
    """Write the weights of a global model, to start new patients from, unless it is an ensemble; return their name."""
    if not isinstance(model, Pipeline):
        return None
    name = "weights/global.safetensors"
    (writer.folder / "weights").mkdir()
    save_tree(writer.folder / name, merged_model(model).params)
    writer.note(name, "weights")
    return name


def _ood_entry(run: Run, cohort: Cohort, writer: GraphWriter) -> dict[str, Any] | None:
    """Write the graph of distances to prototypes; return its entry with the threshold."""
    int8 = run.net.spec.rr_version == 3  # a bundle of 241 features is to stay below 400 kB
    fitted = fit_prototypes(run.net, cohort, run.plan.seed, int8=int8)
    if fitted is None:
        return None
    graph = writer.graph(prototype_part(fitted[0]))
    name = writer.write("far.onnx", in_int8(graph) if int8 else graph, FAR)
    return {"graph": name, "threshold": fitted[1], "typical": len(fitted[0]), "near_share": NEAR_SHARE}


def _fingerprint(run: Run, state: State, model: Model) -> str:
    """Return the SHA-256 over the run, its round and its global model, which all graphs of a bundle carry."""
    digest = hashlib.sha256(f"{run.identity} {state.round}".encode())
    for chain in model.members if isinstance(model, Ensemble) else (model,):
        for part in chain.stages:
            for name in sorted(part.params):
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(part.params[name].detach().numpy()).tobytes())
    return digest.hexdigest()


def _federation(run: Run) -> dict[str, Any]:
    """Return the manifest's entry of a federation's run; raises RunError if run.json has an invalid one."""
    try:
        federation = federation_in(run.meta)
    except (KeyError, TypeError, ValueError) as problem:
        raise RunError(run.path / RUN_FILE, f"lacks {problem!s:.100}", "a federation's sites", "restore it") from None
    return {} if federation is None else {FEDERATION: federation.as_json()}


def _manifest_metadata(run: Run, cohort: Cohort, state: State) -> dict[str, Any]:
    meta = cohort.meta
    metadata = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "intended_use": INTENDED_USE,
        "method": run.method.name,
        "settings": run.meta["settings"],
        "rounds": state.round,
        **_federation(run),
        "net": {**run.meta["net"], "architecture": run.net.spec.architecture.rpartition("/")[2]},
        "cohort": {"kind": meta["kind"], "fingerprint": cohort.fingerprint, "split": meta["split"]},
        "classes": list(cohort.classes),
        "label_map": cohort.labels.as_json(),
        "units": meta["units"],
    }
    if cohort.modality == "image":
        return {**metadata, "modality": "image", "normalisation": NORMALISATION["image"]}
    return {
        **metadata,
        "fs_hz": FS_HZ,
        "window_samples": WINDOW_SAMPLES,
        "r_index": R_INDEX,
        "leads": list(cohort.leads),
        "filter": meta["filter"],
        "normalisation": NORMALISATION["ecg"],
        **_rr(run),
    }


def _rr(run: Run) -> dict[str, Any]:
    return {"rr_features": RR_METADATA[run.net.spec.rr_version]} if run.net.spec.rr else {}


def _properties(run: Run, cohort: Cohort, bound: str) -> dict[str, str]:
    """Return the metadata of every graph, as JSON strings, so that each graph is self-describing."""
    meta = cohort.meta
    values = {
        "schema_version": SCHEMA_VERSION,
        "classes": list(cohort.classes),
        "units": meta["units"],
        "method": run.method.name,
        "cohort_fingerprint": cohort.fingerprint,
        BOUND: bound,
    }
    if cohort.modality == "image":
        values |= {"normalisation": "in the graph, by channel"}
    else:
        values |= {
            "symbols": cohort.labels.symbols,
            "fs_hz": FS_HZ,
            "samples_before_r": R_INDEX,
            "samples_after_r": WINDOW_SAMPLES - R_INDEX,
            "leads": list(cohort.leads),
            "filter": meta["filter"],
            "normalisation": "in the graph, by window",
            **(_rr(run) if run.net.spec.rr_version < 3 else {}),  # 241 names, 4 kB a graph, are in the manifest
        }
    plain = {"tool_version": __version__, "intended_use": INTENDED_USE}
    return {**plain, **{name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}}


def _scores(run: Run, state: State, protocol: str, personal: str) -> dict[str, dict[str, Any]]:
    """Return test scores of this round by client id, and of the run under ``""``; T_g only of the exported model."""
    suffix = "" if personal == run.method.personal else f"-{personal}"
    path = run.path / f"evaluation-test{suffix}" / "scores.json"
    if not path.is_file():
        return {}
    result, again = read_json(path, BundleError), f"run 'ecgfed evaluate {run.path}' again"
    try:
        check_result(dict(result), path, str(run.meta["method"]), run.identity, again)
        if result["round"] != state.round:
            return {}
        patient_scores = {
            row["client"]: {"split": "test", "beats": int(row["beats"]), "macro_f1": row["personal_f1"]}
            for row in result["per_patient"]
        }
        same_global_model = run.method.has_global_model or result["protocol"] == protocol
        means = {name: value for name, value in result["scores"].items() if same_global_model or name != "T_g"}
        classes = [{name: row[name] for name in _OF_CLASS} for row in result.get("per_class", ())]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BundleError(path, f"lacks {problem}", "scores", again) from None
    return {"": {"split": "test", **means, **({"per_class": classes} if same_global_model else {})}, **patient_scores}
