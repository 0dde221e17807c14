"""Writing a bundle: graphs, weights, manifest, and the proof that they answer as the trained model does."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed import __version__
from ecgfed.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.bundles.calibration import ACCURACY, Answers, Calibration, validation_answers
from ecgfed.bundles.describe import finish_bundle
from ecgfed.bundles.graph_writer import GraphWriter, whole_model
from ecgfed.bundles.graphs import input_shapes
from ecgfed.bundles.int8_choice import Int8Forms, Int8Rule
from ecgfed.bundles.packing import replacing_bundle
from ecgfed.bundles.parity import Parity, parity_inputs, some_inputs, some_rows
from ecgfed.bundles.tflite import TfliteForms
from ecgfed.bundles.training_facts import classes_of, training_facts
from ecgfed.bundles.typical import NEAR_SHARE, fit_typical, typical_part
from ecgfed.cohort.cohort import Cohort
from ecgfed.cohort.split import VALID
from ecgfed.device.certainty import FAR
from ecgfed.device.manifest import BOUND, NORMALISATION, RR_ABOUT, SCHEMA_VERSION
from ecgfed.device.signatures import Signer
from ecgfed.errors import BundleError
from ecgfed.federation.data import training_data
from ecgfed.federation.state import State
from ecgfed.files import read_json
from ecgfed.methods.answers import Answer, Chain, Ensemble
from ecgfed.nets.net import Inputs
from ecgfed.personal.apply import PersonalAnswers, chosen_name
from ecgfed.personal.registry import METHODS_OWN, personal_by_name
from ecgfed.runs.evaluations import check_result
from ecgfed.runs.run import Run
from ecgfed.runs.tree_files import save_tree

#: What is told of each class's scores.
_OF_CLASS = ("class", "beats", "predicted", "sensitivity", "positive_predictivity", "f1")
INTENDED_USE = "Research use only, not for diagnosis; needs physician over-read."


def export_bundle(
    run: Run,
    cohort: Cohort,
    state: State,
    out: Path,
    *,
    protocol: str = "ensemble",
    personal: str | None = None,
    global_only: bool = False,
    accuracy: float = ACCURACY,
    batch: int | None = None,
    int8: Int8Rule | None = None,
    tflite: Path | None = None,
    signer: Signer | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write a bundle of a run's global answer and every patient's personal model.

    Args:
        run: the run.
        cohort: its cohort; beats of its valid split show that the graphs answer as the model does.
        state: its checkpoint.
        out: folder to make, or zip file where its name ends in ``.zip``.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        personal: the personal answers, a name of ``ecgfed.personal`` or ``method``; default what the method is made
            for.
        global_only: write the global answer alone: no patient's model, and no weights to start a new one from.
        accuracy: how often answers that are not uncertain shall be right, on validation beats.
        batch: how many beats every graph takes at once, no more and no fewer; None leaves that open.
        int8: write int8 forms beside the float graphs, where this rule accepts them.
        tflite: write TensorFlow Lite files in int8 too, made by this python (``ecgfed.bundles.tflite``).
        signer: signs the manifest, where there is one.
        overwrite: replace ``out`` where it exists.
        progress: called with patients done and all.

    Returns:
        The manifest.

    Raises:
        BundleError: a graph differs from the trained model by more than the contract allows; nothing is written.
    """
    clients, how = () if global_only else cohort.federation, chosen_name(run, personal)
    answers = PersonalAnswers(
        run,
        state,
        personal_by_name(how),
        lambda: training_data(cohort, rr=run.net.spec.rr, leave_out=run.plan.leave_out),
    )
    scores = _scores(run, state, protocol, how)

    def patients() -> Iterator[PatientModel]:
        """Make one personal model after the other."""
        for i, client in enumerate(clients):
            chain = answers.of(client.index)
            inputs = some_inputs(cohort, some_rows(cohort, client), run.net)
            classes = classes_of(cohort, client, run.plan.leave_out)
            valid = validation_answers(run.net, cohort, client, chain)
            yield PatientModel(client.id, client.patient, chain, inputs, scores.get(client.id), classes, valid)
            if progress:
                progress(i + 1, len(clients))

    return write_bundle(
        run,
        cohort,
        state,
        out,
        patients(),
        scores.get(""),
        protocol=protocol,
        personal=how,
        weights=not global_only,
        accuracy=accuracy,
        batch=batch,
        int8=int8,
        tflite=tflite,
        signer=signer,
        overwrite=overwrite,
    )


