"""TensorFlow Lite in int8 for microcontrollers: one file a model, judged on validation beats as int8 forms are.

TensorFlow is no part of ecgfed's environment. The conversion runs in one of its own (``make tflite``, docs/graphs.md),
as a program that gets steps and weights and gives back a file and what interpreters answer with it.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from ecgfed.bundles.calibration import Answers, Calibration, validation_rows
from ecgfed.bundles.graph_writer import GraphWriter
from ecgfed.bundles.int8_choice import BEATS, BEATS_OF_ALL, NO_TRAINING, Int8Rule, calibration_rows, judgement
from ecgfed.bundles.simplify import with_batch
from ecgfed.bundles.tflite_steps import Steps, steps_of
from ecgfed.cohort.cohort import Cohort
from ecgfed.cohort.split import TRAIN
from ecgfed.device.activations import activations
from ecgfed.errors import BundleError, OptionError
from ecgfed.files import write_bytes
from ecgfed.methods.models import Model
from ecgfed.nets.net import Net

#: Names the python that has TensorFlow.
PYTHON_VARIABLE = "ECGFED_TFLITE_PYTHON"
#: Where ``make tflite`` puts it.
MADE = Path(".venv-tflite") / "bin" / "python"
_PROGRAM = Path(__file__).with_name("tflite_convert.py")
#: The field of a manifest's entries, and the role of the files.
TFLITE = "tflite"
#: Largest difference of a logit between the graph and its float TensorFlow Lite file that is let through.
FLOAT_TOLERANCE = 1e-4
_TIMEOUT_S = 3600


@dataclass(frozen=True, eq=False)
class Converted:
    """A TensorFlow Lite file in int8.

    Attributes:
        data: the file.
        said: how inputs and logits are quantised (``quantised``: name -> scale and zero point), the order of the
            inputs, the operations, ``arena_bytes`` of TensorFlow Lite for Microcontrollers, versions.
        logits: (beats, classes) float32 of the beats to check, by who answered: ``float``, ``int8``, ``micro`` where
            TensorFlow Lite for Microcontrollers is there.
    """

    data: bytes
    said: dict[str, Any]
    logits: dict[str, NDArray[np.float32]]


def tflite_python() -> Path:
    """Return the python that has TensorFlow; raises OptionError where there is none."""
    named = os.environ.get(PYTHON_VARIABLE)
    if named is not None:
        found = shutil.which(named)
        if found is None:
            raise OptionError(PYTHON_VARIABLE, f"{named}, which is no program", "a python with TensorFlow", _HOW)
        return Path(found)
    if importlib.util.find_spec("tensorflow") is not None:
        return Path(sys.executable)
    if MADE.is_file():
        return MADE.absolute()
    raise OptionError("--tflite", "no TensorFlow here", "an environment of its own with TensorFlow", _HOW)


_HOW = (
    "'make tflite' in ecgfed's folder, or in a new environment pip install --no-deps --require-hashes -r "
    f"constraints/lock-tflite.txt; then set {PYTHON_VARIABLE} to its python"
)


@dataclass(frozen=True, eq=False)
class Job:
    """A chain of graphs to convert.

    Attributes:
        models: the float graphs, each taking what the one before it gives.
        where: names them in errors.
        calibrate: inputs of the first graph, (beats, ...): what decides the ranges of activations.
        check: likewise: what is answered with the file.
    """

    models: Sequence[onnx.ModelProto]
    where: str
    calibrate: Mapping[str, NDArray[Any]]
    check: Mapping[str, NDArray[Any]]


def tflite_of(jobs: Sequence[Job], python: Path) -> list[Converted]:
    """Convert chains of graphs to TensorFlow Lite in int8.

    Args:
        jobs: what to convert.
        python: see ``tflite_python``.

    Raises:
        BundleError: a graph that holds more than a net's extractor and head, or the conversion failed.
    """
    with tempfile.TemporaryDirectory(prefix="ecgfed-tflite-") as temporary:
        folders = [Path(temporary) / str(number) for number in range(len(jobs))]
        for folder, job in zip(folders, jobs, strict=True):
            folder.mkdir()
            _write(folder, job)
        _run(python, folders)
        return [_read(folder) for folder in folders]


def _write(folder: Path, job: Job) -> None:
    steps = steps_of(job.models, job.where)
    arrays: dict[str, NDArray[Any]] = dict(steps.weights)
    for what, feeds in (("calibrate", job.calibrate), ("check", job.check)):
        for name, value in _fronts(job.models[0], steps, feeds).items():
            arrays[f"{what}/{name}"] = value
    np.savez(folder / "job.npz", **arrays)  # type: ignore[arg-type]  # numpy's stub takes them for allow_pickle
    (folder / "job.json").write_text(json.dumps({"inputs": steps.inputs, "steps": steps.steps}))


def _fronts(model: onnx.ModelProto, steps: Steps, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return the net's inputs behind their scaling, for some beats."""
    opened = with_batch(model, None)
    there = {entry.name for entry in opened.graph.input}
    inside = [name for name in steps.fronts.values() if name not in there]
    del opened.graph.output[:]
    opened.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in inside)
    found = {name: np.asarray(feeds[name], np.float32) for name in there if name in feeds}
    found |= activations(opened.SerializeToString(), inside, feeds)
    return {source: found[name] for source, name in steps.fronts.items()}


