"""ecgfed: federated, personalised arrhythmia classifiers, from recordings to ONNX models for a device.

The verbs: ``prepare_mitbih`` (``prepare_folder``, ``prepare_demo``, ``prepare_cifar10``), ``train``, ``evaluate``,
``export``, ``predict``, ``report``, ``report_run``, ``personalize``, ``personalize_labels``; for recordings
``inspect_recording``, ``detect``, ``score_ec57``, ``convert``. What they take and give: a recording, a cohort, a run,
scores, a bundle, predictions. Everything is loaded when it is first used. Research software, not a medical device.
"""

import re
from pathlib import Path

from ecgfed.base.aliases import install

__version__ = "0.2.0"
install()  # import paths of the layout before

#: Name -> the module that has it, from the stub that type checkers read: ``from .core.runs.run import Run as Run``.
_MODULE_OF = {
    name: f"ecgfed.{module}"
    for module, name in re.findall(
        r"^from \.(\S+) import (\w+) as ", Path(__file__).with_suffix(".pyi").read_text("utf-8"), re.MULTILINE
    )
}
#: Deprecated name -> the module that has it, and warns.
_DEPRECATED = {
    "LongRecording": "ecgfed.domain.record.recording",
    "OwnModel": "ecgfed.tasks.label_personalization",
    "Watch": "ecgfed.tasks.progress",
}
__all__ = sorted(_MODULE_OF.keys() - _DEPRECATED)


def __getattr__(name: str) -> object:
    """Import the module of a public name when the name is first used."""
    from importlib import import_module

    if name in _DEPRECATED:
        return getattr(import_module(_DEPRECATED[name]), name)
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ecgfed' has no attribute {name!r}; it offers {', '.join(__all__)}")
    from ecgfed.base.extras import naming_the_extra

    with naming_the_extra(f"ecgfed.{name}"):
        value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
