"""Which models of a bundle get an int8 form: each calibrated on training beats, and judged on validation beats."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from ecgfed.bundles.calibration import Answers, Calibration, validation_rows
from ecgfed.bundles.graph_writer import GraphWriter
from ecgfed.bundles.graphs import finish
from ecgfed.bundles.quantise import quantise, read_by_layers
from ecgfed.bundles.ranges import RULES
from ecgfed.bundles.simplify import with_batch
from ecgfed.cohort.cohort import Client, Cohort
from ecgfed.cohort.split import TRAIN
from ecgfed.device.activations import activations
from ecgfed.device.classifier import Classifier
from ecgfed.device.graph import check_graph
from ecgfed.device.int8 import INT8
from ecgfed.evaluation.scores import confusion, macro_f1
from ecgfed.methods.models import Model
from ecgfed.nets.net import Net

#: Roles whose layers become int8. A patient's kernel machine and gate stay float: they compare distances to the kept
#: beats, which an int8 step would make equal.
QUANTISED = ("model", "ensemble", "extractor", "describer", "head", "linear", "decoupled")
#: Training beats whose activations are looked at: a patient's, and of all patients for the global model. Of a graph
#: that has more layers than a net of ours (an ensemble) as many fewer, but never less than the last.
BEATS, BEATS_OF_ALL, LAYERS, LEAST_BEATS = 512, 1024, 16, 64
#: Of a class at least so many of them, where it has as many.
LEAST_OF_CLASS = 16
#: Why a form is refused that nobody made.
NO_TRAINING = "has no training beat to be calibrated on"
#: What every graph in int8 says of itself.
PRECISION = {"precision": "int8"}


@dataclass(frozen=True)
class Int8Rule:
    """When an int8 form is accepted, and how it is made.

    Attributes:
        loss: the most macro-F1 (classes in truth or prediction) that it may lose on validation beats.
        agreement: the least share of validation beats that it labels as the float model does.
        ranges: how activations are calibrated, a name of ``ecgfed.bundles.ranges.RULES``.
    """

    loss: float = 0.01
    agreement: float = 0.99
    ranges: str = "percentile"


@dataclass(frozen=True, eq=False)
class _Form:
    """A chain in int8 that has not been judged.

    Attributes:
        chain: the names of its graphs, float ones among them where a part stays float.
        made: graphs to be written, with role and whose they are.
        classifier: runs it.
    """

    chain: list[str]
    made: dict[str, tuple[onnx.ModelProto, str, dict[str, str]]]
    classifier: Classifier


@dataclass
class Int8Forms:
    """Makes, judges and writes int8 forms beside a bundle's float graphs.

    Attributes:
        writer: of the float graphs; it writes those in int8 too, once they are accepted.
        net: whose graphs they are.
        cohort: the beats to calibrate and to judge on.
        leave_out: training beats that took no part, as in ``TrainPlan``.
        rule: see there.
        entries: the field ``int8`` of the manifest's entries: the global model's under None, patients' by id.
        everyone: what the global model's form said of validation beats, where it was accepted.
        own: what each patient's said, where it was accepted.
    """

    writer: GraphWriter
    net: Net
    cohort: Cohort
    leave_out: str
    rule: Int8Rule
    entries: dict[str | None, dict[str, Any]] = field(default_factory=dict)
    everyone: list[Answers] = field(default_factory=list)
    own: dict[str, Answers] = field(default_factory=dict)
    _global: tuple[list[str], _Form] | None = None

    def add_everyone(self, chain: list[str], answer: Model, floats: list[Answers]) -> None:
        """Make and judge the int8 form of the global model; write it where it is accepted.

        Args:
            chain: its float graphs.
            answer: the model.
            floats: what it says of validation beats, client after client.
        """
        rows = self.cohort.usable(self.cohort.pool(TRAIN), self.leave_out)
        if not len(rows):
            self.entries[None] = {"chain": None, **_unjudged(NO_TRAINING)}
            return
        form = self._made(chain, rows, BEATS_OF_ALL, None)
        self._global = (chain, form)
        found = [self._answers(form, validation_rows(self.cohort, one, answer)) for one in self.cohort.federation]
        self.entries[None] = self._judged(form, floats, found)
        if self.entries[None]["accepted"]:
            self.everyone += found

    def add_patient(self, name: str, chain: list[str], answer: Model, floats: Answers) -> None:
        """Make and judge the int8 form of a patient's model, as ``add_everyone`` does.

        Args:
            name: the patient's id in cohort and manifest.
            chain: the model's float graphs; where they are the global model's own, so is the int8 form.
            answer: the model.
            floats: what it says of the patient's validation beats.
        """
        client = self.cohort.client_by_id(name)
        if self._global is not None and self._global[0] == chain:
            form = self._global[1]
        else:
            rows = self.cohort.usable(self.cohort.rows(client, TRAIN), self.leave_out)
            if not len(rows):
                self.entries[name] = {"chain": None, **_unjudged(NO_TRAINING)}
                return
            form = self._made(chain, rows, BEATS, client)
        found = self._answers(form, validation_rows(self.cohort, client, answer))
        self.entries[name] = self._judged(form, [floats], [found])
        if self.entries[name]["accepted"]:
            self.own[name] = found

    def said(
        self, patients: dict[str, dict[str, Any]], accuracy: float, everyone: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Write what became of the forms into the manifest's entries; return the field of the global one.

        Temperatures and thresholds are fitted on what the accepted forms themselves say, by the rules of float models.

        Args:
            patients: the patients' entries by id.
            accuracy: as in ``Calibration``.
            everyone: the float global model's certainty, whose threshold serves patients with few validation beats
                where the global model has no int8 form.
        """
        calibration = Calibration(accuracy, self.everyone, self.own)
        of_all = calibration.of_everyone() if self.everyone else everyone
        if self.everyone:
            self.entries[None]["certainty"] = of_all
        for name, certainty in calibration.of_patients(of_all).items():
            self.entries[name]["certainty"] = certainty
        for client, entry in self.entries.items():
            if client is not None:
                patients[client][INT8] = entry
        return {INT8: self.entries[None]}

    def overview(self) -> dict[str, Any]:
        """Return the manifest's field of all of them: the rule, and how many patients' were accepted."""
        accepted = [entry["accepted"] for name, entry in self.entries.items() if name is not None]
        about = {
            "loss": self.rule.loss,
            "agreement": self.rule.agreement,
            "ranges": self.rule.ranges,
            "judged_on": "valid",
            "accepted": accepted.count(True),
            "refused": accepted.count(False),
        }
        return {INT8: about}

    def _made(self, chain: list[str], rows: NDArray[np.int64], most: int, client: Client | None) -> _Form:
        """Return a chain in int8, calibrated on some training beats."""
        feeds, names, graphs, made = None, [], [], {}
        for file in chain:
            role = str(self.writer.files[file]["role"])
            data = (self.writer.folder / file).read_bytes()
            if role not in QUANTISED:
                names.append(file)
                graphs.append(check_graph(self.writer.folder / file, data))
                continue
            model = with_batch(onnx.load_model_from_string(data), None)  # any number of beats, to look at them
            layers = read_by_layers(model)
            if feeds is None:
                count = max(LEAST_BEATS, most * LAYERS // max(LAYERS, len(layers)))
                feeds = self._feeds(calibration_rows(self.cohort.label, rows, count))
            ranges = {name: RULES[self.rule.ranges](values) for name, values in _watched(model, layers, feeds).items()}
            name = "int8/global.onnx" if client is None else f"int8/{role}/{client.id}.onnx"
            whose = {} if client is None else {"client": client.id, "patient": client.patient}
            form = quantise(model, ranges)
            data = finish(form, {**self.writer.properties, "role": role, **PRECISION, **whose})
            graph = check_graph(self.writer.folder / name, data)
            made[name] = (form, role, {**PRECISION, **whose})
            names.append(name)
            graphs.append(graph)
            if file != chain[-1]:  # the next part is calibrated on what this one gives it in int8
                feeds = activations(data, [graph.output.name], feeds)
        rr_version = self.net.spec.rr_version if self.net.spec.rr else 0
        return _Form(names, made, Classifier(graphs, self.cohort.classes, rr_version))

    def _feeds(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        feeds: dict[str, NDArray[Any]] = {self.net.input_name: np.take(self.cohort.examples, rows, axis=0)}
        return {**feeds, "rr": self.cohort.rr[rows]} if self.net.spec.rr else feeds

    def _answers(self, form: _Form, rows: NDArray[np.int64]) -> Answers:
        feeds = self._feeds(rows)
        if self.net.spec.modality == "image":
            logits = form.classifier.image_logits(feeds[self.net.input_name])
        else:
            logits = form.classifier.logits(feeds[self.net.input_name], feeds.get("rr"))
        return Answers(logits, self.cohort.label[rows].astype(np.int64))

    def _judged(self, form: _Form, floats: list[Answers], found: list[Answers]) -> dict[str, Any]:
        """Return the entry of a form; its graphs are written where it is accepted."""
        entry = judgement(floats, found, self.rule)
        if entry["accepted"]:
            for name, (model, role, whose) in form.made.items():
                self.writer.write(name, model, role, **whose)
            return {"chain": form.chain, **entry, "bytes": sum(self.writer.files[one]["bytes"] for one in form.chain)}
        return {"chain": None, **entry}


def judgement(floats: list[Answers], found: list[Answers], rule: Int8Rule) -> dict[str, Any]:
    """Compare what an int8 form says with what its float model does, on the same beats.

    Returns:
        ``accepted``, and ``reason`` where it is not; ``macro_f1_float`` and ``macro_f1`` (classes in truth or
        prediction), ``..._truth`` (classes in truth), ``agreement``, ``beats``, and the largest difference of a logit.
    """
    label = np.concatenate([one.label for one in floats]) if floats else np.empty(0, np.int64)
    if not len(label):
        return _unjudged("has no validation beat to be judged by")
    logits = [np.concatenate([one.logits for one in answers]) for answers in (floats, found)]
    classes = logits[0].shape[1]
    before, after = (confusion(label, one.argmax(1), classes) for one in logits)
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
        least = f"at least {rule.agreement:.1%} is asked for"
        return {"accepted": False, "reason": f"gives {agreement:.1%} of the same labels, {least}", **entry}
    return {"accepted": True, **entry}


def _unjudged(reason: str) -> dict[str, Any]:
    figures = ("macro_f1_float", "macro_f1", "macro_f1_truth_float", "macro_f1_truth", "agreement")
    return {"accepted": False, "reason": reason, **dict.fromkeys(figures), "max_logit_difference": None, "beats": 0}


def calibration_rows(label: NDArray[np.integer], rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return about ``most`` of some rows, evenly taken from each class; of a rare class up to ``LEAST_OF_CLASS``.

    Args:
        label: (all,) classes.
        rows: increasing.
        most: how many; fewer rows come back as they are.
    """
    if len(rows) <= most:
        return rows
    of_rows, chosen = label[rows], []
    for number in np.unique(of_rows).tolist():
        own = rows[of_rows == number]
        count = min(len(own), max(LEAST_OF_CLASS, round(most * len(own) / len(rows))))
        chosen.append(own[np.linspace(0, len(own) - 1, count).astype(np.int64)])
    return np.sort(np.concatenate(chosen))


def _watched(
    model: onnx.ModelProto, names: list[str], feeds: dict[str, NDArray[Any]]
) -> dict[str, NDArray[np.float32]]:
    """Return what some values of a graph are for some beats."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    there = {entry.name for entry in (*model.graph.input, *model.graph.output)}
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names if name not in there)
    inside = [name for name in names if name not in feeds]
    return {name: feeds[name] for name in names if name in feeds} | activations(
        watched.SerializeToString(), inside, feeds
    )