@dataclass(frozen=True)
class PatientModel:
    """One patient's part of a bundle.

    Attributes:
        id: names the files.
        patient: whose it is.
        chain: the personal model.
        inputs: some of the patient's beats, for the proof.
        scores: for the manifest, or None.
        classes: the classes of the beats that it learned from, or None where it learned from none.
        valid: what it says of the patient's validation beats, or None where there are none to judge it by: then the
            global model's certainty stands in.
    """

    id: str
    patient: str
    chain: Chain
    inputs: Inputs
    scores: dict[str, Any] | None
    classes: tuple[str, ...] | None = None
    valid: Answers | None = None


def write_bundle(
    run: Run,
    cohort: Cohort,
    state: State,
    out: Path,
    patients: Iterable[PatientModel],
    scores: dict[str, Any] | None,
    *,
    protocol: str = "ensemble",
    personal: str = METHODS_OWN,
    weights: bool = True,
    accuracy: float = ACCURACY,
    batch: int | None = None,
    int8: Int8Rule | None = None,
    tflite: Path | None = None,
    signer: Signer | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write a bundle of a run's global answer and the personal models given, one of them in memory at a time.

    Args:
        run: the run.
        cohort: its cohort; beats of its valid split show that the global graph answers as the model does.
        state: its checkpoint.
        out: folder to make, or zip file where its name ends in ``.zip``.
        patients: the personal models.
        scores: of the run, for the manifest, or None.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        personal: what the personal models are, for the manifest.
        weights: write the global model's weights too, to start a new patient from.
        accuracy: how often answers that are not uncertain shall be right, on validation beats.
        batch: how many beats every graph takes at once, no more and no fewer; None leaves that open.
        int8: write int8 forms beside the float graphs, where this rule accepts them.
        tflite: write TensorFlow Lite files in int8 too, made by this python (``ecgfed.bundles.tflite``).
        signer: signs the manifest, where there is one.
        overwrite: replace ``out`` where it exists.

    Returns:
        The manifest.

    Raises:
        BundleError: a graph differs from the trained model by more than the contract allows; nothing is written.
    """
    net, method = run.net, run.method
    answer = method.global_answer(
        state.server, (run.client_state(state, client.index) for client in cohort.federation), protocol
    )
    with replacing_bundle(out, overwrite=overwrite) as folder:
        bound = _fingerprint(run, state, answer)
        writer = GraphWriter(folder, net, _properties(run, cohort, bound), batch=batch)
        parity = Parity(net, folder, cohort.classes)
        global_chain = writer.global_chain(answer)
        parity.check("global", global_chain, answer, parity_inputs(some_inputs(cohort, cohort.pool(VALID), net), net))
        calibration = Calibration(accuracy)
        calibration.everyone += [validation_answers(net, cohort, client, answer) for client in cohort.federation]
        forms = _small_forms(writer, run, cohort, int8, tflite)
        for form in forms:
            form.add_everyone(global_chain, answer, calibration.everyone)
        chains: dict[str, dict[str, Any]] = {}
        for own in patients:
            names = writer.patient_chain(own.chain, own.id, own.patient)
            parity.check(own.id, names, own.chain, parity_inputs(own.inputs, net))
            chains[own.id] = {"patient": own.patient, "chain": names, "scores": own.scores}
            if own.classes is not None:
                chains[own.id]["classes"] = list(own.classes)
            if own.valid is not None:
                calibration.own[own.id] = own.valid
                for form in forms:
                    form.add_patient(own.id, names, own.chain, own.valid)
        file = _write_weights(writer, answer) if weights and isinstance(answer, Chain) else None
        everyone, certainties = calibration.fitted(list(chains))
        for name, certainty in certainties.items():
            chains[name]["certainty"] = certainty
        of_forms, of_all_forms = dict[str, Any](), dict[str, Any]()
        for form in forms:
            of_forms |= form.said(chains, accuracy, everyone)
            of_all_forms |= form.overview()
        manifest = {
            **_about(run, cohort, state),
            BOUND: bound,
            "inputs": {k: list(v) for k, v in input_shapes(net, "model").items()},
            "files": writer.files,
            "global": {"chain": global_chain, "protocol": _protocol(run, protocol), "certainty": everyone, **of_forms},
            "personal": personal,
            "trained_on": training_facts(cohort, run.plan.leave_out),
            "certainty": {**calibration.overview(certainties), FAR: _far(run, cohort, writer)},
            **of_all_forms,
            "weights": file,
            "scores": scores,
            "parity": parity.report(),
            "patients": chains,
        }
        return finish_bundle(folder, manifest, signer)


def _small_forms(
    writer: GraphWriter, run: Run, cohort: Cohort, int8: Int8Rule | None, tflite: Path | None
) -> list[Int8Forms | TfliteForms]:
    """Return what makes the forms asked for beside the float graphs."""
    forms: list[Int8Forms | TfliteForms] = []
    if int8 is not None:
        forms.append(Int8Forms(writer, run.net, cohort, run.plan.leave_out, int8))
    if tflite is not None:
        forms.append(TfliteForms(writer, run.net, cohort, run.plan.leave_out, int8 or Int8Rule(), tflite))
    return forms


def _write_weights(writer: GraphWriter, answer: Chain) -> str:
    """Write the global model's weights, to start a new patient from, and return their name in the bundle."""
    name = "weights/global.safetensors"
    (writer.folder / "weights").mkdir()
    save_tree(writer.folder / name, whole_model(answer).params)
    writer.note(name, "weights")
    return name


def _far(run: Run, cohort: Cohort, writer: GraphWriter) -> dict[str, Any] | None:
    """Write the graph that says how far a beat is from typical ones, and say from where on it is far."""
    fitted = fit_typical(run.net, cohort, run.plan.seed)
    if fitted is None:
        return None
    name = writer.part(typical_part(fitted[0]), "far.onnx")
    return {"graph": name, "threshold": fitted[1], "typical": len(fitted[0]), "near_share": NEAR_SHARE}


def _fingerprint(run: Run, state: State, answer: Answer) -> str:
    """Return SHA-256 over the run, its round and its global answer: every graph of a bundle says it, and no other."""
    found = hashlib.sha256(f"{run.identity} {state.round}".encode())
    for chain in answer.members if isinstance(answer, Ensemble) else (answer,):
        for part in chain.parts:
            for name in sorted(part.params):
                found.update(name.encode())
                found.update(np.ascontiguousarray(part.params[name].detach().numpy()).tobytes())
    return found.hexdigest()


def _protocol(run: Run, protocol: str) -> str:
    return "one model" if run.method.has_global_model else protocol


def _about(run: Run, cohort: Cohort, state: State) -> dict[str, Any]:
    meta = cohort.meta
    about = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "intended_use": INTENDED_USE,
        "method": run.method.name,
        "settings": run.meta["settings"],
        "rounds": state.round,
        "net": run.meta["net"],
        "cohort": {"kind": meta["kind"], "fingerprint": cohort.fingerprint, "split": meta["split"]},
        "classes": list(cohort.classes),
        "label_map": cohort.labels.as_json(),
        "units": meta["units"],
    }
    if cohort.modality == "image":
        return {**about, "modality": "image", "normalisation": NORMALISATION["image"]}
    return {
        **about,
        "fs_hz": FS_HZ,
        "window_samples": WINDOW_SAMPLES,
        "r_index": R_INDEX,
        "leads": list(cohort.leads),
        "filter": meta["filter"],
        "normalisation": NORMALISATION["ecg"],
        **_rr(run),
    }


