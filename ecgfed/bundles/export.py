"""Writing a bundle: graphs, weights, manifest, and the proof that they answer as the trained model does."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed import __version__
from ecgfed.beats.context import LIMIT
from ecgfed.beats.windows import FS_HZ, R_INDEX, WINDOW_SAMPLES
from ecgfed.bundles.graph_writer import GraphWriter, whole_model
from ecgfed.bundles.graphs import TINY_PROBABILITY, input_shapes
from ecgfed.cohort.cohort import Client, Cohort
from ecgfed.cohort.split import TRAIN, VALID
from ecgfed.device.canonical import digest_of
from ecgfed.device.classifier import Classifier
from ecgfed.device.manifest import BOUND, DIGEST, MANIFEST, NORMALISATION, RR_ABOUT, SCHEMA_VERSION
from ecgfed.device.signatures import Signer
from ecgfed.errors import BundleError
from ecgfed.evaluation.predict import chain_logits
from ecgfed.federation.data import training_data
from ecgfed.federation.state import State
from ecgfed.files import read_json, replacing_folder, write_bytes, write_json
from ecgfed.methods.answers import Answer, Chain, Ensemble
from ecgfed.nets.net import Inputs, Net
from ecgfed.personal.apply import PersonalAnswers, chosen_name
from ecgfed.personal.registry import METHODS_OWN, personal_by_name
from ecgfed.runs.run import Run
from ecgfed.runs.tree_files import save_tree

#: Largest difference of a logit between torch and ONNX Runtime that is let through (contract).
LOGIT_TOLERANCE = 1e-4
#: Beyond logits of this size float32 cannot keep that, and the difference is scaled down (docs/decisions/0010).
LARGE_LOGIT = 100.0
PARITY_BEATS = 64
INTENDED_USE = "Research use only, not for diagnosis; needs physician over-read."


def export_bundle(
    run: Run,
    cohort: Cohort,
    state: State,
    out: Path,
    *,
    protocol: str = "ensemble",
    personal: str | None = None,
    signer: Signer | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write a bundle of a run's global answer and every patient's personal model.

    Args:
        run: the run.
        cohort: its cohort; beats of its valid split show that the graphs answer as the model does.
        state: its checkpoint.
        out: folder to make.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        personal: the personal answers, a name of ``ecgfed.personal`` or ``method``; default what the method is made
            for.
        signer: signs the manifest, where there is one.
        overwrite: replace ``out`` where it exists.
        progress: called with patients done and all.

    Returns:
        The manifest.

    Raises:
        BundleError: a graph differs from the trained model by more than the contract allows; nothing is written.
    """
    clients, how = cohort.federation, chosen_name(run, personal)
    answers = PersonalAnswers(
        run,
        state,
        personal_by_name(how),
        lambda: training_data(cohort, rr=run.net.spec.rr, leave_out=run.plan.leave_out),
    )
    scores = _scores(run, state, protocol, how)

    def patients() -> Iterator[PatientModel]:
        for i, client in enumerate(clients):
            chain = answers.of(client.index)
            inputs = _some_inputs(cohort, _some_rows(cohort, client), run.net)
            yield PatientModel(client.id, client.patient, chain, inputs, scores.get(client.id))
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
    """

    id: str
    patient: str
    chain: Chain
    inputs: Inputs
    scores: dict[str, Any] | None


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
    signer: Signer | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write a bundle of a run's global answer and the personal models given, one of them in memory at a time.

    Args:
        run: the run.
        cohort: its cohort; beats of its valid split show that the global graph answers as the model does.
        state: its checkpoint.
        out: folder to make.
        patients: the personal models.
        scores: of the run, for the manifest, or None.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        personal: what the personal models are, for the manifest.
        signer: signs the manifest, where there is one.
        overwrite: replace ``out`` where it exists.

    Returns:
        The manifest.

    Raises:
        BundleError: a graph differs from the trained model by more than the contract allows; nothing is written.
    """
    net, method = run.net, run.method
    answer = method.global_answer(
        state.server, (run.kept(state, client.index) for client in cohort.federation), protocol
    )
    with replacing_folder(out, overwrite=overwrite) as folder:
        bound = _fingerprint(run, state, answer)
        writer = GraphWriter(folder, net, _properties(run, cohort, bound))
        parity = _Parity(net, folder, cohort.classes)
        global_chain = writer.global_chain(answer)
        parity.check("global", global_chain, answer, _parity_inputs(_some_inputs(cohort, cohort.pool(VALID), net), net))
        chains = {}
        for own in patients:
            names = writer.patient_chain(own.chain, own.id, own.patient)
            parity.check(own.id, names, own.chain, _parity_inputs(own.inputs, net))
            chains[own.id] = {"patient": own.patient, "chain": names, "scores": own.scores}
        weights = None
        if isinstance(answer, Chain):
            weights = "weights/global.safetensors"
            (folder / "weights").mkdir()
            save_tree(folder / weights, whole_model(answer).params)
            writer.note(weights, "weights")
        manifest = {
            **_about(run, cohort, state),
            BOUND: bound,
            "inputs": {k: list(v) for k, v in input_shapes(net, "model").items()},
            "files": writer.files,
            "global": {"chain": global_chain, "protocol": _protocol(run, protocol)},
            "personal": personal,
            "weights": weights,
            "scores": scores,
            "parity": parity.report(),
            "patients": chains,
        }
        manifest[DIGEST] = digest_of(manifest, DIGEST)
        write_json(folder / MANIFEST, manifest)
        if signer is not None:
            for name, data in signer.files((folder / MANIFEST).read_bytes()).items():
                write_bytes(folder / name, data)
    return manifest


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
    result = read_json(path, BundleError)
    try:
        if result["round"] != state.round:
            return {}
        own = {
            row["client"]: {"split": "test", "beats": row["beats"], "macro_f1": row["personal_f1"]}
            for row in result["per_patient"]
        }
        same_answer = run.method.has_global_model or result["protocol"] == protocol
        means = {name: value for name, value in result["scores"].items() if same_answer or name != "T_g"}
    except (KeyError, TypeError, AttributeError) as problem:
        raise BundleError(path, f"lacks {problem}", "scores", f"run 'ecgfed evaluate {run.path}' again") from None
    return {"": {"split": "test", **means}, **own}


