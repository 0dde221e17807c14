"""What is counted of one patient: the rows of ``evaluate``'s scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ecgfed.core.evaluation.metrics import MetricValue


@dataclass(frozen=True)
class PatientScores:
    """Confusion matrices and metrics of a client's personal model.

    Attributes:
        client: id of the client.
        personal: the personal model on the patient's beats, (classes, classes).
        pool: the personal model on all patients' beats.
        global_: the global model on the patient's beats.
        mix: (classes,) class distribution of the patient's training beats.
        on_drawn: scores of the personal model on the beats of drawn patients (``Resampled.by_class_of``).
        metrics: model, ``personal`` or ``global`` -> metric -> its value on the patient's beats.
    """

    client: str
    personal: NDArray[np.int64]
    pool: NDArray[np.int64]
    global_: NDArray[np.int64]
    mix: NDArray[np.float64]
    on_drawn: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, MetricValue]] = field(default_factory=dict)
