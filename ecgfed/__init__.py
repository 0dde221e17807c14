"""ecgfed: federated, personalised arrhythmia classifiers, from recordings to ONNX models for a device.

The verbs: ``prepare_mitbih`` (``prepare_folder``, ``prepare_demo``, ``prepare_cifar10``), ``train``, ``evaluate``,
``export``, ``predict``, ``report``, ``report_run``, ``personalize``, ``personalize_labels``; for recordings
``inspect_recording``, ``detect``, ``score_ec57``, ``convert``. What they take and give: a recording, a cohort, a run,
scores, a bundle, predictions. Everything is loaded when it is first used. Research software, not a medical device.
"""

from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from ecgfed.beats.labels import LabelMap
    from ecgfed.cohort.cohort import Cohort, open_cohort
    from ecgfed.device.bundle import Bundle, open_bundle
    from ecgfed.device.classifier import Classifier
    from ecgfed.device.predictions import Predictions
    from ecgfed.errors import EcgfedError
    from ecgfed.evaluation.result import Scores
    from ecgfed.events.rules import EventRules
    from ecgfed.record.opening import open_recording
    from ecgfed.record.reader import read_annotation, read_recording
    from ecgfed.record.recording import Annotation, LongRecording, ReadOptions, Recording
    from ecgfed.runs.run import Run, open_run
    from ecgfed.tasks.convert import Conversion, convert
    from ecgfed.tasks.detect import Detections, detect
    from ecgfed.tasks.ec57 import Ec57Scores, score_ec57
    from ecgfed.tasks.evaluate import evaluate
    from ecgfed.tasks.export import export
    from ecgfed.tasks.inspect import Inspection, inspect_recording
    from ecgfed.tasks.label import Labelling, label
    from ecgfed.tasks.label_personalization import LabelPersonalization
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
    "open_recording": "record.opening",
    "read_recording": "record.reader",
    "read_annotation": "record.reader",
    "open_cohort": "cohort.cohort",
    "open_run": "runs.run",
    "open_bundle": "device.bundle",
    "Annotation": "record.recording",
    "Batch": "tasks.predict_batch",
    "Bundle": "device.bundle",
    "Classifier": "device.classifier",
    "Cohort": "cohort.cohort",
    "Conversion": "tasks.convert",
    "Detections": "tasks.detect",
    "Ec57Scores": "tasks.ec57",
    "EcgfedError": "errors",
    "EcgfedWarning": "tasks.watch",
    "EventRules": "events.rules",
    "Inspection": "tasks.inspect",
    "LabelMap": "beats.labels",
    "LabelPersonalization": "tasks.label_personalization",
    "LongRecording": "record.recording",
    "PersonalModel": "tasks.personalize",
    "Predictions": "device.predictions",
    "ReadOptions": "record.recording",
    "Recording": "record.recording",
    "Labelling": "tasks.label",
    "RecordingReport": "tasks.report",
    "Run": "runs.run",
    "RunReport": "tasks.report_run",
    "Scores": "evaluation.result",
    "Watch": "tasks.watch",
}

#: deprecated name -> the module that has it, which warns of it
_DEPRECATED = {"OwnModel": "tasks.label_personalization"}

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
    "LabelPersonalization",
    "Labelling",
    "LongRecording",
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
    """Import a public name when it is first used."""
    from importlib import import_module

    if name in _DEPRECATED:
        return getattr(import_module(f"ecgfed.{_DEPRECATED[name]}"), name)
    if name not in _WHERE:
        raise AttributeError(f"module 'ecgfed' has no attribute {name!r}; it offers {', '.join(__all__)}")
    from ecgfed.extras import naming_the_extra

    with naming_the_extra(f"ecgfed.{name}"):
        value = getattr(import_module(f"ecgfed.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
