"""TensorFlow Lite int8 files for microcontrollers: one file per model, validated like other int8 variants.

TensorFlow is not a dependency of ecgfed. The conversion runs as a program in a separate environment (``make tflite``,
docs/graphs.md), which receives steps and weights and returns a file and the logits of its interpreters.
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

from ecgfed.base.errors import BundleError, OptionError
from ecgfed.base.files import write_bytes
from ecgfed.core.methods.models import Model
from ecgfed.exports.bundles.calibration import CalibrationFitter, ValidationLogits, validation_rows
from ecgfed.exports.bundles.int8_variants import BEATS, BEATS_OF_ALL, NO_TRAINING, Variants, calibration_rows, judgement
from ecgfed.exports.bundles.simplify import with_batch
from ecgfed.exports.bundles.tflite_steps import steps_of
from ecgfed.exports.device.activations import activations

#: Environment variable with the Python interpreter that has TensorFlow.
PYTHON_VARIABLE = "ECGFED_TFLITE_PYTHON"
#: Its default location, created by ``make tflite``.
DEFAULT_PYTHON = Path(".venv-tflite") / "bin" / "python"
_PROGRAM = Path(__file__).with_name("tflite_convert.py")
#: Field of manifest entries, and role of the files.
TFLITE = "tflite"
#: Largest accepted difference between logits of a graph and its float TensorFlow Lite file.
FLOAT_TOLERANCE = 1e-4
_TIMEOUT_S = 3600


@dataclass(frozen=True, eq=False)
class Converted:
    """A TensorFlow Lite file in int8.

    Attributes:
        data: contents of the file.
        metadata: quantisation of inputs and logits (``quantised``: name -> scale and zero point), order of the inputs,
            operations, ``arena_bytes`` of TensorFlow Lite for Microcontrollers, versions.
        logits: (beats, classes) float32 of the beats to check, by interpreter: ``float``, ``int8``, and ``micro`` if
            TensorFlow Lite for Microcontrollers is installed.
    """

    data: bytes
    metadata: dict[str, Any]
    logits: dict[str, NDArray[np.float32]]


def tflite_python() -> Path:
    """Return the Python interpreter that has TensorFlow; raises OptionError if there is none."""
    named = os.environ.get(PYTHON_VARIABLE)
    if named is not None:
        program = shutil.which(named)
        if program is None:
            raise OptionError(PYTHON_VARIABLE, f"{named}, which is no program", "a python with TensorFlow", _HOW)
        return Path(program)
    if importlib.util.find_spec("tensorflow") is not None:
        return Path(sys.executable)
    if DEFAULT_PYTHON.is_file():
        return DEFAULT_PYTHON.absolute()
    raise OptionError("tflite", "no TensorFlow here", "an environment of its own with TensorFlow", _HOW)


_HOW = (
    "'make tflite' in ecgfed's folder, or in a new environment pip install --no-deps --require-hashes -r "
    f"constraints/lock-tflite.txt; then set {PYTHON_VARIABLE} to its python"
)


@dataclass(frozen=True, eq=False)
class Job:
    """A chain of graphs to convert.

    Attributes:
        models: the float graphs of a chain, in order.
        where: name of the chain in errors.
        calibrate: inputs of the first graph, (beats, ...), for the ranges of activations.
        check: inputs of the first graph, for the logits.
    """

    models: Sequence[onnx.ModelProto]
    where: str
    calibrate: Mapping[str, NDArray[Any]]
    check: Mapping[str, NDArray[Any]]


def tflite_of(jobs: Sequence[Job], python: Path) -> list[Converted]:
    """Convert chains of graphs to TensorFlow Lite in int8.

    Args:
        jobs: chains to convert.
        python: see ``tflite_python``.

    Raises:
        BundleError: unsupported operations (only an extractor and a head are), or a failed conversion.
    """
    with tempfile.TemporaryDirectory(prefix="ecgfed-tflite-") as temporary:
        folders = [Path(temporary) / str(number) for number in range(len(jobs))]
        for folder, job in zip(folders, jobs, strict=True):
            folder.mkdir()
            steps = steps_of(job.models, job.where)
            arrays: dict[str, NDArray[Any]] = dict(steps.weights)
            for what, feeds in (("calibrate", job.calibrate), ("check", job.check)):
                opened = with_batch(job.models[0], None)
                existing = {entry.name for entry in opened.graph.input}
                inside = [name for name in steps.fronts.values() if name not in existing]
                del opened.graph.output[:]
                opened.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in inside)
                values = {name: np.asarray(feeds[name], np.float32) for name in existing if name in feeds}
                values |= activations(opened.SerializeToString(), inside, feeds)
                for name, value in {source: values[name] for source, name in steps.fronts.items()}.items():
                    arrays[f"{what}/{name}"] = value
            np.savez(folder / "job.npz", **arrays)  # type: ignore[arg-type]  # numpy's stub takes them for allow_pickle
            (folder / "job.json").write_text(json.dumps({"inputs": steps.inputs, "steps": steps.steps}))
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "0"}
        command = [str(python), "-I", str(_PROGRAM), *map(str, folders)]
        try:
            process = subprocess.run(
                command, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise BundleError(python, f"could not convert ({problem})", "a python with TensorFlow", _HOW) from None
        if process.returncode:
            last = (process.stderr.strip().splitlines() or ["no word"])[-1]
            raise BundleError(python, f"could not convert: {last:.200}", "a python with TensorFlow", _HOW)
        return [_read(folder) for folder in folders]


def _read(folder: Path) -> Converted:
    with np.load(folder / "answers.npz", allow_pickle=False) as file:
        logits = {name: np.asarray(file[name], np.float32) for name in file.files}
    metadata: dict[str, Any] = json.loads((folder / "said.json").read_text())
    return Converted((folder / "model.tflite").read_bytes(), metadata, logits)


@dataclass
class TfliteVariants(Variants):
    """Creates, validates and writes TensorFlow Lite files for a bundle, all at the end.

    Attributes:
        python: see ``tflite_python``.
        waiting: file name -> job, owner (id or None), and logits of the float model.
        accepted: validation logits of accepted files, of the global model under None, of patients by id.
    """

    python: Path
    waiting: dict[str, tuple[Job, str | None, list[ValidationLogits]]] = field(default_factory=dict)
    accepted: dict[str | None, ValidationLogits] = field(default_factory=dict)

    def add_global(self, chain: list[str], model: Model, floats: list[ValidationLogits]) -> None:
        """Add the global model; ``floats`` are its validation logits per client."""
        rows = self.cohort.usable(self.cohort.training_pool(), self.leave_out)
        valid = [validation_rows(self.cohort, client, model) for client in self.cohort.federation]
        self._add("tflite/global.tflite", None, chain, rows, BEATS_OF_ALL, np.concatenate(valid), floats)

    def add_patient(self, name: str, chain: list[str], model: Model, floats: ValidationLogits) -> None:
        """Add the model of the patient with this id; ``floats`` are its logits on the patient's validation beats."""
        client = self.cohort.client_by_id(name)
        rows = self.cohort.usable(self.cohort.training_rows(client), self.leave_out)
        valid = validation_rows(self.cohort, client, model)
        self._add(f"tflite/patients/{client.id}.tflite", client.id, chain, rows, BEATS, valid, [floats])

    def _add(
        self,
        name: str,
        owner: str | None,
        chain: list[str],
        rows: NDArray[np.int64],
        limit: int,
        valid: NDArray[np.int64],
        floats: list[ValidationLogits],
    ) -> None:
        if not len(rows) or not len(valid):
            reason = "has no validation beat to be judged by" if len(rows) else NO_TRAINING
            self.entries[owner] = {"file": None, "accepted": False, "reason": reason, "beats": 0}
            return
        models = [onnx.load_model_from_string((self.writer.folder / file).read_bytes()) for file in chain]
        try:
            steps_of(models, chain[0])
        except BundleError as problem:  # an ensemble or a kernel machine; other models of the bundle may be nets
            reason = f"is no extractor and head of a net ({problem.reason})"
            if self.net.spec.architecture == "context":
                reason = (
                    "mixes window and RR features of version 3 before its first layer, and a file begins behind the "
                    "scaling of each input"
                )
            self.entries[owner] = {"file": None, "accepted": False, "reason": reason, "beats": 0}
            return
        calibrate = self.feeds(calibration_rows(self.cohort.label, rows, limit))
        self.waiting[name] = (Job(models, chain[0], calibrate, self.feeds(valid)), owner, floats)

    def finish_entries(
        self, patients: dict[str, dict[str, Any]], accuracy: float, global_calibration: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Convert and validate waiting models, write accepted files, and add them to the manifest's entries.

        Temperatures and thresholds are fitted on the logits of the accepted files, as for other int8 variants.

        Args:
            patients: the patients' entries by id.
            accuracy: as in ``CalibrationFitter``.
            global_calibration: the float global model's certainty, for where the global model has no file.

        Returns:
            The field of the global model.

        Raises:
            BundleError: the conversion failed, or float logits differ from those of the graph.
        """
        jobs = [job for job, _, _ in self.waiting.values()]
        converted = tflite_of(jobs, self.python) if jobs else []
        for (name, (job, owner, floats)), result in zip(self.waiting.items(), converted, strict=True):
            self.entries[owner] = self._judged(name, owner, job, floats, result)
        personal_logits = {name: logits for name, logits in self.accepted.items() if name is not None}
        global_logits = [self.accepted[None]] if None in self.accepted else []
        self.calibrate(CalibrationFitter(accuracy, global_logits, personal_logits), global_calibration)
        for client, entry in self.entries.items():
            if client is not None:
                patients[client][TFLITE] = entry
        return {TFLITE: self.entries[None]} if None in self.entries else {}

    def overview(self) -> dict[str, Any]:
        """Return the manifest's summary, which is empty: the entries are complete."""
        return {}

    def _judged(
        self, name: str, owner: str | None, job: Job, floats: list[ValidationLogits], converted: Converted
    ) -> dict[str, Any]:
        logits = np.concatenate([entry.logits for entry in floats])
        largest = float(np.abs(converted.logits["float"] - logits).max() / max(1.0, np.abs(logits).max() / 100))
        if not largest <= FLOAT_TOLERANCE:
            problem = f"TensorFlow Lite's float logits differ by {largest:.2g} from the graph's"
            raise BundleError(job.where, problem, f"at most {FLOAT_TOLERANCE:g}", "nothing was exported; report this")
        label = np.concatenate([entry.label for entry in floats])
        quantized = ValidationLogits(converted.logits["int8"], label)
        entry = judgement(floats, [quantized], self.rule)
        micro = converted.logits.get("micro")
        of_micro = None if micro is None else float(np.abs(micro - converted.logits["int8"]).max())
        metadata = {**converted.metadata, "micro_logit_difference": of_micro, "float_logit_difference": largest}
        if not entry["accepted"]:
            return {"file": None, **entry, **metadata}
        path = self.writer.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, converted.data)
        self.writer.note(name, TFLITE)
        self.accepted[owner] = quantized
        return {"file": name, **entry, "bytes": len(converted.data), **metadata}
