"""ecgfed: federated, personalised arrhythmia classifiers, from recordings to ONNX models for a device.

The verbs: ``prepare_mitbih`` (``prepare_folder``, ``prepare_demo``, ``prepare_cifar10``), ``train``, ``evaluate``,
``export``, ``predict``, ``report``, ``report_run``, ``personalize``, ``personalize_labels``; for recordings
``inspect_recording``, ``detect``, ``score_ec57``, ``convert``. What they take and give: a recording, a cohort, a run,
scores, a bundle, predictions. Everything is loaded when it is first used. Research software, not a medical device.
"""

from typing import TYPE_CHECKING

from ecgfed.base.aliases import install

__version__ = "0.2.0"
install()  # import paths of the layout before

if TYPE_CHECKING:
    from ecgfed.base.errors import EcgfedError
    from ecgfed.core.evaluation.result import Scores
    from ecgfed.core.runs.run import Run, open_run
    from ecgfed.domain.beats.labels import LabelMap
    from ecgfed.domain.cohort.cohort import Cohort, open_cohort
    from ecgfed.domain.events.rules import EventRules
    from ecgfed.domain.record.opening import open_recording
    from ecgfed.domain.record.reader import read_annotation, read_recording
    from ecgfed.domain.record.recording import Annotation, LongRecording, ReadOptions, Recording
    from ecgfed.exports.device.bundle import Bundle, open_bundle
    from ecgfed.exports.device.classifier import Classifier
    from ecgfed.exports.device.predictions import Predictions
    from ecgfed.tasks.convert import Conversion, convert
    from ecgfed.tasks.detect import Detections, detect
    from ecgfed.tasks.ec57 import Ec57Scores, score_ec57
    from ecgfed.tasks.evaluate import evaluate
    from ecgfed.tasks.export import export
    from ecgfed.tasks.inspect import Inspection, inspect_recording
    from ecgfed.tasks.label import Labelling, label
    from ecgfed.tasks.own_model import OwnModel
    from ecgfed.tasks.personalize import PersonalModel, personalize
    from ecgfed.tasks.personalize_labels import personalize_labels
    from ecgfed.tasks.predict import predict
    from ecgfed.tasks.predict_batch import Batch, predict_batch
    from ecgfed.tasks.prepare import prepare_demo, prepare_folder, prepare_mitbih, unpack_cohort
    from ecgfed.tasks.prepare_images import prepare_cifar10
    from ecgfed.tasks.report import RecordingReport, report
    from ecgfed.tasks.report_run import RunReport, report_run
    from ecgfed.tasks.train import train, train_seeds
    from ecgfed.tasks.watch import EcgfedWarning, Watch

#: name -> the module that has it
_WHERE = {
    "prepare_mitbih": "tasks.prepare",
    "prepare_folder": "tasks.prepare",
    "prepare_demo": "tasks.prepare",
    "prepare_cifar10": "tasks.prepare_images",
    "unpack_cohort": "tasks.prepare",
    "train": "tasks.train",
    "train_seeds": "tasks.train",
    "evaluate": "tasks.evaluate",
    "export": "tasks.export",
    "predict": "tasks.predict",
    "predict_batch": "tasks.predict_batch",
    "personalize": "tasks.personalize",
    "personalize_labels": "tasks.personalize_labels",
    "label": "tasks.label",
    "report": "tasks.report",
    "report_run": "tasks.report_run",
    "inspect_recording": "tasks.inspect",
    "detect": "tasks.detect",
    "score_ec57": "tasks.ec57",
    "convert": "tasks.convert",
    "open_recording": "domain.record.opening",
    "read_recording": "domain.record.reader",
    "read_annotation": "domain.record.reader",
    "open_cohort": "domain.cohort.cohort",
    "open_run": "core.runs.run",
    "open_bundle": "exports.device.bundle",
    "Annotation": "domain.record.recording",
    "Batch": "tasks.predict_batch",
    "Bundle": "exports.device.bundle",
    "Classifier": "exports.device.classifier",
    "Cohort": "domain.cohort.cohort",
    "Conversion": "tasks.convert",
    "Detections": "tasks.detect",
    "Ec57Scores": "tasks.ec57",
    "EcgfedError": "base.errors",
    "EcgfedWarning": "tasks.watch",
    "EventRules": "domain.events.rules",
    "Inspection": "tasks.inspect",
    "LabelMap": "domain.beats.labels",
    "LongRecording": "domain.record.recording",
    "OwnModel": "tasks.own_model",
    "PersonalModel": "tasks.personalize",
    "Predictions": "exports.device.predictions",
    "ReadOptions": "domain.record.recording",
    "Recording": "domain.record.recording",
    "Labelling": "tasks.label",
    "RecordingReport": "tasks.report",
    "Run": "core.runs.run",
    "RunReport": "tasks.report_run",
    "Scores": "core.evaluation.result",
    "Watch": "tasks.watch",
}

__all__ = [
    "Annotation",
    "Batch",
    "Bundle",
    "Classifier",
    "Cohort",
    "Conversion",
    "Detections",
    "Ec57Scores",
    "EcgfedError",
    "EcgfedWarning",
    "EventRules",
    "Inspection",
    "LabelMap",
    "Labelling",
    "LongRecording",
    "OwnModel",
    "PersonalModel",
    "Predictions",
    "ReadOptions",
    "Recording",
    "RecordingReport",
    "Run",
    "RunReport",
    "Scores",
    "Watch",
    "convert",
    "detect",
    "evaluate",
    "export",
    "inspect_recording",
    "label",
    "open_bundle",
    "open_cohort",
    "open_recording",
    "open_run",
    "personalize",
    "personalize_labels",
    "predict",
    "predict_batch",
    "prepare_cifar10",
    "prepare_demo",
    "prepare_folder",
    "prepare_mitbih",
    "read_annotation",
    "read_recording",
    "report",
    "report_run",
    "score_ec57",
    "train",
    "train_seeds",
    "unpack_cohort",
]


def __getattr__(name: str) -> object:
    """Load what is asked for, the first time it is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module 'ecgfed' has no attribute {name!r}; it offers {', '.join(__all__)}")
    from importlib import import_module

    from ecgfed.base.extras import naming_the_extra

    with naming_the_extra(f"ecgfed.{name}"):
        value = getattr(import_module(f"ecgfed.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