def _run(python: Path, folders: Sequence[Path]) -> None:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "0"}
    command = [str(python), "-I", str(_PROGRAM), *map(str, folders)]
    try:
        done = subprocess.run(
            command, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise BundleError(python, f"could not convert ({problem})", "a python with TensorFlow", _HOW) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise BundleError(python, f"could not convert: {last:.200}", "a python with TensorFlow", _HOW)


def _read(folder: Path) -> Converted:
    with np.load(folder / "answers.npz", allow_pickle=False) as file:
        logits = {name: np.asarray(file[name], np.float32) for name in file.files}
    said: dict[str, Any] = json.loads((folder / "said.json").read_text())
    return Converted((folder / "model.tflite").read_bytes(), said, logits)


@dataclass
class TfliteForms:
    """Makes, judges and writes TensorFlow Lite files beside a bundle's graphs, all of them at the end.

    Attributes:
        writer: of the float graphs.
        net: whose graphs they are.
        cohort: the beats to calibrate and to judge on.
        leave_out: training beats that took no part, as in ``TrainPlan``.
        rule: when a file is accepted.
        python: see ``tflite_python``.
        waiting: name of the file -> what is to be made, whose it is, and what the float model says of the beats.
        entries: the field ``tflite`` of the manifest's entries: the global model's under None, patients' by id.
        found: what the accepted files say of validation beats, likewise.
    """

    writer: GraphWriter
    net: Net
    cohort: Cohort
    leave_out: str
    rule: Int8Rule
    python: Path
    waiting: dict[str, tuple[Job, str | None, list[Answers]]] = field(default_factory=dict)
    entries: dict[str | None, dict[str, Any]] = field(default_factory=dict)
    found: dict[str | None, Answers] = field(default_factory=dict)

    def add_everyone(self, chain: list[str], answer: Model, floats: list[Answers]) -> None:
        """Take the global model; ``floats`` is what it says of validation beats, client after client."""
        rows = self.cohort.usable(self.cohort.pool(TRAIN), self.leave_out)
        valid = [validation_rows(self.cohort, one, answer) for one in self.cohort.federation]
        self._add("tflite/global.tflite", None, chain, rows, BEATS_OF_ALL, np.concatenate(valid), floats)

    def add_patient(self, name: str, chain: list[str], answer: Model, floats: Answers) -> None:
        """Take the model of the patient with this id; ``floats`` is what it says of the patient's validation beats."""
        client = self.cohort.client_by_id(name)
        rows = self.cohort.usable(self.cohort.rows(client, TRAIN), self.leave_out)
        valid = validation_rows(self.cohort, client, answer)
        self._add(f"tflite/patients/{client.id}.tflite", client.id, chain, rows, BEATS, valid, [floats])

    def _add(
        self,
        name: str,
        whose: str | None,
        chain: list[str],
        rows: NDArray[np.int64],
        most: int,
        valid: NDArray[np.int64],
        floats: list[Answers],
    ) -> None:
        if not len(rows) or not len(valid):
            reason = "has no validation beat to be judged by" if len(rows) else NO_TRAINING
            self.entries[whose] = {"file": None, "accepted": False, "reason": reason, "beats": 0}
            return
        models = [onnx.load_model_from_string((self.writer.folder / one).read_bytes()) for one in chain]
        try:
            steps_of(models, chain[0])
        except BundleError as problem:  # an ensemble, a kernel machine: others of the bundle may well be nets
            reason = f"is no extractor and head of a net ({problem.reason})"
            self.entries[whose] = {"file": None, "accepted": False, "reason": reason, "beats": 0}
            return
        calibrate = self._feeds(calibration_rows(self.cohort.label, rows, most))
        self.waiting[name] = (Job(models, chain[0], calibrate, self._feeds(valid)), whose, floats)

    def _feeds(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        feeds: dict[str, NDArray[Any]] = {self.net.input_name: np.take(self.cohort.examples, rows, axis=0)}
        return {**feeds, "rr": self.cohort.rr[rows]} if self.net.spec.rr else feeds

    def said(
        self, patients: dict[str, dict[str, Any]], accuracy: float, everyone: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Convert and judge what waits, write what is accepted, and say so in the manifest's entries.

        Temperatures and thresholds are fitted on what the accepted files themselves say, as for int8 forms.

        Args:
            patients: the patients' entries by id.
            accuracy: as in ``Calibration``.
            everyone: the float global model's certainty, for where the global model has no file.

        Returns:
            The field of the global one.

        Raises:
            BundleError: the conversion failed, or answers in float otherwise than the graph.
        """
        jobs = [job for job, _, _ in self.waiting.values()]
        made = tflite_of(jobs, self.python) if jobs else []
        for (name, (job, whose, floats)), one in zip(self.waiting.items(), made, strict=True):
            self.entries[whose] = self._judged(name, whose, job, floats, one)
        own = {name: answers for name, answers in self.found.items() if name is not None}
        calibration = Calibration(accuracy, [self.found[None]] if None in self.found else [], own)
        of_all = calibration.of_everyone() if None in self.found else everyone
        if None in self.found:
            self.entries[None]["certainty"] = of_all
        for patient, certainty in calibration.of_patients(of_all).items():
            self.entries[patient]["certainty"] = certainty
        for client, entry in self.entries.items():
            if client is not None:
                patients[client][TFLITE] = entry
        return {TFLITE: self.entries[None]} if None in self.entries else {}

    def overview(self) -> dict[str, Any]:
        """Return the manifest's field of all of them: there is none, each entry says it all."""
        return {}

    def _judged(self, name: str, whose: str | None, job: Job, floats: list[Answers], made: Converted) -> dict[str, Any]:
        logits = np.concatenate([one.logits for one in floats])
        apart = float(np.abs(made.logits["float"] - logits).max() / max(1.0, np.abs(logits).max() / 100))
        if not apart <= FLOAT_TOLERANCE:
            found = f"TensorFlow Lite's float logits differ by {apart:.2g} from the graph's"
            raise BundleError(job.where, found, f"at most {FLOAT_TOLERANCE:g}", "nothing was exported; report this")
        label = np.concatenate([one.label for one in floats])
        answers = Answers(made.logits["int8"], label)
        entry = judgement(floats, [answers], self.rule)
        micro = made.logits.get("micro")
        of_micro = None if micro is None else float(np.abs(micro - made.logits["int8"]).max())
        about = {**made.said, "micro_logit_difference": of_micro, "float_logit_difference": apart}
        if not entry["accepted"]:
            return {"file": None, **entry, **about}
        path = self.writer.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, made.data)
        self.writer.note(name, TFLITE)
        self.found[whose] = answers
        return {"file": name, **entry, "bytes": len(made.data), **about}