def _rr(run: Run) -> dict[str, Any]:
    return {"rr_features": RR_ABOUT[run.net.spec.rr_version]} if run.net.spec.rr else {}


def _properties(run: Run, cohort: Cohort, bound: str) -> dict[str, str]:
    """Metadata of every graph: JSON strings, so that a graph found alone says what it is."""
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
            **_rr(run),
        }
    plain = {"tool_version": __version__, "intended_use": INTENDED_USE}
    return {**plain, **{name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}}


def _scores(run: Run, state: State, protocol: str, personal: str) -> dict[str, dict[str, Any]]:
    """Return test scores by client id (and of the run under ``""``), where 'ecgfed evaluate' has made them.

    Scores of another round are left out, and T_g where it is that of another global answer than the exported one.
    """
    other = "" if personal == run.method.personal else f"-{personal}"
    path = run.path / f"evaluation-test{other}" / "scores.json"
    if not path.is_file():
        return {}
    result, again = read_json(path, BundleError), f"run 'ecgfed evaluate {run.path}' again"
    try:
        check_result(dict(result), path, str(run.meta["method"]), run.identity, again)
        if result["round"] != state.round:
            return {}
        own = {
            row["client"]: {"split": "test", "beats": int(row["beats"]), "macro_f1": row["personal_f1"]}
            for row in result["per_patient"]
        }
        same_answer = run.method.has_global_model or result["protocol"] == protocol
        means = {name: value for name, value in result["scores"].items() if same_answer or name != "T_g"}
        classes = [{name: row[name] for name in _OF_CLASS} for row in result.get("per_class", ())]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BundleError(path, f"lacks {problem}", "scores", again) from None
    return {"": {"split": "test", **means, **({"per_class": classes} if same_answer else {})}, **own}