def _some_rows(cohort: Cohort, client: Client) -> NDArray[np.int64]:
    rows = cohort.rows(client, VALID)
    return rows if len(rows) else cohort.rows(client, TRAIN)


def _some_inputs(cohort: Cohort, rows: NDArray[np.int64], net: Net) -> Inputs:
    """Return up to 64 beats or images of a cohort, evenly taken."""
    rows = rows[np.linspace(0, len(rows) - 1, min(PARITY_BEATS, len(rows))).astype(np.int64)] if len(rows) else rows
    rr = torch.from_numpy(cohort.rr[rows]) if net.spec.rr else None
    return Inputs(torch.from_numpy(np.take(cohort.examples, rows, axis=0)), rr)


def _parity_inputs(real: Inputs, net: Net) -> Inputs:
    """Return real beats or images, and some at the edges of what can come."""
    if net.spec.modality == "image":
        flat = np.zeros((2, *net.input_shape), np.uint8)
        flat[1] = 255
        noise = np.random.default_rng(0).integers(0, 256, (2, *net.input_shape), dtype=np.uint8)
        return Inputs(torch.cat([real.examples, torch.from_numpy(flat), torch.from_numpy(noise)]))
    edge = np.zeros((4, 1, WINDOW_SAMPLES), np.float32)
    edge[1, 0, R_INDEX] = 10.0
    edge[2] = np.linspace(-5, 5, WINDOW_SAMPLES)
    edge[3] = np.random.default_rng(0).normal(0, 0.003, edge[3].shape)
    features = None if real.rr is None else torch.cat([real.rr, torch.from_numpy(_rr_edge(net.spec.rr_count))])
    return Inputs(torch.cat([real.examples, torch.from_numpy(edge)]), features)


def _rr_edge(count: int) -> NDArray[np.float32]:
    """RR features at the edges of what can come, (4, count)."""
    if count == 4:
        return np.array([[0, 0, 0, 1], [5, 5, 5, 3], [0.3, 1.2, 0.8, 0.4], [0.8, 0.8, 0.8, 1]], np.float32)
    edge = np.repeat(np.array([[0], [LIMIT], [-LIMIT], [1]], np.float32), count, axis=1)
    edge[3, ::2] = -1
    return edge


class _Parity:
    """Compares what a device will compute with what was trained."""

    def __init__(self, net: Net, folder: Path, classes: tuple[str, ...]) -> None:
        self.net, self.folder, self.classes = net, folder, classes
        self.worst, self.beats, self.chains = 0.0, 0, 0

    def check(self, name: str, chain: list[str], answer: Answer, inputs: Inputs) -> None:
        """Compare one chain on some beats; raises BundleError past the tolerance."""
        expected = self._expected(answer, inputs)
        if not np.isfinite(expected).all():
            raise BundleError(
                f"model of {name}",
                "gives logits that are not finite",
                "a training that converged",
                "train again with a lower learning rate, --set lr=...",
            )
        rr_version = 0 if inputs.rr is None else self.net.spec.rr_version
        device = Classifier([self.folder / file for file in chain], self.classes, rr_version)
        found = self._found(device, inputs)
        scale = np.maximum(1.0, np.abs(expected).max(axis=1) / LARGE_LOGIT)
        difference = float((np.abs(found - expected).max(axis=1) / scale).max())
        top = np.sort(expected, axis=1)
        clear = (top[:, -1] - top[:, -2]) / scale > LOGIT_TOLERANCE
        agree = (found.argmax(1) == expected.argmax(1))[clear].all()
        if not (difference <= LOGIT_TOLERANCE and agree):
            raise BundleError(
                f"graph of {name}",
                f"logits differ by {difference:.2g} from the trained model",
                f"at most {LOGIT_TOLERANCE:g} and equal labels",
                "nothing was exported; report this",
            )
        self.worst, self.beats, self.chains = max(self.worst, difference), self.beats + len(found), self.chains + 1

    def _found(self, device: Classifier, inputs: Inputs) -> NDArray[np.float32]:
        if self.net.spec.modality == "image":
            return device.image_logits(inputs.examples.numpy())
        return device.logits(inputs.examples.numpy(), None if inputs.rr is None else inputs.rr.numpy())

    def _expected(self, answer: Answer, inputs: Inputs) -> NDArray[np.float32]:
        with torch.inference_mode():
            if isinstance(answer, Chain):
                return np.asarray(chain_logits(self.net, answer, inputs).numpy())
            mean = torch.stack([chain_logits(self.net, chain, inputs).softmax(1) for chain in answer.members]).mean(0)
            return np.asarray(mean.clamp_min(TINY_PROBABILITY).log().numpy())

    def report(self) -> dict[str, Any]:
        """Return the figures for the manifest."""
        return {
            "max_logit_difference": self.worst,
            "allowed": LOGIT_TOLERANCE,
            "beats": self.beats,
            "chains": self.chains,
        }
