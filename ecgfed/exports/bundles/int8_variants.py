"""int8 variants of a bundle's models, calibrated on training beats and accepted or rejected on validation beats."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.core.methods.models import Model
from ecgfed.core.nets.net import Net
from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.exports.bundles.calibration import CalibrationFitter, ValidationLogits, stand_in, validation_rows
from ecgfed.exports.bundles.graph_writer import GraphWriter
from ecgfed.exports.bundles.graphs import finish
from ecgfed.exports.bundles.quantise import quantise, read_by_layers
from ecgfed.exports.bundles.ranges import RULES
from ecgfed.exports.bundles.simplify import with_batch
from ecgfed.exports.device.activations import activations
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.graph import check_graph
from ecgfed.exports.device.int8 import INT8

#: Roles whose layers are quantised. Kernel machines, gates and neighbours stay float: they compare distances to stored
#: beats, which an int8 step would make equal.
QUANTISED = ("model", "ensemble", "extractor", "describer", "head", "linear", "decoupled", "valved")
#: Training beats for the calibration of activations: of a patient, and of all patients for the global model. For graphs
#: with more layers than ``LAYERS`` (ensembles), proportionally fewer, but at least ``MIN_BEATS``.
BEATS, BEATS_OF_ALL, LAYERS, MIN_BEATS = 512, 1024, 16, 64
#: Minimum number of them per class, if available.
MIN_PER_CLASS = 16
#: Reason for a variant that cannot be created.
NO_TRAINING = "has no training beat to be calibrated on"
#: Metadata of int8 graphs.
PRECISION = {"precision": "int8"}


@dataclass(frozen=True)
class Int8Rule:
    """Acceptance rule and calibration of int8 variants.

    Attributes:
        loss: maximum loss of macro-F1 (classes in truth or prediction) on validation beats.
        agreement: minimum fraction of validation beats with the float model's label.
        ranges: calibration rule for activations, a name of ``ecgfed.exports.bundles.ranges.RULES``.
    """

    loss: float = 0.01
    agreement: float = 0.99
    ranges: str = "percentile"


@dataclass(frozen=True, eq=False)
class _Int8Variant:
    """An int8 chain before acceptance.

    Attributes:
        chain: names of its graphs, including parts that stay float.
        graphs: graphs to write, with role and metadata.
        classifier: runs the chain.
    """

    chain: list[str]
    graphs: dict[str, tuple[onnx.ModelProto, str, dict[str, str]]]
    classifier: Classifier


@dataclass
class Variants:
    """Variants of a bundle's float graphs.

    Attributes:
        writer: writer of the float graphs; also writes accepted variants.
        net: the net of the graphs.
        cohort: beats for calibration and validation.
        leave_out: excluded training beats, as in ``TrainPlan``.
        rule: acceptance rule.
        entries: the variants' field of the manifest's entries: the global model under None, patients by id.
    """

    writer: GraphWriter
    net: Net
    cohort: Cohort
    leave_out: str
    rule: Int8Rule
    entries: dict[str | None, dict[str, Any]] = field(default_factory=dict, kw_only=True)

    def feeds(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the inputs of the first graph for rows of the cohort."""
        feeds: dict[str, NDArray[Any]] = {self.net.input_name: np.take(self.cohort.examples, rows, axis=0)}
        return {**feeds, "rr": self.cohort.rr[rows]} if self.net.spec.rr else feeds

    def calibrate(self, fitter: CalibrationFitter, global_calibration: dict[str, Any]) -> None:
        """Fit temperatures and thresholds on the logits of the accepted variants, as for float models.

        A global calibration fitted on held-out patients stands for its variant too.
        """
        if fitter.global_logits and "fitted_on" in global_calibration:
            self.entries[None]["certainty"] = stand_in(global_calibration)
        elif fitter.global_logits:
            self.entries[None]["certainty"] = global_calibration = fitter.fit_global()
        for name, certainty in fitter.fit_patients(global_calibration).items():
            self.entries[name]["certainty"] = certainty


@dataclass
class Int8Variants(Variants):
    """Creates, validates and writes int8 variants of a bundle's float graphs.

    Attributes:
        global_logits: validation logits of the global variant, if accepted.
        personal_logits: validation logits of accepted patients' variants.
    """

    global_logits: list[ValidationLogits] = field(default_factory=list)
    personal_logits: dict[str, ValidationLogits] = field(default_factory=dict)
    _global: tuple[list[str], _Int8Variant] | None = None

    def add_global(self, chain: list[str], model: Model, floats: list[ValidationLogits]) -> None:
        """Create and validate the int8 variant of the global model; write it if accepted.

        Args:
            chain: its float graphs.
            floats: its validation logits per client.
        """
        rows = self.cohort.usable(self.cohort.training_pool(), self.leave_out)
        if not len(rows):
            self.entries[None] = {"chain": None, **_unjudged(NO_TRAINING)}
            return
        variant = self._quantized(chain, rows, BEATS_OF_ALL, None)
        self._global = (chain, variant)
        logits = [
            self._logits(variant, validation_rows(self.cohort, client, model)) for client in self.cohort.federation
        ]
        self.entries[None] = self._judged(variant, floats, logits)
        if self.entries[None]["accepted"]:
            self.global_logits += logits

    def add_patient(self, name: str, chain: list[str], model: Model, floats: ValidationLogits) -> None:
        """Create and validate the int8 variant of a patient's model, as ``add_global`` does.

        Args:
            name: the patient's id in cohort and manifest.
            chain: the model's float graphs; if they are those of the global model, its variant is reused.
            floats: its logits on the patient's validation beats.
        """
        client = self.cohort.client_by_id(name)
        if self._global is not None and self._global[0] == chain:
            variant = self._global[1]
        else:
            rows = self.cohort.usable(self.cohort.training_rows(client), self.leave_out)
            if not len(rows):
                self.entries[name] = {"chain": None, **_unjudged(NO_TRAINING)}
                return
            variant = self._quantized(chain, rows, BEATS, client)
        logits = self._logits(variant, validation_rows(self.cohort, client, model))
        self.entries[name] = self._judged(variant, [floats], [logits])
        if self.entries[name]["accepted"]:
            self.personal_logits[name] = logits

    def finish_entries(
        self, patients: dict[str, dict[str, Any]], accuracy: float, global_calibration: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Add the variants to the manifest's entries; return the field of the global model.

        Temperatures and thresholds are fitted on the logits of the accepted variants, as for float models.

        Args:
            patients: the patients' entries by id.
            accuracy: as in ``CalibrationFitter``.
            global_calibration: of the float global model; its threshold serves patients with few validation beats if
                the global model has no int8 variant.
        """
        self.calibrate(CalibrationFitter(accuracy, self.global_logits, self.personal_logits), global_calibration)
        for client, entry in self.entries.items():
            if client is not None:
                patients[client][INT8] = entry
        return {INT8: self.entries[None]}

    def overview(self) -> dict[str, Any]:
        """Return the manifest's summary: the rule, and the numbers of accepted and rejected patients' variants."""
        accepted = [entry["accepted"] for name, entry in self.entries.items() if name is not None]
        summary = {
            "loss": self.rule.loss,
            "agreement": self.rule.agreement,
            "ranges": self.rule.ranges,
            "judged_on": "valid",
            "accepted": accepted.count(True),
            "refused": accepted.count(False),
        }
        return {INT8: summary}

    def _quantized(self, chain: list[str], rows: NDArray[np.int64], limit: int, client: Client | None) -> _Int8Variant:
        """Return an int8 chain, calibrated on training beats."""
        feeds, names, graphs, quantized_graphs = None, [], [], {}
        for file in chain:
            role = str(self.writer.files[file]["role"])
            data = (self.writer.folder / file).read_bytes()
            if role not in QUANTISED:
                names.append(file)
                graphs.append(check_graph(self.writer.folder / file, data))
                continue
            model = with_batch(onnx.load_model_from_string(data), None)  # variable batch size, to compute activations
            layers = read_by_layers(model)
            if feeds is None:
                count = max(MIN_BEATS, limit * LAYERS // max(LAYERS, len(layers)))
                feeds = self.feeds(calibration_rows(self.cohort.label, rows, count))
            watched = onnx.ModelProto()
            watched.CopyFrom(model)
            existing = {entry.name for entry in (*model.graph.input, *model.graph.output)}
            watched.graph.output.extend(
                helper.make_empty_tensor_value_info(name) for name in layers if name not in existing
            )
            inside = [name for name in layers if name not in feeds]
            ranges = {
                name: RULES[self.rule.ranges](values)
                for name, values in (
                    {name: feeds[name] for name in layers if name in feeds}
                    | activations(watched.SerializeToString(), inside, feeds)
                ).items()
            }
            name = "int8/global.onnx" if client is None else f"int8/{role}/{client.id}.onnx"
            owner = {} if client is None else {"client": client.id, "patient": client.patient}
            quantized = quantise(model, ranges)
            data = finish(quantized, {**self.writer.properties, "role": role, **PRECISION, **owner})
            graph = check_graph(self.writer.folder / name, data)
            quantized_graphs[name] = (quantized, role, {**PRECISION, **owner})
            names.append(name)
            graphs.append(graph)
            if file != chain[-1]:  # the next part is calibrated on the int8 output of this one
                feeds = activations(data, [graph.output.name], feeds)
        rr_version = self.net.spec.rr_version if self.net.spec.rr else 0
        return _Int8Variant(names, quantized_graphs, Classifier(graphs, self.cohort.classes, rr_version))

    def _logits(self, variant: _Int8Variant, rows: NDArray[np.int64]) -> ValidationLogits:
        feeds = self.feeds(rows)
        if self.net.spec.modality == "image":
            logits = variant.classifier.image_logits(feeds[self.net.input_name])
        else:
            logits = variant.classifier.logits(feeds[self.net.input_name], feeds.get("rr"))
        return ValidationLogits(logits, self.cohort.label[rows].astype(np.int64))

    def _judged(
        self, variant: _Int8Variant, floats: list[ValidationLogits], logits: list[ValidationLogits]
    ) -> dict[str, Any]:
        """Return the entry of a variant; writes its graphs if accepted."""
        entry = judgement(floats, logits, self.rule)
        if entry["accepted"]:
            for name, (model, role, owner) in variant.graphs.items():
                self.writer.write(name, model, role, **owner)
            return {
                "chain": variant.chain,
                **entry,
                "bytes": sum(self.writer.files[file]["bytes"] for file in variant.chain),
            }
        return {"chain": None, **entry}


def judgement(floats: list[ValidationLogits], quantized: list[ValidationLogits], rule: Int8Rule) -> dict[str, Any]:
    """Compare an int8 variant with its float model on the same beats.

    Returns:
        ``accepted``, and ``reason`` if rejected; ``macro_f1_float`` and ``macro_f1`` (classes in truth or
        prediction), ``..._truth`` (classes in truth), ``agreement``, ``beats``, and the largest logit difference.
    """
    label = np.concatenate([entry.label for entry in floats]) if floats else np.empty(0, np.int64)
    if not len(label):
        return _unjudged("has no validation beat to be judged by")
    logits = [np.concatenate([entry.logits for entry in outputs]) for outputs in (floats, quantized)]
    classes = logits[0].shape[1]
    before, after = (confusion(label, entry.argmax(1), classes) for entry in logits)
    agreement = float((logits[0].argmax(1) == logits[1].argmax(1)).mean())
    entry = {
        "macro_f1_float": macro_f1(before),
        "macro_f1": macro_f1(after),
        "macro_f1_truth_float": macro_f1(before, "truth"),
        "macro_f1_truth": macro_f1(after, "truth"),
        "agreement": agreement,
        "max_logit_difference": float(np.abs(logits[0] - logits[1]).max()),
        "beats": len(label),
    }
    lost = entry["macro_f1_float"] - entry["macro_f1"]
    if lost > rule.loss:
        return {"accepted": False, "reason": f"loses {lost:.3f} of macro-F1, at most {rule.loss:g} is allowed", **entry}
    if agreement < rule.agreement:
        required = f"at least {rule.agreement:.1%} is asked for"
        return {"accepted": False, "reason": f"gives {agreement:.1%} of the same labels, {required}", **entry}
    return {"accepted": True, **entry}


def _unjudged(reason: str) -> dict[str, Any]:
    figures = ("macro_f1_float", "macro_f1", "macro_f1_truth_float", "macro_f1_truth", "agreement")
    return {"accepted": False, "reason": reason, **dict.fromkeys(figures), "max_logit_difference": None, "beats": 0}


def calibration_rows(label: NDArray[np.integer], rows: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return about ``limit`` rows, evenly spaced within each class; from a rare class up to ``MIN_PER_CLASS``.

    Args:
        label: (all,) classes.
        rows: increasing.
        limit: number of rows; if there are fewer, all are returned.
    """
    if len(rows) <= limit:
        return rows
    of_rows, chosen = label[rows], []
    for number in np.unique(of_rows).tolist():
        class_rows = rows[of_rows == number]
        count = min(len(class_rows), max(MIN_PER_CLASS, round(limit * len(class_rows) / len(rows))))
        chosen.append(class_rows[np.linspace(0, len(class_rows) - 1, count).astype(np.int64)])
    return np.sort(np.concatenate(chosen))
